"""MCP servers that a bundle declares: their tools for the loop, over HTTPS or from a sandbox."""
