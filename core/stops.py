"""Why a loop is not running: the closed set of stops, their exit codes, and what a stopped session waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Stop(StrEnum):
    """Why a loop is not running. The set is closed; `exit_code` is what a command exits with."""

    COMPLETED = "completed"
    AWAITING_USER = "awaiting_user"
    NEEDS_CREDENTIALS = "needs_credentials"
    NEEDS_APPROVAL = "needs_approval"
    CANNOT_CONVERT = "cannot_convert"
    DOOM_LOOP = "doom_loop"
    BUDGET = "budget"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    PROVIDER_ERROR = "provider_error"
    PLATFORM_ERROR = "platform_error"

    @property
    def exit_code(self) -> int:
        """The process exit code of a command that drove a session to this stop."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Stop.COMPLETED: 0,
    Stop.AWAITING_USER: 10,
    Stop.NEEDS_CREDENTIALS: 11,
    Stop.NEEDS_APPROVAL: 12,
    Stop.CANNOT_CONVERT: 13,
    Stop.DOOM_LOOP: 14,
    Stop.BUDGET: 15,
    Stop.REFUSED: 16,
    Stop.CANCELLED: 17,
    Stop.PROVIDER_ERROR: 18,
    Stop.PLATFORM_ERROR: 19,
}


@dataclass(frozen=True, slots=True)
class Option:
    """One choice a person may take: a stable `id` and the words they read."""

    id: str
    label: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a stopped session waits for.

    `kind` is `question`, `approval`, `credentials`, `doom_loop` or `budget`. `id` names the tool call or
    limit it belongs to. `names` are credential names. `multiple` questions take several options;
    `free_text` questions take words of the person's own. `detail` says what exactly an approval would do.
    """

    kind: str
    id: str
    message: str
    options: tuple[Option, ...] = ()
    recommended: str | None = None
    names: tuple[str, ...] = ()
    multiple: bool = False
    free_text: bool = True
    detail: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The stored form: every field, JSON types only."""
        return {
            "kind": self.kind,
            "id": self.id,
            "message": self.message,
            "options": [{"id": o.id, "label": o.label} for o in self.options],
            "recommended": self.recommended,
            "names": list(self.names),
            "multiple": self.multiple,
            "free_text": self.free_text,
            "detail": self.detail,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Waiting:
        """Read the stored form; absent fields take their defaults, and of damaged ones what is left is read as text."""
        recommended, detail = data.get("recommended"), data.get("detail")
        options, names = data.get("options"), data.get("names")
        told = [o for o in options if isinstance(o, Mapping)] if isinstance(options, list) else []
        return Waiting(
            kind=str(data.get("kind", "")),
            id=str(data.get("id", "")),
            message=str(data.get("message", "")),
            options=tuple(Option(str(o.get("id", "")), str(o.get("label", ""))) for o in told),
            recommended=None if recommended is None else str(recommended),
            names=tuple(str(name) for name in names) if isinstance(names, list) else (),
            multiple=bool(data.get("multiple", False)),
            free_text=bool(data.get("free_text", True)),
            detail=detail if isinstance(detail, dict) else {},
        )


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


def sentences(*parts: str) -> str:
    """What happened and what to do, one after the other; what another sentence follows gets the stop it lacks."""
    said = [part.strip() for part in parts if part.strip()]
    ended = [part if part.endswith((".", "!", "?", ":", "…")) else f"{part}." for part in said[:-1]]
    return " ".join([*ended, *said[-1:]])
