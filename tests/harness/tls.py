"""A loopback HTTPS server that sends exactly the bytes a test gives it, under an authority the test made.

    authority = Authority()
    async with TlsServer(authority, [answer(b"hello")]) as server:
        ...                      # connect to 127.0.0.1:server.port as api.example.com
    server.asked[0].headers

A reply is bytes, or pieces of them with pauses in seconds; what follows HANG waits until the client is gone.
After a reply the connection is closed; RESET closes it with a TCP reset. Instead of replies, a function may give the
one to what was asked.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final

import trustme


class _Mark:
    """A named moment in a reply."""


HANG: Final = _Mark()
RESET: Final = _Mark()

Piece = bytes | float | _Mark
Reply = bytes | Iterable[Piece]


def answer(
    body: bytes = b"", *, status: str = "200 OK", headers: Sequence[str] = (), length: int | None = None
) -> bytes:
    """A whole response with a Content-Length, its own or a false one."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(*chunks: bytes, headers: Sequence[str] = ()) -> list[bytes]:
    """A whole response, each chunk a piece of its own."""
    head = "\r\n".join(["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", *headers, "", ""]).encode()
    return [head, *(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks), b"0\r\n\r\n"]


class Authority:
    """A certificate authority of the test's own, and what trusts it."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self.trusting = ssl.create_default_context()
        self._ca.configure_trust(self.trusting)
        self._servers: dict[str, ssl.SSLContext] = {}

    def write(self, path: Path) -> None:
        """Write the authority's certificate to a file."""
        self._ca.cert_pem.write_to_path(str(path))

    def certificate(self, name: str, path: Path) -> None:
        """Write a certificate for a name or address to a file, its key and chain with it."""
        self._ca.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(str(path))

    def server(self, name: str) -> ssl.SSLContext:
        """A server's context with a certificate for `name`."""
        if name not in self._servers:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._ca.issue_cert(name).configure_cert(context)
            self._servers[name] = context
        return self._servers[name]


@dataclass(slots=True)
class Asked:
    """One recorded request; `gone` is set when its client hung up during HANG."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def values(self, name: str) -> list[str]:
        """The values of a header, by its lower-case name."""
        return [value for header, value in self.headers if header == name]


class TlsServer:
    """Gives its replies in order, the last one again and again. `heard` is set once a request came in whole."""

    def __init__(
        self,
        authority: Authority,
        replies: Sequence[Reply] | Callable[[Asked], Reply],
        *,
        name: str = "api.example.com",
        address: str = "127.0.0.1",
    ) -> None:
        self._context = authority.server(name)
        self._replies = replies if callable(replies) else list(replies)
        self._address = address
        self.asked: list[Asked] = []
        self.heard = asyncio.Event()
        self.connections = 0
        self.port = 0

    async def __aenter__(self) -> TlsServer:
        self._server = await asyncio.start_server(self.serve, self._address, self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self.connections += 1
        try:
            asked = await self._read(reader)
            reply = self._reply(asked)
            await self._send([reply] if isinstance(reply, bytes) else reply, asked, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _reply(self, asked: Asked) -> Reply:
        if callable(self._replies):
            return self._replies(asked)
        return self._replies[min(len(self.asked), len(self._replies)) - 1]

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
        first, *lines = head.split("\r\n")[:-2]
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        method, target, _ = first.split(" ")
        length = int(dict(headers).get("content-length", "0"))
        asked = Asked(method, target, headers, await reader.readexactly(length))
        self.asked.append(asked)
        self.heard.set()
        return asked

    async def _send(
        self, pieces: Iterable[Piece], asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for piece in pieces:
            if isinstance(piece, bytes):
                writer.write(piece)
                await writer.drain()
            elif isinstance(piece, float | int):
                await asyncio.sleep(piece)
            elif piece is HANG:
                await reader.read()
                asked.gone.set()
            else:
                plain: socket.socket = writer.get_extra_info("socket")
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return
