"""A workspace whose commands run in one process kept inside its sandbox: the host's side of it."""

from __future__ import annotations

import asyncio
import binascii
import errno
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from core import CommandResult, SandboxUnavailable
from impl.sandboxes.output import Output

HELLO_S = 10.0
"""How long a new sandbox may take to answer; far beyond what a loaded machine needs."""
BACKSTOP_S = 1.0
"""How long after its deadline a command may be answered before the whole sandbox is killed."""
ABORT_S = 0.8
"""How long a cancelled command's tree may take to be killed before the whole sandbox is."""
MAX_FRAME = 1 << 20
ERRORS_KEPT = 2000


@dataclass(frozen=True, slots=True)
class Launched:
    """A started sandbox: our end of the channel, its outermost process, its stderr file, how to kill it all."""

    channel: socket.socket
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    kill: Callable[[], None]


Launch = Callable[[Path], Awaitable[Launched]]


def spawn(
    line: Callable[[int], list[str]],
    env: Mapping[str, str],
    kill: Callable[[subprocess.Popen[bytes]], None],
    *,
    cwd: Path | None = None,
    passed: Iterable[int] = (),
) -> Launched:
    """Start `line(descriptor)` with a channel on that descriptor and nothing else of ours but `passed`.

    Raises SandboxUnavailable where it cannot be started.
    """
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the sandbox
    try:
        process = subprocess.Popen(
            line(theirs.fileno()),
            cwd=cwd,
            env=dict(env),
            pass_fds=(theirs.fileno(), *passed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        errors.close()
        raise SandboxUnavailable(f"The sandbox cannot be started: {error.strerror}.") from None
    finally:
        theirs.close()
    return Launched(ours, process, errors, lambda: kill(process))


class Gone(Exception):
    """The process inside ended or talks nonsense; the message says how."""


class NeverBegan(Exception):
    """The process inside ended before it took the command: running it again is safe."""


class InsideProcess:
    """One running `inside.py`: frames to and from it."""

    def __init__(self, launched: Launched, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._launched = launched
        self._reader = reader
        self._writer = writer
        self._last_id = 0
        self._begun = False
        self.dead = False

    @classmethod
    async def start(cls, launch: Launch, path: Path) -> InsideProcess:
        """Start a sandbox on `path` and wait for its greeting. Raises SandboxUnavailable."""
        launched = await launch(path)
        reader, writer = await asyncio.open_unix_connection(sock=launched.channel, limit=MAX_FRAME)
        inside = cls(launched, reader, writer)
        try:
            async with asyncio.timeout(HELLO_S):
                problem = _count(await inside._receive(), "problem")
        except TimeoutError:
            await inside.end()
            raise SandboxUnavailable(f"The sandbox did not start within {HELLO_S:.0f} s.") from None
        except Gone as gone:
            await inside.end()
            raise SandboxUnavailable(f"The sandbox did not start: {gone}.") from None
        except BaseException:
            inside.kill()
            raise
        if problem:
            await inside.end()
            raise SandboxUnavailable(cannot_write(path, problem))
        return inside

    @property
    def alive(self) -> bool:
        """Whether it can take a command, as far as is known now."""
        return not self.dead and not self._reader.at_eof() and self._launched.process.poll() is None

    async def run(
        self, command: str, timeout: float, on_output: Callable[[str], None] | None, cap: int
    ) -> CommandResult:
        """Run one command. Raises SandboxUnavailable where the process inside ends meanwhile, and NeverBegan
        where it was dead already."""
        self._begun = False
        self._last_id += 1
        run, output, started = self._last_id, Output(cap), time.monotonic()
        self._send(op="run", id=run, command=command, timeout=timeout, cap=cap)
        try:
            async with asyncio.timeout(timeout + BACKSTOP_S) as backstop:
                done = await self._follow(run, output, on_output)
        except Gone as gone:
            await self.end()
            if not self._begun:
                raise NeverBegan(str(gone)) from None
            raise SandboxUnavailable(
                f"The sandbox ended while a command ran: {gone}. Whether the command did its work is unknown; "
                "the next one starts a fresh sandbox on the same files."
            ) from None
        except TimeoutError:
            if not backstop.expired():  # it came from `on_output`
                await self._abort(run)
                raise
            self.kill()
            done = {"exit": None, "timed_out": True}
        except BaseException:
            await self._abort(run)
            raise
        text, truncated, size = output.result(done.get("size"))
        return CommandResult(
            exit_code=done.get("exit"),
            output=text,
            duration_s=time.monotonic() - started,
            timed_out=bool(done.get("timed_out")),
            truncated=truncated,
            size=size,
        )

    async def _follow(self, run: int, output: Output, on_output: Callable[[str], None] | None) -> dict[str, Any]:
        """Collect output until the run's last frame, and return that."""
        while True:
            frame = await self._receive()
            if frame.get("id") != run:
                continue
            match frame.get("op"):
                case "begin":
                    self._begun = True
                    continue
                case "out":
                    text = output.feed(_bytes(frame))
                case "tail":
                    text = output.feed_tail(_bytes(frame), _count(frame, "skipped"))
                case "done":
                    _count(frame, "size")
                    if on_output is not None and (text := output.rest()):
                        on_output(text)
                    return frame
                case "unavailable":
                    raise Gone(str(frame.get("message")))
                case other:
                    raise Gone(f"it sent an unknown frame ({other!r})")
            if on_output is not None and text:
                on_output(text)

    async def _abort(self, run: int) -> None:
        """End a command nobody waits for any more; where that takes too long, end the sandbox."""
        try:
            self._send(op="kill", id=run)
            async with asyncio.timeout(ABORT_S):
                await self._follow(run, Output(0), None)
        except (Gone, TimeoutError):
            self.kill()
        except BaseException:
            self.kill()
            raise

    def _send(self, **frame: Any) -> None:
        body = json.dumps(frame).encode()
        self._writer.write(len(body).to_bytes(4, "big") + body)

    async def _receive(self) -> dict[str, Any]:
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            if size > MAX_FRAME:
                raise Gone("it sent a frame that is too long")
            frame = json.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Gone(await self._why()) from None
        except ValueError:
            raise Gone("it sent a frame that is not JSON") from None
        if not isinstance(frame, dict):
            raise Gone("it sent a frame that is not an object")
        return frame

    async def _why(self) -> str:
        """How the sandbox ended, from its exit status and the last line it wrote for us."""
        self.dead = True
        await self._wait(0.5)
        errors = self._launched.errors
        if not errors.closed:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - ERRORS_KEPT))
            lines = errors.read().decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1].strip()
        code = self._launched.process.returncode
        return "its channel closed" if code is None else f"its process ended with status {code}"

    def kill(self) -> None:
        """End it with everything in it, at once; safe to call again."""
        self.dead = True
        self._launched.kill()
        self._writer.close()
        self._launched.errors.close()

    async def end(self) -> None:
        """Kill it and wait, a second at most, until it is gone."""
        self.kill()
        await self._wait(1.0)

    async def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._launched.process.poll() is None and time.monotonic() < until:  # noqa: ASYNC110 - a process, no event
            await asyncio.sleep(0.002)


def _bytes(frame: dict[str, Any]) -> bytes:
    try:
        return binascii.a2b_base64(frame["data"])
    except (KeyError, TypeError, ValueError):
        raise Gone("it sent output that is not base64") from None


def _count(frame: dict[str, Any], key: str) -> int:
    value = frame.get(key)
    if not isinstance(value, int) or value < 0:
        raise Gone(f"it sent a frame without a {key}")
    return value


class KeptWorkspace:
    """A `Workspace` on a host directory; its sandbox starts with the first command and again after it died."""

    def __init__(self, kind: str, path: Path, unsafe: bool, launch: Launch) -> None:
        self.kind = kind
        self.path = path
        self.unsafe = unsafe
        self._launch = launch
        self._lock = asyncio.Lock()
        self._inside: InsideProcess | None = None
        self._directory: tuple[int, int] | None = None
        self._closed = False

    async def run(
        self,
        command: str,
        *,
        timeout: float = 120.0,
        on_output: Callable[[str], None] | None = None,
        cap: int = 1_000_000,
    ) -> CommandResult:
        """Run `command`; calls of one workspace wait for each other. See `core.ports.Workspace.run`."""
        if "\0" in command:
            return CommandResult(126, "The command holds a NUL character: a shell cannot take one.\n", 0.0)
        async with self._lock:
            for _ in range(2):
                if self._closed:
                    raise SandboxUnavailable(f"The workspace {self.path} was closed.")
                inside = await self._ready()
                try:
                    return await inside.run(command, max(timeout, 0.001), on_output, cap)
                except NeverBegan as dead:
                    problem = str(dead)
                except SandboxUnavailable:
                    check_directory(self.path)  # a better reason, where the directory is it
                    raise
            raise SandboxUnavailable(f"The sandbox ended again before it took the command: {problem}.")

    async def close(self) -> None:
        """End the process, a running command included; the directory stays."""
        self._closed = True
        if self._inside is not None:
            await self._inside.end()
            self._inside = None

    async def _ready(self) -> InsideProcess:
        """The process inside, started where there is none, it died, or its directory is not ours any more."""
        directory = check_directory(self.path)
        if self._inside is not None and (not self._inside.alive or directory != self._directory):
            await self._inside.end()
            self._inside = None
        if self._inside is None:
            self._inside = await InsideProcess.start(self._launch, self.path)
            self._directory = directory
        if self._closed:  # while it started
            await self._inside.end()
            raise SandboxUnavailable(f"The workspace {self.path} was closed.")
        return self._inside


def check_directory(path: Path) -> tuple[int, int]:
    """(device, inode) of a workspace's directory. Raises SandboxUnavailable where it is gone or its disk is full."""
    try:
        status = path.stat()
        disk = os.statvfs(path)
    except OSError as error:
        raise SandboxUnavailable(
            f"The workspace {path} is gone ({error.strerror}): restore it or start a new session."
        ) from None
    free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    if (disk.f_blocks and not free) or (disk.f_files and not disk.f_ffree):
        raise SandboxUnavailable(f"No space is left on the disk of the workspace {path}: free some.")
    return status.st_dev, status.st_ino


def cannot_write(path: Path, problem: int) -> str:
    """What a failed write with errno `problem` means for the workspace, and what to do."""
    if problem in (errno.EACCES, errno.EPERM):
        return (
            f"The workspace {path} belongs to uid {path.stat().st_uid} and may not be written by uid {os.geteuid()} "
            "in the sandbox: give it to the user who runs Artificer."
        )
    if problem in (errno.ENOSPC, errno.EDQUOT):
        return f"No space is left on the disk of the workspace {path}: free some."
    return f"The workspace {path} cannot be written: {os.strerror(problem)}."


def make_directory(path: Path) -> Path:
    """The workspace's directory, absolute, made where absent. Raises SandboxUnavailable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        return path.resolve(strict=True)
    except OSError as error:
        raise SandboxUnavailable(f"The workspace {path} cannot be made: {error.strerror}.") from None


async def open_workspace(kind: str, path: Path, unsafe: bool, launch: Launch) -> KeptWorkspace:
    """A workspace on `path`, made where absent and checked for being writable. Raises SandboxUnavailable."""
    path = make_directory(path)
    check_directory(path)
    if not os.access(path, os.W_OK | os.X_OK):
        raise SandboxUnavailable(cannot_write(path, errno.EACCES))
    return KeptWorkspace(kind, path, unsafe, launch)
