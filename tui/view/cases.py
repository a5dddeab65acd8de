"""An evaluation: its cases with what failed in them, what people say of them, and figures over time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from core import SessionInfo
from tui.view.lab import (
    FAILED,
    PASSED,
    TODO,
    UNJUDGED,
    Kept,
    figures,
    label_line,
    live_figures,
    seconds_of,
    short_state,
    usd_of,
)
from tui.view.rows import Row
from tui.view.state import State
from tui.view.text import Line, Tone, column, line, money, one_line, plural, safe, short, took

NAME = 20
MOST_OUTPUT = 200
"""Lines of an output that are shown; its session has all of them."""
PERSON = "person"


def case_state(row: Mapping[str, Any] | None, info: SessionInfo | None = None) -> State:
    """How a case went, or how far it is."""
    if row is None:
        return TODO if info is None else short_state(info.stop, info.status)
    if row.get("passed"):
        return PASSED
    failed = [check for check in _checks(row) if not check.get("passed")]
    if failed and all(check.get("state") == "unjudged" for check in failed):
        return UNJUDGED
    return FAILED


def case_rows(kept: Kept, labels: Mapping[str, Mapping[str, Any]]) -> tuple[Row, ...]:
    """All cases in the suite's order: sign and word, a person's label, the first thing that failed."""
    live = {kept.case_of[key]: info for key, info in kept.live.items() if key in kept.case_of}
    width = min(NAME, max((cell_len(case) for case in kept.planned), default=NAME))
    return tuple(_case_row(case, kept.rows.get(case), live.get(case), labels.get(case), width) for case in kept.planned)


def _case_row(
    case: str, row: Mapping[str, Any] | None, info: SessionInfo | None, label: Mapping[str, Any] | None, width: int
) -> Row:
    state = case_state(row, info)
    said = _label_word(row, label)
    words = ""
    if row is not None and not row.get("passed"):
        failed = [check for check in _checks(row) if not check.get("passed")]
        words = str(failed[0].get("why") or failed[0].get("check")) if failed else str(row.get("why") or "")
    left = line(
        (f"{state!s:11}", state.tone),
        column(case, width) + "  ",
        *([(said + "  ", Tone.YOU if said.startswith("≠") else Tone.STRONG)] if said else []),
        (one_line(words, 120), Tone.DIM),
    )
    return Row(case, left, figures(row) if row is not None else live_figures(info) if info is not None else ())


def _label_word(row: Mapping[str, Any] | None, label: Mapping[str, Any] | None) -> str:
    """`= pass` where a person agrees with the checks, `≠ fail` where they do not."""
    if label is None:
        return ""
    verdict = str(label.get("verdict"))
    if verdict == "unsure" or row is None:
        return f"~ {verdict}"
    return f"{'=' if bool(row.get('passed')) == (verdict == 'pass') else '≠'} {verdict}"


def _checks(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    checks = row.get("checks")
    return [check for check in checks if isinstance(check, Mapping)] if isinstance(checks, list) else []


def case_lines(case: str, row: Mapping[str, Any] | None, labels: Sequence[Mapping[str, Any]]) -> tuple[Line, ...]:
    """One case in full: each check with what was found, what people say, and the output."""
    if not case:
        return (line(("no case under the cursor", Tone.DIM)),)
    if row is None:
        return (line((case, Tone.STRONG)), line(("it has not run yet", Tone.DIM)))
    state = case_state(row)
    stop = f" · {short_state(str(row['stop']))}" if row.get("stop") else ""
    lines: list[Line] = [line((case, Tone.STRONG), "  ", (str(state), state.tone), (stop, Tone.DIM))]
    lines += [label_line(label, 7) for label in labels]
    if row.get("why"):
        lines.append(line((one_line(str(row["why"]), 500), Tone.FAIL)))
    for check in _checks(row):
        passed, unjudged = check.get("passed"), check.get("state") == "unjudged"
        sign, tone = ("✓", Tone.PLAIN) if passed else ("?", Tone.DIM) if unjudged else ("✗", Tone.FAIL)
        lines.append(line((f"{sign} ", tone), one_line(str(check.get("check")), 300)))
        if not passed and check.get("why"):
            lines += [line(("  " + part, Tone.DIM)) for part in safe(str(check["why"])).expandtabs(4).split("\n")]
    output = safe(str(row.get("output") or "")).expandtabs(4).rstrip().split("\n")
    lines += [(), line(("output", Tone.DIM)), *(line("  " + part) for part in output[:MOST_OUTPUT])]
    if len(output) > MOST_OUTPUT:
        lines.append(line((f"  … {plural(len(output) - MOST_OUTPUT, 'more line')}: enter opens its session", Tone.DIM)))
    return tuple(lines)


def agreement_words(checks: Mapping[str, Any], judges: Sequence[Mapping[str, Any]]) -> str:
    """`checks and labels agree on 3 of 4 · judge haiku and labels on 2 of 2`; empty without labels."""
    parts = [f"checks and labels agree on {checks['same']} of {checks['labels']}"] if checks["labels"] else []
    parts += [f"judge {row['judge']} and labels on {row['same']} of {row['pairs']}" for row in judges if row["pairs"]]
    return " · ".join(parts)


# --- over time -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation of a series: when, of which revision, the share that passed in percent; cost in dollars and
    seconds are diagnostics. `here` is the one under the cursor."""

    eval: str
    at: str
    digest: str
    passed: float
    usd: float | None
    seconds: float | None
    here: bool = False


def points(history: Sequence[Kept], here: str) -> tuple[Point, ...]:
    """The evaluations of one suite and agent as points, oldest first; those without a case are left out."""
    made = []
    for kept in sorted(history, key=lambda one: one.info.started):
        rows = list(kept.rows.values())
        if not rows:
            continue
        costs, times = [usd_of(row) for row in rows], [seconds_of(row) for row in rows]
        known = [float(usd) for usd in costs if usd is not None]
        made.append(
            Point(
                kept.info.id,
                kept.info.started,
                short(kept.info.digest),
                100 * sum(bool(row.get("passed")) for row in rows) / len(rows),
                sum(known) if len(known) == len(costs) else None,
                sum(time for time in times if time is not None) if any(time is not None for time in times) else None,
                kept.info.id == here,
            )
        )
    return tuple(made)


def same_series(kept: Kept, other: Kept) -> bool:
    """Whether two evaluations are of the same suite and agent, so that their figures belong side by side."""
    return kept.info.agent == other.info.agent and suite_name(kept) == suite_name(other)


def suite_name(kept: Kept) -> str:
    """The suite's name."""
    suite = kept.about.get("suite")
    return str(suite.get("name")) if isinstance(suite, Mapping) else kept.info.title.partition(":")[0]


def ticks(series: Sequence[Point], room: int) -> tuple[list[int], list[str]]:
    """Places (1-based) and labels below a plot `room` cells wide: as many digests, times under them, as fit."""
    most = max(1, room // 10)
    step = -(-len(series) // most) if series else 1
    places = list(range(len(series), 0, -step))[::-1]
    return places, [series[place - 1].digest for place in places]


_BARS = "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float | None]) -> str:
    """The values as bars of one row; a gap where one is not known."""
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    return "".join(" " if value is None else _BARS[round(value / most * (len(_BARS) - 1))] for value in values)


def diagnostics(series: Sequence[Point]) -> tuple[Line, ...]:
    """Cost and duration of a series, oldest first, with the figure of the one under the cursor."""
    here = next((point for point in series if point.here), series[-1])
    usd = money(None if here.usd is None else str(here.usd))
    seconds = took(here.seconds) if here.seconds is not None else "-"
    rows = (("cost", [point.usd for point in series], usd), ("duration", [p.seconds for p in series], seconds))
    lines = [line((f"{name:9}", Tone.DIM), bars(values), f"  {words}") for name, values, words in rows]
    return (*lines, line(("diagnostics, never a score", Tone.DIM)))
