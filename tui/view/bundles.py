"""The revision tree, the validation history, and what publishing or rolling back would do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from core import ChannelEntry, Revision, ValidationRun
from tui.view.rows import Row
from tui.view.text import Line, Tone, line, one_line, plural, safe, short, took, when

if TYPE_CHECKING:
    from core import BundleDiff, FieldChange

MOST_LANES = 12
"""Cells the branches of a tree may take."""
FEW = 3
"""How many entries of a list the question whether to publish names."""

Verdict = Literal["passed", "failed", "unvalidated"]


def verdicts(runs: Sequence[ValidationRun]) -> dict[str, ValidationRun]:
    """The latest run of each digest."""
    return {run.digest: run for run in runs}


def verdict_of(run: ValidationRun | None) -> Verdict:
    """What the latest run says of a revision."""
    if run is None:
        return "unvalidated"
    return "passed" if run.passed else "failed"


def tree_rows(
    revisions: Sequence[Revision],
    runs: Sequence[ValidationRun],
    channels: Mapping[str, str],
    now: str,
    marked: str | None = None,
) -> tuple[Row, ...]:
    """Newest first, lanes for branches, and for each: live or another channel, passed, failed or unvalidated."""
    latest = verdicts(runs)
    lanes: list[str | None] = []
    graphs = [(revision, _graph(revision, lanes)) for revision in reversed(revisions)]
    width = min(MOST_LANES, max((len(graph.before + graph.after) for _, graph in graphs), default=0))
    return tuple(
        _tree_row(revision, latest.get(revision.digest), channels, now, graph, width, marked)
        for revision, graph in graphs
    )


def _tree_row(
    revision: Revision,
    run: ValidationRun | None,
    channels: Mapping[str, str],
    now: str,
    graph: _Graph,
    width: int,
    marked: str | None,
) -> Row:
    names = [name for name, digest in channels.items() if digest == revision.digest]
    sign, words, tone = _mark(run, names)
    left = line(
        (graph.before[:MOST_LANES], Tone.DIM),
        (f"{sign} ", tone),
        (f"{graph.after:{max(0, width - len(graph.before))}}"[:MOST_LANES], Tone.DIM),
        (f"{short(revision.digest)} ", Tone.STRONG if names else Tone.PLAIN),
        (f"{words:12} ", tone),
        ("◂ marked  " if revision.digest == marked else "", Tone.STRONG),
        one_line(revision.message, 120),
    )
    return Row(revision.digest, left, line((f"{when(revision.at, now)}  {revision.by}", Tone.DIM)))


@dataclass(frozen=True, slots=True)
class _Graph:
    before: str
    after: str


def _graph(revision: Revision, lanes: list[str | None]) -> _Graph:
    """The lanes beside one revision's sign; `lanes` then say what each waits for below it."""
    waiting = [n for n, digest in enumerate(lanes) if digest == revision.digest]
    free = [n for n, digest in enumerate(lanes) if digest is None]
    lane = waiting[0] if waiting else free[0] if free else len(lanes)
    if lane == len(lanes):
        lanes.append(None)
    drawn = ["│ " if digest is not None else "  " for digest in lanes]
    for other in waiting[1:]:
        drawn[other] = "╯ "
        lanes[other] = None
    after = "".join(drawn[lane + 1 :])
    lanes[lane] = revision.parents[0] if revision.parents else None
    while lanes and lanes[-1] is None:
        lanes.pop()
    return _Graph("".join(drawn[:lane]), after if after.strip() else "")


def _mark(run: ValidationRun | None, channels: Sequence[str]) -> tuple[str, str, Tone]:
    verdict = verdict_of(run)
    if channels:
        name = ", ".join(channels)
        return ("●", name, Tone.STRONG) if verdict == "passed" else ("●", f"{name}, {verdict}", Tone.FAIL)
    match verdict:
        case "passed":
            return "✓", "passed", Tone.PLAIN
        case "failed":
            count = len(run.problems) if run is not None else 0
            return "✗", plural(count, "problem") if count else "failed", Tone.FAIL
        case "unvalidated":
            return "○", "unvalidated", Tone.DIM


def run_rows(runs: Sequence[ValidationRun], now: str) -> tuple[Row, ...]:
    """The validation history, newest first."""
    rows = []
    for run in reversed(runs):
        sign, words, tone = ("✓", "passed", Tone.PLAIN) if run.passed else ("✗", "failed", Tone.FAIL)
        first = one_line(str(run.problems[0].get("message", "")), 100) if run.problems else ""
        more = f"{len(run.problems)}: {first}" if run.problems else ""
        left = line((f"{sign} {words} ", tone), f"{short(run.digest)} ", (more, Tone.DIM))
        rows.append(Row(run.id, left, line((f"{when(run.at, now)}  {_sandbox(run)}", Tone.DIM))))
    return tuple(rows)


def _sandbox(run: ValidationRun) -> str:
    name = str(run.environment.get("sandbox", ""))
    return f"{name} unsafe" if run.environment.get("unsafe") and "unsafe" not in name else name


def check_rows(run: ValidationRun) -> tuple[Row, ...]:
    """Each check of a run."""
    rows = []
    for number, check in enumerate(run.checks):
        passed = bool(check.get("passed"))
        seconds = check.get("duration_s")
        right = took(seconds) if isinstance(seconds, int | float) else ""
        sign, tone = ("✓", Tone.PLAIN) if passed else ("✗", Tone.FAIL)
        left = line((f"{sign} ", tone), str(check.get("name", "?")))
        rows.append(Row(str(number), left, line((right, Tone.DIM))))
    return tuple(rows)


def run_lines(run: ValidationRun, now: str, check: int | None = None) -> tuple[Line, ...]:
    """A run in full: verdict, problems with their hints, environment, and the log of one check (or of all)."""
    word = ("✓ passed", Tone.STRONG) if run.passed else ("✗ failed", Tone.FAIL)
    lines: list[Line] = [
        line(word, f"  {short(run.digest)}  {when(run.at, now)}"),
        line((f"run {run.id} · checks {run.checks_version} · it says well-formed, never good", Tone.DIM)),
        (),
    ]
    if run.problems:
        lines.append(line(("problems", Tone.DIM)))
        for problem in run.problems:
            lines += problem_lines(problem)
        lines.append(())
    lines += [
        line(("environment", Tone.DIM)),
        *(line((f"  {name}: ", Tone.DIM), one_line(str(value))) for name, value in run.environment.items()),
        (),
    ]
    for number, one in enumerate(run.checks):
        if check is None or number == check:
            lines += _check_lines(one)
    return tuple(lines)


def problem_lines(problem: Mapping[str, Any]) -> list[Line]:
    """A problem: its code and place, what it is, what to do."""
    where = str(problem.get("path") or "")
    lines = [
        line(("  ✗ ", Tone.FAIL), (str(problem.get("code", "")), Tone.STRONG), (f"  {where}", Tone.DIM)),
        line("    ", one_line(str(problem.get("message", "")), 1000)),
    ]
    if problem.get("hint"):
        lines.append(line(("    Next: ", Tone.DIM), one_line(str(problem["hint"]), 1000)))
    return lines


def _check_lines(check: Mapping[str, Any]) -> list[Line]:
    log = check.get("log")
    texts = safe(log if isinstance(log, str) else "" if log is None else str(log)).expandtabs(4).split("\n")
    sign = "✓" if check.get("passed") else "✗"
    head = line((f"{sign} {check.get('name', '?')}", Tone.STRONG if check.get("passed") else Tone.FAIL))
    body = [line("  " + text) for text in texts if text.strip()]
    return [head, *(body or [line(("  (no log)", Tone.DIM))]), ()]


@dataclass(frozen=True, slots=True)
class Move:
    """What publishing or rolling back would do, as a person must see it before saying yes."""

    action: Literal["publish", "rollback"]
    agent: str
    channel: str
    digest: str
    head: str | None
    run: ValidationRun | None
    summary: tuple[str, ...]
    warning: str = ""


def difference(found: BundleDiff) -> tuple[str, ...]:
    """What a yes changes, in a few lines: of many like changes the first and how many more. From nothing (`before` is
    None) it is what the agent is; its name stands above."""
    new = found.before is None
    fields = [one for one in found.fields if not new or one.field not in ("schema", "name", "persona")]
    words = _few([one for one in fields if _power(one)], new), _few([one for one in fields if not _power(one)], new)
    lines = [line for line in words if line]
    files = found.summary()[-1]  # how many files, how many lines
    return (*lines, files) if found.files else tuple(lines) or (files,)


def _power(change: FieldChange) -> bool:
    """Whether it is about what the agent may do, or what may be done with it."""
    return change.field.split(".")[0] not in ("schema", "name", "description", "persona", "model", "metadata")


def _few(changes: Sequence[FieldChange], new: bool) -> str:
    """Changes as words: long lists by their first entries, keys of one mapping that change alike together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        words = change.words().removeprefix(change.field)
        if words.startswith(": "):
            where, _, name = change.field.rpartition(".")
            what = words.removeprefix(": ")
            alike.setdefault((where, what.removeprefix("unset → ") if new else what), []).append(name)
        else:
            alike[change.field, ""] = re.split(r" (?=[+−])", words.strip())
    made = []
    for (where, what), names in alike.items():
        joined = (", " if what else " ").join(names[:FEW])
        more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        made.append(f"{f'{where} ' if where else ''}{joined}{more}{f': {what}' if what else ''}")
    return "; ".join(made)


def move_lines(move: Move, now: str) -> tuple[Line, ...]:
    """Agent, channel, live now → to be live, the run that passed, three lines of difference."""
    run = move.run
    verdict = f"passed {when(run.at, now)} · {_sandbox(run)} · run {run.id}" if run is not None else "none has passed"
    arrow = f"{short(move.head) if move.head else 'nothing'} → {short(move.digest)}"
    lines = [
        line(("agent       ", Tone.DIM), (move.agent, Tone.STRONG)),
        line(("channel     ", Tone.DIM), f"{move.channel}   ", (arrow, Tone.STRONG)),
        line(("validation  ", Tone.DIM), verdict),
        (),
        *(line(("difference  " if n == 0 else " " * 12, Tone.DIM), text) for n, text in enumerate(move.summary)),
    ]
    lines += [(), line((move.digest, Tone.DIM))]
    if move.warning:
        lines += [(), line(("! " + move.warning, Tone.FAIL))]
    return tuple(lines)


def channel_rows(entries: Sequence[ChannelEntry], now: str) -> tuple[Line, ...]:
    """A channel's history, newest first, refused ones included."""
    return tuple(
        line(
            (when(entry.at, now) + "  ", Tone.DIM),
            (f"{'✗ refused' if entry.refused else '●'} ", Tone.FAIL if entry.refused else Tone.PLAIN),
            f"{entry.channel} {short(entry.digest)} ",
            (f"{entry.action} by {entry.by} {entry.refused or ''}", Tone.DIM),
        )
        for entry in reversed(entries)
    )
