"""The guard against doom loops: what it stops, what it leaves alone, and what its evidence says."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from core.progress import ProgressGuard, Step, Verdict
from tests.core.progress import in_projects  # noqa: F401  (adds its cases to CASES)
from tests.core.progress_cases import CASES, Case, bad, edit, sh, tool

STUCK = [json.loads(line) for line in (Path(__file__).parent / "stuck.jsonl").read_text().splitlines() if line]


def verdicts(steps: Iterable[Step]) -> list[Verdict]:
    guard = ProgressGuard()
    return [verdict for step in steps if (verdict := guard.observe(step)) is not None]


def outcome(found: list[Verdict]) -> str:
    levels = [verdict.level for verdict in found]
    return "stop" if "stop" in levels else "nudge" if levels else "clear"


@pytest.mark.parametrize("row", STUCK, ids=lambda row: f"{row['id']} {row['title']}")
def test_the_collected_case_gets_its_verdict(row: dict[str, Any]) -> None:
    found = verdicts(Step(**step) for step in row["steps"])

    assert outcome(found) == row["expect"]
    if row["expect"] == "stop":
        assert found[0].level == "nudge"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_session_gets_its_verdict(case: Case) -> None:
    found = verdicts(case.steps)

    assert outcome(found) == case.expect
    if found:
        assert found[0].level == "nudge"


@pytest.mark.parametrize("case", [c for c in CASES if c.expect == "stop"], ids=lambda case: case.name)
def test_compactions_and_nudges_save_no_loop(case: Case) -> None:
    steps: list[Step] = []
    for number, step in enumerate(case.steps):
        steps += [step, Step("nudge")] if number % 2 else [step]

    assert outcome(verdicts(steps)) == "stop"


@pytest.mark.parametrize("case", [c for c in CASES if c.expect == "stop"], ids=lambda case: case.name)
def test_a_person_who_speaks_every_other_step_is_never_stopped(case: Case) -> None:
    steps: list[Step] = []
    for number, step in enumerate(case.steps):
        steps += [step, Step("user")] if number % 2 else [step]

    assert outcome(verdicts(steps)) == "clear"


@pytest.mark.parametrize("kind", ["user", "credential"])
def test_after_a_stop_and_a_hint_the_full_count_is_demanded_again(kind: Any) -> None:
    loop = [bad("make", "error: nothing works")] * 6

    first = [verdict.level for verdict in verdicts(loop)]
    both = [verdict.level for verdict in verdicts([*loop, Step(kind), *loop])]

    assert first == ["nudge", "stop"]
    assert both == ["nudge", "stop", "nudge", "stop"]


def test_a_stop_is_repeated_while_the_loop_goes_on() -> None:
    found = verdicts([sh("ls", "a")] * 9)

    assert [verdict.level for verdict in found] == ["nudge", "stop", "stop", "stop", "stop"]


def test_one_loop_is_nudged_once_whatever_the_rules_that_see_it() -> None:
    loop = [step for _ in range(13) for step in (edit("a.py", "x", None), bad("pytest", "E assert 1 == 2"))]

    assert [verdict.level for verdict in verdicts(loop)].count("nudge") == 1


def test_evidence_of_a_failure_names_it_with_what_drifts_masked() -> None:
    steps = [
        bad(f"ssh box{n}", f"2026-08-03T10:00:0{n}Z ssh[{4000 + n}]: port 22: Connection refused") for n in range(6)
    ]

    evidence = verdicts(steps)[-1].evidence

    assert evidence["rule"] == "same_failure"
    assert "port 22: Connection refused" in evidence["failure"]
    assert "2026" not in evidence["failure"]
    assert evidence["count"] == 6
    assert (evidence["first"], evidence["last"]) == (0, 5)
    assert 2 <= len(evidence["calls"]) <= 4
    assert evidence["progress_would_be"].endswith(".")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ModuleNotFoundError: No module named 'yamlx'", "No module named 'yamlx'"),
        ('"yamlx" is not installed', '"yamlx" is not installed'),
        ("TypeError: unsupported operand for ['a', 'b']", "operand for ['a', 'b']"),
        ('{"error": "cannot find \'yamlx\'"}', "cannot find 'yamlx'"),
        ("error: 'could not find it'", "could not find it"),
    ],
)
def test_evidence_keeps_the_quotes_and_brackets_of_what_a_failure_names(line: str, shown: str) -> None:
    guard = ProgressGuard()
    seen = [guard.observe(Step(kind="tool", tool="t", args={"n": n}, output=line, ok=False)) for n in range(4)]
    verdict = seen[-1]
    assert verdict is not None
    assert shown in verdict.evidence["failure"]


def test_evidence_shows_calls_as_they_were_made() -> None:
    command = 'echo "try again"; ./deploy --now; exit 7  # attempt'
    found = verdicts([bad(command, "deploy failed: lock held")] * 4)

    assert found[-1].evidence["calls"] == [f"run_sandbox {json.dumps({'command': command}, separators=(',', ':'))}"]


def test_evidence_counts_steps_from_the_start_of_the_guard() -> None:
    steps = [sh("pwd", "/work"), Step("user"), Step("compact"), *[sh("ls", "a")] * 6]

    evidence = verdicts(steps)[-1].evidence

    assert (evidence["first"], evidence["last"]) == (3, 8)


def test_evidence_refers_to_what_the_caller_refers_to() -> None:
    steps = [dataclasses.replace(sh("ls", "a"), ref=100 + 7 * n) for n in range(6)]

    evidence = verdicts(steps)[-1].evidence

    assert (evidence["first"], evidence["last"]) == (100, 135)


@pytest.mark.parametrize("case", [c for c in CASES if c.expect == "stop"], ids=lambda case: case.name)
def test_evidence_is_complete_json_of_bounded_size(case: Case) -> None:
    for verdict in verdicts(case.steps):
        evidence = verdict.evidence
        assert json.loads(json.dumps(evidence)) == evidence
        assert set(evidence) == {"rule", "failure", "count", "first", "last", "calls", "progress_would_be"}
        assert evidence["rule"] == verdict.rule
        assert len(evidence["failure"]) <= 500
        assert 0 <= evidence["first"] <= evidence["last"] < len(case.steps)
        assert evidence["count"] >= 2


def test_the_loop_is_named_by_what_it_is() -> None:
    kinds = {
        "same_failure": [bad("make", "error: x")] * 6,
        "identical": [sh("ls", "a")] * 6,
        "cycle": [sh(cmd, cmd) for _ in range(4) for cmd in ("ls", "pwd")],
        "workspace_return": [edit("a", f"{n % 2}", f"w{n % 2}") for n in range(8)],
        "same_answer": [tool("search", {"q": chr(97 + n) * 5}, "No results found.") for n in range(12)],
        "waiting": [tool("poll", {}, "running", polls=True, waited_s=5)] * 16,
        "empty": [Step("empty")] * 4,
        "same_text": [Step("text", output="I will do it.")] * 4,
        "monologue": [Step("text", output="idea " + chr(97 + n)) for n in range(10)],
    }

    assert {rule: verdicts(steps)[-1].rule for rule, steps in kinds.items()} == {rule: rule for rule in kinds}


def test_steps_of_unknown_kind_are_passed_over() -> None:
    odd: Any = "invented"

    assert verdicts([Step(odd)] * 20) == []


def test_outputs_and_arguments_of_any_json_type_are_read() -> None:
    shapes: list[Any] = [None, 3, True, "x", ["a", {"b": None}], {"k": {"n": [1.5]}}, {1: "a", "b": 2}]

    for shape in shapes:
        assert outcome(verdicts([tool("t", shape, shape)] * 6)) == "stop"


def test_lone_surrogates_and_control_characters_are_read() -> None:
    assert outcome(verdicts([bad("x", "\ud800\x00\x1b[error: \ufffd" * 2_000)] * 6)) == "stop"


def test_importing_the_package_compiles_no_patterns() -> None:
    program = "import sys, core.progress; print('core.progress.normalise' in sys.modules)"

    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "False"


def test_importing_the_guard_loads_nothing_heavy() -> None:
    heavy = ("pydantic", "yaml", "httpx", "textual", "sqlite3", "anthropic", "asyncio", "hypothesis")
    program = f"import sys, core.progress.guard; print([m for m in {heavy!r} if m in sys.modules])"

    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"
