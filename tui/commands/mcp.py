"""`artificer mcp`: the tools of a running session for an MCP client, over standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from tui.commands import output
from tui.commands.hosting import build_host
from tui.commands.sessions import find


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(hidden=True)(mcp)  # programs call it, not people


def mcp(session: Annotated[str, typer.Option("--session", help="The session's id, or its beginning.")]) -> int:
    """Offer a running session's tools to an MCP client, on standard input and output."""
    from impl.mcp.server import pump

    host = build_host()
    info = find(host, session)
    path = host.store.owner_socket(info.id)
    if path is None:
        message = f"No living process drives {info.id}."
        raise output.Refused("not_running", message, f"Drive it first: artificer resume {info.id}")
    host.store.close()
    pump(info.id, str(path))
    return 0
