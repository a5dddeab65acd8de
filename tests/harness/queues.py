"""Both directions of a worker's line in one process, with what the other end says in a test's hands."""

from __future__ import annotations

import asyncio
from typing import Any

from impl.engines.dask.line import Inlet, Line


class MemoryQueue:
    """A queue as those of a cluster, in this process."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    async def put(self, value: Any) -> None:
        """Send."""
        await self._queue.put(value)

    async def get(self) -> Any:
        """Receive."""
        return await self._queue.get()

    def close(self) -> None:
        """Nothing to let go."""


class Ends:
    """A line and its two queues."""

    def __init__(self, patience_s: float = 30.0) -> None:
        self.out = MemoryQueue()
        self.back = MemoryQueue()
        self.line = Line(self.out, Inlet(self.back), "lease", "me", patience_s)
        self.acked = 0

    async def said(self) -> list[str]:
        """The rows of the next message that has some."""
        while True:
            message = await self.out.get()
            self.acked = message["n"]
            if message["rows"]:
                return list(message["rows"])

    async def ack(self) -> None:
        """Answer for all that was read."""
        await self.back.put({"ack": self.acked})
