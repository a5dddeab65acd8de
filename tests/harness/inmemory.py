"""The replies of a loopback TLS server without its sockets: what a transport connects to instead, where thousands of
effects are wanted and the wire itself is not what is tested.

    monkeypatch.setattr("impl.transport.exchange.httpcore.AnyIOBackend", lambda: InMemory(server.serve))

Bytes, pauses, hang-ups and resets are the server's own; there is only no TLS and no kernel between.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httpcore

Serve = Callable[[asyncio.StreamReader, Any], Awaitable[None]]


class _Writer:
    """The server's end of a connection, as `asyncio.StreamWriter` is to `TlsServer`."""

    def __init__(self, to: asyncio.StreamReader) -> None:
        self._to = to
        self.transport = self

    def write(self, data: bytes) -> None:
        """Give the client bytes."""
        if not self._to.at_eof():
            self._to.feed_data(data)

    async def drain(self) -> None:
        """Let the client have its turn."""
        await asyncio.sleep(0)

    def close(self) -> None:
        """No more comes."""
        if self._to.exception() is None:
            self._to.feed_eof()

    def abort(self) -> None:
        """What is under way is lost."""
        self._to.set_exception(ConnectionResetError())

    def get_extra_info(self, name: str) -> Any:
        """A socket that takes any option."""
        return self

    def setsockopt(self, *option: object) -> None:
        """Taken."""


class _Stream(httpcore.AsyncNetworkStream):
    """The client's end of a connection."""

    def __init__(self, serve: Serve) -> None:
        self._ours, self._theirs = asyncio.StreamReader(limit=1 << 24), asyncio.StreamReader(limit=1 << 24)
        self._serving = asyncio.ensure_future(serve(self._theirs, _Writer(self._ours)))

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes, none at the end."""
        try:
            return await self._ours.read(max_bytes)
        except ConnectionResetError as error:
            raise httpcore.ReadError("reset") from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Give the server bytes."""
        self._theirs.feed_data(buffer)

    async def aclose(self) -> None:
        """Hang up; the server has seen it when this returns."""
        if not self._theirs.at_eof():
            self._theirs.feed_eof()
        await asyncio.wait({self._serving})

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Nothing is enciphered here."""
        return self

    def get_extra_info(self, info: str) -> Any:
        """Nothing is known."""
        return None


class InMemory(httpcore.AsyncNetworkBackend):
    """Connects to `serve`, whatever address is asked for."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection."""
        return _Stream(self._serve)
