"""How long the digest of a bundle of 10,000 files takes, against `sha256sum` of the same files."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from core import digest_tree

FILES = 10_000
ROUNDS = 5


def run() -> dict[str, Any]:
    """Minima of interleaved rounds, in seconds, and their ratio. Reach: at most 1.5."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        _fill(root)
        names = subprocess.run(["find", ".", "-type", "f"], cwd=root, capture_output=True, check=True).stdout
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            ours.append(_timed(lambda: digest_tree(root)))
            theirs.append(_timed(lambda: _sha256sum(root, names)))
    ratio = min(ours) / min(theirs)
    return {
        "name": "digest_of_10000_files",
        "digest_s": round(min(ours), 4),
        "sha256sum_s": round(min(theirs), 4),
        "ratio": round(ratio, 3),
        "reach": 1.5,
        "ok": ratio <= 1.5,
    }


def _fill(root: Path) -> None:
    """Files of 100 bytes to 8 KB in 100 directories."""
    seeded = random.Random(7)
    for number in range(FILES):
        directory = root / f"d{number % 100:02d}"
        directory.mkdir(exist_ok=True)
        (directory / f"f{number:05d}.md").write_bytes(seeded.randbytes(seeded.randint(100, 8000)))


def _sha256sum(root: Path, names: bytes) -> None:
    command = ["xargs", "-d", "\n", "sha256sum"]
    subprocess.run(
        command, input=names, cwd=root, stdout=subprocess.DEVNULL, check=True, env={**os.environ, "LC_ALL": "C"}
    )


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(run()))  # noqa: T201
