"""From a verdict to the conversation: the nudge, the stop with its evidence, and what a hint does after it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from core import Stop, ToolOutput
from tests.harness.eval_driver import EvalDriver, Stage, tool
from tests.harness.scripted import call

Told = Callable[[int], ToolOutput]


def refused(number: int) -> ToolOutput:
    """A refusal with another time, pid and temporary path each time."""
    return ToolOutput(
        f"2026-08-03T10:00:{number:02d}Z deploy[{4000 + number}]: /tmp/tmp{number:08d}: lock held by another", ok=False
    )


def missing(number: int) -> ToolOutput:
    """Another version that does not exist each time."""
    return ToolOutput(f"ERROR: No matching distribution found for foo==1.{number}", ok=False)


def told_as_json(number: int) -> ToolOutput:
    """A command's failure as an object, which the tool calls a success."""
    return ToolOutput(f'{{"exit_code": 1, "stdout": "", "stderr": "E   assert 3 == 4\\n1 failed in 0.{number}s"}}')


def moving(number: int) -> ToolOutput:
    """A failure that changes for the better."""
    return ToolOutput(f"{200 - number} failed, {number} passed in 0.1s", ok=False)


def stage(home: Path, told: Told, turns: int = 60) -> Stage:
    """A session whose model calls `work` with other arguments for so many turns, then says that it is done."""
    numbers = itertools.count(1)
    driver = EvalDriver(tools=[tool("work", lambda args: told(next(numbers)))])
    return Stage(home, [*([call("work", what=f"foo==1.{n + 1}")] for n in range(turns)), "done"], driver)


@pytest.mark.parametrize(("told", "said"), [(refused, "lock held"), (missing, "foo==1."), (told_as_json, "assert 3")])
async def test_a_loop_is_told_and_then_ended_with_its_evidence(tmp_path: Path, told: Told, said: str) -> None:
    session = stage(tmp_path, told)
    outcome = await session.run("Do it")

    assert outcome.stop is Stop.DOOM_LOOP
    assert outcome.stop.exit_code == 14
    (nudge,) = session.events("nudge")
    assert said in nudge.data["text"]
    stop = session.events("stop")[-1]
    assert nudge.seq < stop.seq
    evidence = stop.data["evidence"]
    results = [event.seq for event in session.events("tool_result")]
    assert evidence["rule"] == "same_failure"
    assert said in evidence["failure"]
    assert (evidence["first"], evidence["last"]) == (results[0], results[-1])
    assert evidence["count"] == len(results)
    assert evidence["progress_would_be"].endswith(".")


async def test_a_failure_that_changes_for_the_better_is_left_alone(tmp_path: Path) -> None:
    session = stage(tmp_path, moving)

    assert (await session.run("Do it")).stop is not Stop.DOOM_LOOP
    assert session.events("nudge") == []


async def test_after_a_hint_as_much_is_demanded_again(tmp_path: Path) -> None:
    session = stage(tmp_path, refused)
    await session.run("Do it")
    before = len(session.events("tool_result"))
    outcome = await session.answer("hint look who holds it")

    assert outcome.stop is Stop.DOOM_LOOP
    assert len(session.events("tool_result")) == 2 * before
    assert [event.kind for event in session.events() if event.kind in ("nudge", "stop")] == ["nudge", "stop"] * 2
