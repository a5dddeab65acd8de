"""What the lab's views say of records: taken as they grow, counted, named, drawn from nothing but their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from core import Event, SessionInfo
from tests.tui.labscenes import BRISK, CASES, TIDY, checked, planned, ran
from tui.view.cases import (
    agreement_words,
    bars,
    case_lines,
    case_rows,
    case_state,
    diagnostics,
    points,
    same_series,
    ticks,
)
from tui.view.fleet import fleet
from tui.view.grid import Grid
from tui.view.lab import Kept, comparison_lines, preset_words, progress, record_row
from tui.view.text import plain_text

NOW = "2026-03-04T12:00:00Z"


def kept(kind: str, *events: tuple[str, Mapping[str, Any]], status: str = "running", **columns: Any) -> Kept:
    """A record with these events."""
    info = SessionInfo("r", kind, status=status, stop=columns.pop("stop", None), started=NOW, **columns)
    made = Kept(info)
    made.take(Event("r", seq, NOW, name, data=data) for seq, (name, data) in enumerate(events, 1))
    return made


def case(name: str, passed: bool, **more: Any) -> tuple[str, dict[str, Any]]:
    """The event of a case."""
    row = {"id": name, "passed": passed, "why": "", "checks": [checked(passed, "found 13.8")], **ran(name)}
    return "case", {**row, **more}


def texts(lines: Any) -> str:
    """Lines as text."""
    return "\n".join(plain_text(one) for one in lines)


# --- one record ----------------------------------------------------------------------------------------


def test_cost_is_added_up_as_rows_come_and_says_what_is_not_known() -> None:
    record = kept("evaluation", case("a", True), case("b", True, cost={"usd": None}))
    record.watch([SessionInfo("s", "case", usd="0.25", status="running")])
    assert record.cost == "$0.26 + unknown"


def test_a_session_that_has_a_row_works_no_more() -> None:
    record = kept("evaluation", ("started", {"cases": ["a", "b"]}), case("a", True, session="s1"))
    record.watch([SessionInfo("s1", "case"), SessionInfo("s2", "case"), SessionInfo("s3", "judge")])
    assert list(record.live) == ["s2"]
    assert "1 of 2 · 1 running · 1 of 1 passed" in plain_text(progress(record))


def test_a_case_of_the_builder_works_while_it_builds() -> None:
    record = kept("evaluation", ("started", {"cases": ["a"]}))
    record.watch([SessionInfo("s1", "builder")])
    assert list(record.live) == ["s1"]


def test_an_experiment_that_goes_on_with_other_cells_has_the_new_plan() -> None:
    first, second = planned(1)[:2]
    started = {"cells": [first["cell"]], "plan": [first]}
    going_on = {"text": "Going on.", "cells": [first["cell"], second["cell"]], "plan": [first, second]}
    record = kept("experiment", ("started", started), ("notice", going_on))
    assert len(record.planned) == 2
    assert list(record.plan) == [first["cell"], second["cell"]]


def test_a_damaged_event_is_passed_over() -> None:
    record = Kept(SessionInfo("r", "experiment"))
    record.take([Event("r", 1, NOW, "cell", raw="{")])
    assert (record.rows, record.seen) == ({}, 1)


def test_the_list_says_how_many_passed_and_not_that_the_run_of_it_went_well() -> None:
    info = SessionInfo("e", "evaluation", stop="completed", summary="2 of 5 passed", title="s: a", started=NOW)
    assert plain_text(record_row(info, NOW).left) == "✗ 2/5  s: a"


def test_presets_are_short() -> None:
    assert preset_words(f"clerk@{TIDY}") == "clerk@4f1c0a2b"
    assert preset_words("clerk@live") == "clerk@live"


# --- comparisons ---------------------------------------------------------------------------------------


def test_a_pair_stands_side_by_side_and_the_arm_that_works_has_no_figures_yet() -> None:
    record = kept(
        "comparison", ("started", {"task": "T", "arms": ["a@live", "b"]}), ("cell", {"cell": "candidate", **ran("c")})
    )
    record.watch([SessionInfo("arm", "arm", agent="a", digest=BRISK, status="running")])
    text = texts(comparison_lines(record, (), 100))
    rows = {words.split()[0]: words.split()[1:] for words in text.split("\n") if words.split()}
    assert rows["preset"][0] == "a@live"
    assert rows["stop"] == ["▸", "working", "✓", "done"]
    assert rows["session"] == ["arm", "run-c"]


def test_a_judge_and_a_person_are_named_with_what_they_prefer() -> None:
    found = {"winner": "candidate", "state": "judged", "consistent": True, "judge": "scripted", "why": "shorter"}
    record = kept("comparison", ("started", {}), ("preference", found))
    labels = [{"verdict": "baseline", "note": "it is right", "by": "person"}]
    text = texts(comparison_lines(record, labels, 100))
    assert "candidate  scripted  shorter" in text
    assert "baseline  it is right  by person" in text


# --- experiments ---------------------------------------------------------------------------------------


def grid_of(repeats: int, *stops: str) -> Grid:
    """A matrix whose first cells ended so."""
    plan = planned(repeats)
    rows = [("cell", {**cell, **ran(cell["cell"], stop)}) for cell, stop in zip(plan, stops, strict=False)]
    grid = Grid()
    grid.take(kept("experiment", ("started", {"cells": [c["cell"] for c in plan], "plan": plan}), *rows))
    return grid


def test_what_is_planned_has_its_place_before_it_has_run() -> None:
    grid = grid_of(1, "completed", "doom_loop")
    assert [str(grid.cell((row, 0))) for row in range(3)] == ["✓ done", "⟳ stuck", "· to do"]
    assert grid.tasks == ["depth-norrby", "fee-20-metres", "tide-sundvik"]


def test_variants_are_named_by_what_they_differ_in() -> None:
    grid = grid_of(1)
    assert (grid.agent, grid.names()) == ("harbour-clerk", ["4f1c0a2b · plain", "4f1c0a2b · terse", "9ab2c001 · plain"])


def test_a_cell_of_several_runs_says_how_many_are_done_and_shows_the_worst() -> None:
    stops = ["completed"] * 9 + ["budget"] + ["completed"] * 8
    grid = grid_of(3, *stops)
    assert str(grid.cell((0, 0))) == "◔ 1/3 budget"
    assert str(grid.cell((1, 0))) == "· 2/3 done"
    assert str(grid_of(2, *["completed"] * 18).cell((2, 2))) == "✓ 2/2 done"


def test_what_is_left_when_nobody_is_at_it_has_not_run() -> None:
    assert str(grid_of(1).cell((0, 0), running=False)) == "· not run"


def test_a_cell_that_works_is_found_by_its_session() -> None:
    record = kept("experiment", ("started", {"plan": planned(1), "cells": []}))
    record.watch([SessionInfo("c100-2", "arm", status="running", input_tokens=10)])
    grid = Grid()
    grid.take(record)
    (run,) = grid.runs[(0, 0)]
    assert (str(grid.cell((0, 0))), grid.session(run)) == ("▸ working", "c100-2")


def test_rows_without_a_plan_are_placed_as_they_come() -> None:
    plan = planned(1)
    record = kept("experiment", ("started", {"cells": ["c100"]}), ("cell", {**plan[0], **ran("c100")}))
    grid = Grid()
    grid.take(record)
    assert str(grid.cell((0, 0))) == "✓ done"


# --- evaluations ---------------------------------------------------------------------------------------


def test_a_case_nobody_could_judge_has_neither_passed_nor_failed() -> None:
    check = {"check": "judge", "kind": "judge", "passed": False, "state": "unjudged", "why": "no judge was named"}
    row = {"passed": False, "checks": [{**checked(True)}, check]}
    assert str(case_state(row)) == "? unjudged"
    assert str(case_state({**row, "checks": [checked(False), check]})) == "✗ failed"


@pytest.mark.parametrize(("verdict", "shown"), [("pass", "≠ pass"), ("fail", "= fail"), ("unsure", "~ unsure")])
def test_a_label_says_whether_it_agrees_with_the_checks(verdict: str, shown: str) -> None:
    record = kept("evaluation", ("started", {"cases": ["a"]}), case("a", False))
    (row,) = case_rows(record, {"a": {"verdict": verdict}})
    assert shown in row.text


def test_cases_that_have_not_run_stand_in_their_places() -> None:
    record = kept("evaluation", ("started", {"cases": list(CASES)}), case(CASES[1], True))
    record.watch([SessionInfo("s", "case", status="running")])
    record.case_of["s"] = CASES[3]
    states = [row.text.split()[1] for row in case_rows(record, {})]
    assert states == ["to", "passed", "to", "working", "to"]


def test_a_failed_check_says_what_was_found() -> None:
    text = texts(case_lines("a", case("a", False)[1], ()))
    assert "✗ number" in text
    assert "found 13.8" in text


def test_agreement_is_silent_without_labels() -> None:
    assert agreement_words({"labels": 0, "same": 0}, []) == ""
    judge = {"judge": "haiku", "same": 1, "pairs": 2}
    words = agreement_words({"labels": 4, "same": 3}, [judge])
    assert words == "checks and labels agree on 3 of 4 · judge haiku and labels on 1 of 2"


def series() -> list[Kept]:
    """Three evaluations of one suite, and one of another."""
    suite = {"suite": {"name": "s"}}
    made = []
    for number, name in enumerate(("s", "s", "s", "other")):
        about = {"cases": ["a", "b"], **({"suite": {"name": name}} if name != "s" else suite)}
        one = kept("evaluation", ("started", about), case("a", True), case("b", number > 0), agent="x", digest=TIDY)
        one.info = SessionInfo(
            f"e{number}", "evaluation", agent="x", digest=TIDY, started=f"2026-03-0{number + 1}T00:00:00Z"
        )
        made.append(one)
    return made


def test_a_series_is_of_one_suite_and_agent_oldest_first() -> None:
    every = series()
    same = [one for one in every if same_series(every[0], one)]
    found = points(same[::-1], "e1")
    assert [(point.eval, point.passed, point.here) for point in found] == [
        ("e0", 50.0, False),
        ("e1", 100.0, True),
        ("e2", 100.0, False),
    ]
    assert "25 s" in texts(diagnostics(found))  # 12.4 s for each of two cases


def test_only_as_many_labels_as_fit_stand_under_a_plot() -> None:
    found = points(series()[:3], "e2")
    assert ticks(found, 100)[0] == [1, 2, 3]
    assert ticks(found, 25)[0] == [1, 3]
    assert ticks(found, 5)[0] == [3]


def test_bars_leave_a_gap_where_nothing_is_known() -> None:
    assert bars([0, None, 1]) == "▁ █"
    assert bars([None]) == " "


# --- home ----------------------------------------------------------------------------------------------


def test_home_shows_a_record_as_one_row_and_not_its_cells() -> None:
    record = SessionInfo("x", "experiment", title="harbours", status="running", started=NOW)
    cells = [SessionInfo(f"c{n}", "arm", parent="x", title="T", status="running", started=NOW) for n in range(3)]
    delegating = SessionInfo("run", "run", agent="lead", title="T", status="running", started=NOW)
    arm = SessionInfo("arm", "arm", agent="helper", parent="run", title="T", status="running", started=NOW)
    found = fleet([record, *cells, delegating, arm], (), NOW)
    assert [row.key for row in found.rows if row.key] == ["session:x", "session:run", "session:arm"]
    assert found.running == 3


def test_a_fork_stands_below_what_it_is_a_fork_of_and_says_so() -> None:
    first = SessionInfo("a", "builder", agent="clerk", title="T", stop="completed", summary="made", started=NOW)
    fork = SessionInfo(
        "b", "builder", agent="clerk", parent="a", title="T", stop="completed", summary="made", started=NOW
    )
    rows = [row for row in fleet([first, fork], (), NOW).rows if row.key]
    assert [" ".join(row.text.split()).split(" made")[0] for row in rows] == ["✓ clerk", "└ ✓ clerk fork"]
