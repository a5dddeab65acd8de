"""How other processes reach the one that drives a session: one JSON line each way over its Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from core import Host, LaunchInput, NoSuchSession

DEADLINE_S = 5.0
LONGEST_LINE = 4_000_000


class Reached(Protocol):
    """Who takes what other processes say to the sessions of this one; a Supervisor does."""

    def interrupt(self, session: str) -> bool:
        """Stop one; False where it runs here no more."""

    def resume(self, launch: LaunchInput) -> None:
        """Go on with one, or say something to it. Raises NoSuchSession."""


async def serve(host: Host, supervisor: Reached | None = None) -> asyncio.Server:
    """Listen on this process's socket: interrupt, answer and say reach `supervisor`, tools and call the sessions
    whose provider drives itself. Close the server when done."""
    path = host.store.own_socket()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = json.loads(await asyncio.wait_for(reader.readline(), DEADLINE_S))
            reply = await _tools(host, request, reader) or _act(host, supervisor, request)
        except (ValueError, TimeoutError, ConnectionError) as error:
            reply = {"ok": False, "message": str(error)}
        with contextlib.suppress(ConnectionError):
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve_one, path=str(path), limit=LONGEST_LINE)
    os.chmod(path, 0o600)
    return server


async def offer(host: Host, session: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """Make the tools of `session` reachable, where nothing listens yet, and the command that brings them to an MCP
    client, with what its environment must hold."""
    path = host.store.own_socket()
    server = _listening.get(str(path))
    if server is not None and server.get_loop() is not asyncio.get_running_loop():
        _listening.pop(str(path)).close()  # its loop is over: nobody would answer
    try:
        _, writer = await asyncio.open_unix_connection(str(path))
        writer.close()
    except OSError:
        _listening[str(path)] = await serve(host)  # for as long as this process's loop runs
    words = ["-m", "impl.mcp.server", "--session", session, "--socket", str(path), "--die-with-owner"]
    command = [sys.executable, "-P", *words]
    roots = os.pathsep.join(p for p in sys.path if p and os.path.isdir(os.path.join(p, "impl")))
    return command, {"PYTHONPATH": roots} if roots else {}


_listening: dict[str, asyncio.Server] = {}


async def _tools(host: Host, request: Any, reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Answer `tools`, `call` and `watch`; None for any other request. A client that goes away cancels its call; one
    that watches is answered by the death of this process."""
    if not isinstance(request, dict) or request.get("op") not in ("tools", "call", "watch"):
        return None
    if request["op"] == "watch":
        await reader.read()
        return {"ok": True}
    door = host.doors.get(str(request.get("session")))
    if door is None:
        return {"ok": False, "message": "This session is not driven by an agent CLI now."}
    if request["op"] == "tools":
        rows = [{"name": s.name, "description": s.description, "inputSchema": s.input_schema} for s in door.specs()]
        return {"ok": True, "tools": rows}
    id = request.get("id")
    name = str(request.get("name"))
    running = asyncio.ensure_future(door.call(name, request.get("args"), id if isinstance(id, str) else None))
    gone = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not running.done():
            running.cancel()
    try:
        ok, text = await running
    except asyncio.CancelledError:
        return {"ok": False, "message": "The call was cancelled."}
    return {"ok": True, "succeeded": ok, "text": text}


def _act(host: Host, supervisor: Reached | None, request: Any) -> dict[str, Any]:
    if supervisor is None or not isinstance(request, dict) or not isinstance(request.get("session"), str):
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
