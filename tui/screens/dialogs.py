"""The small screens over the others: a text to read, a yes to give, a word to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Click
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from core import ValidationRun
from tui.screens.messages import MendWanted
from tui.view.bundles import Move, check_rows, move_lines, run_lines
from tui.view.text import Line, Tone, button, line
from tui.widgets.bars import Bar, KeyBar
from tui.widgets.content import Lines, clicked, own_key, to_content
from tui.widgets.field import Field
from tui.widgets.lines import TextView
from tui.widgets.rowlist import RowList


class TextScreen(Screen[None]):
    """A text to read: a revision, a difference, an event."""

    CSS_PATH = "dialogs.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back", id="text.back", tooltip="Back"),
    ]

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__()
        self._heading = title
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """Title, text, keys."""
        bar = Bar(id="top")
        bar.left = line((self._heading, Tone.STRONG))
        yield bar
        yield TextView(self._lines, id="text")
        yield KeyBar(id="keys")


class RunScreen(Screen[None]):
    """A validation run: its checks, and for the one under the cursor its log; environment and problems.

    `note` says what came of it, such as that nothing was published.
    """

    CSS_PATH = "dialogs.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "mend", "mend", id="run.mend", tooltip="Edit the file that failed, save and validate"),
        Binding("escape,q", "dismiss", "back", id="run.back", tooltip="Back"),
    ]

    def __init__(self, run: ValidationRun, now: str, note: str = "") -> None:
        super().__init__()
        self._validation = run
        self._now = now
        self._note = note

    def compose(self) -> ComposeResult:
        """Checks beside the rest."""
        bar = Bar(id="top")
        bar.left = line((f"Validation of {self._validation.agent}", Tone.STRONG))
        if self._note:
            bar.middle = line((self._note, Tone.PLAIN if self._validation.passed else Tone.FAIL))
        bar.right = line((self._validation.id, Tone.DIM))
        yield bar
        with Horizontal(id="run"):
            yield RowList(id="checks", empty="no checks")
            yield TextView(run_lines(self._validation, self._now), id="text")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """All of it at first; opening a check narrows it. The cursor begins on the first that failed."""
        self.query_one("#checks").border_title = "Checks"
        rows = self.query_one(RowList)
        rows.show(check_rows(self._validation))
        failed = [number for number, check in enumerate(self._validation.checks) if not check.get("passed")]
        if failed:
            rows.select(str(failed[0]))
        rows.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to mend only where something failed."""
        return not self._validation.passed if action == "mend" else True

    def action_mend(self) -> None:
        """Close, and edit the file of the first problem."""
        run = self._validation
        path = next((str(p["path"]) for p in run.problems if p.get("path")), None)
        self.app.post_message(MendWanted(run.agent, run.digest, path))
        self.dismiss()

    @on(RowList.Chosen)
    def _one(self, event: RowList.Chosen) -> None:
        self.query_one("#text", TextView).show(run_lines(self._validation, self._now, int(event.key)))


class YesScreen(ModalScreen[bool]):
    """A question with two answers: a title, lines (wrapped ones are indented by `hang`), and what a yes does.

    What does not fit is scrolled; the keys always show.
    """

    CSS_PATH = "dialogs.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "yes", id="move.yes", tooltip="Do it"),
        Binding("n,escape", "answer(False)", "no", id="move.no", tooltip="Leave everything as it is"),
        Binding("up,k", "scroll(-1)", "Up", show=False, id="move.up", tooltip="Scroll up"),
        Binding("down,j", "scroll(1)", "Down", show=False, id="move.down", tooltip="Scroll down"),
        Binding("pageup", "scroll(-9)", "Page up", show=False, id="move.page_up", tooltip="Scroll up further"),
        Binding("pagedown", "scroll(9)", "Page down", show=False, id="move.page_down", tooltip="Scroll down further"),
    ]

    def __init__(self, title: str, words: Sequence[Line], verb: str, *, hang: int = 0) -> None:
        super().__init__()
        self._heading, self._body, self._verb, self._hang = title, words, verb, hang

    def compose(self) -> ComposeResult:
        """What it will do, and the two keys."""
        box = Vertical(id="dialog")
        box.border_title = to_content((line(self._heading),))
        with box:
            with VerticalScroll(id="said", can_focus=False):
                yield Lines([(spans, self._hang) for spans in self._body])
            yield Lines([((), 0), (self._keys(), 0)], id="answers")

    def _keys(self, scrolls: bool = False) -> Line:
        more = line("    ", ("↑↓", Tone.STRONG), " read on") if scrolls else ()
        gap = line("    ")
        yes, no = own_key(self, "move.yes", "y"), own_key(self, "move.no", "n")
        return (*button(yes, self._verb, "answer(True)"), *gap, *button(no, "leave it", "answer(False)"), *more)

    async def on_click(self, event: Click) -> None:
        """The two answers."""
        await clicked(event, self)

    def on_resize(self) -> None:
        """The words get the rows that border, padding and keys leave."""
        said = self.query_one("#said", VerticalScroll)
        said.styles.max_height = max(1, self.size.height * 9 // 10 - 6)
        self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        said = self.query_one("#said", VerticalScroll)
        self.query_one("#answers", Lines).show([((), 0), (self._keys(said.max_scroll_y > 0), 0)])

    def action_scroll(self, rows: int) -> None:
        """Read on, or back."""
        self.query_one("#said", VerticalScroll).scroll_relative(y=rows, animate=False)

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


class MoveScreen(YesScreen):
    """Publishing or rolling back, asked once, with everything it will do."""

    def __init__(self, move: Move, now: str) -> None:
        verb = "Publish" if move.action == "publish" else "Roll back"
        super().__init__(f"{verb} {move.agent}?", move_lines(move, now), verb.lower(), hang=12)


class AskScreen(ModalScreen[str | None]):
    """One line to write, such as the name of a model; `hidden` where nobody may read it."""

    CSS_PATH = "dialogs.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "back", id="ask.back", tooltip="Back without a change"),
    ]

    def __init__(self, title: str, hint: str = "", value: str = "", *, hidden: bool = False) -> None:
        super().__init__()
        self._heading, self._hint, self._value, self._hidden = title, hint, value, hidden

    def compose(self) -> ComposeResult:
        """A field."""
        box = Vertical(id="dialog")
        box.border_title = self._heading
        with box:
            if self._hint:
                yield Static(self._hint, markup=False, classes="hint")
            yield Field(self._value, password=self._hidden)

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        self.dismiss((event.value if self._hidden else event.value.strip()) or None)

    def action_cancel(self) -> None:
        """Close without an answer."""
        self.dismiss(None)
