"""MCP, both ways: `client` speaks to the servers a bundle declares, `server` offers our tools to agent CLIs."""
