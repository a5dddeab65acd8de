"""A matrix with a cursor: names down the side and along the top stay in view, cells are drawn as they are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from tui.view.grid import Grid, Place
from tui.view.text import Tone, column
from tui.widgets.lines import ToneView

WIDEST_NAME = 32
NARROWEST_CELL = 14
SEVERAL = 15
"""Cells a cell has that counts its repeats."""
WIDEST_CELL = 22


class MatrixView(ToneView):
    """The matrix of an experiment. Its cost does not grow with how many cells there are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Up", show=False, id="matrix.up", tooltip="The variant above"),
        Binding("down,j", "move(1, 0)", "Down", show=False, id="matrix.down", tooltip="The variant below"),
        Binding("left,h", "move(0, -1)", "Left", show=False, id="matrix.left", tooltip="The task before"),
        Binding("right,l", "move(0, 1)", "Right", show=False, id="matrix.right", tooltip="The next task"),
        Binding("enter", "choose", "open", id="matrix.open", tooltip="Open the session of the cell, or go to its runs"),
    ]

    @dataclass
    class Moved(Message):
        """The cursor is on another cell."""

        place: Place

    @dataclass
    class Chosen(Message):
        """A cell was opened."""

        place: Place

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.grid = Grid()
        self.running = False
        self.names: list[str] = []
        self.cursor: Place = (0, 0)
        self._first = 0
        """The first task in view."""

    def show(self, grid: Grid, *, running: bool) -> None:
        """Draw a matrix, or what changed in it."""
        if grid is not self.grid:
            self.cursor, self._first = (0, 0), 0
        self.grid, self.running, self.names = grid, running, grid.names()
        self.virtual_size = Size(0, len(grid.variants) + 1)
        self.refresh()

    # --- sizes -------------------------------------------------------------------------------------

    @property
    def _side(self) -> int:
        """Cells of the names down the side."""
        longest = max((len(name) for name in (*self.names, self.grid.agent)), default=0)
        return min(longest, WIDEST_NAME, max(12, self.size.width * 2 // 5)) + 2

    @property
    def _cell(self) -> int:
        longest = max((len(task) for task in self.grid.tasks), default=0) + 3
        least = SEVERAL if any(len(runs) > 1 for runs in self.grid.runs.values()) else NARROWEST_CELL
        return min(max(longest, least), WIDEST_CELL)

    @property
    def _in_view(self) -> int:
        """How many tasks are in view; where not all are, a few cells say how many are not."""
        room = self.size.width - self._side
        fit = room // self._cell
        return fit if fit >= len(self.grid.tasks) else max(1, (room - 6) // self._cell)

    # --- keys --------------------------------------------------------------------------------------

    def action_move(self, down: int, right: int) -> None:
        """Another cell."""
        row = min(max(self.cursor[0] + down, 0), len(self.grid.variants) - 1)
        task = min(max(self.cursor[1] + right, 0), len(self.grid.tasks) - 1)
        self._go((max(row, 0), max(task, 0)))

    def _go(self, place: Place) -> None:
        if place == self.cursor:
            return
        self.cursor = place
        row, task = place
        self._first = min(max(self._first, task - self._in_view + 1), task)
        # Above the first row its header comes into view, below it the row alone.
        self.scroll_to_region(Region(0, row, 1, 2), animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved(place))

    def action_choose(self) -> None:
        """Open the cell."""
        if self.cursor in self.grid.runs:
            self.post_message(self.Chosen(self.cursor))

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one opens."""
        place = event.get_content_offset(self)
        if place is None:
            return
        row, task = place.y - 1 + self.scroll_offset.y, (place.x - self._side) // self._cell + self._first
        if place.y < 1 or not (0 <= row < len(self.grid.variants) and 0 <= task < len(self.grid.tasks)):
            return
        again = (row, task) == self.cursor and event.chain > 1
        self._go((row, task))
        if again:
            self.action_choose()

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    # --- drawing -----------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """The names of the tasks, or one variant with its cells."""
        width = self.size.width
        last = min(self._first + self._in_view, len(self.grid.tasks))
        made: list[Segment] = []
        if y == 0:
            made.append(self._piece(self.grid.agent, self._side, Tone.DIM))
            made += [self._piece(f" {name}", self._cell, Tone.STRONG) for name in self.grid.tasks[self._first : last]]
            hidden = len(self.grid.tasks) - last
            if hidden or self._first:
                words = f"{'‹ ' if self._first else ''}{f'+{hidden} ›' if hidden else ''}"
                made.append(self._piece(words, len(words) + 1, Tone.DIM))
            return Strip(made).crop_extend(0, width, self.plain_style)
        row = y - 1 + self.scroll_offset.y
        if row >= len(self.grid.variants):
            return Strip.blank(width, self.plain_style)
        here = self.has_focus and row == self.cursor[0]
        made.append(self._piece(self.names[row], self._side, Tone.STRONG if here else Tone.PLAIN))
        for task in range(self._first, last):
            state = self.grid.cell((row, task), running=self.running)
            under = here and task == self.cursor[1]
            over = self.get_component_rich_style("tone--cursor") if under else None
            made.append(self._piece(f"{'›' if under else ' '}{state}", self._cell, state.tone, over))
        return Strip(made).crop_extend(0, width, self.plain_style)

    def _piece(self, text: str, width: int, tone: Tone, over: Style | None = None) -> Segment:
        style = self.tone_style(tone)
        cut = text if len(text) < width else text[: max(0, width - 2)] + "…"
        return Segment(column(cut, width), style if over is None else style + over)
