"""Strict YAML: the 1.2 core types, no aliases, no duplicate keys, bounded, and every value knows its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from core.bundle.problems import Problem, ProblemCode

MAX_BYTES = 256_000
MAX_DEPTH = 32

Loc = tuple[str | int, ...]

_INT = re.compile(r"[-+]?[0-9]{1,18}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,15}")
_OCTAL = re.compile(r"0o[0-7]{1,20}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(slots=True)
class Document:
    """What was read: `value` is plain data (None where nothing could be), `lines` maps a place in it, such
    as `("credentials", 0, "name")`, to its 1-based line, `holes` are places an alias stood in, and `broken`
    says that reading ended early."""

    value: Any = None
    lines: dict[Loc, int] = field(default_factory=dict)
    holes: set[Loc] = field(default_factory=set)
    broken: bool = False
    problems: list[Problem] = field(default_factory=list)

    def line(self, loc: Loc) -> int | None:
        """The line of the place, or of the nearest place around it."""
        for end in range(len(loc), -1, -1):
            if loc[:end] in self.lines:
                return self.lines[loc[:end]]
        return None


def resolve(text: str) -> Any:
    """The value of a plain scalar under YAML 1.2: `no`, `on` and `yes` are strings."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def load(data: bytes, path: str, *, strings: bool = False, first_line: int = 1) -> Document:
    """Read one YAML document. Never raises for bad content: `problems` says what is wrong, and what could
    be read is in `value` all the same, so that other checks go on.

    `path` is named in problems. With `strings` every scalar is text. `first_line` is the line the data
    begins on in its file.
    """
    document = Document(broken=True)
    if len(data) > MAX_BYTES:
        message = f"{len(data):,} bytes; at most {MAX_BYTES:,}"
        document.problems.append(Problem(ProblemCode.YAML_TOO_LARGE, path, message, "Move long text to files."))
        return document
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        document.problems.append(Problem(ProblemCode.NOT_UTF8, path, "is not UTF-8", "Save it as UTF-8."))
        return document
    builder = _Builder(document, path, strings, first_line)
    try:
        for event in yaml.parse(text, Loader=_PARSER):
            if builder.take(event):
                break
        else:
            document.broken = False
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + first_line if mark else first_line
        message = str(error.problem or error.context or "cannot be read")
        # The C parser has a nesting limit of its own and meets it before we see the events.
        deep = "nesting depth" in message
        hint = "Nest less." if deep else "Mend the YAML there, or just above: quotes, indentation, brackets."
        builder.report(ProblemCode.YAML_TOO_DEEP if deep else ProblemCode.YAML_SYNTAX, line, message, hint)
    except yaml.YAMLError:
        builder.report(ProblemCode.YAML_SYNTAX, first_line, "holds a character YAML does not allow", "Take it out.")
    return document


_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MISSING = object()


@dataclass(slots=True)
class _Frame:
    """A mapping or sequence being filled; `key` is the mapping's key whose value comes next."""

    container: dict[str, Any] | list[Any]
    loc: Loc
    key: Any = _MISSING


class _Builder:
    """Turns parser events into plain data. An alias stands for nothing, so no bomb can go off."""

    def __init__(self, document: Document, path: str, strings: bool, first_line: int) -> None:
        self.document = document
        self.path = path
        self.strings = strings
        self.first_line = first_line
        self.frames: list[_Frame] = []
        self.documents = 0
        self.anchors: set[str] = set()

    def report(self, code: ProblemCode, line: int, message: str, hint: str = "") -> None:
        self.document.problems.append(Problem(code, self.path, f"line {line}: {message}", hint))

    def take(self, event: Any) -> bool:
        """Take one event; True where reading must end."""
        line = event.start_mark.line + self.first_line
        anchor = getattr(event, "anchor", None)
        if anchor is not None and anchor not in self.anchors:
            self.anchors.add(anchor)  # said once each: a bomb has thousands
            sign = "alias *" if isinstance(event, yaml.AliasEvent) else "anchor &"
            hint = "Write the value out."
            self.report(ProblemCode.YAML_ALIAS, line, f"{sign}{anchor} is not allowed", hint)
        tag = getattr(event, "tag", None)
        if tag is not None:
            self.report(ProblemCode.YAML_SYNTAX, line, f"the tag {tag} is not allowed", "Remove it.")
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    self.report(ProblemCode.YAML_SYNTAX, line, "a second document begins", "Keep one document.")
                    return True
            case yaml.MappingStartEvent():
                return self.open({}, line)
            case yaml.SequenceStartEvent():
                return self.open([], line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.frames.pop()
            case yaml.AliasEvent():
                loc = self.scalar(None, f"*{event.anchor}", line)
                self.document.holes.add(loc)
            case yaml.ScalarEvent():
                plain = event.implicit[0] and not self.strings
                self.scalar(resolve(event.value) if plain else event.value, event.value, line)
        return False

    def open(self, container: dict[str, Any] | list[Any], line: int) -> bool:
        if len(self.frames) >= MAX_DEPTH:
            self.report(ProblemCode.YAML_TOO_DEEP, line, f"nests deeper than {MAX_DEPTH}", "Nest less.")
            return True
        if self.frames and isinstance(self.frames[-1].container, dict) and self.frames[-1].key is _MISSING:
            self.report(ProblemCode.YAML_SYNTAX, line, "a key must be a single word or text", "Quote the key.")
            return True
        loc = self.put(container, line)
        self.frames.append(_Frame(container, loc))
        return False

    def scalar(self, value: Any, text: str, line: int) -> Loc:
        frame = self.frames[-1] if self.frames else None
        if frame is not None and isinstance(frame.container, dict) and frame.key is _MISSING:
            # A key is its text, whatever type it would be as a value: JSON has no others.
            if text in frame.container:
                hint = "Keep one of them."
                self.report(ProblemCode.YAML_DUPLICATE_KEY, line, f"the key {text!r} stands twice", hint)
            frame.key = text
            self.document.lines.setdefault((*frame.loc, text), line)
            return (*frame.loc, text)
        return self.put(value, line)

    def put(self, value: Any, line: int) -> Loc:
        """Place a value where the parser stands; the first of two with the same key stays."""
        if not self.frames:
            self.document.value = value
            self.document.lines[()] = line
            return ()
        frame = self.frames[-1]
        if isinstance(frame.container, list):
            frame.container.append(value)
            loc: Loc = (*frame.loc, len(frame.container) - 1)
        else:
            frame.container.setdefault(frame.key, value)
            loc = (*frame.loc, frame.key)
            frame.key = _MISSING
        self.document.lines.setdefault(loc, line)
        return loc


class _Dumper(yaml.SafeDumper):
    """Block style, no anchors, and quotes wherever either YAML version would read something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, data: str) -> yaml.ScalarNode:
    style = None
    if any(sign in data for sign in "\r\x85\u2028\u2029\ufeff"):
        style = '"'  # unquoted they would be read as line breaks, or not at all
    elif "\n" in data:
        style = "|"
    elif not isinstance(resolve(data), str):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(value: Mapping[str, Any]) -> str:
    """`value` as YAML in the order of its keys; `load` reads the same value back."""
    return yaml.dump(
        dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100
    )
