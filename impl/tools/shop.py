"""The sandbox that the generated tools of one session run in: no network, no secret, their code to read alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from core import (
    Broker,
    EffectPolicy,
    Event,
    Host,
    Ledger,
    Manifest,
    ReplayBook,
    Sandbox,
    ToolManifest,
    Workspace,
    declared,
    read_tool,
)
from impl.tools.environments import Environments
from impl.tools.process import RUNNER, Place

TOOLS: Final = "tools"
CORPUS: Final = "corpus"
_INSIDE: Final = "/run/artificer"
_EFFECTS: Final = ("effect_intent", "effect")

Emit = Callable[[str, Mapping[str, Any]], None]


@dataclass(slots=True)
class ToolShop:
    """Where the generated tools of one session run: a sandbox of their own, apart from the workspace.

    `root` is the bundle as laid out, read-only; `place` a directory of this session's for what the tools write;
    `credential(name)` gives a value or None; `replay` answers effects from another run instead of the network;
    `corpus` is what they read as theirs, the bundle's own where it is None.
    """

    host: Host
    session: str
    agent: str
    root: Path
    place: Path
    manifest: Manifest
    sandbox: Sandbox
    credential: Callable[[str], str | None]
    replay: ReplayBook | None = None
    corpus: Path | None = None
    _opened: Place | None = None
    _environments: Environments | None = None
    _open: dict[str, list[Event]] | None = field(default=None, repr=False)

    async def environments(self) -> Environments:
        """What the tools need, as installed on this host for this sandbox. Raises SandboxUnavailable."""
        if self._environments is None:
            self._environments = await environments(self.host, self.sandbox)
        return self._environments

    async def opened(self) -> Place:
        """The tools' sandbox, made ready on first use."""
        if self._opened is None:
            self._opened = await self._open_place()
        return self._opened

    async def _open_place(self) -> Place:
        work, link = self.place / "scratch", self.place / "link"
        shown = {f"{_INSIDE}/tools": self.root / TOOLS, f"{_INSIDE}/run.py": RUNNER, f"{_INSIDE}/link": link}
        corpus = self.corpus or self.root / CORPUS
        if corpus.is_dir():
            shown[f"{_INSIDE}/corpus"] = corpus
        sets = {read_tool(self.root / TOOLS / name).requirements for name in self.manifest.tools} - {()}
        installed = await self.environments() if sets else None
        wants = await asyncio.to_thread(self._prepare, work, link, sets, installed)
        shown |= {f"{_INSIDE}/environments/{key}": path for key, path in wants.items()}
        workspace: Workspace = await self.sandbox.open(work, network=False, shown=shown)

        def at(inside: str) -> str:
            place = f"{_INSIDE}/{inside}"
            return str(shown[place]) if workspace.unsafe else place

        return Place(
            workspace,
            link,
            runner=at("run.py"),
            socket=at("link"),
            tools=at("tools"),
            scratch=str(work) if workspace.unsafe else "/work",
            corpus=at("corpus") if f"{_INSIDE}/corpus" in shown else None,
            environments=str(next(iter(wants.values())).parent)
            if wants and workspace.unsafe
            else f"{_INSIDE}/environments",
        )

    def _prepare(
        self, work: Path, link: Path, sets: Iterable[tuple[str, ...]], installed: Environments | None
    ) -> dict[str, Path]:
        """Make the directories; those of environments come back, by name."""
        work.mkdir(parents=True, exist_ok=True)
        link.mkdir(exist_ok=True)
        if installed is None:
            return {}
        return {path.name: path for path in map(installed.place, sets)}

    def environment(self, tool: ToolManifest) -> str | None:
        """The name of the environment a tool needs, None where it needs none; once the sandbox is `opened`."""
        if not tool.requirements:
            return None
        assert self._environments is not None, "opened() has made it"
        return self._environments.key(tool.requirements)

    def policy(self, tool: ToolManifest) -> EffectPolicy:
        """What the tool may ask for: its hosts, and those of the bundle's credentials that it names."""
        known = declared(self.manifest)
        bindings = {name: known[name].to_binding() for name in tool.credentials if name in known}
        return EffectPolicy(tool.hosts, bindings)

    # --- the record ------------------------------------------------------------------------------------

    def broker(self, name: str, tool: ToolManifest, call: str, emit: Emit) -> Broker:
        """The host's side of one call's effects, going on where the record of that call ends."""
        record = self._record().setdefault(call, [])

        def note(kind: str, data: Mapping[str, Any]) -> None:
            emit(kind, data)
            record.append(Event(self.session, 0, "", kind, data=data))

        store = self.host.store
        return Broker(
            call=call,
            tool=name,
            policy=self.policy(tool),
            transport=self.host.transport,
            credential=self.credential,
            emit=note,
            ledger=Ledger(tuple(record), call),
            put_blob=store.put_blob,
            blob=store.blob,
            replay=self.replay,
            redacts=declared(self.manifest),
        )

    def settled(self, call: str) -> None:
        """The call has its result: its record is not needed any more."""
        self._record().pop(call, None)

    def _record(self) -> dict[str, list[Event]]:
        """The effects of calls without a result, by call; read once, then kept up."""
        if self._open is None:
            found: dict[str, list[Event]] = {}
            for event in self.host.store.events(self.session, kinds=(*_EFFECTS, "tool_result")):
                call = str(event.data.get("call"))
                if event.kind == "tool_result":
                    found.pop(call, None)
                else:
                    found.setdefault(call, []).append(event)
            self._open = found
        return self._open

    async def close(self) -> None:
        """End the sandbox."""
        if self._opened is not None:
            await self._opened.workspace.close()
            self._opened = None


async def environments(host: Host, sandbox: Sandbox) -> Environments:
    """The environments of a host for a kind of sandbox, installed from where its settings say."""
    index, base = host.settings.package_index, await sandbox.base()
    if index is None:
        return Environments(host.home, sandbox, base)
    if "://" in index:
        return Environments(host.home, sandbox, base, ("--index-url", index))
    wheels = f"{_INSIDE}/wheels"
    return Environments(host.home, sandbox, base, ("--no-index", "--find-links", wheels), {wheels: Path(index)})
