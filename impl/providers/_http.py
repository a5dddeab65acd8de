"""The wire under both model APIs: shared clients, bytes to events, and what a broken connection means."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from decimal import Decimal
from functools import lru_cache
from ipaddress import ip_address
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from core import ProviderError, StreamItem, Text, TextDelta, TurnEnd, Usage
from impl.providers._errors import Refusal, Service, failure, read_body, read_value, retry_after, server_error
from impl.providers._sse import ServerEvent, SseDecoder, SseOverflow

#: Seconds without a byte of an answer that has begun, and until its first byte.
IDLE = 120.0
FIRST = 300.0
#: Seconds to wait, once a turn is complete, for the end of its stream.
_AFTER = 0.1
#: Seconds to wait for what may follow a turn that has said how it ended, such as its usage.
_SOON = 10.0
_KEPT_BODY = 1_000_000


# --- settings ------------------------------------------------------------------------------------------


def setting(name: str) -> str:
    """An environment variable without surrounding blanks, empty where unset."""
    return os.environ.get(name, "").strip()


def timeouts() -> tuple[float, float]:
    """(seconds until the first byte, seconds between bytes); `ARTIFICER_PROVIDER_TIMEOUT` sets both."""
    try:
        chosen = float(setting("ARTIFICER_PROVIDER_TIMEOUT"))
    except ValueError:
        return FIRST, IDLE
    return (chosen, chosen) if 0 < chosen < 1e6 else (FIRST, IDLE)


def public_url(url: str) -> str:
    """An address fit to show: no user, password, query or fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(not an address)"
    host = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))


def require_url(url: str, service: Service) -> None:
    """Raises ProviderError where `url` is no HTTP address."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise failure("bad_request", f"{service.url_variable} is not an http or https address", service)


def is_loopback(url: str) -> bool:
    """Whether an address names this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# --- clients -------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def tls(lib: ModuleType) -> Any:
    """The TLS settings that all clients of httpx or httpx2 share: reading the certificates takes 40 ms."""
    return lib.create_ssl_context()


class Clients:
    """HTTP clients shared by key within one event loop: one is 0.8 MB and 25 ms, and bound to its loop."""

    def __init__(self, build: Callable[..., Any], close: Callable[[Any], Awaitable[None]]) -> None:
        self._build = build
        self._close = close
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, ...], Any]]
        self._by_loop = WeakKeyDictionary()

    def get(self, *key: str) -> Any:
        """The client for `key`, built on first use with it."""
        mine = self._by_loop.setdefault(asyncio.get_running_loop(), {})
        if key not in mine:
            mine[key] = self._build(*key)
        return mine[key]

    async def aclose(self) -> None:
        """Close those of the running loop."""
        for client in self._by_loop.pop(asyncio.get_running_loop(), {}).values():
            await self._close(client)


# --- the stream ----------------------------------------------------------------------------------------


class Response(Protocol):
    """What httpx and httpx2 responses share."""

    status_code: int
    headers: Any

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, decoded from its content encoding."""


class Accumulator(Protocol):
    """Assembles one turn from decoded events, apart from all I/O."""

    @property
    def complete(self) -> bool:
        """Whether nothing more is needed: the stream said that it is over."""

    @property
    def enough(self) -> bool:
        """Whether the turn would be whole if the stream ended now."""

    @property
    def usage(self) -> Usage | None:
        """What it used, as far as the server said."""

    def feed(self, event: object) -> list[StreamItem]:
        """Take one event; returns what to show. Raises ProviderError."""

    def end(self, *, clean_eof: bool = True) -> TurnEnd:
        """The whole turn. `clean_eof`: the body came to its own end. Raises ProviderError `incomplete`."""


async def turn(
    response: Response, accumulator: Accumulator, service: Service, lib: ModuleType
) -> AsyncGenerator[StreamItem, None]:
    """Stream one turn out of `response`, its TurnEnd last. `lib` is httpx or httpx2, for its exceptions.

    Raises ProviderError, with the usage known so far, for a stream that reports an error, is cut, falls
    silent, or is no stream of events at all.
    """
    try:
        async with aclosing(_turn(response, accumulator, service, lib)) as items:
            async for item in items:
                yield item
    except ProviderError as error:
        if error.usage is None:
            error.usage = accumulator.usage
        raise


async def refusable(items: AsyncGenerator[StreamItem, None], model: str | None) -> AsyncGenerator[StreamItem, None]:
    """The same items; a Refusal in their midst is the turn's end, after what was streamed of it."""
    text = ""
    try:
        async with aclosing(items):
            async for item in items:
                text += item.text if isinstance(item, TextDelta) else ""
                yield item
    except Refusal as refused:
        blocks = (Text(text),) if text else ()
        usd = refused.usd if refused.usage else Decimal(0)
        yield TurnEnd(blocks, "refusal", refused.usage or Usage(), usd, model, refused.message)


async def _turn(
    response: Response, accumulator: Accumulator, service: Service, lib: ModuleType
) -> AsyncGenerator[StreamItem, None]:
    decoder = SseDecoder()
    body = _Body(response, service, lib)
    seen = False
    while not accumulator.complete and (chunk := await body.next(soon=accumulator.enough)) is not None:
        if not seen:
            body.keep(chunk)
        try:
            events = decoder.feed(chunk)
        except SseOverflow as error:
            raise failure("protocol", f"an endless line: {error}", service) from error
        for event in events:
            seen = True
            for item in _take(event, accumulator, service):
                yield item
    tail = decoder.close()
    if tail is not None:
        seen = True
        for item in _take(tail, accumulator, service):
            yield item
    if body.broken is not None and not accumulator.enough:
        raise body.broken
    if not seen:
        for item in _whole_body(bytes(body.kept), accumulator, service):
            yield item
    end = accumulator.end(clean_eof=body.clean)
    await body.drain()
    yield end


class _Body:
    """A response's bytes under time limits. `broken` says how they ended too early; `clean` is true where
    the body came to an end of its own, not just that of its connection."""

    def __init__(self, response: Response, service: Service, lib: ModuleType) -> None:
        self._chunks = response.aiter_bytes().__aiter__()
        self._service = service
        self._lib = lib
        self._wait, self._idle = timeouts()
        self.kept = bytearray()
        self.broken: ProviderError | None = None
        self.clean = _framed(response.headers)

    async def next(self, *, soon: bool) -> bytes | None:
        """The next bytes, None at the end; with `soon` there is little left to wait for."""
        wait = min(self._idle, _SOON) if soon else self._wait
        try:
            async with asyncio.timeout(wait):
                chunk = await anext(self._chunks)
        except StopAsyncIteration:
            return None
        except TimeoutError:
            self.broken = failure("timeout", f"nothing came for {wait:g} seconds", self._service)
        except (self._lib.HTTPError, self._lib.StreamError) as error:
            self.broken = _cut(error, self._service, self._lib)
        else:
            self._wait = self._idle
            return chunk
        self.clean = False
        return None

    def keep(self, chunk: bytes) -> None:
        """Remember the start of a body that may turn out to be no stream."""
        if len(self.kept) < _KEPT_BODY:
            self.kept += chunk

    async def drain(self) -> None:
        """Read the few bytes that end the body, so that the connection can be used again."""
        with suppress(TimeoutError, StopAsyncIteration, self._lib.HTTPError, self._lib.StreamError):
            async with asyncio.timeout(_AFTER):
                for _ in range(16):
                    await anext(self._chunks)


def _take(event: ServerEvent, accumulator: Accumulator, service: Service) -> list[StreamItem]:
    data = event.data.strip()
    if not data or data.startswith(":") or accumulator.complete:
        return []
    if data == "[DONE]":
        return accumulator.feed(data)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        if event.tail:  # the connection ended inside it
            return []
        if event.event == "error":
            raise server_error(read_body(None, data.encode("utf-8", "replace")), service) from None
        raise failure("protocol", f"a stream event that is not JSON: {data[:200]}", service) from None
    if event.event == "error":
        raise server_error(read_value(None, value), service)
    return accumulator.feed(value)


def _whole_body(body: bytes, accumulator: Accumulator, service: Service) -> list[StreamItem]:
    """A body that held no event: an error in plain JSON, an answer sent whole, or nothing of use."""
    text = body.strip()
    if not text:
        raise failure("protocol", "answered with an empty body", service)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        said = read_body(None, body)
        raise failure("protocol", f"answered with something else than a stream: {said.message}", service) from None
    items = accumulator.feed(value)
    if not accumulator.enough:
        start = text[:200].decode("utf-8", "replace")
        raise failure("protocol", f"answered with something else than a stream: {start}", service)
    return items


def _framed(headers: Mapping[str, str]) -> bool:
    """Whether a body says where it ends, so that its end is not just the end of a connection."""
    return "chunked" in headers.get("transfer-encoding", "").lower() or "content-length" in headers


# --- failures of the connection ------------------------------------------------------------------------


def _cut(error: Exception, service: Service, lib: ModuleType) -> ProviderError:
    if isinstance(error, lib.TimeoutException):
        return failure("timeout", "the answer stopped coming", service)
    if isinstance(error, lib.DecodingError):
        return failure("protocol", f"a body that does not decode: {error}", service)
    return failure("incomplete", f"the connection ended before the answer did ({_words(error)})", service)


def unreachable(error: Exception, service: Service, lib: ModuleType) -> ProviderError:
    """What it means that a request brought no response."""
    words = _words(error)
    if isinstance(error, lib.ConnectTimeout | lib.PoolTimeout):
        return failure("network", f"no connection to {service.url}: timed out", service)
    if isinstance(error, lib.TimeoutException):
        return failure("timeout", f"{service.url} did not answer in time", service)
    if isinstance(error, lib.UnsupportedProtocol | lib.InvalidURL | lib.LocalProtocolError):
        return failure("bad_request", f"{service.url_variable} or a header is not valid: {words}", service)
    found = failure("network", f"no connection to {service.url}: {words}", service)
    if "CERTIFICATE_VERIFY_FAILED" in words:
        found.transient = False
    return found


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def status_error(status: int, headers: Mapping[str, str], body: bytes, service: Service) -> ProviderError:
    """The ProviderError of a response whose status is no success."""
    if 300 <= status < 400 and headers.get("location"):
        return failure("protocol", f"sent elsewhere, to {public_url(headers['location'])} (HTTP {status})", service)
    return server_error(read_body(status, body), service, retry_after(headers))
