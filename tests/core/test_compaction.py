"""Compaction: a history near the model's window is made shorter, or the session stops; the log keeps everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core import Event, Message, ModelRequest, ProviderError, Stop, Text, ToolCall, ToolResult, TurnEnd, Usage
from core.compaction import ASK, estimate, split_point
from core.keeping import kept
from tests.harness.eval_driver import EvalDriver, Stage, tool
from tests.harness.scripted import ScriptedProvider, call

BIG = "All work and no play. " * 100  # about 630 tokens


def talker() -> EvalDriver:
    return EvalDriver(tools=[tool("read", lambda args: f"{args['n']} {BIG}")])


class Summing(ScriptedProvider):
    """A script that answers requests for a summary on the side."""

    def __init__(self, script: list[Any], summary: Any = "They read on.", **fields: Any) -> None:
        super().__init__(script, **fields)
        self.summary = summary
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> Any:
        """A summary, or the next turn."""
        if request.system == ASK:
            self.asked.append(request)
            if isinstance(self.summary, Exception):
                raise self.summary
            end = (
                TurnEnd((Text(self.summary),), "stop", Usage(1000, 20))
                if isinstance(self.summary, str)
                else self.summary
            )
            yield end
            return
        async for item in super().stream(request):
            yield item


def reading(count: int) -> list[Any]:
    return [[call("read", n=n)] for n in range(count)]


async def test_it_goes_on_past_the_window_and_each_request_fits(tmp_path: Path) -> None:
    provider = Summing([*reading(12), "read it all"], window=4000)
    stage = Stage(tmp_path, provider, talker())
    outcome = await stage.run("Read everything.")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "read it all")
    assert len(provider.asked) >= 2
    assert max(estimate(r.system, r.messages) for r in provider.requests) < 4000
    assert provider.requests[-1].messages[0].text.endswith("They read on.")


async def test_each_compaction_shrinks_and_says_by_how_much(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Summing([*reading(12), "done"], window=4000), talker())
    await stage.run("Read everything.")
    for event in stage.events("compaction"):
        assert event.data["after_tokens"] < 0.9 * event.data["before_tokens"]


async def test_decisions_problems_and_digests_are_kept_word_for_word_whatever_the_summary_says(tmp_path: Path) -> None:
    digest = "sha256:" + "ab" * 32

    def work(args: Any) -> str:
        if args["n"] == 1:
            raise ValueError("port 5432 is taken")
        return f"{args['n']} {digest if args['n'] == 0 else ''} {BIG}"

    provider = Summing([*reading(14), "done"], window=4000)
    stage = Stage(tmp_path, provider, EvalDriver(tools=[tool("read", work)]))
    await stage.run("Read everything. We decided: no network.")
    assert len(stage.events("compaction")) >= 2
    start = provider.requests[-1].messages[0].text
    assert "The person: Read everything. We decided: no network." in start
    assert digest in start
    assert "port 5432 is taken" in start


def stored(seq: int, kind: str, **data: Any) -> Event:
    return Event("s", seq, "2026-01-01T00:00:00Z", kind, data=data)


def test_questions_are_kept_with_their_answers_and_what_was_mended_is_not() -> None:
    gone = {"code": "no_persona", "path": "persona.md", "message": "Gone."}
    events = [
        stored(1, "message", role="user", text="Build it."),
        stored(2, "tool_call", call="a", tool="ask_user", args={"message": "Which region?"}),
        stored(3, "tool_result", call="a", ok=True, output="Frankfurt"),
        stored(4, "tool_call", call="b", tool="test", args={}),
        stored(5, "tool_result", call="b", ok=False, output="1 failed"),
        stored(6, "tool_call", call="c", tool="test", args={}),
        stored(7, "tool_result", call="c", ok=True, output="passed"),
        stored(8, "validation", passed=False, problems=[gone]),
        stored(9, "message", role="user", text="Later."),
    ]
    found = kept(events, 8, 2_000)
    assert found.splitlines() == [
        "- The person: Build it.",
        "- Asked: Which region? Answered: Frankfurt",
        "- Not mended: validation did not pass: no_persona persona.md Gone.",
    ]
    assert kept(events, 8, 30) == "- The person: Build it."
    assert kept(events, 8, 5) == ""


async def test_the_log_keeps_everything(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Summing([*reading(12), "done"], window=4000), talker())
    await stage.run("Read everything.")
    outputs = [event.data["output"] for event in stage.events("tool_result")]
    assert outputs == [f"{n} {BIG}" for n in range(12)]


async def test_what_a_summary_cost_is_counted(tmp_path: Path) -> None:
    provider = Summing([*reading(6), "done"], window=4000)
    outcome = await Stage(tmp_path, provider, talker()).run("Read everything.")
    assert outcome.info.requests == len(provider.requests) + len(provider.asked)
    assert outcome.info.input_tokens == 10 * len(provider.requests) + 1000 * len(provider.asked)


async def test_a_summary_that_is_no_shorter_stops(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Summing(reading(12), BIG * 10, window=4000), talker())
    outcome = await stage.run("Read everything.")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "context")
    assert "--model" in outcome.record.evidence["hint"]


REFUSED = TurnEnd((Text("I cannot sum that up."),), "refusal", Usage(1000, 20))


@pytest.mark.parametrize("summary", ["", REFUSED, ProviderError("auth", "No.")])
async def test_no_summary_stops(tmp_path: Path, summary: Any) -> None:
    stage = Stage(tmp_path, Summing(reading(12), summary, window=4000), talker())
    assert (await stage.run("Read everything.")).stop is Stop.PROVIDER_ERROR


async def test_a_summary_whose_request_can_heal_is_asked_for_again(tmp_path: Path) -> None:
    class Once(Summing):
        async def stream(self, request: ModelRequest) -> Any:
            if request.system == ASK and not self.asked:
                self.asked.append(request)
                raise ProviderError("overloaded", "Busy.", transient=True, retry_after=0)
            async for item in super().stream(request):
                yield item

    stage = Stage(tmp_path, Once([*reading(6), "done"], window=4000), talker())
    assert (await stage.run("Read everything.")).stop is Stop.COMPLETED


async def test_a_single_message_too_long_for_the_window_stops(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Summing(["never"], window=500), talker())
    outcome = await stage.run(BIG * 5)
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "context")


async def test_where_the_window_is_not_known_a_providers_complaint_compacts(tmp_path: Path) -> None:
    def too_long(request: ModelRequest) -> Any:
        return ProviderError("context", "Too long.") if len(request.messages) > 6 else "it fits now"

    provider = Summing([*reading(4), too_long, too_long], window=None)
    stage = Stage(tmp_path, provider, talker())
    assert (await stage.run("Read everything.")).record.output == "it fits now"
    assert len(provider.asked) == 1


async def test_a_provider_that_complains_again_stops(tmp_path: Path) -> None:
    complaint = [ProviderError("context", "Too long.") for _ in range(9)]
    stage = Stage(tmp_path, Summing([*reading(4), *complaint], window=None), talker())
    outcome = await stage.run("Read everything.")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "context")


async def test_a_restarted_session_reads_the_compacted_history(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Summing([*reading(12), "done"], window=4000), talker())
    await stage.run("Read everything.")
    last = stage.provider.requests[-1].messages
    later = stage.again(["more"])
    await later.run("And now?")
    assert later.provider.requests[0].messages[: len(last)] == last


def exchange(number: int, size: int) -> list[Message]:
    called = Message("assistant", (ToolCall(f"c{number}", "read", {}),))
    return [called, Message("user", (ToolResult(f"c{number}", True, "x" * size),))]


def test_what_is_kept_begins_with_the_models_message_and_fits() -> None:
    messages = [Message("user", (Text("go"),)), *(m for n in range(9) for m in exchange(n, 3500))]
    cut = split_point(messages, 3_200)
    assert messages[cut].role == "assistant"
    assert estimate("", messages[cut:]) <= 3_200
    assert estimate("", messages[cut - 2 :]) > 3_200


def test_the_last_exchange_is_kept_however_long_it_is() -> None:
    messages = [Message("user", (Text("go"),)), *exchange(1, 100), *exchange(2, 100_000)]
    assert split_point(messages, 10) == 3


def test_one_message_cannot_be_cut() -> None:
    assert split_point([Message("user", (Text("go"),))], 10) == 0
