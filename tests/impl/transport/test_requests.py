"""What an effect puts on the wire, where it connects, and with what it is refused."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from core import Allowed, Denied, EffectPolicy, EffectRequest
from impl.transport.https import HttpsTransport
from tests.harness.tls import HANG, Authority, TlsServer, answer


async def test_a_request_goes_out_as_it_was_allowed(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [answer(b"hello", headers=["Content-Type: text/plain"])]) as server:
        response = await send.response(server, "/a/../b?x=%2F&y=[1]", headers=[("X-One", "1")])
    assert (response.status, response.body) == (200, b"hello")
    assert response.headers == (("content-type", "text/plain"),)
    [asked] = server.asked
    assert (asked.method, asked.target) == ("GET", "/a/../b?x=%2F&y=[1]")
    assert asked.headers == [
        ("host", "api.example.com"),
        ("user-agent", "artificer"),
        ("accept", "*/*"),
        ("accept-encoding", "identity"),
        ("connection", "close"),
        ("x-one", "1"),
    ]


async def test_a_body_is_sent_with_its_length(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [answer()]) as server:
        await send.response(server, method="post", body=b"\x00\xff" * 50_000)
        await send.response(server, method="PUT")
    assert server.asked[0].body == b"\x00\xff" * 50_000
    assert server.asked[0].values("content-length") == ["100000"]
    assert server.asked[1].values("content-length") == ["0"]


async def test_a_credential_is_put_in_a_header_outside_the_sandbox(
    authority: Authority, send: Any, secret: str
) -> None:
    async with TlsServer(authority, [answer()]) as server:
        await send.response(server, credential="bearer")
    assert server.asked[0].values("authorization") == [f"Bearer {secret}"]


async def test_a_credential_is_put_in_the_query(authority: Authority, send: Any, secret: str) -> None:
    async with TlsServer(authority, [answer()]) as server:
        await send.response(server, "/x", credential="query")
        await send.response(server, "/x?a=1", credential="query")
    assert [parse_qs(urlsplit(asked.target).query) for asked in server.asked] == [
        {"api_key": [secret]},
        {"a": ["1"], "api_key": [secret]},
    ]


async def test_a_credential_is_put_in_basic(authority: Authority, send: Any, secret: str) -> None:
    async with TlsServer(authority, [answer()]) as server:
        await send.response(server, credential="basic")
    scheme, _, coded = server.asked[0].values("authorization")[0].partition(" ")
    assert (scheme, base64.b64decode(coded).decode()) == ("Basic", f"me:{secret}")


@pytest.mark.parametrize(
    "secrets",
    [{}, {"bearer": "short"}, {"bearer": "two\r\nlines: here"}, {"bearer": "nul\0 inside"}, {"bearer": "päßwörter"}],
)
async def test_a_value_that_cannot_be_sent_is_refused_before_connecting(
    authority: Authority, send: Any, secrets: dict[str, str]
) -> None:
    async with TlsServer(authority, [answer()]) as server:
        assert await send.denied(server, credential="bearer", secrets=secrets) == "credential_value"
    assert server.connections == 0


async def test_proxies_of_the_environment_are_ignored(
    authority: Authority, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with TlsServer(authority, [answer(b"direct")]) as server:
        assert (await send.response(server)).body == b"direct"


async def test_every_effect_has_a_connection_of_its_own_and_no_cookies(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [answer(headers=["Set-Cookie: a=b", "Set-Cookie2: c=d", "X-Y: z"])]) as server:
        transport = send.transport(server)
        for _ in range(2):
            request = EffectPolicy(["api.example.com"], {}).check(EffectRequest("GET", "https://api.example.com/"))
            assert isinstance(request, Allowed)
            response = await transport.perform(request, EffectPolicy(["api.example.com"], {}), {})
            assert not isinstance(response, Denied)
            assert response.headers == (("x-y", "z"),)
    assert server.connections == 2
    assert server.asked[1].values("cookie") == []


# --- names and addresses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["100.64.0.1"],
        ["169.254.169.254"],
        ["127.0.0.1", "192.168.0.1"],
        ["93.184.216.34", "10.0.0.1"],
        ["93.184.216.34", "fd00::1"],
        ["::ffff:93.184.216.34"],
        ["fe80::1%eth0"],
        ["64:ff9b::5db8:d822"],
    ],
)
async def test_one_address_that_is_not_public_refuses_the_name(
    authority: Authority, send: Any, names: Callable[..., Any], addresses: Sequence[str]
) -> None:
    async with TlsServer(authority, [answer()]) as server:
        assert await send.denied(server, resolver=names(addresses)) == "address"
    assert server.connections == 0


async def test_loopback_is_refused_without_a_tests_allowance(
    authority: Authority, send: Any, names: Callable[..., Any]
) -> None:
    async with TlsServer(authority, [answer()]) as server:
        assert await send.denied(server, loopback=None) == "address"


async def test_the_name_is_resolved_once_and_the_checked_address_is_connected_to(
    authority: Authority, send: Any, names: Callable[..., Any]
) -> None:
    async with TlsServer(authority, [answer(b"checked")], address="127.0.0.2") as server:
        rebinding = names(["127.0.0.2"], ["127.0.0.1"])
        assert (await send.response(server, resolver=rebinding)).body == b"checked"
    assert rebinding.asked == ["api.example.com"]


async def test_the_next_checked_address_is_tried_where_one_takes_no_connection(
    authority: Authority, send: Any, names: Callable[..., Any]
) -> None:
    async with TlsServer(authority, [answer(b"second")], address="127.0.0.2") as server:
        assert (await send.response(server, resolver=names(["127.0.0.3", "127.0.0.2"]))).body == b"second"


async def test_a_name_without_addresses_is_refused(authority: Authority, send: Any, names: Callable[..., Any]) -> None:
    async def unknown(host: str) -> Sequence[str]:
        raise OSError("no such name")

    async with TlsServer(authority, [answer()]) as server:
        assert await send.denied(server, resolver=unknown) == "dns"
        assert await send.denied(server, resolver=names([])) == "dns"


async def test_a_name_server_that_does_not_answer_is_waited_for_a_bounded_time(authority: Authority, send: Any) -> None:
    async def silent(host: str) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with TlsServer(authority, [answer()]) as server:
        assert await send.denied(server, resolver=silent, resolve_s=0.05) == "dns"


async def test_the_system_resolver_says_so_where_there_is_no_such_name() -> None:
    policy = EffectPolicy(["no-such-host.invalid"], {})
    request = policy.check(EffectRequest("GET", "https://no-such-host.invalid/"))
    assert isinstance(request, Allowed)
    verdict = await HttpsTransport(resolve_s=20).perform(request, policy, {})
    assert isinstance(verdict, Denied)
    assert (verdict.reason, verdict.sent) == ("dns", False)


async def test_nobody_listening_is_a_network_denial(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [answer()]) as server:
        pass
    assert await send.denied(server) == "network"


# --- certificates --------------------------------------------------------------------------------------


async def test_a_certificate_for_another_name_is_refused(authority: Authority, send: Any, secret: str) -> None:
    async with TlsServer(authority, [answer()], name="other.example.com") as server:
        verdict = await send(server, credential="bearer")
    assert isinstance(verdict, Denied)
    assert (verdict.reason, verdict.sent) == ("tls", False)
    assert server.asked == []


async def test_a_certificate_of_an_unknown_authority_is_refused(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [answer()]) as server:
        assert await send.denied(server, tls_context=None) == "tls"
    assert server.asked == []


async def test_the_environment_names_no_authority(
    authority: Authority, send: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    authority.write(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with TlsServer(authority, [answer()]) as server:
        assert await send.denied(server, tls_context=None) == "tls"


async def test_a_server_that_speaks_no_tls_is_refused(authority: Authority, send: Any) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"plain"))
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with listener:
        server = TlsServer(authority, [])
        server.port = listener.sockets[0].getsockname()[1]
        assert await send.denied(server) == "tls"


# --- what stays unsaid ---------------------------------------------------------------------------------


@pytest.mark.parametrize("credential", ["bearer", "query", "basic"])
async def test_no_log_holds_the_secret_even_at_debug(
    authority: Authority, send: Any, secret: str, credential: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="httpcore")
    async with TlsServer(authority, [answer(b"x", headers=[f"X-Echo: {secret}"]), b"nonsense\r\n\r\n"]) as server:
        await send.response(server, credential=credential)
        assert await send.denied(server, credential=credential) == "protocol"
    assert secret not in caplog.text
    assert "httpcore" not in caplog.text


async def test_a_cancelled_effect_hangs_up(authority: Authority, send: Any) -> None:
    async with TlsServer(authority, [[HANG]]) as server:
        effect = asyncio.create_task(send(server))
        await server.heard.wait()
        effect.cancel()
        with pytest.raises(asyncio.CancelledError):
            await effect
        await asyncio.wait_for(server.asked[0].gone.wait(), 5)
