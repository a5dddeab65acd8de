"""One turn of an agent CLI: started, read, watched, and ended in every way it can end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from core.agent_cli.events import (
    CliCall,
    CliCharge,
    CliDelta,
    CliEnd,
    CliEvent,
    CliFigures,
    CliNotice,
    CliParser,
    CliPermission,
    CliResult,
    CliSession,
    CliText,
    CliTotal,
    CliTurn,
)
from core.agent_cli.keys import keys_in, without
from core.agent_cli.memory import permission_id
from core.agent_cli.process import LONGEST_LINE, CliRun
from core.agent_cli.provider import CliProvider
from core.agent_cli.record import Recorder
from core.agent_cli.tools import STOP_NOW, ToolDoor, offered
from core.calls import APPROVAL_OPTIONS, Calls, Parked
from core.endings import budget_stop, doom_loop, nudge_text
from core.history import NEVER_RAN
from core.policy import LimitHit
from core.ports import Host
from core.session import Pair, SessionLog
from core.stops import Stop, StopRecord, Waiting
from core.watching import Watching

MOST_NOTICES: Final = 50
ANSWER_SEEN_S: Final = 2.0
"""How long a CLI gets to write down the answer that tells it to stop, before it is interrupted."""
_STOPPED: Final = "Stopped while it ran: the turn ended. It may have had an effect."


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What one turn needs. `baseline` is what the CLI had counted before it; `limit` the first spent limit, if
    any, with what this turn has spent so far; `seconds_left` of the session's; `permit` what a person said to a tool of
    the CLI's own and a permission's id, None where they must be asked."""

    host: Host
    provider: CliProvider
    turn: CliTurn
    calls: Calls
    watching: Watching
    baseline: CliTotal
    limit: Callable[[CliCharge | None], LimitHit | None]
    out_of_time: Callable[[], StopRecord]
    permit: Callable[[str, str], bool | None] = lambda tool, id: None
    parent: Path | None = None
    seconds_left: float | None = None


class Turn:
    """One turn. After `run`, `stop` or `parked` says how the session ends, where it does."""

    def __init__(self, log: SessionLog, given: TurnInput) -> None:
        self.log = log
        self.given = given
        self.stop: StopRecord | None = None
        self.parked: Parked | None = None
        self._turn = given.turn
        self._native: str | None = None
        self._process: CliRun | None = None
        self._keys: tuple[str, ...] = ()
        self._figures: list[CliFigures] = []
        self._end: CliEnd | None = None
        self._error: Exception | None = None
        self._halt = asyncio.Event()
        self._stirred = asyncio.Event()
        self._heard = time.monotonic()
        self._answered = asyncio.Event()
        self._ours: set[str] = set()
        self._notices = 0
        self._spoke = False
        how = {"route": given.provider.route, **({"effort": given.turn.effort} if given.turn.effort else {})}
        self._recorder = Recorder(log, given.provider.name, given.turn.model, how)
        self._door = ToolDoor(given.turn.tools, given.calls, self._recorder, self, given.provider.announces_calls)

    async def run(self) -> CliEnd | None:
        """Run it to its end, which is returned; None where we ended it. Raises ProviderError, StoreError."""
        given = self.given
        if self._turn.mode == "fresh":
            await given.provider.ready()
        given.provider.seed(self._turn, given.parent)
        async with offered(given.host, self.log.id, self._door) as (argv, env):
            self._turn = replace(self._turn, mcp=argv, mcp_env=env)
            invocation = given.provider.invoke(self._turn)
            self._turn = replace(self._turn, native=invocation.native)
            merged = given.provider.environment(self._turn, given.provider.overlay, invocation)
            self._keys = keys_in(merged)
            process = self._process = await given.provider.spawn(invocation, merged)
            try:
                await self._watch(process)
            finally:
                await process.close()
        if self._error is not None:
            raise self._error
        return None if self._halt.is_set() else self._end

    # --- watching ----------------------------------------------------------------------------------

    async def _watch(self, process: CliRun) -> None:
        """Read it to its end, or end it; what it said and cost is stored either way."""
        parser = self.given.provider.parser(self._turn)
        reading = asyncio.create_task(self._read(process, parser))
        clock = self._clock()
        try:
            await self._until_over(reading, process)
        finally:
            if clock is not None:
                clock.cancel()
            await self._wind_down(reading, process, parser)

    def _clock(self) -> asyncio.TimerHandle | None:
        left = self.given.seconds_left
        return None if left is None else asyncio.get_running_loop().call_later(left, self._out_of_time)

    def _out_of_time(self) -> None:
        self._halt_with(self.given.out_of_time())

    async def _read(self, process: CliRun, parser: CliParser) -> None:
        async for line in process.lines():
            self._heard = time.monotonic()
            for event in parser.feed(without(line, self._keys)):
                self._take(event)

    async def _until_over(self, reading: asyncio.Task[None], process: CliRun) -> None:
        """Until the CLI closes its output, is halted, lingers after its result, or falls silent in the middle."""
        deadlines = process.deadlines
        stirred = asyncio.create_task(self._stirred.wait())
        try:
            while not reading.done() and not stirred.done():
                left = self._heard + deadlines.silent - time.monotonic()
                if left <= 0 and not self._door.busy:
                    self._hung(deadlines.silent)
                    return
                await asyncio.wait(
                    {reading, stirred}, timeout=left if left > 0 else 1.0, return_when=asyncio.FIRST_COMPLETED
                )
            final = self._end is not None and self._end.final
            if not self._halt.is_set() and not final:
                await asyncio.wait({reading}, timeout=deadlines.linger)
        finally:
            stirred.cancel()

    def _hung(self, within: float) -> None:
        name = self.given.provider.title or self.given.provider.name
        message = f"{name} fell silent in the middle of its turn for {within:g} s and was ended."
        hint = "Resume the session to try again."
        self._end = CliEnd("error", detail="timeout", message=message, hint=hint, final=True)

    async def _wind_down(self, reading: asyncio.Task[None], process: CliRun, parser: CliParser) -> None:
        """End the process if it has not ended, hear its last words, and store what is left."""
        if self.parked is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SEEN_S):
                    await self._answered.wait()
        if not reading.done():
            process.interrupt()
        await self._door.close()
        await asyncio.wait({reading}, timeout=process.deadlines.interrupt)
        exit = await process.exit(0.0 if not reading.done() else process.deadlines.interrupt)
        reading.cancel()
        result = (await asyncio.gather(reading, return_exceptions=True))[0]
        if isinstance(result, Exception):
            self._error = result
        for event in parser.finish(replace(exit, stderr=without(exit.stderr, self._keys))):
            self._take(event)
        if process.dropped:
            self._notice(f"{process.dropped} of its lines were longer than {LONGEST_LINE:,} bytes and left out.")
        self._settle()

    def _settle(self) -> None:
        """Store the end: the reply or what was broken off, and what it cost, in one transaction where it can be."""
        if self.parked is None and self.log.history.pending:
            closed = {"ok": False, "output": _STOPPED, "status": "cancelled"}
            never = {"ok": False, "output": NEVER_RAN, "status": "skipped"}
            intents = self.log.history.intents
            pending = list(self.log.history.pending)
            self.log.append(
                *(("tool_result", {"call": call, **(closed if call in intents else never)}) for call in pending)
            )
        pairs, columns = self._charged()
        end = self._end
        if end is not None and end.ending in ("reply", "refused") and not self._halt.is_set():
            self._recorder.settle()
            finish = "stop" if end.ending == "reply" else "refusal"
            self._recorder.reply(end.text, finish, *pairs, **columns)
            return
        self._recorder.broken_off()
        if pairs:
            self.log.append(*pairs, **columns)

    def _charged(self) -> tuple[list[Pair], dict[str, object]]:
        given = self.given
        turn = replace(self._turn, native=self._native)
        charge = given.provider.record_cost(turn, self._figures, given.baseline, self._recorder.model)
        if charge is None:
            failed = self._end is not None and self._end.ending in ("error", "unknown_session")
            return ([], {}) if self._native is None or (failed and not self._spoke) else self._uncounted()
        pairs: list[Pair] = []
        if self._native is not None:
            body = given.provider.record_session(turn, self._native, charge.model, charge.total)
            kept = given.provider.transcript(turn, self._native)
            body["transcript"] = str(kept) if kept is not None else None
            pairs.append(("provider_session", body))
        if not charge.usage.input_tokens and not charge.usage.output_tokens and not charge.usd:
            if charge.usd is not None or not self._spoke:
                return pairs, {}
            uncounted, columns = self._uncounted()
            return [*uncounted, *pairs], columns
        pair, columns = self.log.charge(charge.usage, charge.usd, given.provider.name, charge.model)
        return [pair, *pairs], columns

    def _uncounted(self) -> tuple[list[Pair], dict[str, object]]:
        """It answered, and did not say what that used: unknown, which is not nothing."""
        pair, columns = self.log.charge(None, None, self.given.provider.name, self._recorder.model)
        return [pair], columns

    # --- events ------------------------------------------------------------------------------------

    def _take(self, event: CliEvent) -> None:
        """One event of the CLI's. Raises StoreError."""
        self._spoke = self._spoke or isinstance(event, CliDelta | CliText | CliCall)
        match event:
            case CliSession():
                self._session(event)
            case CliDelta():
                self._recorder.delta(event.text, event.thinking)
            case CliText():
                self._recorder.model = event.model or self._recorder.model
                self._recorder.text(event.text)
            case CliCall() if event.ours:
                self._ours.add(event.id)
                self._recorder.announce(event)
            case CliCall():
                self._recorder.observe(event)
            case CliResult() if event.id in self._ours:
                if STOP_NOW in event.output:
                    self._answered.set()
            case CliResult():
                if self._recorder.observed(event):
                    self._observed()
            case CliFigures():
                self._figures.append(event)
            case CliPermission():
                self._permission(event)
            case CliNotice():
                self._notice(event.text)
            case CliEnd() if self._end is None or not self._end.final:
                self._end = event
                if event.final or self.given.provider.result_frame == "turn":
                    self._stirred.set()
            case CliEnd():
                pass

    def _session(self, event: CliSession) -> None:
        """It has begun, and so was told its prompt."""
        first = self._native is None
        self._native = event.native
        self._recorder.model = event.model or self._recorder.model
        if first:
            given = self.given
            body = given.provider.record_session(self._turn, event.native, event.model, given.baseline)
            self.log.emit("provider_session", {**body, "told": True})

    def _observed(self) -> None:
        """A tool of its own has answered: the guard has seen it, and limits count it."""
        self.heed(answering=False)
        self._check_limit()

    def _permission(self, asked: CliPermission) -> None:
        """A tool of its own wants a yes: what was said is passed on, once; else the turn ends with the question."""
        tool = f"{self.given.provider.name}:{asked.tool}"
        id = permission_id(tool, asked.args)
        word = self.given.permit(tool, id)
        if word is not None and self._process is not None:
            body = {"id": id, "tool": tool, "args": dict(asked.args), "allowed": word}
            self.log.emit("permission", body)
            self._process.permit(asked.key, word)
            return
        args = json.dumps(asked.args, ensure_ascii=False, indent=2, default=str)
        name = self.given.provider.title or self.given.provider.name
        what = f"{asked.message or asked.tool}\n{args[:2000]}"
        text = f"Unsafe: {name} wants to use a tool of its own, outside the sandbox: {what}"
        detail = {"tool": tool, "args": dict(asked.args), "native": True}
        waiting = Waiting("approval", id, text, APPROVAL_OPTIONS, "deny", (), False, False, detail)
        self._answered.set()  # nothing is under way whose end would be worth waiting for
        self.wait_for(Parked(Stop.NEEDS_APPROVAL, waiting, tool))

    def _notice(self, text: str) -> None:
        self._notices += 1
        if self._notices <= MOST_NOTICES:
            self.log.emit("notice", {"text": text})

    # --- what tools may do to the turn (Halts) -----------------------------------------------------

    def spent(self) -> str | None:
        """See `Halts`."""
        if not self._halt.is_set():
            self._check_limit()
        return STOP_NOW if self._halt.is_set() else None

    def _check_limit(self) -> None:
        """Nothing more is begun where the session's limits are spent, this turn's figures so far included."""
        turn = replace(self._turn, native=self._native)
        sofar = self.given.provider.record_cost(turn, self._figures, self.given.baseline, self._recorder.model)
        hit = self.given.limit(sofar)
        if hit is not None:
            self._halt_with(budget_stop(hit, self.log.history.reply or None))

    def wait_for(self, parked: Parked) -> None:
        """See `Halts`."""
        self.parked = self.parked or parked
        self._halt_now()

    def failed(self, error: Exception) -> None:
        """See `Halts`."""
        self._error = error
        self._halt_now()

    def heed(self, *, answering: bool) -> str | None:
        """See `Halts`."""
        self._recorder.settle()
        verdict = self.given.watching.due
        if verdict is None:
            return None
        if verdict.level == "stop":
            self._halt_with(doom_loop(verdict, self.log.history.reply or None))
            return None
        text = nudge_text(verdict)
        body = {"text": text, "rule": verdict.rule, "evidence": dict(verdict.evidence)}
        self.log.emit("nudge", {**body, "delivered": True} if answering else body)
        if answering:
            return text
        self._halt_now()  # it goes on with the nudge as its next prompt
        return None

    def _halt_now(self) -> None:
        self._halt.set()
        self._stirred.set()

    def _halt_with(self, record: StopRecord) -> None:
        self.stop = self.stop or record
        self._halt_now()
