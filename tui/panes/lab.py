"""The details of the lab: a comparison's pair, an experiment's matrix, an evaluation's cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message

from tui.view.cases import case_lines, case_rows
from tui.view.grid import Grid, Place, run_output
from tui.view.lab import ARMS, PAIR, Kept, arm_key, arm_output, comparison_lines, progress
from tui.view.text import Tone, line, safe
from tui.widgets.content import to_content
from tui.widgets.lines import TextView
from tui.widgets.matrix import MatrixView
from tui.widgets.rowlist import RowList

NARROW: Final = 100
"""Cells of the screen below which one thing shows at a time."""
MOST_ROWS: Final = 8
"""Rows of the matrix and of a cell's runs that show at once."""
WAITING: Final = (line(("no output yet", Tone.DIM)),)


Labels = Mapping[str, Sequence[Mapping[str, Any]]]


class LabPane(Vertical):
    """What one kind of record shows. `show` is called with everything that changes; it does nothing where it has
    shown it."""

    @dataclass
    class SessionWanted(Message):
        """A session is to be opened."""

        session: str

    @dataclass
    class Labelled(Message):
        """The person says how a case is, or which arm of a pair is better."""

        case: str
        verdict: str

    @dataclass
    class NoteWanted(Message):
        """The person wants to say why."""

        case: str

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.kept: Kept | None = None
        self.labels: Labels = {}
        """The labels that stand, by case."""
        self.agreement = ""
        """How far checks, judges and labels agree, in words."""
        self._shown: object = None

    def show(self, kept: Kept) -> None:
        """Show a record as it is now."""
        mark = (kept.info.id, kept.changes, kept.info.status, kept.info.stop)
        if mark == self._shown:
            return
        fresh = self.kept is None or self.kept.info.id != kept.info.id
        self._shown, self.kept = mark, kept
        self.draw(kept, fresh)

    def draw(self, kept: Kept, fresh: bool) -> None:
        """Draw it; `fresh` where another record was shown before."""
        raise NotImplementedError

    def enter(self) -> None:
        """Take the focus."""
        raise NotImplementedError


# --- comparisons ---------------------------------------------------------------------------------------


class ComparisonPane(LabPane):
    """Two arms side by side: figures above, outputs below. On narrow screens one output shows at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "open_arm(0)", "baseline's session", id="lab.baseline", tooltip="Open the baseline's session"),
        Binding("2", "open_arm(1)", "candidate's session", id="lab.candidate", tooltip="Open the candidate's session"),
        Binding("b", "label('baseline')", "better: baseline", id="pair.b", tooltip="Label: the baseline is better"),
        Binding("c", "label('candidate')", "candidate", id="pair.c", tooltip="Label: the candidate is better"),
        Binding("t", "label('tie')", "tie", id="pair.t", tooltip="Label: neither is better"),
        Binding("u", "label('unsure')", "unsure", id="pair.u", tooltip="Label: you cannot say"),
        Binding("m", "note", "note", id="pair.note", tooltip="Say why you labelled the pair so"),
        Binding("left,right", "other", "other output", show=False, id="lab.other", tooltip="The other arm's output"),
    ]

    def compose(self) -> ComposeResult:
        """Figures and outputs."""
        yield TextView(id="pair")
        with Horizontal(id="outputs"):
            for name in ARMS:
                yield TextView(id=name)

    def on_mount(self) -> None:
        """The baseline's output first."""
        self.arm = 0
        self._arrange()

    def enter(self) -> None:
        """To the output in use."""
        self.screen.set_focus(self.query_one(f"#{ARMS[self.arm]}"))

    def draw(self, kept: Kept, fresh: bool) -> None:
        """The pair and the outputs."""
        pair = self.query_one("#pair", TextView)
        pair.border_title = to_content((progress(kept),))
        pair.border_subtitle = "better: b baseline · c candidate · t tie · u unsure · m note"
        width = max(40, pair.scrollable_content_region.width)
        lines = comparison_lines(kept, self.labels.get(PAIR, ()), width)
        pair.styles.height = len(lines) + 2
        pair.show(lines, top=fresh)
        for number, name in enumerate(ARMS):
            text = safe(arm_output(kept, number)).expandtabs(4).rstrip()
            view = self.query_one(f"#{name}", TextView)
            said = tuple(line(part) for part in text.split("\n")) if text else WAITING
            if view.lines != said:
                view.show(said, top=fresh)

    def on_resize(self) -> None:
        """Columns as wide as there is room."""
        self._arrange()
        self._shown = None
        if self.kept is not None:
            self.show(self.kept)

    def _arrange(self) -> None:
        narrow = self.app.size.width < NARROW
        for number, name in enumerate(ARMS):
            view = self.query_one(f"#{name}")
            view.display = not narrow or number == self.arm
            names = [f"[b]{one}[/b]" if one == name else one for one in ARMS]
            view.border_title = f"output of  {' · '.join(names)}" if narrow else f"output of the {name}"
            view.border_subtitle = f"{number + 1} opens its session"

    def action_other(self) -> None:
        """The other arm's output."""
        self.arm = 1 - self.arm
        self._arrange()
        self.enter()

    def on_descendant_focus(self) -> None:
        """Whichever output has the focus is in use."""
        focused = self.screen.focused
        if focused is not None and focused.id in ARMS:
            self.arm = ARMS.index(focused.id)

    def action_label(self, verdict: str) -> None:
        """Pass it on."""
        self.post_message(self.Labelled(PAIR, verdict))

    def action_note(self) -> None:
        """Pass it on."""
        self.post_message(self.NoteWanted(PAIR))

    def action_open_arm(self, number: int) -> None:
        """Open an arm's session."""
        session = arm_key(self.kept, number) if self.kept is not None else None
        if session is not None:
            self.post_message(self.SessionWanted(session))
        else:
            self.notify(f"The {ARMS[number]} has no session yet.", markup=False)


# --- experiments ---------------------------------------------------------------------------------------


class ExperimentPane(LabPane):
    """The matrix, and the runs of the cell under its cursor."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._grids: dict[str, Grid] = {}

    def compose(self) -> ComposeResult:
        """Matrix, runs, and what the one under the cursor answered."""
        yield MatrixView(id="matrix")
        yield RowList(id="runs", empty="no run of this cell yet")
        yield TextView(id="answer")

    def enter(self) -> None:
        """To the matrix."""
        self.screen.set_focus(self.query_one(MatrixView))

    def draw(self, kept: Kept, fresh: bool) -> None:
        """What changed in the matrix."""
        grid = self._grids.setdefault(kept.info.id, Grid())
        grid.take(kept)
        matrix = self.query_one(MatrixView)
        matrix.border_title = to_content((progress(kept),))
        several = any(len(runs) > 1 for runs in grid.runs.values())
        matrix.border_subtitle = "how many are done, and the worst · enter: its runs" if several else "enter opens it"
        matrix.show(grid, running=kept.running)
        matrix.styles.height = min(len(grid.variants), MOST_ROWS) + 3
        self._show_runs()

    @on(MatrixView.Moved)
    def _show_runs(self) -> None:
        matrix, runs = self.query_one(MatrixView), self.query_one("#runs", RowList)
        grid, (variant, task) = matrix.grid, matrix.cursor
        if variant < len(grid.variants) and task < len(grid.tasks):
            words = line((matrix.names[variant], Tone.STRONG), (" · ", Tone.DIM), grid.tasks[task])
            runs.border_title = to_content((words,))
        rows = grid.run_rows(matrix.cursor, running=matrix.running)
        runs.show(rows)
        runs.styles.height = min(max(len(rows), 1), MOST_ROWS) + 2
        self._show_answer()

    @on(RowList.Moved, "#runs")
    def _run_moved(self, event: RowList.Moved) -> None:
        event.stop()
        self._show_answer()

    def _show_answer(self) -> None:
        matrix, runs = self.query_one(MatrixView), self.query_one("#runs", RowList)
        of_cell = matrix.grid.runs.get(matrix.cursor, [])
        text = safe(run_output(of_cell[runs.cursor])) if 0 <= runs.cursor < len(of_cell) else ""
        lines = tuple(line(part) for part in text.expandtabs(4).rstrip().split("\n")) if text.strip() else WAITING
        view = self.query_one("#answer", TextView)
        view.border_title = "Output"
        if view.lines != lines:
            view.show(lines)

    @on(MatrixView.Chosen)
    def _cell_chosen(self, event: MatrixView.Chosen) -> None:
        """One run opens at once; of several the person chooses."""
        runs = self.query_one(MatrixView).grid.runs.get(event.place, [])
        if len(runs) > 1:
            self.screen.set_focus(self.query_one("#runs"))
        elif runs:
            self._open(self.query_one(MatrixView).grid.session(runs[0]))

    @on(RowList.Chosen, "#runs")
    def _run_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._open(None if event.key.startswith("cell:") else event.key)

    def _open(self, session: str | None) -> None:
        if session is not None:
            self.post_message(self.SessionWanted(session))
        else:
            self.notify("It has no session yet.", markup=False)

    @property
    def place(self) -> Place:
        """The cell under the cursor."""
        return self.query_one(MatrixView).cursor


# --- evaluations ---------------------------------------------------------------------------------------


class CaseList(RowList):
    """The cases; a person labels the one under the cursor by key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "label('pass')", "label pass", id="cases.pass", tooltip="Label the case: it is good"),
        Binding("f", "label('fail')", "fail", id="cases.fail", tooltip="Label the case: it is not"),
        Binding("u", "label('unsure')", "unsure", id="cases.unsure", tooltip="Label the case: you cannot say"),
        Binding("m", "note", "note", id="cases.note", tooltip="Say why you labelled the case so"),
    ]

    def action_label(self, verdict: str) -> None:
        """Pass it on."""
        if self.key:
            self.post_message(LabPane.Labelled(self.key, verdict))

    def action_note(self) -> None:
        """Pass it on."""
        if self.key:
            self.post_message(LabPane.NoteWanted(self.key))


class EvaluationPane(LabPane):
    """The cases, and the one under the cursor in full."""

    def compose(self) -> ComposeResult:
        """List and case."""
        yield CaseList(id="cases", empty="no case yet")
        yield TextView(id="case")

    def enter(self) -> None:
        """To the cases."""
        self.screen.set_focus(self.query_one(CaseList))

    def draw(self, kept: Kept, fresh: bool) -> None:
        """The cases as they are."""
        cases = self.query_one(CaseList)
        cases.border_title = to_content((progress(kept),))
        cases.border_subtitle = "p pass · f fail · u unsure · m note · enter session"
        cases.show(case_rows(kept, {case: rows[-1] for case, rows in self.labels.items()}))
        self._show_case(top=fresh)

    @on(RowList.Moved, "#cases")
    def _moved(self, event: RowList.Moved) -> None:
        event.stop()
        self._show_case()

    def _show_case(self, *, top: bool = True) -> None:
        key = self.query_one(CaseList).key
        row = self.kept.rows.get(key) if self.kept is not None else None
        view = self.query_one("#case", TextView)
        view.border_subtitle = self.agreement
        lines = case_lines(key, row, self.labels.get(key, ()))
        if view.lines != lines:
            view.show(lines, top=top)

    @on(RowList.Chosen, "#cases")
    def _case_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        row = self.kept.rows.get(event.key) if self.kept is not None else None
        live = {case: key for key, case in self.kept.case_of.items()} if self.kept is not None else {}
        session = (row or {}).get("session") or live.get(event.key)
        if session:
            self.post_message(self.SessionWanted(str(session)))
        else:
            self.notify("It has no session.", markup=False)
