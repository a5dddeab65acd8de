"""A worker's end of the line to whoever records its cell: rows go out in order, and each is answered for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Protocol

from core import encode

GONE: Final = (OSError, RuntimeError, LookupError, AttributeError)
"""What a queue of a cluster raises when its scheduler is gone, or has forgotten it; AttributeError where its client has
given up and has none any more."""
GRANT_S: Final = 5.0
CLOSE_S: Final = 0.3
BATCH: Final = 256_000
"""Characters of rows that go together; what is longer goes alone."""


class LineLost(Exception):
    """Nobody hears this worker any more."""


class Refused(Exception):
    """Whoever records this cell does not want it from here: another worker has it, or nobody any more."""


class Queue(Protocol):
    """A queue of the cluster, as `distributed.Queue` is."""

    async def put(self, value: Any) -> None:
        """Send, waiting while the other end is behind."""

    async def get(self) -> Any:
        """Receive."""

    def close(self) -> None:
        """Let it go: the last to do so ends it."""


class Inlet:
    """What is read of a queue. A scheduler that is asked with a deadline logs an error whenever that passes; so it is
    asked without one, and once."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._asked: asyncio.Task[Any] | None = None

    async def get(self, timeout: float) -> Any:
        """The next. Raises TimeoutError, and what a queue raises whose scheduler is gone."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._ask())
        await asyncio.wait({self._asked}, timeout=timeout)
        if not self._asked.done():
            raise TimeoutError
        asked, self._asked = self._asked, None
        return asked.result()

    async def _ask(self) -> Any:
        return await self.queue.get()

    async def close(self) -> None:
        """Let it go, with no question of ours left at the scheduler."""
        if self._asked is not None:
            with contextlib.suppress(TimeoutError, *GONE):
                async with asyncio.timeout(CLOSE_S):
                    await self.queue.put({})
                await asyncio.wait({self._asked}, timeout=CLOSE_S)
            self._asked.cancel()
            await asyncio.wait({self._asked})
        self.queue.close()


class Line:
    """The worker's end. A lease lasts while this line is answered: after `patience` seconds without a word it is lost,
    and what runs under it must end. `stop` is set then, and where the other end says stop."""

    def __init__(self, out: Queue, back: Inlet, lease: str, me: str, patience: float) -> None:
        self._out = out
        self._back = back
        self._name = {"lease": lease, "from": me}
        self._patience = patience
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._more = asyncio.Event()
        self._changed = asyncio.Condition()
        self._said = self._packed = self._heard = 0
        self._marks: deque[tuple[int, int]] = deque()
        self._granted: asyncio.Future[None] = self._loop.create_future()
        self._blobs: dict[str, asyncio.Future[bytes]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.stop = asyncio.Event()
        self.lost: str | None = None
        """Why the line is lost, None while it stands."""

    async def __aenter__(self) -> Line:
        self._tasks = [asyncio.create_task(self._speak()), asyncio.create_task(self._listen())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- what the cell does with it ----------------------------------------------------------------

    def say(self, row: Mapping[str, Any], data: bytes = b"") -> None:
        """Send a row, with bytes of its own where it has some. From any thread; in order."""
        text = encode(row)
        with self._lock:
            self._waiting.append((text, data))
            self._said += 1
        self._loop.call_soon_threadsafe(self._more.set)

    async def granted(self, row: Mapping[str, Any]) -> None:
        """Ask for the lease. Raises Refused, LineLost, and TimeoutError where nobody says a word: a cluster begins
        again what nobody waits for any more, and a slot is not to be held for that."""
        self.say(row)
        async with asyncio.timeout(GRANT_S):
            await self._or_lost(self._granted)

    async def blob(self, name: str) -> bytes:
        """The bytes behind a hash. Raises LineLost."""
        wanted = self._blobs[name] = self._loop.create_future()
        self.say({"need": name})
        try:
            return bytes(await self._or_lost(wanted))
        finally:
            del self._blobs[name]

    async def heard(self) -> None:
        """Wait until all that was said so far is stored at the other end. Raises LineLost."""
        upto = self._said
        async with self._changed:
            await self._changed.wait_for(lambda: self._heard >= upto or self.lost is not None)
        if self.lost is not None:
            raise LineLost(self.lost)

    async def _or_lost(self, wanted: asyncio.Future[Any]) -> Any:
        stop = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait({wanted, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if wanted.done():
            return wanted.result()
        raise LineLost(self.lost or "it was told to stop")

    # --- both directions ---------------------------------------------------------------------------

    async def _speak(self) -> None:
        beat, number = self._patience / 5, 0
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(beat):
                        await self._more.wait()
                self._more.clear()
                while True:
                    rows, data = self._batch()
                    number += 1
                    self._marks.append((number, self._packed))
                    await self._out.put({**self._name, "n": number, "rows": rows, "data": data})
                    if not self._waiting:
                        break
        except GONE as error:
            await self._lose(f"the scheduler cannot be reached: {error}")

    def _batch(self) -> tuple[list[str], bytes]:
        """Rows that go together: at most one with bytes, and that last. None is a sign of life."""
        rows: list[str] = []
        size = 0
        while self._waiting and (not rows or size + len(self._waiting[0][0]) < BATCH):
            row, data = self._waiting.popleft()
            rows.append(row)
            self._packed += 1
            size += len(row)
            if data:
                return rows, data
        return rows, b""

    async def _listen(self) -> None:
        last = self._loop.time()
        while True:
            try:
                word = await self._back.get(timeout=self._patience / 5)
            except TimeoutError:
                if self._loop.time() - last > self._patience:
                    await self._lose(f"no word for {self._patience:g} s")
                    return
                continue
            except GONE as error:
                await self._lose(f"the scheduler cannot be reached: {error}")
                return
            last = self._loop.time()
            await self._take(word)

    async def _take(self, word: Mapping[str, Any]) -> None:
        if "ack" in word:
            while self._marks and self._marks[0][0] <= word["ack"]:
                self._heard = self._marks.popleft()[1]
            async with self._changed:
                self._changed.notify_all()
        if word.get("granted") and not self._granted.done():
            self._granted.set_result(None)
        if "blob" in word and (wanted := self._blobs.get(word["blob"])) is not None and not wanted.done():
            wanted.set_result(word["data"])
        if "refused" in word:
            if not self._granted.done():
                self._granted.set_exception(Refused(word["refused"]))
                self._granted.exception()
            await self._lose(str(word["refused"]))
        if word.get("stop"):
            self.stop.set()

    async def _lose(self, why: str) -> None:
        self.lost = self.lost or why
        self.stop.set()
        async with self._changed:
            self._changed.notify_all()
