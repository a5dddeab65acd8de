"""The neutral conversation as Anthropic's Messages API wants it: a pure function that mends what it must."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.provider import Message, ModelRequest, Opaque, Text, Thinking, ToolCall, ToolResult, ToolSpec
from impl.providers._anthropic_turn import PROVIDER
from impl.providers._calls import clean, clean_value, fit_id

Api = dict[str, Any]

CONTINUE: Final = "Continue."
LOST: Final = "This call was interrupted; whether it had an effect is unknown."
#: The API takes this many cache markers in one request.
CACHE_MARKERS: Final = 4

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_EPHEMERAL: Final = {"type": "ephemeral"}


def to_api(messages: Sequence[Message], model: str) -> list[Api]:
    """The `messages` of a request to `model`.

    Every call is followed at once by exactly one result, in call order, missing ones made up as errors;
    results of no call are dropped. Thinking goes back only to the model that thought it, and whole. An
    answer that another one follows, or nothing, gets a "Continue." after it, as newer models refuse to
    go on from an assistant message; only a paused turn stays last. What is made for a message depends on
    what stands up to the next answer alone, so a longer conversation begins with the same bytes.
    """
    whole = _server_pairs(messages)
    out: list[Api] = []
    waiting: list[ToolCall] = []
    for position, message in enumerate(messages):
        if message.role == "assistant":
            content, calls = _assistant(message, model, whole, last=position == len(messages) - 1)
            if not content:
                continue
            if waiting:
                out.append(_user(_results(waiting, {})))
            elif not out or (out[-1]["role"] == "assistant" and not _paused(out[-1])):
                out.append(_user([_text(CONTINUE)]))
            out.append({"role": "assistant", "content": content})
            waiting = calls
        else:
            content = _results(waiting, _given(messages, position)) if waiting else []
            waiting = []
            content += _user_blocks(message)
            if content:
                out.append(_user(content))
    if waiting:
        out.append(_user(_results(waiting, {})))
    elif not out or (out[-1]["role"] == "assistant" and not _paused(out[-1])):
        out.append(_user([_text(CONTINUE)]))
    return out


def body(request: ModelRequest, model: str, max_tokens: int) -> Api:
    """A whole request, cache markers included."""
    messages = to_api(request.messages, model)
    tools = [_tool(tool) for tool in request.tools]
    out: Api = {"model": model, "max_tokens": max_tokens, "messages": messages}
    left = CACHE_MARKERS
    if request.system.strip():
        out["system"] = [{**_text(request.system), "cache_control": _EPHEMERAL}]
        left -= 1
    if tools:
        tools[-1]["cache_control"] = _EPHEMERAL
        out["tools"] = tools
        left -= 1
    _mark(messages, left)
    if request.effort:
        out["output_config"] = {"effort": request.effort}
    return out


def _mark(messages: list[Api], left: int) -> None:
    """Put markers on the ends of the last user messages: the newest to write, those before to read."""
    users = [m for m in messages if m["role"] == "user"]
    for message in users[-min(left, 2) :]:
        content = message["content"]
        content[-1] = {**content[-1], "cache_control": _EPHEMERAL}


# --- the assistant's -----------------------------------------------------------------------------------


def _assistant(message: Message, model: str, whole: frozenset[str], *, last: bool) -> tuple[list[Api], list[ToolCall]]:
    content: list[Api] = []
    calls: list[ToolCall] = []
    for block in message.blocks:
        match block:
            case Text(text) if text.strip():
                content.append(_text(text))
            case Thinking() if _may_return(block, model):
                content.append(dict(block.data))
            case Opaque(provider, data) if provider == PROVIDER and _kept(data, whole, last=last):
                content.append({key: value for key, value in data.items() if key != "cache_control"})
            case ToolCall():
                calls.append(block)
            case _:
                pass
    content += [_call(call) for call in calls]  # calls end their turn
    while content and content[-1].get("type") in ("thinking", "redacted_thinking"):
        content.pop()
    return content, calls


def _may_return(block: Thinking, model: str) -> bool:
    """Whether thinking may go back: the same model's, and not cut off before it was signed."""
    if block.provider != PROVIDER or block.model != model:
        return False
    match block.data.get("type"):
        case "thinking":
            return bool(block.data.get("signature"))
        case "redacted_thinking":
            return bool(block.data.get("data"))
        case _:
            return False


def _call(call: ToolCall) -> Api:
    return {
        "type": "tool_use",
        "id": fit_id(call.id, _ID),
        "name": fit_id(call.name, _NAME) if call.name else "unknown",
        "input": clean_value(dict(call.args or {})),
    }


def _paused(message: Api) -> bool:
    """Whether an answer ends in a block of the server's own: a paused turn, resent as it is."""
    return message["content"][-1].get("type") not in ("text", "tool_use")


def _server_pairs(messages: Sequence[Message]) -> frozenset[str]:
    """Ids of server tool calls that have both their halves."""
    uses: set[str] = set()
    results: set[str] = set()
    for message in messages:
        for block in message.blocks:
            if isinstance(block, Opaque) and block.provider == PROVIDER:
                use, result = _server_ids(block.data)
                uses.update(use)
                results.update(result)
    return frozenset(uses & results)


def _server_ids(data: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    kind = str(data.get("type", ""))
    if kind.endswith("tool_use"):
        return [str(data.get("id"))], []
    if kind.endswith("tool_result"):
        return [], [str(data.get("tool_use_id"))]
    return [], []


def _kept(data: Mapping[str, Any], whole: frozenset[str], *, last: bool) -> bool:
    uses, results = _server_ids(data)
    if uses:
        return uses[0] in whole or last  # an open call may end the turn that is resent
    return not results or results[0] in whole


# --- the user's ----------------------------------------------------------------------------------------


def _given(messages: Sequence[Message], start: int) -> dict[str, ToolResult]:
    """Results by call id in the user messages from `start` up to the next answer; the first one counts."""
    found: dict[str, ToolResult] = {}
    for message in messages[start:]:
        if message.role == "assistant":
            break
        for block in message.blocks:
            if isinstance(block, ToolResult):
                found.setdefault(block.id, block)
    return found


def _results(calls: Sequence[ToolCall], given: Mapping[str, ToolResult]) -> list[Api]:
    return [_result(given.get(call.id) or ToolResult(call.id, False, LOST)) for call in calls]


def _result(result: ToolResult) -> Api:
    output = clean(result.output)
    out: Api = {
        "type": "tool_result",
        "tool_use_id": fit_id(result.id, _ID),
        "content": output if output.strip() else "(no output)",
    }
    if not result.ok:
        out["is_error"] = True
    return out


def _user_blocks(message: Message) -> list[Api]:
    return [_text(block.text) for block in message.blocks if isinstance(block, Text) and block.text.strip()]


def _user(content: list[Api]) -> Api:
    return {"role": "user", "content": content}


def _text(text: str) -> Api:
    return {"type": "text", "text": clean(text)}


def _tool(tool: ToolSpec) -> Api:
    return {
        "name": tool.name,
        "description": clean(tool.description),
        "input_schema": clean_value(dict(tool.input_schema)),
    }
