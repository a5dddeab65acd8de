"""The conversation a model reads, projected from events: every call has one result, in call order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from core.events import Event
from core.provider import Block, Message, Opaque, Text, Thinking, ToolCall, ToolResult

UNKNOWN_OUTCOME = (
    "The outcome of this call is unknown: Artificer stopped while it ran. It may have happened, in part or in "
    "whole. Look before doing it again."
)
NEVER_RAN = "This call never ran: the session stopped before its turn came."
UNREADABLE = "The result of this call was stored but cannot be read any more."


def blocks_to_json(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """The stored form of an assistant message's blocks."""
    return [_block_to_json(block) for block in blocks]


def _block_to_json(block: Block) -> dict[str, Any]:
    match block:
        case Text():
            return {"t": "text", "text": block.text}
        case ToolCall():
            row: dict[str, Any] = {"t": "call", "id": block.id, "name": block.name, "args": block.args}
            if block.raw is not None:
                row["raw"] = block.raw
            if block.problem is not None:
                row["problem"] = block.problem
            return row
        case Thinking():
            return {
                "t": "thinking",
                "text": block.text,
                "provider": block.provider,
                "model": block.model,
                "data": block.data,
            }
        case Opaque():
            return {"t": "opaque", "provider": block.provider, "data": block.data}
        case ToolResult():
            return {"t": "result", "id": block.id, "ok": block.ok, "output": block.output}


def blocks_from_json(rows: Iterable[Any]) -> tuple[Block, ...]:
    """Read the stored form; a row that cannot be read is left out."""
    blocks: list[Block] = []
    for row in rows:
        block = _block_from_json(row) if isinstance(row, dict) else None
        if block is not None:
            blocks.append(block)
    return tuple(blocks)


def _block_from_json(row: dict[str, Any]) -> Block | None:
    match row.get("t"):
        case "text":
            return Text(str(row.get("text", "")))
        case "call":
            args = row.get("args")
            return ToolCall(
                id=str(row.get("id", "")),
                name=str(row.get("name", "")),
                args=args if isinstance(args, dict) else None,
                raw=row.get("raw"),
                problem=row.get("problem"),
            )
        case "thinking":
            return Thinking(
                text=str(row.get("text", "")),
                provider=str(row.get("provider", "")),
                model=str(row.get("model", "")),
                data=row.get("data") or {},
            )
        case "opaque":
            return Opaque(provider=str(row.get("provider", "")), data=row.get("data") or {})
        case _:
            return None


class History:
    """Events in, messages out. `apply` costs the same however long the session is.

    `messages` only ever grows at its end, but after a compaction, so consecutive requests share a prefix.
    `pending` are the calls of the last assistant message that have no result yet, in call order; `intents`
    those of them whose intent to run is stored.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.pending: dict[str, ToolCall] = {}
        self.intents: set[str] = set()
        self.parked: str | None = None
        self.call_ids: set[str] = set()
        self.turns = 0
        self.incomplete = False
        self._calls: tuple[ToolCall, ...] = ()
        self._results: dict[str, ToolResult] = {}
        self._ends: list[tuple[int, int]] = []  # (event seq, messages then), to cut at a compaction

    def apply(self, event: Event) -> None:
        """Take one more event. Unknown, damaged and irrelevant ones change nothing."""
        match event.kind:
            case "message":
                self._message(event)
            case "tool_call":
                call = str(event.data.get("call"))
                if call in self.pending:
                    self.intents.add(call)
            case "tool_result":
                self._result(event.data, event.seq)
            case "nudge":
                self._close_calls(UNREADABLE)
                self._add(Message("user", (Text(str(event.data.get("text", ""))),)), event.seq)
            case "stop":
                waiting = event.data.get("waiting")
                self.parked = str(waiting["id"]) if isinstance(waiting, dict) and "id" in waiting else None
            case "compaction":
                self._compact(event.data)
            case "rewind":
                self._rewind(event.data)
            case _:
                pass

    @property
    def turn(self) -> Literal["model", "tools", "person"]:
        """Who acts next: the model on a user message, the tools on open calls, else the person."""
        if self.pending:
            return "tools"
        if self.messages and self.messages[-1].role == "user":
            return "model"
        return "person"

    def _message(self, event: Event) -> None:
        data = event.data
        if event.damaged:
            return
        self._close_calls(UNREADABLE)
        self.incomplete = bool(data.get("incomplete"))
        if data.get("role") == "user":
            self._add(Message("user", (Text(str(data.get("text", ""))),)), event.seq)
            return
        rows = data.get("blocks")
        blocks = blocks_from_json(rows) if isinstance(rows, list) else (Text(str(data.get("text", ""))),)
        blocks = tuple(b for b in blocks if not (isinstance(b, Text) and not b.text.strip()))
        self.turns += 1
        if not blocks:
            return
        self._add(Message("assistant", blocks), event.seq)
        self._calls = tuple(b for b in blocks if isinstance(b, ToolCall))
        self.pending = {call.id: call for call in self._calls}
        self.call_ids.update(self.pending)
        self.intents.clear()

    def _result(self, data: Mapping[str, Any], seq: int) -> None:
        call = str(data.get("call"))
        if call not in self.pending:
            return
        del self.pending[call]
        self._results[call] = ToolResult(call, bool(data.get("ok")), str(data.get("output", "")))
        if not self.pending:
            self._flush(seq)

    def _flush(self, seq: int) -> None:
        results = tuple(self._results[call.id] for call in self._calls if call.id in self._results)
        self._results = {}
        self._calls = ()
        self.intents.clear()
        if results:
            self._add(Message("user", results), seq)

    def _close_calls(self, text: str) -> None:
        """Give calls that a later message has overtaken their one result."""
        if self.pending:
            for call in list(self.pending):
                self._results[call] = ToolResult(call, False, text)
            self.pending = {}
            self._flush(0)

    def _add(self, message: Message, seq: int) -> None:
        self.messages.append(message)
        self._ends.append((seq, len(self.messages)))

    def before(self, seq: int) -> int:
        """How many messages to keep to go back to just before event `seq`, ending on a user's message."""
        keep = 0
        for position, (end, count) in enumerate(self._ends):
            if end >= seq:
                break
            if self.messages[position].role == "user":
                keep = count
        return keep

    def _rewind(self, data: Mapping[str, Any]) -> None:
        keep = data.get("messages")
        if isinstance(keep, int) and 0 < keep <= len(self.messages):
            del self.messages[keep:]
            del self._ends[keep:]
            self.pending, self._results, self._calls = {}, {}, ()

    def _compact(self, data: Mapping[str, Any]) -> None:
        upto = data.get("messages")
        if not isinstance(upto, int) or not 0 < upto <= len(self.messages):
            return
        summary = Message("user", (Text(str(data.get("summary", ""))),))
        self.messages[:upto] = [summary]
        shift = upto - 1
        self._ends = [(seq, count - shift) for seq, count in self._ends[upto - 1 :]]


def project(events: Iterable[Event]) -> History:
    """The history of all the events of a session."""
    history = History()
    for event in events:
        history.apply(event)
    return history


def repairs(history: History, draft: tuple[str, str, str] | None) -> list[tuple[str, dict[str, Any]]]:
    """What must be appended so that a session loaded after a crash is whole again; nothing where it is.

    A call whose intent is stored gets "outcome unknown"; one that never started gets nothing (it may still
    run), and neither does the one a stop is waiting on. Text that was streaming becomes a message marked
    incomplete, because a person has seen it. Applying the result and asking again gives the empty list.
    """
    new: list[tuple[str, dict[str, Any]]] = []
    unknown = [c for c in history.pending if c in history.intents and c != history.parked]
    for call in unknown:
        new.append(
            ("tool_result", {"call": call, "ok": False, "output": UNKNOWN_OUTCOME, "status": "unknown"}),
        )
    if draft is not None:
        message, text, _ = draft
        new.append(("message", {"role": "assistant", "id": message, "text": text, "incomplete": True}))
    if new:
        new.append(("repair", {"calls": unknown, "draft": draft[0] if draft else None}))
    return new
