"""The accumulators of both APIs, apart from all I/O: any cuts give the same turn, any garbage only ProviderError."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import ProviderError, StreamItem, ToolCall, TurnEnd
from impl.providers._anthropic_turn import AnthropicTurn
from impl.providers._errors import Service
from impl.providers._http import Accumulator, turn
from impl.providers._openai_profiles import GENERIC
from impl.providers._openai_turn import OpenAITurn
from tests.harness.servers import anthropic_events, anthropic_stream, openai_chunks, openai_stream

SERVICE = Service("Test", "TEST_KEY", "TEST_URL", "http://x", "m")


def claude() -> Accumulator:
    return AnthropicTurn(SERVICE, "m", (), "seed")


def chat() -> Accumulator:
    return OpenAITurn(SERVICE, "m", GENERIC, (), 0, "seed")


CALL = {"tool": "look", "input": {"at": "日本 🎉", "n": [1, 2.5, None]}}
THOUGHT = {"thinking": "hm 🎉", "signature": "S=="}
RECORDED = {
    "claude": (claude, anthropic_stream(THOUGHT, "Grüße 🎉", CALL, CALL, stop="tool_use")),
    "chat": (chat, openai_stream({"reasoning": "hm 🎉"}, "Grüße 🎉", CALL, CALL)),
}
apis = pytest.mark.parametrize(("make", "stream"), RECORDED.values(), ids=RECORDED)


class Chunked:
    """A response that gives its body in the pieces it was made with."""

    status_code = 200

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.headers: dict[str, str] = {"transfer-encoding": "chunked"}
        self._pieces = pieces

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def played(make: Callable[[], Accumulator], pieces: Sequence[bytes]) -> list[StreamItem]:
    return [item async for item in turn(Chunked(pieces), make(), SERVICE, httpx)]


def play(make: Callable[[], Accumulator], pieces: Sequence[bytes]) -> list[StreamItem]:
    return asyncio.run(played(make, pieces))


@apis
@given(data=st.data())
def test_any_cuts_of_a_stream_give_the_same_turn(
    make: Callable[[], Accumulator], stream: bytes, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=40))
    edges = [0, *sorted(cuts), len(stream)]
    assert play(make, [stream[a:b] for a, b in pairwise(edges)]) == play(make, [stream])


@apis
async def test_a_stream_that_ends_early_is_incomplete_at_every_byte(
    make: Callable[[], Accumulator], stream: bytes
) -> None:
    whole = (await played(make, [stream]))[-1]
    for n in range(1, len(stream)):
        try:
            end = (await played(make, [stream[:n]]))[-1]
        except ProviderError as error:
            told = error.detail
        else:
            assert isinstance(end, TurnEnd)
            assert isinstance(whole, TurnEnd)
            assert end.blocks == whole.blocks
            told = "incomplete"
        assert told == ("protocol" if b"data" not in stream[:n] else "incomplete"), n


# --- garbage -------------------------------------------------------------------------------------------


def words(value: Any) -> set[str]:
    """Every key and string in a JSON value: what garbage must be made of to be taken seriously."""
    if isinstance(value, dict):
        return {*value, *(word for item in value.values() for word in words(item))}
    if isinstance(value, list):
        return {word for item in value for word in words(item)}
    return {value} if isinstance(value, str) else set()


CLAUDE = anthropic_events(THOUGHT, "hi", CALL, {"type": "odd", "x": 1}, stop="max_tokens")
CHAT = openai_chunks({"reasoning": "hm"}, "hi", CALL, {"function_call": {"name": "f"}}, finish="length")
WORDS = sorted({"error", "code", "object", *words(CLAUDE), *words(CHAT)})
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([*WORDS, "{", "\ud83c"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
)


def twisted(events: list[Any]) -> st.SearchStrategy[list[Any]]:
    """Recorded events, dropped, doubled, reordered, some with a field replaced by anything."""

    def twist(event: Any, path: list[int], value: Any) -> Any:
        copy = json.loads(json.dumps(event))
        at = copy
        for step in path:
            if not isinstance(at, dict | list) or not at:
                break
            keys = list(at) if isinstance(at, dict) else range(len(at))
            key = keys[step % len(keys)]
            if not isinstance(at[key], dict | list) or step % 3 == 0:
                at[key] = value
                break
            at = at[key]
        return copy

    one = st.builds(twist, st.sampled_from(events), st.lists(st.integers(0, 20), max_size=4), JSON)
    return st.lists(st.sampled_from(events) | one, max_size=12)


def survives(make: Callable[[], Accumulator], events: Sequence[Any]) -> None:
    accumulator = make()
    try:
        for event in events:
            accumulator.feed(event)
        end = accumulator.end()
    except ProviderError as error:
        error.message.encode("utf-8")
        return
    for block in end.blocks:
        assert not isinstance(block, ToolCall) or block.id
    repr(end).encode("utf-8", "strict")


@pytest.mark.parametrize("make", [claude, chat])
@settings(max_examples=60)
@given(events=st.lists(JSON, max_size=8))
def test_any_events_are_survived(make: Callable[[], Accumulator], events: list[Any]) -> None:
    survives(make, [*events, {"type": "message_stop"}, "[DONE]"])


@settings(max_examples=60)
@given(events=twisted(CLAUDE))
def test_twisted_claude_events_are_survived(events: list[Any]) -> None:
    survives(claude, [*events, {"type": "message_stop"}])


@settings(max_examples=60)
@given(events=twisted(CHAT))
def test_twisted_chunks_are_survived(events: list[Any]) -> None:
    survives(chat, [*events, "[DONE]"])


@pytest.mark.parametrize(("make", "stream"), RECORDED.values(), ids=RECORDED)
@given(st.binary(max_size=200))
def test_any_bytes_are_survived(make: Callable[[], Accumulator], stream: bytes, junk: bytes) -> None:
    for pieces in ([junk], [stream[:400], junk, stream[400:]]):
        try:
            play(make, pieces)
        except ProviderError as error:
            error.message.encode("utf-8")


@pytest.mark.parametrize("make", [claude, chat])
def test_nesting_without_end_is_survived(make: Callable[[], Accumulator]) -> None:
    deep: Any = 1
    for _ in range(900):
        deep = {"x": deep}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "odd", "deep": deep}}
    call = {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": deep}}]}
    survives(make, [block, {"choices": [{"delta": call}]}, {"type": "message_stop"}, "[DONE]"])
