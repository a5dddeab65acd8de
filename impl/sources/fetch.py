"""Bringing a source in: a folder is copied, a repository cloned, and both give the same bytes."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from impl.sources.git import clone, head_commit, head_has_files
from impl.sources.licence import is_licence_file
from impl.sources.refs import parse_reference
from impl.sources.tree import SourceFile, list_tree, read_bytes, words
from impl.sources.values import SourceError

SCRATCH = ".clone-"
"""How the directory that a clone is made in begins, beside where it goes."""
_LFS = b"version https://git-lfs.github.com/spec/v1"
_LFS_SIZE = 1024
_MEDIA = words(
    ".png .jpg .jpeg .gif .webp .svg .ico .bmp .tif .tiff .mp4 .mov .webm .mp3 .wav .ogg .pdf .psd .ttf .otf"
    " .woff .woff2 .zip .gz"
)


@dataclass(frozen=True, slots=True)
class Caps:
    """What a source may bring. A single file over `file_bytes` is left out with a note; more `files` or
    `bytes` in all is `too_large`. `seconds` bounds a clone."""

    files: int = 20_000
    bytes: int = 200_000_000
    file_bytes: int = 20_000_000
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """A source brought in: an absolute `path` or a `url`, by `kind`; `commit` is a full hash or None."""

    ref: str
    kind: Literal["path", "git"]
    path: str | None
    url: str | None
    commit: str | None
    files: int
    bytes: int
    notes: tuple[str, ...] = ()


async def fetch_source(
    ref: str, dest: Path, *, caps: Caps | None = None, progress: Callable[[str], None] | None = None
) -> Fetched:
    """Bring the source `ref` into the empty or absent directory `dest`.

    A local path is copied as it is (uncommitted changes too), a single file with the licence files beside it, a
    SKILL.md with its whole directory; `https://` and `file://` addresses are cloned, newest commit only. All
    go through the same filter: `.gitignore` at every level, no symbolic links, no environments or caches,
    files 0644 or 0755. `progress` gets lines of text on the event loop. Nothing of the source runs. Raises
    SourceError; `dest` is then left as it was found.
    """
    caps = caps or Caps()
    reference = parse_reference(ref)
    if dest.exists() and any(dest.iterdir()):
        raise SourceError("not_readable", f"{dest} is not empty.", "Fetch into an empty directory.")
    if reference.path is not None and not _is_bare(reference.path):
        files, size, notes = await _copy(reference.path, dest, caps, (), progress)
        commit = await asyncio.to_thread(_commit_of, reference.path)
        return Fetched(ref, "path", str(reference.path), None, commit, files, size, tuple(notes))
    url = reference.url or f"file://{reference.path}"
    dest.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=dest.parent, ignore_cleanup_errors=True) as scratch:
        tree, commit, links, notes = await clone(
            url, Path(scratch), seconds=caps.seconds, max_bytes=4 * caps.bytes, progress=progress
        )
        files, size, more = await _copy(tree, dest, caps, links, progress)
    return Fetched(ref, "git", None, url, commit, files, size, (*notes, *more))


def _is_bare(path: Path) -> bool:
    """Whether a folder is a repository without files of its own (`git init --bare`); no where it may not be entered."""
    return os.path.isfile(path / "HEAD") and os.path.isdir(path / "objects") and os.path.isdir(path / "refs")


def _commit_of(path: Path) -> str | None:
    return head_commit(path) if os.path.exists(path / ".git") else None


async def _copy(
    source: Path, dest: Path, caps: Caps, links: Collection[str], progress: Callable[[str], None] | None
) -> tuple[int, int, list[str]]:
    """Copy in a thread that stops at its next file once this task is cancelled."""
    stop = threading.Event()
    loop = asyncio.get_running_loop()

    def report(text: str) -> None:
        if progress is not None:
            loop.call_soon_threadsafe(progress, text)

    copying = asyncio.ensure_future(asyncio.to_thread(copy_tree, source, dest, caps, links, stop, report))
    try:
        return await asyncio.shield(copying)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({copying})
        copying.exception()  # taken, or asyncio would print it as lost
        raise


class _Stopped(Exception):
    """The task that wanted the copy was cancelled."""


def copy_tree(
    source: Path,
    dest: Path,
    caps: Caps,
    skip: Collection[str] = (),
    stop: threading.Event | None = None,
    report: Callable[[str], None] | None = None,
) -> tuple[int, int, list[str]]:
    """Copy what counts of `source` to `dest`. Returns (files, bytes, notes). Raises SourceError."""
    made = not dest.exists()
    try:
        chosen, notes = _choose(source, caps, skip)
        dest.mkdir(parents=True, exist_ok=True)
        count, size = _copy_files(chosen, dest, notes, caps, stop, report)
        if count == 0:
            raise SourceError("not_readable", f"{source} cannot be read: Permission denied.", "Check its permissions.")
        return count, size, notes
    except (SourceError, OSError, _Stopped):
        _clear(dest, made)
        raise


def _clear(dest: Path, made: bool) -> None:
    if made:
        shutil.rmtree(dest, ignore_errors=True)
        return
    for child in dest.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)


def _choose(source: Path, caps: Caps, skip: Collection[str]) -> tuple[list[tuple[Path, SourceFile]], list[str]]:
    if source.exists() and not source.is_file() and not source.is_dir():
        raise SourceError("not_readable", f"{source} is neither a folder nor a file.", "Name another source.")
    if source.is_file():
        info = source.stat()
        one = SourceFile(source.name, info.st_size, bool(info.st_mode & 0o100))
        if one.size > caps.file_bytes:
            raise _too_large(f"{source} has {one.size / 1e6:,.0f} MB")
        return [(source, one), *_licences_beside(source, caps)], []
    try:
        listing = list_tree(source, skip=skip)
    except FileNotFoundError as error:
        raise SourceError("not_found", f"There is nothing at {source}.", "Check the path.") from error
    except OSError as error:
        raise SourceError(
            "not_readable", f"{source} cannot be read: {error.strerror}.", "Check its permissions."
        ) from error
    notes = listing.notes
    fitting = [file for file in listing.files if file.size <= caps.file_bytes]
    notes += [
        f"{file.path}: {file.size / 1e6:,.1f} MB, larger than {caps.file_bytes / 1e6:,.0f} MB, left out"
        for file in listing.files
        if file.size > caps.file_bytes
    ]
    if len(fitting) > caps.files:
        raise _too_large(f"{source} has {len(fitting):,} files, more than {caps.files:,}")
    total = sum(file.size for file in fitting)
    if total > caps.bytes:
        raise _too_large(f"{source} has {total / 1e6:,.0f} MB, more than {caps.bytes / 1e6:,.0f}")
    chosen = _without_pointers(source, fitting, notes)
    if not chosen:
        raise _nothing(source, notes)
    return [(source / file.path, file) for file in chosen], notes


def _licences_beside(source: Path, caps: Caps) -> list[tuple[Path, SourceFile]]:
    """The licence files in the directory of a single file: they say what may be done with it."""
    found = []
    for path in sorted(source.parent.iterdir()) if os.access(source.parent, os.R_OK) else ():
        if path != source and is_licence_file(path.name) and path.is_file() and not path.is_symlink():
            size = path.stat().st_size
            found += [(path, SourceFile(path.name, size, False))] if size <= caps.file_bytes else []
    return found


def _too_large(what: str) -> SourceError:
    return SourceError("too_large", f"{what}.", "Give the folder inside it that matters.")


def _without_pointers(source: Path, files: list[SourceFile], notes: list[str]) -> list[SourceFile]:
    """Files that are only Git LFS pointers are missing blobs; of pictures and the like that does not matter."""
    kept: list[SourceFile] = []
    missing: list[str] = []
    for file in files:
        pointer = 100 < file.size < _LFS_SIZE and (read_bytes(source / file.path, len(_LFS)) or b"") == _LFS
        if not pointer:
            kept.append(file)
        elif os.path.splitext(file.path)[1].lower() in _MEDIA:
            notes.append(f"{file.path}: a Git LFS pointer, its content is not here, left out")
        else:
            missing.append(file.path)
    if missing:
        raise SourceError(
            "blobs_missing",
            f"{len(missing)} file(s) are Git LFS pointers without their content: {', '.join(missing[:3])}.",
            "Fetch the content (`git lfs pull` in a clone of it) and give that folder.",
        )
    return kept


def _nothing(source: Path, notes: list[str]) -> SourceError:
    if (source / ".git").exists() and head_commit(source) is not None and head_has_files(source):
        return SourceError(
            "blobs_missing",
            f"{source} has commits, but none of their files are checked out.",
            "Run `git checkout HEAD -- .` there, or clone it anew.",
        )
    said = f" ({'; '.join(notes[:3])})" if notes else ""
    return SourceError("empty", f"It holds no files that count{said}.", "Name another source.")


def _copy_files(
    chosen: list[tuple[Path, SourceFile]],
    dest: Path,
    notes: list[str],
    caps: Caps,
    stop: threading.Event | None,
    report: Callable[[str], None] | None,
) -> tuple[int, int]:
    """Copy the chosen files, those that cannot be read left out with a note. Returns (files, bytes)."""
    copied = total = 0
    for count, (path, file) in enumerate(chosen, 1):
        if stop is not None and stop.is_set():
            raise _Stopped
        if report is not None and count % 500 == 0:
            report(f"{count} of {len(chosen)} files")
        data = read_bytes(path, caps.file_bytes + 1)
        if data is None or len(data) > caps.file_bytes:
            notes.append(f"{file.path}: could not be read, left out")
            continue
        copied += 1
        total += len(data)
        target = dest / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o755 if file.x else 0o644)
    for directory, _, _ in os.walk(dest):
        os.chmod(directory, 0o755)
    return copied, total
