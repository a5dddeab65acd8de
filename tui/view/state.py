"""Whose turn it is: the one sign and word for the state of a session, wherever it shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from core import SessionInfo, Stop
from tui.view.text import Tone


@dataclass(frozen=True, slots=True)
class State:
    """`sign` and `word` say it without colour; `yours` whether nothing goes on until the person acts."""

    sign: str
    word: str
    tone: Tone
    yours: bool = False

    def __str__(self) -> str:
        return f"{self.sign} {self.word}"


class Other(Enum):
    """States that are no stop."""

    NEW = "new"
    RUNNING = "running"
    INTERRUPTED = "interrupted"


def state_of(info: SessionInfo | None, waiting: str | None = None) -> State:
    """The state of a session; `waiting` is the kind of what it waits for, where that is known."""
    if info is None:
        return state(Other.NEW)
    if info.status == "running":
        return state(Other.RUNNING)
    if info.status == "interrupted" or info.stop is None:
        return state(Other.INTERRUPTED)
    try:
        stop = Stop(info.stop)
    except ValueError:
        return State("?", info.stop, Tone.FAIL)
    if stop is Stop.AWAITING_USER and waiting == "approval":
        return state(Stop.NEEDS_APPROVAL)
    return state(stop)


def state(of: Stop | Other) -> State:
    """The sign and word of a stop, or of a session that has none."""
    match of:
        case Other.NEW:
            return State("○", "new", Tone.DIM)
        case Other.RUNNING:
            return State("▸", "working", Tone.PLAIN)
        case Other.INTERRUPTED:
            return State("‖", "your turn · interrupted", Tone.YOU, True)
        case Stop.COMPLETED:
            return State("✓", "done", Tone.PLAIN)
        case Stop.AWAITING_USER:
            return State("●", "your turn · question", Tone.YOU, True)
        case Stop.NEEDS_CREDENTIALS:
            return State("⚿", "your turn · needs key", Tone.YOU, True)
        case Stop.NEEDS_APPROVAL:
            return State("!", "your turn · approval", Tone.YOU, True)
        case Stop.DOOM_LOOP:
            return State("⟳", "your turn · stuck", Tone.YOU, True)
        case Stop.BUDGET:
            return State("◔", "your turn · budget spent", Tone.YOU, True)
        case Stop.CANNOT_CONVERT:
            return State("⊘", "cannot convert", Tone.FAIL)
        case Stop.REFUSED:
            return State("⊘", "refused", Tone.FAIL)
        case Stop.CANCELLED:
            return State("■", "stopped by you", Tone.DIM)
        case Stop.PROVIDER_ERROR:
            return State("✗", "your turn · provider error", Tone.FAIL, True)
        case Stop.PLATFORM_ERROR:
            return State("✗", "your turn · Artificer error", Tone.FAIL, True)
