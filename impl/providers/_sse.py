"""An incremental decoder of Server-Sent Events: bytes in any cuts go in, whole events come out."""

from __future__ import annotations

from dataclasses import dataclass

#: A line longer than this is no answer of a model. In bytes.
MAX_LINE = 64 * 1024 * 1024


class SseOverflow(ValueError):
    """A line grew past MAX_LINE."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. `data` is its lines joined by newlines. `tail` is true where the stream ended before the
    blank line that closes an event, so that it may have been cut."""

    data: str
    event: str = ""
    tail: bool = False


class SseDecoder:
    """Decodes one stream, as the HTML standard's "event stream interpretation" says.

    Lines end in LF, CRLF or CR; comments and unknown fields are ignored, but for `error`, which is data of an event of
    that name; bytes that are not UTF-8 become
    U+FFFD. Events without data are dropped. Linear in the size of the stream, whatever its cuts.
    """

    __slots__ = ("_buffer", "_data", "_event", "_first", "_scanned", "_skip_lf")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._data: list[str] = []
        self._event = ""
        self._skip_lf = False
        self._first = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes. Raises SseOverflow."""
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        self._buffer += chunk
        events: list[ServerEvent] = []
        start = 0
        while (end := _line_end(self._buffer, max(start, self._scanned))) >= 0:
            line = bytes(self._buffer[start:end])
            start = end + 1
            if self._buffer[end] == 0x0D:
                if start == len(self._buffer):
                    self._skip_lf = True
                elif self._buffer[start] == 0x0A:
                    start += 1
            event = self._line(line)
            if event is not None:
                events.append(event)
        del self._buffer[:start]
        self._scanned = len(self._buffer)
        if self._scanned > MAX_LINE:
            raise SseOverflow(f"a line of more than {MAX_LINE} bytes")
        return events

    def close(self) -> ServerEvent | None:
        """What stood there when the stream ended without the closing blank line, if anything."""
        if self._buffer:
            self._line(bytes(self._buffer))
            self._buffer.clear()
        return self._dispatch(tail=True)

    def _line(self, raw: bytes) -> ServerEvent | None:
        if self._first:
            self._first = False
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if not raw:
            return self._dispatch()
        name, _, value = raw.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "error":  # llama.cpp's way to say it
            self._data.append(value)
            self._event = "error"
        return None

    def _dispatch(self, *, tail: bool = False) -> ServerEvent | None:
        data, event = self._data, self._event
        self._data, self._event = [], ""
        return ServerEvent("\n".join(data), event, tail) if data else None


def _line_end(buffer: bytearray, start: int) -> int:
    lf = buffer.find(b"\n", start)
    cr = buffer.find(b"\r", start, lf if lf >= 0 else len(buffer))
    return cr if cr >= 0 else lf
