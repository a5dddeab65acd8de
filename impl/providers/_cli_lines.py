"""What the parsers of all CLIs share: lines into objects, objects into plain values, nothing of it raising."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from impl.providers._calls import count

_MOST_DOLLARS: Final = 10**9
FROM_OUTSIDE: Final = frozenset({130, 137, 143})
"""Exit codes by which a shell or a launcher says that a signal ended it: interrupt, kill, terminate."""


def line_object(line: str) -> dict[str, Any] | None:
    """The object a line holds; None for anything else (a warning in the middle of the stream, half a line)."""
    line = line.strip()
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def part(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object under `name`, empty where it is none."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def number(data: Mapping[str, Any], name: str) -> int:
    """The count under `name`; 0 where it is none, or one that cannot be."""
    return count(data.get(name)) or 0


def whole(data: Mapping[str, Any], name: str) -> int | None:
    """The whole number under `name`, None where it is none."""
    value = data.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def dollars(data: Mapping[str, Any], name: str) -> Decimal | None:
    """The amount under `name`, None where it is none, or one that nothing costs."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_DOLLARS:
        return None
    return Decimal(str(value))


def text_of(content: Any) -> str:
    """The text of a tool result: a string, or the texts of its blocks, a line each."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else json.dumps(content, ensure_ascii=False)
    texts = [str(block.get("text", "")) for block in content if isinstance(block, dict) and "text" in block]
    return "\n".join(texts)


def last_line(text: str) -> str:
    """The last line that says something, without its time stamp's noise; at most 500 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


def status_detail(status: int) -> str:
    """ProviderError's detail for an HTTP status."""
    match status:
        case 401 | 403:
            return "auth"
        case 402:
            return "quota"
        case 404:
            return "not_found"
        case 408 | 504:
            return "timeout"
        case 429:
            return "rate_limit"
        case 529 | 503:
            return "overloaded"
        case _ if 400 <= status < 500:
            return "bad_request"
        case _:
            return "server"
