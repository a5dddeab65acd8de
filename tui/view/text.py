"""Words and numbers as people read them: ages, tokens, money, digests, and text made safe to print."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Final

from rich.cells import set_cell_size


class Tone(StrEnum):
    """What a piece of text means, beside its sign and word. Themes give each a look."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    YOU = "you"  # the person's turn
    FAIL = "fail"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one line in one tone. `act` is what a click on it does: an action of the widget or screen around it,
    the same that a key does there."""

    text: str
    tone: Tone = Tone.PLAIN
    act: str = ""


Line = tuple[Span, ...]

#: Escape sequences whole, then any other control character, then those that reorder text on screen.
_UNPRINTABLE: Final = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def safe(text: str) -> str:
    """`text` without what a terminal would obey: escape sequences and controls go, newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _UNPRINTABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, limit: int = 300) -> str:
    """`text` as one safe line of at most `limit` characters."""
    line = " ".join(safe(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def column(text: str, width: int) -> str:
    """`text` cut or padded to exactly `width` cells, whatever script it is in."""
    return set_cell_size(safe(text), width)


def button(key: str, label: str, act: str) -> Line:
    """A key and what it does, which a click does too."""
    return Span(key, Tone.STRONG, act), Span(f" {label}", act=act)


def line(*parts: str | tuple[str, Tone]) -> Line:
    """A line of plain strings and (text, tone) pairs."""
    return tuple(Span(part) if isinstance(part, str) else Span(part[0], part[1]) for part in parts)


def plain_text(spans: Iterable[Span]) -> str:
    """The text of a line."""
    return "".join(span.text for span in spans)


def short(digest: str | None) -> str:
    """The first eight hex digits of a digest, the way every list names it; `-` for none."""
    if not digest:
        return "-"
    return str(digest).removeprefix("sha256:")[:8]  # a damaged record may hold anything


def tokens(count: int) -> str:
    """`812`, `48.1k`, `112k`, `3.4M`."""
    if count < 1000:
        return str(count)
    if count < 100_000:
        return f"{count / 1000:.1f}".removesuffix(".0") + "k"
    if count < 1_000_000:
        return f"{count / 1000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def money(usd: str | None) -> str:
    """`$0.04`, four places below a cent, `unknown` where there is no price."""
    if usd is None:
        return "unknown"
    try:
        value = Decimal(usd)
    except InvalidOperation:
        return "unknown"
    if Decimal(0) < value < Decimal("0.01"):
        return f"${value:.4f}"
    return f"${value:,.2f}"


def parse_time(at: str | None) -> datetime | None:
    """An ISO 8601 time as stored, or None where it is none."""
    if not at:
        return None
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def age(at: str | None, now: str) -> str:
    """How long ago `at` was: `12 s`, `9 m`, `3 h`, `5 d`; empty where unknown."""
    then, today = parse_time(at), parse_time(now)
    if then is None or today is None:
        return ""
    seconds = max(0, int((today - then).total_seconds()))
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def clock(at: str | None, *, seconds: bool = False) -> str:
    """The local time of day, `14:02` or `14:02:11`; empty where unknown."""
    found = parse_time(at)
    if found is None:
        return ""
    return found.astimezone().strftime("%H:%M:%S" if seconds else "%H:%M")


def day(at: str | None) -> str:
    """The local date as `2026-01-31`; empty where unknown."""
    found = parse_time(at)
    return "" if found is None else found.astimezone().strftime("%Y-%m-%d")


def midnight(now: str) -> datetime | None:
    """When the local day began."""
    found = parse_time(now)
    return None if found is None else found.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)


def when(at: str | None, now: str) -> str:
    """`14:02` where it was today, else `01-31 14:02`."""
    if day(at) == day(now):
        return clock(at)
    found = parse_time(at)
    return "" if found is None else found.astimezone().strftime("%m-%d %H:%M")


def plural(count: int, word: str, many: str | None = None) -> str:
    """`1 problem`, `2 problems`, `1,204 lines`."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def took(seconds: float) -> str:
    """A duration: `0.2 s`, `41 s`, `3 m 20 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds // 60)} m {int(seconds % 60)} s"
