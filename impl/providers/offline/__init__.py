"""The offline provider: fixed rules instead of a model, so that everything works without a key or a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar
from uuid import uuid4

from core import (
    ModelProvider,
    ModelRequest,
    StreamItem,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    TurnEnd,
    Usage,
)
from impl.providers.offline import builder, runtime
from impl.providers.offline.record import Call, Move, read

#: Lines of a reply that stream as one piece.
_LINES_A_PIECE = 8


class OfflineProvider(ModelProvider):
    """Answers at once, by rules, from the messages and tools of the request alone; it keeps no state.

    With `import_source` among the tools it is the Builder, else a running agent. It costs nothing.
    """

    name: ClassVar[str] = "offline"
    title: ClassVar[str] = (
        "Fixed rules, no model: imports sources, quotes documents and skills, calls tools you spell out"
    )
    rules_only: ClassVar[bool] = True
    runs_no_source_code: ClassVar[bool] = True
    wants_import_source: ClassVar[bool] = True

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Stream one turn: the reply by lines, or one tool call."""
        move = _decide(request)
        text = move.say if isinstance(move, Call) else move.text
        blocks: list[Text | ToolCall] = [Text(text)] if text else []
        for piece in _pieces(text):
            yield TextDelta(piece)
        if isinstance(move, Call):
            args = _fitting(move.args, move.tool, request.tools)
            yield ToolCallDelta(move.tool)
            blocks.append(ToolCall(f"call_{uuid4().hex[:16]}", move.tool, args))
        yield TurnEnd(
            tuple(blocks),
            "tool_calls" if isinstance(move, Call) else "stop",
            usage=Usage(requests=1),
            usd=Decimal(0),
        )

    def context_window(self, model: str | None) -> int | None:
        """Rules have no window; a number so high that nothing is ever compacted for it."""
        return 1_000_000_000


def _decide(request: ModelRequest) -> Move:
    """The Builder's move where a source can be imported, else a running agent's."""
    if any(tool.name == "import_source" for tool in request.tools):
        return builder.decide(read(request.messages), request.system, request.tools)
    return runtime.decide(read(request.messages), request.system, request.tools)


def _pieces(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    return ["".join(lines[i : i + _LINES_A_PIECE]) for i in range(0, len(lines), _LINES_A_PIECE)]


def _fitting(args: Mapping[str, Any], name: str, tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The arguments that have a value and that the offered tool takes, lists as text where it wants text."""
    schema = next((t.input_schema for t in tools if t.name == name), {})
    known = schema.get("properties")
    known = known if isinstance(known, Mapping) else {}
    closed = schema.get("additionalProperties") is False
    fitting: dict[str, Any] = {}
    for key, value in args.items():
        if value is None or (closed and key not in known):
            continue
        kind = known.get(key)
        wants_text = isinstance(kind, Mapping) and kind.get("type") == "string"
        fitting[key] = "\n".join(map(str, value)) if wants_text and isinstance(value, list) else value
    return fitting
