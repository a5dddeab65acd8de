"""What a command printed: the live text, and at its end the head and tail within a cap."""

from __future__ import annotations

import codecs


class Output:
    """Collects the bytes of one command, at most one and a half times `cap` of them."""

    def __init__(self, cap: int) -> None:
        self._cap = max(cap, 0)
        self._first = bytearray()
        self._last = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """Take bytes of the first `cap`; returns the whole characters they complete."""
        data = data[: self._cap - len(self._first)]
        self._first += data
        return self._decoder.decode(data)

    def feed_tail(self, data: bytes, skipped: int) -> str:
        """Take bytes from beyond `cap`, before the first of which `skipped` bytes were dropped."""
        gap = ""
        if not self._last and skipped > 0:
            gap = self._decoder.decode(b"", final=True) + left_out(skipped)
            self._decoder.reset()
            data = from_whole_character(data)
        self._last += data[: self._cap - len(self._last)]
        return gap + self._decoder.decode(data)

    def rest(self) -> str:
        """The live text of a character that never became whole."""
        return self._decoder.decode(b"", final=True)

    def result(self, size: int | None = None) -> tuple[str, bool, int]:
        """(text, whether bytes were left out, bytes printed in all); `size` is None where the end was not heard."""
        held = len(self._first) + len(self._last)
        size = held if size is None else size
        if size <= self._cap:
            return self._first.decode("utf-8", "replace"), False, size
        half = self._cap // 2
        head = to_whole_character(bytes(self._first[:half]))
        tail = bytes(self._first[half:] + self._last)
        tail = from_whole_character(tail[max(0, len(tail) - half) :])
        gap = left_out(size - len(head) - len(tail))
        return head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace"), True, size


def left_out(count: int) -> str:
    """The line that stands where bytes were dropped."""
    return f"\n[… {count:,} bytes left out …]\n"


def to_whole_character(data: bytes) -> bytes:
    """`data` without the beginning of a UTF-8 character that its end cuts."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # a lead byte: how many bytes does it announce?
            need = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if need > back else data
        if byte < 0x80:
            break
    return data


def from_whole_character(data: bytes) -> bytes:
    """`data` without the end of a UTF-8 character that its beginning cuts."""
    skip = 0
    while skip < min(3, len(data)) and 0x80 <= data[skip] < 0xC0:
        skip += 1
    return data[skip:]
