"""Looks into a session's `/work` from outside: names and texts, read-only, no link followed, never without bound."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

MOST_ENTRIES: Final = 2_000
"""Names shown of one directory."""
MOST_BYTES: Final = 256_000
"""Bytes shown of one file."""

Kind = Literal["directory", "file", "link", "other"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in the workspace: its path below `/work`, what it is, its size in bytes."""

    path: str
    kind: Kind
    size: int = 0

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def depth(self) -> int:
        """How many directories it lies in."""
        return self.path.count("/")


def tree(root: Path, opened: frozenset[str]) -> tuple[Entry, ...]:
    """The names in `root` and in those of its directories that are `opened`, each followed by what it holds.

    Raises OSError where `root` cannot be read; of others that cannot, nothing is shown.
    """
    found: list[Entry] = []

    def add(path: str) -> None:
        for entry in _listing(root, path):
            found.append(entry)
            if entry.kind == "directory" and entry.path in opened:
                try:
                    add(entry.path)
                except OSError:
                    continue

    add("")
    return tuple(found)


def _listing(root: Path, path: str) -> list[Entry]:
    entries: list[Entry] = []
    with _opened(root, path, os.O_DIRECTORY) as fd, os.scandir(fd) as names:
        for name in names:
            if len(entries) >= MOST_ENTRIES:
                break
            try:
                facts = name.stat(follow_symlinks=False)
            except OSError:
                continue
            whole = f"{path}/{name.name}" if path else name.name
            entries.append(Entry(whole, _kind(facts.st_mode), facts.st_size))
    return sorted(entries, key=lambda entry: (entry.kind != "directory", entry.name))


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "other"


def read(root: Path, path: str) -> tuple[bytes, int]:
    """The beginning of a regular file, and its whole size. Raises OSError for anything else."""
    with _opened(root, path, os.O_NONBLOCK) as fd:  # a pipe without a writer would be waited for
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(f"{path} is no regular file")
        return os.read(fd, MOST_BYTES), facts.st_size


@contextmanager
def _opened(root: Path, path: str, flags: int) -> Iterator[int]:
    """A descriptor of `path` below `root`, reached part by part so that a link on the way is refused."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        raise OSError(f"{path} leads out of the workspace")
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts, 1):
            last = flags if number == len(parts) else os.O_DIRECTORY
            below = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | last, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)
