"""The gate's part that runs code, in sandboxes: what tools need is installed, and each example is run on its record."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from core import (
    Broker,
    CheckOutcome,
    Example,
    Host,
    Ledger,
    ManifestError,
    Problem,
    ProblemCode,
    SandboxUnavailable,
    ToolManifest,
    read_manifest,
    read_tool,
    recorded_example,
)
from impl.tools.conversation import ToolRun
from impl.tools.environments import EnvironmentFailed
from impl.tools.process import run_tool
from impl.tools.shop import TOOLS, ToolShop

NAME: Final = "examples"
LONGEST_EXAMPLE_S: Final = 20.0


@dataclass(slots=True)
class _Report:
    """What was found, in words for people and as problems."""

    problems: list[Problem] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def wrong(self, code: ProblemCode, tool: str, message: str, hint: str) -> None:
        """Note a problem of a tool's."""
        self.problems.append(Problem(code, f"{TOOLS}/{tool}/tool.yaml" if tool else TOOLS, message, hint))


def example_check(host: Host, sandbox: str | None) -> Callable[[Path], CheckOutcome]:
    """A check for `validate_revision`: takes the bundle's directory, installs what its tools need, runs their
    examples.

    It makes an event loop of its own, so call it where none runs (a thread will do).
    """

    def check(path: Path) -> CheckOutcome:
        began = time.perf_counter()
        report = asyncio.run(_check(host, sandbox, path))
        problems = tuple(report.problems)
        return CheckOutcome(NAME, not problems, time.perf_counter() - began, "\n".join(report.log), problems)

    return check


async def _check(host: Host, sandbox: str | None, path: Path) -> _Report:
    report = _Report()
    try:
        manifest = read_manifest(path)
        tools = {name: read_tool(path / TOOLS / name) for name in manifest.tools}
    except ManifestError as error:
        report.problems += error.problems
        return report
    if not any(tool.examples or tool.requirements for tool in tools.values()):
        report.log.append("no examples")
        return report
    with tempfile.TemporaryDirectory(prefix="artificer-examples-") as scratch:
        try:
            chosen, _ = await host.sandboxes.choose(sandbox)
            place = Path(scratch, "tools")
            shop = ToolShop(host, "", manifest.name, path, place, manifest, chosen, credential=lambda name: None)
            await _check_tools(shop, tools, report)
        except SandboxUnavailable as error:
            hint = "Run `artificer doctor`, which says what works here."
            report.wrong(ProblemCode.EXAMPLE_FAILED, "", f"no sandbox to run examples in: {error}", hint)
    return report


async def _check_tools(shop: ToolShop, tools: Mapping[str, ToolManifest], report: _Report) -> None:
    try:
        for name, tool in tools.items():
            if await _installed(shop, name, tool, report):
                await _run_examples(shop, name, tool, report)
    finally:
        await shop.close()


async def _installed(shop: ToolShop, name: str, tool: ToolManifest, report: _Report) -> bool:
    if not tool.requirements:
        return True
    try:
        await (await shop.environments()).install(tool.requirements)
    except EnvironmentFailed as error:
        report.log.append(f"{name}: {error}")
        hint = "Name releases that exist and can be reached from the sandbox, or do without."
        report.wrong(ProblemCode.ENVIRONMENT_FAILED, name, _plain(str(error)), hint)
        return False
    report.log.append(f"{name}: installed {', '.join(tool.requirements)}")
    return True


async def _run_examples(shop: ToolShop, name: str, tool: ToolManifest, report: _Report) -> None:
    for number, example in enumerate(tool.examples, 1):
        wrong = _wrong(await _run_example(shop, name, tool, example), example)
        report.log.append(f"{name} example {number}: {wrong or 'as shown'}")
        if wrong:
            hint = "Correct the tool, or the example's input, effects or output."
            report.wrong(ProblemCode.EXAMPLE_FAILED, name, f"example {number}: {_plain(wrong)}", hint)


async def _run_example(shop: ToolShop, name: str, tool: ToolManifest, example: Example) -> ToolRun:
    broker = Broker(
        call="example",
        tool=name,
        policy=shop.policy(tool),
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
        entrypoint=f"{name}/{tool.entrypoint}",
        input=example.input,
        broker=broker,
        log=lambda text: None,
        timeout=min(tool.timeout_s, LONGEST_EXAMPLE_S),
        environment=shop.environment(tool),
        requirements=tool.requirements,
    )


def _wrong(ran: ToolRun, example: Example) -> str | None:
    """What the run gave that the example does not show, None where they agree."""
    if ran.error is not None:
        return f"{ran.reason or ran.error}: {ran.message[:500]}"
    if example.output is not None and not _same(ran.value, example.output):
        return f"gave {_shown(ran.value)}, which is not the output it shows"
    return None


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)[:300]
    except RecursionError:
        return "something that nests too deeply"


def _same(a: Any, b: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, True and 1 are not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _plain(text: str) -> str:
    """What code put into words, harmless for a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
