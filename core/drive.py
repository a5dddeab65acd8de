"""One drive of one session: open it, settle what the person said, run the loop, store its stop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from core.bridge import Assembled, assemble
from core.builder.state import BuildState
from core.calls import APPROVAL_OPTIONS, Calls, Parked, grants_from
from core.driver import Driver, Limits, Prepares
from core.history import NEVER_RAN
from core.intake import Intake
from core.launch import Busy, LaunchInput, NoSuchSession, Outcome
from core.loop import LoopInput, StopRecord, guard_from, run_loop
from core.policy import limits_from, limits_to_json, tighter
from core.ports import Sandbox, SandboxUnavailable, SessionInfo, Workspace
from core.provider import ModelProvider, Provider
from core.session import Pair, SessionLog
from core.stops import Stop, Waiting
from core.streaming import settle_draft
from core.workdigest import WorkspaceDigest

UNSAFE_TOOL = "sandbox:process"


class Drive:
    """One drive of one session."""

    def __init__(self, driver: Driver, launch: LaunchInput) -> None:
        self.driver = driver
        self.launch = launch
        self.host = launch.host
        self.state = BuildState()
        self.workspace: Workspace | None = None
        self.sandbox: Sandbox | None = None
        self.began = time.monotonic()
        self.log = self._open()

    # --- opening -----------------------------------------------------------------------------------

    def _open(self) -> SessionLog:
        """Create the session, or claim and load it."""
        launch, store = self.launch, self.host.store
        known = store.session(launch.session) if launch.session else None
        if known is None:
            if launch.task is None:
                raise NoSuchSession(launch.session or "")
            return self._create()
        if not store.claim(known.id):
            raise Busy(known.id)
        log = SessionLog(store, known, launch.bus, launch.watch)
        log.reducers.append(self.state.apply)
        self.events = log.load()
        return log

    def _create(self) -> SessionLog:
        launch = self.launch
        provider = launch.provider
        name = provider.name if isinstance(provider, Provider) else provider or "offline"
        info = SessionInfo(
            id=launch.session or self.host.new_id(),
            kind=launch.kind,
            agent=launch.agent,
            digest=launch.digest,
            channel=launch.channel,
            parent=launch.parent,
            depth=launch.depth,
            started=self.host.now(),
            provider=name,
            model=launch.model,
            sandbox=launch.sandbox,
            usd="0.00",
            title=_title(launch.task or ""),
        )
        started = {
            "kind": info.kind,
            "agent": info.agent,
            "digest": info.digest,
            "channel": info.channel,
            "parent": info.parent,
            "depth": info.depth,
            "provider": info.provider,
            "model": info.model,
            "effort": launch.effort,
            "sandbox": info.sandbox,
            "limits": limits_to_json(launch.limits),
            "publish": launch.publish,
            "source": launch.source,
        }
        first: list[Pair] = [("started", started), ("message", {"role": "user", "text": launch.task or ""})]
        self.events = self.host.store.create_session(info, first)
        log = SessionLog(self.host.store, info, launch.bus, launch.watch)
        log.reducers.append(self.state.apply)
        for event in self.events:
            log.history.apply(event)
            self.state.apply(event)
            if launch.watch is not None:
                launch.watch(event)
        launch.bus.notify(info.id)
        self.new = True
        return log

    new = False

    # --- driving -----------------------------------------------------------------------------------

    async def to_stop(self) -> Outcome:
        """Settle what the person said, run the loop, store its stop."""
        task = asyncio.current_task()
        try:
            record = await self._run()
        except asyncio.CancelledError:
            record = self._cancelled()
            if task is not None:
                task.uncancel()
        except Parked as parked:
            record = StopRecord(parked.stop, parked.detail or None, None, parked.waiting, parked.evidence)
        return self._stop(record)

    async def _run(self) -> StopRecord:
        provider = self._provider()
        if not self.new:
            intake = Intake(self.log, self.events, self.limits(), self._on_reply)
            early = intake.take(self.launch.task, self.launch.answer)
            if early is not None:
                return early
            if self.log.info.stop is not None:  # it runs again, also where nothing was said
                self.log.append(stop=None, ended=None)
        if not isinstance(provider, ModelProvider):
            message = f"{provider.name} drives itself, and sessions driven so are not part of this version."
            return StopRecord(Stop.PROVIDER_ERROR, "capability", None, None, {"message": message, "text": message})
        try:
            self.sandbox, why = await self.host.sandboxes.choose(self._sandbox_name())
        except SandboxUnavailable as error:
            text = str(error)
            return StopRecord(Stop.PLATFORM_ERROR, "sandbox_unavailable", None, None, {"message": text, "text": text})
        if self.sandbox.unsafe and provider.runs_no_source_code and self.new:
            self.log.emit("notice", {"text": f"Unsafe: no sandbox here ({why}). The offline rules run no source code."})
        if isinstance(self.driver, Prepares):
            await self.driver.prepare(self.log.emit, self.host.workspace_path(self.log.id))
        agent = await assemble(self.driver, builder=self.log.info.kind == "builder")
        return await run_loop(self.log, self._loop_input(agent, provider))

    def _loop_input(self, agent: Assembled, provider: ModelProvider) -> LoopInput:
        from core.compaction import compactor

        info, persona = self.log.info, agent.persona
        grants = grants_from(self.events, self._always)
        digest = WorkspaceDigest(self.host.workspace_path(info.id))
        calls = Calls(
            self.log,
            agent.tools,
            persona.policy,
            grants,
            self._open_workspace,
            digest.take,
            unsafe=self.sandbox is not None and self.sandbox.unsafe,
        )
        self.grants = grants
        model = info.model or persona.model or provider.default_model()
        window = self.launch.context_window or provider.context_window(model)
        return LoopInput(
            system=agent.system,
            tools=agent.specs,
            calls=calls,
            provider=provider,
            model=model,
            effort=self.launch.effort,
            limits=tighter(persona.limits, self.limits()),
            on_reply=self._on_reply,
            guard=guard_from(self.events),
            compact=compactor(self.log, provider, window) if window else None,
            inbox=self.launch.mailbox.inbox,
            started=self.began,
        )

    def limits(self) -> Limits:
        """The session's limits: as started, as changed since, as given now."""
        values: dict[str, Any] = {}
        for event in self.events:
            if event.kind in ("started", "settings") and isinstance(event.data.get("limits"), dict):
                values.update(event.data["limits"])
        values.update(limits_to_json(self.launch.limits))
        return limits_from(values)

    def _on_reply(self, text: str) -> StopRecord:
        """A plain reply: done, or, of a Builder whose revision is not there yet, a question."""
        if self.log.info.kind == "builder" and not self.state.done:
            return StopRecord(Stop.AWAITING_USER, None, text)
        return StopRecord(Stop.COMPLETED, None, text)

    # --- provider, sandbox -------------------------------------------------------------------------

    def _provider(self) -> Provider:
        """The provider of this drive; a change of provider, model, sandbox or limits is recorded."""
        launch, info = self.launch, self.log.info
        given = launch.provider
        name = given.name if isinstance(given, Provider) else given or info.provider
        changes: dict[str, Any] = {}
        if not self.new:
            wanted = {"provider": name, "model": launch.model, "sandbox": launch.sandbox}
            changes = {k: v for k, v in wanted.items() if v is not None and v != getattr(info, k)}
            if "provider" in changes and "model" not in changes and info.model is not None:
                changes["model"] = None
            limits = limits_to_json(launch.limits)
            if changes or limits:
                body = {**changes, **({"limits": limits} if limits else {})}
                self.events += self.log.append(("settings", body), **changes)
        return given if isinstance(given, Provider) else self.host.provider(name)

    def _sandbox_name(self) -> str | None:
        return self.launch.sandbox or self.log.info.sandbox

    async def _open_workspace(self, call: str) -> Workspace:
        if self.workspace is None:
            if self.sandbox is None:
                raise SandboxUnavailable("No sandbox was chosen for this session.")
            self._allow_unsafe(self.sandbox, call)
            self.workspace = await self.sandbox.open(self.host.workspace_path(self.log.id))
        return self.workspace

    def _allow_unsafe(self, sandbox: Sandbox, call: str) -> None:
        """The unsafe mode needs a yes, unless it was asked for by name or no source code can run."""
        if not sandbox.unsafe or self._sandbox_name() == sandbox.name or UNSAFE_TOOL in self.grants.session:
            return
        if self.host.provider(self.log.info.provider).runs_no_source_code or call in self.grants.once:
            return
        message = (
            "No sandbox works here, so commands would run directly on this machine, with your rights. "
            "Allow that for this session? (Or give --sandbox process.)"
        )
        detail = {"tool": UNSAFE_TOOL}
        waiting = Waiting("approval", call, message, APPROVAL_OPTIONS, "deny", (), False, False, detail)
        raise Parked(Stop.NEEDS_APPROVAL, waiting, UNSAFE_TOOL)

    def _always(self, tool: str) -> bool:
        return bool(self.host.store.get_value(f"grant:{self.log.info.agent or 'builder'}:{tool}"))

    # --- ending ------------------------------------------------------------------------------------

    def _cancelled(self) -> StopRecord:
        """Settle what was open, so that the history is whole and the session can go on."""
        settle_draft(self.log)
        pairs: list[Pair] = []
        for call in self.log.history.pending:
            if call in self.log.history.intents:
                text = "Cancelled by the person while it ran. It may have had an effect."
                pairs.append(("tool_result", {"call": call, "ok": False, "output": text, "status": "cancelled"}))
            else:
                pairs.append(("tool_result", {"call": call, "ok": False, "output": NEVER_RAN, "status": "skipped"}))
        if pairs:
            self.log.append(*pairs)
        return StopRecord(Stop.CANCELLED)

    def _stop(self, record: StopRecord) -> Outcome:
        """Store the stop; the session's columns say it in the same transaction."""
        columns: dict[str, Any] = {"stop": record.stop.value, "ended": self.host.now(), "summary": summary(record)}
        state = self.state
        if self.log.info.kind == "builder" and state.agent:
            columns |= {"agent": state.agent, "digest": state.digest, "channel": state.channel}
        self.log.append(("stop", record.to_json()), **columns)
        info = self.log.info
        return Outcome(record.stop, info, record, info.agent, info.digest, info.channel)

    async def close(self) -> None:
        """Free the sandbox and give the session up."""
        try:
            if self.workspace is not None:
                await self.workspace.close()
        finally:
            self.host.store.release(self.log.id)


def summary(record: StopRecord) -> str:
    """One line for a list of sessions: what it waits for, said or failed with."""
    if record.waiting is not None:
        text = record.waiting.message
    elif record.output:
        text = record.output
    elif isinstance(record.evidence, dict):
        text = str(record.evidence.get("text") or record.evidence.get("reason") or record.detail or "")
    else:
        text = record.detail or ""
    line = " ".join(text.split())
    return line[:199] + "…" if len(line) > 200 else line


def _title(task: str) -> str:
    line = next((line.strip() for line in task.splitlines() if line.strip()), "")
    return line[:119] + "…" if len(line) > 120 else line
