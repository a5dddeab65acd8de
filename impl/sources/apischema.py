"""Turns the schemas of an OpenAPI document into one JSON Schema 2020-12 that a tool's input is held to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final

from impl.sources.apidocument import ApiDocument
from impl.sources.values import shorten

_INLINE_NODES: Final = 400
_INLINE_DEPTH: Final = 20
_MAX_NODES: Final = 1_500
_SHALLOW: Final = 2
_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
_LARGEST: Final = 10**18
"""Whole numbers of more digits do not survive the way through a manifest."""
_EXAMPLE: Final = 400


class TooLarge(Exception):
    """A schema that no tool could carry."""


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and abs(value) < _LARGEST


def _is_count(value: Any) -> bool:
    return _is_number(value) and isinstance(value, int) and value >= 0


def is_plain(value: Any) -> bool:
    """Whether a value comes out of YAML as it went in."""
    match value:
        case None | bool():
            return True
        case str():
            return value.isascii() or value.encode("utf-8", "replace").decode() == value
        case int() | float():
            return _is_number(value)
        case list():
            return all(map(is_plain, value))
        case dict():
            return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
        case _:
            return False


def _is_values(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and is_plain(value)


#: Keywords that are taken as they are where their value is what the standard wants.
_PLAIN: Final[Mapping[str, Callable[[Any], bool]]] = {
    "format": lambda v: isinstance(v, str),
    "enum": _is_values,
    "const": is_plain,
    "default": lambda v: is_plain(v) and len(str(v)) <= _EXAMPLE,
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "multipleOf": lambda v: _is_number(v) and v > 0,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "uniqueItems": lambda v: isinstance(v, bool),
    "minProperties": _is_count,
    "maxProperties": _is_count,
    "deprecated": lambda v: isinstance(v, bool),
}
_ONE: Final = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_SEVERAL: Final = ("allOf", "anyOf", "oneOf", "prefixItems")


class InputSchemas:
    """Builds input schemas from the schemas of one document; each keeps the definitions that refer to themselves."""

    def __init__(self, document: ApiDocument) -> None:
        self._document = document

    def build(
        self, properties: Mapping[str, Mapping[str, Any]], required: Sequence[str]
    ) -> tuple[dict[str, Any], bool]:
        """(an object of these properties and no others, whether it is described to its end).

        `properties` maps a name to the document's own schema, with `description` where there is one. References
        are written out where that stays small, else they become `$defs`; where even those are too many, what lies
        deeper than two of them takes anything. Raises BadReference, TooLarge.
        """
        for mode in ("inline", "shared"):
            try:
                return _Building(self._document, mode).build(properties, required), True
            except TooLarge:
                continue
        return _Building(self._document, "shallow").build(properties, required), False


class _Building:
    """One input schema being built."""

    def __init__(self, document: ApiDocument, mode: str) -> None:
        self.document = document
        self.mode = mode
        self.nodes = 0
        self.names: dict[str, str] = {}
        self.waiting: list[str] = []

    def build(self, properties: Mapping[str, Mapping[str, Any]], required: Sequence[str]) -> dict[str, Any]:
        built: dict[str, Any] = {
            "type": "object",
            "properties": {name: self.convert(schema, (), 2) for name, schema in properties.items()},
        }
        if required:
            built["required"] = list(required)
        built["additionalProperties"] = False
        definitions: dict[str, Any] = {}
        while self.waiting:
            reference = self.waiting.pop(0)
            definitions[self.names[reference]] = self.convert(self.document.at(reference), (reference,), 2)
        if definitions:
            built["$defs"] = {name: definitions[name] for name in sorted(definitions)}
        return built

    def convert(self, schema: Any, above: tuple[str, ...], depth: int) -> Any:
        """One schema; `above` are the references being written out around it."""
        self.nodes += 1
        if self.nodes > (_INLINE_NODES if self.mode == "inline" else _MAX_NODES) or depth > _INLINE_DEPTH:
            raise TooLarge
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            return {}
        if isinstance(schema.get("$ref"), str):
            return self.reference(schema, above, depth)
        return self.nullable(schema, self.keywords(schema, above, depth))

    def reference(self, schema: Mapping[str, Any], above: tuple[str, ...], depth: int) -> Any:
        reference = schema["$ref"]
        target = self.document.at(reference)
        if self.mode == "shallow" and len(above) >= _SHALLOW:
            return {"description": f"{self.name(reference)}, not described further."}
        if self.mode != "shared" and reference not in above:
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            whole = {**target, **beside} if isinstance(target, dict) else target
            return self.convert(whole, (*above, reference), depth)
        if reference not in self.names:
            self.names[reference] = self.name(reference)
            self.waiting.append(reference)
        built: dict[str, Any] = {"$ref": f"#/$defs/{self.names[reference]}"}
        if isinstance(schema.get("description"), str):
            built["description"] = shorten(schema["description"], 600)
        return self.nullable(schema, built)

    def name(self, reference: str) -> str:
        plain = re.sub(r"\W", "_", reference.rpartition("/")[2], flags=re.ASCII)[:60] or "schema"
        taken = set(self.names.values())
        return next(n for n in chain([plain], (f"{plain}_{i}" for i in count(2))) if n not in taken)

    def keywords(self, schema: Mapping[str, Any], above: tuple[str, ...], depth: int) -> dict[str, Any]:
        built: dict[str, Any] = {}
        kinds = _kinds(schema.get("type"))
        if kinds:
            built["type"] = kinds[0] if len(kinds) == 1 else kinds
        words = [shorten(str(schema["description"]), 600)] if isinstance(schema.get("description"), str) else []
        for key, fits in _PLAIN.items():
            if key in schema and fits(schema[key]):
                built[key] = schema[key]
        self.bounds(schema, built)
        if isinstance(pattern := schema.get("pattern"), str):
            if is_safe_pattern(pattern):
                built["pattern"] = pattern
            else:
                words.append(f"Pattern: {shorten(pattern, 200)}")
        if any(words):
            built = {"description": " ".join(word for word in words if word), **built}
        if examples := _examples(schema):
            built["examples"] = examples
        for key in _ONE:
            if isinstance(schema.get(key), dict | bool):
                built[key] = self.convert(schema[key], above, depth + 1)
        for key in _SEVERAL:
            if isinstance(schema.get(key), list) and schema[key]:
                built[key] = [self.convert(part, above, depth + 1) for part in schema[key]]
        self.members(schema, built, above, depth)
        if isinstance(built.get("type"), str) and built["type"] == "array" and "items" not in built:
            built["items"] = {}
        return built

    def bounds(self, schema: Mapping[str, Any], built: dict[str, Any]) -> None:
        """OpenAPI 3.0 says with a boolean that a bound is excluded."""
        for side, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if schema.get(exclusive) is True and side in built:
                built[exclusive] = built.pop(side)

    def members(self, schema: Mapping[str, Any], built: dict[str, Any], above: tuple[str, ...], depth: int) -> None:
        """Properties and which are required; those that only answers have are left out."""
        properties = schema.get("properties")
        named = properties if isinstance(properties, dict) else {}
        given = {name: part for name, part in named.items() if not self.read_only(part)}
        if given:
            built["properties"] = {name: self.convert(part, above, depth + 2) for name, part in given.items()}
        required = schema.get("required")
        if isinstance(required, list):
            texts = dict.fromkeys(name for name in required if isinstance(name, str))
            wanted = [name for name in texts if name in given or name not in named]
            if wanted:
                built["required"] = wanted

    def read_only(self, schema: Any) -> bool:
        found = self.document.resolve(schema)
        return isinstance(found, dict) and found.get("readOnly") is True

    def nullable(self, schema: Mapping[str, Any], built: dict[str, Any]) -> dict[str, Any]:
        if schema.get("nullable") is not True or not self.document.is_30:
            return built
        if isinstance(built.get("type"), str):
            built["type"] = [built["type"], "null"]
            if "enum" in built and None not in built["enum"]:
                built["enum"] = [*built["enum"], None]
            return built
        if "type" not in built and len(built) == 0:
            return built
        description = {"description": built.pop("description")} if "description" in built else {}
        return {**description, "anyOf": [built, {"type": "null"}]}


def _kinds(value: Any) -> list[str]:
    if value == "file":  # a leftover of Swagger 2
        return ["string"]
    named = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(kind for kind in named if isinstance(kind, str) and kind in _TYPES))


def _examples(schema: Mapping[str, Any]) -> list[Any]:
    given = [schema["example"]] if "example" in schema else schema.get("examples")
    if not isinstance(given, list):
        return []
    return [value for value in given[:3] if is_plain(value) and len(str(value)) <= _EXAMPLE]


_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{]")
_UNBOUNDED = re.compile(r"(?<!\\)(?:[*+]|\{\d*,\})")


def is_safe_pattern(pattern: str) -> bool:
    """Whether a pattern compiles here and cannot take exponential time: no group is repeated, little is unbounded."""
    if len(pattern) > 200 or _REPEATED_GROUP.search(pattern) or len(_UNBOUNDED.findall(pattern)) > 2:
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
