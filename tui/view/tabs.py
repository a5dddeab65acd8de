"""What the tabs of a session's panes say."""

from __future__ import annotations

from collections.abc import Sequence

from tui.view.text import Line, Span, Tone

CHAT = "chat"


def tabs(upper: Sequence[str], lower: Sequence[str], current: str, width: int = 80) -> Line:
    """All panes with their keys, the current one bold: what narrow screens show instead of more panes. Where `width`
    is too small for all names, of those that share a key (`upper`) only one stands."""
    whole = _tabs(upper, lower, current, "   ")
    shared = (current if current in upper else upper[0],)
    return whole if sum(len(span.text) for span in whole) - 3 <= width else _tabs(shared, lower, current, " ")


def _tabs(upper: Sequence[str], lower: Sequence[str], current: str, gap: str) -> Line:
    parts: list[Span] = []
    for key, names in (("F2", (CHAT,)), ("F3", upper), *((f"F{n}", (name,)) for n, name in enumerate(lower, 4))):
        parts.append(Span(f"{key} ", Tone.DIM))
        for name in names:
            tone = Tone.STRONG if name == current else Tone.DIM
            parts += [Span(name.capitalize(), tone, f"pane('{name}')"), Span(gap if name == names[-1] else " · ")]
    return tuple(parts)


def tabs_title(names: Sequence[str], current: str, first: int | None = None) -> str:
    """The panes that share a place, the shown one bold; with the key of each, counted from `first`."""
    parts = []
    for number, name in enumerate(names):
        label = name.capitalize() if first is None else f"F{first + number} {name.capitalize()}"
        label = f"[@click=screen.pane('{name}')]{label}[/]"
        parts.append(f"[b]{label}[/b]" if name == current else label)
    return " · ".join(parts)
