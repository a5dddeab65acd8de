"""What a warm sandboxed command costs beside the same command with no sandbox."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from impl.sandboxes import PREFERENCE, SANDBOXES
from impl.sandboxes.options import Options

ROUNDS = 200
COMMAND = "echo hello"
REACH_MS = 3.0


def bare(shell: list[str]) -> float:
    """Milliseconds of the command in a plain subprocess."""
    started = time.perf_counter()
    subprocess.run(
        [*shell, COMMAND], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return (time.perf_counter() - started) * 1000


async def measure(kind: str, options: Options, *, network: bool) -> dict[str, Any]:
    """The least of each over interleaved rounds; why there is nothing to measure, where a kind does not work here."""
    row: dict[str, Any] = {"name": "warm_command", "sandbox": f"{kind}, filtered network" if network else kind}
    sandbox = SANDBOXES[kind](options)
    problem = await sandbox.probe()
    if problem is not None:
        return {**row, "skipped": problem}
    with tempfile.TemporaryDirectory() as directory:
        workspace = await sandbox.open(Path(directory, "work"), network=network)
        started = time.perf_counter()
        shell = (await workspace.run("echo $0")).output.strip()
        cold = (time.perf_counter() - started) * 1000
        note = getattr(sandbox, "note", "")
        if network and note:
            await workspace.close()
            return {**row, "skipped": note}
        bare_ms = sandbox_ms = float("inf")
        for _ in range(ROUNDS):
            bare_ms = min(bare_ms, bare([shell, "-c"]))
            started = time.perf_counter()
            result = await workspace.run(COMMAND)
            sandbox_ms = min(sandbox_ms, (time.perf_counter() - started) * 1000)
            assert result.output == "hello\n"
        await workspace.close()
    return {
        **row,
        "bare_ms": round(bare_ms, 3),
        "sandbox_ms": round(sandbox_ms, 3),
        "overhead_ms": round(sandbox_ms - bare_ms, 3),
        "cold_ms": round(cold, 1),
        "reach_overhead_ms": REACH_MS,
    }


async def measure_all() -> list[dict[str, Any]]:
    """Every kind that isolates, without and with its network."""
    options = Options(image="local")
    return [await measure(kind, options, network=network) for kind in PREFERENCE for network in (False, True)]


def run() -> dict[str, Any]:
    """Measure every isolating kind; times in milliseconds. On top stand the figures of the first that works here."""
    rows = asyncio.run(measure_all())
    measured = [row for row in rows if "skipped" not in row]
    first = measured[0] if measured else rows[0]
    return {**first, "kinds": rows, "passed": all(row["overhead_ms"] <= REACH_MS for row in measured)}


if __name__ == "__main__":
    print(json.dumps(run()))  # noqa: T201 - the benchmark's product
