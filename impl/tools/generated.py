"""The generated tools of a bundle as tools of the loop: sandboxed code, brokered effects, typed endings."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from core import (
    Broker,
    EffectPolicy,
    Host,
    Ledger,
    Manifest,
    ReplayBook,
    Stop,
    Tool,
    ToolContext,
    ToolManifest,
    ToolOutput,
    ToolSpec,
    Workspace,
    declared,
    read_tool,
    ref_for,
    waiting_for,
)
from impl.tools.process import RUNNER, ToolRun, run_tool

TOOLS = "tools"


@dataclass(slots=True)
class ToolShop:
    """Where the generated tools of one session run: a sandbox of their own, apart from the workspace.

    `root` is the bundle as laid out, read-only; `place` a directory of this session's for the tools' copies;
    `credential(name)` gives a value or None; `replay` answers effects from another run instead of the network.
    """

    host: Host
    session: str
    agent: str
    root: Path
    place: Path
    manifest: Manifest
    open_sandbox: Callable[[Path], Any]
    credential: Callable[[str], str | None]
    replay: ReplayBook | None = None
    workspace: Workspace | None = None

    async def opened(self) -> Workspace:
        """The tools' sandbox, made ready on first use: no network, no secret, the bundle's tools copied in."""
        if self.workspace is None:
            await asyncio.to_thread(self._prepare)
            self.workspace = await self.open_sandbox(self.place)
        return self.workspace

    def _prepare(self) -> None:
        if (self.place / TOOLS).exists():
            shutil.rmtree(self.place / TOOLS)
        self.place.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.root / TOOLS, self.place / TOOLS)
        if (self.root / "corpus").is_dir() and not (self.place / "corpus").exists():
            shutil.copytree(self.root / "corpus", self.place / "corpus")
        (self.place / "scratch").mkdir(exist_ok=True)
        (self.place / RUNNER).write_bytes(files("impl.tools").joinpath(RUNNER).read_bytes())

    async def close(self) -> None:
        """End the sandbox."""
        if self.workspace is not None:
            await self.workspace.close()
            self.workspace = None


def generated_tools(shop: ToolShop) -> list[Tool]:
    """The bundle's tools, in the manifest's order. Raises ManifestError where a tool.yaml is broken."""
    return [_tool(shop, name) for name in shop.manifest.tools]


def _tool(shop: ToolShop, name: str) -> Tool:
    directory = shop.root / TOOLS / name
    manifest = read_tool(directory)
    spec = ToolSpec(name, manifest.description, _schema(manifest, directory))

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await call_tool(shop, name, manifest, args, context)

    return Tool(spec, run)


def _schema(manifest: ToolManifest, directory: Path) -> Mapping[str, Any]:
    if manifest.input_schema is not None:
        return manifest.input_schema
    loaded: Mapping[str, Any] = json.loads((directory / (manifest.schema_file or "")).read_text("utf-8"))
    return loaded


async def call_tool(
    shop: ToolShop, name: str, manifest: ToolManifest, args: Mapping[str, Any], context: ToolContext
) -> ToolOutput:
    """One call: its result as JSON or text, or an error with its type first. Raises SandboxUnavailable."""
    events = list(shop.host.store.events(shop.session, kinds=("effect_intent", "effect")))
    broker = Broker(
        call=context.call,
        tool=name,
        policy=policy_of(shop.manifest, manifest),
        transport=shop.host.transport,
        credential=shop.credential,
        emit=context.emit,
        ledger=Ledger(events, context.call),
        put_blob=shop.host.store.put_blob,
        blob=shop.host.store.blob,
        replay=shop.replay,
    )
    workspace = await shop.opened()
    ran = await run_tool(
        workspace,
        entrypoint=f"{TOOLS}/{name}/{manifest.entrypoint}",
        input=args,
        broker=broker,
        log=lambda text: context.emit("log", {"call": context.call, "text": text + "\n"}),
        timeout=manifest.timeout_s,
        corpus=_corpus(shop, workspace),
    )
    return _output(shop, ran, context)


def _corpus(shop: ToolShop, workspace: Workspace) -> str | None:
    if not (shop.place / "corpus").is_dir():
        return None
    return f"{shop.place if workspace.unsafe else '/work'}/corpus"


def policy_of(manifest: Manifest, tool: ToolManifest) -> EffectPolicy:
    """What the tool may ask for: its hosts, and those of the bundle's credentials that it names."""
    known = declared(manifest)
    bindings = {name: known[name].to_binding() for name in tool.credentials if name in known}
    return EffectPolicy(tool.hosts, bindings)


def _output(shop: ToolShop, ran: ToolRun, context: ToolContext) -> ToolOutput:
    if ran.needs is not None:
        missing = declared(shop.manifest)[ran.needs]
        session = shop.host.store.session(shop.session)
        ref = ref_for(shop.host.store, shop.agent, missing, session.digest if session else None)
        waiting = waiting_for(context.call, shop.agent, (missing,), ref=ref, why=ran.message or None)
        return ToolOutput("", ok=False, stop=Stop.NEEDS_CREDENTIALS, waiting=waiting, detail=ran.needs)
    data: dict[str, Any] = {"printed": ran.printed[-4000:]} if ran.printed else {}
    if ran.error is None:
        text = ran.value if isinstance(ran.value, str) else json.dumps(ran.value, ensure_ascii=False, indent=1)
        return ToolOutput(text, data=data)
    kind = ran.reason if ran.error == "effect_denied" and ran.reason else ran.error
    return ToolOutput(f"{kind}: {ran.message}", ok=False, data={**data, "error": kind})
