"""Widgets that draw lines themselves, so that their cost does not grow with what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from tui.view.text import Line, Span, Tone, plain_text, safe


class ToneView(ScrollView, can_focus=True):
    """Draws lines of toned spans; subclasses say which. The looks of the tones are in the style sheet."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tone--{tone.value}" for tone in Tone} | {"tone--cursor"}

    _plain: Style | None = None

    @property
    def plain_style(self) -> Style:
        """The widget's own look; working it out for every line of every screen would take long."""
        if self._plain is None:
            self._plain = self.rich_style
        return self._plain

    def notify_style_update(self) -> None:
        """Other styles apply."""
        super().notify_style_update()
        self._plain = None

    def tone_style(self, tone: Tone) -> Style:
        """The look of a tone on this widget's background."""
        return self.get_component_rich_style(f"tone--{tone.value}")

    def segments(self, spans: Line, over: Style | None = None) -> list[Segment]:
        """A line as segments; `over` is laid over every tone."""
        made = []
        for span in spans:
            if span.text:
                style = self.tone_style(span.tone)
                made.append(Segment(printable(span.text), style if over is None else style + over))
        return made


class LineView(ToneView):
    """A read-only text of many lines. `get_line` and `line_count` are what a subclass brings."""

    ALLOW_SELECT = True
    follow = False
    """Whether it stays at its end while lines are added, as long as nobody scrolled away from it."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._longest = 0
        self._following = True

    @property
    def line_count(self) -> int:
        """How many lines there are."""
        raise NotImplementedError

    def get_line(self, y: int) -> Line:
        """Line `y`, 0-based."""
        raise NotImplementedError

    def resized(self, longest: int | None = None) -> None:
        """The number of lines changed, or their greatest width in cells."""
        if longest is not None:
            self._longest = longest
        self.virtual_size = Size(self._longest, self.line_count)
        self._keep_following()
        self.refresh()

    def _keep_following(self) -> None:
        if self.follow and self._following and not self.is_vertical_scrollbar_grabbed:
            self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls away from the end stops following it, until they are back."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value or self.is_vertical_scroll_end:
            self._following = self.is_vertical_scroll_end

    def on_resize(self) -> None:
        """The end is elsewhere now."""
        self._keep_following()

    def render_line(self, y: int) -> Strip:
        """One line, cropped to the window."""
        left, top = self.scroll_offset
        width = self.size.width
        y += top
        if y >= self.line_count:
            return Strip.blank(width, self.plain_style)
        spans = self.get_line(y)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            spans_segments = self._selected(spans, *span)
        else:
            spans_segments = self.segments(spans)
        strip = Strip(spans_segments)
        return strip.crop_extend(left, left + width, self.plain_style).apply_offsets(left, y)

    def _selected(self, spans: Line, start: int, end: int) -> list[Segment]:
        text = plain_text(spans)
        end = len(text) if end == -1 else end
        mark = self.screen.get_component_rich_style("screen--selection")
        made: list[Segment] = []
        at = 0
        for span in spans:
            style = self.tone_style(span.tone)
            a, b = max(start - at, 0), max(end - at, 0)
            for part, chosen in ((span.text[:a], False), (span.text[a:b], True), (span.text[max(a, b) :], False)):
                if part:
                    made.append(Segment(part, style + mark if chosen else style))
            at += len(span.text)
        return made

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, for copying."""
        start, end = selection.start, selection.end
        first = start.y if start is not None else 0
        last = min(end.y if end is not None else self.line_count - 1, self.line_count - 1)
        texts = [plain_text(self.get_line(y)) for y in range(first, last + 1)]
        if texts and end is not None and end.y == last:
            texts[-1] = texts[-1][: end.x]
        if texts and start is not None:
            texts[0] = texts[0][start.x :]
        return "\n".join(texts), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw it again with the selection."""
        self.refresh()


class TextView(LineView):
    """A text that is set as a whole and wrapped to the width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="text.down", tooltip="Scroll down"),
        Binding("k", "scroll_up", "Up", show=False, id="text.up", tooltip="Scroll up"),
    ]

    def __init__(self, lines: Sequence[Line] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.lines: tuple[Line, ...] = tuple(lines)
        self._wrapped: list[Line] = []
        self._width = -1

    @property
    def line_count(self) -> int:
        """Lines after wrapping."""
        return len(self._wrapped)

    def get_line(self, y: int) -> Line:
        """A wrapped line."""
        return self._wrapped[y]

    def show(self, lines: Sequence[Line], *, top: bool = True) -> None:
        """Replace the text."""
        self.lines = tuple(lines)
        self._width = -1
        self._wrap()
        if top:
            self.scroll_home(animate=False, immediate=True)

    def on_resize(self) -> None:
        """Wrap to the new width."""
        super().on_resize()
        self._wrap()

    def _wrap(self) -> None:
        width = self.scrollable_content_region.width
        if width <= 0 or width == self._width:
            return
        self._width = width
        self._wrapped = [part for one in self.lines for part in wrap(one, width)]
        self.resized(0)


def printable(text: str) -> str:
    """What may go to a terminal as a part of one line; views see to it, and this is the last to look."""
    return text if text.isprintable() else safe(text).replace("\n", " ").replace("\t", " ")


def wrap(spans: Line, width: int, hang: int | None = None) -> list[Line]:
    """A line in pieces of at most `width` cells, broken at spaces where there are any. All but the first are
    indented by `hang` cells, or else as the line itself is."""
    if sum(cell_len(span.text) for span in spans) <= width:
        return [spans]
    text = plain_text(spans)
    indent = min(len(text) - len(text.lstrip(" ")) if hang is None else hang, width // 2)
    places: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        room = width if at == 0 else width - indent
        end, used = at, 0
        while end < len(text) and used + (size := cell_len(text[end])) <= room:
            used += size
            end += 1
        end = max(end, at + 1)
        following = end
        if end < len(text):
            space = text.rfind(" ", at + 1, end + 1)
            if space > at + (indent if at == 0 else 0):
                # The space it is broken at belongs to neither line where it would not fit.
                end = space + 1 if space < end else space
                following = space + 1
        places.append((at, end))
        at = following
    pieces = [cut(spans, a, b) for a, b in places]
    return [pieces[0], *((Span(" " * indent), *piece) if indent else piece for piece in pieces[1:])]


def cut(spans: Line, start: int, end: int) -> Line:
    """The characters `start` to `end` of a line."""
    made: list[Span] = []
    at = 0
    for span in spans:
        text = span.text[max(start - at, 0) : max(end - at, 0)]
        if text:
            made.append(replace(span, text=text))
        at += len(span.text)
    return tuple(made)


def fit(spans: Line, width: int) -> tuple[Line, int]:
    """A line cut to `width` cells with `…` where it was longer; and the cells it takes."""
    used = 0
    made: list[Span] = []
    for span in spans:
        size = cell_len(span.text)
        if used + size > width:
            room = width - used - 1
            if room >= 0:
                made.append(replace(span, text=set_cell_size(span.text, room) + "…"))
                used = width
            break
        made.append(span)
        used += size
    return tuple(made), used
