"""The Anthropic provider against a loopback server that sends the bytes of each case."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from core import (
    ModelRequest,
    Opaque,
    ProviderError,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    TurnEnd,
    Usage,
)
from impl.providers import _http
from impl.providers.anthropic import AnthropicProvider
from tests.harness.asking import KEY, TOOL, asking, assistant, collect, end_of, error_of, user
from tests.harness.servers import HOLD, FakeServer, Reply, anthropic_events, anthropic_stream, sse

Serve = Callable[..., FakeServer]


async def fails(request: ModelRequest | None = None) -> ProviderError:
    return await error_of(AnthropicProvider(), request)


async def ask(request: ModelRequest | None = None) -> TurnEnd:
    return await end_of(AnthropicProvider(), request)


def events(*blocks: Any, **options: Any) -> list[dict[str, Any]]:
    return anthropic_events(*blocks, **options)


# --- the ordinary --------------------------------------------------------------------------------------


async def test_a_turn_streams_and_then_stands_whole(serve_claude: Serve) -> None:
    serve_claude(
        anthropic_stream(
            {"thinking": "hmm", "signature": "S"}, "Héllo 🎉", {"tool": "look", "input": {"at": "x"}}, stop="tool_use"
        )
    )
    items = await collect(AnthropicProvider())
    assert "".join(i.text for i in items if isinstance(i, ThinkingDelta)) == "hmm"
    assert "".join(i.text for i in items if isinstance(i, TextDelta)) == "Héllo 🎉"
    assert {i.name for i in items if isinstance(i, ToolCallDelta)} == {"look"}
    assert items[-1] == TurnEnd(
        (
            Thinking(
                "hmm", "anthropic", "claude-sonnet-5-5", {"type": "thinking", "thinking": "hmm", "signature": "S"}
            ),
            Text("Héllo 🎉"),
            ToolCall("toolu_2", "look", {"at": "x"}),
        ),
        "tool_calls",
        Usage(input_tokens=12, output_tokens=7),
        Decimal("0.000094"),
        "claude-sonnet-5-5",
    )


async def test_it_always_streams_and_sends_what_it_was_asked(serve_claude: Serve) -> None:
    server = serve_claude(anthropic_stream("ok"))
    await ask(asking("Hello", tools=[TOOL], model="claude-haiku-5-5", max_output_tokens=99, effort="high"))
    sent = server.requests[0]
    assert sent.path == "/v1/messages"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json["stream"] is True
    assert sent.json["model"] == "claude-haiku-5-5"
    assert sent.json["max_tokens"] == 99
    assert sent.json["output_config"] == {"effort": "high"}
    assert sent.json["system"][0]["text"] == "Be brief."
    assert sent.json["tools"][0]["input_schema"] == TOOL.input_schema


async def test_requests_share_a_connection_within_an_event_loop(serve_claude: Serve) -> None:
    server = serve_claude(anthropic_stream("ok"))
    provider = AnthropicProvider()
    for _ in range(3):
        await end_of(provider)
    assert server.connections == 1
    await provider.aclose()


async def test_an_auth_token_does_instead_of_a_key(serve_claude: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-1")
    server = serve_claude(anthropic_stream("ok"))
    await ask()
    assert server.requests[0].headers["authorization"] == "Bearer token-1"


async def test_without_a_key_nothing_is_asked(serve_claude: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    server = serve_claude(anthropic_stream("ok"))
    error = await fails()
    assert (error.detail, error.transient, server.requests) == ("auth", False, [])
    assert "ANTHROPIC_API_KEY" in error.message
    assert "export ANTHROPIC_API_KEY" in error.hint
    assert "--provider offline" in error.hint
    assert (await AnthropicProvider().preflight()).state == "no key"


async def test_a_key_with_stray_characters_is_told_apart(serve_claude: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve_claude(anthropic_stream("ok"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-“quoted”")
    assert ((await fails()).detail, server.requests) == ("auth", [])


async def test_preflight_asks_nobody(serve_claude: Serve) -> None:
    server = serve_claude(anthropic_stream("ok"))
    assert (await AnthropicProvider().preflight()).state == "ready"
    assert server.requests == []


# --- odd but whole turns -------------------------------------------------------------------------------


def tool_events(*partial: str, stop: str = "tool_use") -> bytes:
    start = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in partial
    ]
    head, *tail = events(stop=stop)
    return sse(head, {"type": "content_block_start", "index": 0, "content_block": start}, *deltas, *tail, named=True)


@pytest.mark.parametrize("partial", [(), ("",), ("", "")])
async def test_no_arguments_are_an_empty_object(serve_claude: Serve, partial: tuple[str, ...]) -> None:
    serve_claude(tool_events(*partial))
    assert (await ask()).blocks == (ToolCall("t1", "look", {}),)


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize("partial", [('{"at": "/et',), ()])
async def test_a_call_cut_at_a_limit_is_kept_raw_and_cannot_run(
    serve_claude: Serve, stop: str, partial: tuple[str, ...]
) -> None:
    serve_claude(tool_events(*partial, stop=stop))
    end = await ask()
    call = end.blocks[0]
    assert isinstance(call, ToolCall)
    assert (call.args, call.raw) == (None, "".join(partial))
    assert "cut off" in (call.problem or "")
    assert end.finish == {"max_tokens": "length", "model_context_window_exceeded": "context"}[stop]


@pytest.mark.parametrize("raw", ['{"at": }', "[1]", '"text"', "null", '{"at": NaN}', '{"at": 1e999}', "[" * 100_000])
async def test_arguments_that_are_no_object_are_a_problem_the_model_can_read(serve_claude: Serve, raw: str) -> None:
    serve_claude(tool_events(raw))
    call = (await ask()).blocks[0]
    assert isinstance(call, ToolCall)
    assert (call.args, call.raw) == (None, raw)
    assert call.problem


async def test_sparse_indexes_deltas_before_their_start_and_no_usage_are_survived(serve_claude: Serve) -> None:
    text = {"type": "text_delta", "text": "early"}
    serve_claude(
        sse(
            {"type": "message_start", "message": {"model": "claude-x"}},
            {"type": "content_block_delta", "index": 4, "delta": text},
            {"type": "content_block_start", "index": 9, "content_block": {"type": "text", "text": "late"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
            named=True,
        )
    )
    end = await ask()
    assert end.blocks == (Text("early"), Text("late"))
    assert (end.usage, end.usd, end.model) == (None, None, "claude-x")


async def test_unknown_events_are_passed_over_and_unknown_blocks_kept(serve_claude: Serve) -> None:
    odd = {"type": "hologram", "depth": 3}
    server = serve_claude(sse({"type": "ping"}, {"type": "weather"}, *events(odd, "hi"), named=True))
    end = await ask()
    assert end.blocks == (Opaque("anthropic", odd), Text("hi"))
    await ask(asking("x", assistant(*end.blocks), "y"))
    assert server.requests[1].json["messages"][1]["content"][0] == odd


async def test_a_server_tools_input_is_assembled(serve_claude: Serve) -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    made = events(use)
    delta = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    made.insert(2, {"type": "content_block_delta", "index": 0, "delta": delta})
    serve_claude(sse(*made, named=True))
    assert (await ask()).blocks == (Opaque("anthropic", {**use, "input": {"query": "x"}}),)


async def test_a_later_signature_replaces_an_earlier_one(serve_claude: Serve) -> None:
    made = events({"thinking": "hm", "signature": "first"})
    delta = {"type": "signature_delta", "signature": "second"}
    made.insert(-3, {"type": "content_block_delta", "index": 0, "delta": delta})
    serve_claude(sse(*made, named=True))
    block = (await ask()).blocks[0]
    assert isinstance(block, Thinking)
    assert block.data["signature"] == "second"


async def test_usage_is_cumulative_and_what_is_absent_is_not_zero(serve_claude: Serve) -> None:
    made = events("x", usage={"cache_read_input_tokens": 100, "cache_creation_input_tokens": 20})
    made.insert(-1, {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9, "input_tokens": None}})
    made.insert(-1, {"type": "message_delta", "delta": {}})
    serve_claude(sse(*made, named=True))
    end = await ask()
    assert end.usage == Usage(input_tokens=132, output_tokens=9, cached_tokens=100, cache_write_tokens=20)
    assert end.finish == "stop"


async def test_thinking_cut_at_the_limit_is_not_sent_back(serve_claude: Serve) -> None:
    made = events({"thinking": "hm", "signature": ""}, "half", stop="max_tokens")
    server = serve_claude(sse(*made, named=True))
    end = await ask()
    await ask(asking("x", assistant(*end.blocks), "go on"))
    assert [b["type"] for b in server.requests[1].json["messages"][1]["content"]] == ["text"]


async def test_after_a_switch_of_models_thinking_stays_behind(serve_claude: Serve) -> None:
    server = serve_claude(anthropic_stream({"thinking": "hm", "signature": "S"}, "hi"))
    end = await ask(asking("x", model="claude-opus-5-5"))
    for model in ("claude-opus-5-5", "claude-haiku-5-5"):
        await ask(asking("x", assistant(*end.blocks), "y", model=model))
    same, other = (asked.json["messages"][1]["content"] for asked in server.requests[1:])
    assert same == [{"type": "thinking", "thinking": "hm", "signature": "S"}, {"type": "text", "text": "hi"}]
    assert other == same[1:]


async def test_blank_text_is_not_sent_back(serve_claude: Serve) -> None:
    server = serve_claude(anthropic_stream("", "\n", "hi"))
    end = await ask()
    await ask(asking("x", assistant(*end.blocks), "y"))
    assert server.requests[1].json["messages"][1]["content"] == [{"type": "text", "text": "hi"}]


async def test_an_interrupted_call_is_sent_with_a_result(serve_claude: Serve) -> None:
    server = serve_claude(anthropic_stream("ok"))
    await ask(asking("x", assistant(ToolCall("t1", "look", {}), "after"), "stop that"))
    _, answer, results = server.requests[0].json["messages"]
    assert [b["type"] for b in answer["content"]] == ["text", "tool_use"]
    assert [b["type"] for b in results["content"]] == ["tool_result", "text"]


async def test_a_pause_is_told_and_resent_as_it_was(serve_claude: Serve) -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    server = serve_claude(anthropic_stream("looking", use, stop="pause_turn"))
    end = await ask()
    assert end.finish == "pause"
    await ask(asking("x", assistant(*end.blocks)))
    sent = server.requests[1].json["messages"]
    assert sent[-1] == {"role": "assistant", "content": [{"type": "text", "text": "looking"}, use]}


async def test_a_refusal_is_typed_and_its_calls_cannot_run(serve_claude: Serve) -> None:
    made = events("I cannot", {"tool": "look", "input": {}}, stop="refusal")
    made[-2]["delta"]["stop_details"] = {"type": "refusal", "category": "bio", "explanation": "Not that."}
    serve_claude(sse(*made, named=True))
    end = await ask()
    assert (end.finish, end.notice) == ("refusal", "Not that.")
    call = end.blocks[1]
    assert isinstance(call, ToolCall)
    assert (call.args, bool(call.problem)) == (None, True)


async def test_a_text_cut_at_the_limit_is_continued_by_the_user(serve_claude: Serve) -> None:
    server = serve_claude(anthropic_stream("half", stop="max_tokens"))
    end = await ask()
    assert (end.finish, end.blocks) == ("length", (Text("half"),))
    await ask(asking("x", assistant("half")))
    assert server.requests[1].json["messages"][-1]["content"][0]["text"] == "Continue."


async def test_calls_decide_over_the_stop_reason(serve_claude: Serve) -> None:
    serve_claude(
        anthropic_stream({"tool": "look", "input": {}}, stop="end_turn"), anthropic_stream("hi", stop="tool_use")
    )
    assert (await ask()).finish == "tool_calls"
    assert (await ask()).finish == "stop"


async def test_an_unknown_stop_reason_is_noted(serve_claude: Serve) -> None:
    serve_claude(anthropic_stream("hi", stop="solar_flare"))
    end = await ask()
    assert end.finish == "stop"
    assert "solar_flare" in (end.notice or "")


async def test_an_id_used_before_is_replaced(serve_claude: Serve) -> None:
    serve_claude(anthropic_stream({"tool": "look", "input": {}, "id": "t"}, {"tool": "look", "input": {}, "id": "t"}))
    end = await ask(asking("x", assistant(ToolCall("t", "look", {}))))
    ids = [b.id for b in end.blocks if isinstance(b, ToolCall)]
    assert len({*ids, "t"}) == 3


async def test_markers_aside_requests_begin_with_the_bytes_of_the_one_before(serve_claude: Serve) -> None:
    server = serve_claude(anthropic_stream("ok"))
    history = [user("one"), assistant("two"), user("three"), assistant("four"), user("five")]
    for n in (1, 3, 5):
        await ask(asking(*history[:n], tools=[TOOL]))
    bodies = [_unmarked(asked.json) for asked in server.requests]
    for shorter, longer in pairwise(bodies):
        assert json.dumps(longer["messages"]).startswith(json.dumps(shorter["messages"])[:-1])
        assert (longer["system"], longer["tools"]) == (shorter["system"], shorter["tools"])
    assert all(asked.body.count(b"cache_control") <= 4 for asked in server.requests)


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


async def test_an_answer_sent_whole_is_read_and_a_cut_call_in_it_cannot_run(serve_claude: Serve) -> None:
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {"at": "x"}}
    whole = {"type": "message", "content": [{"type": "text", "text": "hi"}, call], "usage": {"output_tokens": 4}}
    serve_claude(*(Reply(json.dumps({**whole, "stop_reason": stop}).encode()) for stop in ("tool_use", "max_tokens")))
    end, cut = await ask(), await ask()
    assert (end.finish, end.blocks) == ("tool_calls", (Text("hi"), ToolCall("t", "look", {"at": "x"})))
    assert (cut.finish, cut.blocks[1].args) == ("length", None)


async def test_a_server_that_keeps_the_stream_open_after_the_end_holds_nobody_up(serve_claude: Serve) -> None:
    server = serve_claude([anthropic_stream("hi"), HOLD])
    assert (await ask()).blocks == (Text("hi"),)
    assert await asyncio.to_thread(server.requests[0].gone.wait, 5)


def test_the_idle_limit_is_generous() -> None:
    assert _http.IDLE >= 120
