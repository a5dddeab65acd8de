"""Sessions running in this process: start, interrupt, answer, resume, subscribe; nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from core.events import Event
from core.launch import LaunchInput, Mailbox, NoSuchSession, Outcome, launch_agent
from core.ports import Host, SessionInfo
from core.session import Bus
from core.stops import Stop


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[Outcome]
    mailbox: Mailbox
    interrupted: bool = False


class Supervisor:
    """id -> (task, mailbox). One per process; all of it on one event loop."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.bus = Bus()
        self._running: dict[str, _Running] = {}
        self._done: dict[str, asyncio.Task[Outcome]] = {}
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
        next turn. Raises NoSuchSession."""
        session = launch.session or ""
        running = self._running.get(session)
        if running is not None and not running.task.done():
            words = launch.task or launch.answer
            if words:
                running.mailbox.inbox.append(words)
            return
        if self.host.store.session(session) is None:
            raise NoSuchSession(session)
        self._go(launch)

    def answer(self, session: str, text: str) -> None:
        """Answer what a session waits for, or say something to one that runs."""
        self.resume(LaunchInput(host=self.host, session=session, answer=text))

    def interrupt(self, session: str) -> bool:
        """Stop a session this process drives: its tools and sandbox end with it, and it can go on later."""
        running = self._running.get(session)
        if running is None or running.task.done():
            return False
        if not running.interrupted:  # a second cancellation would cut short how the first one settles things
            running.interrupted = True
            running.task.cancel()
        return True

    async def wait(self, session: str) -> Outcome:
        """The outcome of the session's current, or else last, drive in this process. Raises what it raised."""
        running = self._running.get(session)
        task = running.task if running is not None else self._done.get(session)
        if task is None:
            raise NoSuchSession(session)
        return await asyncio.shield(task)

    def subscribe(self, session: str, after: int = 0) -> AsyncIterator[Event]:
        """Events after `after`, then every new one as it is stored; text still streaming comes as `draft`."""
        return self.bus.follow(self.host.store, session, after)

    async def close(self) -> None:
        """Interrupt everything and wait until it is settled."""
        self.closed = True
        tasks = [running.task for running in self._running.values()]
        for session in list(self._running):
            self.interrupt(session)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _go(self, launch: LaunchInput) -> str:
        session = launch.session or ""
        mailbox = Mailbox()
        launch = replace(launch, mailbox=mailbox, bus=self.bus)
        task = asyncio.get_running_loop().create_task(self._drive(launch), name=f"session {session}")
        self._running[session] = _Running(task, mailbox)
        self._done.pop(session, None)
        task.add_done_callback(lambda done: self._finished(session, done))
        return session

    async def _drive(self, launch: LaunchInput) -> Outcome:
        driver = self.host.driver(self.host, self._info(launch))
        outcome = await launch_agent(driver, launch)
        while launch.mailbox.inbox and outcome.stop is not Stop.CANCELLED:
            # Said while the drive was coming to its stop: no turn of it was left to hear them.
            words = "\n\n".join(launch.mailbox.inbox)
            launch.mailbox.inbox.clear()
            outcome = await launch_agent(driver, replace(launch, task=words, answer=None))
        return outcome

    def _info(self, launch: LaunchInput) -> SessionInfo:
        """What a driver is made for: the session as stored, or as it is about to be."""
        known = self.host.store.session(launch.session or "")
        name = launch.provider if isinstance(launch.provider, str) else None
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
        if (running := self._running.get(session)) is not None and running.task is task:
            del self._running[session]
        self._done[session] = task
        if len(self._done) > 1000:
            self._done.pop(next(iter(self._done)))
        self.bus.notify(session)
