"""A bundle's files as a canonical list: survey, digest, and materialising a stored one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from core.bundle.problems import Problem, ProblemCode
from core.ports import StoreError, TreeEntry

IGNORED_NAMES = frozenset({".git", "__pycache__", ".DS_Store"})
MAX_DEPTH = 64
_DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: a pipe that took a file's place between listing and opening must not hang us.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CHUNK = 1 << 20
_UNPLAIN = re.compile(r"[\\\x00-\x1f\x7f-\x9f]")  # elsewhere another path, in a listing another line


class UnsafeTree(Exception):
    """The tree cannot be a bundle's; `problems` says why, one per offending path."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{p.path}: {p.message}" for p in problems[:5]))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Caps:
    """How large a tree may be: bytes of one file, bytes of all, number of files."""

    file: int = 20_000_000
    total: int = 200_000_000
    files: int = 20_000


BUNDLE_CAPS = Caps()


@dataclass(slots=True)
class Survey:
    """What a directory holds: `entries` sorted, every problem met, and `disk`, the name on disk of those
    entries whose path is not in NFC there. Entries with a problem of their own are left out."""

    entries: list[TreeEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    disk: dict[str, str] = field(default_factory=dict)


def digest_entries(entries: Iterable[TreeEntry]) -> str:
    """`sha256:` + hex SHA-256 over the RFC 8785 JSON of the entries, sorted by path.

    Code points sort like their UTF-8 bytes, and for rows of this shape (no floats, keys in order) the
    standard encoder writes exactly the bytes RFC 8785 asks for; a property test holds both.
    """
    rows = [
        {"path": e.path, "sha256": e.sha256, "size": e.size, "x": e.x} for e in sorted(entries, key=lambda e: e.path)
    ]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def digest_tree(path: str | os.PathLike[str]) -> str:
    """The digest of the directory `path`, which is what names a revision.

    The published test vector: a directory with `agent.yaml` holding `schema: artificer/v1\\nname: vector\\n`,
    `persona.md` holding `You are a test vector.\\n`, an executable `skills/café/run.sh` holding
    `#!/bin/sh\\necho ok\\n` and an empty `corpus/` has the digest
    `sha256:b977b9fbbc5bd25ae66bc5e10c9228d748d69b073657bf71582883672643a973`.

    Raises NotADirectoryError, or UnsafeTree with every problem found.
    """
    return digest_entries(scan_tree(path))


def scan_tree(path: str | os.PathLike[str], caps: Caps | None = None) -> tuple[TreeEntry, ...]:
    """The files of the directory `path` in canonical order.

    Raises NotADirectoryError, or UnsafeTree with every problem found.
    """
    survey = survey_tree(path, caps)
    if survey.problems:
        raise UnsafeTree(survey.problems)
    return tuple(survey.entries)


def survey_tree(path: str | os.PathLike[str], caps: Caps | None = None) -> Survey:
    """Everything in the directory `path`, good and bad; symbolic links are never followed.

    Without `caps` there is no limit of size. Raises NotADirectoryError where `path` is no directory.
    """
    root = open_directory(path)
    walk = _Walk(caps)
    try:
        walk.directory(root, "", "", 0)
    finally:
        os.close(root)
    walk.finish()
    return walk.survey


def open_directory(path: str | os.PathLike[str]) -> int:
    """A descriptor of the directory `path`. Raises NotADirectoryError where it is none, or absent."""
    try:
        return os.open(path, _DIR_FLAGS)
    except FileNotFoundError as error:
        raise NotADirectoryError(errno.ENOTDIR, "no such directory", os.fspath(path)) from error


def read_regular(root: int, path: str, cap: int) -> bytes:
    """The first `cap` bytes of the regular file `path` under the directory descriptor `root`.

    No component may be a symbolic link. Raises OSError (IsADirectoryError for a directory).
    """
    *parents, name = path.split("/")
    opened: list[int] = []
    at = root
    try:
        for part in parents:
            at = os.open(part, _DIR_FLAGS | os.O_NOFOLLOW, dir_fd=at)
            opened.append(at)
        fd = os.open(name, _FILE_FLAGS, dir_fd=at)
        opened.append(fd)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise IsADirectoryError(errno.EISDIR, "not a regular file", path)
        with open(fd, "rb", closefd=False) as file:
            return file.read(cap)
    finally:
        for fd in reversed(opened):
            os.close(fd)


def fold(name: str) -> str:
    """What a file system that ignores case and Unicode form takes `name` for."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class _Walk:
    """One survey in progress: a depth-first walk that holds a descriptor per level."""

    def __init__(self, caps: Caps | None) -> None:
        self.survey = Survey()
        self.caps = caps
        self.total = 0
        self.seen = 0
        self.full = False
        # (device, inode) -> [link count, names seen in the tree, first path]
        self.links: dict[tuple[int, int], list[int | str]] = {}

    def problem(self, code: ProblemCode, path: str, message: str, hint: str = "") -> None:
        self.survey.problems.append(Problem(code, path, message, hint))

    def directory(self, fd: int, prefix: str, disk: str, depth: int) -> int:
        """Take in one directory; how many files lie under it. `prefix` and `disk` are "" or end in "/"."""
        count = 0
        folded: dict[str, str] = {}
        try:
            with os.scandir(fd) as listing:
                found = [(e.name, _kind(e)) for e in listing]
        except OSError as error:
            self.problem(ProblemCode.UNREADABLE, prefix.rstrip("/") or ".", f"cannot be listed: {error.strerror}")
            return 0
        found.sort()
        for name, kind in found:
            if self.full:
                break
            if name in IGNORED_NAMES or name.endswith(".pyc"):
                continue
            if _UNPLAIN.search(name):
                message = "the file name holds a backslash or a control character"
                self.problem(ProblemCode.BAD_PATH, ascii(prefix + name)[1:-1], message, "Rename it.")
                continue
            if name.isascii():
                nfc = name
            else:
                nfc = unicodedata.normalize("NFC", name)
                if not _is_unicode(name):
                    shown = prefix + name.encode("utf-8", "backslashreplace").decode()
                    self.problem(ProblemCode.BAD_PATH, shown, "the file name is not valid Unicode", "Rename it.")
                    continue
            path = prefix + nfc
            match kind:
                case "file":
                    under = self.file(fd, name, path, disk)
                case "directory":
                    under = self.subdirectory(fd, name, path, disk, depth)
                case "link":
                    under = self.link(path)
                case "special":
                    under = self.special(path)
            if under:
                count += under
                self.clash(folded, nfc, path)
        return count

    def clash(self, folded: dict[str, str], name: str, path: str) -> None:
        """Note a name that a file system without case could not keep apart from a sibling's."""
        key = name.lower() if name.isascii() else fold(name)
        if key in folded:
            message = f"differs from {folded[key]} by case or Unicode form alone"
            self.problem(ProblemCode.CASE_CLASH, path, message, "Rename one of them.")
        folded.setdefault(key, path)

    def subdirectory(self, fd: int, name: str, path: str, disk: str, depth: int) -> int:
        if depth + 1 >= MAX_DEPTH:
            self.problem(ProblemCode.TOO_DEEP, path, f"directories nest deeper than {MAX_DEPTH}")
            return 0
        try:
            child = os.open(name, _DIR_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
        except OSError as error:
            self.unreadable(path, error)
            return 0
        try:
            return self.directory(child, path + "/", disk + name + "/", depth + 1)
        finally:
            os.close(child)

    def file(self, fd: int, name: str, path: str, disk: str) -> int:
        """Take in one file; 1 where it is an entry or holds the place of one, else 0."""
        try:
            handle = os.open(name, _FILE_FLAGS, dir_fd=fd)
        except OSError as error:
            self.unopened(fd, name, path, error)
            return 0
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                return self.special(path)
            if self.caps is not None and self.over(path, info.st_size, self.caps):
                return 1
            sha256, size = _hash(handle, info.st_size)
            if size > info.st_size:
                hint = "Try again when nothing writes to it."
                self.problem(ProblemCode.UNREADABLE, path, "grows while it is read", hint)
                return 1
        except OSError as error:
            self.unreadable(path, error)
            return 0
        finally:
            os.close(handle)
        if info.st_nlink > 1:
            link = self.links.setdefault((info.st_dev, info.st_ino), [info.st_nlink, 0, path])
            link[1] = int(link[1]) + 1
        self.survey.entries.append(TreeEntry(path, sha256, size, bool(info.st_mode & 0o100)))
        if disk + name != path:
            self.survey.disk[path] = disk + name
        return 1

    def over(self, path: str, size: int, caps: Caps) -> bool:
        """Whether the file goes past a cap; the walk ends where the whole tree does."""
        self.seen += 1
        if self.seen > caps.files:
            self.full = True
            self.problem(ProblemCode.TOO_MANY_FILES, ".", f"more than {caps.files:,} files")
            return True
        if size > caps.file:
            hint = "Leave it out, or split it."
            self.problem(ProblemCode.FILE_TOO_LARGE, path, f"{size:,} bytes; at most {caps.file:,}", hint)
            return True
        self.total += size
        if self.total > caps.total:
            self.full = True
            self.problem(ProblemCode.BUNDLE_TOO_LARGE, ".", f"more than {caps.total:,} bytes in all")
            return True
        return False

    def unopened(self, fd: int, name: str, path: str, error: OSError) -> None:
        """Say why a file would not open: it may be a link or a socket rather than unreadable."""
        try:
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
        except OSError:
            self.unreadable(path, error)
            return
        if stat.S_ISLNK(mode):
            self.link(path)
        elif not stat.S_ISREG(mode):
            self.special(path)
        else:
            self.unreadable(path, error)

    def link(self, path: str) -> int:
        hint = "Replace it by a copy of what it names."
        self.problem(ProblemCode.SYMLINK, path, "is a symbolic link", hint)
        return 0

    def special(self, path: str) -> int:
        self.problem(ProblemCode.SPECIAL_FILE, path, "is neither a file nor a directory", "Remove it.")
        return 0

    def unreadable(self, path: str, error: OSError) -> None:
        self.problem(ProblemCode.UNREADABLE, path, f"cannot be read: {error.strerror}", "Make it readable.")

    def finish(self) -> None:
        for count, seen, path in self.links.values():
            if int(count) > int(seen):
                self.problem(
                    ProblemCode.HARD_LINK,
                    str(path),
                    "has another name outside this directory",
                    "Replace it by a copy.",
                )
        self.survey.entries.sort(key=lambda e: e.path)
        self.survey.problems.sort(key=lambda p: (p.path, p.code))


def _kind(entry: os.DirEntry[str]) -> Literal["file", "directory", "link", "special"]:
    """What a directory entry is, without opening it: opening a device can do something."""
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "link" if entry.is_symlink() else "special"


def _is_unicode(name: str) -> bool:
    """False for a name with bytes that are not UTF-8 (Python keeps them as lone surrogates)."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _hash(handle: int, expected: int) -> tuple[str, int]:
    """Hex SHA-256 and length of the file. One byte more than expected is asked for, so that the short read
    which ends a regular file is also the only one a small file costs. One that grows meanwhile is not followed."""
    want = min(expected + 1, _CHUNK)
    data = os.read(handle, want)
    digest = hashlib.sha256(data)
    size = len(data)
    while len(data) == want and size <= expected:
        want = _CHUNK
        data = os.read(handle, want)
        digest.update(data)
        size += len(data)
    return digest.hexdigest(), size


def check_entries(entries: Sequence[TreeEntry]) -> list[Problem]:
    """What is wrong with a stored list of files: paths that are not plain, and clashes."""
    problems: list[Problem] = []
    names: dict[str, str] = {}
    files: set[str] = set()
    for entry in sorted(entries, key=lambda e: e.path):
        parts = entry.path.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            problems.append(Problem(ProblemCode.PATH_OUTSIDE, entry.path, "is not a plain relative path"))
            continue
        if not _is_unicode(entry.path) or unicodedata.normalize("NFC", entry.path) != entry.path:
            problems.append(Problem(ProblemCode.BAD_PATH, ascii(entry.path), "is not Unicode in form NFC"))
            continue
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            other = names.setdefault(fold(path), path)
            if other != path or path in files:
                message = f"cannot stand beside {other}"
                problems.append(Problem(ProblemCode.CASE_CLASH, entry.path, message))
                break
        else:
            files.add(entry.path)
    return problems


def write_tree(entries: Sequence[TreeEntry], read_blob: Callable[[str], bytes], dest: str | os.PathLike[str]) -> None:
    """Write the files of a stored tree to the directory `dest`, which is absent or empty.

    All is written beside `dest` first and then moved in, so what has its final name is whole. Raises
    FileExistsError where `dest` holds anything, UnsafeTree for paths no bundle may have, and StoreError
    `damaged` where a blob is not what its entry says.
    """
    problems = check_entries(entries)
    if problems:
        raise UnsafeTree(problems)
    target = Path(dest)
    exists = os.path.lexists(target)
    if exists and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(errno.EEXIST, "not an empty directory", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    try:
        _write_files(entries, read_blob, partial)
        if exists:
            # Kept rather than replaced: it may be a mount, or somebody's working directory.
            for child in sorted(partial.iterdir(), key=lambda p: p.name == "agent.yaml"):
                child.rename(target / child.name)
            partial.rmdir()
        else:
            partial.chmod(0o777 & ~_umask())
            partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _write_files(entries: Sequence[TreeEntry], read_blob: Callable[[str], bytes], root: Path) -> None:
    made = {""}
    base = str(root)
    for entry in entries:
        data = read_blob(entry.sha256)
        if len(data) != entry.size or hashlib.sha256(data).hexdigest() != entry.sha256:
            hint = "Run `artificer doctor`; the revision has to be built or imported again."
            raise StoreError("damaged", f"the stored content of {entry.path} is damaged", hint)
        parent = entry.path.rpartition("/")[0]
        if parent not in made:
            os.makedirs(f"{base}/{parent}", exist_ok=True)
            made.add(parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        handle = os.open(f"{base}/{entry.path}", flags, 0o777 if entry.x else 0o666)
        with open(handle, "wb") as file:
            file.write(data)


def _umask() -> int:
    """The process's umask, read by making a directory: setting it to read it races other threads."""
    with tempfile.TemporaryDirectory() as scratch:
        probe = os.path.join(scratch, "probe")
        os.mkdir(probe)
        return 0o777 & ~stat.S_IMODE(os.stat(probe).st_mode)
