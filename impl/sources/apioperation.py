"""The operations of an OpenAPI document, and what a call of each one needs: address, parameters, body, credential."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

from core import is_public_name
from impl.sources.apidocument import ApiDocument, BadReference, Unsupported, mapping, sequence
from impl.sources.apisecurity import Scheme, chosen_scheme, is_host_header, key_names, plain_name
from impl.sources.values import shorten

METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options")
READS: Final = frozenset({"GET", "HEAD"})
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
UNTAGGED: Final = "untagged"
BASE64: Final = "Bytes, in base64."

#: Names that every agent's loop gives a meaning of its own.
_RESERVED: Final = frozenset(
    {"ask_user", "read_skill", "run_skill", "search_corpus", "list_corpus", "get_corpus", "run_sandbox"}
    | {"cannot_convert", "agent", "agent_compare"}
)
#: Header parameters that a document may declare, but that say nothing of their own (OpenAPI 3.0, 4.7.12.2).
_IGNORED_HEADERS: Final = frozenset({"accept", "content-type", "authorization"})
_HOST = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))+")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_FILLED = re.compile(r"\{([^{}]*)\}")

BodyKind = Literal["json", "form", "multipart", "text", "bytes"]
Where = Literal["path", "query", "header"]
Style = Literal["one", "repeat", "comma", "space", "pipe", "deep", "spread", "json"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as the document has it. `name` is its tool's, `key` what a person calls it: the
    operationId, else method and path. `raw` and `shared` are its own and its path's data."""

    key: str
    name: str
    method: str
    path: str
    tags: tuple[str, ...]
    summary: str
    deprecated: bool
    raw: Mapping[str, Any]
    shared: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that the tool takes as the property `key`. `style` says how it is written: `one` value; of a list
    or object: `repeat` the name, join by `comma`, `space` or `pipe`, `deep` brackets, `spread` an object, `json`."""

    key: str
    name: str
    where: Where
    required: bool
    style: Style
    schema: Mapping[str, Any]
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Body:
    """The request body, which the tool takes as the property `key`. `binary` are parts that come as base64."""

    key: str
    kind: BodyKind
    media: str
    required: bool
    schema: Mapping[str, Any]
    raw: Mapping[str, Any]
    binary: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All that the tool of an operation is made from. `base` is `https://HOST/PATH` without a slash at its end;
    `left_out` says what of the operation the tool lacks."""

    operation: Operation
    base: str
    host: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    accept: str | None
    scheme: Scheme | None
    left_out: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """Upper case."""
        return self.operation.method


# --- finding them --------------------------------------------------------------------------------------


def operations(document: ApiDocument, taken: set[str] | None = None) -> list[Operation]:
    """Every operation, by path and method; tool names are unique among themselves and `taken`, which grows.

    Raises BadReference where a path is written in another document.
    """
    names = taken if taken is not None else set()
    return [_operation(*found, names) for found in _raw(document)]


def _raw(document: ApiDocument) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
    for path, item in mapping(document.data.get("paths")).items():
        if not path.startswith("/"):
            continue
        shared = document.resolve(item)
        for method in METHODS:
            raw = mapping(shared).get(method)
            if isinstance(raw, dict):
                yield path, method, raw, shared


def _operation(path: str, method: str, raw: Mapping[str, Any], shared: Mapping[str, Any], names: set[str]) -> Operation:
    said = raw.get("operationId")
    key = said.strip() if isinstance(said, str) and said.strip() else f"{method.upper()} {path}"
    name = tool_name(key, f"{method} {path}", names)
    names.add(name)
    summary = words(raw.get("summary")) or words(raw.get("description")) or f"{method.upper()} {path}"
    return Operation(
        key=words(key),
        name=name,
        method=method.upper(),
        path=path,
        tags=tuple(dict.fromkeys(words(t) for t in sequence(raw.get("tags")) if words(t))),
        summary=shorten(summary, 200),
        deprecated=raw.get("deprecated") is True,
        raw=raw,
        shared=shared,
    )


def tool_name(key: str, otherwise: str, taken: set[str]) -> str:
    """A tool's name from an operationId (`getPetById` is `get_pet_by_id`), else from method and path."""
    for text in (key, otherwise):
        spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
        plain = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")
        if plain and not plain[0].isalpha():
            plain = f"call_{plain}"
        if plain:
            break
    else:
        plain = "call"
    plain = plain[:64].rstrip("_")
    every = chain([plain], (f"{plain[:58]}_{number}" for number in count(2)))
    return next(name for name in every if name not in taken and name not in _RESERVED)


def words(value: Any) -> str:
    """A text of the document on one line, without what a terminal would take for commands; "" for anything else."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in value).split())


# --- what a call needs ---------------------------------------------------------------------------------


def plan(document: ApiDocument, operation: Operation) -> Plan:
    """What the tool of an operation does. Raises Unsupported, BadReference."""
    left_out: list[str] = []
    base, host = server(document, operation, left_out)
    scheme = chosen_scheme(document, operation.raw, left_out)
    parameters = _parameters(document, operation, scheme, left_out)
    body = _body(document, operation, {p.key for p in parameters}, left_out)
    _check_path(operation, parameters)
    if operation.deprecated:
        left_out.append("it is deprecated")
    return Plan(operation, base, host, parameters, body, _accept(document, operation), scheme, tuple(left_out))


def server(document: ApiDocument, operation: Operation, left_out: list[str]) -> tuple[str, str]:
    """(base address, host) of the first server that can be called. Raises Unsupported with what stands there."""
    levels = (operation.raw.get("servers"), operation.shared.get("servers"), document.data.get("servers"))
    listed = next((level for level in levels if isinstance(level, list) and level), [])
    seen: list[str] = []
    for entry in listed:
        if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
            continue
        url, filled = _filled(entry)
        seen.append(url)
        host = _callable(url)
        if host is None:
            continue
        if filled:
            left_out.append(f"its address is {url}, with the document's own value for {', '.join(filled)}")
        elif len(listed) > 1:
            left_out.append(f"of {len(listed)} servers it calls {url}")
        path = quote(urlsplit(url).path.rstrip("/"), safe="/-._~!$&'()*+,;=:@%")
        return f"https://{host}{path}", host
    if not seen:
        raise Unsupported("the document names no server, so its host is not known")
    relative = [url for url in seen if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url)]
    if relative:
        raise Unsupported(f"its server {relative[0]!r} is relative, so its host is not known")
    raise Unsupported(f"its server {seen[0]!r} is no https address of a public host on port 443")


def _filled(entry: Mapping[str, Any]) -> tuple[str, list[str]]:
    """A server's URL with the defaults of its variables, and which those are."""
    defaults: dict[str, str] = {}
    for name, variable in mapping(entry.get("variables")).items():
        if isinstance(variable, dict) and isinstance(variable.get("default"), str | int | float):
            defaults[name] = str(variable["default"])
    used = [name for name in _FILLED.findall(entry["url"]) if name in defaults]
    return _FILLED.sub(lambda match: defaults.get(match[1], match[0]), entry["url"]).strip(), used


def _callable(url: str) -> str | None:
    """The host of an address that effects may call, else None."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme.lower() != "https" or port not in (None, 443) or "@" in parts.netloc:
        return None
    plain = len(host) <= 253 and _HOST.fullmatch(host) is not None and is_public_name(host)
    if not plain or parts.query or parts.fragment or re.search(r"[{}\s\\]", url):
        return None
    return host


def _parameters(
    document: ApiDocument, operation: Operation, scheme: Scheme | None, left_out: list[str]
) -> tuple[Parameter, ...]:
    merged: dict[tuple[str, str], Mapping[str, Any]] = {}
    for level in (operation.shared.get("parameters"), operation.raw.get("parameters")):
        for entry in sequence(level):
            raw = document.resolve(entry)
            if isinstance(raw, dict) and isinstance(raw.get("name"), str) and isinstance(raw.get("in"), str):
                merged[raw["in"], raw["name"]] = raw
    built: list[Parameter] = []
    keys = key_names(document)
    for (place, name), raw in merged.items():
        why = _not_taken(place, name, keys)
        if why == "":
            continue
        if why is None:
            built.append(_parameter(document, raw, place, name, {p.key for p in built}))
        elif raw.get("required") is True and (place, plain_name(name)) not in keys:
            raise Unsupported(f"its required parameter {name!r} {why}")
        else:
            left_out.append(f"its parameter {words(name)!r} {why}")
    return tuple(built)


def _not_taken(place: str, name: str, keys: frozenset[tuple[str, str]]) -> str | None:
    """Why a parameter is not the tool's; "" where that needs no words, None where it is taken."""
    lower = name.lower()
    if (place, plain_name(name)) in keys:
        return "is a credential, which only the host sends"
    match place:
        case "path" | "query":
            return None
        case "header" if lower in _IGNORED_HEADERS:
            return ""
        case "header" if is_host_header(name) or not _TOKEN.fullmatch(name):
            return "is a header that only the host sends"
        case "header":
            return None
        case _:
            return f"is sent in a {words(place)}, which tools have not"


def _parameter(document: ApiDocument, raw: Mapping[str, Any], place: str, name: str, taken: set[str]) -> Parameter:
    schema: Any = raw.get("schema")
    content = raw.get("content")
    as_json = isinstance(content, dict) and bool(content)
    if as_json and isinstance(content, dict):
        first = next(iter(content.values()))
        schema = first.get("schema") if isinstance(first, dict) else None
    schema = schema if isinstance(schema, dict) else {}
    where: Where = "path" if place == "path" else "query" if place == "query" else "header"
    return Parameter(
        key=input_key(name, place, taken),
        name=name,
        where=where,
        required=place == "path" or raw.get("required") is True,
        style="json" if as_json else _style(document, raw, where, name, schema),
        schema=schema,
        raw=raw,
    )


def _style(document: ApiDocument, raw: Mapping[str, Any], where: Where, name: str, schema: Mapping[str, Any]) -> Style:
    style = raw.get("style", "form" if where == "query" else "simple")
    explode = raw["explode"] if isinstance(raw.get("explode"), bool) else style == "form"
    found = document.resolve(schema)
    kind = found.get("type") if isinstance(found, dict) else None
    if where != "query" and style != "simple":
        raise Unsupported(f"its parameter {name!r} is written in the style {style!r}, which tools have not")
    if kind in ("string", "integer", "number", "boolean"):
        return "one"
    if where != "query":
        return "comma"
    match style:
        case "deepObject":
            return "deep"
        case "spaceDelimited":
            return "repeat" if explode else "space"
        case "pipeDelimited":
            return "repeat" if explode else "pipe"
        case _ if not explode:
            return "comma"
    is_object = kind == "object" or (kind is None and isinstance(found, dict) and "properties" in found)
    return "spread" if is_object else "repeat"


def input_key(name: str, place: str, taken: set[str]) -> str:
    """The property of a parameter: its name with plain characters, told apart by its place where it must be."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:56] or "value"
    every = chain([plain, f"{plain}_{place}"], (f"{plain}_{number}" for number in count(2)))
    return next(key for key in every if key not in taken)


def _check_path(operation: Operation, parameters: Sequence[Parameter]) -> None:
    named = set(_FILLED.findall(operation.path))
    known = {p.name for p in parameters if p.where == "path"}
    if named - known:
        raise Unsupported(f"its path names {', '.join(sorted(named - known))}, which is no parameter of it")
    if known - named:
        raise Unsupported(f"its parameter {', '.join(sorted(known - named))} has no place in its path")
    if re.search(r"[?#\\{}]", _FILLED.sub("", operation.path)):
        raise Unsupported("its path holds what no path may")


# --- bodies --------------------------------------------------------------------------------------------

_TEXTUAL = re.compile(r"text/|application/(?:[\w.-]+\+)?(?:xml|yaml|x-ndjson|graphql|javascript|sql)$")


def body_kind(media: str) -> BodyKind:
    """How a body of a media type is given to a tool."""
    plain = media.partition(";")[0].strip().lower()
    if plain == "*/*" or re.fullmatch(r"application/(?:[\w.-]+\+)?json|text/json|application/\*", plain):
        return "json"
    if plain == "application/x-www-form-urlencoded":
        return "form"
    if plain == "multipart/form-data":
        return "multipart"
    return "text" if _TEXTUAL.match(plain) else "bytes"


_BODY_ORDER: Final[tuple[BodyKind, ...]] = ("json", "form", "multipart", "text", "bytes")


def _body(document: ApiDocument, operation: Operation, taken: set[str], left_out: list[str]) -> Body | None:
    raw = document.resolve(operation.raw.get("requestBody"))
    content = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(content, dict) or not content:
        return None
    if operation.method in READS:
        left_out.append(f"a {operation.method} has no body; the document's is not sent")
        return None
    media = min(content, key=lambda m: (_BODY_ORDER.index(body_kind(m)), m))
    kind = body_kind(media)
    entry = document.resolve(content[media])
    schema = entry.get("schema") if isinstance(entry, dict) else None
    schema = schema if isinstance(schema, dict) else {}
    if len(content) > 1:
        others = ", ".join(sorted(words(m) for m in content if m != media))
        left_out.append(f"its body is sent as {words(media)} alone, not as {others}")
    binary = _binary_parts(document, schema) if kind == "multipart" else ()
    sent = media if "*" not in media else "application/json" if kind == "json" else "application/octet-stream"
    return Body(
        key=input_key("body", "request", taken),
        kind=kind,
        media=_media(sent),
        required=raw.get("required") is True,
        schema=schema,
        raw={"description": raw.get("description"), **(entry if isinstance(entry, dict) else {})},
        binary=binary,
    )


def _media(text: str) -> str:
    """A media type as it can stand in a header. Raises Unsupported."""
    plain = text.strip()
    if not re.fullmatch(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+(?:\s*;\s*[\w-]+=[\w.\"-]+)*", plain, re.ASCII):
        raise Unsupported(f"its media type {words(text)[:80]!r} is none")
    return plain


def _binary_parts(document: ApiDocument, schema: Mapping[str, Any]) -> tuple[str, ...]:
    found = document.resolve(schema)
    binary = []
    for name, part in mapping(mapping(found).get("properties")).items():
        plain = document.resolve(part)
        inner = document.resolve(plain.get("items")) if isinstance(plain, dict) else None
        if any(isinstance(p, dict) and _is_binary(p) for p in (plain, inner)):
            binary.append(name)
    return tuple(binary)


def _is_binary(schema: Mapping[str, Any]) -> bool:
    return schema.get("format") == "binary" or isinstance(schema.get("contentMediaType"), str)


def _accept(document: ApiDocument, operation: Operation) -> str | None:
    """What the call asks for: JSON where a good answer comes as some, else what the document lists first."""
    _, response = good_response(document, operation)
    content = response.get("content")
    if not isinstance(content, dict) or not content:
        return None
    media = min(content, key=lambda m: (_BODY_ORDER.index(body_kind(m)), m))
    try:
        return _media(media)
    except Unsupported:
        return None


def good_response(document: ApiDocument, operation: Operation) -> tuple[int, Mapping[str, Any]]:
    """(status, data) of the first answer that means success; (200, {}) where the document has none."""
    responses = mapping(operation.raw.get("responses"))
    for code in sorted(responses):
        if re.fullmatch(r"2[0-9X]{2}|default", code, re.IGNORECASE):
            try:
                found = document.resolve(responses[code])
            except BadReference:
                continue
            if isinstance(found, dict):
                return (int(code) if code.isdigit() else 200), found
    return 200, {}
