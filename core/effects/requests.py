"""The words of an effect: what a tool asks for, what the policy says, and what comes back."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

HOST_NAME: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
"""A lower-case host name of plain labels; its length (at most 253) is checked apart."""

TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
"""A header name or method, as RFC 9110 spells a token."""


class DenialReason(StrEnum):
    """Why an effect was not performed, or its answer not handed on. The set is closed."""

    # the request, before any network
    METHOD = "method"  #: not GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS
    URL_SYNTAX = "url_syntax"  #: not a plain ASCII URL: white space, control characters, backslashes, bad escapes
    SCHEME = "scheme"  #: not https
    USERINFO = "userinfo"  #: a user name or password in the URL
    HOST_SYNTAX = "host_syntax"  #: no host, or not a plain ASCII host name of at least two labels
    HOST_ADDRESS = "host_address"  #: an IP address, in whatever spelling, where a host name belongs
    HOST_NOT_ALLOWED = "host_not_allowed"  #: a host that is not on the list, byte for byte
    PORT = "port"  #: a port other than exactly 443
    FRAGMENT = "fragment"  #: a `#` in the URL
    HEADER_SYNTAX = "header_syntax"  #: not a header: bad name, CR, LF, NUL, control or non-ASCII characters
    FORBIDDEN_HEADER = "forbidden_header"  #: a header that belongs to the host, the connection or a credential
    HEADERS_TOO_LARGE = "headers_too_large"  #: more request headers than the cap
    BODY_SYNTAX = "body_syntax"  #: a body that is not bytes
    BODY_TOO_LARGE = "body_too_large"  #: a request body over the cap
    CREDENTIAL_UNKNOWN = "credential_unknown"  #: a credential nobody declared
    CREDENTIAL_HOST = "credential_host"  #: a credential bound to other hosts
    QUERY_CONFLICT = "query_conflict"  #: the URL already has the query key a credential is sent in
    # the network
    CREDENTIAL_VALUE = "credential_value"  #: no value was handed over, or one that cannot be sent this way
    DNS = "dns"  #: the name does not resolve, or not in time
    ADDRESS = "address"  #: the name resolves to at least one address that is not public
    NETWORK = "network"  #: no connection, or it broke before an answer
    TLS = "tls"  #: the certificate or the handshake is not good
    PROTOCOL = "protocol"  #: the answer is not HTTP/1.1
    REDIRECT = "redirect"  #: to another host, port or scheme, in a loop, or one too many
    DEADLINE = "deadline"  #: the whole effect took too long
    RESPONSE_HEADERS = "response_headers"  #: more response headers than the cap
    RESPONSE_TOO_LARGE = "response_too_large"  #: a response body over the cap, before or after inflating
    ENCODING = "encoding"  #: a content encoding other than one of gzip or deflate, or damaged
    TRUNCATED = "truncated"  #: the answer ended before it was whole
    # the record
    REPLAY_MISS = "replay_miss"  #: a replay has no recorded answer to this request; nothing was sent
    NONDETERMINISTIC = "nondeterministic_tool"  #: a resumed tool asked for something else than the record holds
    OUTCOME_UNKNOWN = "outcome_unknown"  #: a request that was perhaps sent before a crash; it is not sent again


@dataclass(frozen=True, slots=True)
class EffectRequest:
    """What a tool asks for. `credential` is a credential's name; no value ever stands here."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a credential may be sent and how: in one of a header, a query key, or Basic with a user name.

    `hosts` are exact host names, `format` holds `{secret}` once. Raises ValueError where a host list is
    empty or holds a wildcard, a port or anything but names, or where not exactly one way is said.
    """

    hosts: Sequence[str]
    header: str | None = None
    query: str | None = None
    basic_user: str | None = None
    format: str = "{secret}"

    def __post_init__(self) -> None:
        if isinstance(self.hosts, str) or not self.hosts:
            raise ValueError("a credential is bound to a list of at least one exact host")
        for host in self.hosts:
            if not isinstance(host, str) or len(host) > 253 or not HOST_NAME.fullmatch(host.lower()):
                raise ValueError(f"{str(host)[:80]!r} is not an exact host name")
        object.__setattr__(self, "hosts", tuple(host.lower() for host in self.hosts))
        if sum(way is not None for way in (self.header, self.query, self.basic_user)) != 1:
            raise ValueError("say exactly one of header, query and basic_user")
        if self.header is not None and (not TOKEN.fullmatch(self.header) or is_reserved_header(self.header)):
            raise ValueError(f"a credential cannot be sent in the header {self.header[:80]!r}")
        if self.query is not None and not self.query:
            raise ValueError("the query key is empty")
        if self.basic_user is not None and (":" in self.basic_user or not self.basic_user.isprintable()):
            raise ValueError("a user name holds no colon and no control characters")
        if self.format.count("{secret}") != 1 or not (self.format.isascii() and self.format.isprintable()):
            raise ValueError("the format holds {secret} once, and printable ASCII around it")

    def render(self, secret: str) -> str:
        """The value as it is sent, before any encoding that its place needs."""
        return self.format.replace("{secret}", secret)


_RESERVED: Final = frozenset(
    {
        # the message and the connection
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # where it goes
        "forwarded",
        "host",
        "proxy",
        "x-host",
        "x-original-url",
        "x-rewrite-url",
        # what it does
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    }
)
_RESERVED_FAMILIES: Final = ("proxy-", "sec-websocket-", "x-forwarded-")


def plain_header(name: str) -> str:
    """A header name as the laxest server may read it: lower case, `_` for `-`."""
    return name.lower().replace("_", "-")


def is_reserved_header(name: str) -> bool:
    """Whether a header frames the message, routes it or overrides its method, so that nobody but the host sets it."""
    plain = plain_header(name)
    return plain in _RESERVED or plain.startswith(_RESERVED_FAMILIES)


@dataclass(frozen=True, slots=True)
class Allowed:
    """A request that passed, in the form it is sent in: nothing is parsed again.

    `method` is upper case, `host` lower case, `target` the path and query exactly as given (`/` where there
    was none). `binding` says how the value of `credential` is put in, None where there is no credential.
    """

    method: str
    host: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    credential: str | None = None
    binding: Binding | None = None
    port: int = 443

    @property
    def url(self) -> str:
        """The normalised address; it never holds a credential."""
        return f"https://{self.host}{self.target}"


@dataclass(frozen=True, slots=True)
class Denied:
    """A request that was not performed, or whose answer is not handed on. `detail` is for a model or person.

    `sent` is whether it may have reached the server, so that what it does there may have been done.
    """

    reason: DenialReason
    detail: str
    sent: bool = False

    def to_json(self) -> dict[str, Any]:
        """`{"denied", "detail", "sent"}`."""
        return {"denied": self.reason.value, "detail": self.detail, "sent": self.sent}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Denied:
        """Read what `to_json` wrote."""
        return Denied(DenialReason(data["denied"]), data["detail"], data.get("sent", False))


@dataclass(frozen=True, slots=True)
class EffectResponse:
    """An answer, redacted: header names lower case, no Set-Cookie and nothing of the connection.

    `redirects` is how many were followed. A status of 400 or more is an answer too.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = field(default=b"", repr=False)
    redirects: int = 0

    def to_json(self) -> dict[str, Any]:
        """`{"status", "headers", "body", "encoding", "redirects"}`; `encoding` is `utf-8`, or `base64` where
        the body is not text."""
        try:
            text, encoding = self.body.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, encoding = base64.b64encode(self.body).decode("ascii"), "base64"
        return {
            "status": self.status,
            "headers": [list(header) for header in self.headers],
            "body": text,
            "encoding": encoding,
            "redirects": self.redirects,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> EffectResponse:
        """Read what `to_json` wrote."""
        text = data["body"]
        return EffectResponse(
            status=data["status"],
            headers=tuple((name, value) for name, value in data["headers"]),
            body=base64.b64decode(text) if data["encoding"] == "base64" else text.encode("utf-8"),
            redirects=data.get("redirects", 0),
        )
