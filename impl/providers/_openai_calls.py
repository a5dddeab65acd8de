"""Assembles tool calls from the deltas of chat completions, whatever a server does with index, id and name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from core import ToolCall, ToolCallDelta
from impl.providers._calls import clean, clean_value, make_call, mapping, parse_object, string


class _Slot:
    """One call as it grows. `whole` is set where a server sent the arguments as an object; `extra` is what it wants
    back with the call."""

    __slots__ = ("extra", "fragments", "id", "name", "size", "whole")

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.fragments: list[str] = []
        self.size = 0
        self.whole: Mapping[str, Any] | None = None
        self.extra: Mapping[str, Any] = {}

    def add(self, name: str, arguments: object) -> None:
        """Take what one delta says. A repeated name is not a longer one."""
        if name and (not self.name or name.startswith(self.name)):
            self.name = name
        if isinstance(arguments, dict):
            self.whole = arguments
            self.size = len(arguments)
        elif isinstance(arguments, str) and arguments:
            self.fragments.append(arguments)
            self.size += len(arguments)

    def finished(self) -> bool:
        """Whether its arguments are a whole object already."""
        return self.whole is not None or isinstance(parse_object("".join(self.fragments)), dict)

    def raw(self) -> str:
        """Its arguments as text: fragments joined, unless each one repeats all that came before."""
        joined = "".join(self.fragments)
        if len(self.fragments) < 2 or isinstance(parse_object(joined), dict):
            return joined
        last = self.fragments[-1]
        grows = all(b.startswith(a) for a, b in zip(self.fragments, self.fragments[1:], strict=False))
        objects = all(isinstance(parse_object(fragment), dict) for fragment in self.fragments)
        return last if grows or objects else joined


class OpenAICalls:
    """The calls of one turn, in the order they began."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_id: dict[str, _Slot] = {}
        self._by_place: dict[tuple[str, int], _Slot] = {}
        self._legacy: _Slot | None = None

    def feed(self, deltas: object) -> list[ToolCallDelta]:
        """Take the `tool_calls` of one delta: a list of them, or one."""
        items = deltas if isinstance(deltas, list) else [deltas]
        return [self._take(mapping(item), n) for n, item in enumerate(items) if isinstance(item, dict)]

    def feed_legacy(self, delta: object) -> list[ToolCallDelta]:
        """Take a `function_call`; it counts only where no `tool_calls` came."""
        if not isinstance(delta, dict):
            return []
        if self._legacy is None:
            self._legacy = _Slot("")
        self._legacy.add(string(delta.get("name")), delta.get("arguments"))
        return [] if self._slots else [ToolCallDelta(clean(self._legacy.name), self._legacy.size)]

    def calls(self, *, cut: bool) -> list[ToolCall]:
        """The calls; with `cut` the answer ended at a limit, and the last call may be half a one.

        Calls without an id have an empty one.
        """
        slots = self._grafted() or ([self._legacy] if self._legacy else [])
        return [_call(slot, cut=cut and slot is slots[-1]) for slot in slots]

    def extras(self) -> dict[int, Mapping[str, Any]]:
        """What a server wants back with a call (Gemini's `extra_content`, with its signature), by the call's place."""
        return {place: slot.extra for place, slot in enumerate(self._grafted()) if slot.extra}

    def _take(self, item: Mapping[str, Any], position: int) -> ToolCallDelta:
        function = mapping(item.get("function")) or item
        name, arguments = string(function.get("name")), function.get("arguments")
        index = item.get("index")
        by_index = isinstance(index, int) and not isinstance(index, bool)
        place = ("index", index) if isinstance(index, int) and by_index else ("position", position)
        slot = self._find(_id(item.get("id")), place, name, arguments)
        slot.add(name, arguments)
        slot.extra = mapping(item.get("extra_content")) or slot.extra
        return ToolCallDelta(clean(slot.name), slot.size)

    def _find(self, call_id: str, place: tuple[str, int], name: str, arguments: object) -> _Slot:
        """A known id wins; a new id is a new call; without one the place decides."""
        slot = self._by_id.get(call_id) if call_id else None
        if slot is None:
            slot = self._in_place(call_id, place, name, arguments)
        if slot is None:
            slot = _Slot(call_id)
            self._slots.append(slot)
        if call_id and not slot.id:
            slot.id = call_id
        if slot.id:
            self._by_id[slot.id] = slot
        self._by_place[place] = slot
        return slot

    def _in_place(self, call_id: str, place: tuple[str, int], name: str, arguments: object) -> _Slot | None:
        """The call that a delta whose id is not known goes on with, None where it begins another."""
        slot = self._by_place.get(place)
        if slot is None:
            goes_on = not call_id and not name and place[0] == "position" and self._slots
            return self._slots[-1] if goes_on else None
        if call_id and not slot.id:  # an id that comes late, unless that call was over
            return None if slot.name and slot.finished() else slot
        return None if call_id or _another(slot, name, arguments) else slot

    def _grafted(self) -> list[_Slot]:
        """The slots at the end, nameless ones that complete the call before them joined to it."""
        out: list[_Slot] = []
        for slot in self._slots:
            before = out[-1] if out else None
            if before and not slot.name and not slot.id and not before.finished():
                joined = before.raw() + slot.raw()
                if isinstance(parse_object(joined), dict):
                    before.fragments = [joined]
                    continue
            out.append(slot)
        self._slots = out
        return out


def _another(slot: _Slot, name: str, arguments: object) -> bool:
    """Whether a named delta without an id, in the place of `slot`, begins another call."""
    if not name or not slot.name:
        return False
    if name == slot.name:
        if isinstance(arguments, dict):
            return slot.whole is not None and slot.whole != arguments
        text = string(arguments).strip()
        if not text.startswith("{") or text == "".join(slot.fragments).strip():
            return False
        return slot.finished() and slot.fragments != ["{}"] and not text.startswith("".join(slot.fragments))
    return not name.startswith(slot.name) and slot.finished()


def _call(slot: _Slot, *, cut: bool) -> ToolCall:
    if slot.whole is not None:
        try:
            text = json.dumps(clean_value(slot.whole))
        except (RecursionError, ValueError):
            return ToolCall(slot.id, clean(slot.name), None, None, "the arguments are nested too deeply")
        return make_call(slot.id, slot.name, text)
    return make_call(slot.id, slot.name, slot.raw(), cut=cut)


def _id(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return clean(string(value))
