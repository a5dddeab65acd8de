"""The environment that an eval suite is: its corpus, skills, tool answers, recorded effects and credentials."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from core import (
    CannedTool,
    CorpusDocument,
    Driver,
    Passage,
    Persona,
    Skill,
    Suite,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSpec,
    UnknownResource,
    load_suite,
    recorded_example,
)
from impl.drivers.skills import SkillShelf


class SuiteDriver:
    """An agent in the environment of a suite. What the suite brings stands in place of the agent's own; what it does
    not bring is the agent's. No effect is ever performed and no credential has a value but as the suite says.

    Without an `agent` it is the persona of the suite itself. `tools` are the caller's own, beside all others.
    """

    def __init__(self, suite: Suite, agent: Driver | None = None, *, tools: Sequence[Tool] = ()) -> None:
        self.suite = suite
        self._agent = agent
        self._tools = tuple(tools)
        self._index: Any = None
        self._prepare_agent()

    def _prepare_agent(self) -> None:
        """Tell the agent's own driver what its tools, too, are to have from the suite; each as far as it can."""
        suite, agent = self.suite, self._agent
        if (keep_apart := getattr(agent, "keep_apart", None)) is not None:
            keep_apart()
        if (answer := getattr(agent, "answer_effects_from", None)) is not None:
            answer(recorded_example(suite.effects, ""))
        if suite.mcp and (reach := getattr(agent, "reach_servers_at", None)) is not None:
            reach(suite.mcp)
        if suite.corpus is not None and (read_from := getattr(agent, "read_corpus_from", None)) is not None:
            read_from(suite.corpus)

    @property
    def _others(self) -> Driver:
        if self._agent is None:
            raise UnknownResource(f"The suite {self.suite.name} has nothing of the kind, and there is no agent.")
        return self._agent

    async def persona(self) -> Persona:
        """The agent's, with the suite's corpus and skills."""
        suite = self.suite
        if self._agent is None:
            own = Persona(suite.name, suite.description, suite.persona or "", limits=suite.limits)
        else:
            own = await self._agent.persona()
        skills = own.skills if suite.skills is None else self._shelf(suite.skills).infos()
        return replace(own, skills=skills, has_corpus=own.has_corpus or suite.corpus is not None)

    def _shelf(self, root: Path) -> SkillShelf:
        return SkillShelf(root, sorted(path.parent.name for path in root.glob("*/SKILL.md")))

    async def skill(self, name: str) -> Skill:
        """A skill by name."""
        if self.suite.skills is not None:
            return self._shelf(self.suite.skills).skill(name)
        return await self._others.skill(name)

    async def run_skill(self, name: str, script: str, args: Sequence[str], context: ToolContext) -> ToolOutput:
        """Run a skill's script in the session's workspace."""
        if self.suite.skills is not None:
            return await self._shelf(self.suite.skills).run(name, script, args, context)
        return await self._others.run_skill(name, script, args, context)

    async def ext_mcp_url(self, name: str) -> str:
        """The address the suite gives an MCP server; the agent's own is never called."""
        if name not in self.suite.mcp:
            raise UnknownResource(f"The suite {self.suite.name} has no MCP server {name!r}.")
        return self.suite.mcp[name]

    async def plugins(self) -> Sequence[Tool]:
        """The agent's tools and the caller's, those the suite has answers for answering from it; then tools of the
        suite's own."""
        canned = self.suite.tools
        own = [*(await self._agent.plugins() if self._agent is not None else ()), *self._tools]
        names = {tool.spec.name for tool in own}
        tools = [_canned(t.spec, canned[t.spec.name], t) if t.spec.name in canned else t for t in own]
        more = [(name, tool) for name, tool in canned.items() if name not in names]
        return tools + [_canned(ToolSpec(n, t.description or n, t.input_schema), t) for n, t in more]

    def _corpus(self) -> Any:
        if self._index is None:
            from impl.corpus import CorpusIndex

            self._index = CorpusIndex(self.suite.corpus or self.suite.root / "corpus")
        return self._index

    async def search_corpus(self, query: str, limit: int = 5) -> Sequence[Passage]:
        """The best passages, best first."""
        if self.suite.corpus is None:
            return await self._others.search_corpus(query, limit)
        found: Sequence[Passage] = self._corpus().search(query, limit)
        return found

    async def list_corpus(self) -> Sequence[CorpusDocument]:
        """Every document, by path."""
        if self.suite.corpus is None:
            return await self._others.list_corpus()
        found: Sequence[CorpusDocument] = self._corpus().documents()
        return found

    async def get_corpus(self, path: str) -> str:
        """A document's text."""
        if self.suite.corpus is None:
            return await self._others.get_corpus(path)
        text: str = self._corpus().text(path)
        return text

    async def resolve(self, name: str) -> bool:
        """Whether the suite says that the credential has a value."""
        return bool(self.suite.credentials.get(name, False))

    async def prepare(self, emit: Callable[[str, Mapping[str, Any]], None], workspace: Path) -> None:
        """As the agent's own driver does."""
        if (prepare := getattr(self._agent, "prepare", None)) is not None:
            await prepare(emit, workspace)

    async def close(self) -> None:
        """As the agent's own driver does."""
        if (close := getattr(self._agent, "close", None)) is not None:
            await close()


def _canned(spec: ToolSpec, canned: CannedTool, tool: Tool | None = None) -> Tool:
    """A tool that answers from the suite; what is not on record there is never looked up instead."""

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        found = canned.answer(args)
        if found is None:
            text = (
                f"replay_miss: the suite has no answer of {spec.name} to {json.dumps(dict(args), ensure_ascii=False)}"
            )
            return ToolOutput(text, ok=False, data={"error": "replay_miss"})
        text = found.output if isinstance(found.output, str) else json.dumps(found.output, ensure_ascii=False, indent=1)
        return ToolOutput(text, ok=found.ok)

    return Tool(spec, run) if tool is None else replace(tool, spec=spec, run=run)


def in_suite(driver: Driver, suite: Mapping[str, Any]) -> SuiteDriver:
    """Put an agent into the suite that a session names (`{"path", "digest"}`). Raises UnknownResource where it is gone
    or another one by now."""
    return SuiteDriver(_loaded(str(suite.get("path")), str(suite.get("digest"))), driver)


@lru_cache(maxsize=8)
def _loaded(path: str, digest: str) -> Suite:
    try:
        suite = load_suite(path)
    except NotADirectoryError as error:
        raise UnknownResource(f"The suite {path} that this session stands in is gone.") from error
    if suite.digest != digest:
        raise UnknownResource(f"The suite {path} has changed since this session began in it.")
    return suite
