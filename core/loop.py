"""The loop: model, tool calls, results, model, until it stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from core.calls import Calls, Parked
from core.driver import Limits
from core.history import blocks_to_json
from core.policy import limit_hit
from core.progress import ProgressGuard, Step, Verdict
from core.provider import Message, ModelProvider, ModelRequest, ProviderError, Text, ToolCall, ToolSpec, TurnEnd
from core.session import Pair, SessionLog
from core.stops import Option, Stop, Waiting
from core.streaming import stream_turn

MAX_CONTINUATIONS = 3
MAX_PAUSES = 5
RETRIES = 2
RETRY_WINDOW_S = 30.0
LONGEST_RETRY_AFTER_S = 60.0
CONTINUE = "Your reply was cut at the output limit. Continue exactly where it stopped, without repeating anything."
EMPTY = "Your reply was empty. Answer in words, or call a tool."


@dataclass(frozen=True, slots=True)
class StopRecord:
    """Why the loop is not running any more, as it goes into the log. `output` is the last reply's text."""

    stop: Stop
    detail: str | None = None
    output: str | None = None
    waiting: Waiting | None = None
    evidence: Any = None

    def to_json(self) -> dict[str, Any]:
        """The body of the `stop` event."""
        return {
            "stop": self.stop.value,
            "detail": self.detail,
            "output": self.output,
            "waiting": self.waiting.to_json() if self.waiting else None,
            "evidence": self.evidence,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StopRecord:
        """Read the body of a `stop` event."""
        waiting = data.get("waiting")
        return StopRecord(
            Stop(data["stop"]),
            data.get("detail"),
            data.get("output"),
            Waiting.from_json(waiting) if isinstance(waiting, dict) else None,
            data.get("evidence"),
        )


class Stopped(Exception):
    """Raised inside the loop to end it with a record."""

    def __init__(self, record: StopRecord) -> None:
        super().__init__(record.stop.value)
        self.record = record


class Compactor(Protocol):
    """Makes the history shorter where it nears the model's window."""

    async def __call__(self, request: ModelRequest) -> list[Pair]:
        """Events that compact it; none where there is room. Raises ProviderError `context` where it cannot shrink."""


@dataclass(slots=True)
class LoopInput:
    """Everything one loop needs: the assembled agent, its provider and what it may spend.

    `on_reply` decides what a plain reply means here; it is given the reply's text. `inbox` takes what the
    person says while it runs. `started` is the monotonic time the drive began.
    """

    system: str
    tools: Sequence[ToolSpec]
    calls: Calls
    provider: ModelProvider
    model: str | None
    effort: str | None
    limits: Limits
    on_reply: Callable[[str], StopRecord]
    guard: ProgressGuard
    compact: Compactor | None = None
    inbox: list[str] = field(default_factory=list)
    spent_s: float = 0.0
    started: float = field(default_factory=time.monotonic)


async def run_loop(log: SessionLog, given: LoopInput) -> StopRecord:
    """Drive the session to its next stop. The history says whose turn it is, so a resumed session just goes on.

    Raises StoreError where the log cannot be written, and CancelledError where the task is cancelled (the
    launcher settles what was open).
    """
    loop = _Loop(log, given)
    try:
        while True:
            match log.history.turn:
                case "tools":
                    await loop.run_tools()
                case "model":
                    await loop.model_turn()
                case "person":
                    if given.inbox:
                        loop.say()
                    else:
                        return given.on_reply(_last_reply(log.history.messages))
    except Stopped as stopped:
        return stopped.record
    except Parked as parked:
        output = _last_reply(log.history.messages) or None
        return StopRecord(parked.stop, parked.detail or None, output, parked.waiting, parked.evidence)


class _Loop:
    """The state of one drive: counters that bound what may repeat."""

    def __init__(self, log: SessionLog, given: LoopInput) -> None:
        self.log = log
        self.given = given
        self.continuations = 0
        self.pauses = 0
        self.partial = ""
        self.nudges: list[Pair] = []

    # --- tools -------------------------------------------------------------------------------------

    async def run_tools(self) -> None:
        """Give every open call its result, in call order, then ask the guard what it saw."""
        turn = self.log.history.turns
        for call in list(self.log.history.pending.values()):
            self._check_limits(counting_steps=False)
            step, seq = await self.given.calls.run(call)
            self._judge(replace(step, turn=turn, ref=seq))

    def _judge(self, step: Step) -> None:
        """Show a nudge to the model once the turn's calls are closed; stop where nudging did not help."""
        verdict = self.given.guard.observe(step)
        if verdict is None:
            return
        if verdict.level == "stop":
            raise Stopped(doom_loop(verdict, _last_reply(self.log.history.messages)))
        body = {"text": nudge_text(verdict), "rule": verdict.rule, "evidence": dict(verdict.evidence)}
        self.nudges.append(("nudge", body))

    # --- model -------------------------------------------------------------------------------------

    async def model_turn(self) -> None:
        """One request, from budget check to what its answer means."""
        self.say()
        self._check_limits()
        request = await self._request()
        turn = await self._answer(request)
        self._store(turn)
        text = "\n\n".join(b.text for b in turn.blocks if isinstance(b, Text) and b.text.strip())
        calls = [b for b in turn.blocks if isinstance(b, ToolCall)]
        match turn.finish:
            case "refusal":
                raise Stopped(StopRecord(Stop.REFUSED, "refusal", text or None))
            case "pause":
                self._pause()
            case "length" | "context" if not calls:
                self._continue(text, turn.finish)
            case _ if calls:
                self.continuations, self.pauses, self.partial = 0, 0, ""
            case _ if not text:
                self._empty()
            case _:
                self._reply(text)

    def say(self) -> None:
        """Put what waits to be said after the turn's results: our nudges, then the person's words."""
        pairs = self.nudges + [("message", {"role": "user", "text": text}) for text in self.given.inbox]
        self.nudges = []
        if self.given.inbox:
            self.given.inbox.clear()
            self.given.guard.observe(Step("user"))
        if pairs:
            self.log.append(*pairs)

    async def _request(self) -> ModelRequest:
        request = ModelRequest(
            session=self.log.id,
            system=self.given.system,
            messages=self.log.history.messages,
            tools=self.given.tools,
            model=self.given.model,
            effort=self.given.effort,
        )
        if self.given.compact is not None:
            try:
                pairs = await self.given.compact(request)
            except ProviderError as error:
                raise Stopped(_provider_stop(error)) from error
            if pairs:
                self.log.append(*pairs)
                self.given.guard.observe(Step("compact"))
        return request

    async def _answer(self, request: ModelRequest) -> TurnEnd:
        """The model's turn, tried again only for what can heal, and never once anything was streamed."""
        waited = 0.0
        for attempt in range(RETRIES + 1):
            try:
                return await stream_turn(self.log, self.given.provider, request)
            except ProviderError as error:
                delay = _retry_delay(error, attempt, waited)
                if delay is None:
                    raise Stopped(_provider_stop(error)) from error
                waited += delay
                self.log.emit(
                    "notice",
                    {"text": f"{error.message} Trying again in {delay:g} s ({attempt + 1} of {RETRIES})."},
                )
                await asyncio.sleep(delay)
        raise AssertionError("the last attempt always returns or raises")

    def _store(self, turn: TurnEnd) -> None:
        """One transaction: the message, what it cost, the session's totals."""
        history = self.log.history
        blocks = tuple(_unique(block, history.call_ids) for block in turn.blocks)
        provider, model = self.given.provider.name, turn.model or self.given.model
        body = {
            "role": "assistant",
            "id": f"m{history.turns + 1}",
            "text": "\n\n".join(b.text for b in blocks if isinstance(b, Text) and b.text.strip()),
            "blocks": blocks_to_json(blocks),
            "finish": turn.finish,
            "provider": provider,
            "model": model,
            "turn": history.turns + 1,
        }
        pairs: list[Pair] = [("message", body)]
        columns: dict[str, Any] = {}
        if turn.usage is not None:
            usage = turn.usage
            usd = None if turn.usd is None else format(turn.usd, "f")
            pairs.append(
                (
                    "usage",
                    {
                        "input_tokens": usage.input_tokens,
                        "output_tokens": usage.output_tokens,
                        "cached_tokens": usage.cached_tokens,
                        "requests": usage.requests,
                        "cost": {"usd": usd},
                        "provider": provider,
                        "model": model,
                    },
                )
            )
            columns = self.log.usage_columns(usage, turn.usd)
        if turn.notice:
            pairs.append(("notice", {"text": turn.notice}))
        self.log.append(*pairs, **columns)

    def _pause(self) -> None:
        self.pauses += 1
        if self.pauses > MAX_PAUSES:
            message = f"The model paused its turn {self.pauses} times without going on."
            raise Stopped(_provider_stop(ProviderError("endless_pause", message)))
        self.log.emit("nudge", {"text": "Go on.", "rule": "pause"})

    def _continue(self, text: str, finish: str) -> None:
        self.partial += text
        if finish == "context":
            message = "The conversation fills the model's window."
            raise Stopped(_provider_stop(ProviderError("context", message)))
        self.continuations += 1
        if self.continuations > MAX_CONTINUATIONS:
            raise Stopped(StopRecord(Stop.BUDGET, "output_limit", self.partial or None))
        self.log.emit("nudge", {"text": CONTINUE, "rule": "output_limit"})

    def _empty(self) -> None:
        verdict = self.given.guard.observe(Step("empty"))
        if verdict is not None and verdict.level == "stop":
            raise Stopped(doom_loop(verdict, None))
        self.log.emit("nudge", {"text": EMPTY, "rule": "empty"})

    def _reply(self, text: str) -> None:
        if self.given.inbox:
            return
        raise Stopped(self.given.on_reply(self.partial + text))

    # --- budgets -----------------------------------------------------------------------------------

    def _check_limits(self, *, counting_steps: bool = True) -> None:
        """Before anything more is started: is there anything left to spend?"""
        limits = self.given.limits if counting_steps else replace(self.given.limits, steps=None)
        seconds = self.given.spent_s + time.monotonic() - self.given.started
        hit = limit_hit(limits, self.log.info, self.log.history.turns, seconds)
        if hit is None:
            return
        waiting = Waiting(
            kind="budget",
            id=hit.name,
            message=f"The limit of {hit.limit} {hit.name} is spent ({hit.spent}). Extend it by a number, or end here.",
            options=(Option("extend", "extend N: allow N more"), Option("end", "end here")),
            recommended="end",
        )
        output = _last_reply(self.log.history.messages) or None
        evidence = {"limit": hit.name, "allowed": hit.limit, "spent": hit.spent}
        raise Stopped(StopRecord(Stop.BUDGET, hit.name, output, waiting, evidence))


# --- small decisions -----------------------------------------------------------------------------------


def nudge_text(verdict: Verdict) -> str:
    """What the model is told where it repeats itself."""
    failure = str(verdict.evidence.get("failure", "")).strip()
    quoted = f" What came back each time: {failure[:300]}" if failure else ""
    better = verdict.evidence.get("progress_would_be", "Another error, a changed file, or another result.")
    return (
        f"You are repeating yourself without anything new ({verdict.rule}, {verdict.evidence.get('count')} times)."
        f"{quoted} Progress would be: {better} Try something different, or ask the person."
    )


def doom_loop(verdict: Verdict, output: str | None) -> StopRecord:
    """The stop for a loop that nudging did not end, with its evidence and what a person can do."""
    failure = str(verdict.evidence.get("failure", ""))[:300]
    waiting = Waiting(
        kind="doom_loop",
        id=verdict.rule,
        message=f"The same thing {verdict.evidence.get('count')} times, nothing new: {failure}",
        options=(
            Option("hint", "hint TEXT: say what to try"),
            Option("retry", "retry from before it"),
            Option("switch", "switch MODEL"),
            Option("end", "end here"),
        ),
        recommended="hint",
    )
    return StopRecord(Stop.DOOM_LOOP, verdict.rule, output or None, waiting, dict(verdict.evidence))


def _provider_stop(error: ProviderError) -> StopRecord:
    text = f"{error.message} {error.hint}".strip()
    evidence = {"message": error.message, "hint": error.hint, "text": text}
    return StopRecord(Stop.PROVIDER_ERROR, error.detail, None, None, evidence)


def _retry_delay(error: ProviderError, attempt: int, waited: float) -> float | None:
    """Seconds until the next try, or None where trying again cannot help."""
    if not error.transient or attempt >= RETRIES:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= LONGEST_RETRY_AFTER_S else None
    delay = float(2**attempt)
    return delay if waited + delay <= RETRY_WINDOW_S else None


def _unique(block: Any, taken: set[str]) -> Any:
    """A call id the session has not seen: some servers count from zero in every turn."""
    if not isinstance(block, ToolCall) or (block.id and block.id not in taken):
        if isinstance(block, ToolCall):
            taken.add(block.id)
        return block
    base, number = block.id or "call", 2
    while f"{base}_{number}" in taken:
        number += 1
    taken.add(f"{base}_{number}")
    return replace(block, id=f"{base}_{number}")


def _last_reply(messages: Sequence[Message]) -> str:
    return messages[-1].text if messages and messages[-1].role == "assistant" else ""


def guard_from(log_events: Sequence[Any]) -> ProgressGuard:
    """A guard that has seen what the log has seen, so that a resumed loop does not start counting again."""
    guard = ProgressGuard()
    calls: dict[str, Mapping[str, Any]] = {}
    for event in log_events:
        step = step_from(event, calls)
        if step is not None:
            guard.observe(step)
    return guard


def step_from(event: Any, calls: dict[str, Mapping[str, Any]]) -> Step | None:
    """The step an event stands for; `calls` carries tool_call bodies from one event to its result."""
    data = event.data
    match event.kind:
        case "tool_call":
            calls[str(data.get("call"))] = data
            return None
        case "tool_result":
            call = calls.pop(str(data.get("call")), {})
            return Step(
                "tool",
                tool=str(call.get("tool", "")),
                args=call.get("args"),
                output=str(data.get("output", "")),
                ok=bool(data.get("ok")),
                workspace=data.get("workspace"),
                rejected=data.get("status") == "rejected",
                polls=bool(data.get("polls")),
                turn=call.get("turn"),
                ref=event.seq,
            )
        case "message" if data.get("role") == "user":
            return Step("user")
        case "answer" if data.get("kind") == "credentials":
            return Step("credential")
        case "answer":
            return Step("user")
        case "compaction":
            return Step("compact")
        case _:
            return None
