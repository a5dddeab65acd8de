"""A suite out of a test's own values, and a Host that runs the real loop on it.

    driver = EvalDriver(tools=[tool("add", lambda args: str(args["a"] + args["b"]))])
    host = make_host(tmp_path, driver=driver, provider=ScriptedProvider([[call("add", a=1, b=2)], "3"]))
    outcome = await launch_agent(driver, LaunchInput(host=host, task="Add 1 and 2"))

Production and this differ in one argument: the driver.
"""

from __future__ import annotations

import asyncio
import inspect
import shutil
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from core import (
    Decision,
    Event,
    Host,
    LaunchInput,
    Mailbox,
    Outcome,
    Persona,
    Provider,
    Sandbox,
    SandboxUnavailable,
    Suite,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSpec,
    launch_agent,
)
from impl.drivers.suite import SuiteDriver
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


class EvalDriver(SuiteDriver):
    """A suite out of a test's own values, without an agent: the product's driver, with what no `suite.yaml` can say.

    `corpus` maps paths to texts; `skills` names to instructions; `scripts` a skill's name to its scripts as path and
    text; `has` are the credentials that have a value; `tools` have bodies in Python; `more` are further fields of
    Persona.
    """

    def __init__(
        self,
        text: str = "You are a test agent.",
        *,
        policy: Mapping[str, Decision] | None = None,
        tools: Sequence[Tool] = (),
        skills: Mapping[str, str] | None = None,
        scripts: Mapping[str, Mapping[str, str]] | None = None,
        corpus: Mapping[str, str] | None = None,
        mcp: Mapping[str, str] | None = None,
        has: Mapping[str, bool] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.policy = dict(policy or {})
        self.more = dict(more or {})
        files = {f"corpus/{path}": content for path, content in (corpus or {}).items()}
        for name, instructions in (skills or {}).items():
            head = f"---\nname: {name}\ndescription: How to {name}.\n---\n"
            files[f"skills/{name}/SKILL.md"] = head + instructions
            files.update({f"skills/{name}/{path}": body for path, body in (scripts or {}).get(name, {}).items()})
        root = self._laid_out(files) if files else Path("nowhere")
        suite = Suite(
            root=root,
            digest="",
            name="test-agent",
            description="An agent of a test.",
            persona=text,
            corpus=root / "corpus" if corpus else None,
            skills=root / "skills" if skills else None,
            mcp=mcp or {},
            credentials=has or {},
        )
        super().__init__(suite, tools=tools)

    def _laid_out(self, files: Mapping[str, str]) -> Path:
        """A directory with these files, there as long as this driver is."""
        root = Path(tempfile.mkdtemp(prefix="suite-"))
        weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")
        return root

    async def persona(self) -> Persona:
        """The suite's, with the test's policy and more."""
        return replace(await super().persona(), policy=self.policy, **self.more)


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
