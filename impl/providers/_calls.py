"""What both model APIs share about a turn's parts: safe text, tool arguments, ids and counts."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, NoReturn
from uuid import uuid4

from core import Block, Finish, Message, ToolCall

CUT: Final = "the answer was cut off in the middle of this call, so it was not run; send it again, shorter"
REFUSED: Final = "the model refused in the same answer, so this call was not run"


# --- text ----------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """`text` as valid Unicode: surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_value(value: Any) -> Any:
    """A JSON value with every string, keys included, made valid Unicode. Raises RecursionError."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_value(item) for item in value]
    return value


class TextBuffer:
    """Text that arrives in pieces; a surrogate pair may be cut between two of them."""

    __slots__ = ("_held", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._held = ""

    def add(self, piece: str) -> str:
        """Take a piece; returns what may be shown of it now."""
        piece = self._held + piece
        self._held = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            self._held, piece = piece[-1], piece[:-1]
        piece = clean(piece)
        if piece:
            self._parts.append(piece)
        return piece

    def text(self) -> str:
        """All of it, valid Unicode."""
        return "".join(self._parts) + ("�" if self._held else "")


# --- tool calls ----------------------------------------------------------------------------------------


def parse_object(raw: str) -> Mapping[str, Any] | str:
    """The JSON object in `raw`, or what is wrong with it in words. NaN and infinities are not JSON."""
    try:
        value = json.loads(raw, parse_constant=_no_constant, parse_float=_finite)
        value = clean_value(value)
    except RecursionError:
        return "the arguments are nested too deeply"
    except ValueError as error:
        return f"the arguments are not valid JSON: {clean(str(error))[:200]}"
    if not isinstance(value, dict):
        return f"the arguments are a JSON {_json_kind(value)}, not an object"
    return value


def make_call(call_id: str, name: str, raw: str, *, cut: bool = False) -> ToolCall:
    """A ToolCall from what the model sent. Blank arguments are `{}`, unless the answer was `cut` there."""
    name = clean(name)
    if not raw.strip():
        if cut:
            return ToolCall(call_id, name, None, raw, CUT)
        return _named(ToolCall(call_id, name, {}))
    parsed = parse_object(raw)
    if isinstance(parsed, str):
        return ToolCall(call_id, name, None, clean(raw), CUT if cut else parsed)
    return _named(ToolCall(call_id, name, parsed))


def _named(call: ToolCall) -> ToolCall:
    if call.name:
        return call
    return replace(call, problem="the call names no tool")


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number too large")
    return value


def _json_kind(value: Any) -> str:
    match value:
        case list():
            return "array"
        case str():
            return "string"
        case None:
            return "null"
        case bool():
            return "boolean"
        case _:
            return "number"


# --- ids -----------------------------------------------------------------------------------------------


def new_seed() -> str:
    """What makes the ids of one turn unlike those of every other."""
    return uuid4().hex[:16]


def taken_ids(messages: Sequence[Message]) -> set[str]:
    """Ids of the calls already in a conversation."""
    return {b.id for m in messages if m.role == "assistant" for b in m.blocks if isinstance(b, ToolCall)}


def unique_ids(blocks: Sequence[Block], taken: Collection[str], seed: str) -> tuple[Block, ...]:
    """The same blocks, calls renamed where their id is empty or already used in the conversation.

    Some servers number the calls of every turn from zero. An id means nothing to a server beyond pairing a
    call with its result, so a new one is harmless.
    """
    used = set(taken)
    out: list[Block] = []
    for position, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            wanted = block.id
            if not wanted or wanted in used:
                block = replace(block, id=f"call_{seed}_{position}")
            used.add(block.id)
        out.append(block)
    return tuple(out)


def fit_id(text: str, pattern: re.Pattern[str], size: int = 24) -> str:
    """`text` where it matches `pattern` whole, else a stable stand-in of `size` hex digits."""
    if pattern.fullmatch(text):
        return text
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:size]


# --- numbers and ends ----------------------------------------------------------------------------------


_MOST_TOKENS: Final = 10**15
"""More than any count of tokens can be, and far less than a store's numbers hold."""


def count(value: object) -> int | None:
    """A count of tokens as servers send it, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        whole = int(value)
    except (ValueError, OverflowError):  # NaN, infinity
        return None
    return whole if 0 <= whole <= _MOST_TOKENS else None


def settle_finish(finish: Finish, blocks: Sequence[Block]) -> Finish:
    """The finish that the blocks bear out: calls decide between `stop` and `tool_calls`."""
    has_calls = any(isinstance(block, ToolCall) for block in blocks)
    if finish in ("stop", "tool_calls", "pause") and has_calls:
        return "tool_calls"
    return "stop" if finish == "tool_calls" else finish


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def string(value: object) -> str:
    """`value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""
