"""The environment of an agent. The loop sees nothing else, so production and an eval harness differ by one argument."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from core.ports import Workspace
from core.provider import ToolSpec
from core.stops import Stop, Waiting

Decision = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """A skill as the persona lists it. `scripts` are paths a `run_skill` call may name."""

    name: str
    description: str
    scripts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill's instructions (`SKILL.md` without front matter) and the other files it brings."""

    info: SkillInfo
    text: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a session may spend; None is no limit. `seconds` is wall time while driven."""

    steps: int | None = None
    tokens: int | None = None
    usd: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Persona:
    """Who the agent is: its system text and what it may do.

    `policy` maps exact tool names (and `run_sandbox`, `run_skill`) to a decision; a tool not named has the
    default of its kind. `delegates` are preset ids; `max_depth` caps children. `model` and `effort` are what it would
    like to think with, where nobody says otherwise.
    """

    name: str
    description: str
    text: str
    skills: tuple[SkillInfo, ...] = ()
    has_corpus: bool = False
    policy: Mapping[str, Decision] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    model: str | None = None
    effort: str | None = None
    delegates: tuple[str, ...] = ()
    max_depth: int = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """A quoted piece of the corpus: `path`, the 1-based `line` it starts on, its nearest `heading`."""

    path: str
    line: int
    heading: str
    text: str
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A document of the corpus by its path; `title` and `size` in bytes."""

    path: str
    title: str
    size: int


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool gave. `text` goes to the model through the cap. `stop` ends the loop after this result."""

    text: str
    ok: bool = True
    data: Mapping[str, Any] = field(default_factory=dict)
    stop: Stop | None = None
    detail: str = ""
    waiting: Waiting | None = None
    evidence: Any = None


class ToolContext(Protocol):
    """What a running tool may use of its session."""

    session: str
    call: str

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Store an event of the session, then show it."""

    async def workspace(self) -> Workspace:
        """The session's sandbox, opened on first use. Raises SandboxUnavailable."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool the loop can run.

    `default` is the policy where the agent's own says nothing. `writes` is true where it may change the
    workspace (its digest is taken afterwards). `parallel` tools of one turn may run at once. What a `recorded` tool
    does outside its sandbox is all on record, each thing at most once: a call of it that was cut off by a crash runs
    again from the record. `code` tools run code of the agent's own: where nothing isolates, only after a yes to that.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolOutput]]
    default: Decision = "allow"
    writes: bool = False
    parallel: bool = False
    polls: bool = False
    recorded: bool = False
    code: bool = False


class UnknownResource(LookupError):
    """The driver has no such skill, document or credential; the message names what there is."""


class Driver(Protocol):
    """The environment of one agent: everything the loop can see of the world."""

    async def persona(self) -> Persona:
        """Who the agent is."""

    async def skill(self, name: str) -> Skill:
        """A skill by name. Raises UnknownResource."""

    async def run_skill(self, name: str, script: str, args: Sequence[str], context: ToolContext) -> ToolOutput:
        """Run one of a skill's scripts in the workspace. Raises UnknownResource."""

    async def ext_mcp_url(self, name: str) -> str:
        """The address of a declared MCP server. Raises UnknownResource."""

    async def plugins(self) -> Sequence[Tool]:
        """Tools beyond the standard ones: generated tools, platform tools."""

    async def search_corpus(self, query: str, limit: int = 5) -> Sequence[Passage]:
        """The best passages, best first."""

    async def list_corpus(self) -> Sequence[CorpusDocument]:
        """Every document, by path."""

    async def get_corpus(self, path: str) -> str:
        """A document's text. Raises UnknownResource."""

    async def resolve(self, name: str) -> bool:
        """Whether the declared credential `name` has a value. The value itself never passes here."""


@runtime_checkable
class Prepares(Protocol):
    """A driver that brings something into the workspace before the loop starts or goes on (a source, files)."""

    async def prepare(self, emit: Callable[[str, Mapping[str, Any]], None], workspace: Path) -> None:
        """Bring it, once; what it did is stored through `emit`. Called at every drive."""


@runtime_checkable
class Closes(Protocol):
    """A driver that holds something open while its loop runs."""

    async def close(self) -> None:
        """Let go of it. Called at the end of every drive."""
