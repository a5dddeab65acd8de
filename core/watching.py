"""The guard against doom loops, fed from the log: at load, on resume and while it runs it sees the same steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from core.events import Event
from core.progress import ProgressGuard, Step, Verdict
from core.provider import Finish

MOST_REPLAYED: Final = 3_000
"""Events since a person last spoke that a loaded session's guard is shown; more would say nothing new."""
_KINDS: Final = frozenset({"message", "tool_call", "tool_result", "answer", "compaction", "nudge", "stop"})
_NO_ANSWER: Final = frozenset({"skipped", "cancelled", "unknown"})
"""Results that we made up: the world did not answer."""
_WHOLE: Final[frozenset[Finish]] = frozenset({"stop", "tool_calls"})


class Watching:
    """A reducer over a session's events. `due` is a verdict that nothing was done about yet.

    Until `live()` is called it only collects: a person's words make the guard forget all that was before.
    """

    def __init__(self) -> None:
        self._guard = ProgressGuard()
        self._calls: dict[str, Mapping[str, Any]] = {}
        self._collected: deque[Event] | None = deque(maxlen=MOST_REPLAYED)
        self.due: Verdict | None = None

    def apply(self, event: Event) -> None:
        """Take one more event."""
        if event.kind not in _KINDS:
            return
        if self._collected is None:
            self._take(event)
            return
        if event.kind == "message" and event.data.get("role") == "user":
            self._collected.clear()
        self._collected.append(event)

    def live(self) -> None:
        """Show the guard what was collected; from now on it sees every event as it comes."""
        collected, self._collected = self._collected, None
        for event in collected or ():
            self._take(event)

    def _take(self, event: Event) -> None:
        if _acted(event):
            self.due = None
            return
        step = step_from(event, self._calls)
        if step is None:
            return
        if step.kind in ("user", "credential"):
            self.due = None
        verdict = self._guard.observe(step)
        if verdict is not None and (self.due is None or verdict.level == "stop"):
            self.due = verdict


def _acted(event: Event) -> bool:
    """Whether this is what the loop did about a verdict; nudges for other reasons carry no evidence."""
    match event.kind:
        case "nudge":
            return "evidence" in event.data
        case "stop":
            return bool(event.data.get("stop") == "doom_loop")
        case _:
            return False


def step_from(event: Event, calls: dict[str, Mapping[str, Any]]) -> Step | None:
    """The step an event stands for; `calls` carries tool_call bodies from one event to its result."""
    data = event.data
    match event.kind:
        case "tool_call":
            calls[str(data.get("call"))] = data
            return None
        case "tool_result":
            return _result(data, calls.pop(str(data.get("call")), {}), event.seq)
        case "message" if data.get("role") == "user":
            return Step("user")
        case "message" if str(data.get("finish")) in _WHOLE and not data.get("text") and not _calls_in(data):
            return Step("empty", ref=event.seq)
        case "answer":
            return _answer(data)
        case "compaction":
            return Step("compact")
        case _:
            return None


def _result(data: Mapping[str, Any], call: Mapping[str, Any], seq: int) -> Step | None:
    if str(data.get("status")) in _NO_ANSWER:
        return None
    return Step(
        "tool",
        tool=str(call.get("tool", "")),
        args=call.get("args"),
        output=str(data.get("output", "")),
        ok=bool(data.get("ok")),
        workspace=data.get("workspace"),
        rejected=data.get("status") == "rejected",
        polls=bool(data.get("polls")),
        waited_s=_waited(data),
        turn=call.get("turn"),
        ref=seq,
    )


def _waited(data: Mapping[str, Any]) -> float | None:
    """How long a poll took: one that waits before it answers deserves more patience."""
    seconds = data.get("duration_s")
    return float(seconds) if data.get("polls") and isinstance(seconds, int | float) else None


def _answer(data: Mapping[str, Any]) -> Step | None:
    """A yes to a call or to more budget says nothing of the work, so it resets nothing."""
    match data.get("kind"):
        case "credentials":
            return Step("credential")
        case "approval" | "budget":
            return None
        case _:
            return Step("user")


def _calls_in(data: Mapping[str, Any]) -> bool:
    rows = data.get("blocks")
    return isinstance(rows, list) and any(isinstance(row, dict) and row.get("t") == "call" for row in rows)
