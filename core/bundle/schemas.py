"""JSON Schemas of tools: reading them strictly and judging every `$ref` without resolving any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from core.bundle.problems import Problem, ProblemCode

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_BYTES = 256_000
MAX_SCHEMA_DEPTH = 64

# Where a schema holds data or names rather than schemas: a "$ref" there is no reference.
_DATA = frozenset({"const", "enum", "default", "examples", "required", "dependentRequired"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_REFERENCES = ("$ref", "$dynamicRef")


def load_json(data: bytes, path: str) -> tuple[Any, list[Problem]]:
    """Strict JSON: UTF-8, no duplicate keys, no NaN, bounded. The value is None where there is a problem."""
    if len(data) > MAX_SCHEMA_BYTES:
        message = f"{len(data):,} bytes; at most {MAX_SCHEMA_BYTES:,}"
        return None, [Problem(ProblemCode.FILE_TOO_LARGE, path, message)]
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=_refuse), []
    except UnicodeDecodeError:
        return None, [Problem(ProblemCode.NOT_UTF8, path, "is not UTF-8", "Save it as UTF-8.")]
    except RecursionError:
        return None, [Problem(ProblemCode.SCHEMA_INVALID, path, "is nested too deeply")]
    except ValueError as error:
        return None, [Problem(ProblemCode.SCHEMA_INVALID, path, f"is not JSON: {error}")]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} stands twice")
        result[key] = value
    return result


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def judge_schema(schema: Any, path: str) -> list[Problem]:
    """What is wrong with an input schema without running it: type, dialect, depth and references."""
    if not isinstance(schema, dict):
        return [Problem(ProblemCode.SCHEMA_NOT_OBJECT, path, "the schema must be a mapping of type object")]
    problems: list[Problem] = []
    if schema.get("type") != "object":
        hint = "Say type: object and put the inputs under properties."
        problems.append(Problem(ProblemCode.SCHEMA_NOT_OBJECT, path, "the schema is not of type object", hint))
    dialect = schema.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        hint = f"Use {DIALECT}, or leave $schema out."
        problems.append(Problem(ProblemCode.SCHEMA_INVALID, path, "the schema is of another dialect", hint))
    if too_deep(schema):
        message = f"the schema nests deeper than {MAX_SCHEMA_DEPTH}"
        return [*problems, Problem(ProblemCode.SCHEMA_INVALID, path, message)]
    for place, keyword, target in references(schema):
        problems.extend(_judge_reference(schema, place, keyword, target, path))
    return problems


def too_deep(value: Any) -> bool:
    """Whether plain data nests deeper than the cap; walks level by level, so depth cannot hurt."""
    level = [value]
    for _ in range(MAX_SCHEMA_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def references(schema: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Every (JSON pointer of its schema, keyword, target) reference, in document order."""
    stack: list[tuple[str, Any]] = [("#", schema)]
    while stack:
        place, node = stack.pop()
        children: list[tuple[str, Any]] = []
        if isinstance(node, list):
            children = [(f"{place}/{i}", item) for i, item in enumerate(node)]
        elif isinstance(node, dict):
            for key, value in node.items():
                if key in _REFERENCES:
                    yield place, key, value
                elif key in _NAMED and isinstance(value, dict):
                    children.extend((f"{place}/{key}/{name}", item) for name, item in value.items())
                elif key not in _DATA:
                    children.append((f"{place}/{key}", value))
        stack.extend(reversed(children))


def anchors(schema: dict[str, Any]) -> set[str]:
    """The names that subschemas give themselves."""
    found: set[str] = set()
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            found.update(v for k, v in node.items() if k in ("$anchor", "$dynamicAnchor") and isinstance(v, str))
            stack.extend(value for key, value in node.items() if key not in _DATA)
        elif isinstance(node, list):
            stack.extend(node)
    return found


def _judge_reference(schema: Any, place: str, keyword: str, target: Any, path: str) -> list[Problem]:
    if not isinstance(target, str) or not target.startswith("#"):
        message = f"{place}: {keyword} {str(target)[:200]!r} does not begin with #"
        hint = "Put what it names under $defs of the same schema."
        return [Problem(ProblemCode.SCHEMA_REMOTE_REF, path, message, hint)]
    if not _resolves(schema, target):
        message = f"{place}: {keyword} {target[:200]!r} names nothing in the schema"
        return [Problem(ProblemCode.SCHEMA_DANGLING_REF, path, message, "Define it, or correct the name.")]
    return []


def _resolves(schema: Any, pointer: str) -> bool:
    if pointer == "#":
        return True
    if not pointer.startswith("#/"):
        return pointer[1:] in anchors(schema)
    node = schema
    for raw in unquote(pointer)[2:].split("/"):
        token = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and token in node:
            node = node[token]
        elif isinstance(node, list) and token.isascii() and token.isdigit() and int(token) < len(node):
            node = node[int(token)]
        else:
            return False
    return isinstance(node, (dict, bool))
