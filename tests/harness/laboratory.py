"""Agents in a store and a model that plays each of them by its own script, for tests of the lab.

lab = Lab(tmp_path, {"lead": [call("agent", preset="helper", task="Say hi."), "done"], "helper": ["hi"]})
lab.agent("helper")
lab.agent("lead", delegates=["helper"])
outcome = await lab.run("lead", "Go.")
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import yaml

from core import (
    CHECKS_VERSION,
    Event,
    Host,
    LaunchInput,
    ModelProvider,
    ModelRequest,
    Outcome,
    StreamItem,
    Supervisor,
    ToolCall,
    ToolResult,
    ValidationRun,
    publish,
    run_launch,
    save_revision,
)
from impl.compose import driver
from tests.harness.eval_driver import OneSandbox, make_host
from tests.harness.scripted import Scripted, ScriptedProvider, call

Script = Sequence[Scripted]


class CastProvider(ModelProvider):
    """Plays each agent by the script of the name its persona begins with; a turn by how many were played before, so
    that sessions may run side by side. After the last turn it answers "done"."""

    name: ClassVar[str] = "cast"
    title: ClassVar[str] = "a script for each agent, for tests"

    def __init__(self, cast: Mapping[str, Script]) -> None:
        self.cast = dict(cast)
        self.requests: list[ModelRequest] = []

    def default_model(self) -> str | None:
        """The name its turns carry."""
        return "cast-1"

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Play the next turn of this agent in this session."""
        self.requests.append(replace(request, messages=tuple(request.messages)))
        script = self.cast.get(request.system.split(maxsplit=1)[0], ())
        played = sum(message.role == "assistant" for message in request.messages)
        async for item in ScriptedProvider(script[played : played + 1], model="cast-1").stream(request):
            yield item

    def asked(self, agent: str) -> list[ModelRequest]:
        """The requests of one agent."""
        return [request for request in self.requests if request.system.split(maxsplit=1)[0] == agent]


class Lab:
    """A host on `home` with agents in its store."""

    def __init__(self, home: Path, cast: Mapping[str, Script] | ModelProvider, **host: Any) -> None:
        self.home = home
        self.provider = cast if isinstance(cast, ModelProvider) else CastProvider(cast)
        self.host: Host = make_host(
            home / "home", driver=driver, provider=self.provider, sandboxes=host.pop("sandboxes", OneSandbox())
        )
        for name, value in host.items():
            setattr(self.host, name, value)
        self.supervisor = Supervisor(self.host)
        self._numbers = count(1)

    @property
    def store(self) -> Any:
        """The host's store."""
        return self.host.store

    def agent(
        self,
        name: str,
        text: str = "plays along.",
        *,
        files: Mapping[str, str] | None = None,
        live: bool = True,
        **m: Any,
    ) -> str:
        """Store a revision whose persona begins with its name, published unless told otherwise; its digest. `m` are
        keys of its manifest; `delegates` may be a list of presets."""
        root = self.home / f"bundle-{next(self._numbers)}"
        if isinstance(m.get("delegates"), list):
            m["delegates"] = {"presets": m["delegates"], "max_depth": m.pop("max_depth", 1)}
        manifest = {"schema": "artificer/v1", "name": name, **m}
        given = {
            "agent.yaml": yaml.safe_dump(manifest, sort_keys=False),
            "persona.md": f"{name} {text}\n",
            **(files or {}),
        }
        for path, content in given.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, "utf-8")
        saved = save_revision(self.store, root, agent=name, by="person", message="for a test", now=self.host.now)
        assert saved.revision is not None, saved.problems
        if live:
            self.publish(name, saved.revision.digest)
        return saved.revision.digest

    def bundle(self, root: Path) -> str:
        """Store a bundle that lies in a directory, published; its digest."""
        saved = save_revision(self.store, root, by="person", message="for a test", now=self.host.now)
        assert saved.revision is not None, saved.problems
        self.publish(saved.revision.agent, saved.revision.digest)
        return saved.revision.digest

    def publish(self, name: str, digest: str, channel: str = "live") -> None:
        """Let a channel name it, as if the gate had passed it."""
        run = ValidationRun(f"v{next(self._numbers)}", name, digest, self.host.now(), True, CHECKS_VERSION, {})
        self.store.add_validation(run)
        entry = publish(self.store, name, digest, channel=channel, by="person", now=self.host.now)
        assert entry.refused is None, entry

    async def run(self, agent: str, task: str = "Go.", ref: str | None = None, **launch: Any) -> Outcome:
        """Run an agent to its stop as the command line does."""
        session = self.begin(agent, task, ref, **launch)
        return await self.supervisor.wait(session)

    def begin(self, agent: str, task: str = "Go.", ref: str | None = None, **launch: Any) -> str:
        """Start it; the session's id."""
        return self.supervisor.start(run_launch(self.host, agent, ref, task, provider="cast", **launch))

    async def answer(self, session: str, text: str) -> Outcome:
        """Answer what a session waits for."""
        self.supervisor.resume(LaunchInput(host=self.host, session=session, answer=text))
        return await self.supervisor.wait(session)

    def events(self, session: str, *kinds: str) -> list[Event]:
        """A session's events, or those of some kinds."""
        return list(self.store.events(session, kinds=kinds or None))

    def results(self, session: str) -> list[dict[str, Any]]:
        """The bodies of its tool results, in order."""
        return [dict(event.data) for event in self.events(session, "tool_result")]

    def children(self, session: str) -> list[dict[str, Any]]:
        """What it recorded of the children it started."""
        return [dict(event.data) for event in self.events(session, "child")]


class ObedientProvider(ModelProvider):
    """A model that looks a harbour's number up with the tool its question names, and answers in the unit its persona
    says: good as its instructions and its tools, no better."""

    name: ClassVar[str] = "obedient"
    title: ClassVar[str] = "does what its persona says, for tests"

    def default_model(self) -> str | None:
        """The name its turns carry."""
        return "obedient-1"

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Look it up; then say the number and the unit."""
        task = request.messages[0].text
        topic = next(word for word in ("fee", "depth", "tide") if word in task)
        results = [block for message in request.messages for block in message.blocks if isinstance(block, ToolResult)]
        turn: Any = _said(request.system, topic, task, results[-1].output) if results else [_looked_up(topic, task)]
        async for item in ScriptedProvider([turn], model="obedient-1").stream(request):
            yield item


def _looked_up(topic: str, task: str) -> ToolCall:
    if topic == "fee":
        return call("fee", length=int(re.findall(r"\d+", task)[0]))
    (harbour,) = re.findall(r"norrby|sundvik|ekholm", task, re.IGNORECASE)
    if topic == "tide":
        return call("tide", harbour=harbour)
    return call("search_corpus", query=f"depth at {harbour}", limit=1)


def _said(system: str, topic: str, task: str, output: str) -> str:
    unit = re.findall(rf"^- {topic}: (\w+)$", system, re.MULTILINE)
    number = re.findall(r"is ([0-9.]+) metres", output) if topic == "depth" else [output.strip()]
    return f"{number[0]} {unit[0]}" if number and unit else output
