"""Examples of a call, drawn from an OpenAPI document: input, the request it makes, the answer and the output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from impl.sources.apicode import path_pieces
from impl.sources.apidocument import ApiDocument, BadReference, mapping, sequence
from impl.sources.apioperation import Parameter, Plan, body_kind, good_response
from impl.sources.apischema import is_plain

_LARGEST: Final = 8_000
_DEEPEST: Final = 12
_SCHEMAS: Final = 500


_Above = tuple[str | None, ...]
"""The references that a sample stands in, one a level, None for a level without one."""


class _NoSample(Exception):
    """The document shows no value for this."""


def example_of(document: ApiDocument, plan: Plan, input_schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """`{"input", "output", "effects"}` where the document shows values for a whole call and its answer, else None.

    Nothing is invented but empty lists and objects where something must stand. The effect is the request that
    the tool makes of the input, exactly.
    """
    if plan.body is not None and plan.body.kind in ("bytes", "multipart"):
        return None
    try:
        given = _input(document, plan)
        status, media, text, value = _answer(document, plan)
        request = request_of(plan, given)
    except (_NoSample, BadReference, ValueError):
        return None
    if not is_plain(given) or not is_plain(value) or not _fits(given, input_schema):
        return None
    if len(json.dumps(given)) + len(text) > _LARGEST:
        return None
    headers = {"content-type": media} if media else {}
    response: dict[str, Any] = {"status": status, **({"headers": headers} if headers else {}), "body": text}
    return {
        "input": given,
        "output": {"status": status, "body": value},
        "effects": [{"request": request, "response": response}],
    }


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema).is_valid(value)


# --- values of the document ----------------------------------------------------------------------------


def _input(document: ApiDocument, plan: Plan) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for part in plan.parameters:
        try:
            given[part.key] = _shown(document, part.raw, part.schema)
        except _NoSample:
            if part.required:
                raise
    if plan.body is not None:
        try:
            given[plan.body.key] = _shown(document, plan.body.raw, plan.body.schema)
        except _NoSample:
            if plan.body.required:
                raise
    return given


def _shown(document: ApiDocument, raw: Mapping[str, Any], schema: Any, *, answer: bool = False) -> Any:
    """The value that a parameter or media type shows, else that of its schema."""
    if "example" in raw:
        return raw["example"]
    for entry in mapping(raw.get("examples")).values():
        found = document.resolve(entry)
        if isinstance(found, dict) and "value" in found:
            return found["value"]
    value, real = _Sampler(document, answer=answer).sample(schema)
    if not real and not answer:
        raise _NoSample
    return value


class _Sampler:
    """Draws a value from a schema; it looks at so many schemas and no more, since a document may hold very many."""

    def __init__(self, document: ApiDocument, *, answer: bool) -> None:
        self.document = document
        self.left = _SCHEMAS
        self.absent = "writeOnly" if answer else "readOnly"

    def sample(self, schema: Any, above: _Above = ()) -> tuple[Any, bool]:
        """(a value, whether any of it stands in the document). Raises _NoSample, also where a schema holds itself."""
        self.left -= 1
        found = self.document.resolve(schema)
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(found, dict) or self.left < 0 or len(above) > _DEEPEST or (reference and reference in above):
            raise _NoSample
        above = (*above, reference)
        for key in ("example", "default", "const"):
            if key in found:
                return found[key], True
        for key in ("examples", "enum"):
            if shown := sequence(found.get(key)):
                return shown[0], True
        for part in (*sequence(found.get("anyOf")), *sequence(found.get("oneOf"))):
            try:
                return self.sample(part, above)
            except _NoSample:
                continue
        kind = found.get("type")
        if kind == "array":
            return self.of_list(found, above)
        if kind == "object" or "properties" in found or sequence(found.get("allOf")):
            return self.of_object(found, above)
        raise _NoSample

    def of_list(self, schema: Mapping[str, Any], above: _Above) -> tuple[Any, bool]:
        """One item; an empty list where there is none to show and none is needed."""
        least = schema.get("minItems")
        try:
            value, real = self.sample(schema.get("items"), above)
        except _NoSample:
            real = False
        if real:
            return [value] * (min(least, 3) if isinstance(least, int) and least > 1 else 1), True
        if least:
            raise _NoSample
        return [], False

    def of_object(self, schema: Mapping[str, Any], above: _Above) -> tuple[Any, bool]:
        """The properties that have something to show, and those that must be there."""
        value: dict[str, Any] = {}
        any_real = False
        for part in sequence(schema.get("allOf")):
            inner, real = self.sample(part, above)
            if isinstance(inner, dict):
                value.update(inner)
                any_real = any_real or real
        required = sequence(schema.get("required"))
        for name, part in mapping(schema.get("properties")).items():
            if mapping(self.document.resolve(part)).get(self.absent) is True:
                continue
            try:
                inner, real = self.sample(part, above)
            except _NoSample:
                if name in required:
                    raise
                continue
            if real or name in required:
                value[name] = inner
                any_real = any_real or real
        return value, any_real


def _answer(document: ApiDocument, plan: Plan) -> tuple[int, str | None, str, Any]:
    """(status, media type, body, what the tool makes of the body). Raises _NoSample."""
    status, response = good_response(document, plan.operation)
    content = response.get("content")
    if plan.method == "HEAD" or not isinstance(content, dict) or not content:
        return status, None, "", ""
    media = next((m for m in content if m.strip() == plan.accept), None)
    if media is None:
        raise _NoSample
    entry = document.resolve(content[media])
    if not isinstance(entry, dict):
        raise _NoSample
    value = _shown(document, entry, entry.get("schema"), answer=True)
    match body_kind(media):
        case "json":
            text = json.dumps(value)
        case "text" if isinstance(value, str):
            text = value
        case _:
            raise _NoSample
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return status, media, text, value


# --- the request a tool makes --------------------------------------------------------------------------


def request_of(plan: Plan, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the tool asks for with this input: `{"method", "url"}`, and `headers`, `body`, `credential` where
    there are any. It mirrors the generated code. Raises ValueError for a value that no path can hold."""
    url = plan.base
    for text, parameter in path_pieces(plan):
        url += text if parameter is None else _segment(_joined(given[parameter.key]))
    query = [
        pair
        for p in plan.parameters
        if p.where == "query" and given.get(p.key) is not None
        for pair in _pairs(p, given[p.key])
    ]
    headers = {"Accept": plan.accept} if plan.accept else {}
    for p in plan.parameters:
        if p.where == "header" and given.get(p.key) is not None:
            headers[p.name] = json.dumps(given[p.key]) if p.style == "json" else _joined(given[p.key])
    request: dict[str, Any] = {"method": plan.method, "url": url + ("?" + "&".join(query) if query else "")}
    body = ""
    if plan.body is not None and plan.body.key in given:
        headers["Content-Type"] = plan.body.media
        body = _body(plan.body.kind, given[plan.body.key])
    if headers:
        request["headers"] = headers
    if body:
        request["body"] = body
    if plan.scheme is not None:
        request["credential"] = plan.scheme.name
    return request


def _segment(text: str) -> str:
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} cannot stand in a path")
    return quote(text, safe="")


def _joined(value: Any) -> str:
    return ",".join(_plain(item) for item in _listed(value)) if isinstance(value, list | dict) else _plain(value)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def _encoded(value: Any) -> str:
    return quote(_plain(value), safe="")


def _pairs(parameter: Parameter, value: Any) -> list[str]:
    name = quote(parameter.name, safe="")
    match parameter.style:
        case "one":
            return [f"{name}={_encoded(value)}"]
        case "repeat":
            return [f"{name}={_encoded(item)}" for item in _listed(value)]
        case "deep":
            return [f"{name}[{_encoded(key)}]={_encoded(item)}" for key, item in value.items()]
        case "spread":
            return [f"{_encoded(key)}={_encoded(item)}" for key, item in value.items()]
        case "json":
            return [f"{name}={_encoded(json.dumps(value))}"]
        case "comma" | "space" | "pipe":
            mark = {"comma": ",", "space": "%20", "pipe": "%7C"}[parameter.style]
            return [f"{name}={mark.join(_encoded(item) for item in _listed(value))}"]


def _body(kind: str, value: Any) -> str:
    match kind:
        case "json":
            return json.dumps(value)
        case "form":
            pairs = [(n, item) for n, v in value.items() for item in (v if isinstance(v, list) else [v])]
            texts = [(n, json.dumps(item) if isinstance(item, dict) else _plain(item)) for n, item in pairs]
            return "&".join(f"{quote(n, safe='')}={quote(text, safe='')}" for n, text in texts)
        case _:
            return str(value)
