"""What a cell left in its workspaces, on its way back to where the cell is recorded."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from impl.engines.dask.line import Line
from impl.engines.dask.mirror import Mirror

MAX_FILES: Final = 5_000
MAX_BYTES: Final = 200_000_000
MAX_DEPTH: Final = 100
"""Directories in directories; deeper ones are left."""
CHUNK: Final = 1_000_000
_UNHEARD: Final = 8
"""Chunks that may be under way."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Errors that are the disk's, not those of a name an agent chose."""


class TooMuch(Exception):
    """More was left than is brought back."""


async def send_workspaces(home: Path, store: Mirror, line: Line) -> None:
    """Send the files of all workspaces below `home`. Of one that holds too much, what came so far is sent, and its
    session says so."""
    for work in sorted((home / "workspaces").glob("*/work")):
        session = work.parent.name
        try:
            rows = _rows(session, work)
            for number in range(MAX_BYTES):
                row = await asyncio.to_thread(next, rows, None)
                if row is None:
                    break
                line.say(*row)
                if number % _UNHEARD == _UNHEARD - 1:
                    await line.heard()
        except TooMuch:
            text = (
                f"Its workspace holds more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB: the rest was left."
            )
            store.append(session, [("notice", {"text": text})])


def _rows(session: str, work: Path) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """Directories and files first, links last: nothing is ever written through one. Raises TooMuch."""
    links: list[list[str]] = []
    count = size = 0
    for directory, directories, files in os.walk(work):
        if len(Path(directory).parts) - len(work.parts) >= MAX_DEPTH:
            directories.clear()
        for name in (*directories, *files):
            path = Path(directory, name)
            inside = path.relative_to(work).as_posix()
            mode = path.lstat().st_mode
            count += 1
            if count > MAX_FILES:
                raise TooMuch
            if stat.S_ISLNK(mode):
                links.append([session, inside, os.readlink(path)])
            elif stat.S_ISDIR(mode):
                yield {"directory": [session, inside]}, b""
            elif stat.S_ISREG(mode):
                for offset, data in _chunks(path):
                    size += len(data)
                    if size > MAX_BYTES:
                        raise TooMuch
                    yield {"file": [session, inside, bool(mode & 0o111), offset]}, data
    for link in links:
        yield {"link": link}, b""


def _chunks(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        handle = os.open(path, _READ)
    except OSError:
        return  # one its agent made unreadable
    offset = 0
    with open(handle, "rb") as file:
        while (data := file.read(CHUNK)) or offset == 0:
            yield offset, data
            if not data:
                return
            offset += len(data)


def take_row(row: Mapping[str, Any], data: bytes, work: Path) -> None:
    """Write one row's directory, file or link below `work`, where nothing else writes. What it names outside of it is
    left out, and so is what cannot be written for its own sake. Raises OSError where nothing can be."""
    (kind,) = row
    inside = str(row[kind][1])
    parts = inside.split("/")
    if len(parts) > MAX_DEPTH + 1 or any(part in ("", ".", "..") or "\0" in part for part in parts):
        return
    path = work.joinpath(*parts)
    if any(work.joinpath(*parts[:depth]).is_symlink() for depth in range(len(parts))):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "directory":
                path.mkdir(exist_ok=True)
            case "link":
                path.symlink_to(str(row[kind][2]))
            case "file":
                executable, offset = bool(row[kind][2]), int(row[kind][3])
                handle = os.open(path, _WRITE | (os.O_TRUNC if offset == 0 else 0), 0o755 if executable else 0o644)
                with open(handle, "wb") as file:
                    file.seek(offset)
                    file.write(data)
    except OSError as error:
        if error.errno in _OURS:
            raise
