"""What a clone that others made says of itself: read as plain files and through no link, so that nothing of it runs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from core import open_directory, read_regular

_SMALL = 1_000
_LARGE = 1_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = re.compile(r"ref: (refs/heads/[^\s\\:?*\[~^]+)")
_SECTION = re.compile(r"\s*\[(.*)\]\s*")
_ORIGIN = re.compile(r'remote\s+"origin"')
_URL = re.compile(r'\s*url\s*=\s*"?([^\s"]+)"?\s*', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone's words on itself, which are no proof: the `url` of its origin and the `commit` it is at, None where
    they cannot be read."""

    url: str | None
    commit: str | None


def read_clone(workspace: Path, directory: str) -> Clone | None:
    """What the clone in `directory` of a workspace says; None where no clone is there."""
    try:
        root = open_directory(workspace)
    except OSError:
        return None
    try:
        git = f"{directory}/.git"
        head = _read(root, f"{git}/HEAD", _SMALL)
        if head is None:
            return None
        return Clone(_origin(_read(root, f"{git}/config", _LARGE) or ""), _commit(root, git, head.strip()))
    finally:
        os.close(root)


def _commit(root: int, git: str, head: str) -> str | None:
    """The commit that HEAD names, by itself or through a branch."""
    branch = _BRANCH.fullmatch(head)
    if branch is None or ".." in head:
        return _hash(head)
    loose = _read(root, f"{git}/{branch[1]}", _SMALL)
    if loose is not None:
        return _hash(loose.strip())
    packed = (line.split() for line in (_read(root, f"{git}/packed-refs", _LARGE) or "").splitlines())
    return next((_hash(words[0]) for words in packed if words[1:] == [branch[1]]), None)


def _origin(config: str) -> str | None:
    within = False
    for line in config.splitlines():
        if section := _SECTION.fullmatch(line):
            within = _ORIGIN.fullmatch(section[1].strip()) is not None
        elif within and (url := _URL.fullmatch(line)):
            return url[1]
    return None


def _hash(text: str) -> str | None:
    return text if _COMMIT.fullmatch(text) else None


def _read(root: int, path: str, cap: int) -> str | None:
    try:
        return read_regular(root, path, cap).decode("utf-8", "replace")
    except OSError:
        return None
