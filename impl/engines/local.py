"""Runs cells on this machine: asyncio tasks, so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from core import Host, Runner

C = TypeVar("C")
R = TypeVar("R")
SLOTS: Final = 4
LOOK_AGAIN_S: Final = 1.0


class LocalEngine:
    """An Engine of `slots` tasks of this process's event loop."""

    def __init__(self, slots: int = SLOTS) -> None:
        if slots < 1:
            raise ValueError("an engine needs a slot")
        self._slots = slots

    @asynccontextmanager
    async def opened(self, host: Host, here: Runner) -> AsyncIterator[Runner]:
        """See `Engine`."""
        yield here

    def run(self, cells: Iterable[C], work: Callable[[C], Awaitable[R]]) -> AsyncGenerator[tuple[C, R], None]:
        """See `Engine`. Cells begin in order."""
        return at_once(cells, work, lambda: self._slots)


async def at_once(
    cells: Iterable[C], work: Callable[[C], Awaitable[R]], slots: Callable[[], int]
) -> AsyncGenerator[tuple[C, R], None]:
    """Do `work` for every cell, begun in order, as many at once as there are `slots` then. Each comes with its result
    when it has one; what one raises is raised, and ends the others."""
    waiting = list(reversed(list(cells)))
    running: dict[asyncio.Future[R], C] = {}
    try:
        while waiting or running:
            while waiting and len(running) < slots():
                cell = waiting.pop()
                running[asyncio.ensure_future(work(cell))] = cell
            if not running:
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            patience = LOOK_AGAIN_S if waiting else None
            done, _ = await asyncio.wait(running, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield running.pop(task), task.result()
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
