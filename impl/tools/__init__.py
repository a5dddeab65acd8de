"""Generated tools: running an agent's own code in a sandbox with no network and no secret."""
