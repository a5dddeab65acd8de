"""The decoder of Server-Sent Events, on streams cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.providers import _sse
from impl.providers._sse import ServerEvent, SseDecoder, SseOverflow

STREAM = (
    "\ufeff: a comment\n"
    "event: greeting\r\n"
    "data: héllo 🎉\r\n\r\n"
    "data:no space\rdata: second line\r\r"
    "id: 7\nretry: 10\nunknown: x\n\n"
    "data\n\n"
    "data: : keepalive\n\n"
    'data: {"a": "日本"}\n\n'
).encode()

EVENTS = [
    ServerEvent("héllo 🎉", "greeting"),
    ServerEvent("no space\nsecond line"),
    ServerEvent(""),
    ServerEvent(": keepalive"),
    ServerEvent('{"a": "日本"}'),
]


def decode(*chunks: bytes) -> list[ServerEvent]:
    decoder = SseDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    tail = decoder.close()
    return [*events, *([tail] if tail else [])]


@given(st.lists(st.integers(0, len(STREAM))))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert decode(*(STREAM[a:b] for a, b in pairwise(edges))) == EVENTS


def test_one_byte_at_a_time() -> None:
    assert decode(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == EVENTS


def test_an_event_without_its_blank_line_is_marked_as_a_tail() -> None:
    assert decode(b"data: one\n\ndata: two") == [ServerEvent("one"), ServerEvent("two", tail=True)]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert decode(b"data: \xff\xfe\n\n") == [ServerEvent("\ufffd\ufffd")]


def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sse, "MAX_LINE", 1000)
    decoder = SseDecoder()
    decoder.feed(b"x" * 900)
    with pytest.raises(SseOverflow):
        decoder.feed(b"x" * 101)


@given(st.lists(st.binary()))
def test_any_bytes_are_survived(chunks: list[bytes]) -> None:
    assert decode(*chunks) == decode(b"".join(chunks))
