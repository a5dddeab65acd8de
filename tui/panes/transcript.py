"""The whole transcript: every event of a session as a row, read from the store only where it is looked at."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message

from core import Event
from tui.view.events import event_line
from tui.view.text import Line, Tone, line
from tui.widgets.lines import LineView, fit

PAGE: Final = 200
KEPT_PAGES: Final = 20

Read = Callable[[int, int], Sequence[Event]]
"""(after, count) -> events with seq > after, oldest first."""


class TranscriptPane(LineView):
    """Row n is event n + 1: the log is append-only and its numbers have no gaps, so nothing is ever rebuilt."""

    follow = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="transcript.up", tooltip="The event above"),
        Binding("down,j", "move(1)", "Down", show=False, id="transcript.down", tooltip="The event below"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="transcript.page_up", tooltip="A page up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="transcript.page_down", tooltip="A page down"),
        Binding("home,g", "go(1)", "First", show=False, id="transcript.first", tooltip="The first event"),
        Binding("end,G", "go(0)", "Last", show=False, id="transcript.last", tooltip="The last event"),
        Binding("enter", "open", "open", id="transcript.open", tooltip="Read the event in full"),
    ]

    @dataclass
    class Opened(Message):
        """An event is to be read in full."""

        seq: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._read: Read | None = None
        self._last = 0
        self._pages: OrderedDict[int, list[Line]] = OrderedDict()
        self.at = 0
        """The number of the event under the cursor; 0 follows the last."""

    def source(self, read: Read, last: int) -> None:
        """Read another session, whose last event is `last`."""
        self._read, self._last, self.at = read, last, 0
        self._pages.clear()
        self.resized(0)
        self.scroll_end(animate=False, immediate=True)

    def grown(self, last: int) -> None:
        """There are events up to `last` now."""
        if last <= self._last:
            return
        self._pages.pop(self._last // PAGE, None)
        self._last = last
        if self.is_attached:
            self.resized(0)

    @property
    def line_count(self) -> int:
        """One row an event."""
        return self._last

    def get_line(self, y: int) -> Line:
        """An event as a row; its page is read when it first shows."""
        number = y // PAGE
        page = self._pages.get(number)
        if page is None or y % PAGE >= len(page):
            page = self._load(number)
        else:
            self._pages.move_to_end(number)
        offset = y % PAGE
        spans = page[offset] if offset < len(page) else line(("…", Tone.DIM))
        here = self.has_focus and y + 1 == (self.at or self._last)
        row = (*line(("› " if here else "  ", Tone.STRONG)), *spans)
        return fit(row, self.scrollable_content_region.width)[0]

    def _load(self, number: int) -> list[Line]:
        if self._read is None:
            return []
        rows: list[Line] = []
        for event in self._read(number * PAGE, PAGE):
            while len(rows) < event.seq - number * PAGE - 1:
                rows.append(line((f"{number * PAGE + len(rows) + 1:>6}  not readable", Tone.FAIL)))
            rows.append(event_line(event))
        self._pages[number] = rows
        while len(self._pages) > KEPT_PAGES:
            self._pages.popitem(last=False)
        return rows

    # --- keys --------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Another event."""
        self.action_go(min(max((self.at or self._last) + step, 1), max(self._last, 1)))

    def action_page(self, step: int) -> None:
        """A window further."""
        self.action_move(step * max(1, self.size.height - 1))

    def action_go(self, seq: int) -> None:
        """To an event by number; 0 is the last, and follows."""
        self.at = 0 if seq >= self._last else seq
        self._following = not self.at
        if self.at:
            self._show_cursor()
        else:
            self.scroll_end(animate=False, immediate=True)
        self.refresh()

    def _show_cursor(self) -> None:
        """Bring the event under the cursor into the window."""
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if not top < self.at <= top + height:
            target = self.at - 1 if self.at <= top else self.at - height
            self.scroll_to(y=target, animate=False, immediate=True, force=True)

    def on_resize(self) -> None:
        """A window that was just opened has its place now."""
        super().on_resize()
        if self.at:
            self._show_cursor()

    def action_open(self) -> None:
        """Read it in full."""
        if self._last:
            self.post_message(self.Opened(self.at or self._last))

    def on_click(self, event: Click) -> None:
        """A click moves the cursor, a second one opens."""
        place = event.get_content_offset(self)
        seq = 0 if place is None else place.y + self.scroll_offset.y + 1
        if 1 <= seq <= self._last:
            again = seq == (self.at or self._last) and event.chain > 1
            self.action_go(seq)
            if again:
                self.action_open()

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide it."""
        self.refresh()
