"""A model provider that plays a script, so that tests say exactly what the model answers.

    provider = ScriptedProvider([
        [Text("Let me look."), call("read_skill", name="csv")],   # a turn of blocks
        ProviderError("overloaded", "busy", transient=True),      # a turn that fails
        ["Wait", gate := Gate(), " here."],                       # waits in mid-stream for gate.release()
        lambda request: f"saw {len(request.messages)} messages",  # sync or async, gives any of these
        TurnEnd((Text("cut"),), "length"),                        # a whole turn, as it is
        "All done.",                                              # a plain reply
    ])

After the last turn it answers "done". `provider.requests` holds what it was asked.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from core import (
    Block,
    Finish,
    Message,
    ModelProvider,
    ModelRequest,
    Opaque,
    ProviderError,
    StreamItem,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    TurnEnd,
    Usage,
)

_ids = count(1)
_USAGE = Usage(input_tokens=10, output_tokens=5)


class Gate:
    """A point in a scripted turn where the stream waits until `release()`; `reached` is set on arrival."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._open = asyncio.Event()

    def release(self) -> None:
        """Let the stream go on."""
        self._open.set()

    async def wait(self) -> None:
        """Arrive, and wait for the release."""
        self.reached.set()
        await self._open.wait()


Part = str | Block | Gate
Turn = str | TurnEnd | ProviderError | Sequence["Part | ProviderError"]
Scripted = Turn | Callable[[ModelRequest], "Turn | Awaitable[Turn]"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A copy of one request: system prompt, messages, tool names, model, session, effort."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    model: str | None
    session: str
    effort: str | None = None


def call(name: str, /, **args: Any) -> ToolCall:
    """A tool call with a fresh id: `call("run_sandbox", command="ls")`."""
    return ToolCall(f"call_{next(_ids)}", name, args)


class ScriptedProvider(ModelProvider):
    """Plays `script`, one turn a request, shared by all sessions that use it.

    `usage` is reported with every turn that does not bring its own; `window` is the context window.
    """

    name = "scripted"
    title = "a script, for tests"

    def __init__(
        self,
        script: Iterable[Scripted] = (),
        *,
        usage: Usage | None = _USAGE,
        model: str | None = "scripted-1",
        window: int | None = None,
    ) -> None:
        self.script: list[Scripted] = list(script)
        self.requests: list[Seen] = []
        self._usage = usage
        self._model = model
        self._window = window

    def default_model(self) -> str | None:
        """The name its turns carry."""
        return self._model

    def context_window(self, model: str | None) -> int | None:
        """The window it was made with."""
        return self._window

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Play the next turn: a few pieces of each block, then the TurnEnd."""
        self.requests.append(
            Seen(
                request.system,
                tuple(request.messages),
                tuple(tool.name for tool in request.tools),
                request.model,
                request.session,
                request.effort,
            )
        )
        turn: Any = self.script.pop(0) if self.script else "done"
        if callable(turn):
            turn = turn(request)
            if inspect.isawaitable(turn):
                turn = await turn
        if isinstance(turn, ProviderError):
            raise turn
        end = turn if isinstance(turn, TurnEnd) else None
        parts = end.blocks if end else [turn] if isinstance(turn, str) else turn
        blocks: list[Block] = []
        for part in parts:
            if isinstance(part, Gate):
                await part.wait()
                continue
            if isinstance(part, ProviderError):  # fails after what came before it was streamed
                raise part
            block = Text(part) if isinstance(part, str) else part
            for item in _pieces(block):
                yield item
                await asyncio.sleep(0)
            if isinstance(block, Text) and blocks and isinstance(blocks[-1], Text):
                blocks[-1] = Text(blocks[-1].text + block.text)
            else:
                blocks.append(block)
        if end is None:
            finish: Finish = "tool_calls" if any(isinstance(b, ToolCall) for b in blocks) else "stop"
            end = TurnEnd(tuple(blocks), finish, self._usage, None, request.model or self._model)
        yield end


def _pieces(block: Block) -> list[StreamItem]:
    match block:
        case Text(text):
            step = max(1, -(-len(text) // 3))
            return [TextDelta(text[i : i + step]) for i in range(0, len(text), step)]
        case Thinking(text=text):
            return [ThinkingDelta(text)] if text else []
        case ToolCall(name=name, args=args):
            return [ToolCallDelta(name), ToolCallDelta(name, len(repr(args)))]
        case Opaque():
            return []
        case _:
            raise TypeError(f"a model does not answer with {type(block).__name__}")
