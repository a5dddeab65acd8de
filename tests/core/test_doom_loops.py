"""A loop that goes in circles: it is nudged, then stopped, and a person's answer goes on right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core import Event, Stop, Text, ToolResult
from core.watching import step_from
from tests.harness.eval_driver import EvalDriver, Stage, tool
from tests.harness.scripted import ScriptedProvider, call


def stubborn(ran: list[Any] | None = None) -> EvalDriver:
    """An agent whose `build` always fails in the same way, and whose `look` works."""

    def build(args: dict[str, Any]) -> Any:
        from core import ToolOutput

        if ran is not None:
            ran.append(args)
        return ToolOutput("error: no rule to make target 'all'", ok=False)

    return EvalDriver(tools=[tool("build", build), tool("look", lambda args: f"file {args.get('n')}")])


def building(times: int = 50) -> list[Any]:
    return [[call("build")] for _ in range(times)]


async def stuck(home: Path, script: list[Any] | None = None) -> Stage:
    stage = Stage(home, script or building(), stubborn())
    outcome = await stage.run("Build it")
    assert outcome.stop is Stop.DOOM_LOOP
    return stage


async def test_the_model_is_nudged_before_it_is_stopped(tmp_path: Path) -> None:
    stage = await stuck(tmp_path)
    kinds = stage.kinds()
    assert kinds.index("nudge") < kinds.index("stop")
    (nudge,) = stage.events("nudge")
    seen = [m.text for m in stage.provider.requests[-1].messages if m.text.startswith("You are repeating")]
    assert seen == [nudge.data["text"]]
    assert "no rule to make target" in seen[0]


async def test_the_stop_says_what_came_again_and_how_often(tmp_path: Path) -> None:
    stage = await stuck(tmp_path)
    stop = stage.events("stop")[-1].data
    assert stop["waiting"]["kind"] == "doom_loop"
    assert [option["id"] for option in stop["waiting"]["options"]] == ["hint", "retry", "switch", "end"]
    assert stop["evidence"]["count"] >= 3
    first = next(e for e in stage.events() if e.seq == stop["evidence"]["first"])
    assert first.kind == "tool_result"


async def test_a_hint_goes_on_and_fresh_evidence_is_demanded(tmp_path: Path) -> None:
    stage = await stuck(tmp_path)
    before = len(stage.provider.requests)
    outcome = await stage.answer("hint use make -f other.mk")
    assert stage.provider.requests[before].messages[-1].text == "use make -f other.mk"
    assert outcome.stop is Stop.DOOM_LOOP
    assert len(stage.provider.requests) - before == before


async def test_a_hint_that_helps_goes_on_to_the_end(tmp_path: Path) -> None:
    stage = await stuck(tmp_path)
    stage.provider.script[:] = [[call("look", n=1)], "built"]
    assert (await stage.answer("hint look first")).record.output == "built"


async def test_retry_goes_back_to_before_the_loop_began(tmp_path: Path) -> None:
    stage = await stuck(tmp_path, [[call("look", n=1)], *building()])
    stage.provider.script[:] = ["better"]
    outcome = await stage.answer("retry")
    assert outcome.record.output == "better"
    messages = stage.provider.requests[-1].messages
    assert [m.role for m in messages] == ["user", "assistant", "user"]
    assert isinstance(messages[-1].blocks[0], ToolResult)
    assert messages[-1].blocks[0].output == "file 1"
    assert len(stage.events("tool_result")) > 3


async def test_switch_goes_on_with_another_model(tmp_path: Path) -> None:
    stage = await stuck(tmp_path)
    stage.provider.script[:] = ["the other did it"]
    outcome = await stage.answer("switch scripted-2")
    assert outcome.record.output == "the other did it"
    assert stage.provider.requests[-1].model == "scripted-2"
    assert stage.info.model == "scripted-2"


async def test_end_ends_it(tmp_path: Path) -> None:
    stage = await stuck(tmp_path)
    asked = len(stage.provider.requests)
    outcome = await stage.answer("end")
    assert (outcome.stop, outcome.record.detail) == (Stop.CANCELLED, "ended")
    assert len(stage.provider.requests) == asked


async def test_a_plain_resume_stays_stopped(tmp_path: Path) -> None:
    stage = await stuck(tmp_path)
    asked = len(stage.provider.requests)
    assert (await stage.run()).stop is Stop.DOOM_LOOP
    assert len(stage.provider.requests) == asked


async def test_a_stop_amid_a_turn_leaves_its_other_calls_open_and_each_answer_closes_them(tmp_path: Path) -> None:
    for answer in ("hint look", "retry", "switch m2", "end", "words of their own"):
        home = tmp_path / answer.split()[0]
        script = [*building(3), *([[call("build"), call("look", n=n), call("look", n=-n)] for n in range(1, 20)])]
        stage = Stage(home, script, stubborn())
        assert (await stage.run("Build it")).stop is Stop.DOOM_LOOP
        stage.provider.script[:] = ["done"]
        await stage.answer(answer)
        calls = [row["id"] for e in stage.events("message") for row in e.data.get("blocks", ()) if row["t"] == "call"]
        assert sorted(calls) == sorted(e.data["call"] for e in stage.events("tool_result"))


async def counted(home: Path, restarts: Callable[[int], bool]) -> int:
    """How many builds it takes until the stop, where the process dies and comes back as `restarts` says."""
    ran: list[Any] = []
    stage = Stage(home, building(), stubborn(ran))
    stage.provider.script[:] = building(1)
    outcome = await stage.run("Build it", limits=_steps(1))
    while outcome.stop is Stop.BUDGET:
        if restarts(len(ran)):
            stage.store.close()
            stage = Stage(home, building(1), stubborn(ran))
        stage.provider.script[:] = building(1)
        outcome = await stage.answer("extend 1")
    assert outcome.stop is Stop.DOOM_LOOP
    return len(ran)


def _steps(most: int) -> Any:
    from core import limits_from

    return limits_from({"steps": most})


async def test_a_restart_neither_forgets_nor_counts_twice(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path / "straight", building(), stubborn(ran))
    assert (await stage.run("Build it")).stop is Stop.DOOM_LOOP
    assert await counted(tmp_path / "kept", lambda n: False) == len(ran)
    assert await counted(tmp_path / "restarted", lambda n: True) == len(ran)


async def test_a_nudge_due_amid_a_turn_that_parks_reaches_the_model_afterwards(tmp_path: Path) -> None:
    ask = call("ask_user", message="Which target?")
    stage = Stage(tmp_path, [*building(3), [call("build"), ask], "done"], stubborn())
    outcome = await stage.run("Build it")
    assert outcome.stop is Stop.AWAITING_USER
    later = stage.again(["done"])
    await later.answer("all")
    messages = later.provider.requests[0].messages
    assert [m.text.startswith("You are repeating") for m in messages[-2:]] == [False, True]
    assert [type(b) for b in messages[-2].blocks] == [ToolResult, ToolResult]


async def test_a_persons_words_while_it_runs_start_the_count_again(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, ScriptedProvider(building()), stubborn(ran))

    def speak(request: Any) -> Any:
        if len(ran) == 4:
            stage.mailbox.inbox.append("Try again, I changed something.")
        return [call("build")]

    stage.provider.script[:] = [speak for _ in range(50)]
    await stage.run("Build it")
    straight: list[Any] = []
    await Stage(tmp_path / "b", building(), stubborn(straight)).run("Build it")
    assert len(ran) > len(straight)


async def test_approving_the_same_call_again_and_again_is_no_progress(tmp_path: Path) -> None:
    driver = stubborn()
    driver.policy = {"build": "ask"}
    stage = Stage(tmp_path, building(), driver)
    outcome = await stage.run("Build it")
    for _ in range(20):
        if outcome.stop is not Stop.NEEDS_APPROVAL:
            break
        outcome = await stage.answer("once")
    assert outcome.stop is Stop.DOOM_LOOP


async def test_words_between_calls_are_no_deed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[Text(f"Trying {n}."), call("build")] for n in range(30)], stubborn())
    assert (await stage.run("Build it")).stop is Stop.DOOM_LOOP


@pytest.mark.parametrize(("polls", "waited"), [(True, 2.5), (False, None)])
def test_a_poll_waited_as_long_as_its_call_took(polls: bool, waited: float | None) -> None:
    body = {"call": "a", "ok": True, "output": "running", "duration_s": 2.5, **({"polls": True} if polls else {})}
    step = step_from(Event("s", 2, "", "tool_result", data=body), {"a": {"tool": "poll", "args": {}}})
    assert step is not None
    assert (step.polls, step.waited_s) == (polls, waited)
