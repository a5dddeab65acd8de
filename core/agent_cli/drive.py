"""Driving a session whose provider drives itself: turns of an agent CLI, told, watched, recorded and ended by us."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from core.agent_cli.events import CliCharge, CliEnd, CliTotal, CliTurn, Mode
from core.agent_cli.memory import CliMemory, Known, prompt_for
from core.agent_cli.provider import CliProvider
from core.agent_cli.turn import Turn, TurnInput
from core.calls import APPROVAL_OPTIONS, Calls, Grants, Parked
from core.driver import Limits
from core.endings import EMPTY, INTERRUPTED, Stopped, budget_stop, doom_loop, nudge_text, provider_stop
from core.policy import NOTHING, LimitHit, Spent, limit_hit, spent_usd
from core.ports import Host
from core.provider import ProviderError, ToolSpec
from core.session import SessionLog
from core.stops import Stop, StopRecord, Waiting
from core.watching import Watching

NATIVE_TOOLS: Final = "provider:native-tools"
"""What a person allows who lets a CLI use tools of its own that cannot be switched off."""


@dataclass(slots=True)
class CliInput:
    """Everything the drive of a CLI needs. `allowed` says whether a person lets it use native tools (None: nobody was
    asked); `granted` whether they allow a tool of its own for this session or always. The rest is as in LoopInput."""

    host: Host
    provider: CliProvider
    memory: CliMemory
    calls: Calls
    tools: Sequence[ToolSpec]
    system: str
    model: str | None
    effort: str | None
    limits: Limits
    on_reply: Callable[[str], StopRecord]
    watching: Watching
    allowed: bool | None = None
    granted: Callable[[str], bool] = lambda tool: False
    inbox: list[str] = field(default_factory=list)
    spent_s: float = 0.0
    started: float = field(default_factory=time.monotonic)
    below: Callable[[], Spent] = lambda: NOTHING


async def drive_cli(log: SessionLog, given: CliInput) -> StopRecord:
    """Drive the session to its next stop. Raises StoreError where the log cannot be written, and CancelledError where
    the task is cancelled, once the CLI and all it started are dead."""
    drive = _CliDrive(log, given)
    try:
        drive.allow()
        while True:
            await drive.step()
    except Stopped as stopped:
        return stopped.record
    except Parked as parked:
        output = log.history.reply or None
        return StopRecord(parked.stop, parked.detail or None, output, parked.waiting, parked.evidence)
    except ProviderError as error:
        return provider_stop(error)


class _CliDrive:
    """The state of one drive of a CLI."""

    def __init__(self, log: SessionLog, given: CliInput) -> None:
        self.log = log
        self.given = given
        self.strangers = 0

    def allow(self) -> None:
        """Native tools that cannot be switched off need a yes, and are said to be unsafe."""
        given = self.given
        if given.provider.native_tools == "off" or given.allowed:
            return
        name = given.provider.title or given.provider.name
        if given.allowed is False:
            hint = "Answer yes, or use another provider."
            raise ProviderError("capability", f"{name} was not allowed to use its own tools.", hint=hint)
        text = (
            f"Unsafe: {name} has tools of its own that cannot be switched off. They would run directly on this "
            "machine, with your rights, outside the sandbox and its policy. Allow that?"
        )
        self.log.emit("notice", {"text": text})
        detail = {"tool": NATIVE_TOOLS, "native": True}
        waiting = Waiting("approval", NATIVE_TOOLS, text, APPROVAL_OPTIONS, "deny", (), False, False, detail)
        raise Stopped(StopRecord(Stop.NEEDS_APPROVAL, NATIVE_TOOLS, None, waiting))

    async def step(self) -> None:
        """Whatever is next: calls that a person has decided, else a turn of the CLI. Raises Stopped, Parked."""
        self._heed()
        history = self.log.history
        if history.pending:
            for call in self.given.calls.next():
                await self.given.calls.run(call)
            return
        self._say()
        prompt = self._prompt()
        if prompt is None:
            self._nothing_to_say()
            return
        self._check_limits()
        turn = Turn(self.log, self._turn_input(prompt))
        end = await turn.run()
        if turn.stop is not None:
            raise Stopped(turn.stop)
        if turn.parked is not None:
            raise turn.parked
        self._after(end)

    # --- before a turn -----------------------------------------------------------------------------

    def _heed(self) -> None:
        verdict = self.given.watching.due
        if verdict is None:
            return
        if verdict.level == "stop":
            raise Stopped(doom_loop(verdict, self.log.history.reply or None))
        body = {"text": nudge_text(verdict), "rule": verdict.rule, "evidence": dict(verdict.evidence)}
        self.log.emit("nudge", body)

    def _say(self) -> None:
        if self.given.inbox:
            self.log.append(*(("message", {"role": "user", "text": text}) for text in self.given.inbox))
            self.given.inbox.clear()

    def _prompt(self) -> str | None:
        _, known = self._state()
        return prompt_for(self.given.memory, self.log.history, fresh=known is None)

    def _state(self) -> tuple[Mode, Known | None]:
        """The CLI's session to go on with and how; None for a fresh one."""
        memory, provider = self.given.memory, self.given.provider
        known = memory.known(provider.name, provider.route)
        if known is not None:
            return "resume", known
        origin = memory.origin(provider.name, provider.route) if provider.forks else None
        if origin is None or self._went_on():
            return "fresh", None
        return "fork", origin

    def _went_on(self) -> bool:
        """Whether the session this one is a fork of has said more to a CLI since: that would come along."""
        forked = self.given.memory.forked
        if forked is None:
            return False
        session, seq = forked
        since = self.given.host.store.events(session, after=seq, kinds=("provider_session",), limit=1)
        return next(iter(since), None) is not None

    def _nothing_to_say(self) -> None:
        """The CLI has heard everything: its reply stands, or it was interrupted and goes on."""
        history = self.log.history
        if history.finish is not None and not history.reply.strip():
            self.log.emit("nudge", {"text": EMPTY, "rule": "empty"})
        elif history.incomplete or history.turn != "person":
            self.log.emit("nudge", {"text": INTERRUPTED, "rule": "interrupted"})
        else:
            raise Stopped(self.given.on_reply(history.reply))

    def _check_limits(self) -> None:
        hit = self.limit()
        if hit is not None:
            raise Stopped(budget_stop(hit, self.log.history.reply or None))

    def limit(self, more: CliCharge | None = None) -> LimitHit | None:
        """The first limit that is spent, with `more` spent than is stored."""
        info = self.log.info
        if more is not None:
            usd = info.usd  # what is not priced yet may be at the turn's end
            if usd is not None and more.usd is not None:
                usd = str(Decimal(usd) + more.usd)
            tokens_in = info.input_tokens + more.usage.input_tokens
            tokens_out = info.output_tokens + more.usage.output_tokens
            info = replace(info, input_tokens=tokens_in, output_tokens=tokens_out, usd=usd)
        return limit_hit(self.given.limits, info, self.log.history.steps, self.seconds(), self.given.below())

    def _out_of_time(self) -> StopRecord:
        limit = self.given.limits.seconds or 0.0
        hit = LimitHit("seconds", f"{limit:g}", f"{max(limit, self.seconds()):.1f}")
        return budget_stop(hit, self.log.history.reply or None)

    def seconds(self) -> float:
        """Seconds this session has been driven, this drive included."""
        return self.given.spent_s + time.monotonic() - self.given.started

    def _turn_input(self, prompt: str) -> TurnInput:
        given = self.given
        turn, baseline = self._asked(prompt)
        seconds = given.limits.seconds
        return TurnInput(
            host=given.host,
            provider=given.provider,
            turn=turn,
            parent=self._parent(),
            baseline=baseline,
            calls=given.calls,
            watching=given.watching,
            limit=self.limit,
            out_of_time=self._out_of_time,
            permit=self._permit,
            seconds_left=None if seconds is None else max(0.0, seconds - self.seconds()),
        )

    def _asked(self, prompt: str) -> tuple[CliTurn, CliTotal]:
        """The turn, and what its CLI had counted before."""
        given = self.given
        mode, known = self._state()
        own = data_directory(given.host, self.log.id, given.provider)
        turn = CliTurn(
            prompt=prompt,
            directory=Path(known.directory) if known is not None else own,
            scratch=own / "own",
            mode=mode,
            native=known.native if known is not None else None,
            model=given.model,
            effort=given.effort,
            budget=self._budget(),
            system=given.system,
            tools=given.tools,
            ambient=given.provider.ambient(),
        )
        model = given.model or given.provider.configured_model(turn)
        return replace(turn, model=model), known.total if known is not None else CliTotal()

    def _permit(self, tool: str, id: str) -> bool | None:
        """What a person said to a tool of the CLI's own."""
        memory = self.given.memory
        if self.given.granted(tool) or memory.permits[id] > 0:
            return True
        return False if memory.refusals[id] > 0 else None

    def _parent(self) -> Path | None:
        """The data directory of the session this one descends from, where it has one of the same CLI."""
        parent = self.log.info.parent
        found = data_directory(self.given.host, parent, self.given.provider) if parent else None
        return found / "config" if found is not None and found.is_dir() else None

    def _budget(self) -> Decimal | None:
        """What is left to spend, where the CLI stops at it by itself."""
        usd = self.given.limits.usd
        if usd is None or not self.given.provider.enforces_budget:
            return None
        spent = spent_usd(self.log.info) + self.given.below().usd
        return max(Decimal("0.000001"), Decimal(usd) - spent)

    # --- after a turn ------------------------------------------------------------------------------

    def _after(self, end: CliEnd | None) -> None:
        """What the CLI's ending means here; None where we ended it to tell it something. A reply is judged once
        nothing is left to tell."""
        if end is None:
            return
        match end.ending:
            case "reply":
                return
            case "budget":
                limit, spent = self.given.limits.usd or "?", self.log.info.usd or "unknown"
                hit = self.limit() or LimitHit("usd", limit, spent)
                raise Stopped(budget_stop(hit, self.log.history.reply or None))
            case "refused":
                raise Stopped(StopRecord(Stop.REFUSED, "refusal", self.log.history.reply or end.text or None))
            case "cancelled":
                raise Stopped(StopRecord(Stop.CANCELLED))
            case "unknown_session":
                self._stranger(end)
            case "error":
                raise ProviderError(end.detail or "protocol", end.message, hint=end.hint)

    def _stranger(self, end: CliEnd) -> None:
        """It has forgotten the session: a fresh one is told what was said, once."""
        self.strangers += 1
        if self.strangers > 1:
            raise ProviderError("not_found", end.message, hint=end.hint or "Start a new session.")
        self.given.memory.forget(self.given.provider.name)
        text = f"{end.message} A new one was started and told what was said so far."
        self.log.emit("notice", {"text": text})


def granted(grants: Grants, tool: str) -> bool:
    """Whether a person allows a tool for this session, or always."""
    return tool in grants.session or grants.always(tool)


def native_tools_allowed(grants: Grants, *, answering: bool) -> bool | None:
    """Whether a person lets a CLI use its own tools; None where they must be asked. A yes once, or a no, holds while
    they answer (`answering`), until their next message."""
    if granted(grants, NATIVE_TOOLS):
        return True
    if not answering:
        return None
    return True if NATIVE_TOOLS in grants.once else False if NATIVE_TOOLS in grants.denied else None


def data_directory(host: Host, session: str, provider: CliProvider) -> Path:
    """Where a CLI keeps what is a session's."""
    return host.home / "clis" / session / provider.full_name.replace(":", "-")
