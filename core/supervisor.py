"""Sessions running in this process: start, interrupt, answer, resume, subscribe; nothing more."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.events import Event
from core.group import Group
from core.launch import LaunchInput, Mailbox, NoSuchSession, Outcome, launch_agent
from core.ports import Host, SessionInfo
from core.session import Bus

IN_A_LAB = frozenset({"case", "arm", "child", "builder"})
"""Kinds of session that may stand in the environment of a suite."""
RECORDS = frozenset({"comparison", "experiment", "evaluation"})
"""Kinds of session that no agent speaks in: they hold what their arms and cases came to."""
MOST_DONE = 1_000
"""How many outcomes are kept for those who ask late."""
OBJECTS_IN_HAND = 100
"""About how many objects one session makes between two moments in which it waits."""
_USUAL = gc.get_threshold()


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[Outcome]
    mailbox: Mailbox
    interrupted: bool = False


class Supervisor:
    """id -> (task, mailbox). One per process; all of it on one event loop."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._running: dict[str, _Running] = {}
        self.bus = Bus(Group(host.store, lambda: len(self._running) > 1))
        self._done: dict[str, asyncio.Task[Outcome]] = {}
        self._records: dict[str, asyncio.Task[Any]] = {}
        self.closed = False
        """Whether it is being closed: it takes nothing on any more."""

    def running(self) -> frozenset[str]:
        """Ids of the sessions this process drives now."""
        return frozenset(self._running)

    def start(self, launch: LaunchInput) -> str:
        """Begin a new session and return its id at once. `wait` gives its outcome."""
        return self._go(replace(launch, session=launch.session or self.host.new_id()))

    def resume(self, launch: LaunchInput) -> None:
        """Go on with `launch.session`. Where it runs already, `task` or `answer` reach it as words for its
        next turn; where it has just stopped, it goes on once that is settled. Raises NoSuchSession, also where all
        is being closed: whoever brought the words may drive it then."""
        session = launch.session or ""
        running = self._running.get(session)
        if running is not None and not running.mailbox.stopped:
            words = launch.task or launch.answer
            if words:
                running.mailbox.inbox.append(words)
            return
        info = self.host.store.session(session) if running is None else None
        if running is None and info is None:
            raise NoSuchSession(session)
        if info is not None and info.kind in RECORDS:
            raise NoSuchSession(f"{session} that could go on: it is a record ({info.kind})")
        self._go(launch, after=running.task if running is not None else None)

    def answer(self, session: str, text: str) -> None:
        """Answer what a session waits for, or say something to one that runs."""
        self.resume(LaunchInput(host=self.host, session=session, answer=text))

    def adopt(self, record: str, task: asyncio.Task[Any]) -> None:
        """`task` works on a record, which no agent speaks in: to interrupt the record ends it, and all that it runs."""
        self._records[record] = task

    def interrupt(self, session: str) -> bool:
        """Stop a session this process drives: its tools and sandbox end with it, and it can go on later. Of a record,
        what works on it."""
        if (working := self._records.get(session)) is not None:
            if not working.done() and not working.cancelling():
                working.cancel()
            return not working.done()
        running = self._running.get(session)
        if running is None or running.mailbox.stopped:
            return False
        if not running.interrupted:  # a second cancellation would cut short how the first one settles things
            running.interrupted = True
            # Not before its first step: a task cancelled earlier would leave no session behind.
            asyncio.get_running_loop().call_soon(_cancel, running)
        return True

    async def wait(self, session: str) -> Outcome:
        """The outcome of the session's last drive in this process, once nothing more drives it. Raises what it
        raised."""
        while True:
            running = self._running.get(session)
            task = running.task if running is not None else self._done.get(session)
            if task is None:
                raise NoSuchSession(session)
            outcome = await asyncio.shield(task)
            newer = self._running.get(session)
            if newer is None or newer.task is task:
                return outcome

    def subscribe(self, session: str, after: int = 0) -> AsyncIterator[Event]:
        """Events after `after`, then every new one as it is stored; text still streaming comes as `draft`."""
        return self.bus.follow(self.host.store, session, after)

    async def close(self) -> None:
        """Interrupt everything and wait until it is settled."""
        self.closed = True
        while self._running:
            tasks = [running.task for running in self._running.values()]
            for session in list(self._running):
                self.interrupt(session)
            await asyncio.wait(tasks)
            await asyncio.sleep(0)  # the tasks' callbacks take them out

    def _go(self, launch: LaunchInput, after: asyncio.Task[Outcome] | None = None) -> str:
        session = launch.session or ""
        if self.closed:
            raise NoSuchSession(f"{session} any more here: this process is closing")
        mailbox = Mailbox()
        launch = replace(launch, mailbox=mailbox, bus=self.bus, supervisor=self)
        task = asyncio.get_running_loop().create_task(self._drive(launch, after), name=f"session {session}")
        self._running[session] = _Running(task, mailbox)
        collect_rarely(len(self._running))
        self._done.pop(session, None)
        task.add_done_callback(lambda done: self._finished(session, done))
        return session

    async def _drive(self, launch: LaunchInput, after: asyncio.Task[Outcome] | None) -> Outcome:
        if after is not None:
            try:
                await asyncio.wait({after})
            except asyncio.CancelledError:
                if not after.done():
                    raise
                return after.result()
        try:
            driver = self.host.driver(self.host, self._info(launch))
            suite = launch.suite or self._suite(launch.session or "")
            if suite is not None:
                driver = self.host.environment(driver, suite)
        except Exception as error:  # noqa: BLE001 - a broken bundle is the session's stop, told in words
            driver = _Broken(error)
        return await launch_agent(driver, launch)

    def _suite(self, session: str) -> Mapping[str, Any] | None:
        """The suite whose environment a stored session stands in."""
        info = self.host.store.session(session)
        if info is None or info.kind not in IN_A_LAB:
            return None
        started = next(iter(self.host.store.events(session, kinds=("started",), limit=1)), None)
        suite = started.data.get("suite") if started is not None else None
        return suite if isinstance(suite, dict) else None

    def _info(self, launch: LaunchInput) -> SessionInfo:
        """What a driver is made for: the session as stored, or as it is about to be."""
        known = self.host.store.session(launch.session or "")
        name = launch.provider_name
        if known is not None:
            return replace(
                known,
                provider=name or known.provider,
                model=launch.model or known.model,
                sandbox=launch.sandbox or known.sandbox,
            )
        return SessionInfo(
            id=launch.session or "",
            kind=launch.kind,
            agent=launch.agent,
            digest=launch.digest,
            channel=launch.channel,
            parent=launch.parent,
            depth=launch.depth,
            provider=name or "offline",
            model=launch.model,
            sandbox=launch.sandbox,
        )

    def _finished(self, session: str, task: asyncio.Task[Outcome]) -> None:
        if not task.cancelled():
            task.exception()  # whoever waits gets it; nobody has to
        running = self._running.get(session)
        if running is not None and running.task is task:
            del self._running[session]
            collect_rarely(len(self._running))
            self._done[session] = task
            if len(self._done) > MOST_DONE:
                self._done.pop(next(iter(self._done)))
        self.bus.notify(session)


def collect_rarely(sessions: int) -> None:
    """Look for garbage the more rarely, the more sessions run: most of what they have in hand is none, and looking
    through it again and again took a fifth of the time of 500."""
    young, *older = _USUAL
    if young:  # 0: nobody collects
        gc.set_threshold(young + OBJECTS_IN_HAND * sessions, *older)


def _cancel(running: _Running) -> None:
    if not running.mailbox.stopped:
        running.task.cancel()


class _Broken:
    """Stands in for a driver that could not be made, so that its session stops saying why."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name in ("prepare", "close"):  # what only some drivers have
            raise AttributeError(name)

        async def fail(*_: Any, **__: Any) -> Any:
            raise self._error

        return fail
