"""Which requests the policy allows, and the typed reason of each it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.effects.policy import MAX_BODY, EffectPolicy
from core.effects.requests import Allowed, Binding, Denied, EffectRequest

BEARER = Binding(("api.example.com",), header="Authorization", format="Bearer {secret}")
POLICY = EffectPolicy(
    ["api.example.com", "files.example.com", "xn--bcher-kva.example"],
    {
        "token": BEARER,
        "key": Binding(("api.example.com",), query="api_key"),
        "basic": Binding(("api.example.com",), basic_user="me"),
        "header": Binding(("files.example.com",), header="X-Api-Key"),
    },
)


def reason(url: str = "https://api.example.com/", method: str = "GET", **rest: object) -> str:
    verdict = POLICY.check(EffectRequest(method, url, **rest))  # type: ignore[arg-type]
    return "allowed" if isinstance(verdict, Allowed) else verdict.reason.value


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://api.example.com/", "/"),
        ("https://api.example.com", "/"),
        ("HTTPS://API.Example.com", "/"),
        ("https://api.example.com:443/a", "/a"),
        ("https://api.example.com:443", "/"),
        ("https://api.example.com?q=1", "/?q=1"),
        ("https://api.example.com/a/../b//c?x=%2F&y=a+b", "/a/../b//c?x=%2F&y=a+b"),
        ("https://api.example.com/%00%0d%0a", "/%00%0d%0a"),
        ("https://api.example.com/@me?to=a@evil.com", "/@me?to=a@evil.com"),
        ("https://api.example.com/?filter[name]=x", "/?filter[name]=x"),
        ("https://api.example.com/?u=https://evil.com/", "/?u=https://evil.com/"),
        ("https://xn--bcher-kva.example/", "/"),
    ],
)
def test_a_plain_https_url_of_a_listed_host_is_sent_as_it_was_written(url: str, target: str) -> None:
    verdict = POLICY.check(EffectRequest("GET", url))
    assert isinstance(verdict, Allowed)
    assert (verdict.target, verdict.port) == (target, 443)
    assert verdict.host == ("xn--bcher-kva.example" if "xn--" in url else "api.example.com")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://api.example.com/", "scheme"),
        ("ftp://api.example.com/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("unix:/var/run/docker.sock", "scheme"),
        ("ws://api.example.com/", "scheme"),
        ("wss://api.example.com/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("//api.example.com/", "scheme"),
        ("api.example.com", "scheme"),
        ("api.example.com:443", "scheme"),
        ("/path", "scheme"),
        ("httpſ://api.example.com/", "scheme"),
        ("https:api.example.com", "url_syntax"),
        ("https:/api.example.com", "url_syntax"),
        ("", "url_syntax"),
        (" https://api.example.com/", "url_syntax"),
        ("https://api.example.com/ ", "url_syntax"),
        ("https://api.example.com/a b", "url_syntax"),
        ("https://api.exa\tmple.com/", "url_syntax"),
        ("https://api.example.com\r\n/", "url_syntax"),
        ("https://api.example.com/\n", "url_syntax"),
        ("ht\ntps://api.example.com/", "url_syntax"),
        ("https://api.example.com/\x00", "url_syntax"),
        ("https://api.example.com/\x7f", "url_syntax"),
        ("https://evil.com\\@api.example.com/", "url_syntax"),
        ("https://api.example.com:443\\@evil.com/", "url_syntax"),
        ("https:\\\\api.example.com/", "url_syntax"),
        ("https://api.example.com/%zz", "url_syntax"),
        ("https://api.example.com/%", "url_syntax"),
        ("https://api.example.com/é", "url_syntax"),
        ('https://api.example.com/"', "url_syntax"),
        ("https://api.example.com/" + "a" * 20_000, "url_syntax"),
        ("https:///api.example.com/", "host_syntax"),
        ("https://", "host_syntax"),
        ("https://:443/", "host_syntax"),
        ("https://user@api.example.com/", "userinfo"),
        ("https://user:pw@api.example.com/", "userinfo"),
        ("https://@api.example.com/", "userinfo"),
        ("https://api.example.com@evil.com/", "userinfo"),
        ("https://[::1]:443@api.example.com/", "userinfo"),
        ("https://evil.com#@api.example.com/", "fragment"),
        ("https://evil.com?@api.example.com/", "host_not_allowed"),
        ("https://evil.com/@api.example.com/", "host_not_allowed"),
        ("https://api.example.com:8443/", "port"),
        ("https://api.example.com:0443/", "port"),
        ("https://api.example.com:/", "port"),
        ("https://api.example.com:80/", "port"),
        ("https://api.example.com:99999/", "port"),
        ("https://api.example.com:-1/", "port"),
        ("https://api.example.com:+443/", "port"),
        ("https://api.example.com:443:443/", "port"),
        ("https://api.example.com:４４３/", "port"),
        ("https://api.example.com./", "host_syntax"),
        ("https://api.example.com../", "host_syntax"),
        ("https://.api.example.com/", "host_syntax"),
        ("https://api..example.com/", "host_syntax"),
        ("https://-api.example.com/", "host_syntax"),
        ("https://api_1.example.com/", "host_syntax"),
        ("https://*.example.com/", "host_syntax"),
        ("https://api%2eexample.com/", "host_syntax"),
        ("https://api.example.com%00.evil.com/", "host_syntax"),
        ("https://api.example.com%2f/", "host_syntax"),
        ("https://аpi.example.com/", "host_syntax"),
        ("https://ａpi.example.com/", "host_syntax"),
        ("https://api。example.com/", "host_syntax"),
        ("https://\u212aapi.example.com/", "host_syntax"),
        ("https://api.\u200bexample.com/", "host_syntax"),
        ("https://api.exam\u00adple.com/", "host_syntax"),
        ("https://api.example.com\ud800/", "host_syntax"),
        ("https://bücher.example/", "host_syntax"),
        ("https://[[api.example.com]]/", "host_syntax"),
        ("https://[api.example.com]/", "host_syntax"),
        (f"https://{'a' * 64}.example.com/", "host_syntax"),
        (f"https://{'a.' * 130}com/", "host_syntax"),
        ("https://localhost/", "host_syntax"),
        ("https://intranet/", "host_syntax"),
        ("https://127.0.0.1/", "host_address"),
        ("https://127.1/", "host_address"),
        ("https://2130706433/", "host_address"),
        ("https://0x7f000001/", "host_address"),
        ("https://0x7f.1/", "host_address"),
        ("https://0177.0.0.1/", "host_address"),
        ("https://0/", "host_address"),
        ("https://8.8.8.8/", "host_address"),
        ("https://[::1]/", "host_address"),
        ("https://[::1]:443/", "host_address"),
        ("https://[fe80::1%25eth0]/", "host_address"),
        ("https://[::ffff:127.0.0.1]/", "host_address"),
        ("https://::1/", "host_address"),
        ("https://2606:4700::1111/", "host_address"),
        ("https://xn--80ak6aa92e.com/", "host_not_allowed"),
        ("https://api.example.com.evil.com/", "host_not_allowed"),
        ("https://xapi.example.com/", "host_not_allowed"),
        ("https://sub.api.example.com/", "host_not_allowed"),
        ("https://example.com/", "host_not_allowed"),
        ("https://api.example.com/#x", "fragment"),
        ("https://api.example.com#@evil.com", "fragment"),
        ("https://api.example.com/?a#", "fragment"),
    ],
)
def test_any_other_url_is_denied_with_its_reason(url: str, why: str) -> None:
    assert reason(url) == why


def test_listing_an_address_or_a_single_label_does_not_open_it() -> None:
    policy = EffectPolicy(["localhost", "127.0.0.1", "*.example.com", "example.com."], {})
    for url in ("https://localhost/", "https://127.0.0.1/", "https://api.example.com/", "https://example.com./"):
        assert isinstance(policy.check(EffectRequest("GET", url)), Denied)


@pytest.mark.parametrize("method", ["GET", "head", "Post", "PUT", "patch", "DELETE", "options"])
def test_the_common_methods_pass_in_any_case_and_are_sent_upper_case(method: str) -> None:
    verdict = POLICY.check(EffectRequest(method, "https://api.example.com/"))
    assert isinstance(verdict, Allowed)
    assert verdict.method == method.upper()


@pytest.mark.parametrize("method", ["", "CONNECT", "TRACE", "PROPFIND", " GET", "GET\r\n", "poſt", "G ET", "GET /x"])
def test_other_methods_are_denied(method: str) -> None:
    assert reason(method=method) == "method"


@pytest.mark.parametrize(
    "header",
    [
        ("X-A", "a\r\nX-B: b"),
        ("X-A", "a\rb"),
        ("X-A", "a\nb"),
        ("X-A", "a\0b"),
        ("X-A", "a\x1bb"),
        ("X-A", "caf\u00e9"),
        ("X-A", "\u010aX-B: b"),
        ("X-A\r\n", "a"),
        ("X A", "a"),
        ("X-A:", "a"),
        (":authority", "evil.com"),
        ("", "a"),
        ("X-Ä", "a"),
        ("X-A", b"a"),
        ("X-A",),
        "X-A: a",
    ],
)
def test_a_header_that_is_not_one_printable_line_is_denied(header: object) -> None:
    assert reason(headers=[header]) == "header_syntax"


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "authorization",
        "AUTHORIZATION",
        "X-Api-Key",
        "x_api_key",
        "Content-Length",
        "Transfer-Encoding",
        "Transfer_Encoding",
        "Connection",
        "Keep-Alive",
        "TE",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "Proxy-Connection",
        "Trailer",
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "HTTP2-Settings",
        "Sec-WebSocket-Key",
        "X-Forwarded-Host",
        "X-Original-URL",
    ],
)
def test_headers_of_the_host_the_connection_and_credentials_are_denied(name: str) -> None:
    assert reason(headers=[(name, "x")]) == "forbidden_header"


def test_ordinary_headers_are_kept_in_order_without_the_blanks_around_them() -> None:
    verdict = POLICY.check(
        EffectRequest("GET", "https://api.example.com/", [("Accept", " text/plain\t"), ("If-None-Match", '"x"')])
    )
    assert isinstance(verdict, Allowed)
    assert verdict.headers == (("Accept", "text/plain"), ("If-None-Match", '"x"'))


def test_too_many_or_too_large_headers_are_denied() -> None:
    assert reason(headers=[("X-A", "a")] * 101) == "headers_too_large"
    assert reason(headers=[("X-A", "a" * 40_000)]) == "headers_too_large"


def test_a_body_passes_up_to_the_cap_and_no_further() -> None:
    assert reason(method="POST", body=b"x" * MAX_BODY) == "allowed"
    assert reason(method="POST", body=b"x" * (MAX_BODY + 1)) == "body_too_large"
    assert reason(method="POST", body="text") == "body_syntax"


def test_a_credential_goes_to_its_own_hosts_only() -> None:
    assert reason(credential="token") == "allowed"
    assert reason("https://files.example.com/", credential="token") == "credential_host"
    assert reason(credential="nobody") == "credential_unknown"
    assert reason(credential="") == "credential_unknown"


def test_an_allowed_request_names_its_credential_and_how_it_is_sent() -> None:
    verdict = POLICY.check(EffectRequest("GET", "https://api.example.com/", credential="token"))
    assert isinstance(verdict, Allowed)
    assert (verdict.credential, verdict.binding) == ("token", BEARER)


@pytest.mark.parametrize(
    "query", ["api_key=1", "a=1&api_key=2", "API_KEY=1", "%61pi_key=1", "api_key", "a=1;api_key=2", "api_key[]=1"]
)
def test_the_query_key_of_a_credential_is_nobody_elses(query: str) -> None:
    assert reason(f"https://api.example.com/?{query}", credential="key") == "query_conflict"
    assert reason(f"https://api.example.com/?{query}") == "query_conflict"


def test_the_same_key_is_free_on_hosts_the_credential_is_not_bound_to() -> None:
    assert reason("https://files.example.com/?api_key=1") == "allowed"
    assert reason("https://api.example.com/?my_api_key=1&x=api_key", credential="key") == "allowed"


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": (), "header": "X-Key"},
        {"hosts": ("",), "header": "X-Key"},
        {"hosts": ("*.example.com",), "header": "X-Key"},
        {"hosts": ("*",), "header": "X-Key"},
        {"hosts": "api.example.com", "header": "X-Key"},
        {"hosts": ("api.example.com:443",), "header": "X-Key"},
        {"hosts": ("https://api.example.com",), "header": "X-Key"},
        {"hosts": ("api.example.com.",), "header": "X-Key"},
        {"hosts": ("bücher.example",), "header": "X-Key"},
        {"hosts": ("api.example.com",)},
        {"hosts": ("api.example.com",), "header": "X-Key", "query": "key"},
        {"hosts": ("api.example.com",), "header": "X-Key", "basic_user": ""},
        {"hosts": ("api.example.com",), "header": "X Key"},
        {"hosts": ("api.example.com",), "header": "Host"},
        {"hosts": ("api.example.com",), "query": ""},
        {"hosts": ("api.example.com",), "basic_user": "a:b"},
        {"hosts": ("api.example.com",), "header": "X-Key", "format": "Bearer"},
        {"hosts": ("api.example.com",), "header": "X-Key", "format": "{secret}\r\nX: y"},
    ],
)
def test_a_binding_that_is_not_exact_is_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Binding(**wrong)  # type: ignore[arg-type]


def test_basic_may_have_an_empty_user() -> None:
    assert Binding(("api.example.com",), basic_user="").render("s") == "s"


@given(st.text(), st.text(), st.lists(st.tuples(st.text(), st.text())), st.none() | st.text())
def test_the_policy_answers_whatever_it_is_asked(
    method: str, url: str, headers: list[tuple[str, str]], credential: str | None
) -> None:
    assert isinstance(POLICY.check(EffectRequest(method, url, headers, b"", credential)), Allowed | Denied)


@given(st.text(alphabet="htps:/api.example.com@#?[]\\%0 \t1xEVIL", max_size=60))
def test_nothing_near_a_url_leads_anywhere_but_to_a_listed_host(tail: str) -> None:
    verdict = POLICY.check(EffectRequest("GET", "https://api.example.com" + tail))
    if isinstance(verdict, Allowed):
        assert verdict.host == "api.example.com"
        assert tail.removeprefix(":443") in ("", verdict.target, verdict.target.removeprefix("/"))
