"""The process of one CLI turn: its lines however long, its stderr apart, its death in every case."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from core.agent_cli.events import CliExit, Invocation
from core.provider import ProviderError

LONGEST_LINE: Final = 64_000_000
STDERR_TAIL: Final = 16_384
_CHUNK: Final = 1 << 18
_ASK_AGAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. `silent`: a turn in which nothing is printed and none of our tools runs has hung. `linger`: how long
    the process may live after its result. `interrupt`: how long it may take to end once interrupted."""

    silent: float = 600.0
    linger: float = 5.0
    interrupt: float = 0.7


class CliRun(Protocol):
    """A running CLI, however it is spoken to. `lines()` gives what it prints; afterwards `exit()` tells how it ended.
    `close()` leaves no process of its group behind, whatever happened. `dropped` counts lines that were too long."""

    deadlines: Deadlines
    dropped: int

    def lines(self) -> AsyncIterator[str]:
        """What it says, a line each, for the provider's parser. Ends when nothing more can come."""

    def permit(self, key: str, allowed: bool) -> None:
        """Answer a CliPermission."""

    def interrupt(self) -> None:
        """Ask it to end its turn, as ctrl+c would."""

    async def exit(self, within: float) -> CliExit:
        """How it ended. What has not ended `within` seconds is killed with its whole group."""

    async def close(self) -> None:
        """Kill what is left of it and of all it started, and reap it."""


class CliProcess:
    """A CLI that prints lines: the CliRun of most."""

    def __init__(self, process: asyncio.subprocess.Process, deadlines: Deadlines) -> None:
        self._process = process
        self.deadlines = deadlines
        self._stderr = bytearray()
        self._tasks = [asyncio.create_task(self._drain())]
        self.dropped = 0

    @classmethod
    async def start(cls, invocation: Invocation, env: Mapping[str, str], deadlines: Deadlines) -> CliProcess:
        """Start it in a session of its own. Raises ProviderError."""
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *invocation.argv,
                env=dict(env),
                cwd=invocation.cwd,
                stdin=none if invocation.stdin is None else pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
            )
        except OSError as error:
            message = f"{invocation.argv[0]} cannot be started: {error.strerror or error}."
            raise ProviderError("not_installed", message, hint="See: artificer providers") from error
        made = cls(process, deadlines)
        if invocation.stdin is not None:
            made._tasks.append(asyncio.create_task(made._write(invocation.stdin)))
        return made

    async def lines(self) -> AsyncIterator[str]:
        """Every line of stdout, decoded; what is not UTF-8 becomes U+FFFD. Ends at the end of stdout."""
        assert self._process.stdout is not None
        kept, parts, size = True, [], 0
        while chunk := await self._process.stdout.read(_CHUNK):
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                if kept:
                    parts.append(piece)
                    yield b"".join(parts).decode("utf-8", "replace")
                kept, parts, size = True, [], 0
            size += len(rest)
            if kept and size > LONGEST_LINE:
                kept, parts = False, []
                self.dropped += 1
            if kept and rest:
                parts.append(rest)
        if parts:
            yield b"".join(parts).decode("utf-8", "replace")

    def permit(self, key: str, allowed: bool) -> None:
        """A CLI that only prints asks nothing."""

    def interrupt(self) -> None:
        """Ask it to end, as ctrl+c would: the CLI itself, as what it started is its own to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    async def exit(self, within: float) -> CliExit:
        """How it ended. What has not ended `within` seconds is killed with its whole group."""
        try:
            async with asyncio.timeout(within):
                await ended(self._process)
        except TimeoutError:
            self._kill()
            await ended(self._process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):  # what it started may hold stderr open
                await asyncio.shield(self._tasks[0])
        code = self._process.returncode
        return CliExit(code if code is not None else -1, self._stderr.decode("utf-8", "replace"))

    async def close(self) -> None:
        """Kill what is left of it and of all it started, and reap it."""
        self._kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await reaped(self._process)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _drain(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK):
            self._stderr += chunk
            del self._stderr[:-STDERR_TAIL]

    async def _write(self, data: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(ConnectionError):
            stdin.write(data)
            await stdin.drain()
        stdin.close()


async def ended(process: asyncio.subprocess.Process) -> None:
    """Wait until a process has ended. `Process.wait` alone never does where there is output that nobody reads: it wants
    the pipes closed too."""
    while process.returncode is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ASK_AGAIN_S):
                await process.wait()


async def reaped(process: asyncio.subprocess.Process) -> None:
    """Wait until a process that was killed has ended, and let go of its pipes, which are kept until they are read to
    their end. What it started elsewhere may hold them open: that is not waited for."""
    await ended(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ASK_AGAIN_S):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(_CHUNK):
                    pass
