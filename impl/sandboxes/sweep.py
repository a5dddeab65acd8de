"""Takes away what sandboxes of dead Artificer processes left: containers, directories of sockets and of what was being
checked; only our own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from core import SandboxUnavailable
from impl.sandboxes import daemon
from impl.sandboxes.containers import LABEL, remove
from impl.sandboxes.docker import CONTROL, abandoned
from impl.sandboxes.owners import fate

ANSWER_S = 10.0
EVERY_S = 300.0
SCRATCH = ("artificer-validate-", "artificer-register-", "artificer-examples-")
"""How directories begin in which parts of bundles are checked, among the machine's temporary ones."""
LONGEST_CHECK_S = 86_400.0


def sweep(home: Path) -> list[str]:
    """Remove what belongs to `home` and whose owner is dead; a line for each thing, and for what could not be done.

    Other homes' things, and those of processes that live, are left. Where an owner cannot be seen from here (another
    PID namespace), its containers go once they are past their age. Takes seconds at most, and never raises. Call it
    where no event loop runs (a thread will do). The SDK is loaded only where there is something to remove.
    """
    lines = [f"removed the sockets {path}" for path in _sockets(home)]
    lines += [f"removed {path}, which a check had left" for path in _scratch()]
    path = daemon.find()
    if isinstance(path, str):
        return lines  # no daemon, no containers
    try:
        names = abandoned(asyncio.run(_containers(path, home)), _is_over)
        if names:
            daemon.Daemon(path).call(lambda client: remove(client, names), ANSWER_S)
    except (SandboxUnavailable, OSError, ValueError, TimeoutError) as error:
        return [*lines, f"containers were not looked for: {str(error) or 'the Docker daemon gave no answer'}"]
    return lines + [f"removed the container {name}" for name in names]


async def _containers(path: Path, home: Path) -> list[dict[str, Any]]:
    """The rows of the daemon's containers that belong to `home`, in any state."""
    filters = json.dumps({"label": [f"{LABEL}={home}"]})
    async with asyncio.timeout(ANSWER_S):
        status, rows = await daemon.get(path, f"/containers/json?{urlencode({'all': 1, 'filters': filters})}")
    if status != 200 or not isinstance(rows, list):
        raise ValueError(f"the daemon answers with {status}")
    return rows


class Sweeper:
    """Sweeps homes again and again, `every_s` seconds apart, in one thread of its own; nobody waits for it."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every = every_s
        self._due: dict[Path, float] = {}
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def keep(self, home: Path) -> None:
        """Sweep `home` now, and from now on for as long as it is there and this process lives; once is enough."""
        with self._news:
            if home in self._due:
                return
            self._due[home] = time.monotonic()
            self._news.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            home = self._next()
            sweep(home)
            with self._news:
                if home.is_dir():
                    self._due[home] = time.monotonic() + self._every
                else:
                    del self._due[home]

    def _next(self) -> Path:
        """The home that is due first, once it is."""
        with self._news:
            while True:
                home = min(self._due, key=self._due.__getitem__, default=None)
                left = None if home is None else self._due[home] - time.monotonic()
                if home is not None and left is not None and left <= 0:
                    return home
                self._news.wait(left)


SWEEPER = Sweeper()
"""This process's."""


def _is_over(mark: str, expires: int) -> bool:
    match fate(mark):
        case "dead":
            return True
        case "alive":
            return False
        case "unknown":
            return 0 < expires < time.time()


def _scratch() -> list[Path]:
    """Remove what checks that were killed left behind: this user's, and older than any check can be."""
    gone = []
    old = time.time() - LONGEST_CHECK_S
    for path in (path for name in SCRATCH for path in Path(tempfile.gettempdir()).glob(f"{name}*")):
        try:
            status = path.lstat()
        except OSError:
            continue  # it has just gone
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and status.st_mtime < old:
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path)
    return gone


def _sockets(home: Path) -> list[Path]:
    """Remove the socket directories of dead owners."""
    gone = []
    try:
        found = list(home.glob(f"workspaces/*/{CONTROL}*"))
    except OSError:
        return []  # some of it went meanwhile: next time
    for path in found:
        try:
            mark = (path / "owner").read_text()
        except OSError:
            continue  # it is being made, or going
        if fate(mark) == "dead":
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path)
    return gone
