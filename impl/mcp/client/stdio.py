"""MCP from a sandbox: a server runs without network or secrets, and is spoken to over one socket of its directory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from core import CommandResult, Sandbox, SandboxUnavailable, Workspace
from impl.mcp.client.problems import UNAVAILABLE, McpProblem, plain

MAX_LINE: Final = 8 * 1024 * 1024
MAX_GARBAGE: Final = 100
"""Lines that are not JSON-RPC after which a server is given up; a few are what careless ones print."""
_ID: Final = re.compile(rb'"id"\s*:\s*([0-9]{1,15})\b')
LONGEST_S: Final = 7 * 24 * 3600.0
RUNNER: Final = Path(__file__).with_name("inside.py")
_INSIDE: Final = "/run/artificer/mcp"
"""Where the bundle, the runner and the socket stand in the sandbox, none of them to be written."""

Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Server:
    """A server to run. It starts in the bundle `root`, which it can only read; `place` is a directory of its own,
    in which its home `/work` stays from one drive of the session to the next."""

    command: str
    args: Sequence[str]
    root: Path
    place: Path
    sandbox: Sandbox


@contextlib.asynccontextmanager
async def stdio_streams(server: Server) -> AsyncIterator[tuple[Any, Any]]:
    """Run the server while inside; gives what it says and takes what it is told. Raises McpProblem."""
    work, link = server.place / "work", server.place / "link"
    try:
        link.mkdir(parents=True, exist_ok=True)
        shown = {f"{_INSIDE}/bundle": server.root, f"{_INSIDE}/run.py": RUNNER, f"{_INSIDE}/link": link}
        workspace = await server.sandbox.open(work, network=False, shown=shown)
    except (SandboxUnavailable, OSError) as error:
        raise McpProblem(UNAVAILABLE, plain(str(error), 500)) from None
    try:
        async with _listening(link) as called:
            running = asyncio.ensure_future(_run(workspace, server))
            try:
                connected = await _answered(called, running)
                async with _pumping(*connected) as streams:
                    try:
                        yield streams
                    except Exception:  # where the server has ended, not by our hanging up, that explains it better
                        await asyncio.wait({running}, timeout=0.5)
                        if running.done():
                            raise _ended(running) from None
                        raise
            finally:
                running.cancel()
                await asyncio.wait({running}, timeout=2.0)
    finally:
        await workspace.close()


async def _run(workspace: Workspace, server: Server) -> CommandResult:
    words = ["python3", "-I", "-B", f"{_INSIDE}/run.py", f"{_INSIDE}/link", server.command, *server.args]
    return await workspace.run(f"cd {_INSIDE}/bundle && exec {shlex.join(words)}", timeout=LONGEST_S, cap=20_000)


async def _answered(called: asyncio.Future[Connected], running: asyncio.Future[CommandResult]) -> Connected:
    ends: set[asyncio.Future[Any]] = {called, running}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if called.done():
        return called.result()
    raise _ended(running)


def _ended(running: asyncio.Future[CommandResult]) -> McpProblem:
    """Why a server's process is over, with the last line it printed for people."""
    if (fault := running.exception()) is not None:
        return McpProblem(UNAVAILABLE, plain(str(fault), 300))
    done = running.result()
    last = done.output.strip().splitlines()[-1:] or ["it printed nothing"]
    return McpProblem(UNAVAILABLE, f"it ended with exit code {done.exit_code} ({plain(last[0], 200)})")


@contextlib.asynccontextmanager
async def _pumping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of the SDK over a connection. Where the server hangs up, the SDK sees its stream end."""
    heard, listen = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    say, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def hear() -> None:
        garbage = 0
        async with heard:
            while (line := await _line(reader)) is not None and garbage <= MAX_GARBAGE:
                message = _message(line)
                garbage += message is None
                if message is not None:
                    await heard.send(SessionMessage(message))

    async def tell() -> None:
        async with said:
            async for item in said:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                await writer.drain()

    tasks = [asyncio.ensure_future(hear()), asyncio.ensure_future(tell())]
    try:
        async with listen, say:
            yield listen, say
    finally:
        for task in tasks:
            task.cancel()
        # A server that hung up breaks the pipe: its stream has ended, which is what the SDK goes by.
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()


def _message(line: bytes) -> JSONRPCMessage | None:
    """What a line says, None where that is nothing. An answer that is no message is one that says so: what waits for
    it would else wait its whole time."""
    try:
        return _valid(line)
    except ValueError:
        pass
    try:
        value = json.loads(line)
        answers = value.get("id") if isinstance(value, dict) and "method" not in value else None
        return _valid(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))  # halves of characters
    except RecursionError:
        found = _ID.search(line, 0, 500)
        answers = int(found[1]) if found else None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            return None
    if isinstance(answers, bool) or not isinstance(answers, int | str):
        return None
    words = ErrorData(code=PARSE_ERROR, message="it is no JSON-RPC, or nests too deeply")
    return JSONRPCError(jsonrpc="2.0", id=answers, error=words)


def _valid(line: bytes) -> JSONRPCMessage:
    return jsonrpc_message_adapter.validate_json(line, by_name=False)


async def _line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line, None at the end, which one that is too long is too."""
    try:
        line = await reader.readline()
    except (ValueError, OSError):
        return None
    return line if line else None


@contextlib.asynccontextmanager
async def _listening(directory: Path) -> AsyncIterator[asyncio.Future[Connected]]:
    """A Unix socket `s` in `directory`, however long its path is; gives its first caller, and hangs up on others."""
    called: asyncio.Future[Connected] = asyncio.get_running_loop().create_future()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if called.done():
            writer.close()
        else:
            called.set_result((reader, writer))

    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink("s", dir_fd=handle)
        # A socket's path holds about a hundred bytes; this one is short wherever the home lies.
        link.bind(f"/proc/self/fd/{handle}/s")
        os.chmod("s", 0o666, dir_fd=handle)
        server = await asyncio.start_unix_server(take, sock=link, limit=MAX_LINE)
    except OSError as error:
        link.close()
        raise McpProblem(UNAVAILABLE, f"no socket in {directory}: {error.strerror}") from error
    finally:
        os.close(handle)
    try:
        yield called
    finally:
        server.close()
        if called.done() and not called.cancelled():
            called.result()[1].close()
