"""Short ways to ask a model provider one thing, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, cast

from core import Block, Message, ModelProvider, ModelRequest, ProviderError, StreamItem, Text, ToolSpec, TurnEnd

#: The key that tests set, to see that it shows nowhere.
KEY = "sk-test-0123456789"

TOOL = ToolSpec("look", "Look at something.", {"type": "object", "properties": {"at": {"type": "string"}}})


def user(*blocks: str | Block) -> Message:
    """A user message; strings are texts."""
    return Message("user", tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def assistant(*blocks: str | Block) -> Message:
    """An assistant message; strings are texts."""
    return Message("assistant", tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def asking(
    *messages: Message | str, system: str = "Be brief.", tools: Sequence[ToolSpec] = (), **fields: Any
) -> ModelRequest:
    """A request; strings are user messages, "Hello?" where there are none."""
    history = [user(m) if isinstance(m, str) else m for m in messages or ("Hello?",)]
    return ModelRequest("session", system, history, tools, **fields)


async def collect(provider: ModelProvider, request: ModelRequest | None = None) -> list[StreamItem]:
    """Everything one turn streams."""
    stream = cast("Any", provider.stream(request or asking()))
    async with aclosing(stream):
        return [item async for item in stream]


async def end_of(provider: ModelProvider, request: ModelRequest | None = None) -> TurnEnd:
    """The TurnEnd of one turn, which must come last and once."""
    items = await collect(provider, request)
    ends = [item for item in items if isinstance(item, TurnEnd)]
    assert ends == items[-1:], items
    return ends[0]


async def error_of(provider: ModelProvider, request: ModelRequest | None = None) -> ProviderError:
    """The error that one turn must end in."""
    try:
        items = await collect(provider, request)
    except ProviderError as error:
        return error
    raise AssertionError(f"no error, but {items}")


async def outcome(provider: ModelProvider) -> object:
    """The blocks of one turn, or the detail of its error."""
    try:
        return (await end_of(provider)).blocks
    except ProviderError as error:
        return error.detail
