"""The gate's part that runs code: each example of each generated tool, in a sandbox, with recorded effects."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from core import (
    Broker,
    CheckOutcome,
    Example,
    Host,
    Ledger,
    Manifest,
    ManifestError,
    Problem,
    ProblemCode,
    SandboxUnavailable,
    ToolManifest,
    read_manifest,
    read_tool,
    recorded_example,
)
from impl.tools.generated import TOOLS, ToolShop, policy_of
from impl.tools.process import ToolRun, run_tool

NAME: Final = "examples"
LONGEST_EXAMPLE_S: Final = 20.0


def example_check(host: Host, sandbox: str | None) -> Callable[[Path], CheckOutcome]:
    """A check for `validate_revision`: takes the bundle's directory, runs its tools' examples.

    It makes an event loop of its own, so call it where none runs (a thread will do).
    """

    def check(path: Path) -> CheckOutcome:
        began = time.perf_counter()
        problems, log = asyncio.run(_run_all(host, sandbox, path))
        return CheckOutcome(NAME, not problems, time.perf_counter() - began, "\n".join(log), tuple(problems))

    return check


async def _run_all(host: Host, sandbox: str | None, path: Path) -> tuple[list[Problem], list[str]]:
    try:
        manifest = read_manifest(path)
        tools = {name: read_tool(path / TOOLS / name) for name in manifest.tools}
    except ManifestError as error:
        return list(error.problems), []
    if not any(tool.examples for tool in tools.values()):
        return [], ["no examples"]
    with tempfile.TemporaryDirectory(prefix="artificer-examples-") as scratch:
        shop = await _shop(host, sandbox, path, Path(scratch) / "tools", manifest)
        try:
            return await _run_tools(shop, tools)
        except SandboxUnavailable as error:
            problem = Problem(ProblemCode.EXAMPLE_FAILED, TOOLS, f"no sandbox to run examples in: {error}", "")
            return [problem], []
        finally:
            await shop.close()


async def _shop(host: Host, sandbox: str | None, root: Path, place: Path, manifest: Manifest) -> ToolShop:
    chosen, _ = await host.sandboxes.choose(sandbox)
    return ToolShop(
        host=host,
        session="",
        agent=manifest.name,
        root=root,
        place=place,
        manifest=manifest,
        open_sandbox=chosen.open,
        credential=lambda name: None,
    )


async def _run_tools(shop: ToolShop, tools: dict[str, ToolManifest]) -> tuple[list[Problem], list[str]]:
    problems: list[Problem] = []
    log: list[str] = []
    for name, tool in tools.items():
        for number, example in enumerate(tool.examples, 1):
            ran = await _run_example(shop, name, tool, example)
            wrong = _wrong(ran, example)
            log.append(f"{name} example {number}: {wrong or 'as shown'}")
            if wrong:
                where = f"{TOOLS}/{name}/tool.yaml"
                hint = "Correct the tool, or the example's input, effects or output."
                problems.append(Problem(ProblemCode.EXAMPLE_FAILED, where, f"example {number}: {wrong}", hint))
    return problems, log


async def _run_example(shop: ToolShop, name: str, tool: ToolManifest, example: Example) -> ToolRun:
    broker = Broker(
        call="example",
        tool=name,
        policy=policy_of(shop.manifest, tool),
        transport=None,
        credential=lambda _: None,
        emit=lambda kind, data: None,
        ledger=Ledger((), "example"),
        put_blob=lambda data: "",
        blob=lambda name: b"",
        replay=recorded_example(example.effects, name),
    )
    return await run_tool(
        await shop.opened(),
        entrypoint=f"{TOOLS}/{name}/{tool.entrypoint}",
        input=example.input,
        broker=broker,
        log=lambda text: None,
        timeout=min(tool.timeout_s, LONGEST_EXAMPLE_S),
    )


def _wrong(ran: ToolRun, example: Example) -> str | None:
    """What the run gave that the example does not show, None where they agree."""
    if ran.error is not None:
        return f"{ran.reason or ran.error}: {ran.message[:500]}"
    if example.output is not None and not _same(ran.value, example.output):
        return f"gave {json.dumps(ran.value, ensure_ascii=False)[:300]}, which is not the output it shows"
    return None


def _same(a: Any, b: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, True and 1 are not."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True) or (a == b and type(a) is type(b))
