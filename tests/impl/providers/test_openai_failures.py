"""How the OpenAI-compatible provider fails: broken streams, silence, refused requests, no network."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from core import (
    ModelRequest,
    ProviderError,
    Text,
    ToolCall,
    TurnEnd,
)
from impl.providers.openai_compatible import OpenAICompatibleProvider
from tests.harness.asking import KEY, TOOL, asking, end_of, error_of, outcome
from tests.harness.servers import HOLD, FakeServer, Piece, Reply, openai_stream, sse

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


# --- ends and errors -----------------------------------------------------------------------------------


async def test_a_finish_reason_without_done_is_complete(serve_chat: Serve) -> None:
    serve_chat(sse(delta(content="hi"), finish("stop")), Reply(sse(delta(content="hi"), finish("stop")), cut=True))
    assert (await ask()).blocks == (await ask()).blocks == (Text("hi"),)


async def test_done_without_a_finish_reason_is_complete(serve_chat: Serve) -> None:
    serve_chat(sse(delta(content="hi"), finish(None), "[DONE]"))
    assert (await ask()).finish == "stop"


async def test_the_end_without_either_is_incomplete(serve_chat: Serve) -> None:
    serve_chat(sse(delta(content="hi")))
    error = await fails()
    assert (error.detail, error.transient) == ("incomplete", True)


async def test_a_null_finish_is_complete_for_the_profile_that_allows_it(
    serve_chat: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = sse(delta(content="hi"), finish(None))
    monkeypatch.setenv("ARTIFICER_OPENAI_PROFILE", "ollama")
    serve_chat(body, Reply(body, cut=True), Reply(body, framing="close"))
    assert (await ask()).blocks == (Text("hi"),)
    for _ in range(2):
        assert (await fails()).detail == "incomplete"


@pytest.mark.parametrize(
    ("told", "detail", "transient"),
    [
        ({"message": "bad tool schema", "code": 400}, "bad_request", False),
        ({"message": "busy", "code": 503}, "overloaded", True),
        ({"message": "slow down", "type": "rate_limit_exceeded"}, "rate_limit", True),
        ("CUDA out of memory", "server", True),
    ],
)
async def test_an_error_in_the_stream_is_typed(serve_chat: Serve, told: Any, detail: str, transient: bool) -> None:
    serve_chat(sse(delta(content="ha"), {"error": told}))
    error = await fails()
    assert (error.detail, error.transient) == (detail, transient)
    assert (told if isinstance(told, str) else told["message"]) in error.message


async def test_an_error_beside_a_choice_or_in_a_field_of_its_own_is_told_in_the_servers_words(
    serve_chat: Serve,
) -> None:
    beside = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 429, "message": "Slow"}}]
    }
    serve_chat(
        sse(beside),
        b'error: {"code": 500, "message": "context shift is disabled", "type": "server_error"}\n\n',
        sse({"__type": "ThrottlingException", "message": "Too many tokens, wait"}),
    )
    told = [await fails() for _ in range(3)]
    assert [error.detail for error in told] == ["rate_limit", "server", "rate_limit"]
    assert [w in e.message for w, e in zip(("Slow", "shift is disabled", "tokens, wait"), told, strict=True)] == [
        True
    ] * 3


async def test_a_finish_reason_of_failure_is_an_error(serve_chat: Serve) -> None:
    serve_chat(sse(delta(content="ha"), finish("error")), sse(finish("insufficient_system_resource")))
    assert (await fails()).detail == "server"
    assert (await fails()).detail == "overloaded"


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize("body", [b"", b"<html><h1>Welcome</h1></html>", b'{"hello": 1}', b"data: junk\n\n"])
async def test_an_answer_that_is_no_stream_is_a_protocol_error(serve_chat: Serve, body: bytes, framing: Any) -> None:
    serve_chat(Reply(body, framing=framing))
    error = await fails()
    assert (error.detail, error.transient) == ("protocol", False)
    assert "OPENAI_BASE_URL" in error.hint


@pytest.mark.parametrize(
    ("status", "body", "detail", "transient"),
    [
        (400, {"error": {"message": "no such field"}}, "bad_request", False),
        (400, {"error": "registry/tiny does not support tools"}, "capability", False),
        (400, {"error": {"message": "tiny does not support tools", "type": "api_error"}}, "capability", False),
        (500, {"error": {"message": "content must not be null"}}, "bad_request", False),
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, "auth", False),
        (402, {"error": {"message": "Insufficient Balance"}}, "quota", False),
        (404, {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}, "not_found", False),
        (429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, "rate_limit", True),
        (429, {"error": {"message": "over", "code": "insufficient_quota"}}, "quota", False),
        (500, {"error": {"message": "boom"}}, "server", True),
        (503, {"error": {"message": "Loading model", "type": "unavailable_error"}}, "overloaded", True),
    ],
)
async def test_a_refused_request_is_typed_and_asked_once(
    serve_chat: Serve, status: int, body: Any, detail: str, transient: bool
) -> None:
    server = serve_chat(Reply(json.dumps(body).encode(), status, {"retry-after": "7"}, "length"))
    error = await fails(asking(tools=[TOOL]))
    assert (error.detail, error.transient) == (detail, transient)
    assert error.retry_after == (7.0 if transient else None)
    assert KEY not in error.message
    assert len(server.requests) == 1


async def test_a_redirect_is_told_and_not_followed(serve_chat: Serve) -> None:
    server = serve_chat(Reply(status=308, headers={"location": "https://other.example/v1?key=1"}))
    error = await fails()
    assert (error.detail, len(server.requests)) == ("protocol", 1)
    assert "https://other.example/v1 (HTTP 308)" in error.message


async def test_a_proxy_that_needs_more_than_is_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://model.example/v1")
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "socksio", None)
    error = await fails()
    assert (error.detail, "socksio" in error.message) == ("bad_request", True)


async def test_nobody_listening_is_a_network_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:hidden@127.0.0.1:{port}/v1?token=hidden")
    error = await fails()
    assert (error.detail, error.transient) == ("network", True)
    assert f"127.0.0.1:{port}" in error.message
    assert "hidden" not in error.message + error.hint


@pytest.mark.parametrize("url", ["no-scheme", "http://[", "ftp://127.0.0.1"])
async def test_an_address_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    error = await fails()
    assert (error.detail, error.transient) == ("bad_request", False)


SHORT = sse(tool(index=0, id="t", name="look", arguments='{"at": "é"}'), finish("tool_calls"), "[DONE]")


@pytest.mark.parametrize(("reset", "step"), [(False, 1), (True, 13)])
async def test_a_cut_at_any_byte_is_incomplete_and_never_a_wrong_turn(
    serve_chat: Serve, reset: bool, step: int
) -> None:
    cuts = range(0, len(SHORT) + 1, step)
    serve_chat(*(Reply(SHORT[:n], cut=True, reset=reset) for n in cuts))
    provider = OpenAICompatibleProvider()
    whole = SHORT.index(b"tool_calls", 120) + len('tool_calls"}]}')  # where the finish reason's line is whole
    assert [await outcome(provider) for _ in cuts] == [
        ("incomplete" if n < whole else (ToolCall("t", "look", {"at": "é"}),)) for n in cuts
    ]


async def test_bytes_may_come_in_any_pieces(serve_chat: Serve) -> None:
    stream = openai_stream("日本 🎉", {"tool": "look", "input": {"at": "é"}})
    serve_chat([stream[i : i + 1] for i in range(len(stream))], list(_slow(stream)))
    one, two = await ask(), await ask()
    assert one == two
    assert one.blocks[0] == Text("日本 🎉")


def _slow(stream: bytes) -> Iterator[Piece]:
    for start in range(0, len(stream), 200):
        yield stream[start : start + 200]
        yield 0.005


async def test_a_line_of_two_megabytes_is_read(serve_chat: Serve) -> None:
    text = "long words " * 200_000
    serve_chat(openai_stream(text))
    assert (await ask()).blocks == (Text(text),)


async def test_lone_surrogates_are_neutralised_and_cut_pairs_joined(serve_chat: Serve) -> None:
    body = sse(delta(content="a HIGH"), delta(content="LOW b HIGH c"), finish("stop"))
    serve_chat(body.replace(b"HIGH", b"\\ud83c").replace(b"LOW", b"\\udf89"))
    assert (await ask()).blocks == (Text("a 🎉 b \ufffd c"),)


async def test_silence_is_a_timeout_unless_the_turn_had_ended(
    serve_chat: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTIFICER_PROVIDER_TIMEOUT", "0.2")
    serve_chat([sse(delta(content="hi")), HOLD], [sse(delta(content="hi"), finish("stop")), HOLD])
    assert (await fails()).detail == "timeout"
    assert (await ask()).blocks == (Text("hi"),)


async def test_cancelling_hangs_up(serve_chat: Serve) -> None:
    server = serve_chat([sse(delta(content="hi")), HOLD])
    first = asyncio.Event()

    async def consume() -> None:
        async with aclosing(cast("Any", OpenAICompatibleProvider().stream(asking()))) as stream:
            async for _ in stream:
                first.set()

    task = asyncio.create_task(consume())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.requests[0].gone.wait, 5)
