"""Takes away what sandboxes of dead Artificer processes left: containers and directories of sockets, only our own."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from core import SandboxUnavailable
from impl.sandboxes import daemon
from impl.sandboxes.docker import CONTROL
from impl.sandboxes.docker import sweep as sweep_containers
from impl.sandboxes.owners import fate

ANSWER_S = 10.0
_at_start = threading.Lock()
_swept: set[Path] = set()


def sweep(home: Path) -> list[str]:
    """Remove what belongs to `home` and whose owner is dead; a line for each thing, and for what could not be done.

    Other homes' things, and those of processes that live, are left. Where an owner cannot be seen from here (another
    PID namespace), its containers go once they are past their age. Takes seconds at most, and never raises.
    """
    lines = [f"removed the sockets {path}" for path in _sockets(home)]
    path = daemon.find()
    if isinstance(path, str):
        return lines  # no daemon, no containers
    try:
        names = daemon.Daemon(path).call(lambda client: sweep_containers(client, home, _is_over), ANSWER_S)
    except SandboxUnavailable as error:
        return [*lines, f"containers were not looked for: {error}"]
    return lines + [f"removed the container {name}" for name in names]


def sweep_at_start(home: Path) -> None:
    """The same in the background, once a process and home; nobody waits for it."""
    with _at_start:
        if home in _swept:
            return
        _swept.add(home)
    threading.Thread(target=sweep, args=(home,), name="sweep", daemon=True).start()


def _is_over(mark: str, expires: int) -> bool:
    match fate(mark):
        case "dead":
            return True
        case "alive":
            return False
        case "unknown":
            return 0 < expires < time.time()


def _sockets(home: Path) -> list[Path]:
    """Remove the socket directories of dead owners."""
    gone = []
    for path in home.glob(f"workspaces/*/{CONTROL}*"):
        try:
            mark = (path / "owner").read_text()
        except OSError:
            continue  # it is being made, or going
        if fate(mark) == "dead":
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path)
    return gone
