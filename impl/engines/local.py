"""Runs cells on this machine: asyncio tasks, so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

C = TypeVar("C")
R = TypeVar("R")


class LocalEngine:
    """An Engine of `slots` tasks of this process's event loop."""

    def __init__(self, slots: int = 4) -> None:
        if slots < 1:
            raise ValueError("an engine needs a slot")
        self._slots = slots

    async def run(self, cells: Iterable[C], work: Callable[[C], Awaitable[R]]) -> AsyncGenerator[tuple[C, R], None]:
        """See `Engine`. Cells begin in order."""
        waiting = iter(cells)
        running: dict[asyncio.Future[R], C] = {}
        try:
            while True:
                while len(running) < self._slots and (cell := next(waiting, None)) is not None:
                    running[asyncio.ensure_future(work(cell))] = cell
                if not running:
                    return
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield running.pop(task), task.result()
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
