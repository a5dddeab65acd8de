"""A list of rows with a cursor that draws only what is in its window, however many rows there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from tui.view.rows import Row
from tui.view.text import Tone
from tui.widgets.lines import ToneView, fit


class RowList(ToneView):
    """Rows, headings among them, one line each. The cursor keeps to its row's key when the rows change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="list.up", tooltip="The row above"),
        Binding("down,j", "move(1)", "Down", show=False, id="list.down", tooltip="The row below"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="list.page_up", tooltip="A page up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="list.page_down", tooltip="A page down"),
        Binding("home,g", "edge(-1)", "First", show=False, id="list.first", tooltip="The first row"),
        Binding("end,G", "edge(1)", "Last", show=False, id="list.last", tooltip="The last row"),
        Binding("enter", "choose", "open", id="list.open", tooltip="Open the row under the cursor"),
    ]

    @dataclass
    class Chosen(Message):
        """A row was opened."""

        rows: RowList
        key: str

        @property
        def control(self) -> RowList:
            """The list it happened in."""
            return self.rows

    @dataclass
    class Moved(Message):
        """The cursor is on another row; `key` is empty where there are none."""

        rows: RowList
        key: str

        @property
        def control(self) -> RowList:
            """The list it happened in."""
            return self.rows

    def __init__(self, *, empty: str = "", id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.rows: tuple[Row, ...] = ()
        self.cursor = -1
        self.empty = empty
        """What stands there while there are no rows."""

    # --- rows --------------------------------------------------------------------------------------

    def show(self, rows: Sequence[Row]) -> None:
        """Replace the rows; the cursor stays on the same key, or else near where it was."""
        rows = tuple(rows)
        if rows == self.rows:
            return
        key, before = self.key, self.cursor
        seen = self._in_view(before)
        self.rows = rows
        self.virtual_size = Size(0, len(rows))
        self.cursor = next((n for n, row in enumerate(rows) if row.key == key and key), -1)
        if self.cursor < 0:
            self.cursor = self._nearest(max(before, 0), 1)
        if seen and self.cursor >= 0 and not self._in_view(self.cursor):
            self._scroll_to_cursor()
        self.refresh()
        if self.key != key:
            self.post_message(self.Moved(self, self.key))

    @property
    def key(self) -> str:
        """The key under the cursor; empty where there is none."""
        return self.rows[self.cursor].key if 0 <= self.cursor < len(self.rows) else ""

    def select(self, key: str) -> bool:
        """Put the cursor on a key; False where it is not in the list."""
        for number, row in enumerate(self.rows):
            if row.key == key and not row.heading:
                self._go(number)
                return True
        return False

    def _nearest(self, start: int, step: int) -> int:
        """The closest row that can be chosen, looking first in the direction of `step`."""
        for where in (range(start, len(self.rows)), range(min(start, len(self.rows)) - 1, -1, -1))[
            :: 1 if step > 0 else -1
        ]:
            for number in where:
                if not self.rows[number].heading:
                    return number
        return -1

    def _go(self, number: int) -> None:
        if number == self.cursor or not 0 <= number < len(self.rows):
            return
        self.cursor = number
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.Moved(self, self.key))

    def _in_view(self, number: int) -> bool:
        return 0 <= number - self.scroll_offset.y < self.size.height

    def _scroll_to_cursor(self) -> None:
        number = self.cursor
        # A heading right above comes into view with its first row.
        top = number - 1 if number and self.rows[number - 1].heading else number
        self.scroll_to_region(Region(0, top, 1, number - top + 1), animate=False, force=True)

    # --- keys --------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Move the cursor by one row that can be chosen."""
        number = self.cursor + step
        while 0 <= number < len(self.rows) and self.rows[number].heading:
            number += step
        self._go(number)

    def action_page(self, step: int) -> None:
        """Move by a window."""
        if self.rows:
            target = min(max(self.cursor + step * max(1, self.size.height - 1), 0), len(self.rows) - 1)
            self._go(self._nearest(target, step))

    def action_edge(self, step: int) -> None:
        """To the first or the last row."""
        self._go(self._nearest(0 if step < 0 else len(self.rows) - 1, 1))

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self.key:
            self.post_message(self.Chosen(self, self.key))

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one opens."""
        place = event.get_content_offset(self)
        if place is None:
            return
        number = place.y + self.scroll_offset.y
        if 0 <= number < len(self.rows) and not self.rows[number].heading:
            again = number == self.cursor and event.chain > 1
            self._go(number)
            if again:
                self.action_choose()

    # --- drawing -----------------------------------------------------------------------------------

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row: what it is on the left, its figures on the right, cut to the width."""
        width = self.size.width
        number = y + self.scroll_offset.y
        if number >= len(self.rows):
            if y == 0 and not self.rows and self.empty:
                return Strip([Segment("  " + self.empty, self.tone_style(Tone.DIM))]).crop_extend(
                    0, width, self.plain_style
                )
            return Strip.blank(width, self.plain_style)
        row = self.rows[number]
        here = number == self.cursor and self.has_focus
        over = self.get_component_rich_style("tone--cursor") if here else None
        width -= self.scrollbar_size_vertical
        right, right_size = fit(row.right, max(0, width - 12))
        room = width - 2 - (right_size + 2 if right_size else 0)
        left, left_size = fit(row.left, max(0, room))
        edge = "› " if here else "  " if not row.heading else " "
        gap = max(0, width - len(edge) - left_size - right_size)
        blank = self.plain_style if over is None else self.plain_style + over
        made = [
            Segment(edge, blank),
            *self.segments(left, over),
            Segment(" " * gap, blank),
            *self.segments(right, over),
        ]
        return Strip(made).crop_extend(0, self.size.width, blank)
