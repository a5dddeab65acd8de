"""What the screens do with sessions: start, answer, interrupt, go on, follow. No widgets in here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from core import Event, Host, LaunchInput, SessionInfo, Supervisor, Waiting
    from tui.view.pasted import Place

BATCH_S: Final = 0.02
"""Events that come closer together are shown together."""
HISTORY: Final = 100
RECALLED: Final = 4000
"""Characters kept of what was sent."""
LEFT: Final = "app:left"


class Desk:
    """The host and the sessions this process drives. `failed` is told of drives that raised."""

    def __init__(self, host: Host, failed: Callable[[str, BaseException], None] = lambda session, error: None) -> None:
        self.host = host
        self.store = host.store
        self.failed = failed
        self._watching: set[asyncio.Task[Any]] = set()
        self._followed: set[str] = set()
        self._broken: set[str] = set()
        """Sessions whose drive here ended by an error, so that their columns still say that they run."""
        self._version = 0
        self._server: asyncio.Server | None = None
        self._supervisor: Supervisor | None = None

    @property
    def supervisor(self) -> Supervisor:
        """Made when the first session is looked at, because the loop's modules take a while to load."""
        if self._supervisor is None:
            from core import Supervisor

            self._supervisor = Supervisor(self.host)
        return self._supervisor

    def drives(self, session: str) -> bool:
        """Whether this process drives it now."""
        return self._supervisor is not None and session in self._supervisor.running()

    # --- beginning and going on --------------------------------------------------------------------

    async def build(self, text: str, *, agent: str | None = None) -> str:
        """Start a Builder session with the person's words (a source may be among them); its id.

        Raises UnknownRef where `agent` is none.
        """
        from core import build_launch

        return await self._start(build_launch(self.host, message=text, agent=agent))

    async def run(self, agent: str, ref: str | None, task: str) -> str:
        """Start a run of an agent; its id. Raises UnknownRef."""
        from core import run_launch

        return await self._start(run_launch(self.host, agent, ref, task))

    async def _start(self, launch: LaunchInput) -> str:
        await self.listen()
        session = self.supervisor.start(launch)
        self._watch(session)
        # The drive creates the session before its first pause: after one turn of the loop it can be shown.
        await asyncio.sleep(0)
        return session

    async def say(self, session: str, text: str) -> str | None:
        """Answer what a session waits for, or say something to it. Why not, in words, where it was not taken.

        Raises StoreError where nothing can be stored.
        """
        from core import NoAnswer, read_answer

        waiting = self.waiting(session)
        if waiting is not None:
            answer = read_answer(waiting, text)
            if isinstance(answer, NoAnswer):
                return answer.why
        if self.foreign(session):
            if await asyncio.to_thread(self._deliver, session, "answer", text):
                return None
            return "The process that drives this session does not answer. Try again."
        await self._go_on(session, answer=text)
        return None

    async def keep_secret(self, session: str, name: str, value: str) -> str | None:
        """Keep a value for what the session's revision declares as `name`. Why not, in words, where it was not kept."""
        from core import SecretsError, UnknownRef, set_credential

        info, secrets = self.store.session(session), self.host.secrets
        if info is None or info.agent is None or secrets is None:
            return "There is no agent here that it could be kept for."
        try:
            await asyncio.to_thread(set_credential, self.store, secrets, info.agent, name, value, info.digest)
        except (SecretsError, UnknownRef) as error:
            return f"{error.message} {error.hint}".strip()
        return None

    async def keepable(self, session: str, wanted: Sequence[str] = ()) -> list[Place]:
        """What a value could be kept for in a session: what it waits for, `wanted`, or else all that its agent
        declares, those without a value first."""
        from core import declared_by, has_values
        from tui.view.pasted import Place

        info, secrets = self.store.session(session), self.host.secrets
        if info is None or info.agent is None or secrets is None:
            return []

        def look(agent: str, digest: str | None) -> list[Place]:
            found = declared_by(self.store, agent, digest or self.store.latest(agent))
            there = has_values(secrets, agent, found)
            return [Place(agent, name, one.hosts, one.injection, there[name]) for name, one in found.items()]

        places = await asyncio.to_thread(look, info.agent, info.digest)
        return sorted((p for p in places if not wanted or p.name in wanted), key=lambda place: place.taken)[:9]

    async def passphrase_wanted(self) -> Literal["none", "needed", "new"]:
        """What keeping a value would want first: nothing, a passphrase, or a new one."""
        secrets = self.host.secrets
        return "none" if secrets is None else await asyncio.to_thread(secrets.passphrase)

    async def unlock(self, passphrase: str) -> str | None:
        """Open the encrypted file, or make it. Why not, in words, where that failed."""
        from core import SecretsError

        assert self.host.secrets is not None
        try:
            await asyncio.to_thread(self.host.secrets.unlock, passphrase)
        except SecretsError as error:
            return f"{error.message} {error.hint}".strip()
        return None

    async def resume(self, session: str, *, model: str | None = None, provider: str | None = None) -> None:
        """Go on without words, where it stopped or was interrupted."""
        await self._go_on(session, model=model, provider=provider)

    async def change(self, session: str, *, model: str | None = None, provider: str | None = None) -> None:
        """Go on with another model or provider."""
        waiting = self.waiting(session)
        if waiting is not None and waiting.kind == "doom_loop" and model is not None:
            await self._go_on(session, answer=f"switch {model}")
        else:
            await self._go_on(session, model=model, provider=provider)

    async def _go_on(
        self, session: str, *, answer: str | None = None, model: str | None = None, provider: str | None = None
    ) -> None:
        from core import LaunchInput

        override = self.host.settings.override
        await self.listen()
        self._broken.discard(session)
        self.supervisor.resume(
            LaunchInput(
                host=self.host,
                session=session,
                answer=answer,
                provider=provider or override("provider"),
                model=model or override("model"),
                effort=override("effort"),
                sandbox=override("sandbox"),
                context_window=self.host.settings.context_window,
            )
        )
        self._watch(session)
        await asyncio.sleep(0)

    async def fork(self, session: str) -> tuple[str | None, str]:
        """Make a session that begins as this one stands: its id, or why there is none, in words."""
        from core import CannotFork, StoreError, fork_session

        try:
            return (await fork_session(self.host, session)).id, ""
        except (CannotFork, StoreError) as error:
            return None, f"{error.message} {error.hint}".strip()
        except LookupError as error:
            return None, str(error)

    async def interrupt(self, session: str) -> bool:
        """Stop a session, whichever process drives it. False where nobody does."""
        if self.drives(session):
            return self.supervisor.interrupt(session)
        return await asyncio.to_thread(self._deliver, session, "interrupt")

    def _deliver(self, session: str, op: str, text: str | None = None) -> bool:
        from impl.control import deliver

        return deliver(self.host, session, op, text)

    def _watch(self, session: str) -> None:
        """Tell of a drive that ends with an error instead of a stop."""

        async def outcome() -> None:
            (ended,) = await asyncio.gather(self.supervisor.wait(session), return_exceptions=True)
            if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
                self._let_go(session)
                self.failed(session, ended)

        task = asyncio.get_running_loop().create_task(outcome())
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    def _let_go(self, session: str) -> None:
        """Nobody drives it any more, though no stop says so."""
        from core import StoreError

        with contextlib.suppress(StoreError):
            if self.store.owner_socket(session) == self.store.own_socket():
                self._broken.add(session)
                self.store.release(session)

    async def listen(self) -> None:
        """Let other processes reach the sessions driven here; once, before the first of them begins."""
        if self._server is None:
            from impl.control import serve

            self._server = await serve(self.host, self.supervisor)

    async def close(self) -> None:
        """Interrupt what runs here; each session can go on later."""
        if self._server is not None:
            self._server.close()
        if self._supervisor is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._supervisor.close(), 5)
        self.store.close()

    # --- looking -----------------------------------------------------------------------------------

    def foreign(self, session: str) -> bool:
        """Whether another process drives it now."""
        if self.drives(session):
            return False
        info = self.session(session)
        return info is not None and info.status == "running"

    def session(self, session: str) -> SessionInfo | None:
        """A session's columns as they are now."""
        info = self.store.session(session)
        return None if info is None else self.now(info)

    def now(self, info: SessionInfo) -> SessionInfo:
        """The columns, corrected where the store could not be told that a drive is over."""
        if info.id in self._broken and info.status == "running" and not self.drives(info.id):
            return replace(info, status="interrupted")
        return info

    def waiting(self, session: str) -> Waiting | None:
        """What a stopped session waits for."""
        from core import Waiting

        for event in reversed(self.store.tail(session, 40)):
            if event.damaged:
                continue
            if event.kind == "stop":
                found = event.data.get("waiting")
                return Waiting.from_json(found) if isinstance(found, dict) else None
            if event.kind in ("answer", "tool_call") or event.kind == "message":
                return None
        return None

    def before(self, session: str, seq: int, count: int) -> list[Event]:
        """Up to `count` events before `seq`, oldest first."""
        after = max(0, seq - 1 - count)
        return list(self.store.events(session, after=after, limit=seq - 1 - after)) if seq > 1 else []

    async def sandbox(self, info: SessionInfo) -> tuple[str, bool]:
        """The kind of sandbox a session has here, and whether it is unsafe; empty where none can be had."""
        from core import SandboxUnavailable

        try:
            chosen, _ = await self.host.sandboxes.choose(info.sandbox)
        except SandboxUnavailable:
            return info.sandbox or "", False
        return chosen.name, chosen.unsafe

    async def usual_model(self, info: SessionInfo) -> str:
        """The model the session's provider takes where none is named; empty where that is its own affair."""
        from core import ModelProvider

        def find() -> str:
            provider = self.host.provider(info.provider)
            return (provider.default_model() or "") if isinstance(provider, ModelProvider) else ""

        if info.model:
            return info.model
        try:
            return await asyncio.to_thread(find)
        except (LookupError, ImportError, ValueError):  # a setting that cannot be used is said where it goes on
            return ""

    # --- following ---------------------------------------------------------------------------------

    async def follow(self, session: str, after: int) -> AsyncIterator[list[Event]]:
        """Events after `after` in batches, whoever drives the session; of the drafts in a batch only the last."""
        queue: list[Event] = []
        ready = asyncio.Event()

        async def pump() -> None:
            async for event in self.supervisor.subscribe(session, after):
                queue.append(event)
                ready.set()
                if len(queue) % 200 == 0:
                    await asyncio.sleep(0)

        task = asyncio.get_running_loop().create_task(pump())
        task.add_done_callback(lambda _: ready.set())
        self._followed.add(session)
        try:
            while True:
                await ready.wait()
                await asyncio.sleep(BATCH_S)
                ready.clear()
                batch, queue[:] = queue[:], []
                if batch:
                    yield _last_draft_only(batch)
                elif task.done():
                    task.result()
                    return
        finally:
            self._followed.discard(session)
            task.cancel()

    def poll(self) -> bool:
        """Whether any process has written since the last call; followers of sessions are woken then."""
        version = self.store.data_version()
        if version == self._version:
            return False
        self._version = version
        for session in self._followed:
            self.supervisor.bus.notify(session)
        return True

    # --- small things to remember ------------------------------------------------------------------

    def history(self) -> list[str]:
        """What the person sent before, oldest first."""
        kept = self.store.get_value("app:history")
        return [text for text in kept if isinstance(text, str)] if isinstance(kept, list) else []

    def remember(self, text: str) -> None:
        """Add to the history, without the keys that were pasted into it."""
        from core import screen

        text, _ = screen(text[: 5 * RECALLED])  # looking through megabytes takes seconds
        self.keep("app:history", [*self.history(), text[:RECALLED]][-HISTORY:])

    def keep(self, key: str, value: Any) -> None:
        """Keep a small value over restarts; None forgets it. Nothing happens where nothing can be written."""
        from core import StoreError

        with contextlib.suppress(StoreError):
            self.store.set_value(key, value)


def _last_draft_only(batch: Sequence[Event]) -> list[Event]:
    last = max((n for n, event in enumerate(batch) if event.kind == "draft"), default=-1)
    return [event for n, event in enumerate(batch) if event.kind != "draft" or n == last]
