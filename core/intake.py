"""What a person's words or answer change in a stopped session, before its loop goes on."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from core.answers import Answer, NoAnswer, read_answer
from core.driver import Limits
from core.endings import INTERRUPTED
from core.history import NEVER_RAN
from core.policy import extend, grant_key, limits_from, limits_to_json, spent_usd
from core.session import Pair, SessionLog
from core.standing import Standing
from core.stops import Stop, StopRecord, Waiting

GOING_ON = {"stop": None, "ended": None}
"""Columns of a session that goes on."""


class Intake:
    """Applies one answer or message to a session that was just loaded; each in one transaction.

    `limits` are the session's limits as they stand.
    """

    def __init__(self, log: SessionLog, standing: Standing, limits: Limits) -> None:
        self.log = log
        self.standing = standing
        self.limits = limits

    def take(self, task: str | None, answer: str | None) -> StopRecord | None:
        """Apply the person's next message or answer, or neither. A record where the session stays stopped."""
        stop = read_stop(self.standing)
        waiting = stop.waiting if stop is not None else None
        if task is not None and not task.strip():  # nothing was said, and what it waits for still stands
            task = None
        if answer is not None and waiting is None and not answer.strip():
            answer = None
        if task is not None:
            self.say(task)
        elif answer is not None and waiting is not None:
            read = read_answer(waiting, self._heard(answer))
            if isinstance(read, NoAnswer):
                self._store(("notice", {"text": read.why}))
                return stop
            return self._apply(waiting, read)
        elif answer is not None:
            self.say(answer)
        elif stop is not None:
            return self._resume(stop)
        return None

    def say(self, *words: str) -> None:
        """The person's own words; calls they find open get their one result first."""
        from core.effects.keyspotting import heard

        words, notices = heard(words, self.log.info.agent)
        asked = self.log.history.intents | {self.log.history.parked}
        closed = self._close_open(NEVER_RAN)
        for _, body in closed:
            if body["call"] in asked:  # begun and open: it waits for them
                body["output"] = f"The person did not answer this, but wrote: {words[0]}"
        said: list[Pair] = [("message", {"role": "user", "text": text}) for text in words]
        self._store(*closed, *said, *notices)

    def _heard(self, answer: str) -> str:
        """An answer as it may be stored; what was kept out of it is said."""
        from core.effects.keyspotting import heard

        (clean,), notices = heard((answer,), self.log.info.agent)
        if notices:
            self._store(*notices)
        return clean

    def _resume(self, stop: StopRecord) -> StopRecord | None:
        """Going on without a word: what has ended, or waits for an answer, stays as it is."""
        match stop.stop:
            case Stop.CANCELLED | Stop.PROVIDER_ERROR | Stop.PLATFORM_ERROR:
                if self.log.history.turn == "person":
                    self._store(("nudge", {"text": INTERRUPTED, "rule": "interrupted"}))
                return None
            case Stop.NEEDS_CREDENTIALS:
                waiting = stop.waiting.id if stop.waiting is not None else ""
                self._store(("answer", {"waiting": waiting, "kind": "credentials", "text": "", "choice": []}))
                return None
            case Stop.BUDGET:
                return None
            case _:
                return stop

    def _store(self, *pairs: Pair, **columns: object) -> None:
        """What the person said and that the session goes on with it are one: a crash between would show a stop
        that was answered already."""
        going_on = {} if all(kind == "notice" for kind, _ in pairs) else GOING_ON
        self.log.append(*pairs, **{**going_on, **columns})

    def _close_open(self, text: str) -> list[tuple[str, dict[str, Any]]]:
        status = {"ok": False, "output": text, "status": "skipped"}
        return [("tool_result", {"call": call, **status}) for call in self.log.history.pending]

    def _apply(self, waiting: Waiting, answer: Answer) -> StopRecord | None:
        """Store an answer and what follows from it; a record where it ends the session."""
        body = {"waiting": waiting.id, "kind": answer.kind, "text": answer.text, "choice": list(answer.choice)}
        given: Pair = ("answer", body)
        if answer.verb == "end":
            self._store(given, *self._close_open(NEVER_RAN))
            return StopRecord(Stop.CANCELLED, "ended")
        match answer.kind:
            case "question":
                output = json.dumps({"choice": list(answer.choice), "text": answer.text}, ensure_ascii=False)
                self._store(given, ("tool_result", {"call": waiting.id, "ok": True, "output": output}))
            case "approval":
                self._approve(given, waiting, answer.choice[0])
            case "doom_loop":
                self._after_doom_loop(given, answer)
            case "budget":
                self._store(given, self._extended(waiting.id, answer.value or "0"))
            case _:
                self._store(given, *([("notice", {"text": answer.note})] if answer.note else []))
        return None

    def _approve(self, given: Pair, waiting: Waiting, scope: str) -> None:
        tool = str(waiting.detail.get("tool", ""))
        if scope == "always":
            self.log.store.set_value(grant_key(self.log.info, tool), True)
        body = {"tool": tool, "call": waiting.id, "scope": scope, "detail": waiting.detail}
        self._store(given, ("approval", body))

    def _after_doom_loop(self, given: Pair, answer: Answer) -> None:
        closed = self._close_open(NEVER_RAN)
        match answer.verb:
            case "retry":
                evidence = (self.standing.doom or {}).get("evidence") or {}
                first = evidence.get("first")
                keep = self.log.history.before(first) if isinstance(first, int) else 0
                self._store(given, *closed, *([("rewind", {"messages": keep, "before": first})] if keep else []))
            case "switch":
                self._store(given, *closed, ("settings", {"model": answer.value}), model=answer.value)
            case _:
                words = answer.value or answer.text
                self._store(given, *closed, ("message", {"role": "user", "text": words}))

    def _extended(self, name: str, amount: str) -> Pair:
        """Extending starts from what is spent, by its children too, so that N more really is N more."""
        evidence = (self.standing.stop or {}).get("evidence") or {}
        most = Decimal(str(self._spent(name)))
        if evidence.get("limit") == name:
            with suppress(InvalidOperation):  # a CLI may have spent nobody knows how much
                most = max(most, Decimal(str(evidence.get("spent"))))
        spent = limits_from({**limits_to_json(self.limits), name: most})
        current = limits_to_json(extend(spent, name, Decimal(amount)))
        return ("settings", {"limits": {name: current[name]}, "extended": True})

    def _spent(self, name: str) -> object:
        info = self.log.info
        match name:
            case "steps":
                return self.log.history.steps
            case "tokens":
                return info.input_tokens + info.output_tokens
            case "usd":
                return spent_usd(info)
            case _:
                return self.standing.driven_s


def read_stop(standing: Standing) -> StopRecord | None:
    """The stop a session rests at; None where it has gone on since, or its record cannot be understood."""
    if standing.stop is None:
        return None
    try:
        return StopRecord.from_json(standing.stop)
    except (KeyError, TypeError, ValueError):
        return None
