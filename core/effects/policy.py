"""Which requests of generated code pass: pure, without DNS; the answer holds the request as it will be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote_plus

from core.effects.requests import (
    HOST_NAME,
    TOKEN,
    Allowed,
    Binding,
    DenialReason,
    Denied,
    EffectRequest,
    is_reserved_header,
    plain_header,
)

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MAX_URL: Final = 16_384
MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 32_768
MAX_BODY: Final = 10 * 1024 * 1024
"""Bytes of a request body."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PARTS = re.compile(r"//([^/?#]*)([^#]*)(#.*)?", re.DOTALL)
# An IPv6 address with or without its brackets, zone and port.
_V6 = re.compile(r"\[[0-9A-Fa-f:.]*(?:%.*)?\](?::.*)?|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*", re.DOTALL)
# RFC 3986, and square brackets in the query, where many APIs want them.
_PATH = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
_QUERY = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*"
_TARGET = re.compile(rf"(?:/{_PATH})?(?:\?{_QUERY})?")
# A last label that some program reads as part of an IPv4 address.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_CREDENTIAL_HEADERS = frozenset({"authorization"})


class _Refused(Exception):
    def __init__(self, reason: DenialReason, detail: str) -> None:
        self.denied = Denied(reason, detail)


class EffectPolicy:
    """What one tool may ask for.

    `allowed_hosts` are compared byte for byte with the lower-case host of the URL; an entry that is not a
    plain host name allows nothing. `credentials` maps names to how they are sent. `max_body` is in bytes.
    """

    def __init__(
        self, allowed_hosts: Sequence[str], credentials: Mapping[str, Binding], *, max_body: int = MAX_BODY
    ) -> None:
        if isinstance(allowed_hosts, str):
            raise ValueError("allowed_hosts is a list of host names")
        self.allowed_hosts = frozenset(host.lower() for host in allowed_hosts if host.isascii())
        self.credentials = dict(credentials)
        self.max_body = max_body
        self._bound = {plain_header(b.header) for b in self.credentials.values() if b.header} | _CREDENTIAL_HEADERS

    def check(self, request: EffectRequest) -> Allowed | Denied:
        """The request in the form it is sent in, or why not. Never raises, whatever the request holds."""
        try:
            method = _method(request.method)
            host, target = self._address(request.url)
            headers = self._headers(request.headers)
            body = self._body(request.body)
            binding = self._binding(request.credential, host, target)
        except _Refused as refused:
            return refused.denied
        return Allowed(method, host, target, headers, body, request.credential, binding)

    def _address(self, url: object) -> tuple[str, str]:
        host, target = _split(url)
        if host not in self.allowed_hosts:
            raise _Refused(
                DenialReason.HOST_NOT_ALLOWED, f"{host} is not among the hosts this tool declares; add it to `hosts`"
            )
        return host, target

    def _headers(self, headers: object) -> tuple[tuple[str, str], ...]:
        if not isinstance(headers, Sequence) or isinstance(headers, str | bytes):
            raise _Refused(DenialReason.HEADER_SYNTAX, "headers are a list of [name, value] pairs")
        if len(headers) > MAX_HEADERS:
            raise _Refused(DenialReason.HEADERS_TOO_LARGE, f"{len(headers)} headers; at most {MAX_HEADERS} are sent")
        checked = tuple(self._header(header) for header in headers)
        size = sum(len(name) + len(value) for name, value in checked)
        if size > MAX_HEADER_BYTES:
            raise _Refused(DenialReason.HEADERS_TOO_LARGE, f"{size} bytes of headers; at most {MAX_HEADER_BYTES}")
        return checked

    def _header(self, header: object) -> tuple[str, str]:
        match header:
            case (str(name), str(value)):
                pass
            case _:
                raise _Refused(DenialReason.HEADER_SYNTAX, "a header is a pair of two strings")
        if not TOKEN.fullmatch(name):
            raise _Refused(DenialReason.HEADER_SYNTAX, f"{name[:80]!a} is not a header name")
        if not _VALUE.fullmatch(value):
            raise _Refused(DenialReason.HEADER_SYNTAX, f"the value of {name} is not printable ASCII on one line")
        if plain_header(name) in self._bound:
            raise _Refused(
                DenialReason.FORBIDDEN_HEADER, f"{name} is set from a credential; name it in `credential` instead"
            )
        if is_reserved_header(name):
            raise _Refused(DenialReason.FORBIDDEN_HEADER, f"{name} is set by the host; leave it out")
        return name, value.strip(" \t")

    def _body(self, body: object) -> bytes:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise _Refused(DenialReason.BODY_SYNTAX, "the body is not bytes")
        size = body.nbytes if isinstance(body, memoryview) else len(body)
        if size > self.max_body:
            raise _Refused(DenialReason.BODY_TOO_LARGE, f"{size} bytes of body; at most {self.max_body} are sent")
        return bytes(body)

    def _binding(self, credential: str | None, host: str, target: str) -> Binding | None:
        keys = _query_keys(target)
        for name, binding in self.credentials.items():
            # Also where this request does not use it: nobody's other key goes out in its place.
            if binding.query and host in binding.hosts and binding.query.casefold() in keys:
                raise _Refused(
                    DenialReason.QUERY_CONFLICT, f"the query already has {binding.query!r}, where {name} is put"
                )
        if credential is None:
            return None
        chosen = self.credentials.get(credential) if isinstance(credential, str) else None
        if chosen is None:
            raise _Refused(DenialReason.CREDENTIAL_UNKNOWN, f"{str(credential)[:80]!a} is not a declared credential")
        if host not in chosen.hosts:
            raise _Refused(DenialReason.CREDENTIAL_HOST, f"{credential} is not bound to {host}")
        return chosen


def _method(method: object) -> str:
    # Upper-casing may turn a non-ASCII letter into an ASCII one.
    if isinstance(method, str) and method.isascii() and method.upper() in METHODS:
        return method.upper()
    raise _Refused(DenialReason.METHOD, f"{str(method)[:40]!a} is not one of {', '.join(sorted(METHODS))}")


def _split(url: object) -> tuple[str, str]:
    """(lower-case host, target) of an https URL on 443, from its raw text; no library rewrites it first."""
    if not isinstance(url, str) or not url or len(url) > MAX_URL:
        raise _Refused(DenialReason.URL_SYNTAX, f"a URL is text of 1 to {MAX_URL} characters")
    for character in url:
        if character <= " " or character == "\x7f" or character == "\\":
            raise _Refused(DenialReason.URL_SYNTAX, f"the URL holds {character!a}")
    scheme = _SCHEME.match(url)
    if scheme is None or scheme[1].lower() != "https":
        raise _Refused(DenialReason.SCHEME, "the URL does not begin with https://")
    parts = _PARTS.fullmatch(url, scheme.end())
    if parts is None:
        raise _Refused(DenialReason.URL_SYNTAX, "the URL does not begin with https://")
    authority, target, fragment = parts[1], parts[2], parts[3]
    host = _host(authority)
    if fragment is not None:
        raise _Refused(DenialReason.FRAGMENT, "the URL has a fragment ('#'); leave it out")
    if not _TARGET.fullmatch(target):
        raise _Refused(DenialReason.URL_SYNTAX, "the path or query holds a character that must be percent-encoded")
    return host, target if target.startswith("/") else "/" + target


def _host(authority: str) -> str:
    if "@" in authority:
        raise _Refused(DenialReason.USERINFO, "the URL holds a user name or password ('@')")
    if _V6.fullmatch(authority):
        raise _Refused(DenialReason.HOST_ADDRESS, "an IP address stands where a host name belongs")
    raw, colon, port = authority.partition(":")
    # Lower-casing may turn a non-ASCII letter into an ASCII one.
    host = raw.lower() if raw.isascii() else ""
    if len(host) > 253 or not HOST_NAME.fullmatch(host):
        raise _Refused(DenialReason.HOST_SYNTAX, "the host is not a plain ASCII host name")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise _Refused(DenialReason.HOST_ADDRESS, "an IP address stands where a host name belongs")
    if "." not in host:
        raise _Refused(DenialReason.HOST_SYNTAX, "a host name has at least two labels")
    if colon and port != "443":
        raise _Refused(DenialReason.PORT, "only port 443 is reached; leave the port out")
    return host


def _query_keys(target: str) -> frozenset[str]:
    """Every key a server may read in the query: `;` separates too, and brackets make a list of a key."""
    query = target.partition("?")[2]
    if not query:
        return frozenset()
    names = (unquote_plus(piece.partition("=")[0]).casefold() for piece in re.split("[&;]", query))
    return frozenset(key for name in names for key in (name, name.partition("[")[0]))
