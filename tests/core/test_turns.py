"""What a model's turn means: calls that are not valid, answers cut, refused, empty or without end, and retries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core import ProviderError, Stop, Text, Thinking, ToolCall, ToolOutput, TurnEnd, Usage
from core.calls import OUTPUT_CAP
from core.loop import retry_delay
from tests.harness.eval_driver import EvalDriver, Stage, tool
from tests.harness.scripted import call

ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def adder(ran: list[Any] | None = None) -> EvalDriver:
    """An agent that can add."""

    def add(args: dict[str, Any]) -> str:
        if ran is not None:
            ran.append(args)
        return str(args["a"] + args["b"])

    return EvalDriver(tools=[tool("add", add, ADD)])


def noting(text: str, *blocks: Any) -> TurnEnd:
    """A turn that comes with a notice."""
    return TurnEnd(blocks or (Text("ok"),), "tool_calls" if blocks else "stop", notice=text)


async def test_a_turns_notice_is_said_once_though_its_numbers_grow(tmp_path: Path) -> None:
    turns = [noting("2048 of 9000 tokens", call("add", a=1, b=1)), noting("2040 of 9100 tokens"), noting("Another.")]
    stage = Stage(tmp_path, turns, adder())
    await stage.run("Go")
    await stage.run("Again")
    assert [event.data["text"] for event in stage.events("notice")] == ["2048 of 9000 tokens", "Another."]


async def test_a_turns_notice_is_said_again_of_another_model(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [noting("2048 of 9000 tokens") for _ in range(3)], adder())
    await stage.run("Go")
    later = stage.again([noting("1024 of 9000 tokens") for _ in range(2)])
    await later.run("Again")
    await later.run("And again", model="another")
    assert [event.data["text"] for event in later.events("notice")] == ["2048 of 9000 tokens", "1024 of 9000 tokens"]


# --- calls that are not valid ------------------------------------------------------------------------------


async def test_arguments_that_are_no_json_are_a_result_and_never_enter_history_raw(tmp_path: Path) -> None:
    bad = ToolCall("c1", "add", None, raw='{"a": 1, "b"', problem="its arguments are not JSON: cut at 12")
    stage = Stage(tmp_path, [[bad], "I see"], adder())
    outcome = await stage.run("Add")
    assert outcome.stop is Stop.COMPLETED
    assert stage.results()["c1"] == "This call was not run: its arguments are not JSON: cut at 12"
    assert stage.events("tool_call")[0].data["raw"] == '{"a": 1, "b"'
    assert stage.events("tool_call")[0].data["args"] == {}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"a": 1}, "'b' is a required property"),
        ({"a": 1, "b": "2"}, "at b: '2' is not of type 'integer'"),
        ({"a": 1, "b": 2, "c": 3}, "'c' was unexpected"),
    ],
)
async def test_arguments_that_do_not_fit_the_schema_are_a_result(tmp_path: Path, args: Any, why: str) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [[bad := call("add", **args)], "I see"], adder(ran))
    await stage.run("Add")
    assert why in stage.results()[bad.id]
    assert ran == []


async def test_an_unknown_tool_is_a_result_that_names_the_tools(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[bad := call("sum", a=1)], "I see"], adder())
    await stage.run("Add")
    assert stage.results()[bad.id] == "There is no tool 'sum'. The tools are: add, ask_user."


@pytest.mark.parametrize("schema", [{"type": 7}, {"$ref": "https://example.invalid/schema"}])
async def test_a_tools_broken_schema_is_a_result_and_asks_no_network(tmp_path: Path, schema: Any) -> None:
    stage = Stage(tmp_path, [[bad := call("odd")], "I see"], EvalDriver(tools=[tool("odd", lambda a: "ran", schema)]))
    assert (await stage.run("Go")).stop is Stop.COMPLETED
    assert "the schema of odd is broken" in stage.results()[bad.id]


async def test_results_stand_in_call_order_whatever_finishes_first(tmp_path: Path) -> None:
    slow_began = asyncio.Event()

    async def slow(args: dict[str, Any]) -> str:
        slow_began.set()
        await fast_ended.wait()
        return "slow"

    async def fast(args: dict[str, Any]) -> str:
        await slow_began.wait()
        fast_ended.set()
        return "fast"

    fast_ended = asyncio.Event()
    tools = [tool("slow", slow, parallel=True), tool("fast", fast, parallel=True)]
    stage = Stage(tmp_path, [[a := call("slow"), b := call("fast")], "done"], EvalDriver(tools=tools))
    await stage.run("Both at once")
    assert [block.id for block in stage.provider.requests[1].messages[-1].blocks] == [a.id, b.id]


async def test_tools_that_may_not_run_beside_others_run_one_after_the_other(tmp_path: Path) -> None:
    order: list[str] = []

    async def work(args: dict[str, Any]) -> str:
        order.append(f"begin {args['n']}")
        await asyncio.sleep(0)
        order.append(f"end {args['n']}")
        return "ok"

    stage = Stage(tmp_path, [[call("w", n=1), call("w", n=2)], "done"], EvalDriver(tools=[tool("w", work)]))
    await stage.run("Work")
    assert order == ["begin 1", "end 1", "begin 2", "end 2"]


# --- the cap -------------------------------------------------------------------------------------------------


async def test_a_long_output_is_capped_head_and_tail_and_kept_whole(tmp_path: Path) -> None:
    whole = "HEAD" + "x" * 100_000 + "TAIL"
    stage = Stage(tmp_path, [[big := call("big")], "done"], EvalDriver(tools=[tool("big", lambda args: whole)]))
    await stage.run("Go")
    (result,) = stage.events("tool_result")
    shown = stage.provider.requests[1].messages[-1].blocks[0].output
    assert shown == result.data["output"] == stage.results()[big.id]
    assert shown.startswith("HEAD")
    assert shown.endswith("TAIL")
    assert len(shown) < OUTPUT_CAP + 200
    assert "characters left out" in shown
    assert stage.store.blob(result.data["blob"]).decode() == whole
    assert result.data["size"] == len(whole)


async def test_an_output_with_half_a_surrogate_is_stored_and_shown(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[odd := call("odd")], "done"], EvalDriver(tools=[tool("odd", lambda args: "a\ud83db")]))
    await stage.run("Go")
    assert stage.results()[odd.id] == "a\ufffdb"


# --- answers that are cut ------------------------------------------------------------------------------------


async def test_a_cut_answer_is_continued_and_its_pieces_are_joined(tmp_path: Path) -> None:
    turns = [TurnEnd((Text("one, "),), "length"), TurnEnd((Text("two, "),), "length"), "three"]
    stage = Stage(tmp_path, turns)
    outcome = await stage.run("Count")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "one, two, three")
    assert "cut at the output limit" in stage.provider.requests[1].messages[-1].text


async def test_an_answer_is_continued_three_times_at_most(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((Text(f"{n} "),), "length") for n in range(9)])
    outcome = await stage.run("Count")
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "output_limit")
    assert outcome.record.output == "0 1 2 3 "
    assert len(stage.provider.requests) == 4


@pytest.mark.parametrize(
    ("finish", "stop", "detail"), [("length", Stop.BUDGET, "output_limit"), ("context", Stop.PROVIDER_ERROR, "context")]
)
async def test_an_answer_cut_before_its_first_word_is_a_cut_one(
    tmp_path: Path, finish: Any, stop: Stop, detail: str
) -> None:
    stage = Stage(tmp_path, [TurnEnd((), finish) for _ in range(9)], adder())
    outcome = await stage.run("Go")
    assert (outcome.stop, outcome.record.detail) == (stop, detail)
    assert len(stage.events("usage")) == (4 if finish == "length" else 1)


async def test_a_cut_call_is_never_executed(tmp_path: Path) -> None:
    ran: list[Any] = []
    cut = ToolCall("c1", "add", None, raw='{"a": 1', problem="the answer was cut at the output limit")
    stage = Stage(tmp_path, [TurnEnd((Text("I add"), cut), "length"), "done"], adder(ran))
    outcome = await stage.run("Add")
    assert outcome.record.output == "done"
    assert ran == []
    assert "cut at the output limit" in stage.results()["c1"]


async def test_whole_calls_of_a_cut_answer_are_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((call("add", a=1, b=1),), "length"), "two"], adder())
    assert (await stage.run("Add")).record.output == "two"
    assert list(stage.results().values()) == ["2"]


async def test_a_cut_answer_is_still_continued_after_a_restart(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((Text("one, "),), "length"), "two"])
    await stage.run("Count", limits=steps(1))
    assert (await stage.again(["two"]).answer("extend 5")).record.output == "one, two"


def steps(most: int) -> Any:
    from core import limits_from

    return limits_from({"steps": most})


# --- refusals, empty answers, pauses -----------------------------------------------------------------------


async def test_a_refusal_is_final_and_its_calls_never_run(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [TurnEnd((Text("I will not."), call("add", a=1, b=1)), "refusal")], adder(ran))
    outcome = await stage.run("Do harm")
    assert (outcome.stop, outcome.record.output) == (Stop.REFUSED, "I will not.")
    assert "never ran" in next(iter(stage.results().values()))
    assert (await stage.run()).stop is Stop.REFUSED
    assert ran == []
    assert len(stage.provider.requests) == 1


async def test_words_after_a_refusal_go_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((), "refusal"), "gladly"])
    await stage.run("Do harm")
    assert (await stage.run("Do good")).record.output == "gladly"


async def test_a_finish_that_says_stop_is_no_matter_where_there_are_calls(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((call("add", a=1, b=1),), "stop"), "two"], adder())
    assert (await stage.run("Add")).record.output == "two"


async def test_an_empty_answer_is_nudged_and_endless_ones_are_a_doom_loop(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((Text(" \n"),), "stop") for _ in range(20)])
    outcome = await stage.run("Speak")
    assert (outcome.stop, outcome.record.detail) == (Stop.DOOM_LOOP, "empty")
    assert len(stage.provider.requests) <= 6
    assert "Your reply was empty" in stage.provider.requests[1].messages[-1].text


async def test_thinking_without_words_is_an_empty_answer(tmp_path: Path) -> None:
    thought = TurnEnd((Thinking("hm", "scripted", "m", {}),), "stop")
    stage = Stage(tmp_path, [thought, "words"])
    assert (await stage.run("Speak")).record.output == "words"


async def test_a_paused_turn_is_sent_back_as_it_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((Text("searching"),), "pause"), "found"])
    outcome = await stage.run("Search")
    assert outcome.record.output == "found"
    assert stage.provider.requests[1].messages[-1].text == "searching"


async def test_endless_pauses_are_a_provider_error(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((Text("…"),), "pause") for _ in range(50)])
    outcome = await stage.run("Search")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "endless_pause")
    assert len(stage.provider.requests) < 10


# --- failures and retries --------------------------------------------------------------------------------------


def busy(**fields: Any) -> ProviderError:
    return ProviderError("overloaded", "Busy.", transient=True, **{"retry_after": 0, **fields})


async def test_what_can_heal_is_tried_twice_more(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [busy(), busy(), "at last"])
    assert (await stage.run("Go")).record.output == "at last"
    assert len(stage.events("notice")) == 2


async def test_what_failed_and_what_to_do_are_sentences_of_their_own(tmp_path: Path) -> None:
    failed = ProviderError("overloaded", "too busy", hint="Wait a little.", transient=True)
    stage = Stage(tmp_path, [failed, failed, failed])
    outcome = await stage.run("Go")
    assert outcome.record.evidence["text"] == "too busy. Wait a little."
    assert stage.events("notice")[0].data["text"].startswith("too busy. Trying again in ")


async def test_a_third_failure_is_a_provider_error_that_a_resume_tries_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [busy(), busy(), busy(), "later"])
    outcome = await stage.run("Go")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "overloaded")
    assert (await stage.run()).record.output == "later"


@pytest.mark.parametrize("detail", ["auth", "quota", "bad_request", "not_found", "capability"])
async def test_what_cannot_heal_is_not_tried_again(tmp_path: Path, detail: str) -> None:
    stage = Stage(tmp_path, [ProviderError(detail, "No.", hint="Fix it."), "never"])
    outcome = await stage.run("Go")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, detail)
    assert outcome.record.evidence["text"] == "No. Fix it."
    assert len(stage.provider.requests) == 1


@pytest.mark.parametrize("first", ["text", "thinking", "call"])
async def test_nothing_is_tried_again_once_anything_was_streamed(tmp_path: Path, first: str) -> None:
    part = {"text": "Well, ", "thinking": Thinking("hm", "scripted", "m"), "call": call("add", a=1, b=2)}[first]
    stage = Stage(tmp_path, [[part, busy()], "never"], adder())
    outcome = await stage.run("Go")
    assert outcome.stop is Stop.PROVIDER_ERROR
    assert len(stage.provider.requests) == 1


async def test_what_was_shown_before_a_failure_becomes_an_incomplete_message(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["Well, I th", busy()], "So."])
    outcome = await stage.run("Go")
    (message,) = [e.data for e in stage.events("message") if e.data["role"] == "assistant"]
    assert (message["text"], message["incomplete"]) == ("Well, I th", True)
    assert (outcome.record.output, outcome.info.summary) == ("Well, I th", "Busy.")
    assert stage.store.draft("s1") is None
    assert (await stage.run()).record.output == "So."


async def test_the_reply_to_what_was_said_before_is_no_output_of_a_failure(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Good day.", ProviderError("auth", "No."), [Text("Let me add."), call("add", a=1, b=2)]])
    stage.provider.script += [ProviderError("auth", "No.")]
    stage.driver = adder()
    assert (await stage.run("Hello")).record.output == "Good day."
    assert (await stage.run("Go on")).record.output is None
    assert (await stage.run()).record.output == "Let me add."


async def test_an_answer_that_ends_before_it_is_whole_is_no_success(tmp_path: Path) -> None:
    class Broken(type(Stage(tmp_path).provider)):  # type: ignore[misc]
        async def stream(self, request: Any) -> Any:
            from core import TextDelta

            yield TextDelta("Half an")

    stage = Stage(tmp_path / "b", Broken())
    outcome = await stage.run("Go")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "incomplete")


async def test_a_providers_own_bug_is_a_stop_in_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [lambda request: {}["x"], "mended"])
    outcome = await stage.run("Go")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "protocol")
    assert "KeyError" in outcome.record.evidence["text"]
    assert (await stage.run()).record.output == "mended"


def test_waits_are_short_unless_asked_and_never_longer_than_a_minute() -> None:
    assert [retry_delay(busy(retry_after=None), n, 0) for n in range(3)] == [1.0, 2.0, None]
    assert retry_delay(busy(retry_after=60), 0, 0) == 60
    assert retry_delay(busy(retry_after=61), 0, 0) is None
    assert retry_delay(busy(retry_after=-3), 0, 0) == 0
    assert retry_delay(busy(retry_after=None), 0, 29.5) is None
    assert retry_delay(ProviderError("auth", "No."), 0, 0) is None


# --- ids, usage -------------------------------------------------------------------------------------------------


async def test_call_ids_that_come_again_are_told_apart(tmp_path: Path) -> None:
    same = ToolCall("call_0", "add", {"a": 1, "b": 1})
    stage = Stage(tmp_path, [[same, same], [same], "done"], adder())
    await stage.run("Add")
    assert list(stage.results()) == ["call_0", "call_0_2", "call_0_3"]


async def test_costs_add_up_and_one_unknown_price_makes_the_total_unknown(tmp_path: Path) -> None:
    from decimal import Decimal

    def paid(usd: str | None) -> TurnEnd:
        return TurnEnd((Text("x"),), "stop", Usage(100, 10, 50), None if usd is None else Decimal(usd))

    stage = Stage(tmp_path, [paid("0.01"), paid("0.0205"), paid(None)])
    assert (await stage.run("1")).info.usd == "0.01"
    assert (await stage.run("2")).info.usd == "0.0305"
    third = await stage.run("3")
    assert third.info.usd is None
    usage = (third.info.input_tokens, third.info.output_tokens, third.info.cached_tokens, third.info.requests)
    assert usage == (300, 30, 150, 3)
    assert stage.info.usd is None


async def test_a_provider_that_counts_nothing_does_not_look_free(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [TurnEnd((Text("x"),), "stop", None)])
    outcome = await stage.run("Go")
    assert (outcome.info.requests, outcome.info.usd) == (1, None)


async def test_a_failed_tool_output_is_marked_so(tmp_path: Path) -> None:
    driver = EvalDriver(tools=[tool("no", lambda args: ToolOutput("exit 1", ok=False))])
    stage = Stage(tmp_path, [[call("no")], "so"], driver)
    await stage.run("Go")
    assert stage.events("tool_result")[0].data["ok"] is False
