"""Toned lines as Textual content, for the widgets that wrap and lay out by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from tui.view.text import Line, Tone

#: Theme variables, the same the style sheet uses for the tones.
STYLES: Final[dict[Tone, str]] = {
    Tone.PLAIN: "",
    Tone.DIM: "$text-muted",
    Tone.STRONG: "bold",
    Tone.YOU: "bold $text-warning",
    Tone.FAIL: "bold $text-error",
    Tone.ADDED: "$text-success",
    Tone.REMOVED: "$text-error",
}


def to_content(lines: Sequence[Line]) -> Content:
    """The lines, one below the other. Nothing in them is read as markup."""
    parts: list[str | tuple[str, str]] = []
    for number, spans in enumerate(lines):
        if number:
            parts.append("\n")
        parts += [(span.text, STYLES[span.tone]) if STYLES[span.tone] else span.text for span in spans]
    return Content.assemble(*parts)
