"""One run of a generated tool: its process in the sandbox, the socket it speaks on, and a typed ending."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from core import Broker, CommandResult, Workspace
from impl.tools.conversation import Conversation, ToolRun, denied

RUNNER: Final = Path(__file__).with_name("inside.py")
PRINTED: Final = 200_000
"""Bytes kept of what a tool prints, at its head, and half as many at its tail."""
LINGER_S: Final = 1.0
"""How long a tool's process may live on after it has said its end."""
SETTLE_S: Final = 2.0
"""How long what a process sent before it ended may take to be read."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Place:
    """The sandbox of a tool and where things stand in it: `link` is the host's directory for the socket, the others
    are paths as the tool sees them."""

    workspace: Workspace
    link: Path
    runner: str
    socket: str
    tools: str
    scratch: str
    corpus: str | None = None
    environments: str = ""


async def run_tool(
    place: Place,
    *,
    entrypoint: str,
    input: Mapping[str, Any],
    broker: Broker,
    log: Callable[[str], None],
    timeout: float,
    environment: str | None = None,
    requirements: tuple[str, ...] = (),
) -> ToolRun:
    """Run a tool, its scratch empty; `entrypoint` is relative to the tools, `environment` the name of what it needs
    installed.

    Raises SandboxUnavailable, and StoreError where what it does cannot be recorded.
    """
    start = {
        "entrypoint": f"{place.tools}/{entrypoint}",
        "input": dict(input),
        "corpus": place.corpus,
        "scratch": place.scratch,
        "environment": None if environment is None else f"{place.environments}/{environment}",
        "requirements": ", ".join(requirements),
    }
    scratch = place.workspace.path
    if not place.workspace.unsafe and _holds_something(scratch):  # where unsafe, more than what tools wrote lies there
        await asyncio.to_thread(_empty, scratch)
    conversation = Conversation(broker, log, start)
    printed: list[str] = []
    command = f"exec python3 -I -B {shlex.quote(place.runner)} {shlex.quote(place.socket)}"
    async with _listening(place.link) as called:
        running = asyncio.ensure_future(
            place.workspace.run(command, timeout=timeout, cap=PRINTED, on_output=printed.append)
        )
        talking = asyncio.ensure_future(_talk(conversation, called))
        try:
            await _both(running, talking, called, conversation)
        finally:
            for task in (running, talking):
                task.cancel()
            await asyncio.gather(running, talking, return_exceptions=True)
    # A fault of ours, or a store that takes no more, is not the tool's ending.
    if not talking.cancelled() and (fault := talking.exception()) is not None:
        raise fault
    return replace(_ending(conversation, running), printed="".join(printed)[-PRINTED:])


def _empty(scratch: Path) -> None:
    """Remove what earlier calls left: a call that runs again finds what it found, and no call fills the disk for
    another."""
    left = os.listdir(scratch)
    for first in range(0, len(left), 1000):
        # Not Python's own way: it gives up on directories nested thousands deep.
        subprocess.run(
            ["rm", "-rf", "--", *left[first : first + 1000]],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def _holds_something(directory: Path) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is not None


async def _both(
    running: asyncio.Future[CommandResult],
    talking: asyncio.Future[None],
    called: asyncio.Future[Connection],
    conversation: Conversation,
) -> None:
    """Until both are done: the process that has said its end may linger a moment, what a dead one said is read."""
    both: set[asyncio.Future[Any]] = {running, talking}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        conversation.over = True
        if called.done():
            await asyncio.wait({talking}, timeout=SETTLE_S)
    elif conversation.ended is not None:
        said_result = conversation.ended.error is None and conversation.ended.needs is None
        await asyncio.wait({running}, timeout=LINGER_S if said_result else 0.05)
    elif talking.done() and talking.exception() is None:
        await asyncio.wait({running})  # it hung up without a word: how its process ends says more


async def _talk(conversation: Conversation, called: asyncio.Future[Connection]) -> None:
    reader, writer = await called
    try:
        await conversation.hold(reader, writer)
    finally:
        writer.close()


def _ending(conversation: Conversation, running: asyncio.Future[CommandResult]) -> ToolRun:
    """The typed ending. Raises SandboxUnavailable where it was the sandbox that ended."""
    said, fatal = conversation.ended, conversation.broker.fatal
    if fatal is not None:
        return denied(fatal)
    if said is not None and (said.error is not None or said.needs is not None):
        return said
    result: CommandResult | None = None
    if not running.cancelled():
        if (fault := running.exception()) is not None:
            raise fault
        result = running.result()
    if said is None:
        if result is not None and result.timed_out:
            return ToolRun(error="tool_timeout", message="the tool did not end in its time")
        ended = "was ended" if result is None else f"ended with {result.exit_code}"
        return ToolRun(error="tool_crashed", message=f"the tool's process {ended} and said no result")
    wrong = conversation.broker.finish()
    return denied(wrong) if wrong is not None else said


@contextlib.asynccontextmanager
async def _listening(directory: Path) -> AsyncIterator[asyncio.Future[Connection]]:
    """A Unix socket `s` in `directory`, however long its path is; gives its first caller, and hangs up on others."""
    called: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if called.done():
            writer.close()
        else:
            called.set_result((reader, writer))

    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink("s", dir_fd=handle)
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A socket's path holds about a hundred bytes; this one is short wherever the home lies.
            link.bind(f"/proc/self/fd/{handle}/s")
            os.chmod("s", 0o666, dir_fd=handle)
            server = await asyncio.start_unix_server(take, sock=link)
        except OSError:
            link.close()
            raise
        try:
            yield called
        finally:
            server.close()
            if called.done() and not called.cancelled():
                called.result()[1].close()
            called.cancel()
            with contextlib.suppress(FileNotFoundError):
                os.unlink("s", dir_fd=handle)
    finally:
        os.close(handle)
