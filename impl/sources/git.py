"""Git as a reader of sources: the commit a folder is at, and a clone that runs nothing of the repository."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from impl.sources.values import SourceError

_PASSED = ("PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
_SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.symlinks=false"),
    *("-c", "core.autocrlf=false"),
    *("-c", "core.eol=lf"),
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "credential.helper="),
    *("-c", "submodule.recurse=false"),
    *("-c", "protocol.allow=never"),
    *("-c", "gc.auto=0"),
    *("-c", "advice.detachedHead=false"),
)
_MISSING = re.compile(
    r"missing (?:blob|tree|commit|object)|unable to read|could not read [0-9a-f]{7}|repository corruption"
    r"|did not send all necessary objects|bad (?:tree )?object|not our ref|unable to find [0-9a-f]{7}"
    r"|object file .* is empty|lazy fetching disabled|promisor remote|invalid object|loose object",
    re.IGNORECASE,
)
_LONGEST_OUTPUT = 50_000_000
"""Bytes that one git command may print: trees that hold each other list as many files as anybody likes."""
_FOREIGN = "dubious ownership"
_NO_HOST = re.compile(r"could not resolve (?:host|proxy): ([^\s'\"]+)", re.IGNORECASE)
_NOT_THERE = re.compile(
    r"repository .* not found|not found|does not exist|does not appear to be a git repository"
    r"|no such file|invalid gitfile|could not read username|authentication failed",
    re.IGNORECASE,
)


def safe_environment(home: Path, protocol: str = "none") -> dict[str, str]:
    """An environment in which git asks nothing, reads no configuration of the machine's or the person's, and
    speaks only `protocol`. `home` is an empty directory (no `.netrc` there)."""
    kept = {key: os.environ[key] for key in (*_PASSED, *_PROXIES) if key in os.environ}
    return kept | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }


def head_commit(repository: Path) -> str | None:
    """The commit that `HEAD` of a repository's top (or git directory) names; None without one or without git."""
    text = (
        (_ask(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") or b"")
        .decode("ascii", "replace")
        .strip()
    )
    return text if re.fullmatch(r"[0-9a-f]{40,64}", text) else None


def head_has_files(repository: Path) -> bool:
    """Whether the commit that `HEAD` names has files or folders (links and submodules are none), or cannot say."""
    listed = _ask(repository, "ls-tree", "-z", "HEAD")
    return listed is None or any(entry.startswith((b"100", b"040")) for entry in listed.split(b"\0"))


def _ask(repository: Path, *arguments: str) -> bytes | None:
    """What git says of a repository where it lies; None where it fails or is not installed."""
    command = ["git", *_SAFE, "-c", "safe.directory=*", *arguments]
    environment = safe_environment(Path("/nonexistent")) | {"GIT_CEILING_DIRECTORIES": str(repository.parent)}
    try:
        done = subprocess.run(
            command,
            cwd=repository,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


async def clone(
    url: str, scratch: Path, *, seconds: float, max_bytes: int, progress: Callable[[str], None] | None
) -> tuple[Path, str | None, list[str], list[str]]:
    """Clone the newest commit of `url` below the empty directory `scratch`, `.git` apart from the files.

    Returns (directory of the files, commit or None where there is none, paths that are symbolic links there,
    notes). Raises SourceError. Runs no hook, filter or submodule of the repository.
    """
    git_dir, tree = scratch / "git", scratch / "tree"
    tree.mkdir()
    runner = _Runner(url, scratch, git_dir, seconds, max_bytes, progress)
    await runner.run(
        *("clone", "--bare", "--depth", "1", "--single-branch", "--no-tags", "--template=", "--progress"),
        *("--no-recurse-submodules", "--", url, str(git_dir)),
    )
    commit = await asyncio.to_thread(head_commit, git_dir)
    if commit is None:
        return tree, None, [], []
    listing = await runner.run("ls-tree", "-r", "-l", "-z", commit)
    if not listing:
        return tree, commit, [], []
    links, notes = _special_entries(listing, max_bytes)
    await runner.run("checkout", "--force", commit, "--", ".")
    return tree, commit, links, notes


def _special_entries(listing: bytes, max_bytes: int) -> tuple[list[str], list[str]]:
    links: list[str] = []
    notes: list[str] = []
    total = 0
    for entry in filter(None, listing.split(b"\0")):
        head, _, name = entry.partition(b"\t")
        mode, _, _, size = head.split()
        path = os.fsdecode(name)
        if mode == b"120000":
            links.append(path)
        elif mode == b"160000":
            notes.append(f"{path}: a submodule, not fetched")
        total += int(size) if size.isdigit() else 0
    if total > max_bytes:
        raise _too_large(total)
    return links, notes


def _too_large(size: int) -> SourceError:
    return SourceError(
        "too_large",
        f"The repository holds {size / 1e6:,.0f} MB, more than is brought in.",
        "Clone it yourself and give the folder that matters.",
    )


class _Runner:
    """Runs git for one clone, under one deadline and one bound on what it may download."""

    def __init__(
        self,
        url: str,
        scratch: Path,
        git_dir: Path,
        seconds: float,
        max_bytes: int,
        progress: Callable[[str], None] | None,
    ) -> None:
        self.url = url
        self.scratch = scratch
        self.git_dir = git_dir
        self.seconds = seconds
        self.max_bytes = max_bytes
        self.progress = progress
        self.deadline = asyncio.get_running_loop().time() + seconds

    async def run(self, *arguments: str) -> bytes:
        """Run one git command and give its standard output; raises SourceError where it fails."""
        protocol = "file" if self.url.startswith("file:") else "https"
        environment = safe_environment(self.scratch, protocol)
        where = () if arguments[0] == "clone" else (f"--git-dir={self.git_dir}", f"--work-tree={self.scratch}/tree")
        try:
            process = await asyncio.create_subprocess_exec(
                *("git", *_SAFE, "-c", f"protocol.{protocol}.allow=always", *where, *arguments),
                cwd=self.scratch / "tree",
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                umask=0o022,
            )
        except FileNotFoundError as error:
            raise SourceError(
                "clone_failed", "git is not installed here.", "Install git, or give a folder instead."
            ) from error
        try:
            return await self._finish(process)
        finally:
            _kill(process)
            await process.communicate()  # not `wait`: that never ends while there is more in a pipe than is read

    async def _finish(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stderr is not None
        tail: list[str] = []
        output = asyncio.create_task(_output(process))
        report = asyncio.create_task(self._report(process.stderr, tail))
        ended = asyncio.create_task(process.wait())
        pending: set[asyncio.Task[Any]] = {output, report, ended}
        try:
            while pending:
                await self._check_bounds()
                left = self.deadline - asyncio.get_running_loop().time()
                _, pending = await asyncio.wait(pending, timeout=max(0.0, min(left, 0.5)))
        finally:
            for task in pending:
                task.cancel()
            await asyncio.wait({output, report, ended})
        said = output.result()
        if ended.result() != 0:
            raise _failure(self.url, "\n".join(tail))
        return said

    async def _check_bounds(self) -> None:
        if asyncio.get_running_loop().time() >= self.deadline:
            raise SourceError(
                "clone_failed",
                f"Cloning {self.url} took longer than {self.seconds:.1f} s.",
                "Try again, or clone it yourself and give the folder.",
            )
        size = await asyncio.to_thread(_directory_size, self.git_dir / "objects")
        if size > self.max_bytes:
            raise _too_large(size)

    async def _report(self, stream: asyncio.StreamReader, tail: list[str]) -> None:
        rest = ""
        while chunk := await stream.read(4096):
            *lines, rest = re.split(r"[\r\n]+", rest + chunk.decode("utf-8", "replace"))
            for line in filter(None, (_printable(line) for line in lines)):
                if "%" not in line:
                    tail.append(line)
                    del tail[:-20]
                if self.progress is not None:
                    self.progress(line)
        if rest.strip():
            tail.append(_printable(rest))


async def _output(process: asyncio.subprocess.Process) -> bytes:
    """All that it prints. One that prints too much is ended: SourceError `too_large`."""
    assert process.stdout is not None
    data = bytearray()
    while chunk := await process.stdout.read(1 << 16):
        if len(data) <= _LONGEST_OUTPUT:
            data += chunk
        else:
            _kill(process)
    if len(data) > _LONGEST_OUTPUT:
        message = "The repository holds more files than are brought in."
        raise SourceError("too_large", message, "Clone it yourself and give the folder that matters.")
    return bytes(data)


def _printable(line: str) -> str:
    return "".join(char for char in line if char.isprintable()).strip()[:300]


def _kill(process: asyncio.subprocess.Process) -> None:
    """End git and the helpers it started (its own process group)."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _directory_size(directory: Path) -> int:
    total = 0
    for base, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(base, name)).st_size
            except OSError:  # git renames its temporary packs meanwhile
                continue
    return total


def _failure(url: str, output: str) -> SourceError:
    if _FOREIGN in output:
        return SourceError(
            "not_readable",
            f"git refuses to read {url}: it belongs to another user of this machine.",
            "Give a copy of your own or, where its files are checked out, the folder without file://.",
        )
    lines = [line for line in output.splitlines() if not line.startswith(("Cloning into", "warning:"))]
    said = " ".join(lines[-3:])[:400]
    if _MISSING.search(output):
        return SourceError(
            "blobs_missing",
            f"Some files of {url} are missing from the repository itself: {said}",
            "Repair it (`git fsck`, `git fetch --refetch`) or clone it anew from where it is whole.",
        )
    if found := _NO_HOST.search(output):
        return SourceError(
            "clone_failed",
            f"The name {found[1]} leads nowhere from here: it is misspelt, or there is no network.",
            "Check both, or clone it elsewhere and give the folder.",
        )
    if _NOT_THERE.search(output):
        if url.startswith("file:"):
            hint = "Check the path. A folder that is no repository is given as its path, without file://."
            return SourceError("not_found", f"There is no repository at {url}.", hint)
        return SourceError(
            "not_found",
            f"There is no public repository at {url}: {said}",
            "Check the address. If it is private, clone it yourself and give the folder.",
        )
    return SourceError(
        "clone_failed", f"Cloning {url} failed: {said}", "Try again, or clone it yourself and give the folder."
    )
