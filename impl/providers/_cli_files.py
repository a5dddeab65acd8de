"""What the agent CLIs' providers share on disk: private files, links to logins, settings with comments, versions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from core import ASK_S, ProviderStatus, ask_cli

_NOT_JSON: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.S)
"""A string, or what JSON with comments has beyond JSON."""
_DEEP: Final = 6
"""How far above an executable its package's description may lie."""


def write_private(path: Path, text: str) -> Path:
    """Write `text` to a file in a folder that only this user reads."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text, "utf-8", errors="replace")
    return path


def link(own: Path, canonical: Path) -> None:
    """`own` as a link to a login that its CLI renews in place; nothing where there is no such login."""
    if not canonical.exists() or own.exists():
        return
    own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    own.unlink(missing_ok=True)
    own.symlink_to(canonical)


def held(path: Path) -> dict[str, Any] | None:
    """The object that a file of a CLI's own holds; None where there is none."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def settings_file(*paths: Path) -> dict[str, Any]:
    """The object the first of these files that exists holds, comments and trailing commas allowed; nothing where it
    cannot be read (its CLI then says so itself)."""
    for path in paths:
        if not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")
            value = json.loads(_NOT_JSON.sub(_plain, _NOT_JSON.sub(_plain, text)))
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}
    return {}


def _plain(found: re.Match[str]) -> str:
    return found[1] or ""


def packaged_version(executable: str, package: str) -> str | None:
    """The version of an npm package by its description beside the executable: no process is started. None where it
    was installed in another way."""
    for folder in list(Path(executable).resolve().parents)[:_DEEP]:
        described = settings_file(folder / "package.json")
        if described.get("name") == package:
            return str(described.get("version"))
    return None


async def too_old(
    executable: str, env: Mapping[str, str], package: str, least: tuple[int, ...], install: str
) -> ProviderStatus | None:
    """The status of an executable that is older than `least` or tells no version; None where it will do."""
    name, oldest = Path(executable).name, ".".join(map(str, least))
    said = packaged_version(executable, package)
    if said is None:
        code, out = await ask_cli([executable, "--version"], env)
        if code == -1:
            message = f"`{name} --version` gave no answer within {ASK_S:g} s; {oldest} or newer is needed."
            return ProviderStatus("wrong version", message, install)
        said = out.strip()
    version = re.search(r"\d+(\.\d+)+", said)
    if version is not None and tuple(map(int, version[0].split("."))) >= least:
        return None
    message = f"{name} says it is {said.splitlines()[0] if said else 'nothing'}; {oldest} or newer is needed."
    return ProviderStatus("wrong version", message, install)
