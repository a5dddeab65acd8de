"""A workspace's start: files copied into a session's own workspace before it begins, links never followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from core.ports import StoreError

MAX_FILES: Final = 5_000
MAX_BYTES: Final = 200_000_000
_CHUNK: Final = 1 << 20
MAX_DEPTH: Final = 100
"""Directories in directories: each of them is held open while what is below it is copied."""
_DIR: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a pipe that took a file's place meanwhile must not hang us.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BadStart(Exception):
    """What was to be handed over cannot be; the message names the path and why."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a workspace begins with: parts of the directory `root` (all of it where `names` is None), then `texts` by
    path. Sessions given the same start each get a copy of their own."""

    root: Path | None = None
    names: tuple[str, ...] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to copy."""
        return not self.texts and (self.root is None or self.names == ())


def lay_out(start: Start, target: Path) -> None:
    """Copy `start` into `target`, a workspace nobody has opened yet. Raises BadStart, and StoreError where there is no
    room for it: that is not the fault of what was to be handed over."""
    if start.empty:
        return
    target.mkdir(parents=True, exist_ok=True)
    try:
        if start.root is not None:
            _copy(start.root, start.names, target)
        for name, text in start.texts.items():
            path = target.joinpath(*_parts(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    except OSError as error:
        raise _failed(error, f"{error.filename or start.root}: {error.strerror or error}") from error


def _failed(error: OSError, words: str) -> Exception:
    """What a copy that failed means."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        hint = "Free space there (`artificer gc` helps), or set ARTIFICER_HOME to another disk; then go on."
        return StoreError("disk_full", f"No room for what a workspace begins with ({words}).", hint)
    return BadStart(words)


def _parts(name: str) -> list[str]:
    """The components of a plain relative path. Raises BadStart."""
    parts = name.removeprefix("/work/").rstrip("/").split("/")
    if len(parts) > MAX_DEPTH or name.startswith("~") or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise BadStart(f"{name[:200]!r} is no plain path below /work.")
    return parts


def _copy(root: Path, names: Sequence[str] | None, target: Path) -> None:
    budget = _Budget()
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BadStart(f"There is no directory {root.name!r} to hand over from.") from error
    try:
        for name in sorted(os.listdir(top)) if names is None else names:
            parts = [name] if names is None else _parts(name)
            _take(top, parts, target.joinpath(*parts), budget, name)
    finally:
        os.close(top)


def _take(top: int, parts: Sequence[str], target: Path, budget: _Budget, name: str) -> None:
    """Copy one file or directory, every component opened without following a link."""
    opened: list[int] = []
    at = top
    try:
        for part in parts[:-1]:
            at = os.open(part, _DIR, dir_fd=at)
            opened.append(at)
        for child, path in _walk(at, parts[-1], target, budget, len(parts)):
            _file(child, path, budget)
    except OSError as error:
        raise _failed(error, f"{name!r} cannot be handed over: {error.strerror}.") from error
    finally:
        for handle in reversed(opened):
            os.close(handle)


def _walk(at: int, name: str, target: Path, budget: _Budget, depth: int) -> Iterator[tuple[int, Path]]:
    """Open files at and below `name`, each with where it goes."""
    if depth > MAX_DEPTH:
        raise BadStart(f"Its directories lie more than {MAX_DEPTH} deep in each other.")
    mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    if stat.S_ISREG(mode):
        handle = os.open(name, _FILE, dir_fd=at)
        try:
            yield handle, target
        finally:
            os.close(handle)
    elif stat.S_ISDIR(mode):
        budget.count()
        handle = os.open(name, _DIR, dir_fd=at)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for inner in sorted(os.listdir(handle)):
                yield from _walk(handle, inner, target / inner, budget, depth + 1)
        finally:
            os.close(handle)
    else:
        raise BadStart(f"{name!r} is a link or no file; only files and directories are handed over.")


def _file(handle: int, target: Path, budget: _Budget) -> None:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise BadStart(f"{target.name!r} is no file any more.")
    budget.count(found.st_size)
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(handle, "rb", closefd=False) as source, open(target, "wb") as copy:
        left = found.st_size  # and no more, however it grows meanwhile
        while left and (data := source.read(min(left, _CHUNK))):
            copy.write(data)
            left -= len(data)
    target.chmod(0o755 if found.st_mode & 0o111 else 0o644)


class _Budget:
    """How much has been copied, of how much may be."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0

    def count(self, size: int = 0) -> None:
        """One more. Raises BadStart where it is too much."""
        self.files += 1
        self.bytes += size
        if self.files > MAX_FILES or self.bytes > MAX_BYTES:
            raise BadStart(f"That is more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB.")
