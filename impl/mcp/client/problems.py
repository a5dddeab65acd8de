"""What can be wrong with an MCP server, as codes a model and a person can act on."""

from __future__ import annotations

import secrets
from typing import Final

UNAVAILABLE: Final = "mcp_unavailable"  #: it does not start, cannot be reached, or ended
TIMEOUT: Final = "mcp_timeout"  #: it did not answer in its time
PROTOCOL: Final = "mcp_protocol"  #: what it says is not MCP
AUTH: Final = "mcp_auth"  #: it does not accept the credential, or wants one
ERROR: Final = "mcp_error"  #: it answered with an error of its own

OURS: Final = secrets.token_hex(16)
"""Marks an error that is ours and not the server's; no server gets to see it."""


class McpProblem(Exception):
    """A server cannot do it. `code` is one of the above, or a `DenialReason` where a request of ours was not
    performed; `sent` is whether what was asked for may have been done."""

    def __init__(self, code: str, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.sent = sent


def plain(text: str, limit: int) -> str:
    """A server's words on one line: no control, formatting or invisible characters, at most `limit` characters."""
    kept = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    line = " ".join(kept.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
