"""The lab: comparisons, experiments that fill live, evaluations with their figures over time, labels by key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical

from tui.desk import Desk
from tui.laboratory import Laboratory
from tui.leaving import left
from tui.panes.lab import (
    NARROW,
    ComparisonPane,
    EvaluationPane,
    ExperimentPane,
    LabPane,
)
from tui.screens.base import QuietScreen
from tui.screens.messages import HomeWanted, Opened
from tui.view.cases import PERSON, Point, points
from tui.view.lab import KINDS, Kept, Kind, headline, lab_tabs, nothing_yet, record_row
from tui.view.text import Tone, line
from tui.widgets.bars import Bar, KeyBar
from tui.widgets.lines import TextView
from tui.widgets.rowlist import RowList

PANES = {"comparison": "pair-pane", "experiment": "matrix-pane", "evaluation": "cases-pane"}


class LabScreen(QuietScreen[None]):
    """What the lab has recorded, newest first, and one record in full."""

    CSS_PATH = "lab.tcss"
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-wide")]  # noqa: RUF012 - Textual declares it so

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(
                f"f{number}",
                f"kind('{kind}')",
                f"{kind}s",
                show=False,
                id=f"lab.{kind}s",
                tooltip=f"The {kind}s",
                priority=True,
            )
            for number, kind in enumerate(KINDS, 2)
        ),
        Binding("f5", "detail", "detail", show=False, id="lab.detail", tooltip="The record in full", priority=True),
        Binding("f6", "plots", "plots", show=False, id="lab.plots", tooltip="Evaluations over time", priority=True),
        Binding(
            "i", "interrupt", "interrupt", id="lab.interrupt", tooltip="Stop what works on the record; it can go on"
        ),
        Binding("escape", "back", "back", id="lab.back", tooltip="Back to the list, from there home"),
        Binding("f10,ctrl+o", "home", "home", show=False, id="session.home", tooltip="All sessions and agents"),
    ]

    def __init__(self, desk: Desk, record: str | None = None) -> None:
        super().__init__()
        self.desk = desk
        self.lab = Laboratory(desk.host)
        self.kind: Kind = "comparison"
        self.view = "list"
        """What narrow screens show: the list, the detail or the plots."""
        self.record = record
        """The record to begin with; later the one under the cursor."""
        self.series: tuple[Point, ...] = ()
        self._shown: object = None
        self.settled = False
        """Whether everything that belongs to the record is shown."""

    def compose(self) -> ComposeResult:
        """The list beside one record."""
        yield Bar(id="top")
        yield Bar(id="tabs")
        with Horizontal(id="lab"):
            with Vertical(id="left"):
                yield RowList(id="records")
                yield Container(id="plots")
            yield TextView(id="nothing")
            with Vertical(id="detail"):
                yield ComparisonPane(id=PANES["comparison"])
                yield ExperimentPane(id=PANES["experiment"])
                yield EvaluationPane(id=PANES["evaluation"])
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Begin with the record that is asked for, else with the kind that has the newest."""
        self.query_one("#top", Bar).left = line(("Lab", Tone.STRONG))
        self.lab.look()
        wanted = self.lab.infos.get(self.record or "") or next(iter(self.lab.infos.values()), None)
        if wanted is not None and wanted.kind in KINDS:
            self.kind = wanted.kind
        asked = self.record
        self._arrange()
        self._show()
        if asked is not None and self._records.select(asked):
            self.action_detail()
        else:
            self._enter_list()

    @property
    def _records(self) -> RowList:
        return self.query_one("#records", RowList)

    @property
    def _in_list(self) -> bool:
        return self._records.has_focus or self.query_one("#nothing").has_focus

    def _enter_list(self) -> None:
        self.set_focus(self._records if self._records.rows else self.query_one("#nothing"))

    @property
    def place(self) -> str:
        """Where the person is, to come back to."""
        return f"lab:{self.record or ''}"

    @property
    def pane(self) -> LabPane:
        """The pane of the kind that is shown."""
        return self.query_one(f"#{PANES[self.kind]}", LabPane)

    def on_screen_resume(self) -> None:
        """What happened meanwhile."""
        self.poll()

    # --- what is shown -----------------------------------------------------------------------------

    def poll(self) -> None:
        """Some process wrote something: read on."""
        if self.is_mounted and self.query("#records"):
            self.lab.look()
            self._show()

    def _show(self) -> None:
        now = self.desk.host.now()
        infos = self.lab.of_kind(self.kind)
        self.query_one("#top", Bar).right = headline(list(self.lab.infos.values()))
        nothing = self.query_one("#nothing", TextView)
        waited = nothing.has_focus
        first = nothing.display and bool(infos)
        nothing.display = not infos
        nothing.border_title = f"{self.kind.capitalize()}s"
        if not infos:
            nothing.show(nothing_yet(self.kind))
        self._records.show([record_row(info, now, self.lab.known(info.id)) for info in infos])
        self._show_record()
        if first:  # until now there was nothing to make room for
            self._arrange()
        if waited:
            self._enter_list()

    def _show_record(self) -> None:
        """The record under the cursor in full."""
        key = self._records.key
        self.record = key or None
        kept = self.lab.read(key) if key else None
        mark = (self.kind, self.view, self.lab.mark(key))
        if mark == self._shown and self.settled:
            return
        self._shown = mark
        self.pane.display = kept is not None and (self.view != "plots" or not self._narrow)
        if kept is None:
            self.settled = True
            self._show_plots(())
            return
        self.pane.labels, self.pane.agreement = self.lab.labels(kept), self.lab.agreement(kept)
        if isinstance(self.pane, EvaluationPane):
            self.settled = False
            self._read_series(kept)
        else:
            self.settled = True
        self.pane.show(kept)
        self.query_one(KeyBar).keys_changed()

    @work(group="series", exclusive=True, exit_on_error=True)
    async def _read_series(self, kept: Kept) -> None:
        """The other evaluations of the suite and agent, for the plots."""
        found = await asyncio.to_thread(self.lab.series, kept)
        if left(self):
            return
        series = points(found, kept.info.id)
        if len(series) > 1 and not self.query("Plots"):
            plots = await asyncio.to_thread(_plots)
            if left(self):
                return
            if not self.query("Plots"):
                await self.query_one("#plots").mount(plots())
        self._show_plots(series)
        self.settled = True

    def _show_plots(self, series: Sequence[Point]) -> None:
        self.series = tuple(series)
        enough = self.kind == "evaluation" and len(self.series) > 1
        if enough:
            for plots in self.query("Plots"):
                plots.show(self.series)  # type: ignore[attr-defined]
        if not enough and self.view == "plots":
            self.view = "detail"
        self._arrange()

    @property
    def _narrow(self) -> bool:
        return self.app.size.width < NARROW

    def _arrange(self) -> None:
        """List, detail and plots side by side where there is room, else one of them."""
        narrow, enough = self._narrow, self.kind == "evaluation" and len(self.series) > 1
        self._records.display = not narrow or self.view == "list"
        self.query_one("#plots").display = enough and (not narrow or self.view == "plots")
        some = bool(self._records.rows)
        self.query_one("#left").display = some and (not narrow or self.view in ("list", "plots"))
        self.query_one("#detail").display = some and (not narrow or self.view == "detail")
        for kind, name in PANES.items():
            self.query_one(f"#{name}").display = kind == self.kind and bool(self._records.key)
        self.query_one("#tabs", Bar).left = lab_tabs(
            self.kind, self.view if narrow and self._records.key else "", plots=enough and narrow
        )
        self._records.border_title = f"{self.kind.capitalize()}s"
        self.query_one("#plots").border_title = "Passed, % of cases, over time"
        self.query_one(KeyBar).keys_changed()

    def on_resize(self) -> None:
        """More or less room."""
        if self.query("#records"):
            self._arrange()

    # --- keys --------------------------------------------------------------------------------------

    @on(RowList.Moved, "#records")
    def _moved(self) -> None:
        self._show_record()

    @on(RowList.Chosen, "#records")
    def _chosen(self) -> None:
        self.action_detail()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Plots are a place of their own only where there is no room beside the rest."""
        if action == "plots":
            return self._narrow and self.kind == "evaluation" and len(self.series) > 1
        if action == "interrupt":
            info = self.lab.infos.get(self.record or "")
            return info is not None and info.status == "running"
        return True

    def describe(self, action: str) -> str | None:
        """Where escape leads from here, for the line of keys."""
        if action != "back":
            return None
        return "home" if self._in_list else "list"

    def action_kind(self, kind: Kind) -> None:
        """Another list."""
        if kind != self.kind:
            self.kind, self.series = kind, ()
            self._records.scroll_home(animate=False)
        self.view = "list"
        self._arrange()
        self._show()
        self._arrange()
        self._enter_list()

    def action_detail(self) -> None:
        """The record under the cursor in full."""
        if not self._records.key:
            return
        self.view = "detail"
        self._arrange()
        self.pane.enter()

    def action_plots(self) -> None:
        """The evaluations of the suite and agent over time."""
        self.view = "plots"
        self._arrange()
        for plot in self.query("PassRate"):
            plot.focus()

    def action_back(self) -> None:
        """To the list; from there home."""
        if self._in_list:
            self.action_home()
            return
        self.view = "list"
        self._arrange()
        self._enter_list()

    async def action_interrupt(self) -> None:
        """Stop what works on the record, in whichever process: what is done stays."""
        stopped = self.record is not None and await self.desk.interrupt(self.record)
        self.notify("Stopping it; what is done stays." if stopped else "Nothing runs there.", markup=False)

    def action_home(self) -> None:
        """All sessions and agents."""
        self.post_message(HomeWanted())

    @on(LabPane.SessionWanted)
    def _session_wanted(self, event: LabPane.SessionWanted) -> None:
        self.post_message(Opened(f"session:{event.session}", over=True))

    # --- labels ------------------------------------------------------------------------------------

    @on(LabPane.Labelled)
    def _labelled(self, event: LabPane.Labelled) -> None:
        """What was said of it stays where it is labelled the same again."""
        own = self._own_label(event.case)
        self._label(
            event.case, event.verdict, str(own.get("note") or "") if own.get("verdict") == event.verdict else ""
        )

    def _own_label(self, case: str) -> dict[str, object]:
        return next((dict(row) for row in reversed(self.pane.labels.get(case, ())) if row.get("by") == PERSON), {})

    @on(LabPane.NoteWanted)
    def _note_wanted(self, event: LabPane.NoteWanted) -> None:
        own = self._own_label(event.case)
        if own:
            self._ask_why(event.case, str(own["verdict"]), str(own.get("note") or ""))
        else:
            self.notify("Label it first.", markup=False)

    @work(group="act", exit_on_error=True)
    async def _ask_why(self, case: str, verdict: str, note: str) -> None:
        from tui.screens.dialogs import AskScreen

        said = await self.app.push_screen_wait(AskScreen("Why?", f"{case} is labelled {verdict}.", note))
        if said is not None:
            self._label(case, verdict, said)

    def _label(self, case: str, verdict: str, note: str) -> None:
        if self.record is None:
            return
        why = self.lab.label(self.record, case, verdict, note)
        if why is not None:
            self.notify(why, severity="warning", markup=False)
        self.lab.look()
        self._show()


def _plots() -> type:
    """Loaded when there is something to plot."""
    from tui.widgets.plots import Plots

    return Plots
