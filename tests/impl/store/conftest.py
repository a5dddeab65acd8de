"""Homes, mounts and further processes for the store's tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from impl.store.sqlite import SqliteStore

PRELUDE = """
import sys
from pathlib import Path
from core.ports import *
from impl.store.sqlite import SqliteStore
def tell(*words):
    print(*words, flush=True)
store = SqliteStore(Path(sys.argv[1]))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[SqliteStore]:
    with SqliteStore(home) as store:
        yield store


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start another Python process that has opened `home` as `store` and runs `code`."""
    started: list[subprocess.Popen[str]] = []

    def start(home: Path, code: str, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PRELUDE + code, str(home), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def mount() -> Iterator[Callable[..., None]]:
    """`mount` with these arguments, the last one the mount point; undone afterwards, skipped where not allowed."""
    mounted: list[str] = []

    def run(*arguments: str) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root to mount a file system")
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this machine cannot mount: {done.stderr.strip()}")
        if arguments[-1] not in mounted:
            mounted.append(arguments[-1])

    yield run
    for point in reversed(mounted):
        subprocess.run(["umount", "-l", point], check=True)
