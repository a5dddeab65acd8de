"""The security schemes of an OpenAPI document as credentials that the host sends, and which one an operation uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from impl.sources.apidocument import ApiDocument, BadReference, Unsupported, mapping, sequence
from impl.sources.values import shorten

_HOST_HEADERS: Final = re.compile(
    r"connection|content-length|expect|http2-settings|keep-alive|te|trailer|transfer-encoding|upgrade|forwarded|host"
    r"|proxy.*|x-host|x-original-url|x-rewrite-url|x-http-method|x-http-method-override|x-method-override"
    r"|sec-websocket-.*|x-forwarded-.*"
)


def is_host_header(name: str) -> bool:
    """Whether a header frames or routes the message, so that neither a tool nor a credential may set it."""
    return _HOST_HEADERS.fullmatch(plain_name(name)) is not None


def plain_name(name: str) -> str:
    """A header's name as the laxest server may read it: lower case, `_` for `-` the same."""
    return name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Scheme:
    """A credential to declare: `name` is the manifest's; exactly one of `header` and `query`; `words` tell a
    person what value it wants."""

    name: str
    words: str
    header: str | None = None
    query: str | None = None
    format: str = "{secret}"

    def declaration(self, hosts: tuple[str, ...]) -> dict[str, Any]:
        """The entry of a manifest for these hosts."""
        way = {"header": self.header} if self.header is not None else {"query": self.query}
        plain = {"name": self.name, "description": self.words, "hosts": list(hosts), **way}
        return plain if self.format == "{secret}" else {**plain, "format": self.format}


def chosen_scheme(document: ApiDocument, operation: Mapping[str, Any], left_out: list[str]) -> Scheme | None:
    """The credential of the first alternative that can be sent, None where the operation needs none.

    A request carries one credential, so an alternative that wants two at once cannot be sent. Adds to
    `left_out`. Raises Unsupported where no alternative can.
    """
    said = operation.get("security", document.data.get("security"))
    alternatives = [entry for entry in sequence(said) if isinstance(entry, dict)]
    if not alternatives:
        return None
    why: list[str] = []
    for wanted in alternatives:
        if not wanted:
            return None
        if len(wanted) > 1:
            why.append(f"{' and '.join(sorted(wanted))} would have to be sent at once")
            continue
        (name,) = wanted
        found = _scheme(document, name)
        if isinstance(found, Scheme):
            if {} in alternatives:
                left_out.append(f"it always sends {found.name}, although the document lets it be called without")
            return found
        why.append(found)
    if {} in alternatives:
        return None
    raise Unsupported(f"none of its ways to sign in can be used: {'; '.join(why)}")


def key_names(document: ApiDocument) -> frozenset[tuple[str, str]]:
    """(place, name as `plain_name` gives it) of every API key: a parameter of that name is no parameter."""
    return frozenset(
        (raw["in"], plain_name(raw["name"]))
        for _, raw in _declared(document)
        if raw.get("type") == "apiKey" and isinstance(raw.get("in"), str) and isinstance(raw.get("name"), str)
    )


def _declared(document: ApiDocument) -> Iterator[tuple[str, Mapping[str, Any]]]:
    schemes = mapping(document.data.get("components")).get("securitySchemes")
    for name, entry in mapping(schemes).items():
        try:
            raw = document.resolve(entry)
        except BadReference:
            continue
        if isinstance(raw, dict):
            yield name, raw


def _scheme(document: ApiDocument, name: str) -> Scheme | str:
    """The scheme of that name, or why it cannot be sent."""
    raw = next((raw for declared, raw in _declared(document) if declared == name), None)
    if raw is None:
        return f"{name} is not declared"
    plain = _credential_name(name)
    said = shorten(str(raw["description"]), 300) if isinstance(raw.get("description"), str) else ""
    match raw.get("type"):
        case "apiKey":
            return _api_key(name, plain, raw, said)
        case "http":
            return _http(name, plain, raw, said)
        case "oauth2" | "openIdConnect":
            words = f"{said} An access token{_scopes(raw)}.".strip()
            return Scheme(plain, words, header="Authorization", format="Bearer {secret}")
        case other:
            return f"{name} is of the type {other!r}"


def _api_key(name: str, plain: str, raw: Mapping[str, Any], said: str) -> Scheme | str:
    key = raw.get("name")
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable():
        return f"{name} has no name to be sent under"
    words = said or "An API key."
    match raw.get("in"):
        case "header" if re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", key) and not is_host_header(key):
            return Scheme(plain, words, header=key)
        case "query":
            return Scheme(plain, words, query=key)
        case place:
            return f"{name} is sent in a {place}"


def _http(name: str, plain: str, raw: Mapping[str, Any], said: str) -> Scheme | str:
    match str(raw.get("scheme", "")).lower():
        case "bearer":
            kind = f" ({raw['bearerFormat']})" if isinstance(raw.get("bearerFormat"), str) else ""
            return Scheme(plain, said or f"A bearer token{kind}.", header="Authorization", format="Bearer {secret}")
        case "basic":
            # The user name is a part of the secret here: the document does not know it.
            words = f"{said} The base64 of USER:PASSWORD (printf %s USER:PASSWORD | base64)."
            return Scheme(plain, words.strip(), header="Authorization", format="Basic {secret}")
        case other:
            return f"{name} is of the HTTP scheme {other!r}"


def _credential_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name, flags=re.ASCII).strip("_")[:64]
    return plain if plain and plain[0].isalpha() else f"key_{plain}"[:64].rstrip("_")


def _scopes(raw: Mapping[str, Any]) -> str:
    flows = mapping(raw.get("flows")).values()
    named = dict.fromkeys(scope for flow in flows for scope in mapping(mapping(flow).get("scopes")))
    return f" with the scopes {shorten(', '.join(named), 200)}" if named else ""
