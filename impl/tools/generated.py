"""The generated tools of a bundle as tools of the loop: sandboxed code, brokered effects, typed endings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core import Stop, Tool, ToolContext, ToolManifest, ToolOutput, ToolSpec, declared, read_tool, ref_for, waiting_for
from impl.tools.conversation import ToolRun
from impl.tools.process import run_tool
from impl.tools.shop import TOOLS, ToolShop

PRINTED = 4_000
"""Characters of what a tool printed that stand beside its result."""


def generated_tools(shop: ToolShop) -> list[Tool]:
    """The bundle's tools, in the manifest's order. Raises ManifestError where a tool.yaml is broken."""
    return [_tool(shop, name) for name in shop.manifest.tools]


def _tool(shop: ToolShop, name: str) -> Tool:
    directory = shop.root / TOOLS / name
    manifest = read_tool(directory)
    spec = ToolSpec(name, manifest.description, _schema(manifest, directory))

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await call_tool(shop, name, manifest, args, context)

    # Without isolation a tool may do more than what is on record.
    return Tool(spec, run, recorded=not shop.sandbox.unsafe, code=True)


def _schema(manifest: ToolManifest, directory: Path) -> Mapping[str, Any]:
    if manifest.input_schema is not None:
        return manifest.input_schema
    loaded: Mapping[str, Any] = json.loads((directory / (manifest.schema_file or "")).read_text("utf-8"))
    return loaded


async def call_tool(
    shop: ToolShop, name: str, manifest: ToolManifest, args: Mapping[str, Any], context: ToolContext
) -> ToolOutput:
    """One call: its result as JSON or text, or an error with its type first. Raises SandboxUnavailable."""
    if shop.sandbox.unsafe:
        await context.workspace()  # asks the person, as for any code that runs without isolation
    broker = shop.broker(name, manifest, context.call, context.emit)
    ran = await run_tool(
        await shop.opened(),
        entrypoint=f"{name}/{manifest.entrypoint}",
        input=args,
        broker=broker,
        log=lambda text: context.emit("log", {"call": context.call, "text": text + "\n"}),
        timeout=manifest.timeout_s,
        environment=shop.environment(manifest),
        requirements=manifest.requirements,
    )
    if ran.needs is not None:
        return _waits(shop, ran, context)
    shop.settled(context.call)
    return _output(ran)


def _waits(shop: ToolShop, ran: ToolRun, context: ToolContext) -> ToolOutput:
    missing = declared(shop.manifest)[ran.needs or ""]
    session = shop.host.store.session(shop.session)
    ref = ref_for(shop.host.store, shop.agent, missing, session.digest if session else None)
    waiting = waiting_for(context.call, shop.agent, (missing,), ref=ref, why=ran.message or None)
    return ToolOutput("", ok=False, stop=Stop.NEEDS_CREDENTIALS, waiting=waiting, detail=missing.name)


def _output(ran: ToolRun) -> ToolOutput:
    data: dict[str, Any] = {"printed": ran.printed[-PRINTED:]} if ran.printed else {}
    if ran.error is not None:
        kind = ran.reason if ran.error == "effect_denied" and ran.reason else ran.error
        message = ran.message.removeprefix(f"{kind}: ")
        return ToolOutput(f"{kind}: {message}{_next_step(kind)}", ok=False, data={**data, "error": kind})
    if isinstance(ran.value, str):
        return ToolOutput(ran.value, data=data)
    try:
        return ToolOutput(json.dumps(ran.value, ensure_ascii=False, indent=1), data=data)
    except RecursionError:
        return ToolOutput("bad_result: the result nests too deeply", ok=False, data={**data, "error": "bad_result"})


def _next_step(kind: str) -> str:
    if kind == "environment_missing":
        return "\nNothing is installed while an agent runs: validate its revision, which installs what its tools need."
    return ""
