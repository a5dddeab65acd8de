"""A digest of a workspace's content, so that the progress guard can tell new work from the same work again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

EXCLUDED: Final = frozenset(
    {
        ".git",
        "__pycache__",
        "node_modules",
        ".venv",
        "venv",
        ".cache",
        ".local",
        ".npm",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".artificer",
    }
)
"""Environments and caches: they change without anything being achieved."""
MAX_FILES: Final = 5_000
MAX_HASHED: Final = 4_000_000
# What else runs in the workspace may put a link, a pipe or more in a file's place meanwhile.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WorkspaceDigest:
    """Digests one workspace again and again; only files whose size or time changed are read again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[str, tuple[int, int, str]] = {}

    def take(self) -> str | None:
        """The digest now (16 hex digits), or None where there is no workspace yet or it has too many files.

        The same files have the same digest wherever the workspace lies; of very large ones size and time are taken.
        """
        seen: dict[str, tuple[int, int, str]] = {}
        stack = [os.fspath(self._root)]
        while stack:
            try:
                entries = sorted(os.scandir(stack.pop()), key=lambda e: e.name)
            except OSError:
                continue
            for entry in entries:
                if entry.name in EXCLUDED or entry.name.endswith(".pyc"):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    row = self._row(entry)
                    if row is not None:
                        seen[entry.path] = row
                if len(seen) > MAX_FILES:
                    return None
        self._seen = seen
        if not seen:
            return None
        whole = hashlib.sha256()
        above = len(os.path.join(self._root, ""))
        for path in sorted(seen):
            whole.update(f"{path[above:]}\0{seen[path][2]}\n".encode("utf-8", "surrogateescape"))
        return whole.hexdigest()[:16]

    def _row(self, entry: os.DirEntry[str]) -> tuple[int, int, str] | None:
        try:
            stat = entry.stat(follow_symlinks=False)
            known = self._seen.get(entry.path)
            if known is not None and known[:2] == (stat.st_size, stat.st_mtime_ns):
                return known
            if stat.st_size > MAX_HASHED:
                return (stat.st_size, stat.st_mtime_ns, f"{stat.st_size}:{stat.st_mtime_ns}")
            with open(os.open(entry.path, _READ), "rb") as file:
                content = hashlib.sha256(file.read(MAX_HASHED + 1)).hexdigest()
            return (stat.st_size, stat.st_mtime_ns, content)
        except OSError:
            return None
