"""A Dask cluster of real processes on loopback: a scheduler and workers, each worker with a home of its own.

The keeper of `tests/inputs/lab/keeper` runs on it: its tools write `watching` where they work, and go on once `turned`
stands beside it, so a test holds a cell in its middle for as long as it wants.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

DEADLINE_S = 40.0


class Worker:
    """One worker process of some slots."""

    def __init__(self, root: Path, scheduler: Path, slots: int, env: Mapping[str, str]) -> None:
        root.mkdir()
        self.home = root / "home"
        self._log = root / "log"
        words = ["--scheduler-file", scheduler, "--nthreads", slots, "--local-directory", root / "scratch"]
        own = {**env, "ARTIFICER_HOME": str(self.home)}
        self.process = _start("dask_worker", [*words, "--no-nanny"], root, self._log, **own)

    def ready(self) -> bool:
        """Whether the scheduler knows it. Raises AssertionError where it has ended."""
        assert self.process.poll() is None, self._log.read_text()
        return "Registered to" in self._log.read_text()

    def watching(self) -> list[Path]:
        """Where cells are held on it, and not let go yet."""
        return [path.parent for path in held(self.home) if not (path.parent / "turned").exists()]

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)


class Cluster:
    """The scheduler and its workers, with `env` in their environment; a context manager that ends them all."""

    def __init__(self, root: Path, *, slots: int = 2, **env: str) -> None:
        self._root = root
        self._env = env
        self._slots = slots
        self._file = root / "scheduler.json"
        self._all: list[Worker] = []
        words = ["--host", "127.0.0.1", "--port", "0", "--no-show", "--scheduler-file", self._file]
        self.process = _start("dask_scheduler", words, root, root / "log")

    def __enter__(self) -> Cluster:
        until(self._file.exists, "the scheduler wrote its file")
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*(worker.process for worker in self._all), self.process):
            if process.poll() is None:
                process.kill()
            process.wait()

    @property
    def url(self) -> str:
        """What `--engine` is given."""
        return "dask://" + json.loads(self._file.read_text())["address"].removeprefix("tcp://")

    def workers(self, count: int = 2) -> list[Worker]:
        """So many living workers, started where there are fewer."""
        alive = [worker for worker in self._all if worker.process.poll() is None]
        fresh = [
            Worker(self._root / f"w{len(self._all) + n}", self._file, self._slots, self._env)
            for n in range(count - len(alive))
        ]
        self._all += fresh
        for worker in fresh:
            until(worker.ready, "a worker is registered")
        return [*alive, *fresh]


def _start(program: str, words: list[object], root: Path, log: Path, **env: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", f"distributed.cli.{program}", *map(str, words), "--no-dashboard"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARTIFICER_")}
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=root, env=kept | env, stdout=out, stderr=out, stdin=subprocess.DEVNULL)


def held(home: Path) -> list[Path]:
    """The files that say that a cell is held below a home: one of a worker, or of a person."""
    places = ("workspaces", "cells/*/*/workspaces")
    return [path for place in places for path in home.glob(f"{place}/*/tools/scratch/watching")]


def until(wanted: Callable[[], object], words: str) -> None:
    """Wait for a condition. Raises AssertionError when it does not come."""
    deadline = time.monotonic() + DEADLINE_S
    while not wanted():
        assert time.monotonic() < deadline, f"never: {words}"
        time.sleep(0.02)


@contextlib.contextmanager
def tide(*homes: Path) -> Iterator[None]:
    """Let every cell go that is held below these homes, for as long as this lasts."""
    over = threading.Event()

    def turn() -> None:
        while not over.wait(0.02):
            for path in (path for home in homes for path in held(home)):
                with contextlib.suppress(OSError):  # its cell is over
                    (path.parent / "turned").touch()

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
