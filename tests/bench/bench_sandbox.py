"""What a warm sandboxed command costs beside the same command with no sandbox."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from impl.sandboxes import choose

ROUNDS = 200
COMMAND = "echo hello"


def bare(shell: list[str]) -> float:
    """Milliseconds of the command in a plain subprocess."""
    started = time.perf_counter()
    subprocess.run(
        [*shell, COMMAND], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return (time.perf_counter() - started) * 1000


async def measure(kind: str | None) -> dict[str, Any]:
    """The least of each over interleaved rounds."""
    sandbox, _ = await choose(kind)
    with tempfile.TemporaryDirectory() as directory:
        workspace = await sandbox.open(Path(directory, "work"))
        started = time.perf_counter()
        shell = (await workspace.run("echo $0")).output.strip()
        cold = (time.perf_counter() - started) * 1000
        bare_ms = sandbox_ms = float("inf")
        for _ in range(ROUNDS):
            bare_ms = min(bare_ms, bare([shell, "-c"]))
            started = time.perf_counter()
            result = await workspace.run(COMMAND)
            sandbox_ms = min(sandbox_ms, (time.perf_counter() - started) * 1000)
            assert result.output == "hello\n"
        await workspace.close()
    return {
        "name": "warm_command",
        "sandbox": sandbox.name,
        "bare_ms": round(bare_ms, 3),
        "sandbox_ms": round(sandbox_ms, 3),
        "overhead_ms": round(sandbox_ms - bare_ms, 3),
        "cold_ms": round(cold, 1),
        "reach_overhead_ms": 3.0,
    }


def run() -> dict[str, Any]:
    """Measure the sandbox that is chosen here; times in milliseconds."""
    return asyncio.run(measure(None))


if __name__ == "__main__":
    print(json.dumps(run()))  # noqa: T201 - the benchmark's product
