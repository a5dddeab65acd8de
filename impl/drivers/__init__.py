"""Drivers: the environments agents run in."""
