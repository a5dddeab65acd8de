"""Makes the tool of one operation: its manifest, its code, and what it lacks of the operation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from impl.sources.apicode import tool_code
from impl.sources.apidocument import ApiDocument, Unsupported, mapping
from impl.sources.apiexample import example_of
from impl.sources.apioperation import BASE64, WRITES, Body, Operation, Parameter, Plan, plan, words
from impl.sources.apischema import InputSchemas, TooLarge
from impl.sources.values import shorten

_LARGEST: Final = 200_000
_DEEPEST: Final = 28
"""What a tool.yaml may hold and how deep it may nest, a little below what the checks take."""
_SECRET = re.compile(
    r"passw(?:or)?d|passphrase|secret|(?:api|access|private)[-_]?key|(?<![a-z])(?:auth[-_]?)?token$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class MadeTool:
    """A tool before it is written. `left_out` says what of the operation it lacks."""

    name: str
    plan: Plan
    manifest: str
    code: str
    left_out: tuple[str, ...]


def make_tool(document: ApiDocument, operation: Operation) -> MadeTool | str:
    """The tool of an operation, or why there can be none. Raises BadReference."""
    try:
        planned = plan(document, operation)
        schema, whole = _input_schema(document, planned)
    except Unsupported as error:
        return str(error)
    except TooLarge:
        return "its input is larger or nests deeper than a tool's may"
    example = example_of(document, planned, schema)
    code = tool_code(planned)
    for shown in (example, None) if example is not None else (None,):
        manifest = _manifest(planned, schema, shown)
        if manifest is not None and not _holds_secret(manifest + code):
            lacks = () if whole else ("what lies deep in its input is not described to the model",)
            left_out = (*planned.left_out, *lacks, *_warnings(planned, schema))
            return MadeTool(operation.name, planned, manifest, code, left_out)
    return "its description is too large, or holds what looks like a secret"


def _holds_secret(text: str) -> bool:
    from core import scan_for_secrets

    return bool(scan_for_secrets(text.encode(), ""))


def _manifest(planned: Plan, schema: Mapping[str, Any], example: Mapping[str, Any] | None) -> str | None:
    """The text of tool.yaml, None where it is too large or too deep."""
    from core import ToolManifest, dump_tool

    data: dict[str, Any] = {
        "name": planned.operation.name,
        "description": _description(planned),
        "input_schema": schema,
        "hosts": [planned.host],
    }
    if planned.scheme is not None:
        data["credentials"] = [planned.scheme.name]
    if example is not None:
        data["examples"] = [example]
    if _depth(data) > _DEEPEST:
        return None
    text = dump_tool(ToolManifest.model_validate(data))
    return text if len(text.encode()) <= _LARGEST else None


def _depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + max(map(_depth, children), default=0) if isinstance(value, dict | list | tuple) else 0


def _description(planned: Plan) -> str:
    operation = planned.operation
    said = words(operation.raw.get("description"))
    parts = [_sentence(operation.summary)]
    if said and said.rstrip(".").casefold() != operation.summary.rstrip(".").casefold():
        parts.append(_sentence(shorten(said, 800)))
    parts += ["Deprecated."] if operation.deprecated else []
    parts += ["It writes."] if planned.method in WRITES else []
    parts.append(f"{planned.method} {operation.path}. Gives status and body.")
    return " ".join(parts)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else text + "."


# --- the input -----------------------------------------------------------------------------------------


def _input_schema(document: ApiDocument, planned: Plan) -> tuple[dict[str, Any], bool]:
    properties: dict[str, Mapping[str, Any]] = {}
    required: list[str] = []
    for parameter in planned.parameters:
        properties[parameter.key] = _parameter_schema(document, parameter)
        required += [parameter.key] if parameter.required else []
    if planned.body is not None:
        properties[planned.body.key] = _body_schema(document, planned.body)
        required += [planned.body.key] if planned.body.required else []
    return InputSchemas(document).build(properties, required)


def _parameter_schema(document: ApiDocument, parameter: Parameter) -> dict[str, Any]:
    schema = dict(parameter.schema) or {"type": "string"}
    said = words(parameter.raw.get("description"))
    if said:
        schema["description"] = said
    if parameter.raw.get("deprecated") is True:
        schema["deprecated"] = True
    found = document.resolve(parameter.schema)
    if parameter.where == "path" and isinstance(found, dict) and found.get("type") == "string" and "enum" not in found:
        schema.setdefault("minLength", found.get("minLength", 1) or 1)
    return schema


def _body_schema(document: ApiDocument, body: Body) -> dict[str, Any]:
    said = words(body.raw.get("description"))
    match body.kind:
        case "json":
            return {**body.schema, "description": said} if said else dict(body.schema)
        case "text":
            return {"type": "string", "description": f"{said} The body, as {body.media}.".strip()}
        case "bytes":
            return {"type": "string", "description": f"{said} {BASE64}".strip()}
        case "form" | "multipart":
            return _form_schema(document, body, said)


def _form_schema(document: ApiDocument, body: Body, said: str) -> dict[str, Any]:
    """An object whose binary parts are told to be base64."""
    found = document.resolve(body.schema)
    schema: dict[str, Any] = dict(found) if isinstance(found, dict) else {}
    schema["type"] = "object"
    properties = dict(mapping(schema.get("properties")))
    for name in body.binary:
        part = document.resolve(properties[name])
        told = f"{words(part.get('description'))} {BASE64}".strip()
        one = {"type": "string", "description": told}
        several = {"type": "array", "items": {"type": "string"}, "description": told}
        properties[name] = several if part.get("type") == "array" else one
    if properties:
        schema["properties"] = properties
    if said:
        schema["description"] = said
    return schema


def _warnings(planned: Plan, schema: Mapping[str, Any]) -> Iterator[str]:
    """Inputs that would carry a secret through the conversation."""
    named = [p.key for p in planned.parameters if _SECRET.search(p.name) or p.schema.get("format") == "password"]
    if planned.body is not None:
        body = schema["properties"][planned.body.key]
        inner = body.get("properties") if isinstance(body, dict) else None
        for name, part in inner.items() if isinstance(inner, dict) else ():
            if _SECRET.search(name) or (isinstance(part, dict) and part.get("format") == "password"):
                named.append(name)
    if named:
        yield f"what is given as {', '.join(named)} passes through the conversation, unlike a credential"
