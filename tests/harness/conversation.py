"""A conversation with a model provider, turn by turn, without the loop: words and tool results in, moves out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from core import (
    Message,
    ModelProvider,
    ModelRequest,
    StreamItem,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    TurnEnd,
)


def tool(name: str, required: Sequence[str] = (), /, **properties: Mapping[str, Any]) -> ToolSpec:
    """A tool specification with these properties."""
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return ToolSpec(name, name, schema if properties else {"type": "object"})


class Conversation:
    """Builds a history and asks the provider for each next turn. `reply` is the last turn's text, `call` its
    tool call as (name, arguments), None where it made none; `items` what it streamed."""

    def __init__(self, provider: ModelProvider, tools: Sequence[ToolSpec], system: str = "You are an agent.") -> None:
        self.provider = provider
        self.tools = tools
        self.system = system
        self.messages: list[Message] = []
        self.items: list[StreamItem] = []
        self.end = TurnEnd((), "stop")

    async def say(self, text: str) -> Conversation:
        """The person says it; the provider takes its turn."""
        self.messages.append(Message("user", (Text(text),)))
        return await self.turn()

    async def result(self, output: str | Mapping[str, Any], *, ok: bool = True) -> Conversation:
        """The last call gave `output`; the provider takes its turn."""
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=1)
        self.messages.append(Message("user", tuple(ToolResult(call.id, ok, text) for call in self.calls)))
        return await self.turn()

    async def error(self, code: str, message: str, **more: Any) -> Conversation:
        """The last call failed, as the platform's tools say it."""
        return await self.result({"error": {"code": code, "message": message, **more}}, ok=False)

    async def turn(self) -> Conversation:
        """One turn on the history as it is."""
        request = ModelRequest("session", self.system, self.messages, self.tools)
        self.items = [item async for item in self.provider.stream(request)]
        end = self.items[-1]
        assert isinstance(end, TurnEnd)
        self.end = end
        self.messages.append(Message("assistant", end.blocks))
        return self

    @property
    def calls(self) -> list[ToolCall]:
        """The last turn's calls."""
        return [block for block in self.end.blocks if isinstance(block, ToolCall)]

    @property
    def call(self) -> tuple[str, dict[str, Any]] | None:
        """The last turn's only call."""
        assert len(self.calls) <= 1
        return next(((call.name, dict(call.args or {})) for call in self.calls), None)

    @property
    def reply(self) -> str:
        """The last turn's text."""
        return "\n\n".join(block.text for block in self.end.blocks if isinstance(block, Text))
