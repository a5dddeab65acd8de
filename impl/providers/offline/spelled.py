"""Tool calls that a task spells out: a tool's name with `key=value` words or a JSON object. Nothing is guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core import ToolSpec


@dataclass(frozen=True, slots=True)
class Spelled:
    """A tool the task names. `missing` are required arguments it does not give, `wrong` those whose value has
    not the type wanted; the call is unmistakable where both are empty."""

    tool: ToolSpec
    args: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


_PAIR: Final = re.compile(
    r"(?<![\w.-])(?:--)?([A-Za-z_][\w.-]*)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\[{]|(?:[^\s,;]|[,;](?=\S)(?![\w.-]+\s*=))+)"
)


def spelled(task: str, tools: Sequence[ToolSpec]) -> Spelled | None:
    """The call that `task` spells out, or the tool it names without all its arguments; None for neither."""
    found = _object_alone(task, tools)
    if found is not None:
        return found
    # The longest name first: `get_pet` is not meant where `get_pet_by_id` stands.
    for tool in sorted(tools, key=lambda t: -len(t.name)):
        at = _named(task, tool.name)
        if at is not None:
            call = _call(tool, task, at)
            if call.args or call.wrong or not _everyday(tool.name) or task.strip(" `.?!") == tool.name:
                return call
    return None


def usage(tool: ToolSpec) -> str:
    """How a call of `tool` is spelled: `name key=… [key=…]`."""
    required = _required(tool)
    optional = [key for key in _properties(tool) if key not in required]
    return " ".join([tool.name, *(f"{k}=…" for k in required), *(f"[{k}=…]" for k in optional[:6])])


def _object_alone(task: str, tools: Sequence[ToolSpec]) -> Spelled | None:
    """A task that is one JSON object: `{"tool": NAME, "args": {…}}`, or the arguments of the only tool they fit."""
    value = _json(task)
    if not isinstance(value, dict):
        return None
    for key in ("tool", "name"):
        tool = next((t for t in tools if t.name == value.get(key)), None)
        args = next((value[k] for k in ("args", "arguments", "input") if isinstance(value.get(k), dict)), None)
        if tool is not None and args is not None:
            return Spelled(tool, args, _missing(tool, args))
    fitting = [t for t in tools if set(_required(t)) <= set(value) <= set(_properties(t))]
    return Spelled(fitting[0], value) if len(fitting) == 1 else None


def _named(task: str, name: str) -> tuple[int, int] | None:
    """Where the tool's name stands: as it is, or (of two words or more) with spaces or hyphens."""
    match = re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", task)
    if match is None and "_" in name.strip("_"):
        loose = r"[\s_-]".join(map(re.escape, name.split("_")))
        match = re.search(rf"(?<![\w./-]){loose}(?![\w/-])", task, re.IGNORECASE)
    return match.span() if match else None


def _everyday(name: str) -> bool:
    """Whether the name is one plain word, which a sentence may hold without meaning the tool."""
    return name.isalpha() and name == name.lower()


def _call(tool: ToolSpec, task: str, at: tuple[int, int]) -> Spelled:
    rest = task[at[1] :].strip()
    value = _json(rest[rest.find("{") :]) if "{" in rest else None
    if isinstance(value, dict) and "=" not in rest[: rest.find("{")]:
        return Spelled(tool, value, _missing(tool, value))
    properties = _properties(tool)
    args: dict[str, Any] = {}
    wrong: list[str] = []
    for key, text in _pairs(task[: at[0]] + " " + task[at[1] :]):
        name = next((p for p in properties if p == key or p.casefold() == key.casefold()), None)
        if name is None:
            continue
        good, converted = _typed(text, properties[name])
        if good:
            args[name] = converted
        else:
            wrong.append(name)
    if not args and not wrong:
        args.update(_bare_value(tool, rest.lstrip(":( ").rstrip(" )"), starts=not task[: at[0]].strip(" `")))
    return Spelled(tool, args, tuple(k for k in _missing(tool, args) if k not in wrong), tuple(wrong))


def _bare_value(tool: ToolSpec, rest: str, *, starts: bool) -> dict[str, Any]:
    """`get_pet 42`: the one required argument of a tool whose name begins the task."""
    required = _required(tool)
    plain, quoted = _unquoted(rest)
    if len(required) != 1 or not starts or not rest or (not quoted and re.search(r"\s", plain)):
        return {}
    good, value = _typed(rest, _properties(tool).get(required[0], {}))
    return {required[0]: value} if good else {}


def _pairs(text: str) -> list[tuple[str, str]]:
    """(key, value as written) of every `key=value`; a list or an object is taken whole."""
    pairs: list[tuple[str, str]] = []
    at = 0
    while match := _PAIR.search(text, at):
        value, at = match[2], match.end()
        if value in ("[", "{"):
            try:
                _, end = json.JSONDecoder().raw_decode(text, match.start(2))
            except (ValueError, RecursionError):
                end = at
            value, at = text[match.start(2) : end], end
        pairs.append((match[1], value.rstrip("?!") if not value.startswith(('"', "'")) else value))
    return pairs


def _typed(text: str, schema: Any) -> tuple[bool, Any]:
    """(whether it fits, the value) of a written value for a property's schema."""
    plain, quoted = _unquoted(text)
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = kinds if isinstance(kinds, list) else [kinds]
    for kind in kinds:
        match kind:
            case "string":
                return True, plain if quoted else plain.rstrip(".")
            case "integer" if re.fullmatch(r"[+-]?\d{1,18}\.?", plain):
                return True, int(plain.rstrip("."))
            case "number" if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", plain):
                return True, float(plain) if re.search(r"[.eE]", plain.rstrip(".")) else int(plain.rstrip("."))
            case "boolean" if plain.casefold().rstrip(".") in ("true", "false", "yes", "no"):
                return True, plain.casefold().rstrip(".") in ("true", "yes")
            case "array":
                value = _json(plain)
                return True, value if isinstance(value, list) else _items(plain, schema)
            case "object" if isinstance(value := _json(plain), dict):
                return True, value
            case "null" if plain == "null":
                return True, None
            case None:
                value = _json(plain)
                return True, plain if value is None or quoted else value
            case _:
                continue
    return False, None


def _items(text: str, schema: Mapping[str, Any]) -> list[Any]:
    inner = schema.get("items")
    pairs = [
        _typed(part.strip(), inner if isinstance(inner, Mapping) else {"type": "string"}) for part in text.split(",")
    ]
    return [value for good, value in pairs if good]


def _unquoted(text: str) -> tuple[str, bool]:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'`":
        value = _json(text) if text[0] == '"' else None
        return (value if isinstance(value, str) else text[1:-1]), True
    return text, False


def _json(text: str) -> Any:
    """The JSON value at the head of `text` with nothing but space and closing marks behind it, else None."""
    text = text.strip().strip("`").strip()
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return None if text[end:].strip(" \n).`") else value


def _properties(tool: ToolSpec) -> Mapping[str, Any]:
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _required(tool: ToolSpec) -> list[str]:
    required = tool.input_schema.get("required")
    return [str(k) for k in required] if isinstance(required, list | tuple) else []


def _missing(tool: ToolSpec, args: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(key for key in _required(tool) if key not in args)
