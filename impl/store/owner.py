"""Which process drives a session: one locked file per running store, so that death frees what it owned.

The kernel drops the lock however the process ends. A probe takes a shared lock, so that two that probe at
once do not take each other for the owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
import time
import weakref
from pathlib import Path
from typing import Final

from core import StoreError
from impl.store import errors

#: Unix socket paths may have 104 bytes on some systems; a margin for the terminating NUL and a suffix.
_SOCKET_MAX: Final = 100
_PRIVATE_PREFIX: Final = "artificer-"
_STALE_S: Final = 3600.0
_RUN: Final = re.compile(r"[0-9a-f]{16}")


class Run:
    """This store's life as an owner: its id, lock file and socket path. The files are made on first need."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._directory = home / "run"
        self.id = os.urandom(8).hex()
        self._fd: int | None = None
        self._lock = threading.Lock()
        self._socket: Path | None = None
        reference = weakref.ref(self)
        # A forked child that lives longer must not keep the parent's lock.
        os.register_at_fork(after_in_child=lambda: _forget(reference))

    def acquire(self) -> Path:
        """Hold the lock and return the socket path. Raises StoreError where the home cannot be written."""
        with self._lock:
            if self._fd is None or self._socket is None:
                try:
                    socket = self._socket_path()
                    self._fd = self._make_lock(socket)
                except OSError as error:
                    raise errors.from_os(error, self._home) from error
                self._socket = socket
                self._sweep()
            return self._socket

    def _make_lock(self, socket: Path) -> int:
        """Lock the file before it gets its name: nobody can meet it unlocked."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        new = self._directory / f".new-{self.id}"
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, json.dumps({"pid": os.getpid(), "socket": str(socket)}).encode())
            os.rename(new, self._lock_path(self.id))
        except BaseException:
            os.close(fd)
            new.unlink(missing_ok=True)
            raise
        return fd

    def _socket_path(self) -> Path:
        near = self._directory / f"{self.id}.sock"
        if len(os.fsencode(near)) <= _SOCKET_MAX:
            return near
        import tempfile

        for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir()):
            name_length = len(_PRIVATE_PREFIX) + 20
            if parent and os.path.isdir(parent) and len(os.fsencode(parent)) + name_length <= _SOCKET_MAX:
                return Path(tempfile.mkdtemp(prefix=_PRIVATE_PREFIX, dir=parent)) / "s.sock"
        raise StoreError(
            "not_found",
            f"No directory has a path short enough for a Unix socket ({_SOCKET_MAX} bytes).",
            "Set TMPDIR or ARTIFICER_HOME to a directory with a shorter path.",
        )

    def alive(self, run: str | None) -> bool:
        """Whether the process that has run id `run` lives."""
        if not isinstance(run, str) or not _RUN.fullmatch(run):  # nobody, or what damage left
            return False
        if run == self.id:
            return self._fd is not None
        try:
            fd = os.open(self._lock_path(run), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            # Not ours to look at: nothing shows that it is dead.
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def socket_of(self, run: str) -> Path | None:
        """The socket path that `run` recorded, or None."""
        if run == self.id:
            return self._socket
        return _recorded_socket(self._lock_path(run))

    def close(self) -> None:
        """Give up the lock and remove the files; a second time does nothing."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        with contextlib.suppress(OSError):
            self._remove(self._lock_path(self.id), self._socket)
        os.close(fd)

    def _sweep(self) -> None:
        """Remove what dead runs left. Run ids are never used again, so a dead one stays dead."""
        with contextlib.suppress(OSError):
            for path in self._directory.iterdir():
                if path.suffix == ".lock" and not self.alive(path.stem):
                    self._remove(path, _recorded_socket(path))
                elif path.name.startswith(".new-") and path.stat().st_mtime < time.time() - _STALE_S:
                    path.unlink(missing_ok=True)

    def _remove(self, lock: Path, socket: Path | None) -> None:
        if socket is not None:
            if socket.parent.name.startswith(_PRIVATE_PREFIX) and socket.name == "s.sock":
                import shutil

                shutil.rmtree(socket.parent, ignore_errors=True)
            elif socket.parent == self._directory:
                socket.unlink(missing_ok=True)
        lock.unlink(missing_ok=True)

    def _lock_path(self, run: str) -> Path:
        return self._directory / f"{run}.lock"


def _recorded_socket(lock: Path) -> Path | None:
    try:
        value = json.loads(lock.read_bytes())
    except (OSError, ValueError):
        return None
    socket = value.get("socket") if isinstance(value, dict) else None
    return Path(socket) if isinstance(socket, str) else None


def _forget(reference: weakref.ref[Run]) -> None:
    run = reference()
    if run is not None and run._fd is not None:
        os.close(run._fd)
        run._fd = None
