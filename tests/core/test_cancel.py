"""Cancelling: it reaches what runs, and leaves a session that is whole and can go on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from core import Stop, ToolResult
from impl.sandboxes.bubblewrap import BubblewrapSandbox
from tests.harness.eval_driver import EvalDriver, Stage, eventually, tool
from tests.harness.scripted import Gate, call


async def test_cancel_ends_a_running_command_and_the_session_goes_on(tmp_path: Path) -> None:
    problem = await BubblewrapSandbox().probe()
    if problem is not None:
        pytest.skip(f"bubblewrap does not work here: {problem}")
    command = f"echo begun; sleep 1000.{time.time_ns() % 10**9}"
    turns = [[run := call("run_sandbox", command=command)]]
    stage = Stage(tmp_path, turns, EvalDriver(policy={"run_sandbox": "allow"}))
    task = stage.begin("Wait")
    await eventually(lambda: bool(stage.events("log")) or _runs(command.split()[-1]))
    task.cancel()
    outcome = await task
    assert outcome.stop is Stop.CANCELLED
    assert not _runs(command.split()[-1])
    assert stage.results()[run.id].startswith("Cancelled by the person while it ran")
    later = stage.again(["I was stopped."])
    assert (await later.run()).record.output == "I was stopped."


def _runs(seconds: str) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            return True
    return False


async def test_what_a_command_prints_is_seen_while_it_runs(tmp_path: Path) -> None:
    problem = await BubblewrapSandbox().probe()
    if problem is not None:
        pytest.skip(f"bubblewrap does not work here: {problem}")
    turns = [[call("run_sandbox", command="true"), call("run_sandbox", command="echo begun; sleep 1000")]]
    stage = Stage(tmp_path, turns, EvalDriver(policy={"run_sandbox": "allow"}))
    task = stage.begin("Wait")
    await eventually(lambda: bool(stage.events("log")))
    assert stage.events("log")[0].data["text"] == "begun\n"
    task.cancel()
    assert (await task).stop is Stop.CANCELLED


async def test_a_turn_cancelled_amid_its_calls_has_one_result_for_each(tmp_path: Path) -> None:
    gate = Gate()

    async def wait(args: dict[str, Any]) -> str:
        await gate.wait()
        return ""

    driver = EvalDriver(tools=[tool("wait", wait), tool("note", lambda args: "noted")])
    stage = Stage(tmp_path, [[a := call("note"), b := call("wait"), c := call("note")]], driver)
    task = stage.begin("Go")
    await gate.reached.wait()
    task.cancel()
    await task
    later = stage.again(["so"])
    await later.run()
    results = later.provider.requests[0].messages[-1].blocks
    assert [type(block) for block in results] == [ToolResult] * 3
    assert [block.id for block in results] == [a.id, b.id, c.id]
    assert results[0].output == "noted"
    assert "Cancelled by the person" in results[1].output
    assert "never ran" in results[2].output


async def test_text_shown_before_a_cancel_stays(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["I was saying", gate := Gate()]])
    task = stage.begin("Speak")
    await gate.reached.wait()
    task.cancel()
    outcome = await task
    assert (outcome.stop, outcome.record.output) == (Stop.CANCELLED, "I was saying")
    assert stage.events("message")[-1].data["text"] == "I was saying"
    later = stage.again(["that."])
    assert (await later.run()).record.output == "that."
    assert later.provider.requests[0].messages[-1].text == "You were interrupted. Go on from there."


async def test_cancel_while_it_waits_to_try_again_ends_the_wait(tmp_path: Path) -> None:
    from core import ProviderError

    stage = Stage(tmp_path, [ProviderError("rate_limit", "Slow down.", transient=True, retry_after=50)])
    task = stage.begin("Go")
    await eventually(lambda: bool(stage.events("notice")))
    task.cancel()
    assert (await task).stop is Stop.CANCELLED


async def test_parallel_calls_are_all_cancelled(tmp_path: Path) -> None:
    ended: list[int] = []
    both = asyncio.Barrier(3)

    async def wait(args: dict[str, Any]) -> str:
        try:
            await both.wait()
            await asyncio.sleep(1000)
        finally:
            ended.append(args["n"])
        return ""

    stage = Stage(tmp_path, [[call("w", n=1), call("w", n=2)]], EvalDriver(tools=[tool("w", wait, parallel=True)]))
    task = stage.begin("Go")
    await both.wait()
    task.cancel()
    assert (await task).stop is Stop.CANCELLED
    assert sorted(ended) == [1, 2]
    assert len(stage.results()) == 2


async def test_words_not_yet_heard_are_kept_by_a_cancel(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["Hm", gate := Gate()]])
    task = stage.begin("Go")
    await gate.reached.wait()
    stage.mailbox.inbox.append("And be quick.")
    task.cancel()
    await task
    assert stage.events("message")[-1].data["text"] == "And be quick."
    later = stage.again(["yes"])
    await later.run()
    assert later.provider.requests[0].messages[-1].text == "And be quick."


async def test_a_cancelled_session_is_given_up_even_where_closing_its_sandbox_is_cut_short(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["Hm", gate := Gate()]])
    task = stage.begin("Go")
    await gate.reached.wait()
    task.cancel()
    await task
    assert stage.store.owner_socket("s1") is None


async def test_a_second_cancel_changes_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["Hm", gate := Gate()]])
    task = stage.begin("Go")
    await gate.reached.wait()
    task.cancel()
    task.cancel()
    assert (await task).stop is Stop.CANCELLED
    assert stage.info.stop == "cancelled"


@pytest.mark.parametrize("amid", ["stream", "tool"])
async def test_a_session_resumed_after_a_cancel_reads_as_running(tmp_path: Path, amid: str) -> None:
    seen: list[Any] = []
    gate = Gate()

    async def wait(args: dict[str, Any]) -> str:
        await gate.wait()
        return ""

    turn = ["Hm", gate] if amid == "stream" else [call("wait")]
    driver = EvalDriver(tools=[tool("wait", wait)])
    stage = Stage(tmp_path, [turn, lambda request: seen.append(stage.info) or "done"], driver)
    task = stage.begin("Go")
    await gate.reached.wait()
    task.cancel()
    await task
    await stage.run()
    assert (seen[0].status, seen[0].stop) == ("running", None)


async def test_cancelling_again_and_again_is_no_doom_loop(tmp_path: Path) -> None:
    async def wait(args: dict[str, Any]) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1000)
        return ""

    stage = Stage(tmp_path, [[call("wait")] for _ in range(12)], EvalDriver(tools=[tool("wait", wait)]))
    assert (await stage.run("Go")).stop is Stop.CANCELLED
    for _ in range(10):
        assert (await stage.run()).stop is Stop.CANCELLED
    assert stage.events("nudge") == []
