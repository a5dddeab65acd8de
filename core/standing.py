"""Where a session stands, projected from its events: its last stop, its limits, what people allowed, time driven."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core.driver import Limits
from core.events import Event
from core.policy import Inherited, limits_from, tighter

_GOES_ON: Final = frozenset({"message", "answer", "tool_call", "tool_result", "nudge", "rewind"})
"""Once one of these follows a stop, the session has gone on."""


@dataclass(slots=True)
class Standing:
    """A reducer over a session's events; the same at load as while it runs.

    `stop` is the body of the stop the session rests at, None where it has gone on since. `doom` is the last
    doom loop's. `driven_s` sums the seconds of all drives that reached a stop. `inherited`, `network`, `suite`,
    `replay` and `persona` (its text, where that is not the revision's) are as the session was started. `told` is the
    gist of each notice since the settings last changed.
    """

    stop: Mapping[str, Any] | None = None
    doom: Mapping[str, Any] | None = None
    approvals: list[Mapping[str, Any]] = field(default_factory=list)
    effort: str | None = None
    driven_s: float = 0.0
    inherited: Inherited | None = None
    network: bool = True
    suite: Mapping[str, Any] | None = None
    replay: str | None = None
    persona: str | None = None
    told: set[str] = field(default_factory=set)
    _limits: dict[str, Any] = field(default_factory=dict)
    _extended: dict[str, Any] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Take one more event."""
        match event.kind:
            case kind if kind in _GOES_ON:
                self.stop = None
            case "stop" if "stop" in event.data:
                self._stopped(event.data)
            case "started":
                self._started(event.data)
                self._settings(event.data)
            case "settings":
                self._settings(event.data)
                self.told.clear()
            case "notice":
                self.told.add(gist(str(event.data.get("text", ""))))
            case "approval":
                self.approvals.append(event.data)
            case _:
                pass

    def _stopped(self, data: Mapping[str, Any]) -> None:
        self.stop = data
        if data["stop"] == "doom_loop":
            self.doom = data
        seconds = data.get("driven_s")
        self.driven_s += seconds if isinstance(seconds, int | float) else 0

    def _started(self, data: Mapping[str, Any]) -> None:
        self.inherited = Inherited.from_json(data.get("inherited"))
        self.network = data.get("network") is not False
        suite = data.get("suite")
        self.suite = suite if isinstance(suite, dict) else None
        self.replay = str(data["replay"]) if data.get("replay") else None
        persona = data.get("persona")
        self.persona = str(persona["text"]) if isinstance(persona, dict) and "text" in persona else None

    def _settings(self, data: Mapping[str, Any]) -> None:
        if "effort" in data:
            self.effort = str(data["effort"]) if data["effort"] else None
        limits = data.get("limits")
        if not isinstance(limits, dict):
            return
        if data.get("extended"):
            self._extended.update(limits)
            return
        self._limits.update(limits)
        for name in limits:
            self._extended.pop(name, None)

    def limits(self, own: Limits) -> Limits:
        """What the session may spend: the tighter of the agent's `own` limits and the session's, but where a
        person extended one, what they said."""
        both = tighter(own, _read(self._limits))
        if not self._extended:
            return both
        names = ("steps", "tokens", "usd", "seconds")
        return _read({name: getattr(both, name) for name in names} | self._extended)


def gist(notice: str) -> str:
    """A notice without its numbers: one that was said need not be said again because a count has grown."""
    return re.sub(r"\d+", "#", notice)


def _read(values: Mapping[str, Any]) -> Limits:
    """Limits as stored; what is no number (a damaged record) is no limit."""
    try:
        return limits_from(values)
    except (ValueError, ArithmeticError):
        return Limits()
