"""Parsers of CLI lines meet anything: nothing they read makes them raise, and an ending always comes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import CliEnd, CliEvent, CliExit, CliFigures, CliParser
from impl.providers._claude_lines import ClaudeParser
from impl.providers._codex_lines import CodexParser
from impl.providers._gemini_lines import GeminiParser
from impl.providers._opencode_lines import OpencodeParser

WORDS = [
    *("type", "subtype", "system", "init", "api_retry", "stream_event", "event", "delta", "message_start", "usage"),
    *("message_delta", "assistant", "user", "result", "message", "content", "text", "tool_use", "tool_result", "id"),
    *("input", "name", "is_error", "errors", "model_usage_since_last_result", "costUSD", "inputTokens", "session_id"),
    *("thread.started", "thread_id", "item.started", "item.completed", "item", "mcp_tool_call", "error", "server"),
    *("artificer", "tool", "arguments", "command_execution", "exit_code", "turn.completed", "turn.failed", "status"),
    *("error_status", "input_tokens", "output_tokens", "success", "error_max_budget_usd", "agent_message", "reasoning"),
    *("api_error_status", "terminal_reason", "stop_reason", "model", "parent_tool_use_id", "tool_use_id"),
]
SHAPES: list[Any] = [
    {"type": "system", "subtype": "init", "session_id": "x", "model": "m"},
    {"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"},
    {"type": "stream_event", "event": {"type": "message_start", "message": {"usage": {"input_tokens": 1}}}},
    {"type": "stream_event", "event": {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}}},
    {"type": "stream_event", "event": {"type": "x", "delta": {"type": "text_delta", "text": "t"}}},
    {"type": "assistant", "message": {"model": "m", "content": [{"type": "tool_use", "id": "1", "name": "n"}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": [{"text": "t"}]}]}},
    {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 401, "result": "no", "errors": []},
    {"type": "result", "subtype": "x", "errors": ["e"], "model_usage_since_last_result": {"m": {"costUSD": 0.1}}},
    {"type": "thread.started", "thread_id": "t"},
    {"type": "item.completed", "item": {"id": "1", "type": "mcp_tool_call", "server": "s", "result": {"content": []}}},
    {"type": "item.completed", "item": {"id": "1", "type": "mcp_tool_call", "error": {"message": "m"}}},
    {"type": "item.started", "item": {"id": "1", "type": "command_execution", "command": "c"}},
    {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "t"}},
    {"type": "turn.completed", "usage": {"input_tokens": 1, "cached_input_tokens": 2, "output_tokens": 3}},
    {"type": "turn.failed", "error": {"message": "unexpected status 401"}},
    {"type": "error", "message": "Reconnecting... (status 401)"},
    {"type": "message", "role": "assistant", "delta": True, "content": "t"},
    {"type": "tool_use", "tool_name": "mcp_artificer_n", "tool_id": "1", "parameters": {"a": 1}},
    {"type": "tool_result", "tool_id": "1", "status": "success", "output": "t"},
    {"type": "result", "status": "error", "error": {"message": "m"}, "stats": {"models": {"m": {"input_tokens": 1}}}},
    {"type": "text", "sessionID": "s", "part": {"text": "t"}},
    {
        "type": "tool_use",
        "sessionID": "s",
        "part": {"tool": "n", "callID": "1", "state": {"status": "error", "input": {}}},
    },
    {"type": "step_finish", "part": {"reason": "stop", "cost": 0.1, "tokens": {"input": 1, "cache": {"read": 2}}}},
    {"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": {"statusCode": 401, "message": "m"}}},
]


def spoilt(shape: Any, random: Any, strange: list[Any]) -> Any:
    """The shape with something strange in the place of one of its values, at any depth but its type."""
    if isinstance(shape, dict):
        key = random.choice([key for key in shape if key != "type"] or ["more"])
        return {**shape, key: spoilt(shape.get(key), random, strange)}
    if isinstance(shape, list) and shape and random.random() < 0.7:
        return [spoilt(shape[0], random, strange), *strange]
    return random.choice(strange)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=20),
    st.just("\ud800"),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=20,
)
lines = st.one_of(
    st.text(max_size=50),
    values.map(json.dumps),
    st.tuples(values, st.integers(0, 40)).map(lambda pair: json.dumps(pair[0])[: pair[1]]),
    st.tuples(st.sampled_from(SHAPES), st.randoms(use_true_random=False), st.lists(values, min_size=1, max_size=3)).map(
        lambda three: json.dumps(spoilt(*three))
    ),
)
PARSERS = [
    lambda: ClaudeParser("mcp__artificer__", gives_up_at_once=True),
    lambda: CodexParser("artificer", gives_up_at_once=True),
    lambda: GeminiParser("mcp_artificer_", lambda model, usage: None),
    lambda: OpencodeParser("artificer_"),
]


@pytest.mark.parametrize("make", PARSERS)
@given(given_lines=st.lists(lines, max_size=8), code=st.integers(-15, 255), stderr=st.text(max_size=60))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_makes_it_raise_and_it_always_says_how_it_ended(
    make: Any, given_lines: list[str], code: int, stderr: str
) -> None:
    parser: CliParser = make()
    events: list[CliEvent] = [event for line in given_lines for event in parser.feed(line)]
    events += parser.finish(CliExit(code, stderr))
    assert any(isinstance(event, CliEnd) for event in events)
    for event in events:
        if isinstance(event, CliFigures):
            assert min(event.usage.input_tokens, event.usage.output_tokens, event.usage.cached_tokens) >= 0


def fed(parser: CliParser, *rows: Any) -> Sequence[CliEvent]:
    """The events of these lines."""
    return [event for row in rows for event in parser.feed(json.dumps(row))]


def test_what_a_subagent_says_is_not_the_reply() -> None:
    message = {"content": [{"type": "text", "text": "inner"}]}
    parser = ClaudeParser("mcp__artificer__", gives_up_at_once=True)
    assert fed(parser, {"type": "assistant", "parent_tool_use_id": "toolu_1", "message": message}) == []


def test_the_type_may_stand_anywhere_in_a_line() -> None:
    parser = ClaudeParser("mcp__artificer__", gives_up_at_once=True)
    line = '{"result":"x","is_error":false,"subtype":"success","type":"result"}'
    assert parser.feed(line) == [CliEnd("reply", text="x")]


def test_an_item_that_only_completes_is_a_whole_call() -> None:
    parser = CodexParser("artificer", gives_up_at_once=True)
    item = {"id": "i1", "type": "file_change", "changes": [{"path": "a", "kind": "add"}], "status": "failed"}
    call, result = fed(parser, {"type": "item.completed", "item": item})
    assert (call.name, result.ok, result.output) == ("apply_patch", False, "failed")  # type: ignore[union-attr]


@pytest.mark.parametrize("code", [-9, 130, 137, 143])
def test_a_process_that_a_signal_ended_broke_off_in_the_middle(code: int) -> None:
    for parser in (
        ClaudeParser("mcp__artificer__", gives_up_at_once=True),
        CodexParser("artificer", gives_up_at_once=True),
        GeminiParser("mcp_artificer_", lambda model, usage: None),
        OpencodeParser("artificer_"),
    ):
        end = parser.finish(CliExit(code, ""))[-1]
        assert isinstance(end, CliEnd)
        assert (end.ending, end.detail) == ("error", "incomplete")
