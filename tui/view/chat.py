"""The conversation of one session as blocks: a reducer over events whose cost does not grow with the session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from core import Event, Stop
from tui.view.calls import CallLine, call_line, finished
from tui.view.cards import Card, card_of
from tui.view.notes import Note, note_of
from tui.view.text import Tone, one_line, safe

#: Of a run of tool calls only the last few are lines of the conversation; the log pane has them all.
SHOWN_CALLS = 4

#: Notes that share a block.
MOST_NOTES = 12

HIDDEN_TOOLS = frozenset({"ask_user", "cannot_convert"})
"""Tools whose call is shown by the card it leads to."""


@dataclass(frozen=True, slots=True)
class Said:
    """Words of the person (`you`) or of the agent. `streaming` ones are replaced until they are whole."""

    key: str
    role: Literal["you", "agent"]
    text: str
    streaming: bool = False
    incomplete: bool = False
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Worked:
    """A run of tool calls: how many, how many failed, the last ones as lines."""

    key: str
    count: int
    failed: int
    shown: tuple[CallLine, ...]
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Noted:
    """Notes that follow each other."""

    key: str
    notes: tuple[Note, ...]
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A card. `active` while the session waits on it; `answer` what was said to it."""

    key: str
    card: Card
    active: bool = True
    answer: str = ""
    seq: int = 0


Block = Said | Worked | Noted | Asked


@dataclass(frozen=True, slots=True)
class Change:
    """What one event did to the blocks: one was added at the end, replaced, or removed."""

    what: Literal["add", "replace", "remove"]
    block: Block


class Chat:
    """Events in, changes of blocks out; `blocks` by key, in order.

    A slice that begins in the middle of a session is fine: results whose call is not in it are left out.
    """

    def __init__(self) -> None:
        self.blocks: dict[str, Block] = {}
        self.asked: Asked | None = None
        self.stop: Mapping[str, Any] | None = None
        self._last: str | None = None
        self._lines: dict[str, tuple[str, CallLine]] = {}  # open call -> its block and line
        self._answer = ""

    def apply(self, event: Event) -> list[Change]:
        """Take one more event."""
        data = event.data
        key = str(event.seq)
        if event.damaged:
            return self._note(event, Note("?", f"event {event.seq} cannot be read: {data.get('damaged')}", Tone.FAIL))
        match event.kind:
            case "message" if data.get("role") == "user":
                return self._settle() + self._add(Said(key, "you", safe(str(data.get("text", ""))), seq=event.seq))
            case "message":
                return self._agent_said(event)
            case "draft":
                return self._draft(data)
            case "tool_call":
                return self._called(key, event)
            case "tool_result":
                return self._result(data)
            case "answer":
                self._answer = str(data.get("text", ""))
                return self._settle()
            case "stop":
                return self._stopped(event)
            case _:
                note = note_of(event)
                return self._note(event, note) if note is not None else []

    # --- words -------------------------------------------------------------------------------------

    def _agent_said(self, event: Event) -> list[Change]:
        changes, data, key = self._settle(), event.data, str(event.seq)
        text = safe(str(data.get("text", "")))
        draft = f"draft:{data.get('id')}"
        said = Said(
            draft if draft in self.blocks else key,
            "agent",
            text,
            seq=event.seq,
            incomplete=bool(data.get("incomplete")),
        )
        if draft in self.blocks:
            if not text.strip():
                return changes + self._remove(draft)
            # The block keeps the key it streamed under, so that what is on screen stays where it is.
            return changes + self._replace(said)
        return changes + (self._add(said) if text.strip() else [])

    def _draft(self, data: Mapping[str, Any]) -> list[Change]:
        key, text = f"draft:{data.get('id')}", safe(str(data.get("text", "")))
        if not text.strip():
            return []
        said = Said(key, "agent", text, streaming=True)
        before = self.blocks.get(key)
        if isinstance(before, Said):
            return self._replace(said) if before.streaming and before.text != text else []
        return self._settle() + self._add(said)

    # --- tools -------------------------------------------------------------------------------------

    def _called(self, key: str, event: Event) -> list[Change]:
        changes = self._settle()
        call = call_line(event)
        if call.tool in HIDDEN_TOOLS:
            return changes
        last = self.blocks.get(self._last or "")
        if isinstance(last, Worked):
            block = replace(last, count=last.count + 1, shown=(*last.shown, call)[-SHOWN_CALLS:])
            self._lines[call.call] = (block.key, call)
            return changes + self._replace(block)
        self._lines[call.call] = (key, call)
        return changes + self._add(Worked(key, 1, 0, (call,), event.seq))

    def _result(self, data: Mapping[str, Any]) -> list[Change]:
        found = self._lines.pop(str(data.get("call")), None)
        if found is None:
            return []
        key, before = found
        block = self.blocks.get(key)
        if not isinstance(block, Worked):
            return []
        after = finished(before, data)
        shown = tuple(after if one is before else one for one in block.shown)
        return self._replace(replace(block, failed=block.failed + (after.state == "failed"), shown=shown))

    # --- stops -------------------------------------------------------------------------------------

    def _stopped(self, event: Event) -> list[Change]:
        changes = self._settle()
        self.stop = event.data
        card = card_of(event.data)
        if card is not None:
            self.asked = Asked(str(event.seq), card, seq=event.seq)
            return changes + self._add(self.asked)
        match event.data.get("stop"):
            case Stop.COMPLETED.value:
                return changes + self._note(event, Note("✓", "done", Tone.PLAIN))
            case Stop.CANCELLED.value:
                return changes + self._note(event, Note("■", "stopped by you; write to go on, or ctrl+r"))
            case _:
                return changes

    def _settle(self) -> list[Change]:
        """What the session waited for is over: its card closes with what was answered."""
        answer, self._answer = self._answer, ""
        asked, self.asked, self.stop = self.asked, None, None
        if asked is None:
            return []
        return self._replace(replace(asked, active=False, answer=one_line(_words(asked.card, answer), 200)))

    def _note(self, event: Event, note: Note) -> list[Change]:
        last = self.blocks.get(self._last or "")
        if isinstance(last, Noted) and len(last.notes) < MOST_NOTES:
            return self._replace(replace(last, notes=(*last.notes, note)))
        return self._add(Noted(str(event.seq), (note,), event.seq))

    # --- keeping -----------------------------------------------------------------------------------

    def _add(self, block: Block) -> list[Change]:
        self.blocks[block.key] = block
        self._last = block.key
        return [Change("add", block)]

    def _replace(self, block: Block) -> list[Change]:
        if block.key not in self.blocks:
            return []
        self.blocks[block.key] = block
        return [Change("replace", block)]

    def _remove(self, key: str) -> list[Change]:
        block = self.blocks.pop(key)
        if self._last == key:
            self._last = next(reversed(self.blocks), None)
        return [Change("remove", block)]

    def forget(self, keys: Iterable[str]) -> None:
        """Drop blocks that left the window; the store still has their events."""
        for key in keys:
            if key != self._last:
                self.blocks.pop(key, None)


def _words(card: Card, answer: str) -> str:
    """An answer as a person reads it: an option's label instead of its number or id."""
    for choice in card.choices:
        if answer.strip().casefold() in (str(choice.number), choice.id.casefold()):
            return f"{choice.number} {choice.label}"
    return answer
