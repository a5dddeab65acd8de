"""A tools' sandbox of each kind, and a way to run a tool's body in it as the product does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from core import Allowed, Broker, EffectPolicy, EffectResponse, Event, Ledger
from impl.sandboxes import SANDBOXES
from impl.sandboxes.options import Options
from impl.tools.conversation import ToolRun
from impl.tools.process import RUNNER, Place, run_tool

BUBBLEWRAP = pytest.param("bubblewrap")
DOCKER = pytest.param("docker", marks=pytest.mark.docker)
HOST = "api.example.com"


class Answering:
    """A transport that answers every request with what it was asked for, and counts."""

    def __init__(self) -> None:
        self.sent: list[Allowed] = []

    async def perform(self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]) -> EffectResponse:
        """Echo."""
        self.sent.append(request)
        return EffectResponse(200, (("content-type", "text/plain"),), f"{request.method} {request.target}".encode())


@dataclass
class Bench:
    """A tools' sandbox with nothing in it. `run` runs the body of a `run(ctx, input)`; `events` are those of the last
    run, `log` its lines."""

    place: Place
    tools: Path
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    async def run(
        self,
        body: str,
        input: Mapping[str, Any] | None = None,
        timeout: float = 20,
        environment: str | None = None,
        **broker: Any,
    ) -> ToolRun:
        """Run it; keyword arguments go to the broker."""
        self.events, self.log = [], []
        lines = "\n".join("    " + line for line in body.splitlines())
        (self.tools / "tool.py").write_text(f"import json, os, sys, time\n\ndef run(ctx, input):\n{lines}\n")
        given: dict[str, Any] = {
            "call": "c1",
            "tool": "t",
            "policy": EffectPolicy([HOST], {}),
            "transport": Answering(),
            "credential": lambda name: None,
            "emit": lambda kind, data: self.events.append((kind, dict(data))),
            "ledger": Ledger((), "c1"),
            "put_blob": lambda data: "b" * 64,
            "blob": lambda name: b"",
            **broker,
        }
        return await run_tool(
            self.place,
            entrypoint="tool.py",
            input=input or {},
            broker=Broker(**given),
            log=self.log.append,
            timeout=timeout,
            environment=environment,
        )

    def recorded(self, *kinds: str) -> list[Event]:
        """The last run's events as a store would give them, or those of some kinds."""
        return [
            Event("s", number, "", kind, data=data)
            for number, (kind, data) in enumerate(self.events, 1)
            if not kinds or kind in kinds
        ]


Open = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens a bench by kind of sandbox."""
    benches: list[Bench] = []

    async def go(kind: str, environments: Mapping[str, Path] | None = None, **options: Any) -> Bench:
        sandbox = SANDBOXES[kind](Options(home=tmp_path, image="local", **options))
        if (problem := await sandbox.probe()) is not None:
            pytest.skip(f"{kind} does not work here: {problem}")
        for name in ("tools", "link", "corpus"):
            (tmp_path / name).mkdir()
        (tmp_path / "corpus" / "a.md").write_text("# A\n")
        inside = "/run/artificer"
        shown = {f"{inside}/{name}": tmp_path / name for name in ("tools", "link", "corpus")}
        shown |= {f"{inside}/environments/{key}": path for key, path in (environments or {}).items()}
        workspace = await sandbox.open(tmp_path / "scratch", shown={**shown, f"{inside}/run.py": RUNNER})
        place = Place(
            workspace,
            tmp_path / "link",
            runner=f"{inside}/run.py",
            socket=f"{inside}/link",
            tools=f"{inside}/tools",
            scratch="/work",
            corpus=f"{inside}/corpus",
            environments=f"{inside}/environments",
        )
        benches.append(Bench(place, tmp_path / "tools"))
        return benches[-1]

    yield go
    for bench in benches:
        await bench.place.workspace.close()


@pytest.fixture
async def bench(opened: Open) -> Bench:
    """One under bubblewrap."""
    return await opened("bubblewrap")
