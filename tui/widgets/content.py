"""Toned lines as Textual content, and a widget that is as high as its lines are when wrapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget

from tui.view.text import Line, Tone
from tui.widgets.lines import wrap

ACT: Final = "act"

#: Theme variables, the same the style sheet uses for the tones.
STYLES: Final[dict[Tone, str]] = {
    Tone.PLAIN: "",
    Tone.DIM: "$foreground-muted",
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
    content = Content.assemble(*parts)
    at = 0
    for spans in lines:
        for span in spans:
            if span.act:
                content = content.stylize(Style.from_meta({ACT: span.act}), at, at + len(span.text))
            at += len(span.text)
        at += 1
    return content


def own_key(node: Widget | Screen[Any], name: str, key: str) -> str:
    """What to call the key of the binding `name`, `key` unless the person has another for it."""
    keys: str = getattr(node.app, "own_keys", {}).get(name, key)
    return keys.split(",")[0]


async def clicked(event: Click, node: Widget | Screen[Any]) -> None:
    """Do what was clicked, where there is something to do: an action of `node`."""
    act = event.style.meta.get(ACT)
    if act:
        event.stop()
        await node.app.run_action(act, node)


Hanging = tuple[Line, int]
"""A line, and how many cells the rest of it is indented where it does not fit."""


class Lines(Widget):
    """Lines that wrap with a hanging indent."""

    def __init__(self, lines: Sequence[Hanging], *, classes: str | None = None, id: str | None = None) -> None:
        super().__init__(classes=classes, id=id)
        self._hanging = tuple(lines)

    def show(self, lines: Sequence[Hanging]) -> None:
        """Replace the lines."""
        lines = tuple(lines)
        if lines != self._hanging:
            relayout = self._height(lines, self.size.width) != self.size.height
            self._hanging = lines
            self.refresh(layout=relayout)

    def _height(self, lines: Sequence[Hanging], width: int) -> int:
        return sum(len(wrap(spans, max(1, width), hang)) for spans, hang in lines)

    def rows_of(self, number: int) -> tuple[int, int]:
        """Where line `number` stands as wrapped now: its first row, 0-based, and how many it takes."""
        width = self.size.width
        return self._height(self._hanging[:number], width), self._height(self._hanging[number : number + 1], width)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as it wraps to."""
        return self._height(self._hanging, width)

    def render(self) -> Content:
        """The lines as they wrap now."""
        width = max(1, self.size.width)
        return to_content([part for spans, hang in self._hanging for part in wrap(spans, width, hang)])
