"""Redirects are followed by hand: on the same host alone, checked, resolved and pinned again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from core import Denied
from tests.harness.tls import Authority, TlsServer, answer


def to(location: str, status: int = 302) -> bytes:
    return answer(b"elsewhere", status=f"{status} Elsewhere", headers=[f"Location: {location}"])


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://api.example.com/b", "/b"),
        ("HTTPS://API.EXAMPLE.COM:443/b", "/b"),
        ("//api.example.com/b", "/b"),
        ("/b?c=d", "/b?c=d"),
        ("b", "/x/b"),
        ("../b", "/b"),
        ("?c", "/x/a?c"),
        ("/b#part", "/b"),
    ],
)
async def test_a_redirect_on_the_same_host_is_followed(
    authority: Authority, send: Any, names: Callable[..., Any], location: str, target: str
) -> None:
    resolver = names(["127.0.0.1"])
    async with TlsServer(authority, [to(location), answer(b"there")]) as server:
        response = await send.response(server, "/x/a", resolver=resolver, credential="bearer")
    assert (response.body, response.redirects) == (b"there", 1)
    assert server.asked[1].target == target
    assert server.asked[1].values("authorization") == server.asked[0].values("authorization")
    assert resolver.asked == ["api.example.com"] * 2


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.com/",
        "https://files.example.com/",
        "//evil.com/",
        "http://api.example.com/",
        "https://127.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://localhost/",
        "https://user:pw@api.example.com/",
        "https://api.example.com@evil.com/",
        "https://api.example.com:8443/",
        "https://api.example.com./",
        "https://evil.com\\@api.example.com/",
        "\\\\evil.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://[bad/",
        "/a b",
        "/\u00e9",
    ],
)
@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirect_anywhere_else_is_denied(authority: Authority, send: Any, location: str, status: int) -> None:
    async with TlsServer(authority, [to(location, status), answer(b"there")]) as server:
        verdict = await send(server, method="POST", body=b"data", credential="bearer")
    assert isinstance(verdict, Denied)
    assert (verdict.reason, verdict.sent) == ("redirect", True)
    assert len(server.asked) == 1


async def test_a_name_that_has_moved_inside_by_the_redirect_is_denied(
    authority: Authority, send: Any, names: Callable[..., Any]
) -> None:
    async with TlsServer(authority, [to("/b"), answer()]) as server:
        verdict = await send(server, resolver=names(["127.0.0.1"], ["10.0.0.1"]))
    assert isinstance(verdict, Denied)
    assert (verdict.reason, verdict.sent) == ("address", True)
    assert len(server.asked) == 1


async def test_a_redirect_in_a_loop_is_denied(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [to("/b"), to("/a")]) as server:
        assert await send.denied(server, "/a") == "redirect"
    assert len(server.asked) == 2


async def test_three_redirects_are_followed_and_no_more(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [to("/1"), to("/2"), to("/3"), answer(b"there")]) as server:
        assert (await send.response(server)).redirects == 3
    async with TlsServer(authority, [to("/1"), to("/2"), to("/3"), to("/4"), answer()]) as server:
        assert await send.denied(server) == "redirect"
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "DELETE", "GET"),
        (303, "HEAD", "HEAD"),
        (301, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "PATCH", "PATCH"),
    ],
)
async def test_the_method_changes_as_in_browsers(
    authority: Authority, send: Any, status: int, method: str, then: str
) -> None:
    async with TlsServer(authority, [to("/b", status), answer()]) as server:
        await send.response(server, method=method, body=b"data", headers=[("Content-Type", "a/b"), ("X-A", "b")])
    again = server.asked[1]
    kept = then == method
    assert (again.method, again.body) == (then, b"data" if kept else b"")
    assert again.values("content-type") == (["a/b"] if kept else [])
    assert again.values("x-a") == ["b"]


async def test_a_redirect_that_brings_the_query_key_back_is_denied_without_naming_it(
    authority: Authority, send: Any, secret: str
) -> None:
    async with TlsServer(authority, [to("/b?api_key=abc"), answer()]) as server:
        assert await send.denied(server, credential="query") == "redirect"


async def test_two_places_at_once_are_denied(authority: Authority, send: Any) -> None:
    reply = answer(status="302 Found", headers=["Location: /a", "Location: /b"])
    async with TlsServer(authority, [reply]) as server:
        assert await send.denied(server) == "redirect"


async def test_a_redirect_without_a_place_is_an_answer(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [answer(b"hm", status="302 Found")]) as server:
        assert (await send.response(server)).status == 302
