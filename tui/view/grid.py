"""An experiment as a matrix: variants down, tasks across, repeats in one cell; filled as they come. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from core import SessionInfo
from tui.view.lab import TODO, Kept, figures, live_figures, preset_words, short_state
from tui.view.rows import Row
from tui.view.state import State
from tui.view.text import Tone, line, one_line

Place = tuple[int, int]
"""Row and column."""


@dataclass(slots=True)
class Run:
    """One cell of the experiment: one repeat of a task by a variant."""

    cell: str
    repeat: int
    row: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Grid:
    """The matrix of an experiment. What was placed once stays where it is; only what changed is looked at."""

    variants: list[tuple[str, str]] = field(default_factory=list)
    """Preset and prompt."""
    tasks: list[str] = field(default_factory=list)
    runs: dict[Place, list[Run]] = field(default_factory=dict)
    live: dict[str, SessionInfo] = field(default_factory=dict)
    """The sessions that work now, by cell."""
    _where: dict[str, Run] = field(default_factory=dict)
    _planned: int = 0
    _filled: int = 0

    def take(self, kept: Kept) -> None:
        """Take what the experiment's record has got since."""
        if len(kept.plan) > self._planned:
            for cell, place in list(kept.plan.items())[self._planned :]:
                self._run(cell, place)
            self._planned = len(kept.plan)
        if len(kept.rows) > self._filled:
            for cell, row in list(kept.rows.items())[self._filled :]:
                self._run(cell, row).row = row
            self._filled = len(kept.rows)
        self.live = {info.id.rpartition("-")[0]: info for info in kept.live.values()}

    def _run(self, cell: str, place: Mapping[str, Any]) -> Run:
        known = self._where.get(cell)
        if known is not None:
            return known
        prompt, preset = (
            str(place.get("prompt") or "plain"),
            preset_words(str(place.get("preset")), place.get("digest")),
        )
        at = _index(self.variants, (preset, prompt))
        repeat = place.get("repeat")
        run = Run(cell, repeat if isinstance(repeat, int) else 1)
        runs = self.runs.setdefault((at, _index(self.tasks, str(place.get("task")))), [])
        runs.append(run)
        runs.sort(key=lambda one: one.repeat)
        self._where[cell] = run
        return run

    @property
    def agent(self) -> str:
        """The agent all variants are of; empty where they are of several."""
        agents = {preset.partition("@")[0] for preset, _ in self.variants}
        return agents.pop() if len(agents) == 1 else ""

    def names(self) -> list[str]:
        """The variants by what they differ in: the agent only where there are several, prompts only where there are."""
        one, prompts = bool(self.agent), len({prompt for _, prompt in self.variants}) > 1
        return [
            f"{preset.partition('@')[2] or preset if one else preset}{f' · {prompt}' if prompts else ''}"
            for preset, prompt in self.variants
        ]

    # --- what a cell says --------------------------------------------------------------------------

    def state(self, run: Run, *, running: bool = True) -> State:
        """Where one run stands; one that nobody is at any more was cut short."""
        if run.row is not None:
            return short_state(str(run.row.get("stop")))
        info = self.live.get(run.cell)
        if info is not None:
            return short_state(info.stop, info.status)
        return TODO if running else State("·", "not run", Tone.DIM)

    def cell(self, place: Place, *, running: bool = True) -> State:
        """What a cell says of its runs: the word of one, or how many of several are done; the worst gives the sign."""
        runs = self.runs.get(place, [])
        if not runs:
            return State(" ", "", Tone.DIM)
        states = [self.state(run, running=running) for run in runs]
        if len(states) == 1:
            return states[0]
        done = sum(state.sign == "✓" for state in states)
        worst = max(states, key=_weight)
        if done == len(states):
            return State("✓", f"{done}/{done} done", Tone.PLAIN)
        word = "done" if worst.sign in "·▸" else worst.word
        return State(worst.sign, f"{done}/{len(states)} {word}", worst.tone)

    def session(self, run: Run) -> str | None:
        """The id of a run's session; None while it has none."""
        if run.row is not None:
            return str(run.row["session"]) if run.row.get("session") else None
        info = self.live.get(run.cell)
        return info.id if info is not None else None

    def run_rows(self, place: Place, *, running: bool = True) -> tuple[Row, ...]:
        """The runs of a cell, one a row; the key is the run's session, or its cell where it has none."""
        rows = []
        for run in self.runs.get(place, []):
            state, info = self.state(run, running=running), self.live.get(run.cell)
            output = one_line(run_output(run), 200)
            left = line((f"{run.repeat:>3} ", Tone.DIM), (f"{state!s:12}", state.tone), (f" {output}", Tone.PLAIN))
            right = figures(run.row) if run.row else live_figures(info) if info else ()
            rows.append(Row(self.session(run) or f"cell:{run.cell}", left, right))
        return tuple(rows)


T = TypeVar("T")


def _index(names: list[T], name: T) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)


def run_output(run: Run) -> str:
    """What a run said last, or why it could not."""
    return str(run.row.get("output") or run.row.get("detail") or "") if run.row is not None else ""


def _weight(state: State) -> int:
    """Of several states the one a person should see: a failure before a question, that before what runs."""
    if state.tone is Tone.FAIL:
        return 4
    if state.yours or state.tone is Tone.YOU:
        return 3
    return {"▸": 2, "·": 1, "✓": 0}.get(state.sign, 3)
