"""Takes secrets out of bytes, in every encoding a server may plausibly echo them in, wherever chunks are cut.

Caught, in any mixture within a family: the secret raw or inside a rendered format (`Bearer x`); percent
encoding of any or all bytes, plus for a blank; JSON, JavaScript and Python escapes; HTML entities by name or number;
hexadecimal in any case, bytes perhaps apart by one of ` :,_-`; Base64 in either alphabet, padded or not, wrapped
or not, at any alignment and so inside `Basic`.

Not caught, by this or any filter: encodings of encodings, UTF-16, other alphabets (rot13, Base32), compressed
or enciphered text, hashes, and a secret in pieces. The allowed host is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from core.effects.renderings import Rendering, renderings

MIN_SECRET: Final = 8
"""Characters of the shortest secret that can be bound: shorter ones would be found where they are not."""


class Redactor:
    """Replaces the secrets of `secrets` (name to value) by `[redacted:NAME]` in a stream of bytes.

    What comes out does not depend on how the stream is cut. Holds back at most twice the longest rendering
    of a secret. Raises ValueError for a secret under 8 characters; it cannot be bound.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        for name, value in secrets.items():
            if len(value) < MIN_SECRET:
                raise ValueError(f"the secret {name!r} has under {MIN_SECRET} characters and cannot be bound")
        self._marks, self._labels, self._longest = _looked_for(tuple(secrets.items()))
        self._reset()

    def _reset(self) -> None:
        self._held = b""
        self._covered = 0  # how many of the held bytes belong to a secret already replaced
        self._next = [0] * len(self._marks)  # where in the held bytes each rendering is looked for next

    def __repr__(self) -> str:
        return f"Redactor({', '.join(self._labels)})"

    def feed(self, data: bytes) -> bytes:
        """Take more of the stream; returns what can be said to hold no secret."""
        if not self._marks:
            return bytes(data)
        self._held += data
        if len(self._held) < 2 * self._longest:
            return b""
        decided = len(self._held) - self._longest
        # The byte before an undecided place may hold some of a secret's bits.
        return self._release(decided, decided - 1)

    def flush(self) -> bytes:
        """The rest of the stream; the redactor can then take another."""
        rest = self._release(len(self._held), len(self._held))
        self._reset()
        return rest

    def _release(self, decided: int, limit: int) -> bytes:
        """Give out the held bytes up to `limit`, the secrets that begin before `decided` replaced."""
        out: list[bytes] = []
        at = self._covered
        for start, end, name in self._spans(decided):
            if start >= at:
                out += (self._held[at:start], self._labels[name])
            at = max(at, end)
        if at < limit:
            out.append(self._held[at:limit])
            at = limit
        self._held = self._held[limit:]
        self._covered = at - limit
        self._next = [place - limit for place in self._next]
        return b"".join(out)

    def _spans(self, decided: int) -> list[tuple[int, int, str]]:
        """Where secrets stand that begin before `decided`, by place, longer before shorter."""
        spans = []
        for index, (rendering, name) in enumerate(self._marks):
            at = self._next[index]
            while span := rendering.find(self._held, at, decided):
                start, at = span
                lead = start > 0 and self._held[start - 1] in rendering.lead
                spans.append((start - lead, at, name))
            self._next[index] = max(at, decided)
        return sorted(spans, key=lambda span: (span[0], -span[1]))


Marks = tuple[tuple[Rendering, str], ...]


@lru_cache(maxsize=64)
def _looked_for(secrets: tuple[tuple[str, str], ...]) -> tuple[Marks, Mapping[str, bytes], int]:
    """What is looked for, with the secret's name; what is put in its place; the most bytes one takes."""
    # The longest first: where two begin at one place, it gives the name.
    ordered = sorted(secrets, key=lambda item: -len(item[1]))
    marks = tuple((rendering, name) for name, value in ordered for rendering in renderings(value))
    labels = {name: _label(name, marks) for name, _ in secrets}
    return marks, labels, max((rendering.longest for rendering, _ in marks), default=0)


def _label(name: str, marks: Marks) -> bytes:
    """`[redacted:NAME]`, or less where that would itself show a secret."""
    for label in (f"[redacted:{name}]".encode(), b"[redacted]"):
        if not any(rendering.find(label, 0, len(label)) for rendering, _ in marks):
            return label
    return b"***"


def redact(data: bytes, secrets: Mapping[str, str]) -> bytes:
    """`data` with the secrets (name to value) replaced by `[redacted:NAME]`; ValueError as for `Redactor`."""
    redactor = Redactor(secrets)
    return redactor.feed(data) + redactor.flush()


__all__ = ["MIN_SECRET", "Redactor", "Rendering", "redact"]
