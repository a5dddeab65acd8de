"""How other processes reach the one that drives a session: one JSON line each way over its Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from core import Host, LaunchInput, NoSuchSession, Supervisor

DEADLINE_S = 5.0
LONGEST_LINE = 4_000_000


async def serve(host: Host, supervisor: Supervisor) -> asyncio.Server:
    """Listen on this process's socket for interrupt, answer and say. Close the server when done."""
    path = host.store.own_socket()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), DEADLINE_S)
            reply = _act(host, supervisor, json.loads(line))
        except (ValueError, TimeoutError, ConnectionError) as error:
            reply = {"ok": False, "message": str(error)}
        with contextlib.suppress(ConnectionError):
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve_one, path=str(path), limit=LONGEST_LINE)
    os.chmod(path, 0o600)
    return server


def _act(host: Host, supervisor: Supervisor, request: Any) -> dict[str, Any]:
    if not isinstance(request, dict) or not isinstance(request.get("session"), str):
        return {"ok": False, "message": "not a request"}
    session, text = request["session"], request.get("text")
    match request.get("op"):
        case "interrupt":
            return {"ok": supervisor.interrupt(session)}
        case "answer" | "say" if isinstance(text, str):
            launch = LaunchInput(host=host, session=session, task=text)
            try:
                supervisor.resume(launch if request["op"] == "say" else _answering(launch, text))
            except NoSuchSession:
                return {"ok": False, "message": "no such session"}
            return {"ok": True}
        case _:
            return {"ok": False, "message": "unknown request"}


def _answering(launch: LaunchInput, text: str) -> LaunchInput:
    return LaunchInput(host=launch.host, session=launch.session, answer=text)


def deliver(host: Host, session: str, op: str, text: str | None = None) -> bool:
    """Send `interrupt`, `answer` or `say` to the process that drives `session`.

    False where no living process does, or it does not take it. Blocks for at most five seconds.
    """
    path = host.store.owner_socket(session)
    if path is None:
        return False
    return bool(_ask(path, {"op": op, "session": session, "text": text}).get("ok"))


def _ask(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(DEADLINE_S)
            link.connect(str(path))
            link.sendall(json.dumps(request).encode() + b"\n")
            reply = link.makefile("rb").readline(LONGEST_LINE)
    except OSError:
        return {"ok": False}
    try:
        value = json.loads(reply)
    except ValueError:
        return {"ok": False}
    return value if isinstance(value, dict) else {"ok": False}
