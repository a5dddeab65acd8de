"""What a person's words or answer change in a stopped session, before its loop goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from core.answers import Answer, NoAnswer, read_answer
from core.driver import Limits
from core.events import Event
from core.history import NEVER_RAN
from core.loop import StopRecord
from core.policy import extend, limits_from, limits_to_json
from core.session import Pair, SessionLog
from core.stops import Stop, Waiting


class Intake:
    """Applies one answer or message to a session that was just loaded.

    `events` are all its events and grow with what is stored here; `limits` are its limits as they stand.
    """

    def __init__(
        self,
        log: SessionLog,
        events: list[Event],
        limits: Limits,
        on_reply: Callable[[str], StopRecord],
    ) -> None:
        self.log = log
        self.events = events
        self.limits = limits
        self._on_reply = on_reply

    def take(self, task: str | None, answer: str | None) -> StopRecord | None:
        """Apply the person's next message or answer, or neither. A record where the session stays stopped."""
        waiting = self._waiting()
        if task is not None:
            self._say(task, waiting)
        elif answer is not None and waiting is not None:
            read = read_answer(waiting, answer)
            if isinstance(read, NoAnswer):
                self._store(("notice", {"text": read.why}))
                return self._again()
            return self._apply(waiting, read)
        elif answer is not None:
            self._say(answer, None)
        elif waiting is not None and waiting.kind in ("question", "doom_loop", "approval"):
            return self._again()
        elif self.log.history.incomplete and self.log.history.turn == "person":
            self._store(("nudge", {"text": "You were interrupted. Go on from there.", "rule": "interrupted"}))
        elif self.log.history.turn == "person":
            return self._again()
        return None

    def _waiting(self) -> Waiting | None:
        record = self._last_stop()
        data = record.get("waiting") if record else None
        return Waiting.from_json(data) if isinstance(data, dict) else None

    def _last_stop(self) -> Mapping[str, Any] | None:
        for event in reversed(self.events):
            if event.kind == "stop" and not event.damaged:
                return event.data
            if event.kind in ("message", "answer") and event.data.get("role", "user") == "user":
                return None
        return None

    def _again(self) -> StopRecord:
        """The stop the session already had."""
        data = self._last_stop()
        if data is None:
            return self._on_reply(self.log.history.messages[-1].text if self.log.history.messages else "")
        return StopRecord.from_json(data)

    def _store(self, *pairs: Pair, **columns: Any) -> None:
        self.events += self.log.append(*pairs, **columns)

    def _say(self, text: str, waiting: Waiting | None) -> None:
        """The person's own words: open calls get their one result first."""
        self._store(*self._close_open(f"The person did not answer this, but wrote: {text}" if waiting else NEVER_RAN))
        self._store(("message", {"role": "user", "text": text}), stop=None, ended=None)

    def _close_open(self, text: str) -> list[Pair]:
        status = {"ok": False, "output": text, "status": "skipped"}
        return [("tool_result", {"call": call, **status}) for call in self.log.history.pending]

    def _apply(self, waiting: Waiting, answer: Answer) -> StopRecord | None:
        """Store an answer and what follows from it; a record where it ends the session."""
        body = {"waiting": waiting.id, "kind": answer.kind, "text": answer.text, "choice": list(answer.choice)}
        self._store(("answer", body), stop=None, ended=None)
        match answer.kind:
            case "question":
                output = json.dumps({"choice": list(answer.choice), "text": answer.text}, ensure_ascii=False)
                self._store(("tool_result", {"call": waiting.id, "ok": True, "output": output}))
            case "approval":
                self._approve(waiting, answer.choice[0])
            case "doom_loop":
                return self._after_doom_loop(answer)
            case "budget":
                if answer.verb == "end":
                    return self._ended()
                self._extend(waiting.id, answer.value or "0")
            case _:
                if answer.verb == "end":
                    return self._ended()
        return None

    def _ended(self) -> StopRecord:
        self._store(*self._close_open(NEVER_RAN))
        return StopRecord(Stop.CANCELLED, "ended")

    def _approve(self, waiting: Waiting, scope: str) -> None:
        tool = str(waiting.detail.get("tool", ""))
        body = {"tool": tool, "call": waiting.id, "scope": scope, "detail": waiting.detail}
        self._store(("approval", body))
        if scope == "always":
            self.log.store.set_value(f"grant:{self.log.info.agent or 'builder'}:{tool}", True)
        if scope == "deny" and tool == "sandbox:process":
            self._store(*self._close_open("The person did not allow commands without a sandbox."))

    def _after_doom_loop(self, answer: Answer) -> StopRecord | None:
        match answer.verb:
            case "end":
                return self._ended()
            case "retry":
                stop = self._doom_stop()
                first = (stop.get("evidence") or {}).get("first") if stop else None
                keep = self.log.history.before(first) if isinstance(first, int) else 0
                if keep:
                    self._store(("rewind", {"messages": keep}))
                else:
                    self._store(*self._close_open(NEVER_RAN))
            case "switch":
                self._store(*self._close_open(NEVER_RAN))
                self._store(("settings", {"model": answer.value}), model=answer.value)
            case _:
                self._store(*self._close_open(NEVER_RAN))
                self._store(("message", {"role": "user", "text": answer.value or answer.text}))
        return None

    def _doom_stop(self) -> Mapping[str, Any] | None:
        stops = [e.data for e in self.events if e.kind == "stop" and e.data.get("stop") == Stop.DOOM_LOOP.value]
        return stops[-1] if stops else None

    def _extend(self, name: str, amount: str) -> None:
        spent = limits_from({**limits_to_json(self.limits), name: self._spent(name)})
        current = limits_to_json(extend(spent, name, Decimal(amount)))
        self._store(("settings", {"limits": {name: current[name]}}))

    def _spent(self, name: str) -> object:
        """Extending starts from what is spent, so that N more really is N more."""
        info = self.log.info
        match name:
            case "steps":
                return self.log.history.turns
            case "tokens":
                return info.input_tokens + info.output_tokens
            case "usd":
                return info.usd or "0"
            case _:
                return limits_to_json(self.limits).get(name, 0)
