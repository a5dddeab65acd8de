"""Who may run which cell of a cluster: one lease a cell, held by one worker, and the only place its words are stored.

A worker asks for the lease of its cell, and then tells everything its session stores; each row is stored here before
it is answered for. A lease is lost when its worker died, or has not been heard for too long; what comes under it after
that is refused, and noted. So a cell never has two results, whatever the cluster begins twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core import EngineError, Host, Job, Lost, StoreError, cancel_abandoned
from impl.engines.dask.line import GONE, Inlet
from impl.engines.dask.rows import NotItsRow, Outcome, store_row
from impl.engines.dask.specs import Packer

if TYPE_CHECKING:
    from distributed import Client, Future, Queue

STOP_S: Final = 0.6
"""How long a worker that was told to stop may take to say that it has."""
LOOK_S: Final = 1.0
AWAY_S: Final = 3.0
"""How long the scheduler may be out of reach before it counts as gone."""
AHEAD: Final = 64
"""Messages of workers that may wait to be read."""
RESOURCE: Final = "sandbox"
"""Where workers declare this resource, a cell takes one of it and theirs alone are used."""


@dataclass(slots=True, eq=False)
class Lease:
    """One cell's. `holder` is the one run of it that has the lease, None while it waits for a worker. `ended` is how
    that came out, or raises why it did not."""

    id: str
    job: Job
    text: str
    ended: asyncio.Future[Outcome]
    task: Future[Any] | None = None
    following: asyncio.Task[None] | None = None
    holder: str | None = None
    worker: str = ""
    back: Queue | None = None
    heard: float = 0.0
    next: int = 1
    sessions: set[str] = field(default_factory=set)
    interrupted: bool = False
    over: bool = False
    """Whether its holder has said its last."""

    def lose(self, why: str) -> None:
        """It is nobody's any more."""
        self.fail(Lost(self.job.session or "", why))

    def fail(self, error: Exception) -> None:
        """It ends by an error, unless it has ended."""
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # who waits gets it; nobody has to


class Leases:
    """The leases of one command, and the loop that reads what their holders say. `slots` is how many cells the
    cluster's workers run at once now."""

    def __init__(
        self, host: Host, client: Client, scratch: Path, patience_s: float, say: Callable[[str], None]
    ) -> None:
        self.host = host
        self.slots = 0
        self._client = client
        self._packer = Packer(host, scratch)
        self._patience = patience_s
        self._say = say
        self._name = f"artificer-{os.urandom(8).hex()}"
        self._leases: dict[str, Lease] = {}
        self._former: dict[str, str] = {}
        """Sessions of those who held a lease that was lost, until they are heard again."""
        self._hanging: set[str] = set()
        self._by_resource = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._words: set[asyncio.Task[None]] = set()
        self._broken: EngineError | None = None

    async def __aenter__(self) -> Leases:
        from distributed import Queue

        self._in = Inlet(await Queue(self._name, client=self._client, maxsize=AHEAD))
        await self._look()
        self._begin(self._read())
        self._begin(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._words:  # the last answers, without which workers would wait for them
            await asyncio.wait(self._words, timeout=LOOK_S)
        tasks = [*self._tasks, *self._words]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._in.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        """What fails in the background ends what depends on it: nobody would hear of it otherwise."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(EngineError("gone", f"The cluster cannot be used any more: {error}", _AGAIN))

    def _break(self, error: EngineError) -> None:
        self._broken = self._broken or error
        for lease in self._leases.values():
            lease.fail(self._broken)

    # --- one job -----------------------------------------------------------------------------------

    async def run(self, job: Job) -> Outcome:
        """Have a worker run `job`: how that came out. Raises Lost, BadStart, StoreError, and EngineError where the
        cluster is gone. Cancelled, it has the worker stop, and waits a little for that."""
        if self._broken is not None:
            raise self._broken
        spec = await asyncio.to_thread(self._packer.pack, job)
        name = os.urandom(8).hex()
        text = json.dumps({**spec, "lease": name, "line": self._name, "patience_s": self._patience})
        lease = self._leases[name] = Lease(name, job, text, asyncio.get_running_loop().create_future())
        try:
            await self._submit(lease)
            return await asyncio.shield(lease.ended)
        except asyncio.CancelledError:
            if lease.holder is not None:
                self._tell(lease, {"stop": True})
                await asyncio.wait({lease.ended}, timeout=STOP_S)
            raise
        except Lost as lost:
            self._note(job.parent, f"{job.session} is lost: {lost.why}.")
            raise
        finally:
            del self._leases[name]
            self._let_go(lease)
            self._settle(lease)

    def interrupt(self, session: str) -> bool:
        """Have the worker that runs a session stop it; False where none does."""
        for lease in self._leases.values():
            if lease.job.session == session and lease.holder is not None and not lease.ended.done():
                lease.interrupted = True
                self._tell(lease, {"stop": True})
                return True
        return False

    def holds(self, session: str) -> bool:
        """Whether a session, or the one it is a child's of, is run by a worker now."""
        return any(session == lease.job.session or session in lease.sessions for lease in self._leases.values())

    async def _submit(self, lease: Lease) -> None:
        """Give it to the cluster, but to no worker that hangs."""
        from impl.engines.dask.worker import work

        options: dict[str, Any] = {"resources": {RESOURCE: 1}} if self._by_resource else {}
        if self._hanging:
            with contextlib.suppress(*GONE):  # then all are lost
                there = await self._look()
                sound = there - self._hanging
                options |= {"workers": sorted(sound)} if sound else {}
        key = f"artificer-{lease.id}-{os.urandom(3).hex()}"
        lease.task = self._client.submit(work, lease.text, key=key, pure=False, retries=0, **options)
        if lease.following is not None:
            lease.following.cancel()
        lease.following = self._begin(self._follow(lease, lease.task))

    async def _follow(self, lease: Lease, task: Any) -> None:
        """What the cluster says of a task. Of one that has begun, the line knows better, but for its worker's death."""
        error, status = await task.exception(), str(task.status)
        if lease.task is not task or lease.ended.done():
            return
        died = type(error).__name__ == "KilledWorker"
        if lease.holder is not None:
            if status == "error":
                await self._mark(lease, "its worker died" if died else f"its worker failed: {error}")
        elif error is not None and not died:
            hint = "Install Artificer with its extra `cluster` where the workers run."
            lease.fail(EngineError("unfit", f"A worker cannot run cells: {error}.", hint))
        else:  # it never began, or asked for the lease and was not heard in time
            lease.following = None  # this very task
            await self._submit(lease)

    async def _mark(self, lease: Lease, why: str, heard: float | None = None) -> None:
        """Lose it once everything is read that its holder had said until now; not, where it was `heard` since."""
        with contextlib.suppress(*GONE):  # then all are lost
            await self._in.queue.put({"lost": lease.id, "why": why, "heard": heard})

    def _let_go(self, lease: Lease) -> None:
        if lease.holder is not None and not lease.over:
            self._former[lease.holder] = lease.job.session or ""
        if lease.following is not None:
            lease.following.cancel()
        if lease.task is not None:
            lease.task.release()
        if lease.back is not None:
            lease.back.close()

    def _settle(self, lease: Lease) -> None:
        """Whatever it left open is settled as what a dead process leaves, and nobody's any more."""
        with contextlib.suppress(StoreError):  # where nothing can be written, our death frees it
            for session in sorted(lease.sessions):
                cancel_abandoned(self.host, session)
                self.host.store.release(session)

    def _note(self, record: str | None, words: str) -> None:
        """Tell the person now, and whoever reads the record later."""
        self._say(words)
        if record is not None:
            with contextlib.suppress(StoreError):
                self.host.store.append(record, [("notice", {"text": words})])

    # --- what holders say --------------------------------------------------------------------------

    async def _read(self) -> None:
        """Take what comes, in order, for as long as the scheduler can be reached."""
        clock = asyncio.get_running_loop().time
        since = clock()
        while True:
            try:
                message = await self._in.get(timeout=LOOK_S)
            except TimeoutError:
                since = clock()
                continue
            except GONE as error:
                if clock() - since > AWAY_S or isinstance(error, LookupError):
                    self._break(EngineError("gone", "The scheduler of the cluster is gone.", _AGAIN))
                    return
                await asyncio.sleep(LOOK_S / 10)
                continue
            since = clock()
            self._take(message)

    def _take(self, message: Mapping[str, Any]) -> None:
        if not message:
            return
        if "lost" in message:
            lease = self._leases.get(message["lost"])
            if lease is not None and message["heard"] in (None, lease.heard):
                lease.lose(message["why"])
            return
        lease, who, number = self._leases.get(message["lease"]), message["from"], message["n"]
        if lease is None or lease.ended.done():
            self._refuse(who)
        elif lease.holder is None:
            self._grant(lease, who, message)
        elif lease.holder != who:
            # The cluster begins a task again only where it takes its worker for dead.
            self._refuse(who)
            lease.lose("its worker is gone, and the cluster began it again")
        elif number > lease.next:
            lease.lose("some of what its worker said is missing")
        else:
            lease.heard = asyncio.get_running_loop().time()
            self._hanging.discard(lease.worker)
            if number == lease.next:
                lease.next += 1
                self._store(lease, message)
            self._tell(lease, {"ack": number})

    def _grant(self, lease: Lease, who: str, message: Mapping[str, Any]) -> None:
        begin = json.loads(message["rows"][0]).get("begin") if message["rows"] else None
        if begin is None:
            self._refuse(who)
            return
        lease.holder, lease.worker = who, str(begin["worker"])
        lease.heard, lease.next = asyncio.get_running_loop().time(), message["n"] + 1
        self._begin(self._open(lease, who, message["n"]))

    async def _open(self, lease: Lease, who: str, number: int) -> None:
        from distributed import Queue

        with contextlib.suppress(*GONE):
            lease.back = await Queue(f"{self._name}-{who}", client=self._client)
            await lease.back.put({"granted": True, "ack": number})

    def _store(self, lease: Lease, message: Mapping[str, Any]) -> None:
        """Store its rows. What cannot be stored ends the lease with the reason."""
        last = len(message["rows"]) - 1
        for number, text in enumerate(message["rows"]):
            try:
                row, data = json.loads(text), message["data"] if number == last else b""
                if "need" in row:
                    self._begin(self._give(lease, str(row["need"])))
                elif (outcome := store_row(self.host, lease, row, data)) is not None:
                    self._end(lease, outcome)
            except (StoreError, OSError) as error:
                lease.fail(error)
                self._tell(lease, {"stop": True})
            except (NotItsRow, ValueError, KeyError, TypeError) as error:
                lease.lose(f"what its worker said makes no sense ({error})")

    def _end(self, lease: Lease, outcome: Outcome) -> None:
        lease.over = True
        if lease.ended.done():
            return
        if outcome.failed is not None:
            lease.lose(f"its worker could not go on: {outcome.failed}")
        elif outcome.cancelled and not lease.interrupted:
            lease.lose("its worker ended it")
        else:
            lease.ended.set_result(outcome)

    async def _give(self, lease: Lease, name: str) -> None:
        try:
            data = await asyncio.to_thread(self._packer.content, name)
        except (StoreError, OSError, LookupError) as error:
            lease.fail(error if isinstance(error, StoreError | OSError) else Lost(lease.job.session or "", str(error)))
            self._tell(lease, {"stop": True})
            return
        self._tell(lease, {"blob": name, "data": data})

    # --- what they are told ------------------------------------------------------------------------

    def _tell(self, lease: Lease, word: Mapping[str, Any]) -> None:
        if lease.back is not None:
            task = asyncio.create_task(_put(lease.back, word))
            self._words.add(task)
            task.add_done_callback(self._words.discard)

    def _refuse(self, who: str) -> None:
        """Tell a run that has no lease that it has none; one that had is noted once."""
        session = self._former.pop(who, None)
        known = None if session is None else self.host.store.session(session)
        if known is not None:
            self._note(known.parent, f"What came of {session} after it was lost is refused.")
        self._begin(self._no(who))

    async def _no(self, who: str) -> None:
        from distributed import Queue

        with contextlib.suppress(*GONE):
            back = await Queue(f"{self._name}-{who}", client=self._client)
            await back.put({"refused": "this cell is not its own"})
            back.close()

    # --- the workers -------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Look who is there, and who has not been heard for too long."""
        said = False
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                there = await self._look()
            except GONE:  # who reads says so, where it lasts
                continue
            if self.slots == 0 and self._leases and not said:
                self._say("The cluster has no workers left; waiting for one.")
            said = self.slots == 0
            for lease in [one for one in self._leases.values() if one.holder is not None and not one.ended.done()]:
                if lease.worker not in there:
                    await self._mark(lease, f"its worker {lease.worker} is gone")
                elif asyncio.get_running_loop().time() - lease.heard > self._patience:
                    await self._give_up(lease)

    async def _give_up(self, lease: Lease) -> None:
        """It was not heard for too long. What waits for that worker is given to others."""
        why = f"its worker {lease.worker} has not been heard for {self._patience:g} s"
        self._hanging.add(lease.worker)
        await self._mark(lease, why, lease.heard)
        for other in list(self._leases.values()):
            if other.holder is None and other.task is not None:
                given, other.task = other.task, None
                given.release()
                await self._submit(other)

    async def _look(self) -> set[str]:
        """The addresses of the workers that are there; counts how many cells they can run at once."""
        workers = (await self._client.scheduler.identity(n_workers=-1))["workers"]
        self._hanging &= workers.keys()
        counts = {name: int(one["nthreads"]) for name, one in workers.items()}
        declared = {name: int(one.get("resources", {}).get(RESOURCE, 0)) for name, one in workers.items()}
        self._by_resource = any(declared.values())
        if self._by_resource:
            counts = {name: min(count, declared[name]) for name, count in counts.items()}
        self.slots = sum(count for name, count in counts.items() if name not in self._hanging)
        return set(workers)


_AGAIN: Final = "What is done is recorded: once it is there again, give the same command to go on."


async def _put(back: Queue, word: Mapping[str, Any]) -> None:
    with contextlib.suppress(*GONE):  # who holds it has gone; the lease will show it
        await back.put(dict(word))
