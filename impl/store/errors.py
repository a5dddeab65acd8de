"""What SQLite and the file system report, said as a `StoreError` with its next step."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from core import StoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})

#: Primary result codes of SQLite (the low byte of the extended ones).
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def primary(error: sqlite3.Error) -> int:
    """The primary result code, 0 where the error did not come from SQLite itself."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process or connection is in the way, so that trying again can help."""
    return primary(error) in _BUSY


def is_undecodable(error: sqlite3.Error) -> bool:
    """Whether a TEXT column holds bytes that are not UTF-8 (Python's own error, without a result code)."""
    return "Could not decode to UTF-8" in str(error)


def disk_full(home: Path, detail: str) -> StoreError:
    """The error of a home with no room left."""
    return StoreError(
        "disk_full",
        f"No room to write in {home} ({detail}). What was stored before is intact.",
        "Free space there (`artificer gc` helps), or set ARTIFICER_HOME to another disk; then resume.",
    )


def read_only(home: Path, detail: str) -> StoreError:
    """The error of a home that may be read but not written."""
    return StoreError(
        "read_only",
        f"{home} cannot be written ({detail}).",
        "Make it writable for this user, or set ARTIFICER_HOME to another directory. It can still be read.",
    )


def damaged(path: Path, detail: str) -> StoreError:
    """The error of a file whose content is not what was written."""
    return StoreError(
        "damaged",
        f"{path} is damaged ({detail}).",
        "Restore it from a backup, or move it away to begin anew.",
    )


def busy() -> StoreError:
    """The error of a database that others kept locked for longer than we wait."""
    return StoreError(
        "busy",
        "Another process kept the database locked for too long.",
        "Try again; if it stays so, look for a process that hangs on this home.",
    )


def from_sqlite(error: sqlite3.Error, path: Path) -> Exception:
    """The StoreError that `error` means, for the database at `path`; mistakes in our own SQL stay as they are."""
    code, detail = primary(error), str(error)
    if is_undecodable(error):
        return damaged(path, detail)
    if code in _BUSY:
        return busy()
    if code == sqlite3.SQLITE_FULL:
        return disk_full(path.parent, detail)
    if code in _DAMAGED:
        return damaged(path, detail)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return _not_writable(path, detail)
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
        return _not_possible(error, path, detail)
    if code == sqlite3.SQLITE_ERROR and isinstance(error, sqlite3.OperationalError):
        return damaged(path, detail)
    return error


def _not_writable(path: Path, detail: str) -> StoreError:
    if not path.exists():
        return _gone(path)
    return read_only(path.parent, detail)


def _not_possible(error: sqlite3.Error, path: Path, detail: str) -> StoreError:
    """SQLite says no more than "disk I/O error" or "unable to open": look at the disk for the reason."""
    if not path.exists():
        return _gone(path)
    if not writable(path):
        return read_only(path.parent, detail)
    name = getattr(error, "sqlite_errorname", "")
    if name in {"SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE"} or no_room(path.parent):
        return disk_full(path.parent, detail)
    return damaged(path, f"{detail}, {name}")


def _gone(path: Path) -> StoreError:
    return StoreError(
        "not_found",
        f"{path} is not there any more.",
        "Put it back, or start again: a new home is made where there is none.",
    )


def from_os(error: OSError, home: Path) -> StoreError:
    """The StoreError that a failed file operation under `home` means."""
    detail = error.strerror or str(error)
    if error.errno in _FULL:
        return disk_full(home, detail)
    if error.errno in _READ_ONLY:
        return read_only(home, detail)
    return StoreError(
        "not_found",
        f"{error.filename or home}: {detail}.",
        "Check the path, or set ARTIFICER_HOME to a directory.",
    )


def writable(path: Path) -> bool:
    """Whether this user may write the database file and make files beside it (false on a read-only mount)."""
    return os.access(path.parent, os.W_OK | os.X_OK) and (not path.exists() or os.access(path, os.W_OK))


def no_room(directory: Path) -> bool:
    """Whether the disk has less than a megabyte left."""
    try:
        stat = os.statvfs(directory)
    except OSError:
        return False
    return stat.f_bavail * stat.f_frsize < 1_000_000
