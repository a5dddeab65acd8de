"""An agent's environment out of a test's own values, and a Host that runs the real loop on it.

    driver = EvalDriver(tools=[tool("add", lambda args: str(args["a"] + args["b"]))])
    host = make_host(tmp_path, driver=driver, provider=ScriptedProvider([[call("add", a=1, b=2)], "3"]))
    outcome = await launch_agent(driver, LaunchInput(host=host, task="Add 1 and 2"))

Production and this differ in one argument: the driver.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from core import (
    CorpusDocument,
    Event,
    Host,
    LaunchInput,
    Mailbox,
    Outcome,
    Passage,
    Persona,
    Provider,
    Sandbox,
    SandboxUnavailable,
    Skill,
    SkillInfo,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSpec,
    UnknownResource,
    launch_agent,
    run_command,
)
from impl.settings import Settings
from impl.store.sqlite import SqliteStore, utc_now
from tests.harness.scripted import ScriptedProvider

Result = str | ToolOutput
Body = Callable[[dict[str, Any]], Result | Awaitable[Result]]


def tool(
    name: str, body: Body, /, schema: Mapping[str, Any] | None = None, description: str = "", **fields: Any
) -> Tool:
    """A tool whose body gets the arguments and gives text or a ToolOutput, at once or later.

    `schema` is by default an object of anything; other fields are Tool's own.
    """

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        given = body(dict(args))
        result = await given if inspect.isawaitable(given) else given
        return result if isinstance(result, ToolOutput) else ToolOutput(result)

    return Tool(ToolSpec(name, description or name, schema or {"type": "object"}), run, **fields)


def tool_with_context(
    name: str, body: Callable[[dict[str, Any], ToolContext], Awaitable[Result]], **fields: Any
) -> Tool:
    """A tool whose body also gets its context."""

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        result = await body(dict(args), context)
        return result if isinstance(result, ToolOutput) else ToolOutput(result)

    return Tool(ToolSpec(name, name, {"type": "object"}), run, **fields)


@dataclass
class EvalDriver:
    """A Driver on canned values. `corpus` maps paths to texts; `skills` names to instructions; `scripts` maps a
    skill's name to its scripts as path and shell command; `has` are the credentials that have a value."""

    text: str = "You are a test agent."
    policy: dict[str, Any] = field(default_factory=dict)
    tools: Sequence[Tool] = ()
    skills: dict[str, str] = field(default_factory=dict)
    scripts: dict[str, dict[str, str]] = field(default_factory=dict)
    corpus: dict[str, str] = field(default_factory=dict)
    mcp: dict[str, str] = field(default_factory=dict)
    has: dict[str, bool] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    async def persona(self) -> Persona:
        """Who the agent is; `more` are further fields of Persona."""
        skills = tuple(
            SkillInfo(name, f"How to {name}.", tuple(self.scripts.get(name, ()))) for name in sorted(self.skills)
        )
        return Persona(
            name="test-agent",
            description="An agent of a test.",
            text=self.text,
            skills=skills,
            has_corpus=bool(self.corpus),
            policy=self.policy,
            **self.more,
        )

    async def skill(self, name: str) -> Skill:
        """A canned skill."""
        if name not in self.skills:
            raise UnknownResource(f"There is no skill {name!r}. The skills are: {', '.join(sorted(self.skills))}.")
        scripts = tuple(self.scripts.get(name, ()))
        return Skill(SkillInfo(name, f"How to {name}.", scripts), self.skills[name], scripts)

    async def run_skill(self, name: str, script: str, args: Sequence[str], context: ToolContext) -> ToolOutput:
        """Run a canned script in the session's real sandbox."""
        command = self.scripts.get(name, {}).get(script)
        if command is None:
            raise UnknownResource(f"{name} has no script {script!r}.")
        return await run_command(context, " ".join([command, *args]), 30.0)

    async def ext_mcp_url(self, name: str) -> str:
        """A canned address."""
        if name not in self.mcp:
            raise UnknownResource(f"There is no MCP server {name!r}.")
        return self.mcp[name]

    async def plugins(self) -> Sequence[Tool]:
        """The test's tools."""
        return self.tools

    async def search_corpus(self, query: str, limit: int = 5) -> Sequence[Passage]:
        """Lines that hold the query's words, by how many."""
        words = set(query.lower().split())
        found = [
            Passage(path, number, "", line, float(len(words & set(line.lower().split()))))
            for path, text in sorted(self.corpus.items())
            for number, line in enumerate(text.splitlines(), 1)
        ]
        return sorted((p for p in found if p.score), key=lambda p: -p.score)[:limit]

    async def list_corpus(self) -> Sequence[CorpusDocument]:
        """Every document."""
        return [CorpusDocument(path, path, len(text)) for path, text in sorted(self.corpus.items())]

    async def get_corpus(self, path: str) -> str:
        """A document's text."""
        if path not in self.corpus:
            raise UnknownResource(f"There is no document {path!r}.")
        return self.corpus[path]

    async def resolve(self, name: str) -> bool:
        """Whether the test gave it a value."""
        return self.has.get(name, False)


@dataclass
class OneSandbox:
    """Sandboxes that always choose the same one, made where it is first asked for; `unavailable` says why none."""

    make: Callable[[], Sandbox] | None = None
    unavailable: str | None = None
    why: str = ""
    _made: Sandbox | None = None

    async def choose(self, requested: str | None) -> tuple[Sandbox, str]:
        """The one there is."""
        if self.unavailable is not None:
            raise SandboxUnavailable(self.unavailable)
        if self._made is None:
            from impl.sandboxes.bubblewrap import BubblewrapSandbox

            self._made = (self.make or BubblewrapSandbox)()
        return self._made, self.why


def make_host(
    home: Path,
    *,
    driver: Any = None,
    provider: Provider | None = None,
    sandboxes: OneSandbox | None = None,
    store: Any = None,
) -> Host:
    """A Host on `home` with a real store and a real sandbox; `provider` answers to every name."""
    numbers = count(1)

    def only_provider(name: str) -> Provider:
        if provider is None:
            raise LookupError(f"There is no provider {name!r}.")
        return provider

    def only_driver(host: Host, info: Any) -> Any:
        return driver(host, info) if inspect.isfunction(driver) or inspect.ismethod(driver) else driver

    return Host(
        home=home,
        store=store or SqliteStore(home),
        sandboxes=sandboxes or OneSandbox(),
        provider=only_provider,
        driver=only_driver,
        settings=Settings(),
        now=utc_now,
        new_id=lambda: f"session-{next(numbers)}-{id(numbers) % 9973}",
    )


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it holds; the test's own timeout ends a vain wait."""
    while not condition():  # noqa: ASYNC110 - conditions of other processes have no event to wait for
        await asyncio.sleep(0.005)


class Stage:
    """One session on a host: started, resumed and answered through `launch_agent`, its events at hand."""

    def __init__(self, home: Path, script: Any = (), driver: Any = None, *, session: str = "s1", **host: Any) -> None:
        self.home = home
        self.driver = driver or EvalDriver()
        self.provider = script if isinstance(script, Provider) else ScriptedProvider(script)
        self.host = make_host(home, driver=self.driver, provider=self.provider, **host)
        self.session = session
        self.mailbox = Mailbox()

    @property
    def store(self) -> Any:
        """The host's store."""
        return self.host.store

    async def run(self, task: str | None = None, **launch: Any) -> Outcome:
        """Start the session with `task`, or go on with it."""
        self.mailbox = Mailbox()
        if self.store.session(self.session) is None and task is None and "answer" not in launch:
            task = "Do it."
        given = LaunchInput(
            host=self.host, session=self.session, task=task, provider="scripted", mailbox=self.mailbox, **launch
        )
        return await launch_agent(self.driver, given)

    async def answer(self, text: str, **launch: Any) -> Outcome:
        """Answer what it waits for."""
        return await self.run(answer=text, **launch)

    def begin(self, task: str | None = None, **launch: Any) -> asyncio.Task[Outcome]:
        """`run` as a task."""
        return asyncio.get_running_loop().create_task(self.run(task, **launch))

    def again(self, script: Any = ()) -> Stage:
        """The same home in a new host and store, as another process would open it."""
        self.store.close()
        return Stage(self.home, script, self.driver, session=self.session)

    def events(self, *kinds: str) -> list[Event]:
        """All events, or those of some kinds."""
        return list(self.store.events(self.session, kinds=kinds or None))

    def kinds(self) -> list[str]:
        """The kinds of all events."""
        return [event.kind for event in self.events()]

    def results(self) -> dict[str, str]:
        """Outputs by call id."""
        return {event.data["call"]: event.data["output"] for event in self.events("tool_result")}

    @property
    def info(self) -> Any:
        """The session's columns now."""
        return self.store.session(self.session)
