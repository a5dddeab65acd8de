"""A workspace whose commands run in one process kept inside its sandbox."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from core import CommandResult, SandboxUnavailable
from impl.sandboxes.directory import cannot_write, check_directory, make_directory
from impl.sandboxes.kept import InsideProcess, Launch, NeverBegan, Notice
from impl.sandboxes.quota import Quota


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long things of a workspace live: a sandbox `ttl_s` seconds, awake `idle_s` seconds after its last
    command; its files may take `quota` bytes. None is without end."""

    ttl_s: float | None = None
    idle_s: float | None = None
    quota: int | None = None


class KeptWorkspace:
    """A `Workspace` on a host directory; its sandbox starts with the first command and again after it died, was
    outdated, or reached its age."""

    def __init__(self, kind: str, path: Path, unsafe: bool, launch: Launch, lifetime: Lifetime) -> None:
        self.kind = kind
        self.path = path
        self.unsafe = unsafe
        self._launch = launch
        self._lifetime = lifetime
        self._quota = Quota(path, lifetime.quota)
        self._lock = asyncio.Lock()
        self._inside: InsideProcess | None = None
        self._directory: tuple[int, int] | None = None
        self._closed = False
        self._born = 0.0
        self._paused = False
        self._alarm: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None

    async def run(
        self,
        command: str,
        *,
        timeout: float = 120.0,
        on_output: Callable[[str], None] | None = None,
        cap: int = 1_000_000,
    ) -> CommandResult:
        """Run `command`; calls of one workspace wait for each other. See `core.ports.Workspace.run`."""
        if "\0" in command:
            return CommandResult(126, "The command holds a NUL character: a shell cannot take one.\n", 0.0)
        async with self._lock:
            self._disarm()
            try:
                return await self._run(command, max(timeout, 0.001), on_output, cap)
            finally:
                self._arm()

    async def _run(
        self, command: str, timeout: float, on_output: Callable[[str], None] | None, cap: int
    ) -> CommandResult:
        await self._quota.admit()
        for _ in range(2):
            if self._closed:
                raise SandboxUnavailable(f"The workspace {self.path} was closed.")
            inside = await self._ready(on_output or _unheard)
            try:
                async with self._quota.watching(inside.stop):
                    result = await inside.run(command, timeout, on_output, cap)
            except NeverBegan as dead:
                problem = str(dead)
            except SandboxUnavailable:
                check_directory(self.path)  # a better reason, where the directory is it
                raise
            else:
                return _with_line(result, await self._quota.after(), on_output)
        raise SandboxUnavailable(f"The sandbox ended again before it took the command: {problem}.")

    async def close(self) -> None:
        """End the process, a running command included; the directory stays."""
        self._closed = True
        self._disarm()
        if self._resting is not None:
            self._resting.cancel()
        if self._inside is not None:
            await self._inside.end()
            self._inside = None

    async def _ready(self, notice: Notice) -> InsideProcess:
        """The process inside, awake: started where there is none, it died, it is outdated, or its directory is not
        ours any more."""
        directory = check_directory(self.path)
        if self._inside is not None and not self._serves(self._inside, directory):
            await self._end_inside()
        if self._inside is not None and self._paused:
            await self._resume(self._inside)
        if self._inside is None:
            self._inside = await InsideProcess.start(await self._launch(self.path, notice), self.path)
            self._directory = directory
            self._born = time.monotonic()
            self._paused = False
        if self._closed:  # while it started
            await self._inside.end()
            raise SandboxUnavailable(f"The workspace {self.path} was closed.")
        return self._inside

    def _serves(self, inside: InsideProcess, directory: tuple[int, int]) -> bool:
        return inside.alive and directory == self._directory and not inside.launched.outdated()

    async def _resume(self, inside: InsideProcess) -> None:
        self._paused = False
        try:
            if inside.launched.resume is not None:
                await inside.launched.resume()
        except SandboxUnavailable:
            await self._end_inside()  # a fresh one is as good

    async def _end_inside(self) -> None:
        if self._inside is not None:
            await self._inside.end()
            self._inside = None

    # --- rest --------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Come back when the sandbox has idled long enough to be paused, or reached its age."""
        if self._inside is None or self._closed:
            return
        waits = []
        if self._lifetime.ttl_s is not None:
            waits.append(self._born + self._lifetime.ttl_s - time.monotonic())
        if self._lifetime.idle_s is not None and self._inside.launched.pause is not None and not self._paused:
            waits.append(self._lifetime.idle_s)
        if waits:
            self._alarm = asyncio.get_running_loop().call_later(max(min(waits), 0.0), self._alarmed)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _alarmed(self) -> None:
        self._alarm = None
        self._resting = asyncio.get_running_loop().create_task(self._rest())

    async def _rest(self) -> None:
        async with self._lock:
            inside = self._inside
            if inside is None or self._closed or self._alarm is not None:  # another command came first
                return
            ttl = self._lifetime.ttl_s
            if ttl is not None and time.monotonic() >= self._born + ttl:
                await self._end_inside()
                return
            if inside.launched.pause is not None and inside.alive:
                try:
                    await inside.launched.pause()
                    self._paused = True
                except SandboxUnavailable:
                    await self._end_inside()
            self._arm()


def _unheard(line: str) -> None:
    """Nobody waits for notices."""


def _with_line(result: CommandResult, line: str, on_output: Callable[[str], None] | None) -> CommandResult:
    """`result` with a line of ours at its end, shown as it would have been if the command had printed it."""
    if not line:
        return result
    text = f"\n{line}\n" if result.output and not result.output.endswith("\n") else f"{line}\n"
    if on_output is not None:
        on_output(text)
    return replace(result, output=result.output + text)


async def open_workspace(
    kind: str, path: Path, unsafe: bool, launch: Launch, lifetime: Lifetime | None = None
) -> KeptWorkspace:
    """A workspace on `path`, made where absent and checked for being writable. Raises SandboxUnavailable."""
    path = make_directory(path)
    check_directory(path)
    if not os.access(path, os.W_OK | os.X_OK):
        raise SandboxUnavailable(cannot_write(path, errno.EACCES))
    return KeptWorkspace(kind, path, unsafe, launch, lifetime or Lifetime())
