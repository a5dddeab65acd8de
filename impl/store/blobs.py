"""Blobs: bytes kept once, in files named by their SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core import StoreError
from impl.store import errors

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_TOUCH_S: Final = 3600.0


class Blobs:
    """The files under `home/blobs`. `fsync` makes a blob survive power loss, at the price of some milliseconds."""

    def __init__(self, home: Path, fsync: bool) -> None:
        self._home = home
        self._directory = home / "blobs"
        self._fsync = fsync

    def put(self, data: bytes) -> str:
        """Store bytes once; returns their hex SHA-256. A damaged file under that name is replaced."""
        name = hashlib.sha256(data).hexdigest()
        path = self.path(name)
        try:
            if not _holds(path, data):
                self._write(path, data)
            elif path.stat().st_mtime < time.time() - _TOUCH_S:
                # Young again: a row is about to name it, so it must not look like rubbish.
                with contextlib.suppress(OSError):
                    os.utime(path)
        except OSError as error:
            raise errors.from_os(error, self._home) from error
        return name

    def get(self, name: str) -> bytes:
        """The bytes, checked against their hash. Raises StoreError `not_found` or `damaged`."""
        if not _NAME.fullmatch(name):
            raise _missing(name)
        path = self.path(name)
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(name) from None
        except OSError as error:
            raise errors.from_os(error, self._home) from error
        if hashlib.sha256(data).hexdigest() != name:
            raise errors.damaged(path, "its content does not have the hash it is named by")
        return data

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self.path(name).is_file()

    def path(self, name: str) -> Path:
        """Where the blob lies, or would lie."""
        return self._directory / name[:2] / name

    def names(self, older_than_s: float) -> Iterator[str]:
        """Names of the blobs last written more than `older_than_s` seconds ago."""
        deadline = time.time() - older_than_s
        for path in self._files():
            with contextlib.suppress(FileNotFoundError):
                if _NAME.fullmatch(path.name) and path.stat().st_mtime < deadline:
                    yield path.name

    def delete(self, name: str) -> int:
        """Remove a blob; returns its size in bytes, 0 where there was none."""
        path = self.path(name)
        try:
            size = path.stat().st_size
            path.unlink()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise errors.from_os(error, self._home) from error
        return size

    def sweep(self, older_than_s: float) -> None:
        """Remove unfinished files of writers that died."""
        deadline = time.time() - older_than_s
        for path in self._files():
            with contextlib.suppress(OSError):
                if path.name.startswith(".new-") and path.stat().st_mtime < deadline:
                    path.unlink()

    def _files(self) -> Iterator[Path]:
        if self._directory.is_dir():
            for directory in sorted(self._directory.iterdir()):
                yield from sorted(directory.iterdir())

    def _write(self, path: Path, data: bytes) -> None:
        """Write beside and rename: nobody ever sees half a blob."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        new = path.with_name(f".new-{os.urandom(8).hex()}")
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)
                if self._fsync:
                    file.flush()
                    os.fsync(fd)
            os.rename(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise
        if self._fsync:
            for directory in (path.parent, self._directory, self._home):
                _sync_directory(directory)


def _holds(path: Path, data: bytes) -> bool:
    """Whether the file is there with this content; reading it costs less than the hash already did."""
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:
        return False


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _missing(name: str) -> StoreError:
    return StoreError(
        "not_found",
        f"There is no blob {name[:12]}… in this home.",
        "It was removed or never copied here; the rest of the session can still be read.",
    )
