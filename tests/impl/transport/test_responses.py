"""What of an answer comes back, and which answers do not."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from core import Denied, EffectResponse
from tests.harness.tls import HANG, RESET, Authority, Piece, Reply, TlsServer, answer, chunked

HEAD = b"HTTP/1.1 200 OK\r\n"
CAP = 100_000


def endless() -> Iterator[Piece]:
    yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"2000\r\n" + b"x" * 0x2000 + b"\r\n"


def drip() -> Iterator[Piece]:
    yield HEAD + b"Content-Length: 1000\r\n\r\n"
    while True:
        yield 0.02
        yield b"x"


def header_drip() -> Iterator[Piece]:
    yield HEAD
    while True:
        yield 0.02
        yield b"X-A: b\r\n"


def bomb(size: int) -> bytes:
    return answer(gzip.compress(b"\0" * size), headers=["Content-Encoding: gzip"])


BAD: dict[str, tuple[Reply, str]] = {
    "length over the cap": (answer(b"x" * (CAP + 1)), "response_too_large"),
    "length far over the cap": (HEAD + b"Content-Length: 99999999999\r\n\r\n", "response_too_large"),
    "endless": (endless(), "response_too_large"),
    "over the cap to the end": (HEAD + b"\r\n" + b"x" * (CAP + 1), "response_too_large"),
    "bomb": (bomb(50_000_000), "response_too_large"),
    "gzip twice": (answer(gzip.compress(gzip.compress(b"x")), headers=["Content-Encoding: gzip, gzip"]), "encoding"),
    "gzip in two headers": (answer(b"x", headers=["Content-Encoding: gzip", "Content-Encoding: gzip"]), "encoding"),
    "brotli": (answer(b"x", headers=["Content-Encoding: br"]), "encoding"),
    "zstandard": (answer(b"x", headers=["Content-Encoding: zstd"]), "encoding"),
    "no gzip": (answer(b"not gzip at all", headers=["Content-Encoding: gzip"]), "encoding"),
    "two gzip members": (answer(gzip.compress(b"x") * 2, headers=["Content-Encoding: gzip"]), "encoding"),
    "more after gzip": (answer(gzip.compress(b"x") + b"more", headers=["Content-Encoding: gzip"]), "encoding"),
    "cut gzip": (answer(gzip.compress(b"words" * 99)[:-9], headers=["Content-Encoding: gzip"]), "truncated"),
    "short of its length": (answer(b"short", length=10), "truncated"),
    "no last chunk": ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"], "truncated"),
    "cut chunk": ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nsh"], "truncated"),
    "reset in the body": ([HEAD + b"Content-Length: 10\r\n\r\nshort", RESET], "truncated"),
    "large header": (answer(headers=["X-Big: " + "x" * 200_000]), "response_headers"),
    "header over the cap": (answer(headers=["X-Big: " + "x" * 70_000]), "response_headers"),
    "many headers": (answer(headers=[f"X-{n}: y" for n in range(9_000)]), "response_headers"),
    "endless headers": ([HEAD, b"X-Many: z\r\n" * 30_000], "response_headers"),
    "switching protocols": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "protocol",
    ),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "protocol"),
    "transfer encoding": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "protocol"),
    "two lengths": (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "protocol"),
    "bad chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "protocol"),
    "nothing": (b"", "network"),
    "cut header": (HEAD + b"X-Half", "network"),
    "reset": ([RESET], "network"),
}


@pytest.mark.parametrize("name", BAD)
async def test_an_answer_that_is_not_whole_bounded_http_is_denied(authority: Authority, send: Any, name: str) -> None:
    reply, why = BAD[name]
    async with TlsServer(authority, [reply]) as server:
        verdict = await send(server, max_response=CAP)
    assert isinstance(verdict, Denied)
    assert (verdict.reason, verdict.sent) == (why, True)


SLOW: dict[str, Reply] = {
    "silence": [HANG],
    "dripping body": drip(),
    "dripping headers": header_drip(),
    "no end": [HEAD + b"\r\n", HANG],
}


@pytest.mark.parametrize("name", SLOW)
async def test_one_deadline_bounds_the_whole_effect(authority: Authority, send: Any, name: str) -> None:
    async with TlsServer(authority, [SLOW[name]]) as server:
        assert await send.denied(server, deadline_s=0.2) == "deadline"


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP", "deflate", "identity"])
async def test_one_encoding_nobody_asked_for_is_undone(authority: Authority, send: Any, coding: str) -> None:
    body = b"words " * 9_000
    coded = {"deflate": zlib.compress, "identity": bytes}.get(coding, gzip.compress)(body)
    async with TlsServer(authority, [answer(coded, headers=[f"Content-Encoding: {coding}"])]) as server:
        response = await send.response(server, max_response=CAP)
    assert response.body == body
    assert ("content-encoding", coding) not in response.headers or coding == "identity"


async def test_a_body_up_to_the_cap_comes_back_whole(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [answer(b"x" * CAP)]) as server:
        assert len((await send.response(server, max_response=CAP)).body) == CAP


async def test_a_body_that_ends_with_the_connection_comes_back(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [HEAD + b"\r\nto the end"]) as server:
        assert (await send.response(server)).body == b"to the end"


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "204 No Content", "304 Not Modified"])
async def test_any_status_is_an_answer(authority: Authority, send: Any, status: str) -> None:
    async with TlsServer(authority, [f"HTTP/1.1 {status}\r\n\r\n".encode()]) as server:
        assert (await send.response(server)).status == int(status[:3])


async def test_head_has_the_headers_of_a_body_and_none(authority: Authority, send: Any) -> None:
    reply = answer(headers=["Content-Encoding: gzip", "ETag: x"], length=CAP * 9)
    async with TlsServer(authority, [reply]) as server:
        response = await send.response(server, method="HEAD", max_response=CAP)
    assert (response.body, dict(response.headers)["etag"]) == (b"", "x")


async def test_headers_of_the_connection_are_dropped(authority: Authority, send: Any) -> None:
    names = ["Connection: close", "Keep-Alive: 1", "Alt-Svc: h3", "Proxy-Authenticate: x", "Trailer: y", "X-Kept: z"]
    async with TlsServer(authority, [answer(headers=names)]) as server:
        assert (await send.response(server)).headers == (("x-kept", "z"),)


# --- secrets -------------------------------------------------------------------------------------------


async def test_an_echo_of_the_secret_is_redacted_in_headers_and_body(
    authority: Authority, send: Any, secret: str
) -> None:
    forms = [
        secret,
        quote(secret, safe=""),
        json.dumps(secret).replace("/", "\\/"),
        secret.encode().hex().upper(),
        base64.b64encode(f"me:{secret}".encode()).decode(),
        base64.urlsafe_b64encode(f"x{secret}".encode()).decode(),
    ]
    body = " | ".join(forms).encode()
    headers = [f"X-{n}: <{form}>" for n, form in enumerate(forms)]
    async with TlsServer(authority, [answer(body, headers=[*headers, f"{secret[:8]}-x: y"])]) as server:
        response = await send.response(server, credential="bearer")
    assert response.body.count(b"[redacted:bearer]") == len(forms)
    assert all("[redacted:bearer]" in dict(response.headers)[f"x-{n}"] for n in range(len(forms)))
    for form in forms:
        assert form not in repr(response.headers)
        assert form.encode() not in response.body


async def test_an_echo_split_over_chunks_or_compressed_is_redacted(
    authority: Authority, send: Any, secret: str
) -> None:
    raw = secret.encode()
    split = chunked(b"a " + raw[:5], raw[5:9], raw[9:] + b" b")
    packed = answer(gzip.compress(b"a " + raw + b" b"), headers=["Content-Encoding: gzip"])
    async with TlsServer(authority, [split, packed]) as server:
        for _ in range(2):
            assert (await send.response(server, credential="bearer")).body == b"a [redacted:bearer] b"


async def test_secrets_the_request_did_not_use_are_redacted_too(authority: Authority, send: Any, secret: str) -> None:
    async with TlsServer(authority, [answer(secret.encode())]) as server:
        response = await send.response(server, secrets={"basic": secret})
    assert response.body == b"[redacted:basic]"


# --- the form in which it is replayed ------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"text \xc3\xa9\x00", b"\x89PNG\r\n\xff"])
async def test_an_answer_survives_its_stored_form(authority: Authority, send: Any, body: bytes) -> None:
    async with TlsServer(authority, [answer(body, headers=["X-A: b"])]) as server:
        response = await send.response(server)
    stored = json.loads(json.dumps(response.to_json()))
    assert stored["encoding"] == ("base64" if b"\xff" in body else "utf-8")
    assert EffectResponse.from_json(stored) == response
