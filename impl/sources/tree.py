"""A source tree: which files of a directory count by the ignore rules, and their text."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from impl.sources.frontmatter import FrontMatter, split_front_matter

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORED_DIRECTORIES = frozenset(
    {".git", ".hg", ".svn", ".jj", "node_modules", "bower_components", ".venv", "venv", ".virtualenv"}
    | {"__pycache__", "dist", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}
    | {".cache", ".parcel-cache", ".turbo", ".next", ".nuxt", ".svelte-kit", ".gradle", ".terraform", ".eggs"}
    | {"site-packages", ".ipynb_checkpoints", ".direnv", ".idea", ".bundle"}
)
"""Names of directories that never count, wherever they lie: version control, environments, caches, output."""

IGNORED_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", ".git"})
_IGNORED_SUFFIXES = (".pyc", ".pyo")
_STORE = "artificer.db"  # a home in a source would bring every earlier build's copy of it
_CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"

NOT_OWN = frozenset(
    {"tests", "test", "__tests__", "testdata", "examples", "example", "fixtures", "fixture"}
    | {"samples", "sample", "vendor", "vendored", "third_party", "third-party", "thirdparty", "external"}
    | {"template", "templates", "benchmarks", "demo", "demos"}
)
"""Names of directories whose content is not what a repository offers: its tests, examples, others' code."""

READ_LIMIT = 1_000_000


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file that counts: POSIX `path` from the root, `size` in bytes, `x` the owner's execute bit."""

    path: str
    size: int
    x: bool


@dataclass(slots=True)
class Listing:
    """The files that count, sorted by path, and notes on what was left out though nothing ignores it."""

    files: list[SourceFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def list_tree(root: Path, *, skip: Collection[str] = ()) -> Listing:
    """List what counts under `root`: `.gitignore` at every level holds whether or not it is a repository,
    symlinks are never followed, other file kinds are left out. `skip` are paths to leave out with a note
    (links that a checkout wrote as plain files). Raises OSError where `root` itself cannot be read."""
    listing = Listing()
    os.scandir(root).close()
    _walk(root, "", [], set(skip), listing)
    listing.files.sort(key=lambda file: file.path.encode())
    return listing


def _walk(
    directory: Path, prefix: str, specs: list[tuple[str, GitIgnoreSpec]], skip: set[str], listing: Listing
) -> None:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        listing.notes.append(f"{prefix.rstrip('/')}: not readable ({error.strerror}), left out")
        return
    own = _read_ignore(directory / ".gitignore")
    if own is not None:
        specs = [*specs, (prefix, own)]
    for entry in entries:
        path = prefix + entry.name
        if not _is_text_name(entry.name):
            listing.notes.append(f"{path!a}: its name is not plain UTF-8, left out")
            continue
        info = entry.stat(follow_symlinks=False)
        is_directory = stat.S_ISDIR(info.st_mode)
        if _always_ignored(entry.name, is_directory) or _ignored(path, is_directory, specs):
            continue
        if stat.S_ISLNK(info.st_mode) or path in skip:
            listing.notes.append(f"{path}: a symbolic link, not followed, left out")
        elif is_directory:
            if (directory / entry.name / _STORE).is_file():
                listing.notes.append(f"{path}: Artificer's own home, left out")
            elif not _is_cache(directory / entry.name):
                _walk(directory / entry.name, path + "/", specs, skip, listing)
        elif stat.S_ISREG(info.st_mode):
            listing.files.append(SourceFile(path, info.st_size, bool(info.st_mode & stat.S_IXUSR)))
        else:
            listing.notes.append(f"{path}: not a regular file, left out")


def _is_text_name(name: str) -> bool:
    """Whether a bundle may have a file of this name: UTF-8 without backslashes and control characters."""
    if "\\" in name or any(ord(char) < 32 or 127 <= ord(char) < 160 for char in name):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _always_ignored(name: str, is_directory: bool) -> bool:
    if is_directory:
        return name in IGNORED_DIRECTORIES or name.endswith(".egg-info")
    return name in IGNORED_FILES or name.endswith(_IGNORED_SUFFIXES)


def _is_cache(directory: Path) -> bool:
    """Whether the directory calls itself a cache (the cache directory tagging convention)."""
    return (read_bytes(directory / "CACHEDIR.TAG", len(_CACHE_TAG)) or b"") == _CACHE_TAG


def _ignored(path: str, is_directory: bool, specs: list[tuple[str, GitIgnoreSpec]]) -> bool:
    """Git's rule: the deepest `.gitignore` with a matching line decides, its last matching line first."""
    for prefix, spec in reversed(specs):
        result = spec.check_file(path[len(prefix) :] + ("/" if is_directory else ""))
        if result.include is not None:
            return bool(result.include)
    return False


def _read_ignore(path: Path) -> GitIgnoreSpec | None:
    data = read_bytes(path, READ_LIMIT)
    if not data:
        return None
    from pathspec import GitIgnoreSpec

    lines = data.decode("utf-8", errors="replace").removeprefix("\ufeff").splitlines()
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def read_bytes(path: Path, limit: int) -> bytes | None:
    """At most `limit` bytes of a regular file; None where it is absent, a link, not a file or unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(limit)


def decode(data: bytes) -> tuple[str, str] | None:
    """Text and the encoding it was in (`utf-8`, `utf-16`, `utf-32`, `cp1252`, `latin-1`); None for binary data."""
    for mark, encoding in (
        (b"\xff\xfe\x00\x00", "utf-32"),
        (b"\x00\x00\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark):
            try:
                return data.decode(encoding), encoding
            except UnicodeDecodeError:
                return None
    if b"\0" in data:
        return None
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        if data.translate(None, _CONTROL) != data:
            return None
    try:
        return data.decode("cp1252"), "cp1252"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


_CONTROL = bytes(set(range(0x20)) - set(b"\t\n\v\f\r\x1b"))


class SourceTree:
    """The files of a source that count, with their text read on demand."""

    def __init__(self, root: Path) -> None:
        """List `root`; raises OSError where it cannot be read."""
        listing = list_tree(root)
        self.root = root
        self.files: dict[str, SourceFile] = {file.path: file for file in listing.files}
        self._sorted = sorted(self.files)
        self.notes = tuple(listing.notes)
        self._texts: dict[str, str | None] = {}
        self._matters: dict[str, FrontMatter] = {}

    def bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """The file's first `limit` bytes; empty where it cannot be read."""
        return read_bytes(self.root / path, limit) or b""

    def text(self, path: str) -> str | None:
        """The file's text up to `READ_LIMIT` bytes, None where it is binary or not there."""
        if path not in self._texts:
            decoded = decode(_whole(self.bytes(path))) if path in self.files else None
            self._texts[path] = decoded[0].removeprefix("\ufeff") if decoded else None
        return self._texts[path]

    def matter(self, path: str) -> FrontMatter:
        """The front matter and body of a text file; an empty one where it is binary or not there."""
        if path not in self._matters:
            self._matters[path] = split_front_matter(self.text(path) or "")
        return self._matters[path]

    def under(self, directory: str) -> Iterator[SourceFile]:
        """The files below `directory` ("." is the root)."""
        prefix = "" if directory == "." else directory + "/"
        within = takewhile(lambda path: path.startswith(prefix), self._sorted[bisect_left(self._sorted, prefix) :])
        return (self.files[path] for path in within)


def _whole(data: bytes) -> bytes:
    """Drop a UTF-8 sequence that the read limit cut in half."""
    return data if len(data) < READ_LIMIT else data[: data.rfind(b"\n") + 1] or data


def directories(path: str) -> tuple[str, ...]:
    """The names of the directories above a file or directory, outermost first."""
    return PurePosixPath(path).parts[:-1]


def is_own(path: str) -> bool:
    """Whether a path is outside tests, examples and other people's code."""
    return not any(part.lower() in NOT_OWN for part in directories(path))


def is_hidden(path: str) -> bool:
    """Whether a path lies in a directory whose name begins with a dot."""
    return any(part.startswith(".") for part in directories(path))
