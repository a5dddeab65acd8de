"""The Builder: an agent that makes agents, on the same loop as every other."""
