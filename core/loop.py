"""The loop: model, tool calls, results, model, until it stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from core.calls import Calls, Parked
from core.driver import Limits
from core.endings import CONTINUE, EMPTY, INTERRUPTED, Stopped, budget_stop, doom_loop, nudge_text, provider_stop
from core.history import LOST_MESSAGE, NEVER_RAN, blocks_to_json
from core.policy import NOTHING, LimitHit, Spent, limit_hit, unpriced
from core.provider import Block, ModelProvider, ModelRequest, ProviderError, Text, ToolCall, ToolSpec, TurnEnd
from core.session import Pair, SessionLog
from core.standing import gist
from core.stops import Stop, StopRecord, sentences
from core.streaming import stream_turn, whole_turn
from core.watching import Watching

T = TypeVar("T")

MAX_CONTINUATIONS = 3
MAX_PAUSES = 5
RETRIES = 2
RETRY_WINDOW_S = 30.0
LONGEST_RETRY_AFTER_S = 60.0


class Compactor(Protocol):
    """Makes the history shorter where it nears the model's window."""

    async def __call__(
        self, request: ModelRequest, ask: Callable[[ModelRequest], Awaitable[TurnEnd]], *, force: bool = False
    ) -> list[Pair]:
        """Events that compact it; none where there is room, unless `force`. `ask` makes the request for a summary.
        Raises ProviderError `context` where it cannot shrink."""


@dataclass(slots=True)
class LoopInput:
    """Everything one loop needs: the assembled agent, its provider and what it may spend.

    `on_reply` decides what a plain reply means here; it is given the reply's text. `inbox` takes what the
    person says while it runs. `spent_s` are the seconds of earlier drives, `started` the monotonic time this
    one began. `below` gives what its children have spent. `told` is the gist of the notices that need no repeating.
    """

    system: str
    tools: Sequence[ToolSpec]
    calls: Calls
    provider: ModelProvider
    model: str | None
    effort: str | None
    limits: Limits
    on_reply: Callable[[str], StopRecord]
    watching: Watching
    compact: Compactor | None = None
    inbox: list[str] = field(default_factory=list)
    spent_s: float = 0.0
    started: float = field(default_factory=time.monotonic)
    below: Callable[[], Spent] = lambda: NOTHING
    told: Set[str] = frozenset()


async def run_loop(log: SessionLog, given: LoopInput) -> StopRecord:
    """Drive the session to its next stop. The history says whose turn it is, so a resumed session just goes on.

    Raises StoreError where the log cannot be written, and CancelledError where the task is cancelled (the
    launcher settles what was open).
    """
    loop = _Loop(log, given)
    try:
        loop.heed()
        while True:
            match log.history.turn:
                case "tools":
                    await loop.run_tools()
                case "model":
                    await loop.model_turn()
                case "person":
                    loop.after_reply()
    except Stopped as stopped:
        return stopped.record
    except Parked as parked:
        output = log.history.reply or None
        return StopRecord(parked.stop, parked.detail or None, output, parked.waiting, parked.evidence)


class _OutOfTime(Exception):
    """The session's seconds ran out while something was going on."""


class _Loop:
    """The state of one drive. What bounds repetition stands in the history, so that it outlives a crash."""

    def __init__(self, log: SessionLog, given: LoopInput) -> None:
        self.log = log
        self.given = given
        self.pauses = 0
        self.told_unpriced = False
        self.whatever_steps = replace(given.limits, steps=None)
        self.provider_name = given.provider.name

    def heed(self) -> None:
        """Do what the guard says: show a nudge to the model, or stop where nudging did not help."""
        verdict = self.given.watching.due
        if verdict is None:
            return
        if verdict.level == "stop":
            raise Stopped(doom_loop(verdict, self.log.history.reply))
        body = {"text": nudge_text(verdict), "rule": verdict.rule, "evidence": dict(verdict.evidence)}
        self.log.emit("nudge", body)

    # --- tools -------------------------------------------------------------------------------------

    async def run_tools(self) -> None:
        """Give the next open call its result, or those that may run at once, then do what the guard says."""
        self._check_limits(counting_steps=False)
        calls = self.given.calls.next()
        try:
            await self._in_time(self._run_calls(calls))
        except _OutOfTime:
            text = "Stopped while it ran: the session's time was spent. It may have had an effect."
            body = {"ok": False, "output": text, "status": "cancelled"}
            history = self.log.history
            self.log.append(*(("tool_result", {"call": c, **body}) for c in history.pending if c in history.intents))
            raise self._out_of_time() from None
        self.heed()

    async def _run_calls(self, calls: Sequence[ToolCall]) -> None:
        if len(calls) == 1:
            await self.given.calls.run(calls[0])
            return
        results = await asyncio.gather(*(self.given.calls.run(call) for call in calls), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result

    # --- model -------------------------------------------------------------------------------------

    async def model_turn(self) -> None:
        """One request, from budget check to its stored answer. What the answer means the history says."""
        self.say()
        self._check_limits()
        try:
            turn = await self._in_time(self._answer())
        except _OutOfTime:
            raise self._out_of_time() from None
        except ProviderError as error:
            raise Stopped(provider_stop(error)) from error
        await self._store(turn)
        if turn.finish == "refusal":
            raise Stopped(StopRecord(Stop.REFUSED, "refusal", self.log.history.reply or None))
        if turn.finish == "pause":
            self._pause()
        else:
            self.pauses = 0
            if self.log.history.turn == "model":
                self._not_whole(turn.finish)

    def say(self) -> None:
        """Put what the person said meanwhile after the turn's results."""
        if self.given.inbox:
            from core.effects.keyspotting import heard

            words, notices = heard(self.given.inbox, self.log.info.agent)
            self.log.append(*(("message", {"role": "user", "text": text}) for text in words), *notices)
            self.given.inbox.clear()

    async def _answer(self) -> TurnEnd:
        """The model's turn, on a history that fits its window."""
        request = ModelRequest(
            session=self.log.id,
            system=self.given.system,
            messages=self.log.history.messages,
            tools=self.given.tools,
            model=self.given.model,
            effort=self.given.effort,
        )
        await self._compact(request, force=False)
        try:
            return await self._patiently(lambda: stream_turn(self.log, self.given.provider, request))
        except ProviderError as error:
            unsaid = self.log.history.turn == "model"
            if error.detail != "context" or not unsaid or not await self._compact(request, force=True):
                raise
        return await self._patiently(lambda: stream_turn(self.log, self.given.provider, request))

    async def _compact(self, request: ModelRequest, *, force: bool) -> bool:
        if self.given.compact is None:
            return False
        pairs = await self.given.compact(request, self._ask, force=force)
        if pairs:
            self.log.append(*pairs)
        return bool(pairs)

    async def _ask(self, request: ModelRequest) -> TurnEnd:
        """A request of our own, charged to the session like any other."""
        turn = await self._patiently(lambda: whole_turn(self.given.provider, request))
        pair, columns = self._charge(turn)
        self.log.append(pair, **columns)
        return turn

    async def _patiently(self, attempt: Callable[[], Awaitable[TurnEnd]]) -> TurnEnd:
        """Try again only what can heal; never what has streamed anything."""
        began = time.monotonic()
        for number in range(RETRIES + 1):
            try:
                return await attempt()
            except ProviderError as error:
                if error.usage is not None:
                    pair, columns = self.log.charge(error.usage, error.usd, self.provider_name, self.given.model)
                    self.log.append(pair, **columns)
                delay = retry_delay(error, number, time.monotonic() - began)
                if delay is None:
                    raise
                words = sentences(error.message, f"Trying again in {delay:.2g} s ({number + 1} of {RETRIES}).")
                self.log.emit("notice", {"text": words})
                await asyncio.sleep(delay)
        raise AssertionError("the last attempt always returns or raises")

    def _charge(self, turn: TurnEnd) -> tuple[Pair, dict[str, Any]]:
        return self.log.charge(turn.usage, turn.usd, self.provider_name, turn.model or self.given.model)

    async def _store(self, turn: TurnEnd) -> None:
        """One transaction: the message, what it cost, the session's totals. Calls of a refusal never run."""
        history = self.log.history
        blocks = _with_unique_ids(turn.blocks, history.call_ids)
        body = {
            "role": "assistant",
            "id": f"m{history.turns + 1}",
            "text": "\n\n".join(b.text for b in blocks if isinstance(b, Text) and b.text.strip()),
            "blocks": blocks_to_json(blocks),
            "finish": turn.finish,
            "provider": self.provider_name,
            "model": turn.model or self.given.model,
            **({"effort": self.given.effort} if self.given.effort else {}),
            "turn": history.turns + 1,
        }
        usage, columns = self._charge(turn)
        pairs: list[Pair] = [("message", body), usage]
        if turn.notice and (turn.finish == "refusal" or gist(turn.notice) not in self.given.told):
            pairs.append(("notice", {"text": turn.notice}))
        if turn.finish == "refusal":
            closed = {"ok": False, "output": NEVER_RAN, "status": "skipped"}
            pairs += [("tool_result", {"call": b.id, **closed}) for b in blocks if isinstance(b, ToolCall)]
        await self.log.append_together(*pairs, **columns)

    def _pause(self) -> None:
        """A paused turn is sent again as it is, but not for ever."""
        self.pauses += 1
        if self.pauses > MAX_PAUSES:
            message = f"The model paused its turn {self.pauses} times without going on."
            raise Stopped(provider_stop(ProviderError("endless_pause", message)))

    # --- what an answer without calls means --------------------------------------------------------

    def after_reply(self) -> None:
        """Nobody is left to act: go on where the answer was not whole, else stop with what the reply means."""
        history = self.log.history
        if self.given.inbox:
            self.say()
        elif not history.messages:
            self.log.emit("nudge", {"text": LOST_MESSAGE, "rule": "lost"})
        elif history.incomplete:
            self._check_limits()
            self.log.emit("nudge", {"text": INTERRUPTED, "rule": "interrupted"})
        elif history.finish == "refusal":
            raise Stopped(StopRecord(Stop.REFUSED, "refusal", history.reply or None))
        elif history.finish in ("length", "context") or not history.reply.strip():
            self._not_whole(history.finish)
        else:
            raise Stopped(self.given.on_reply(history.reply))

    def _not_whole(self, finish: str | None) -> None:
        """An answer that was cut, be it before its first word, or had none."""
        match finish:
            case "length":
                self._continue()
            case "context":
                message = "The conversation fills the model's window."
                raise Stopped(provider_stop(ProviderError("context", message)))
            case _:
                self._empty()

    def _continue(self) -> None:
        if self.log.history.cuts > MAX_CONTINUATIONS:
            raise Stopped(StopRecord(Stop.BUDGET, "output_limit", self.log.history.reply or None))
        self.log.emit("nudge", {"text": CONTINUE, "rule": "output_limit"})

    def _empty(self) -> None:
        if self.given.watching.due is not None:
            self.heed()
        else:
            self.log.emit("nudge", {"text": EMPTY, "rule": "empty"})

    # --- budgets -----------------------------------------------------------------------------------

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, unless the session's seconds run out first: then it is cancelled. Raises _OutOfTime."""
        limit = self.given.limits.seconds
        if limit is None:
            return await work
        try:
            async with asyncio.timeout(max(0.0, limit - self._seconds())) as clock:
                return await work
        except TimeoutError:
            if clock.expired():
                raise _OutOfTime from None
            raise

    def _seconds(self) -> float:
        return self.given.spent_s + time.monotonic() - self.given.started

    def _out_of_time(self) -> Stopped:
        limit = self.given.limits.seconds or 0.0
        return self._spent(LimitHit("seconds", f"{limit:g}", f"{max(limit, self._seconds()):.1f}"))

    def _check_limits(self, *, counting_steps: bool = True) -> None:
        """Before anything more is started: is there anything left to spend?"""
        limits = self.given.limits if counting_steps else self.whatever_steps
        hit = limit_hit(limits, self.log.info, self.log.history.steps, self._seconds(), self.given.below())
        if hit is not None:
            raise self._spent(hit)
        info = self.log.info
        if limits.usd is not None and info.usd is None and info.requests and not self.told_unpriced:
            self.told_unpriced = True
            self.log.emit("notice", {"text": unpriced(info.model or self.given.model)})

    def _spent(self, hit: LimitHit) -> Stopped:
        return Stopped(budget_stop(hit, self.log.history.reply or None))


# --- small decisions -----------------------------------------------------------------------------------


def retry_delay(error: ProviderError, attempt: int, elapsed: float) -> float | None:
    """Seconds until the next try, or None where trying again cannot help. `elapsed` seconds since the first."""
    if not error.transient or attempt >= RETRIES:
        return None
    if error.retry_after is not None:
        return max(0.0, error.retry_after) if error.retry_after <= LONGEST_RETRY_AFTER_S else None
    delay = float(2**attempt)
    return delay if elapsed + delay <= RETRY_WINDOW_S else None


def _with_unique_ids(blocks: Sequence[Block], known: Set[str]) -> tuple[Block, ...]:
    """Call ids the session has not seen: some servers count from zero in every turn."""
    taken: set[str] = set()
    renamed: list[Block] = []
    for block in blocks:
        if isinstance(block, ToolCall):
            name, number = block.id, 2
            while not name or name in known or name in taken:
                name, number = f"{block.id or 'call'}_{number}", number + 1
            taken.add(name)
            block = block if name == block.id else replace(block, id=name)
        renamed.append(block)
    return tuple(renamed)
