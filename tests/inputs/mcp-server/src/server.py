"""Tide tables as tools."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("tides")
