"""One drive of one session: open it, settle what the person said, run the loop, store its stop."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from core.agent_cli.drive import CliInput, drive_cli, granted, native_tools_allowed
from core.agent_cli.memory import CliMemory
from core.agent_cli.provider import CliProvider
from core.bridge import Assembled, assemble, text_digest
from core.builder.state import BuildState
from core.calls import APPROVAL_OPTIONS, UNSAFE_TOOL, Calls, Grants, Parked, grants_from
from core.driver import Closes, Decision, Driver, Limits, Persona, Prepares, Tool
from core.history import NEVER_RAN
from core.intake import GOING_ON, Intake
from core.launch import Busy, LaunchInput, NoSuchSession, Outcome
from core.loop import LoopInput, run_loop
from core.policy import COMMAND_DEFAULTS, NOTHING, Spent, grant_key, limits_to_json
from core.ports import Sandbox, SandboxUnavailable, SessionInfo, StoreError, Workspace
from core.provider import ModelProvider, Provider
from core.session import Pair, SessionLog
from core.standing import Standing
from core.stops import Stop, StopRecord, Waiting, sentences
from core.streaming import settle_draft
from core.watching import Watching
from core.workdigest import WorkspaceDigest

if TYPE_CHECKING:
    from core.lab.delegation import Delegation

_HEARD: Final = frozenset(
    {Stop.COMPLETED, Stop.AWAITING_USER, Stop.NEEDS_APPROVAL, Stop.NEEDS_CREDENTIALS, Stop.DOOM_LOOP, Stop.REFUSED}
)
"""Stops at which words the person had said meanwhile are heard at once: the loop goes on with them."""


class Drive:
    """One drive of one session. Made for one that exists, it owns it; `close` gives it up again."""

    def __init__(self, driver: Driver, launch: LaunchInput) -> None:
        self.driver = driver
        self.launch = launch
        self.host = launch.host
        self.state = BuildState()
        self.standing = Standing()
        self.watching = Watching()
        self.grants = Grants({}, set(), set(), self._always)
        self.workspace: Workspace | None = None
        self.sandbox: Sandbox | None = None
        self.provider: Provider | None = None
        self.delegation: Delegation | None = None
        self.began = time.monotonic()
        self.new = False
        self.log = self._open()
        self.watching.live()

    # --- opening -----------------------------------------------------------------------------------

    def _open(self) -> SessionLog:
        """Create the session, or claim and load it."""
        launch, store = self.launch, self.host.store
        known = store.session(launch.session) if launch.session else None
        if known is None:
            if launch.task is None:
                raise NoSuchSession(launch.session or "")
            return self._create(launch.task)
        if not store.claim(known.id):
            raise Busy(known.id)
        log = self._log(known)
        try:
            log.load()
        except BaseException:
            with contextlib.suppress(StoreError):
                store.release(known.id)
            raise
        return log

    def _log(self, info: SessionInfo) -> SessionLog:
        reducers = [self.standing.apply, self.watching.apply]
        if info.kind == "builder":
            reducers.append(self.state.apply)
        return SessionLog(self.host.store, info, self.launch.bus, self.launch.watch, reducers)

    def _create(self, task: str) -> SessionLog:
        from core.effects.keyspotting import heard, screen

        launch = self.launch
        (task,), notices = heard((task,), launch.agent)
        info = SessionInfo(
            id=launch.session or self.host.new_id(),
            kind=launch.kind,
            agent=launch.agent,
            digest=launch.digest,
            channel=launch.channel,
            parent=launch.parent,
            depth=launch.depth,
            started=self.host.now(),
            provider=launch.provider_name or "offline",
            model=launch.model,
            sandbox=launch.sandbox,
            usd="0.00",
            title=_title(task),
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
            "source": launch.source and screen(launch.source)[0],
            "replay": launch.replay,
        }
        if launch.inherited is not None:
            started["inherited"] = launch.inherited.to_json()
        if not launch.network:
            started["network"] = False
        if launch.suite is not None:
            started["suite"] = dict(launch.suite)
        if launch.persona is not None:
            persona = screen(launch.persona)[0]
            started["persona"] = {"digest": text_digest(persona), "text": persona}
            words = "Its persona is another text, on trial; all else is as in the revision."
            notices = [*notices, ("notice", {"text": words})]
        log = self._log(info)
        log.create(("started", started), ("message", {"role": "user", "text": task}), *notices)
        self.new = True
        return log

    # --- driving -----------------------------------------------------------------------------------

    async def to_stop(self) -> Outcome:
        """Settle what the person said, run the loop, store its stop. Raises StoreError where that cannot be."""
        task = asyncio.current_task()
        try:
            record = await self._run()
        except asyncio.CancelledError:
            record = self._cancelled()
            if task is not None:
                task.uncancel()
        except Parked as parked:
            record = StopRecord(parked.stop, parked.detail or None, None, parked.waiting, parked.evidence)
        except StoreError as error:
            if not self.new and self.log.info.stop is not None:
                raise  # it has not gone on: what it waited for it still waits for
            try:
                return self._stop(_fault(error))
            except StoreError:
                raise error from None
        except Exception as error:  # noqa: BLE001 - whatever fails in a driver or a tool's setting must not be a traceback
            record = _fault(error)
        return self._stop(record)

    async def _run(self) -> StopRecord:
        self._note_settings()
        if not self.new:
            intake = Intake(self.log, self.standing, await self._limits_now())
            early = intake.take(self.launch.task, self.launch.answer)
            if early is not None:
                return early
            if self.log.info.stop is not None:  # it runs again, also where nothing was said
                self.log.append(**GOING_ON)
        provider = self._provider()
        try:
            self.sandbox, why = await self.host.sandboxes.choose(self.sandbox_name)
        except SandboxUnavailable as error:
            text = str(error)
            return StopRecord(Stop.PLATFORM_ERROR, "sandbox_unavailable", None, None, {"message": text, "text": text})
        if self.sandbox.unsafe and provider.runs_no_source_code and self.new:
            text = f"Unsafe: no sandbox here ({why}). The offline rules run no source code."
            asked = self.sandbox_name == self.sandbox.name
            self.log.emit("notice", {"text": "Unsafe: commands run on this machine, unisolated." if asked else text})
        if isinstance(self.driver, Prepares):
            await self.driver.prepare(self.log.emit, self.host.workspace_path(self.log.id))
        builder, inherited = self.log.info.kind == "builder", self.standing.inherited
        tried = self.standing.persona
        agent = await assemble(
            self.driver, text=tried, builder=builder, inherited=inherited, delegation=self._delegates
        )
        if isinstance(provider, CliProvider):
            return await drive_cli(self.log, self._cli_input(agent, provider))
        if isinstance(provider, ModelProvider):
            return await self._loop(self._loop_input(agent, provider))
        message = f"{provider.name} can neither drive a session nor be driven."
        return StopRecord(Stop.PROVIDER_ERROR, "capability", None, None, {"message": message, "text": message})

    async def _loop(self, given: LoopInput) -> StopRecord:
        """The loop to its stop; where the person had spoken meanwhile, on with what they said."""
        while True:
            record = await run_loop(self.log, given)
            if record.stop not in _HEARD or not given.inbox:
                return record
            Intake(self.log, self.standing, given.limits).say(*given.inbox)
            given.inbox.clear()

    def _calls(self, agent: Assembled) -> Calls:
        self.grants = grants_from(self.standing.approvals, self._always)
        digest = WorkspaceDigest(self.host.workspace_path(self.log.id))
        unsafe = self.sandbox is not None and self.sandbox.unsafe
        given = (self.log, agent.tools, agent.persona.policy, self.grants, self._open_workspace, digest.take)
        return Calls(*given, unsafe=unsafe, allow_code=self._allow_code)

    def _cli_input(self, agent: Assembled, provider: CliProvider) -> CliInput:
        info, persona, calls = self.log.info, agent.persona, self._calls(agent)
        memory = CliMemory()
        self.log.follow_with(memory.apply, CliMemory.KINDS)
        return CliInput(
            host=self.host,
            provider=provider,
            memory=memory,
            calls=calls,
            tools=agent.specs,
            system=agent.system,
            model=info.model or persona.model,
            effort=self.effort or (persona.effort if persona.effort in provider.efforts else None),
            limits=self.standing.limits(persona.limits),
            on_reply=self._on_reply,
            watching=self.watching,
            allowed=native_tools_allowed(self.grants, answering=self.launch.answer is not None),
            granted=partial(granted, self.grants),
            inbox=self.launch.mailbox.inbox,
            spent_s=self.standing.driven_s,
            started=self.began,
            below=self._below,
        )

    def _loop_input(self, agent: Assembled, provider: ModelProvider) -> LoopInput:
        from core.compaction import compactor

        info, persona, calls = self.log.info, agent.persona, self._calls(agent)
        model = info.model or persona.model or provider.default_model()
        return LoopInput(
            system=agent.system,
            tools=agent.specs,
            calls=calls,
            provider=provider,
            model=model,
            effort=self.effort or persona.effort,
            limits=self.standing.limits(persona.limits),
            on_reply=self._on_reply,
            watching=self.watching,
            compact=compactor(self.log, self.launch.context_window or provider.context_window(model)),
            inbox=self.launch.mailbox.inbox,
            spent_s=self.standing.driven_s,
            started=self.began,
            below=self._below,
            told=self.standing.told,
        )

    @property
    def effort(self) -> str | None:
        """The effort a person chose for the session, if any."""
        return self.launch.effort or self.standing.effort

    def _delegates(self, persona: Persona) -> list[Tool]:
        """The tools that start children, for an agent that has presets."""
        if not persona.delegates:
            return []
        # The one place where a drive leads to further drives.
        from core.lab.delegation import delegation_tools
        from core.lab.parent import delegation_of

        self.delegation = delegation_of(self, persona)
        return delegation_tools(self.delegation)

    def policy_now(self, persona: Persona) -> dict[str, Decision]:
        """The words of the policy, "ask" become "allow" where people said so for the session or always."""
        words: dict[str, Decision] = {**COMMAND_DEFAULTS, UNSAFE_TOOL: "ask", **persona.policy}
        asked = [tool for tool, word in words.items() if word == "ask"]
        return words | {t: "allow" for t in asked if t in self.grants.session or self._always(t)}

    def _below(self) -> Spent:
        return self.delegation.spent if self.delegation is not None else NOTHING

    async def _limits_now(self) -> Limits:
        """The limits an answer may extend; a driver that cannot say who it is has none of its own."""
        if self.launch.answer is None:
            return Limits()
        return self.standing.limits((await self.driver.persona()).limits)

    def _on_reply(self, text: str) -> StopRecord:
        """A plain reply: done, or, of a Builder whose revision is not there yet, a question."""
        if self.log.info.kind == "builder" and not self.state.done:
            return StopRecord(Stop.AWAITING_USER, None, text)
        return StopRecord(Stop.COMPLETED, None, text)

    # --- provider, sandbox -------------------------------------------------------------------------

    def _note_settings(self) -> None:
        """Record what this drive changes of the session: provider, model, sandbox, effort, limits.

        An answer changes no limits: a launch that still names those of the start must not undo an extension.
        """
        launch, info = self.launch, self.log.info
        if self.new:
            return
        wanted = {"provider": launch.provider_name, "model": launch.model, "sandbox": launch.sandbox}
        columns: dict[str, str | None] = {k: v for k, v in wanted.items() if v is not None and v != getattr(info, k)}
        if "provider" in columns and "model" not in columns and info.model is not None:
            columns["model"] = None
        body: dict[str, Any] = dict(columns)
        limits = limits_to_json(launch.limits)
        if limits and launch.answer is None:
            body["limits"] = limits
        effort = launch.effort if "provider" in columns else launch.effort or self.standing.effort
        if effort != self.standing.effort:  # another provider has other words for it
            body["effort"] = effort
        if body:
            self.log.append(("settings", body), **columns)

    def _provider(self) -> Provider:
        """The provider of this drive. Raises LookupError for a name there is none of."""
        given = self.launch.provider
        self.provider = given if isinstance(given, Provider) else self.host.provider(self.log.info.provider)
        return self.provider

    @property
    def sandbox_name(self) -> str | None:
        """The kind of sandbox that was asked for, if any."""
        return self.launch.sandbox or self.log.info.sandbox

    async def _open_workspace(self, call: str) -> Workspace:
        if self.workspace is None:
            if self.sandbox is None:
                raise SandboxUnavailable("No sandbox was chosen for this session.")
            self._allow_unsafe(self.sandbox, call, "commands")
            path, network = self.host.workspace_path(self.log.id), self.standing.network
            self.workspace = await self.sandbox.open(path, network=network)
        return self.workspace

    def _allow_code(self, call: str) -> None:
        """Code of the agent's own runs where it is isolated, or after a yes, whoever thinks."""
        if self.sandbox is not None:
            self._allow_unsafe(self.sandbox, call, "the agent's code")

    def _allow_unsafe(self, sandbox: Sandbox, call: str, what: Literal["commands", "the agent's code"]) -> None:
        """The unsafe mode needs a yes, unless it was asked for by name or no source code can run."""
        if not sandbox.unsafe or self.sandbox_name == sandbox.name or UNSAFE_TOOL in self.grants.session:
            return
        seen = self.grants.once.get(call, {})
        if seen.get("unsafe") or seen.get("tool") == UNSAFE_TOOL or self._always(UNSAFE_TOOL):
            return
        if what == "commands" and self.provider is not None and self.provider.runs_no_source_code:
            return
        message = (
            f"No sandbox works here, so {what} would run directly on this machine, with your rights. "
            "Allow that for this session? (Or give --sandbox process.)"
        )
        detail = {"tool": UNSAFE_TOOL}
        waiting = Waiting("approval", call, message, APPROVAL_OPTIONS, "deny", (), False, False, detail)
        raise Parked(Stop.NEEDS_APPROVAL, waiting, UNSAFE_TOOL)

    def _always(self, tool: str) -> bool:
        inherited = self.standing.inherited
        if inherited is not None and inherited.word(tool) != "allow":  # a yes to the child is none to its parent
            return False
        return bool(self.host.store.get_value(grant_key(self.log.info, tool)))

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
        """Store the stop; the session's columns say it in the same transaction. Words nobody heard are kept.

        Whatever the stop, its output is the last reply's text, be it one that was cut off."""
        record = replace(record, output=record.output or self.log.history.reply or None)
        inbox = self.launch.mailbox.inbox
        if inbox:
            Intake(self.log, self.standing, Limits()).say(*inbox)
            inbox.clear()
        columns: dict[str, Any] = {"stop": record.stop.value, "ended": self.host.now(), "summary": summary(record)}
        state = self.state
        if self.log.info.kind == "builder" and state.agent and self.standing.suite is None:  # evaluated: none is kept
            columns |= {"agent": state.agent, "digest": state.digest, "channel": state.channel}
        body = {**record.to_json(), "driven_s": round(time.monotonic() - self.began, 3)}
        self.log.append(("stop", body), **columns)
        self.launch.mailbox.stopped = True
        info = self.log.info
        return Outcome(record.stop, info, record, info.agent, info.digest, info.channel)

    async def close(self) -> None:
        """Free the sandbox, let the driver go, give the session up: each whatever becomes of the others."""
        async with contextlib.AsyncExitStack() as left:
            left.callback(self._release)
            if self.workspace is not None:
                left.push_async_callback(self.workspace.close)
            if isinstance(self.driver, Closes):
                left.push_async_callback(self.driver.close)

    def _release(self) -> None:
        with contextlib.suppress(StoreError):  # where nothing can be written, our death frees it
            self.host.store.release(self.log.id)


def _fault(error: Exception) -> StopRecord:
    """The stop for what failed in Artificer, its driver or its store: words, and where the person may look."""
    code = getattr(error, "code", None)
    detail = code if isinstance(code, str) else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
    message = str(getattr(error, "message", None) or (error.args[0] if error.args else "") or type(error).__name__)
    hint = str(getattr(error, "hint", None) or "")
    evidence = {"error": type(error).__name__, "message": message, "hint": hint, "text": sentences(message, hint)}
    return StopRecord(Stop.PLATFORM_ERROR, detail, None, None, evidence)


def summary(record: StopRecord) -> str:
    """One line for a list of sessions: what it waits for, failed with or said."""
    evidence = record.evidence if isinstance(record.evidence, dict) else {}
    if record.waiting is not None:
        text = record.waiting.message
    else:
        text = str(evidence.get("text") or evidence.get("reason") or record.output or record.detail or "")
    line = " ".join(text.split())
    return line[:199] + "…" if len(line) > 200 else line


def _title(task: str) -> str:
    line = next((line.strip() for line in task.splitlines() if line.strip()), "")
    return line[:119] + "…" if len(line) > 120 else line
