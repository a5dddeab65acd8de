"""From what a server lists and answers to what a model reads: nothing of it is trusted. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from core import judge_schema
from impl.mcp.client.problems import plain

if TYPE_CHECKING:
    import mcp_types as types

    from core import Decision

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes as a tool's name."""
MAX_DESCRIPTION: Final = 1024
MAX_SCHEMA: Final = 32_000
"""Characters of a tool's schema as JSON."""
_WORDS: Final = frozenset({"description", "title"})
_DROPPED: Final = frozenset({"$schema", "$comment", "examples", "pattern", "patternProperties", "format"})
"""Left out of schemas: another dialect's name, text no one checks, and patterns, which may take for ever to run."""
_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_DATA: Final = frozenset({"const", "enum", "default", "required", "dependentRequired"})


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool as the loop gets it: `name` is `<server>__<tool>`, `tool` the server's own name for it."""

    name: str
    tool: str
    description: str
    schema: Mapping[str, Any]
    default: Decision


def offer(server: str, tools: Iterable[types.Tool], taken: Iterable[str] = ()) -> tuple[list[Offered], list[str]]:
    """The tools that can be offered, and why others are left out. `taken` are names that are in use already.

    A tool that its server marks as reading only, and not as destructive, runs without asking; every other asks.
    """
    offered: dict[str, Offered] = {}
    out: list[str] = []
    used = set(taken)
    for tool in tools:
        name = f"{server}__" + re.sub(r"[^A-Za-z0-9_-]", "_", tool.name)
        shown = repr(plain(tool.name, 60))
        if not NAME.fullmatch(name):
            out.append(f"{shown}: its name is empty or too long")
        elif name in used:
            out.append(f"{shown}: the name {name} is taken")
        elif isinstance(schema := _schema(tool.input_schema), str):
            out.append(f"{shown}: {schema}")
        else:
            used.add(name)
            words = plain(tool.description or tool.title or "", MAX_DESCRIPTION) or "It does not describe this tool."
            description = f"From the MCP server {server}: {words}"
            offered[name] = Offered(name, tool.name, description, schema, _default(tool))
    return list(offered.values()), out


def _default(tool: types.Tool) -> Decision:
    marks = tool.annotations
    reads = marks is not None and marks.read_only_hint is True and marks.destructive_hint is not True
    return "allow" if reads else "ask"


def _schema(schema: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """The schema as a model gets it and arguments are checked by, or why there is none."""
    try:
        size = len(json.dumps(schema))
    except (ValueError, RecursionError):
        return "its schema is not JSON"
    if size > MAX_SCHEMA:
        return f"its schema has {size:,} characters, more than {MAX_SCHEMA:,}"
    bare = {key: value for key, value in schema.items() if key != "$schema"}
    problems = judge_schema(bare, "schema")
    if problems:
        return plain(problems[0].message, 200)
    cleaned: dict[str, Any] = _cleaned(bare)
    return cleaned if _valid(cleaned) else "its schema is not valid"


def _cleaned(node: Any) -> Any:
    if isinstance(node, list):
        return [_cleaned(item) for item in node]
    if not isinstance(node, dict):
        return node
    loose = "patternProperties" in node
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key in _WORDS:
            result[key] = plain(str(value), MAX_DESCRIPTION)
        elif key in _DATA:
            result[key] = value
        elif key in _NAMED and isinstance(value, dict):
            result[key] = {name: _cleaned(item) for name, item in value.items()}
        elif key not in _DROPPED and not (loose and key in ("additionalProperties", "unevaluatedProperties")):
            result[key] = _cleaned(value)
    return result


def _valid(schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError):
        return False
    return True


def text_of(result: Mapping[str, Any]) -> str:
    """A tool's result, in the form it has on the wire, as text: what is not text is named with its kind and size."""
    parts = [_block(block) for block in _list(result.get("content"))]
    structured = result.get("structuredContent")
    if structured is not None and not any(block.get("type") == "text" for block in _list(result.get("content"))):
        parts.append(json.dumps(structured, ensure_ascii=False, indent=1))
    return "\n".join(part for part in parts if part) or "[no output]"


def _list(value: Any) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _block(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "resource_link":
            return f"[resource {plain(str(block.get('name', '')), 200)}: {plain(str(block.get('uri', '')), 1000)}]"
        case "resource":
            resource = block.get("resource")
            inner = resource if isinstance(resource, dict) else {}
            if isinstance(inner.get("text"), str):
                return str(inner["text"])
            return f"[resource {plain(str(inner.get('uri', '')), 1000)}: not text, not shown]"
        case kind:
            size = len(str(block.get("data", ""))) * 3 // 4
            return f"[{plain(str(kind), 40)} {plain(str(block.get('mimeType', '')), 80)}: {size:,} bytes, not shown]"
