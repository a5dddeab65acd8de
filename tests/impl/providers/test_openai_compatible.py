"""The OpenAI-compatible provider against a loopback server that sends the bytes of each case."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from core import (
    ModelRequest,
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
from impl.providers import openai_compatible
from impl.providers.openai_compatible import OpenAICompatibleProvider
from tests.harness.asking import KEY, TOOL, asking, assistant, collect, end_of, error_of
from tests.harness.servers import FakeServer, Reply, openai_stream, sse

Serve = Callable[..., FakeServer]


async def fails(request: ModelRequest | None = None) -> ProviderError:
    return await error_of(OpenAICompatibleProvider(), request)


async def ask(request: ModelRequest | None = None) -> TurnEnd:
    return await end_of(OpenAICompatibleProvider(), request)


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def finish(reason: str | None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def tool(*, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    """One delta of one tool call; `name` and `arguments` go into its function."""
    function = {key: value for key, value in (("name", fields.pop("name", None)), ("arguments", arguments)) if value}
    return delta(tool_calls=[{**fields, "function": function}])


async def calls_of(serve_chat: Serve, *chunks: Any, reason: str | None = "tool_calls") -> list[tuple[str, Any]]:
    """(name, arguments) of the calls in a stream of these chunks."""
    serve_chat(sse(*chunks, finish(reason), "[DONE]"))
    end = await ask()
    calls = [block for block in end.blocks if isinstance(block, ToolCall)]
    assert len({call.id for call in calls} - {""}) == len(calls)
    assert end.finish == "tool_calls"
    return [(call.name, call.args) for call in calls]


# --- the ordinary --------------------------------------------------------------------------------------


async def test_a_turn_streams_and_then_stands_whole(serve_chat: Serve) -> None:
    serve_chat(openai_stream({"reasoning_content": "hmm"}, "Héllo 🎉", {"tool": "look", "input": {"at": "x"}}))
    items = await collect(OpenAICompatibleProvider(), asking(model="m"))
    assert "".join(i.text for i in items if isinstance(i, ThinkingDelta)) == "hmm"
    assert "".join(i.text for i in items if isinstance(i, TextDelta)) == "Héllo 🎉"
    assert {i.name for i in items if isinstance(i, ToolCallDelta)} == {"look"}
    assert items[-1] == TurnEnd(
        (
            Thinking("hmm", "openai_compatible", "m", {"field": "reasoning_content"}),
            Text("Héllo 🎉"),
            ToolCall("call_0", "look", {"at": "x"}),
        ),
        "tool_calls",
        Usage(input_tokens=12, output_tokens=7),
        None,
        "gpt-test",
    )


async def test_it_sends_what_it_was_asked(serve_chat: Serve) -> None:
    server = serve_chat(openai_stream("ok"))
    await ask(asking("Hello", tools=[TOOL], model="m", max_output_tokens=99, effort="high"))
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": TOOL.description, "parameters": TOOL.input_schema},
            }
        ],
        "max_tokens": 99,
        "reasoning_effort": "high",
    }


async def test_requests_share_a_connection_within_an_event_loop(serve_chat: Serve) -> None:
    server = serve_chat(openai_stream("ok"))
    provider = OpenAICompatibleProvider()
    for _ in range(3):
        await end_of(provider)
    assert server.connections == 1
    await provider.aclose()


async def test_a_server_of_ones_own_needs_no_key_and_gets_none(
    serve_chat: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    server = serve_chat(openai_stream("ok"))
    await ask()
    assert "authorization" not in server.requests[0].headers
    assert (await OpenAICompatibleProvider().preflight()).state == "ready"
    assert OpenAICompatibleProvider().default_model() is None


async def test_openai_itself_is_not_asked_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(openai_compatible, "_load", lambda: pytest.fail("a request was prepared"))
    error = await fails()
    assert (error.detail, error.transient) == ("auth", False)
    assert "OPENAI_API_KEY" in error.message
    assert "--provider offline" in error.hint
    assert (await OpenAICompatibleProvider().preflight()).state == "no key"
    assert OpenAICompatibleProvider().default_model() == openai_compatible.DEFAULT_MODEL


async def test_a_price_is_that_of_the_service_asked() -> None:
    end = TurnEnd((), "stop", Usage(1_000_000, 0), model="gpt-4o-mini")
    assert (await openai_compatible._priced(end, "m", openai_compatible.DEFAULT_URL)).usd == Decimal("0.15")
    assert (await openai_compatible._priced(end, "m", "http://127.0.0.1/v1")).usd is None


# --- tool calls ----------------------------------------------------------------------------------------


async def test_without_an_index_the_id_names_the_call_then_the_position(serve_chat: Serve) -> None:
    assert await calls_of(
        serve_chat,
        delta(tool_calls=[{"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "g"}}]),
        tool(id="b", arguments='{"x":'),
        tool(id="a", arguments='{"y":1}'),
        tool(id="b", arguments="2}"),
    ) == [("f", {"y": 1}), ("g", {"x": 2})]
    assert await calls_of(
        serve_chat,
        delta(tool_calls=[{"function": {"name": "f"}}, {"function": {"name": "g"}}]),
        delta(tool_calls=[{"function": {"arguments": '{"y":1}'}}, {"function": {"arguments": '{"x":2}'}}]),
    ) == [("f", {"y": 1}), ("g", {"x": 2})]


async def test_whole_calls_one_a_chunk_without_index_or_id_are_separate(serve_chat: Serve) -> None:
    chunks = [tool(name="f", arguments=f'{{"n":{n}}}') for n in range(3)]
    assert await calls_of(serve_chat, *chunks) == [("f", {"n": 0}), ("f", {"n": 1}), ("f", {"n": 2})]


async def test_at_one_index_a_new_id_is_a_new_call(serve_chat: Serve) -> None:
    assert await calls_of(
        serve_chat,
        tool(index=0, id="a", name="f", arguments='{"n":1}'),
        tool(index=0, id="b", name="f", arguments='{"n"'),
        tool(index=0, arguments=":2}"),
    ) == [("f", {"n": 1}), ("f", {"n": 2})]


async def test_calls_without_an_id_get_one_of_their_own(serve_chat: Serve) -> None:
    assert await calls_of(
        serve_chat,
        tool(index=0, name="f", arguments='{"n":'),
        tool(index=1, name="g", arguments="{}"),
        tool(index=0, arguments="1}"),
    ) == [("f", {"n": 1}), ("g", {})]


async def test_an_id_may_come_with_the_first_delta_alone_or_with_every_one(serve_chat: Serve) -> None:
    for later in ({}, {"id": "a"}, {"id": ""}, {"id": None}):
        pieces = [tool(index=0, arguments=piece, **later) for piece in ('{"n"', ":1}")]
        assert await calls_of(serve_chat, tool(index=0, id="a", name="f"), *pieces) == [("f", {"n": 1})]


async def test_a_known_id_wins_over_the_index(serve_chat: Serve) -> None:
    assert await calls_of(
        serve_chat,
        tool(index=0, id="a", name="f", arguments="{}"),
        tool(index=0, id="b", name="g", arguments='{"n"'),
        tool(index=1, id="b", arguments=":1"),
        tool(index=1, arguments="}"),
    ) == [("f", {}), ("g", {"n": 1})]


async def test_a_tail_at_another_index_without_an_id_completes_the_call_before(serve_chat: Serve) -> None:
    assert await calls_of(
        serve_chat, tool(index=0, id="a", name="f", arguments='{"n"'), tool(index=1, arguments=":1}")
    ) == [("f", {"n": 1})]


async def test_arguments_before_the_name_are_kept(serve_chat: Serve) -> None:
    assert await calls_of(
        serve_chat, tool(index=0, arguments='{"n"'), tool(index=0, id="a", name="f"), tool(index=0, arguments=":1}")
    ) == [("f", {"n": 1})]


async def test_a_name_repeated_with_every_delta_is_not_joined(serve_chat: Serve) -> None:
    pieces = ('{"n"', ":", "1}")
    for extra in ({"id": "a", "index": 0}, {"index": 0}, {}):
        assert await calls_of(serve_chat, *(tool(name="f", arguments=p, **extra) for p in pieces)) == [("f", {"n": 1})]


async def test_arguments_that_grow_or_come_again_count_once(serve_chat: Serve) -> None:
    for pieces in (('{"n"', '{"n":1}'), ('{"n":1}', '{"n":1}'), ("{}", '{"n":1}')):
        chunks = [tool(index=0, id="a", name="f", arguments=piece) for piece in pieces]
        assert await calls_of(serve_chat, *chunks) == [("f", {"n": 1})]


async def test_an_empty_object_within_broken_arguments_is_no_answer(serve_chat: Serve) -> None:
    chunks = [tool(index=0, id="a", name="f", arguments=piece) for piece in ('{"n": ', "{}")]
    assert await calls_of(serve_chat, *chunks) == [("f", None)]


async def test_a_legacy_function_call_counts_alone_and_not_beside_tool_calls(serve_chat: Serve) -> None:
    legacy = [delta(function_call={"name": "f", "arguments": piece}) for piece in ('{"n"', ":1}")]
    assert await calls_of(serve_chat, *legacy, reason="function_call") == [("f", {"n": 1})]
    both = delta(
        function_call={"name": "f", "arguments": "{}"},
        tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}],
    )
    assert await calls_of(serve_chat, both) == [("f", {})]


@pytest.mark.parametrize("arguments", ["", None, " "])
async def test_no_arguments_are_an_empty_object(serve_chat: Serve, arguments: str | None) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}
    assert await calls_of(serve_chat, delta(tool_calls=[call])) == [("f", {})]


async def test_arguments_may_be_an_object(serve_chat: Serve) -> None:
    assert await calls_of(serve_chat, tool(index=0, id="a", name="f", arguments={"n": [1]})) == [("f", {"n": [1]})]


async def test_calls_decide_over_the_finish_reason(serve_chat: Serve) -> None:
    assert await calls_of(serve_chat, tool(index=0, id="a", name="f"), reason="stop") == [("f", {})]
    serve_chat(sse(delta(content="hi"), finish("tool_calls"), "[DONE]"))
    assert (await ask()).finish == "stop"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("MAX_TOKENS", "length"),
        ("max_output_tokens", "length"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("content_filter: SAFETY", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"),
        ("model_context_window_exceeded", "context"),
    ],
)
async def test_finish_reasons_have_many_spellings(serve_chat: Serve, reason: str, expected: str) -> None:
    serve_chat(sse(delta(content="hi"), finish(reason), "[DONE]"))
    end = await ask()
    assert (end.finish, end.blocks, end.notice) == (expected, (Text("hi"),), None)


async def test_an_unknown_finish_reason_is_noted(serve_chat: Serve) -> None:
    serve_chat(sse(delta(content="hi"), finish("tired"), "[DONE]"))
    assert "tired" in ((await ask()).notice or "")


async def test_a_call_cut_at_the_limit_is_kept_raw_and_cannot_run(serve_chat: Serve) -> None:
    for pieces in (("",), ('{"at": "/et',), ('{"at": ', "{}")):
        chunks = [tool(index=0, id="a", name="f", arguments=piece) for piece in pieces]
        serve_chat(sse(*chunks, finish("length"), "[DONE]"))
        end = await ask()
        call = end.blocks[0]
        assert isinstance(call, ToolCall)
        assert (end.finish, call.args, call.raw) == ("length", None, "".join(pieces))
        assert "cut off" in (call.problem or "")


async def test_an_id_used_before_is_replaced(serve_chat: Serve) -> None:
    serve_chat(openai_stream({"tool": "look", "input": {}, "id": "call_0"}))
    end = await ask(asking("x", assistant(ToolCall("call_0", "look", {}))))
    assert [b.id for b in end.blocks if isinstance(b, ToolCall)] != ["call_0"]


# --- chunks --------------------------------------------------------------------------------------------


async def test_empty_or_missing_choices_are_passed_over_and_usage_kept(serve_chat: Serve) -> None:
    counts = {"prompt_tokens": 5, "completion_tokens": 2}
    serve_chat(
        sse({"choices": []}, {"usage": counts}, {"choices": None}, delta(content="hi"), finish("stop"), {"id": "x"})
    )
    end = await ask()
    assert (end.blocks, end.usage) == ((Text("hi"),), Usage(5, 2))


async def test_usage_replaces_what_came_before_and_its_absence_is_not_zero(serve_chat: Serve) -> None:
    def used(out: int) -> dict[str, Any]:
        return {"prompt_tokens": 9, "completion_tokens": out, "prompt_tokens_details": {"cached_tokens": 4}}

    serve_chat(
        sse(
            {**delta(content="a"), "usage": used(1)},
            {**delta(content="b"), "usage": used(2)},
            {**finish("stop"), "usage": None},
            "[DONE]",
        )
    )
    assert (await ask()).usage == Usage(input_tokens=9, output_tokens=2, cached_tokens=4)


async def test_what_a_server_does_not_count_is_estimated_and_costs_nobody_knows_what(serve_chat: Serve) -> None:
    serve_chat(sse(delta(content="four letters a token" * 10), finish("stop"), "[DONE]"))
    end = await ask(asking("some words " * 100))
    assert end.usage is not None
    assert end.usage.estimated
    assert 200 < end.usage.input_tokens < 500
    assert (end.usage.output_tokens, end.usd) == (50, None)


async def test_the_model_that_answered_is_told(serve_chat: Serve) -> None:
    serve_chat(openai_stream("hi", model="some-other-model"))
    assert (await ask(asking(model="no-such-model"))).model == "some-other-model"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_has_two_names(serve_chat: Serve, field: str) -> None:
    serve_chat(openai_stream({field: "hm"}, {field: "m"}, "hi"))
    block = (await ask()).blocks[0]
    assert isinstance(block, Thinking)
    assert (block.text, block.data) == ("hmm", {"field": field})


async def test_reasoning_under_both_names_counts_once(serve_chat: Serve) -> None:
    serve_chat(openai_stream({"reasoning": "hm", "reasoning_content": "hm"}, "hi"))
    assert [b.text for b in (await ask()).blocks if isinstance(b, Thinking)] == ["hm"]


async def test_content_in_parts_is_read(serve_chat: Serve) -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "hi"}]
    serve_chat(openai_stream({"content": parts}))
    thinking, text = (await ask()).blocks
    assert isinstance(thinking, Thinking)
    assert (thinking.text, text) == ("hm", Text("hi"))


async def test_reasoning_is_echoed_where_the_profile_says_so(
    serve_chat: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve_chat(openai_stream({"reasoning_content": "hm"}, "hi"))
    end = await ask()
    for profile in ("", "deepseek"):
        monkeypatch.setenv("ARTIFICER_OPENAI_PROFILE", profile)
        await ask(asking("x", assistant(*end.blocks), "y"))
    plain, echoed = (asked.json["messages"][2] for asked in server.requests[1:])
    assert plain == {"role": "assistant", "content": "hi"}
    assert echoed == {"role": "assistant", "content": "hi", "reasoning_content": "hm"}


async def test_a_profile_sets_what_is_sent(serve_chat: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve_chat(openai_stream("hi"))
    for profile in ("openai", "mistral"):
        monkeypatch.setenv("ARTIFICER_OPENAI_PROFILE", profile)
        await ask(asking(max_output_tokens=7))
    one, two = (asked.json for asked in server.requests)
    assert (one.get("max_tokens"), one.get("max_completion_tokens"), "stream_options" in one) == (None, 7, True)
    assert (two.get("max_tokens"), two.get("max_completion_tokens"), "stream_options" in two) == (7, None, False)


async def test_an_unknown_profile_is_told(serve_chat: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve_chat(openai_stream("hi"))
    monkeypatch.setenv("ARTIFICER_OPENAI_PROFILE", "olama")
    error = await fails()
    assert (error.detail, server.requests) == ("bad_request", [])
    assert "ollama" in error.message
    assert "ARTIFICER_OPENAI_PROFILE" in error.hint


async def test_calls_are_sent_with_empty_content_not_null(serve_chat: Serve) -> None:
    server = serve_chat(openai_stream("hi"))
    await ask(asking("x", assistant(ToolCall("a", "look", {}))))
    assert server.requests[0].json["messages"][2]["content"] == ""


async def test_keepalives_comments_blank_data_and_crlf_are_passed_over(serve_chat: Serve) -> None:
    body = b": hello\r\n\r\ndata:\r\n\r\ndata: : keepalive\r\n\r\n: x\r\n" + openai_stream("hi").replace(b"\n", b"\r\n")
    serve_chat(body)
    assert (await ask()).blocks == (Text("hi"),)


async def test_a_refusal_is_typed(serve_chat: Serve) -> None:
    serve_chat(openai_stream({"refusal": "I cannot."}), openai_stream("I", finish="content_filter"))
    one, two = await ask(), await ask()
    assert (one.finish, one.blocks) == ("refusal", (Text("I cannot."),))
    assert two.finish == "refusal"


async def test_a_last_chunk_that_repeats_the_answer_adds_nothing(serve_chat: Serve) -> None:
    whole = {"index": 0, "delta": {}, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    serve_chat(sse(delta(content="hi"), {"choices": [whole]}, "[DONE]"))
    assert (await ask()).blocks == (Text("hi"),)


async def test_what_a_server_wants_back_with_a_call_goes_back_to_the_same_model_alone(serve_chat: Serve) -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    plain = {"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}
    second = {"index": 1, "id": "b", "function": {"name": "look", "arguments": "{}"}, "extra_content": signed}
    server = serve_chat(sse(delta(tool_calls=[plain, second]), finish("tool_calls"), "[DONE]"))
    answer = assistant(*(await ask(asking(model="m"))).blocks)
    for model in ("m", "other"):
        await ask(asking("x", answer, model=model))
    same, other = ([c.get("extra_content") for c in r.json["messages"][2]["tool_calls"]] for r in server.requests[1:])
    assert (same, other) == ([None, signed], [None, None])


async def test_the_query_of_an_address_stays_behind_the_path(
    serve_chat: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve_chat(openai_stream("hi"))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/openai/v1/?api-version=preview")
    await ask()
    assert server.requests[0].path == "/openai/v1/chat/completions?api-version=preview"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "content_filter", "message": "The prompt triggered the content management policy."}),
        (403, {"code": 403, "message": "Input was flagged by moderation", "metadata": {"reasons": ["x"]}}),
        (400, {"code": "data_inspection_failed", "message": "Output data may contain inappropriate content."}),
    ],
)
async def test_a_guard_that_refuses_the_request_is_a_refusal_and_no_failure(
    serve_chat: Serve, status: int, error: dict[str, Any]
) -> None:
    serve_chat(Reply(json.dumps({"error": error}).encode(), status=status), sse(delta(content="I"), {"error": error}))
    refused, halfway = await ask(), await ask()
    assert (refused.finish, refused.blocks, refused.usd) == ("refusal", (), 0)
    assert error["message"] in (refused.notice or "")
    assert (halfway.finish, halfway.blocks) == ("refusal", (Text("I"),))


async def test_a_prompt_the_server_cut_is_noted(serve_chat: Serve) -> None:
    counts = {"prompt_tokens": 2048, "completion_tokens": 2}
    serve_chat(openai_stream("hi", usage=counts))
    assert "2048" in ((await ask(asking("word " * 10_000))).notice or "")
    assert (await ask(asking("word " * 1_000))).notice is None


async def test_an_answer_sent_whole_is_read(serve_chat: Serve) -> None:
    message = {"role": "assistant", "content": "hi"}
    whole = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    serve_chat(Reply(json.dumps(whole).encode(), headers={"content-type": "application/json"}, framing="length"))
    assert (await ask()).blocks == (Text("hi"),)
