"""What a session may spend: steps, tokens, money, time, also while something runs; and how a person extends it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from core import SessionInfo, Stop, TurnEnd, Usage, limits_from
from core.driver import Limits
from core.policy import decide, extend, intersect, limit_hit, tighter
from tests.harness.eval_driver import EvalDriver, Stage, tool
from tests.harness.scripted import Gate, call


def worker(ran: list[Any] | None = None, **persona: Any) -> EvalDriver:
    ran = ran if ran is not None else []
    return EvalDriver(tools=[tool("work", lambda args: ran.append(args) or f"did {len(ran)}")], more=persona)


def working(count: int, usd: str | None = "0.01") -> list[Any]:
    price = None if usd is None else Decimal(usd)
    return [TurnEnd((call("work", n=n),), "tool_calls", Usage(10, 5), price) for n in range(count)]


async def test_steps_are_model_turns_and_the_last_ones_calls_still_run(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, working(9), worker(ran))
    outcome = await stage.run("Work", limits=limits_from({"steps": 2}))
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "steps")
    assert len(stage.provider.requests) == len(ran) == 2
    assert outcome.record.evidence == {"limit": "steps", "allowed": "2", "spent": "2"}
    assert outcome.record.waiting is not None
    assert (outcome.record.waiting.kind, outcome.record.waiting.recommended) == ("budget", "end")


async def test_tokens_in_and_out_count(tmp_path: Path) -> None:
    stage = Stage(tmp_path, working(9), worker())
    outcome = await stage.run("Work", limits=limits_from({"tokens": 31}))
    assert outcome.record.detail == "tokens"
    assert len(stage.provider.requests) == 3


async def test_money_counts_where_the_price_is_known(tmp_path: Path) -> None:
    stage = Stage(tmp_path, working(9), worker())
    outcome = await stage.run("Work", limits=limits_from({"usd": "0.03"}))
    assert (outcome.record.detail, outcome.info.usd) == ("usd", "0.03")


async def test_the_agents_own_limits_hold(tmp_path: Path) -> None:
    stage = Stage(tmp_path, working(9), worker(limits=Limits(steps=1)))
    assert (await stage.run("Work", limits=limits_from({"steps": 5}))).stop is Stop.BUDGET
    assert len(stage.provider.requests) == 1


@pytest.mark.parametrize("own", [None, 2])
async def test_extend_n_means_n_more_whosever_the_limit_was(tmp_path: Path, own: int | None) -> None:
    given = {} if own else {"limits": limits_from({"steps": 2})}
    stage = Stage(tmp_path, working(30), worker(limits=Limits(steps=own)))
    await stage.run("Work", **given)
    outcome = await stage.answer("extend 3")
    assert (outcome.stop, len(stage.provider.requests)) == (Stop.BUDGET, 5)
    outcome = await stage.again(working(30)).answer("extend 1")
    assert outcome.record.evidence["spent"] == "6"


async def test_an_answer_to_something_else_keeps_what_was_extended(tmp_path: Path) -> None:
    ask = call("ask_user", message="?")
    stage = Stage(tmp_path, [*working(1), [ask], *working(1), "done"], worker())
    launch = {"limits": limits_from({"steps": 1})}
    await stage.run("Work", **launch)
    assert (await stage.answer("extend 5", **launch)).stop is Stop.AWAITING_USER
    assert (await stage.answer("yes", **launch)).stop is Stop.COMPLETED


async def test_end_ends_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, working(9), worker())
    await stage.run("Work", limits=limits_from({"steps": 1}))
    assert (await stage.answer("end")).stop is Stop.CANCELLED


async def test_what_is_no_number_asks_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, working(9), worker())
    first = await stage.run("Work", limits=limits_from({"steps": 1}))
    again = await stage.answer("extend a lot")
    assert (again.stop, again.record.waiting) == (first.stop, first.record.waiting)


async def test_a_higher_limit_given_at_a_resume_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [*working(1), "done"], worker())
    await stage.run("Work", limits=limits_from({"steps": 1}))
    assert (await stage.run()).stop is Stop.BUDGET
    assert (await stage.run(limits=limits_from({"steps": 9}))).stop is Stop.COMPLETED


async def test_time_interrupts_a_tool_that_hangs(tmp_path: Path) -> None:
    ended: list[str] = []

    async def hang(args: dict[str, Any]) -> str:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("ended")
        return ""

    stage = Stage(tmp_path, [[hung := call("hang"), rest := call("rest")]])
    stage.driver = EvalDriver(tools=[tool("hang", hang), tool("rest", lambda args: "rested")])
    outcome = await stage.run("Wait", limits=limits_from({"seconds": 0.2}))
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "seconds")
    assert ended == ["ended"]
    assert "the session's time was spent" in stage.results()[hung.id]
    later = stage.again(["done"])
    later.driver = stage.driver
    assert (await later.answer("extend 100")).stop is Stop.COMPLETED
    assert later.results()[rest.id] == "rested"


async def test_time_interrupts_a_stream_that_hangs_and_keeps_what_was_shown(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["Well, let me see", Gate()]])
    outcome = await stage.run("Think", limits=limits_from({"seconds": 0.2}))
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "seconds")
    assert stage.events("message")[-1].data["text"] == "Well, let me see"
    later = stage.again(["there."])
    assert (await later.answer("extend 100")).record.output == "there."


async def test_time_of_all_drives_counts_and_is_extended_from_what_is_spent(tmp_path: Path) -> None:
    async def sleep(args: dict[str, Any]) -> str:
        await asyncio.sleep(0.06)
        return "slept"

    sleeper = EvalDriver(tools=[tool("sleep", sleep)])
    stage = Stage(tmp_path, [[call("sleep")], "one", [call("sleep")], "two", [call("sleep")], "three"], sleeper)
    limits = {"limits": limits_from({"seconds": 0.15})}
    await stage.run("1", **limits)
    await stage.run("2")
    outcome = await stage.run("3")
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "seconds")
    await stage.answer("extend 0.01")
    extended = stage.events("settings")[-1].data["limits"]["seconds"]
    assert extended > 0.15


async def test_a_tools_own_timeout_is_its_result_not_the_sessions_stop(tmp_path: Path) -> None:
    async def impatient(args: dict[str, Any]) -> str:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
        return ""

    stage = Stage(tmp_path, [[call("impatient")], "done"], EvalDriver(tools=[tool("impatient", impatient)]))
    assert (await stage.run("Go", limits=limits_from({"seconds": 60}))).stop is Stop.COMPLETED


async def test_unknown_prices_leave_the_other_limits_in_force(tmp_path: Path) -> None:
    stage = Stage(tmp_path, working(9, usd=None), worker())
    outcome = await stage.run("Work", limits=limits_from({"usd": "0.01", "steps": 3}))
    assert outcome.record.detail == "steps"


async def test_where_the_price_is_unknown_money_is_counted_by_tokens_and_that_is_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path, working(9, usd=None), worker())
    outcome = await stage.run("Work", limits=limits_from({"usd": "0.0005"}))  # 10 in and 5 out: 0.000175 a turn
    assert (outcome.stop, outcome.record.detail, outcome.info.usd) == (Stop.BUDGET, "usd", None)
    assert len(stage.provider.requests) == 3
    told = [event.data["text"] for event in stage.events() if event.kind == "notice"]
    assert ["is not known" in text for text in told] == [True]
    assert outcome.record.waiting is not None
    assert "counted by tokens" in outcome.record.waiting.message
    more = await stage.again(working(9, usd=None)).answer("extend 0.0005")
    assert (more.record.evidence or {})["allowed"] == "0.001025"


async def test_a_failed_request_of_known_price_leaves_the_total_known(tmp_path: Path) -> None:
    from core import ProviderError

    failed = ProviderError("server", "Gone.", transient=True, usage=Usage(100, 3), usd=Decimal("0.02"))
    outcome = await Stage(tmp_path, [failed, *working(9)], worker()).run("Go", limits=limits_from({"usd": "0.03"}))
    assert (outcome.record.detail, outcome.info.usd) == ("usd", "0.03")


async def test_a_request_that_failed_after_it_was_billed_is_counted(tmp_path: Path) -> None:
    from core import ProviderError

    failed = ProviderError("server", "Gone.", usage=Usage(100, 3))
    stage = Stage(tmp_path, [failed])
    outcome = await stage.run("Go")
    assert (outcome.info.input_tokens, outcome.info.requests, outcome.info.usd) == (100, 1, None)


# --- pure ------------------------------------------------------------------------------------------------------


def test_no_limit_is_never_hit() -> None:
    assert limit_hit(Limits(), SessionInfo("s", "run", input_tokens=10**9), 10**6, 10**6) is None


def test_a_limit_of_nothing_is_hit_at_once() -> None:
    hit = limit_hit(Limits(steps=0), SessionInfo("s", "run"), 0, 0.0)
    assert hit is not None
    assert hit.name == "steps"


def test_the_tighter_of_two_limits_is_each_ones_lower() -> None:
    assert tighter(Limits(steps=3, usd="1.5"), Limits(steps=5, tokens=7, usd="0.20")) == Limits(3, 7, "0.20")


def test_half_a_step_more_is_one() -> None:
    assert extend(Limits(steps=2), "steps", Decimal("0.5")).steps == 3


def test_a_childs_policy_is_never_wider_than_its_parents() -> None:
    assert intersect({"run_sandbox": "ask", "send": "deny"}, {"run_sandbox": "allow", "send": "allow"}) == {
        "run_sandbox": "ask",
        "send": "deny",
    }
    assert intersect({}, {"run_sandbox": "allow", "run_skill": "allow", "own": "ask"}) == {
        "run_sandbox": "deny",
        "run_skill": "ask",
        "own": "ask",
    }


def test_the_policy_goes_by_exact_name() -> None:
    assert decide("send_all", "allow", {"send": "deny"}) == "allow"


def test_without_a_sandbox_no_command_is_simply_allowed() -> None:
    assert decide("run_sandbox", "deny", {"run_sandbox": "allow"}, unsafe=True) == "ask"
    assert decide("run_sandbox", "deny", {"run_sandbox": "deny"}, unsafe=True) == "deny"
    assert decide("read_skill", "allow", {}, unsafe=True) == "allow"
