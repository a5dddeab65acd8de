"""A response body as it comes, decoded within a cap."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from core import DenialReason, Denied

_PIECE: Final = 65_536
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class Refusal(Exception):
    """An effect ends here; `denied` says why. It holds no text of the server's or of a library's."""

    def __init__(self, reason: DenialReason, detail: str, *, sent: bool = True) -> None:
        super().__init__(detail)
        self.denied = Denied(reason, detail, sent)


class Body:
    """Takes the raw bytes of a body and gives them decoded; raises Refusal past `limit` bytes of either.

    `codings` is the value of Content-Encoding, all such headers joined: none, identity, gzip or deflate, once.
    """

    def __init__(self, codings: str, limit: int) -> None:
        names = [name for name in (part.strip().lower() for part in codings.split(",")) if name not in ("", "identity")]
        if len(names) > 1:
            raise Refusal(DenialReason.ENCODING, "the answer is encoded more than once")
        if names and names[0] not in _WINDOWS:
            raise Refusal(DenialReason.ENCODING, "the answer has an encoding other than gzip or deflate")
        self._inflater = zlib.decompressobj(_WINDOWS[names[0]]) if names else None
        self._limit = limit
        self._taken = 0
        self._given = 0

    @property
    def decoded(self) -> bool:
        """Whether the body was encoded, so that what comes out is not what was sent."""
        return self._inflater is not None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The next bytes of the body, in pieces of bounded size."""
        self._taken += len(chunk)
        if self._taken > self._limit:
            self.too_large()
        if self._inflater is None:
            yield chunk
            return
        more = True
        while more:
            if self._inflater.eof and chunk:
                raise Refusal(DenialReason.ENCODING, "the encoded answer goes on after its end")
            try:
                piece = self._inflater.decompress(chunk, _PIECE)
            except zlib.error:
                raise Refusal(DenialReason.ENCODING, "the encoded answer is damaged") from None
            self._given += len(piece)
            if self._given > self._limit:
                self.too_large()
            if piece:
                yield piece
            chunk = self._inflater.unconsumed_tail or self._inflater.unused_data
            more = bool(chunk) or len(piece) == _PIECE

    def end(self) -> None:
        """Say that the body has ended; raises Refusal where its encoding has not."""
        if self._inflater is not None and self._taken and not self._inflater.eof:
            raise Refusal(DenialReason.TRUNCATED, "the encoded answer ends before it is whole")

    def too_large(self) -> None:
        """Raises Refusal: the body is over the cap."""
        raise Refusal(DenialReason.RESPONSE_TOO_LARGE, f"the answer is over {self._limit} bytes; ask for less of it")
