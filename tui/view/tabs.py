"""Which panes a session has, which share a place on screen, and what their tabs say."""

from __future__ import annotations

from collections.abc import Sequence

from tui.view.text import Line, Span, Tone

UPPER = ("log", "files", "diff")
LOWER = ("revisions", "validation", "transcript")
PANES = ("chat", *UPPER, *LOWER)

LABELS = {
    "chat": "Chat",
    "log": "Log",
    "files": "Files",
    "diff": "Diff",
    "revisions": "Revisions",
    "validation": "Validation",
    "transcript": "Transcript",
}


def tabs(current: str, width: int = 80) -> Line:
    """All panes with their keys, the current one bold: what narrow screens show instead of more panes. Where `width`
    is too small for all names, of those that share a key only one stands."""
    whole = _tabs(current, UPPER, "   ")
    shared = (current if current in UPPER else UPPER[0],)
    return whole if sum(len(span.text) for span in whole) - 3 <= width else _tabs(current, shared, " ")


def _tabs(current: str, upper: Sequence[str], gap: str) -> Line:
    parts: list[Span] = []
    for key, names in (("F2", ("chat",)), ("F3", upper), *((f"F{n}", (name,)) for n, name in enumerate(LOWER, 4))):
        parts.append(Span(f"{key} ", Tone.DIM))
        for name in names:
            tone = Tone.STRONG if name == current else Tone.DIM
            parts += [Span(LABELS[name], tone, f"pane('{name}')"), Span(gap if name == names[-1] else " · ")]
    return tuple(parts)


def tabs_title(names: Sequence[str], current: str, first: int | None = None) -> str:
    """The panes that share a place, the shown one bold; with the key of each, counted from `first`."""
    parts = []
    for number, name in enumerate(names):
        label = LABELS[name] if first is None else f"F{first + number} {LABELS[name]}"
        label = f"[@click=screen.pane('{name}')]{label}[/]"
        parts.append(f"[b]{label}[/b]" if name == current else label)
    return " · ".join(parts)
