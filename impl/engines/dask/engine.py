"""Runs cells on the workers of a Dask cluster; this process alone records what they came to."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from core import EngineError, Host, Runner
from impl.engines.dask.specs import PROTOCOL
from impl.engines.local import at_once

if TYPE_CHECKING:
    from distributed import Client

    from impl.engines.dask.leases import Leases

C = TypeVar("C")
R = TypeVar("R")
CONNECT_S: Final = 5.0
PATIENCE_S: Final = 20.0
"""How long a lease lasts without a word from the other end, in seconds."""
CLOSE_S: Final = 0.2
_PLACE: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s/:@]+):\d{1,5}")
_NEXT: Final = "Start them with: dask worker {place} --nthreads SLOTS"


class DaskEngine:
    """An Engine of the workers that a scheduler at `place` (HOST:PORT) has: of their threads, or, where they declare
    it, of their resource `sandbox`. `slots` bounds how many cells run at once.

    `patience_s` is how long a lease lasts without a word. Raises EngineError.
    """

    def __init__(
        self,
        place: str,
        slots: int | None,
        say: Callable[[str], None] = lambda words: None,
        *,
        tls: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        if importlib.util.find_spec("distributed") is None:
            message = "Cells run on a Dask cluster by the library distributed, which is not installed."
            raise EngineError("not_installed", message, "Install it with: pip install 'artificer[cluster]'")
        place = place.rstrip("/")
        if not _PLACE.fullmatch(place):
            hint = "Name the scheduler as dask://HOST:PORT, for example dask://127.0.0.1:8786"
            raise EngineError("bad_address", f"{place!r} is not the address of a scheduler.", hint)
        self._place = place
        self._address = f"{'tls' if tls else 'tcp'}://{place}"
        self._bound = slots
        self._say = say
        self._patience = patience_s
        self._leases: Leases | None = None

    @asynccontextmanager
    async def opened(self, host: Host, here: Runner) -> AsyncIterator[Runner]:
        """See `Engine`. What it raises is an EngineError too where the scheduler goes away meanwhile."""
        from impl.engines.dask.leases import Leases
        from impl.engines.dask.remote import ClusterRunner

        client = await self._connect()
        scratch = Path(tempfile.mkdtemp(prefix="artificer-cells-"))
        try:
            await self._greet(client)
            async with Leases(host, client, scratch, self._patience, self._say) as leases:
                self._leases = leases
                yield ClusterRunner(host, leases)
        finally:
            self._leases = None
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(CLOSE_S):
                    await client.close()
            shutil.rmtree(scratch, ignore_errors=True)

    def run(self, cells: Iterable[C], work: Callable[[C], Awaitable[R]]) -> AsyncGenerator[tuple[C, R], None]:
        """See `Engine`. Cells begin in order."""
        return at_once(cells, work, self._slots)

    def _slots(self) -> int:
        there = 0 if self._leases is None else self._leases.slots
        return there if self._bound is None else min(there, self._bound)

    # --- the cluster -------------------------------------------------------------------------------

    async def _connect(self) -> Client:
        from distributed import Client

        # What goes wrong is said here in words; the library's own lines would stand between them.
        for name in ("distributed", *logging.root.manager.loggerDict):
            if name.partition(".")[0] in ("distributed", "tornado"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        warnings.filterwarnings("ignore", module="distributed")
        client = Client(self._address, asynchronous=True, set_as_default=False, timeout=CONNECT_S, name="artificer")
        try:
            return await client
        except (OSError, ValueError, RuntimeError, TypeError) as error:
            message = f"No Dask scheduler answers at {self._place} ({_words(error)})."
            hint = "Start one with: dask scheduler --port PORT, or leave --engine out to run here."
            if self._address.startswith("tls:"):
                hint = "Its certificates are named by Dask's configuration, under distributed.comm.tls."
            raise EngineError("unreachable", message, hint) from error

    async def _greet(self, client: Client) -> None:
        """Ask every worker who it is. Raises EngineError where there is none, or one that could not run a cell."""
        from impl.engines.dask.worker import work

        next_step = _NEXT.format(place=self._place)
        if not await client.nthreads():
            self._say(f"The scheduler at {self._place} has no workers yet; waiting for one.")
            with contextlib.suppress(TimeoutError):
                await client.wait_for_workers(1, timeout=CONNECT_S)
        if not await client.nthreads():
            raise EngineError("no_workers", f"The scheduler at {self._place} has no workers.", next_step)
        try:
            async with asyncio.timeout(CONNECT_S * 2):
                answers = await client.run(work, '{"hello": true}', on_error="return")
        except TimeoutError:
            message = f"Not all workers of {self._place} answer."
            raise EngineError("unfit", message, "End those that hang, or start others.") from None
        for worker, said in answers.items():
            if isinstance(said, OSError):
                continue  # it has just gone
            if (wrong := _wrong(said)) is not None:
                hint = f"Install Artificer {version('artificer')} with its extra `cluster` where the workers run."
                raise EngineError("unfit", f"The worker {worker} cannot run cells: {wrong}.", hint)
            if (why := json.loads(said)["unisolated"]) is not None:
                self._say(f"The worker {worker} isolates nothing; code of agents waits there for a yes. {why}")


def _wrong(said: Any) -> str | None:
    """Why a worker that answered so cannot run cells; None where it can."""
    if isinstance(said, BaseException):
        return _words(said)
    try:
        known = json.loads(said)
    except (TypeError, ValueError):
        return "it gives no answer that makes sense"
    if known.get("protocol") != PROTOCOL or known.get("version") != version("artificer"):
        return f"it has Artificer {known.get('version')}, and this is {version('artificer')}"
    return None


def _words(error: BaseException) -> str:
    line = " ".join(re.sub(r"^in <[^>]*>: ", "", str(error)).split()) or type(error).__name__
    return line if len(line) <= 200 else line[:199] + "…"
