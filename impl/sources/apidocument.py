"""Reads an OpenAPI document: YAML or JSON, bounded, as plain data with sorted keys, references inside it alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

MAX_BYTES: Final = 5_000_000
MAX_NODES: Final = 1_000_000
MAX_DEPTH: Final = 100
_HOPS: Final = 50

# The key that makes a document one of these; cheap to look for in files that are mostly something else.
_KEY = re.compile(r"""(?m)^[\s{,]*["']?(?:openapi|swagger)["']?[ \t]*:[ \t]*["']?[0-9]|[{,]\s*"openapi"\s*:\s*"[0-9]""")
_INT = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?")
_WORDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAGS = ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")


class Unreadable(Exception):
    """A document that cannot be used. `line` is where, 1-based, None where no line is to blame."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class BadReference(Exception):
    """A `$ref` that leads out of the document (`outside`), nowhere, or in a circle."""

    def __init__(self, message: str, reference: str = "", *, outside: bool = False) -> None:
        super().__init__(message)
        self.reference = reference
        self.outside = outside


def mapping(value: Any) -> dict[str, Any]:
    """`value` where it is a mapping, else an empty one: what a document leaves out or gets wrong is not there."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """`value` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


class Unsupported(Exception):
    """An operation that no tool can be made of; the words say why."""


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """A document that was read: `data` is plain, every mapping's keys sorted, so that equal documents are alike
    whatever their order and notation. `version` is `3.0.4`, `3.1.0`, …"""

    path: str
    version: str
    data: Mapping[str, Any]

    @property
    def is_30(self) -> bool:
        """Whether its schemas follow OpenAPI 3.0's own dialect rather than JSON Schema 2020-12."""
        return self.version.startswith("3.0")

    def resolve(self, node: Any) -> Any:
        """`node`, or what its `$ref` names, with a description of its own kept. Raises BadReference."""
        for _ in range(_HOPS):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            target = self.at(node["$ref"])
            said = {key: node[key] for key in ("summary", "description") if isinstance(node.get(key), str)}
            node = {**target, **said} if isinstance(target, dict) else target
        raise BadReference("a $ref leads in a circle")

    def at(self, reference: str) -> Any:
        """What a reference such as `#/components/schemas/Pet` names. Raises BadReference."""
        if not reference.startswith("#/"):
            raise BadReference(f"the $ref {reference[:200]!r} leads out of the document", reference, outside=True)
        node: Any = self.data
        for raw in unquote(reference)[2:].split("/"):
            token = raw.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and token in node:
                node = node[token]
            elif isinstance(node, list) and token.isascii() and token.isdigit() and int(token) < len(node):
                node = node[int(token)]
            else:
                raise BadReference(f"the $ref {reference[:200]!r} names nothing", reference)
        return node


def version_line(text: str) -> tuple[int, str] | None:
    """(line, text of it) of the key that says a text is an OpenAPI or Swagger document, None where none does."""
    match = _KEY.search(text)
    if match is None:
        return None
    number = text.count("\n", 0, match.end()) + 1
    return number, text.splitlines()[number - 1]


def read_document(data: bytes, path: str) -> ApiDocument | None:
    """The document, or None where the file is something else. Raises Unreadable, also for Swagger 2.0."""
    if len(data) > MAX_BYTES:
        raise Unreadable(f"It is larger than {MAX_BYTES / 1e6:,.0f} MB.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable("It is not UTF-8.") from error
    value = _json(text) if path.lower().endswith(".json") else _yaml(text)
    if not isinstance(value, dict):
        return None
    version = str(value.get("openapi") or value.get("swagger") or "")
    if not re.match(r"\d", version):
        return None
    if "openapi" not in value:
        raise Unreadable(f"It is Swagger {version}. Convert it to OpenAPI 3 first; then build again.")
    if not version.startswith(("3.0", "3.1")):
        raise Unreadable(f"It is OpenAPI {version}; 3.0 and 3.1 are understood.")
    return ApiDocument(path, version, value)


def _json(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise Unreadable(f"The key {key[:80]!r} stands twice in one object.")
            found[key] = value
        return found

    def refuse(name: str) -> Any:
        raise Unreadable(f"{name} is no number of JSON.")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
        return _Plain().json(value, 0)
    except RecursionError as error:
        raise Unreadable(f"It nests deeper than {MAX_DEPTH}.") from error
    except ValueError as error:
        raise Unreadable(f"It is not valid JSON: {error}.", getattr(error, "lineno", None)) from error


def _yaml(text: str) -> Any:
    import yaml

    try:
        node = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"It is not valid YAML: {error.problem or error.context}."
        raise Unreadable(message, mark.line + 1 if mark else None) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise Unreadable("It holds what YAML does not allow.") from error
    return None if node is None else _Plain().yaml(node, 0)


def _loader() -> Any:
    """A loader that only composes nodes and guesses no type: types are YAML 1.2's, given by `_scalar`."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the library's own spelling

    return Loader


class _Plain:
    """Turns what a parser gave into plain data, counting: aliases are written out, so bombs run into the cap."""

    def __init__(self) -> None:
        self.nodes = 0

    def count(self, depth: int, line: int | None = None) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise Unreadable(f"It has more than {MAX_NODES:,} values once its aliases are written out.", line)
        if depth > MAX_DEPTH:
            raise Unreadable(f"It nests deeper than {MAX_DEPTH}.", line)

    def json(self, value: Any, depth: int) -> Any:
        self.count(depth)
        if isinstance(value, dict):
            return {key: self.json(value[key], depth + 1) for key in sorted(value)}
        if isinstance(value, list):
            return [self.json(item, depth + 1) for item in value]
        # Half of a surrogate pair can be written in JSON, but in no file.
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value

    def yaml(self, node: Any, depth: int) -> Any:
        import yaml

        line = node.start_mark.line + 1
        self.count(depth, line)
        if node.tag.removeprefix("tag:yaml.org,2002:") not in _TAGS:
            raise Unreadable(f"The YAML tag {node.tag[:80]!r} is not understood.", line)
        match node:
            case yaml.ScalarNode():
                return node.value if node.style else _scalar(node.value)
            case yaml.SequenceNode():
                return [self.yaml(child, depth + 1) for child in node.value]
            case yaml.MappingNode():
                return self.mapping(node, depth)
        raise Unreadable("It holds what YAML does not allow.", line)

    def mapping(self, node: Any, depth: int) -> dict[str, Any]:
        """A mapping; keys are their text, `<<` brings in what it names where the mapping does not say it."""
        import yaml

        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise Unreadable("A key is not a single word or text.", line)
            plain = self.yaml(value, depth + 1)
            if key.value == "<<" and not key.style:
                for part in plain if isinstance(plain, list) else [plain]:
                    merged = {**part, **merged} if isinstance(part, dict) else merged
            elif key.value in own:
                raise Unreadable(f"The key {key.value[:80]!r} stands twice in one mapping.", line)
            else:
                own[key.value] = plain
        every = {**merged, **own}
        return {key: every[key] for key in sorted(every)}


def _scalar(text: str) -> Any:
    """The value of a plain scalar under YAML 1.2: `no`, `on` and dates are texts."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text
