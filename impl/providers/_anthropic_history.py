"""The neutral conversation as Anthropic's Messages API wants it: a pure function that mends what it must."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from core import Message, ModelRequest, Opaque, Text, Thinking, ToolCall, ToolResult, ToolSpec
from impl.providers._anthropic_turn import PROVIDER
from impl.providers._calls import clean, clean_value, fit_id
from impl.providers._history import mend

if TYPE_CHECKING:
    from core import Block

Api = dict[str, Any]

#: The API takes this many cache markers in one request.
CACHE_MARKERS: Final = 4

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_EPHEMERAL: Final = {"type": "ephemeral"}


def to_api(messages: Sequence[Message], model: str) -> list[Api]:
    """The `messages` of a request to `model`, mended as `mend` says.

    Thinking goes back only to the model that thought it, and only whole; blocks of server tools in pairs.
    """
    whole = _server_pairs(messages)

    def keep(block: Thinking | Opaque, last: bool) -> bool:
        if isinstance(block, Thinking):
            return _may_return(block, model)
        return block.provider == PROVIDER and _kept(block.data, whole, last=last)

    return [
        {"role": message.role, "content": [_block(block) for block in message.blocks]}
        for message in mend(messages, keep, _paused)
    ]


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
    if request.tool_choice:
        out["tool_choice"] = {"type": "tool", "name": request.tool_choice}
    if request.effort:
        out["output_config"] = {"effort": request.effort}
    return out


def _mark(messages: list[Api], left: int) -> None:
    """Put markers on the ends of the last user messages: the newest to write, those before to read."""
    users = [m for m in messages if m["role"] == "user"]
    for message in users[-min(left, 2) :]:
        content = message["content"]
        content[-1] = {**content[-1], "cache_control": _EPHEMERAL}


# --- blocks --------------------------------------------------------------------------------------------


def _block(block: Block) -> Api:
    match block:
        case Text(text):
            return _text(text)
        case Thinking(data=data):
            return dict(data)
        case Opaque(data=data):
            return {key: value for key, value in data.items() if key != "cache_control"}
        case ToolCall():
            return _call(block)
        case ToolResult():
            return _result(block)


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


def _paused(message: Message) -> bool:
    """Whether an answer ends in a block of the server's own: a paused turn, resent as it is."""
    return isinstance(message.blocks[-1], Opaque)


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


def _text(text: str) -> Api:
    return {"type": "text", "text": clean(text)}


def _tool(tool: ToolSpec) -> Api:
    return {
        "name": tool.name,
        "description": clean(tool.description),
        "input_schema": clean_value(dict(tool.input_schema)),
    }
