"""One HTTPS request to an address that was checked, on a connection of its own, and its answer, redacted."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import anyio
import h11
import httpcore

from core import REDIRECTS, Allowed, DenialReason, EffectResponse, Redactor
from impl.transport.bodies import Body, Refusal

MAX_RESPONSE_HEADERS: Final = 65_536
_USER_AGENT: Final = "artificer"
_PER_ADDRESS_S: Final = 10.0
# Of the connection, or a door to other state; Content-Length no longer fits a redacted body.
_DROPPED: Final = frozenset(
    {
        "alt-svc",
        "connection",
        "content-length",
        "keep-alive",
        "set-cookie",
        "set-cookie2",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_BROKEN: Final = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
    h11.ProtocolError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    OSError,
)


@dataclass(frozen=True, slots=True)
class Redirect:
    """An answer that sends the client elsewhere."""

    status: int
    location: str


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects to the addresses it was given, whatever name is asked for; SNI, Host and verification keep the name."""

    def __init__(self, addresses: Sequence[tuple[str, int]], on_connect: Callable[[], None]) -> None:
        self._addresses = addresses
        self._on_connect = on_connect
        self._inner = httpcore.AnyIOBackend()
        self.connected = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address that takes one."""
        *others, last = self._addresses
        for address in others:
            try:
                return await self._connect(*address)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._connect(*last)

    async def _connect(self, address: str, port: int) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(address, port, _PER_ADDRESS_S)
        self.connected = True
        self._on_connect()
        return stream

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Never: effects go to addresses."""
        raise httpcore.ConnectError("not an address")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


# --- the request as it goes out ------------------------------------------------------------------------


def wire_request(request: Allowed, secret: str | None) -> httpcore.Request:
    """The request with its credential put in. Raises Refusal where the value cannot be sent in its place."""
    target, headers = request.target, list(request.headers)
    binding = request.binding
    if binding is not None:
        if secret is None:
            raise Refusal(
                DenialReason.CREDENTIAL_VALUE, f"the credential {request.credential} has no value", sent=False
            )
        value = binding.render(secret)
        if binding.query is not None:
            joint = "&" if "?" in target else "?"
            target += f"{joint}{quote(binding.query, safe='')}={quote(value, safe='')}"
        elif binding.basic_user is not None:
            pair = f"{binding.basic_user}:{value}".encode()
            headers.append(("Authorization", "Basic " + base64.b64encode(pair).decode("ascii")))
        elif binding.header is not None:
            headers.append((binding.header, _header_value(value, request.credential)))
    return httpcore.Request(
        method=request.method.encode("ascii"),
        url=httpcore.URL(scheme=b"https", host=request.host.encode("ascii"), port=443, target=target.encode("ascii")),
        headers=[(name.encode("ascii"), text.encode("ascii")) for name, text in (*_own(request), *headers)],
        content=request.body,
    )


def _header_value(value: str, credential: str | None) -> str:
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    # The value is not named: it is a secret.
    raise Refusal(
        DenialReason.CREDENTIAL_VALUE,
        f"the value of {credential} is not printable ASCII on one line, so no header can hold it; set it again",
        sent=False,
    )


def _own(request: Allowed) -> Iterator[tuple[str, str]]:
    given = {name.lower() for name, _ in request.headers}
    yield "Host", request.host
    if "user-agent" not in given:
        yield "User-Agent", _USER_AGENT
    if "accept" not in given:
        yield "Accept", "*/*"
    if "accept-encoding" not in given:
        yield "Accept-Encoding", "identity"
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        yield "Content-Length", str(len(request.body))
    yield "Connection", "close"


# --- the exchange --------------------------------------------------------------------------------------


async def exchange(
    request: Allowed,
    secret: str | None,
    addresses: Sequence[tuple[str, int]],
    context: ssl.SSLContext,
    redactor: Redactor,
    max_response: int,
    on_connect: Callable[[], None],
) -> EffectResponse | Redirect:
    """Send one request; the answer's body is not read where it redirects. Raises Refusal.

    `on_connect` is called once there is a connection, so that what is sent may have an effect.
    """
    wire = wire_request(request, secret)
    backend = PinnedBackend(addresses, on_connect)
    with _unlogged():
        async with _answer(wire, request.host, backend, context) as response:
            headers = _headers(response)
            locations = [value for name, value in headers if name == b"location"]
            if response.status in REDIRECTS and locations:
                if len(set(locations)) > 1:
                    raise Refusal(DenialReason.REDIRECT, "the server redirects to several places at once")
                return Redirect(response.status, locations[0].decode("latin-1"))
            return await _read(response, headers, request.method == "HEAD", redactor, max_response)


@asynccontextmanager
async def _answer(
    wire: httpcore.Request, host: str, backend: PinnedBackend, context: ssl.SSLContext
) -> AsyncIterator[httpcore.Response]:
    """The answer to a request once its headers are there; the connection is closed at the end.

    Whatever breaks becomes a Refusal of our own words: a library's may quote a header or a URL.
    """
    connection = httpcore.AsyncHTTPConnection(
        wire.url.origin, ssl_context=context, http1=True, http2=False, retries=0, network_backend=backend
    )
    response: httpcore.Response | None = None
    try:
        response = await connection.handle_async_request(wire)
        yield response
    except _BROKEN as error:
        raise _refusal(error, host, connected=backend.connected, answered=response is not None) from None
    finally:
        if response is not None:
            await response.aclose()
        await connection.aclose()


def _refusal(error: BaseException, host: str, *, connected: bool, answered: bool) -> Refusal:
    # httpcore keeps the error below as the context of its own.
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, ssl.SSLCertVerificationError):
            return Refusal(
                DenialReason.TLS, f"the certificate of {host} is not good: {below.verify_message}", sent=False
            )
        if isinstance(below, h11.RemoteProtocolError) and below.error_status_hint == 431:
            return _too_many_headers()
        below = below.__cause__ or below.__context__
    if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout):
        if connected:
            return Refusal(DenialReason.TLS, f"no secure connection with {host} comes about", sent=False)
        return Refusal(DenialReason.NETWORK, f"{host} takes no connection", sent=False)
    if answered and _ended_early(error):
        return Refusal(DenialReason.TRUNCATED, f"the answer of {host} ends before it is whole")
    if isinstance(error, httpcore.RemoteProtocolError | h11.ProtocolError) and not _ended_early(error):
        return Refusal(DenialReason.PROTOCOL, f"what {host} answers is not HTTP/1.1")
    return Refusal(DenialReason.NETWORK, f"the connection to {host} broke before there was an answer")


def _ended_early(error: BaseException) -> bool:
    if isinstance(error, httpcore.RemoteProtocolError):
        # h11 and httpcore tell an early end from a malformed message by their text alone.
        return str(error).startswith(("peer closed connection", "Server disconnected"))
    return not isinstance(error, h11.ProtocolError)


def _headers(response: httpcore.Response) -> list[tuple[bytes, bytes]]:
    headers = [(name.lower(), value) for name, value in response.headers]
    if sum(len(name) + len(value) + 4 for name, value in headers) > MAX_RESPONSE_HEADERS:
        raise _too_many_headers()
    if response.status < 200:
        raise Refusal(DenialReason.PROTOCOL, "the server wants to speak another protocol")
    return headers


def _too_many_headers() -> Refusal:
    return Refusal(DenialReason.RESPONSE_HEADERS, f"the answer has over {MAX_RESPONSE_HEADERS} bytes of headers")


async def _read(
    response: httpcore.Response,
    headers: Sequence[tuple[bytes, bytes]],
    head: bool,
    redactor: Redactor,
    max_response: int,
) -> EffectResponse:
    out = bytearray()
    decoded = False
    if not head:
        body = Body(b",".join(v for n, v in headers if n == b"content-encoding").decode("latin-1"), max_response)
        decoded = body.decoded
        lengths = [value for name, value in headers if name == b"content-length"]
        if lengths and int(lengths[0]) > max_response:
            body.too_large()
        async for chunk in response.aiter_stream():
            for piece in body.feed(chunk):
                out += redactor.feed(piece)
        body.end()
        out += redactor.flush()
    return EffectResponse(response.status, _clean(headers, decoded, redactor), bytes(out))


def _clean(headers: Sequence[tuple[bytes, bytes]], decoded: bool, redactor: Redactor) -> tuple[tuple[str, str], ...]:
    dropped = _DROPPED | {"content-encoding"} if decoded else _DROPPED
    kept = [(n, v) for n, v in headers if (name := n.decode("latin-1")) not in dropped and name[:6] != "proxy-"]
    # One pass for all: no header holds a NUL, and no secret spans one.
    joined = b"\0".join(part for header in kept for part in header)
    parts = (redactor.feed(joined) + redactor.flush()).decode("latin-1").split("\0") if kept else []
    return tuple(zip(parts[::2], parts[1::2], strict=True))


# --- logging -------------------------------------------------------------------------------------------

_QUIET: ContextVar[bool] = ContextVar("artificer_effect", default=False)


def _outside_effects(record: logging.LogRecord) -> bool:
    return not _QUIET.get()


@contextmanager
def _unlogged() -> Iterator[None]:
    """httpcore logs answers as they came, not yet redacted; not those of effects."""
    for name in ("httpcore.connection", "httpcore.http11"):
        logging.getLogger(name).addFilter(_outside_effects)
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)
