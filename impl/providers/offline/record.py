"""What has happened so far, read from a request's messages: words, replies, and calls with their results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from core import Message, Text, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Said:
    """Words of the person's."""

    text: str


@dataclass(frozen=True, slots=True)
class Replied:
    """Words of ours."""

    text: str


@dataclass(frozen=True, slots=True)
class Used:
    """A call of ours and what it gave. `data` is the output where it is a JSON object, else empty."""

    tool: str
    args: Mapping[str, Any]
    ok: bool
    output: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> Mapping[str, Any]:
        """`{"code","message","hint"}` of a failed call, whatever of it there is."""
        error = self.data.get("error")
        return error if isinstance(error, dict) else {}

    @property
    def undone(self) -> bool:
        """Whether it failed only because the session stopped: it may be called again."""
        return not self.ok and self.output.startswith(_STOPPED)

    @property
    def unanswered(self) -> bool:
        """Whether it asked the person, who said something else instead."""
        return not self.ok and self.output.startswith(_UNANSWERED)


Item = Said | Replied | Used


@dataclass(frozen=True, slots=True)
class Reply:
    """A move: say this and let the person speak."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A move: call this tool. Arguments that are None are left out."""

    tool: str
    args: Mapping[str, Any]
    say: str = ""


Move = Reply | Call

# How the loop begins what it says itself: nudges, and results of calls that a stop overtook.
_NUDGES: Final = ("You are repeating yourself", "Your reply was ", "Go on.")
_STOPPED: Final = ("The outcome of this call is unknown", "This call never ran", "The result of this call was stored")
_UNANSWERED: Final = "The person did not answer this"


def read(messages: Sequence[Message]) -> list[Item]:
    """Everything in order. A call stands where it was made; one without a result is left out."""
    results = {b.id: b for m in messages if m.role == "user" for b in m.blocks if isinstance(b, ToolResult)}
    items: list[Item] = []
    for message in messages:
        calls = any(isinstance(block, ToolCall) for block in message.blocks)
        for block in message.blocks:
            if isinstance(block, Text) and block.text.strip():
                if message.role == "assistant":
                    # Words beside a call announce it; they are no reply.
                    items.extend([] if calls else [Replied(block.text)])
                elif not block.text.startswith(_NUDGES):
                    items.append(Said(block.text))
            elif isinstance(block, ToolCall) and block.id in results:
                items.append(_used(block, results[block.id]))
    return items


def _used(call: ToolCall, result: ToolResult) -> Used:
    return Used(call.name, call.args or {}, result.ok, result.output, json_object(result.output))


def json_object(text: str) -> dict[str, Any]:
    """The JSON object that `text` is; what can be read of it where a long one was cut in the middle; else {}."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _readable(text)
    return value if isinstance(value, dict) else {}


# The platform writes objects with one space of indent: a key of the object itself, a row of one of its lists.
_KEY: Final = re.compile(r'^ "(\w+)": ?', re.MULTILINE)
_ROW: Final = re.compile(r"^  (?=\{)", re.MULTILINE)


def _readable(text: str) -> dict[str, Any]:
    """The keys of a cut object whose values are whole, and of its lists the rows that are."""
    found: dict[str, Any] = {}
    keys = list(_KEY.finditer(text))
    ends = [key.start() for key in keys[1:]] + [len(text)]
    for key, end in zip(keys, ends, strict=False):
        value = _value_at(text, key.end())
        if value is None and text[key.end() : key.end() + 1] == "[":
            every = [_value_at(text, row.end()) for row in _ROW.finditer(text, key.end(), end)]
            value = [row for row in every if row is not None]
        if value is not None:
            found[key[1]] = value
    return found


def _value_at(text: str, at: int) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text, at)[0]
    except (ValueError, RecursionError):
        return None


def rows(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; [] for anything else."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """A list of anything, or one thing, as words; [] for nothing."""
    if value is None or value == "":
        return []
    every = value if isinstance(value, list) else [value]
    return [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False, sort_keys=True) for row in every]


def spent(items: Sequence[Item], tool: str, args: Mapping[str, Any]) -> bool:
    """Whether exactly this call has failed before, other than by a stop: it is never made again."""
    return any(
        isinstance(i, Used) and i.tool == tool and dict(i.args) == dict(args) and not i.ok and not i.undone
        for i in items
    )


def clip(text: str, limit: int) -> str:
    """The head of `text` up to a line end within `limit` characters, saying what was left out."""
    if len(text) <= limit:
        return text
    at = text.rfind("\n", limit // 2, limit)
    kept = text[: at if at > 0 else limit].rstrip()
    return f"{kept}\n… ({len(text) - len(kept):,} more characters)"


def brief(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
