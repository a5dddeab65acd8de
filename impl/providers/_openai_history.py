"""The neutral conversation as the chat completions API wants it: a pure function that mends what it must."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from core import Message, ModelRequest, Opaque, Text, Thinking, ToolCall, ToolResult, ToolSpec
from impl.providers._calls import clean, clean_value, fit_id
from impl.providers._history import mend
from impl.providers._openai_profiles import Profile

PROVIDER: Final = "openai_compatible"

Api = dict[str, Any]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def to_api(messages: Sequence[Message], model: str, profile: Profile, system: str = "") -> list[Api]:
    """The `messages` of a request, mended as `mend` says, the system prompt first.

    `content` is always a string: some servers answer null with an error. Reasoning goes back only where
    the profile wants it, and only to the model it came from, as does what a server sent with a call to have it back.
    """

    def keep(block: Thinking | Opaque, last: bool) -> bool:
        if isinstance(block, Opaque):
            return block.provider == PROVIDER and block.data.get("model") == model
        mine = isinstance(block, Thinking) and block.provider == PROVIDER and block.model == model
        return mine and profile.echo_reasoning

    out: list[Api] = [{"role": "system", "content": clean(system)}] if system.strip() else []
    for message in mend(messages, keep):
        out += _assistant(message, profile) if message.role == "assistant" else _user(message, profile)
    return out


def body(request: ModelRequest, model: str, profile: Profile) -> Api:
    """A whole request. At most one output limit is sent, and `tool_choice` only where a tool is named."""
    out: Api = {
        "model": model,
        "messages": to_api(request.messages, model, profile, request.system),
        "stream": True,
    }
    if profile.include_usage:
        out["stream_options"] = {"include_usage": True}
    if request.tools:
        out["tools"] = [_tool(tool) for tool in request.tools]
    if request.tool_choice:
        out["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice}}
    if request.max_output_tokens:
        out[profile.limit] = request.max_output_tokens
    if request.effort:
        out["reasoning_effort"] = request.effort
    return out


def _assistant(message: Message, profile: Profile) -> list[Api]:
    out: Api = {"role": "assistant", "content": clean(message.text)}
    thoughts = [block for block in message.blocks if isinstance(block, Thinking)]
    if thoughts:
        field = str(thoughts[0].data.get("field", "reasoning_content"))
        out[field] = "".join(clean(thought.text) for thought in thoughts)
    calls = [_call(block, profile) for block in message.blocks if isinstance(block, ToolCall)]
    for block in message.blocks:
        if isinstance(block, Opaque) and block.data.get("call") in range(len(calls)):
            calls[block.data["call"]]["extra_content"] = block.data.get("extra_content")
    if calls:
        out["tool_calls"] = calls
    return [out]


def _user(message: Message, profile: Profile) -> list[Api]:
    out: list[Api] = []
    for block in message.blocks:
        if isinstance(block, ToolResult):
            call_id = fit_id(block.id, profile.call_id, profile.call_id_size)
            out.append({"role": "tool", "tool_call_id": call_id, "content": clean(block.output)})
    if any(isinstance(block, Text) for block in message.blocks):
        out.append({"role": "user", "content": clean(message.text)})
    return out


def _call(call: ToolCall, profile: Profile) -> Api:
    arguments = json.dumps(clean_value(dict(call.args or {})), ensure_ascii=False)
    name = fit_id(call.name, _NAME) if call.name else "unknown"
    return {
        "id": fit_id(call.id, profile.call_id, profile.call_id_size),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _tool(tool: ToolSpec) -> Api:
    function = {
        "name": tool.name,
        "description": clean(tool.description),
        "parameters": clean_value(dict(tool.input_schema)),
    }
    return {"type": "function", "function": function}
