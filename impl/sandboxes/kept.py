"""One process kept inside a sandbox: how it is launched and spoken with, from the host's side."""

from __future__ import annotations

import asyncio
import binascii
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from core import CommandResult, SandboxUnavailable
from impl.sandboxes.directory import cannot_write
from impl.sandboxes.output import Output

HELLO_S = 10.0
"""How long a new sandbox may take to answer; far beyond what a loaded machine needs."""
BACKSTOP_S = 1.0
"""How long after its deadline a command may be answered before the whole sandbox is killed."""
ABORT_S = 0.8
"""How long a cancelled command's tree may take to be killed before the whole sandbox is."""
MAX_FRAME = 1 << 20
ERRORS_KEPT = 2000


class Outermost(Protocol):
    """The outermost process of a sandbox, as its host sees it."""

    @property
    def returncode(self) -> int | None:
        """Its exit status; None while it may still live."""

    def poll(self) -> int | None:
        """Look again, and return that."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A started sandbox: our end of the channel and its outermost process.

    `last_words()` is what it wrote on stderr; `kill()` ends all of it and lets go of what the host holds, and may be
    called again. `outdated()` is True once it must be replaced though it lives. `pause` and `resume` are None where
    there is nothing to gain by them.
    """

    channel: socket.socket
    process: Outermost
    last_words: Callable[[], str]
    kill: Callable[[], None]
    outdated: Callable[[], bool] = lambda: False
    pause: Callable[[], Awaitable[None]] | None = None
    resume: Callable[[], Awaitable[None]] | None = None


Notice = Callable[[str], None]
"""Takes a line (with its newline) for the person who waits."""
Launch = Callable[[Path, Notice], Awaitable[Launched]]


def spawn(
    line: Callable[[int], list[str]],
    env: Mapping[str, str],
    kill: Callable[[subprocess.Popen[bytes]], None],
    *,
    cwd: Path | None = None,
    passed: Iterable[int] = (),
    as_stdin: bool = False,
) -> Launched:
    """Start `line(descriptor)` with a channel on that descriptor and nothing else of ours but `passed`.

    `as_stdin` gives it the channel as standard input instead, which also programs that close everything else pass on.
    Raises SandboxUnavailable where it cannot be started.
    """
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the sandbox
    try:
        process = subprocess.Popen(
            line(theirs.fileno()),
            cwd=cwd,
            env=dict(env),
            pass_fds=tuple(passed) if as_stdin else (theirs.fileno(), *passed),
            stdin=theirs.fileno() if as_stdin else subprocess.DEVNULL,
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

    def end() -> None:
        kill(process)
        errors.close()

    return Launched(ours, process, lambda: _last_words(errors), end)


def _last_words(errors: IO[bytes]) -> str:
    if errors.closed:
        return ""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - ERRORS_KEPT))
    return errors.read().decode("utf-8", "replace")


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
    async def start(cls, launched: Launched, path: Path) -> InsideProcess:
        """Wait for the greeting of a sandbox on `path` that was launched. Raises SandboxUnavailable."""
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
    def launched(self) -> Launched:
        """What it runs in."""
        return self._launched

    def stop(self) -> None:
        """Kill the running command; its `run` returns with what was printed."""
        self._send(op="kill", id=self._last_id)

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
        lines = self._launched.last_words().strip().splitlines()
        if lines:
            return lines[-1].strip()
        code = self._launched.process.returncode
        return "its channel closed" if code is None else f"its process ended with status {code}"

    def kill(self) -> None:
        """End it with everything in it, at once; safe to call again."""
        self.dead = True
        self._launched.kill()
        self._writer.close()

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
