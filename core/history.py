"""The conversation a model reads, projected from events: every call has one result, in call order."""

from __future__ import annotations

import gc
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from core.events import Event
from core.provider import Block, Message, Opaque, Text, Thinking, ToolCall, ToolResult

UNKNOWN_OUTCOME = (
    "The outcome of this call is unknown: Artificer stopped while it ran. It may have happened, in part or in "
    "whole. Look before doing it again."
)
NEVER_RAN = "This call never ran: the session stopped before its turn came."
UNREADABLE = "The result of this call was stored but cannot be read any more."
LOST_MESSAGE = "[Here stood a message that was stored but cannot be read any more. Ask for it where it matters.]"


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
                raw=_text_or_none(row.get("raw")),
                problem=_text_or_none(row.get("problem")),
            )
        case "thinking":
            return Thinking(
                text=str(row.get("text", "")),
                provider=str(row.get("provider", "")),
                model=str(row.get("model", "")),
                data=_object(row.get("data")),
            )
        case "opaque":
            return Opaque(provider=str(row.get("provider", "")), data=_object(row.get("data")))
        case _:
            return None


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class History:
    """Events in, messages out. `apply` costs the same however long the session is.

    `messages` only ever grows at its end, but after a compaction or a rewind, so consecutive requests share a
    prefix. `pending` are the calls of the last assistant message that have no result yet, in call order; `intents`
    those of them whose intent to run is stored; `parked` the one a person was asked about. `reply` is the text of
    the last answer since the person spoke, pieces that were cut at the output limit joined; `cuts` how many such
    pieces stand in a row; `finish` how the last answer ended, None where it never did (`incomplete`). `steps` are the
    turns that were taken here, those of a session that this one is a fork of left out.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.pending: dict[str, ToolCall] = {}
        self.parked: str | None = None
        self.call_ids: set[str] = set()
        self.turns = 0
        self._before = 0
        self.incomplete = False
        self.finish: str | None = None
        self.reply = ""
        self.cuts = 0
        self._cut = ""
        self._calls: tuple[ToolCall, ...] = ()
        self._results: dict[str, ToolResult] = {}
        self._started: list[Event] = []  # intents of this turn, decoded where someone asks
        self._held: list[str] = []  # nudges given while calls were open: they follow the results
        self._seqs: list[int] = []  # of each message, the event that completed it

    def apply(self, event: Event) -> None:
        """Take one more event. Unknown and irrelevant ones change nothing; a damaged one spoils no other."""
        match event.kind:
            case "message":
                self._message(event)
            case "tool_call" if self.pending:
                self._started.append(event)
            case "tool_result":
                self._result(event.data, event.seq)
            case "nudge" if self.pending:
                self._held.append(str(event.data.get("text", "")))
            case "nudge":
                self._add(_words(str(event.data.get("text", ""))), event.seq)
            case "stop":
                waiting = event.data.get("waiting")
                if isinstance(waiting, dict) and (call := str(waiting.get("id"))) in self.pending:
                    self.parked = call
            case "answer":
                self.parked = None
            case "compaction":
                self._compact(event.data)
            case "forked":
                self._before = self.turns
            case "rewind":
                self._rewind(event.data)
            case _:
                pass

    @property
    def turn(self) -> Literal["model", "tools", "person"]:
        """Who acts next: the model on a user message or a turn it paused, the tools on open calls, else the person."""
        if self.pending:
            return "tools"
        if self.messages and (self.messages[-1].role == "user" or self.finish == "pause"):
            return "model"
        return "person"

    @property
    def steps(self) -> int:
        """How many turns were taken in this session."""
        return self.turns - self._before

    @property
    def recorded(self) -> set[str]:
        """Those of them whose effects are all on record, so that they may run again from it."""
        found = {str(event.data.get("call")) for event in self._started if event.data.get("recorded") is True}
        return found & self.pending.keys()

    @property
    def intents(self) -> set[str]:
        """Those of the pending calls whose intent to run is stored."""
        if any(event.damaged for event in self._started):
            return set(self.pending)  # it was one of these
        return {call for event in self._started if (call := str(event.data.get("call"))) in self.pending}

    def before(self, seq: int) -> int:
        """How many messages to keep to go back to just before event `seq`, ending on a user's message."""
        keep = bisect_left(self._seqs, seq)
        while keep and self.messages[keep - 1].role != "user":
            keep -= 1
        return keep

    def seq_of(self, count: int) -> int:
        """The event that completed the last of the first `count` messages."""
        return self._seqs[count - 1]

    def _message(self, event: Event) -> None:
        data = event.data
        if event.damaged:
            # Whose it was cannot be read; where the person was to speak, it was most likely theirs.
            if self.turn == "person":
                self._add(_words(LOST_MESSAGE), event.seq)
            return
        self._close_calls(UNREADABLE, event.seq)
        if data.get("role") == "user":
            self.incomplete, self.finish, self.reply, self.cuts, self._cut = False, None, "", 0, ""
            self._add(_words(str(data.get("text", ""))), event.seq)
            return
        rows = data.get("blocks")
        blocks = blocks_from_json(rows) if isinstance(rows, list) else (Text(str(data.get("text", ""))),)
        blocks = tuple(b for b in blocks if not (isinstance(b, Text) and not b.text.strip()))
        calls = tuple(b for b in blocks if isinstance(b, ToolCall))
        self.turns += 1
        self.incomplete = bool(data.get("incomplete"))
        self.finish = None if self.incomplete else str(data.get("finish") or "stop")
        self._note_reply("\n\n".join(b.text for b in blocks if isinstance(b, Text)), cut=not calls)
        if not blocks:
            return
        self._add(Message("assistant", blocks), event.seq)
        self._calls = calls
        self.pending = {call.id: call for call in calls}
        self.call_ids.update(self.pending)
        self._started = []
        self.parked = None

    def _note_reply(self, text: str, *, cut: bool) -> None:
        self.reply = self._cut + text
        if cut and self.finish == "length":
            self._cut = self.reply
            self.cuts += 1
        else:
            self._cut, self.cuts = "", 0

    def _result(self, data: Mapping[str, Any], seq: int) -> None:
        call = str(data.get("call"))
        if call not in self.pending:
            return
        del self.pending[call]
        if call == self.parked:
            self.parked = None
        self._results[call] = ToolResult(call, bool(data.get("ok")), str(data.get("output", "")))
        if not self.pending:
            self._flush(seq)

    def _flush(self, seq: int) -> None:
        results = tuple(self._results[call.id] for call in self._calls if call.id in self._results)
        self._results = {}
        self._calls = ()
        self._started = []
        if results:
            self._add(Message("user", results), seq)
        for text in self._held:
            self._add(_words(text), seq)
        self._held = []

    def _close_calls(self, text: str, seq: int) -> None:
        """Give calls that a later message has overtaken their one result."""
        if self.pending:
            for call in self.pending:
                self._results[call] = ToolResult(call, False, text)
            self.pending = {}
            self._flush(seq)

    def _add(self, message: Message, seq: int) -> None:
        self.messages.append(message)
        self._seqs.append(seq)

    def _rewind(self, data: Mapping[str, Any]) -> None:
        seq = data.get("before")
        keep = self.before(seq) if isinstance(seq, int) else 0
        if not keep:
            return
        del self.messages[keep:]
        del self._seqs[keep:]
        self.pending, self._results, self._calls, self._held = {}, {}, (), []
        self._started = []
        self.parked = None
        self.incomplete, self.finish, self.reply, self.cuts, self._cut = False, None, "", 0, ""

    def _compact(self, data: Mapping[str, Any]) -> None:
        upto = data.get("upto")
        cut = bisect_right(self._seqs, upto) if isinstance(upto, int) else 0
        if not cut:
            return
        self.messages[:cut] = [_words(str(data.get("summary", "")))]
        self._seqs[:cut] = [self._seqs[cut - 1]]
        # Where a result beyond the cut could not be read, its calls are closed late: they went with the summary.
        while len(self.messages) > 1 and any(isinstance(b, ToolResult) for b in self.messages[1].blocks):
            del self.messages[1], self._seqs[1]


def _words(text: str) -> Message:
    return Message("user", (Text(text),))


def project(events: Iterable[Event]) -> History:
    """The history of all the events of a session."""
    history = History()
    with no_collection():
        for event in events:
            history.apply(event)
    return history


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection while a history is read: all of it stays, and looking for garbage in it took half the
    time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def repairs(history: History, draft: tuple[str, str, str] | None) -> list[tuple[str, dict[str, Any]]]:
    """What must be appended so that a session loaded after a crash is whole again; nothing where it is.

    A call whose intent is stored gets "outcome unknown"; one that never started gets nothing (it may still
    run), and neither does the one a stop is waiting on, or one that runs again from its record. Text that was
    streaming becomes a message marked incomplete, because a person has seen it. Applying the result and asking again
    gives the empty list.
    """
    new: list[tuple[str, dict[str, Any]]] = []
    unknown = [c for c in history.pending if c in history.intents and c != history.parked]
    if unknown:
        unknown = [c for c in unknown if c not in history.recorded]
    for call in unknown:
        new.append(
            ("tool_result", {"call": call, "ok": False, "output": UNKNOWN_OUTCOME, "status": "unknown"}),
        )
    if draft is not None and draft[1].strip():
        body = {"role": "assistant", "id": draft[0], "text": draft[1], "incomplete": True}
        new.append(("message", body))
    if new:
        new.append(("repair", {"calls": unknown, "draft": draft[0] if draft else None}))
    return new
