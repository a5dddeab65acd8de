"""How much disk a workspace may take: measured seldom and off the event loop, warned of, and then enforced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from core import SandboxUnavailable

WARN_AT = 0.8
WATCH_S = 2.0
"""How often a running command's workspace is looked at."""
STALE_S = 30.0
"""After how long a finished command is worth a new measurement though the disk did not fill."""
PATIENCE_S = 0.5
"""How long the end of a command may wait for its measurement; a longer one counts for the next command."""
MEASURE_S = 60.0
BLOCK = 1024


class Quota:
    """The disk quota of one workspace, `limit` bytes; None is no limit, and costs nothing.

    A measurement (`du`) happens only where the file system's own count grew since the last one by a part of the
    limit, or the last one is old: a warm command pays one `statvfs`.
    """

    def __init__(self, path: Path, limit: int | None) -> None:
        self._path = path
        self._limit = limit
        self._size = 0
        self._measured_at = float("-inf")
        self._used_then = 0
        self._measuring: asyncio.Task[None] | None = None
        self._stopped = False

    async def admit(self) -> None:
        """Let a command begin. Raises SandboxUnavailable where the files take more than the limit."""
        if self._limit is None or self._size <= self._limit:
            return
        await self._measure()
        if self._size > self._limit:
            raise SandboxUnavailable(
                f"The workspace {self._path} takes {amount(self._size)}, over its quota of {amount(self._limit)}: "
                "delete files there, or raise the setting workspace_quota."
            )

    @contextlib.asynccontextmanager
    async def watching(self, stop: Callable[[], None]) -> AsyncIterator[None]:
        """While a command runs: `stop()` is called once its files go beyond the limit."""
        self._stopped = False
        if self._limit is None:
            yield
            return
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        begin = loop.call_later(WATCH_S, lambda: tasks.append(loop.create_task(self._watch(stop))))
        try:
            yield
        finally:
            begin.cancel()
            for task in tasks:
                task.cancel()

    async def after(self) -> str:
        """After a command: a line about the quota where there is something to say, else nothing."""
        if self._limit is None:
            return ""
        if self._due():
            if self._measuring is None or self._measuring.done():
                self._measuring = asyncio.get_running_loop().create_task(self._measure())
            await asyncio.wait({self._measuring}, timeout=PATIENCE_S)
        if self._size > self._limit:
            ended = "The command was ended, and no other" if self._stopped else "No other command"
            return (
                f"[The workspace takes {amount(self._size)}, over its quota of {amount(self._limit)}. "
                f"{ended} runs before files were deleted.]"
            )
        if self._size >= self._limit * WARN_AT:
            return f"[The workspace takes {amount(self._size)} of its quota of {amount(self._limit)}.]"
        return ""

    async def _watch(self, stop: Callable[[], None]) -> None:
        assert self._limit is not None
        while True:
            if self._due():
                await self._measure()
            if self._size > self._limit and not self._stopped:
                self._stopped = True
                stop()
            await asyncio.sleep(WATCH_S)

    def _due(self) -> bool:
        """Whether the size may have changed enough to matter."""
        assert self._limit is not None
        if time.monotonic() - self._measured_at > STALE_S or self._size >= self._limit * WARN_AT:
            return True
        room = self._limit * WARN_AT - self._size
        return _used(self._path) - self._used_then > min(room, self._limit * 0.1) / 2

    async def _measure(self) -> None:
        self._used_then = _used(self._path)
        self._size = await size_of(self._path)
        self._measured_at = time.monotonic()


def _used(path: Path) -> int:
    """Bytes taken on the file system of `path`; 0 where it cannot be asked."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return 0
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


async def size_of(path: Path) -> int:
    """Bytes that the tree at `path` takes on disk; 0 where it cannot be measured in time."""
    try:
        process = await asyncio.create_subprocess_exec(
            "du", "-skx", "--", str(path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return 0
    try:
        async with asyncio.timeout(MEASURE_S):
            out, _ = await process.communicate()
    except TimeoutError:
        return 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    words = out.split()
    return int(words[0]) * BLOCK if words and words[0].isdigit() else 0


def amount(size: int) -> str:
    """Bytes as people write them."""
    value = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
