"""A log that takes tens of thousands of lines a second: a capped buffer, drawn at most every 50 ms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.timer import Timer

from tui.view.text import Line, Tone, line
from tui.view.worklog import LogLine, as_line
from tui.widgets.lines import LineView

CAP: Final = 10_000
SLACK: Final = 2_000
FLUSH_S: Final = 0.05


class LogView(LineView):
    """Lines in, the last ten thousand kept. It follows its end until somebody scrolls up."""

    follow = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="log.down", tooltip="Scroll down"),
        Binding("k", "scroll_up", "Up", show=False, id="log.up", tooltip="Scroll up"),
        Binding("G", "scroll_end", "Follow", show=False, id="log.end", tooltip="Go to the end and follow"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[LogLine] = []
        self._incoming: list[LogLine] = []
        self._timer: Timer | None = None
        self._wide = 0
        self.dropped = 0
        """Lines that left the buffer at its top."""

    @property
    def line_count(self) -> int:
        """Lines in the buffer, and one that says how many left it, or that there are none."""
        return (len(self._lines) + bool(self.dropped)) or 1

    def get_line(self, y: int) -> Line:
        """A line of the buffer."""
        if not self._lines:
            return line(("no command has run yet", Tone.DIM))
        if self.dropped:
            if y == 0:
                return line((f"… {self.dropped:,} earlier lines are in the transcript", Tone.DIM))
            y -= 1
        return as_line(self._lines[y])

    def extend(self, lines: Iterable[LogLine]) -> None:
        """Add lines; they show within 50 ms."""
        self._incoming += lines
        if len(self._incoming) > CAP + SLACK:
            self.dropped += len(self._incoming) - CAP
            del self._incoming[:-CAP]
        if self._timer is None and self._incoming and self.is_attached:
            self._timer = self.set_timer(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Take in what came since the last time, and draw."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if not self._incoming:
            return
        incoming, self._incoming = self._incoming, []
        # The width of thousands of lines is not worth measuring: the longest of the last screens is.
        for shown in incoming[-200:]:
            self._wide = max(self._wide, sum(cell_len(span.text) for span in as_line(shown)))
        self._lines += incoming
        over = len(self._lines) - CAP
        if over > SLACK:
            del self._lines[:over]
            self.dropped += over
            if not self._following:
                self.scroll_to(y=max(0, self.scroll_offset.y - over), animate=False, immediate=True)
        self.resized(self._wide)

    def clear(self) -> None:
        """Forget everything."""
        self._lines, self._incoming, self.dropped, self._wide = [], [], 0, 0
        self.resized(0)

    def on_mount(self) -> None:
        """Show what came before there was anything to show it on."""
        self.flush()
        self.resized(self._wide)
