"""The packages that a project's dependency files name, with the line each stands on."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from impl.sources.tree import SourceTree

_MOST = 3_000
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\])?\s*([^;#]*)(;[^#]*)?")
_ELSEWHERE = re.compile(r"sys_platform|platform_system|os_name|extra\s*==")
_QUOTED = re.compile(r"""["']([A-Za-z0-9@][\w./-]*)\s*(?:\[[^\]]*\])?\s*([<>=~!][^"';]*)?(;[^"']*)?["']""")


@dataclass(frozen=True, slots=True)
class Dependency:
    """A package by `name` with its version `spec`; `optional` where it is not always installed (an extra, a
    development group, another platform's). `evidence` is `path:line: text`."""

    name: str
    spec: str
    optional: bool
    evidence: str


def dependencies(tree: SourceTree, path: str) -> Iterator[Dependency]:
    """What the file at `path` asks for, its first thousands; nothing where it is no dependency file or cannot be
    read."""
    return islice(_dependencies(tree, path), _MOST)


def _dependencies(tree: SourceTree, path: str) -> Iterator[Dependency]:
    name = PurePosixPath(path).name.lower()
    if re.fullmatch(r"requirements[\w.-]*\.(?:txt|in)", name):
        optional = re.search(r"dev|test|docs|lint", name) is not None
        yield from _requirements(path, tree.text(path) or "", optional)
    elif name in ("pyproject.toml", "cargo.toml", "pipfile"):
        yield from _toml(path, tree.text(path) or "")
    elif name == "package.json":
        yield from _package_json(path, tree.text(path) or "")
    elif name == "setup.py":
        yield from _setup(path, tree.text(path) or "")
    elif name in ("setup.cfg", "environment.yml", "environment.yaml"):
        yield from _requirements(path, tree.text(path) or "", False)
    elif name.endswith((".csproj", ".vbproj", ".fsproj")):
        pattern = re.compile(r'<PackageReference\s+Include="([^"]+)"')
        for number, line in enumerate((tree.text(path) or "").splitlines(), 1):
            yield from (Dependency(found, "", False, _at(path, number, line)) for found in pattern.findall(line))


def _at(path: str, number: int, line: str) -> str:
    return f"{path}:{number}: {' '.join(line[:1_000].split())[:160]}"


def _requirements(path: str, text: str, optional: bool) -> Iterator[Dependency]:
    for number, line in enumerate(text.splitlines(), 1):
        match = _REQUIREMENT.match(line.strip().removeprefix("- "))
        if match:
            elsewhere = _ELSEWHERE.search(match[4] or "") is not None
            yield Dependency(match[1], match[3], optional or elsewhere, _at(path, number, line))


def _toml(path: str, text: str) -> Iterator[Dependency]:
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    needed: list[Any] = []
    project = data.get("project")
    if isinstance(project, dict) and isinstance(project.get("dependencies"), list):
        needed += project["dependencies"]
    poetry = _table(data, "tool", "poetry", "dependencies")
    for table in (poetry, _table(data, "dependencies"), _table(data, "packages")):
        needed += [key for key, value in table.items() if not (isinstance(value, dict) and value.get("optional"))]
    for item in needed:
        match = _REQUIREMENT.match(item) if isinstance(item, str) else None
        if match:
            elsewhere = _ELSEWHERE.search(match[4] or "") is not None
            yield Dependency(match[1], match[3], elsewhere, _where(path, text, match[1]))


def _table(data: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _where(path: str, text: str, name: str) -> str:
    found = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
    if found is None:
        return f"{path}:1: {name}"
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    return _at(path, text.count("\n", 0, start) + 1, text[start : end if end >= 0 else len(text)])


def _package_json(path: str, text: str) -> Iterator[Dependency]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return
    for name, spec in _table(data, "dependencies").items():
        yield Dependency(str(name), str(spec), False, _where(path, text, str(name)))


def _setup(path: str, text: str) -> Iterator[Dependency]:
    """Quoted names after `install_requires` up to its closing bracket; the file is read, never run."""
    start = text.find("install_requires")
    if start < 0:
        return
    end = text.find("]", start)
    block = text[start : end if end > 0 else len(text)]
    first = text.count("\n", 0, start) + 1
    for number, line in enumerate(block.splitlines(), first):
        for name, spec, marker in _QUOTED.findall(line):
            yield Dependency(name, spec, _ELSEWHERE.search(marker) is not None, _at(path, number, line))
