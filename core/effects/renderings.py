"""How a secret may look when it is echoed back: one pattern for each family of encodings."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URLSAFE: Final = bytes.maketrans(b"+/", b"-_")
_SHORT_ESCAPES: Final = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    "\b": "b",
    "\f": "f",
    "\n": "n",
    "\r": "r",
    "\t": "t",
}
# Leading zeros of `&#0065;` that are looked for.
_ZEROS: Final = 8
# Units that a place must match before the whole pattern, which is costly to compile, is tried there.
_HEAD: Final = 4
LONG_RUN: Final = 64
"""Bytes of it that must stand at a place, where it does not stand whole, before it is worth more than the next byte."""


class Unit(NamedTuple):
    """One character in each of its spellings: a pattern, and the most bytes it takes."""

    pattern: bytes
    longest: int


class Rendering:
    """A secret in one family of encodings. `longest` is the most bytes it takes, `lead` the bytes that may
    stand just before and hold some of its bits. `plain` is it with nothing escaped, `turns` are the bytes at which
    it may be spelled in another way."""

    def __init__(
        self,
        units: Sequence[Unit],
        joiner: Unit,
        tail: bytes = b"",
        lead: bytes = b"",
        *,
        plain: bytes = b"",
        turns: bytes = b"",
    ) -> None:
        self.longest = sum(unit.longest for unit in units) + joiner.longest * len(units) + 1
        self.lead = lead
        self._source = joiner.pattern.join(unit.pattern for unit in units) + tail
        self._head = re.compile(joiner.pattern.join(unit.pattern for unit in units[:_HEAD]), re.DOTALL)
        self._whole: re.Pattern[bytes] | None = None
        spelled = b"|".join(sorted({unit.pattern for unit in units}))
        self._runs = Runs(plain, turns, joiner.pattern + b"(?:" + spelled + b")")

    def find(self, data: bytes, start: int, stop: int) -> tuple[int, int] | None:
        """(start, end) of the first place that begins in `start <= place < stop`, without its lead."""
        while start < stop:
            head = self._head.search(data, start)
            if head is None or head.start() >= stop:
                return None
            if self._whole is None:
                self._whole = re.compile(self._source, re.DOTALL)
            if whole := self._whole.match(data, head.start()):
                return whole.span()
            start = self._runs.after(data, head.start())
        return None


class Runs:
    """Where to go on after a place at which a long part of a secret stood: one that repeats itself (a letter many
    times) would else be tried in full at every byte of it. As Knuth, Morris and Pratt do it, for text in which
    nothing is escaped; elsewhere at the next byte."""

    def __init__(self, plain: bytes, turns: bytes, spelled: bytes) -> None:
        self._plain = b"" if set(plain) & set(turns) else plain
        self._turns = frozenset(turns)
        self._spelled = spelled
        self._another: re.Pattern[bytes] | None = None
        self._borders: list[int] = []

    def after(self, data: bytes, start: int) -> int:
        """The first place after `start`, where it does not stand, at which it may begin."""
        if data[start : start + LONG_RUN] != self._plain[:LONG_RUN] or len(self._plain) <= LONG_RUN:
            return start + 1
        plain, borders = self._plain, self._borders or self._look()
        at, known = start + LONG_RUN, LONG_RUN  # data[at - known : at] is the beginning of it
        while at < len(data):
            byte = data[at]
            if byte in self._turns and self._may_turn(data, at):
                return max(at - known, start + 1)
            while known and byte != plain[known]:
                known = borders[known]
            if byte == plain[known]:
                known += 1
            at += 1
            if known == len(plain) and at - known > start:
                return at - known
            if known < LONG_RUN and at - known > start:
                return at - known
            if known == len(plain):
                known = borders[known]
        return at

    def _may_turn(self, data: bytes, at: int) -> bool:
        """Whether a character of it begins here, spelled in some way."""
        if self._another is None:
            self._another = re.compile(self._spelled, re.DOTALL)
        return self._another.match(data, at) is not None

    def _look(self) -> list[int]:
        """For each length of a beginning of it, the longest shorter one that ends it too."""
        borders, border = [0, 0], 0
        for byte in self._plain[1:]:
            while border and byte != self._plain[border]:
                border = borders[border]
            border += byte == self._plain[border]
            borders.append(border)
        self._borders = borders
        return borders


@lru_cache(maxsize=64)
def renderings(secret: str) -> tuple[Rendering, ...]:
    """Every family for one secret: its characters raw or escaped, Base64 at each alignment, hexadecimal."""
    raw = secret.encode("utf-8")
    characters = Rendering([_character(c) for c in secret], Unit(b"", 0), plain=raw, turns=b"%\\&+")
    return (characters, *(_base64(raw, before) for before in range(3)), _hexadecimal(raw))


@lru_cache(maxsize=512)
def _character(character: str) -> Unit:
    """Raw, percent-encoded, plus for a blank, JSON and JavaScript escapes, HTML entities; mixed as they come."""
    first, *others = [_byte(byte) for byte in character.encode("utf-8")]
    rest = [_any(options) for options in others]
    return _any([*_html(character), *_javascript(character), *(_run([option, *rest]) for option in first)])


def _any(options: Sequence[Unit]) -> Unit:
    # Each option begins with a byte, not a group: then a search skips quickly to places where one may begin.
    return Unit(b"(?:" + b"|".join(option.pattern for option in options) + b")", max(o.longest for o in options))


def _run(units: Sequence[Unit]) -> Unit:
    return Unit(b"".join(unit.pattern for unit in units), sum(unit.longest for unit in units))


def _byte(byte: int) -> list[Unit]:
    digits = _hex_digits(f"{byte:02x}")
    plus = [Unit(rb"\+", 1)] if byte == 0x20 else []
    return [Unit(b"%" + digits, 3), Unit(rb"\\x" + digits, 4), *plus, Unit(re.escape(bytes([byte])), 1)]


def _javascript(character: str) -> list[Unit]:
    halves = character.encode("utf-16-be").hex()
    escapes = [rb"\\u" + _hex_digits(halves[i : i + 4]) for i in range(0, len(halves), 4)]
    number = _hex_digits(f"{ord(character):x}")
    units = [
        Unit(b"".join(escapes), 6 * len(escapes)),
        Unit(rb"\\u\{0{0,%d}%s\}" % (_ZEROS, number), _ZEROS + 10),
        Unit(rb"\\U0{0,%d}%s" % (8 - len(f"{ord(character):x}"), number), 10),
    ]
    if "\x80" <= character <= "\xff":
        units.append(Unit(rb"\\x" + number, 4))
    if short := _SHORT_ESCAPES.get(character):
        units.append(Unit(rb"\\" + re.escape(short.encode()), 2))
    return units


def _html(character: str) -> list[Unit]:
    number = ord(character)
    decimal = b"&#0{0,%d}%d;?" % (_ZEROS, number)
    hexadecimal = b"&#[xX]0{0,%d}%s;?" % (_ZEROS, _hex_digits(f"{number:x}"))
    names = _entities().get(character, ())
    return [
        *(Unit(b"&" + re.escape(name.encode()), len(name) + 1) for name in names),
        Unit(decimal, _ZEROS + 10),
        Unit(hexadecimal, _ZEROS + 10),
    ]


@lru_cache(maxsize=1)
def _entities() -> dict[str, list[str]]:
    from html.entities import html5  # a large table, wanted only where there is a secret

    names: dict[str, list[str]] = {}
    for name, text in html5.items():
        names.setdefault(text, []).append(name)
    for same in names.values():
        same.sort(key=len, reverse=True)  # `&amp;` before `&amp`
    return names


def _hex_digits(digits: str) -> bytes:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in digits).encode()


def _hexadecimal(raw: bytes) -> Rendering:
    units = [Unit(_hex_digits(f"{byte:02x}"), 2) for byte in raw]
    return Rendering(units, Unit(b"[ :,_-]?", 1), plain=raw.hex().encode(), turns=b" :,_-ABCDEF")


def _base64(raw: bytes, before: int) -> Rendering:
    """Base64 of any text that holds `raw` after `before` bytes (modulo 3): the characters `raw` alone decides,
    and beside them the two that hold only some of its bits, where they can be its own."""
    first = -(-before * 8 // 6)
    end = (before + len(raw)) * 8
    last = end // 6
    coded = base64.b64encode(b"\0" * before + raw + b"\0\0\0")
    lead = _partial(coded[first - 1], mask=(1 << (first * 6 - before * 8)) - 1) if before else b""
    spare = 6 - end % 6
    tail = b"" if spare == 6 else b"(?:%s[%s])?" % (_WRAP.pattern, re.escape(_partial(coded[last], 63 & -(1 << spare))))
    plain, turns = coded[first:last], b"%\\&+-/_\r\n"
    return Rendering([_base64_digit(digit) for digit in plain], _WRAP, tail, lead, plain=plain, turns=turns)


# Base64 is wrapped in mail and by many command lines, and the line ends may be escaped in JSON.
_WRAP: Final = Unit(rb"(?:\r?\n|(?:\\r)?\\n)?", 4)


def _partial(digit: int, mask: int) -> bytes:
    """The Base64 digits, of both alphabets, that agree with `digit` in the bits of `mask`."""
    bits = _ALPHABET.index(digit) & mask
    same = bytes(other for value, other in enumerate(_ALPHABET) if value & mask == bits)
    return bytes(sorted({*same, *same.translate(_URLSAFE)}))


def _base64_digit(digit: int) -> Unit:
    match digit:
        case 0x2B:
            return Unit(rb"(?:[+-]|%2[bB]|\\u002[bB]|&#43;|&#[xX]2[bB];|&plus;)", 6)
        case 0x2F:
            return Unit(rb"(?:[/_]|\\/|%2[fF]|\\u002[fF]|&#47;|&#[xX]2[fF];|&sol;)", 6)
        case _:
            return Unit(bytes([digit]), 1)
