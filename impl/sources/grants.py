"""What a source's tool grants become here: a shell grant, and nothing else, opens the sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from impl.sources.values import Decision, Loss

_SHELL = frozenset({"bash", "shell", "terminal", "execute"})
_BY_SHELL = frozenset(
    {"read", "write", "edit", "multiedit", "glob", "grep", "ls", "list", "notebookread", "notebookedit", "search"}
)
_HAVE = {"askuserquestion": "ask_user", "skill": "read_skill"}
_TOKEN = re.compile(r"[^\s,(]+(?:\([^)]*\))?")


@dataclass(frozen=True, slots=True)
class Grants:
    """`tools` as named in the source; `shell` is `all` (every command), `some` (named commands alone) or
    `none`; `losses` is what became of each that has no counterpart here."""

    tools: tuple[str, ...]
    shell: str
    losses: tuple[Loss, ...]

    @property
    def run_sandbox(self) -> Decision:
        """The policy of a shell: a grant of some commands alone is asked about, since all would be more."""
        return {"all": "allow", "some": "ask"}.get(self.shell, "deny")  # type: ignore[return-value]


def parse_tools(value: Any) -> tuple[str, ...]:
    """The tools of a list, or of a text with commas or spaces; `Bash(git add:*)` stays one."""
    if isinstance(value, str):
        return tuple(_TOKEN.findall(value))
    if isinstance(value, list):
        return tuple(str(item).strip() for item in value if isinstance(item, str) and item.strip())
    return ()


def map_tools(tools: Iterable[str], path: str, denied: Iterable[str] = ()) -> Grants:
    """Map the tools that `path` grants; never to more than it grants. `denied` are taken away from them."""
    refused = {_base(tool) for tool in denied}
    kept = tuple(tool for tool in tools if _base(tool) not in refused)
    shells = [tool for tool in kept if _base(tool) in _SHELL]
    narrowed = any(_base(tool) in _SHELL for tool in denied)
    shell = "none" if not shells else "some" if narrowed or all(map(_limited, shells)) else "all"
    losses = [loss for tool in kept if (loss := _loss(tool, shell, path)) is not None]
    return Grants(kept, shell, tuple(losses))


def _base(tool: str) -> str:
    return tool.partition("(")[0].strip().lower()


def _limited(tool: str) -> bool:
    inner = tool.partition("(")[2].rstrip(")").strip()
    return inner not in ("", "*", ":*", "**")


def _loss(tool: str, shell: str, path: str) -> Loss | None:
    base = _base(tool)
    if base in _HAVE:
        return None
    if base in _SHELL:
        if not _limited(tool):
            return None
        return Loss(path, f"{tool}: run_sandbox is asked about", "a grant of some commands would become one of all")
    if base in _BY_SHELL:
        if shell != "none":
            return None
        return Loss(path, f"{tool}: not granted", "files are reached by run_sandbox alone, which Bash would grant")
    if base.startswith("mcp__"):
        return Loss(path, f"{tool}: not granted", "its MCP server is not part of the source")
    if base in ("*", "all"):
        return Loss(path, f"{tool}: not granted", "a grant of everything is not taken over; the least is")
    return Loss(path, f"{tool}: not granted", "it has no counterpart here")
