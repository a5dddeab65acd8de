"""How the Anthropic provider fails: broken streams, silence, refused requests, no network."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from core import (
    ModelRequest,
    ProviderError,
    Text,
    TextDelta,
    ToolCall,
    TurnEnd,
    Usage,
)
from impl.providers.anthropic import AnthropicProvider
from tests.harness.asking import KEY, asking, end_of, error_of, outcome
from tests.harness.servers import HOLD, FakeServer, Piece, Reply, anthropic_events, anthropic_stream, sse

Serve = Callable[..., FakeServer]


async def fails(request: ModelRequest | None = None) -> ProviderError:
    return await error_of(AnthropicProvider(), request)


async def ask(request: ModelRequest | None = None) -> TurnEnd:
    return await end_of(AnthropicProvider(), request)


def events(*blocks: Any, **options: Any) -> list[dict[str, Any]]:
    return anthropic_events(*blocks, **options)


# --- broken streams ------------------------------------------------------------------------------------


async def test_an_error_event_in_mid_stream_is_typed(serve_claude: Serve) -> None:
    told = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    serve_claude(sse(*events("half")[:3], told, named=True))
    error = await fails()
    assert (error.detail, error.transient) == ("overloaded", True)
    assert "Overloaded" in error.message
    assert error.usage == Usage(input_tokens=12, output_tokens=1)


async def test_the_end_without_message_stop_is_incomplete(serve_claude: Serve) -> None:
    serve_claude(sse(*events("Hello")[:-1], named=True))
    error = await fails()
    assert (error.detail, error.transient) == ("incomplete", True)


async def test_an_error_frame_without_an_event_name_is_an_error(serve_claude: Serve) -> None:
    serve_claude(sse({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}))
    assert (await fails()).detail == "rate_limit"


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize("body", [b"", b"<html><h1>Welcome</h1></html>", b'{"hello": 1}', b"data: junk\n\n"])
async def test_an_answer_that_is_no_stream_is_a_protocol_error(serve_claude: Serve, body: bytes, framing: Any) -> None:
    serve_claude(Reply(body, framing=framing))
    error = await fails()
    assert (error.detail, error.transient) == ("protocol", False)
    assert "ANTHROPIC_BASE_URL" in error.hint


async def test_an_error_in_plain_json_with_status_200_is_typed(serve_claude: Serve) -> None:
    serve_claude(b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}')
    assert (await fails()).detail == "overloaded"


SHORT = sse(
    {"type": "message_start", "message": {}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "look"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"at": "é"}'}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop"},
)


@pytest.mark.parametrize(("reset", "step"), [(False, 1), (True, 13)])
async def test_a_cut_at_any_byte_is_incomplete_and_never_a_wrong_turn(
    serve_claude: Serve, reset: bool, step: int
) -> None:
    cuts = range(0, len(SHORT) + 1, step)
    serve_claude(*(Reply(SHORT[:n], cut=True, reset=reset) for n in cuts))
    provider = AnthropicProvider()
    whole = len(SHORT.rstrip())  # all but the closing blank line
    assert [await outcome(provider) for _ in cuts] == [
        ("incomplete" if n < whole else (ToolCall("t", "look", {"at": "é"}),)) for n in cuts
    ]


async def test_bytes_may_come_in_any_pieces(serve_claude: Serve) -> None:
    stream = anthropic_stream("日本 🎉", {"tool": "look", "input": {"at": "é"}}, stop="tool_use")
    serve_claude([stream[i : i + 1] for i in range(len(stream))], list(_slow(stream)))
    one, two = await ask(), await ask()
    assert one == two
    assert one.blocks[0] == Text("日本 🎉")


def _slow(stream: bytes) -> Iterator[Piece]:
    for start in range(0, len(stream), 200):
        yield stream[start : start + 200]
        yield 0.005


async def test_a_line_of_two_megabytes_is_read(serve_claude: Serve) -> None:
    text = "long words " * 200_000
    serve_claude(anthropic_stream(text))
    assert (await ask()).blocks == (Text(text),)


async def test_lone_surrogates_are_neutralised_and_cut_pairs_joined(serve_claude: Serve) -> None:
    raw = b"".join(
        b"data: " + json.dumps(event).replace("HIGH", "\\ud83c").replace("LOW", "\\udf89").encode() + b"\n\n"
        for event in [
            *events("")[:2],
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a HIGH"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "LOW b HIGH c"}},
            *events("")[-2:],
        ]
    )
    serve_claude(raw)
    assert (await ask()).blocks == (Text("a 🎉 b \ufffd c"),)


async def test_silence_is_a_timeout(serve_claude: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTIFICER_PROVIDER_TIMEOUT", "0.2")
    server = serve_claude([sse(*events("half")[:3], named=True), HOLD])
    error = await fails()
    assert (error.detail, error.transient) == ("timeout", True)
    await _hung_up(server)


async def test_a_server_that_never_answers_is_a_timeout(serve_claude: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTIFICER_PROVIDER_TIMEOUT", "0.2")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert (await fails()).detail == "timeout"


async def test_cancelling_hangs_up(serve_claude: Serve) -> None:
    server = serve_claude([sse(*events("Hello there")[:3], named=True), HOLD])
    first = asyncio.Event()

    async def consume() -> None:
        async with aclosing(cast("Any", AnthropicProvider().stream(asking()))) as stream:
            async for _ in stream:
                first.set()

    task = asyncio.create_task(consume())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _hung_up(server)


async def test_closing_the_stream_hangs_up(serve_claude: Serve) -> None:
    server = serve_claude([sse(*events("Hello there")[:3], named=True), HOLD])
    stream = cast("Any", AnthropicProvider().stream(asking()))
    assert await anext(stream) == TextDelta("Hello")
    await stream.aclose()
    await _hung_up(server)


async def _hung_up(server: FakeServer) -> None:
    assert await asyncio.to_thread(server.requests[0].gone.wait, 5)


# --- refused requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "detail", "transient"),
    [
        (400, "invalid_request_error", "bad_request", False),
        (401, "authentication_error", "auth", False),
        (402, "billing_error", "quota", False),
        (403, "permission_error", "auth", False),
        (404, "not_found_error", "not_found", False),
        (413, "request_too_large", "context", False),
        (429, "rate_limit_error", "rate_limit", True),
        (500, "api_error", "server", True),
        (503, "overloaded_error", "overloaded", True),
        (529, "overloaded_error", "overloaded", True),
    ],
)
async def test_a_refused_request_is_typed_and_asked_once(
    serve_claude: Serve, status: int, kind: str, detail: str, transient: bool
) -> None:
    told = {"type": "error", "error": {"type": kind, "message": f"because of {KEY}"}}
    server = serve_claude(Reply(json.dumps(told).encode(), status, {"retry-after": "7"}, "length"))
    error = await fails()
    assert (error.detail, error.transient) == (detail, transient)
    assert error.retry_after == (7.0 if transient else None)
    assert "because of [key]" in error.message
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"", b"<html><body>Bad Gateway</body></html>"])
async def test_a_gateways_error_page_is_told_by_its_status(serve_claude: Serve, body: bytes) -> None:
    serve_claude(Reply(body, 502, {"content-type": "text/html"}, "length"))
    assert (await fails()).detail == "overloaded"


async def test_a_redirect_is_told_and_not_followed(serve_claude: Serve) -> None:
    server = serve_claude(Reply(status=307, headers={"location": "https://other.example/v1/messages"}))
    error = await fails()
    assert (error.detail, len(server.requests)) == ("protocol", 1)
    assert "https://other.example/v1/messages (HTTP 307)" in error.message


async def test_nobody_listening_is_a_network_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{port}")
    error = await fails()
    assert (error.detail, error.transient) == ("network", True)
    assert f"127.0.0.1:{port}" in error.message


async def test_a_name_that_does_not_resolve_is_a_network_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://no-such-host.invalid")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert (await fails()).detail == "network"


@pytest.mark.parametrize("url", ["no-scheme", "http://[", "ftp://127.0.0.1"])
async def test_an_address_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    error = await fails()
    assert (error.detail, error.transient) == ("bad_request", False)
