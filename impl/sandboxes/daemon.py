"""The Docker daemon of this machine: found, asked within a time limit, and never waited for on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from core import SandboxUnavailable

if TYPE_CHECKING:
    from docker import APIClient

T = TypeVar("T")

ANSWER_S = 0.5
AT_ONCE = 8
"""How many calls may wait for the daemon. One that hangs holds its thread until its own time limit, no longer."""
GIVE_UP_S = 15.0


def find(environ: Mapping[str, str] | None = None) -> Path | str:
    """The daemon's Unix socket, or why there is none to use. Instant."""
    environ = os.environ if environ is None else environ
    named = environ.get("DOCKER_HOST", "")
    if named and not named.startswith("unix://"):
        return f"DOCKER_HOST is {named}: files of this machine cannot be shared with a daemon that is not local."
    places = [Path("/var/run/docker.sock")]
    if environ.get("XDG_RUNTIME_DIR"):
        places.append(Path(environ["XDG_RUNTIME_DIR"], "docker.sock"))
    if environ.get("HOME"):
        places.append(Path(environ["HOME"], ".docker/run/docker.sock"))
    if named:
        places = [Path(named.removeprefix("unix://"))]
    for path in places:
        if path.is_socket():
            if not os.access(path, os.R_OK | os.W_OK):
                join = f"`sudo usermod -aG {_group(path)} $USER`, then log in again"
                return f"{path} may not be opened by this user: {join}."
            return path
    return "no Docker daemon runs here: start it, or install it (`apt install docker.io`)."


def _group(path: Path) -> str:
    """The group that may use a socket."""
    import grp

    try:
        return grp.getgrgid(path.stat().st_gid).gr_name
    except (KeyError, OSError):
        return "docker"


async def get(path: Path, what: str) -> tuple[int, Any]:
    """(status, decoded body) of a GET to the daemon, without the SDK: a probe must not wait for an import.

    Raises OSError where nobody answers, ValueError where it is not a Docker daemon.
    """
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(f"GET {what} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    finally:
        writer.close()
    status = head.split(b"\r\n")[0].split()
    if len(status) < 2 or not status[0].startswith(b"HTTP/") or not status[1].isdigit():
        raise ValueError("it does not speak HTTP")
    return int(status[1]), json.loads(body) if body.lstrip()[:1] in (b"{", b"[") else body


class Daemon:
    """Calls to one daemon through its SDK, each in a thread of ours and bounded in time and number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._version: str | None = None

    async def ask(self, work: Callable[[APIClient], T], seconds: float = GIVE_UP_S) -> T:
        """What `work(client)` returns. Raises SandboxUnavailable where it fails or takes longer than `seconds`.

        A call that is given up, or whose task is cancelled, ends by itself: the client has the same time limit.
        """
        until = time.monotonic() + seconds
        while not self._slots.acquire(blocking=False):
            if time.monotonic() > until:
                raise SandboxUnavailable("The Docker daemon does not answer: other calls wait for it already.")
            await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(value: T | None, error: Exception | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)  # type: ignore[arg-type]

        def run() -> None:
            value, error = None, None
            try:
                value = self.call(work, seconds)
            except Exception as failure:  # noqa: BLE001 - it is raised where it is awaited
                error = failure
            finally:
                self._slots.release()
            with contextlib.suppress(RuntimeError):  # the loop ended: nobody waits
                loop.call_soon_threadsafe(settle, value, error)

        threading.Thread(target=run, name="docker", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise SandboxUnavailable(f"The Docker daemon did not answer within {seconds:.0f} s.") from None

    def attach(self, name: str) -> socket.socket:
        """The stream of what a container writes, from its start on. Blocks; raises OSError."""
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(GIVE_UP_S)
        try:
            stream.connect(str(self._path))
            head = f"POST /containers/{name}/attach?stdout=1&stderr=1&stream=1 HTTP/1.1\r\nHost: docker\r\n"
            stream.sendall(f"{head}Upgrade: tcp\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n".encode())
            answer = stream.recv(4096, socket.MSG_PEEK)
        except OSError:
            stream.close()
            raise
        if not answer.startswith(b"HTTP/1.1 101"):
            stream.close()
            raise OSError(f"attach was refused: {answer[:200].decode('utf-8', 'replace')}")
        return stream

    def later(self, work: Callable[[APIClient], Any]) -> threading.Event:
        """Do `work(client)` without anybody waiting; the event is set once it ended, well or not."""
        ended = threading.Event()

        def run() -> None:
            try:
                self.call(work, GIVE_UP_S)
            except SandboxUnavailable:
                pass  # what it should have removed is found by the next sweep
            finally:
                ended.set()

        threading.Thread(target=run, name="docker", daemon=True).start()
        return ended

    def call(self, work: Callable[[APIClient], T], seconds: float) -> T:
        """The same in this thread. Raises SandboxUnavailable."""
        from docker import APIClient
        from docker.errors import DockerException, StreamParseError
        from urllib3.exceptions import HTTPError

        try:
            client = APIClient(
                base_url=f"unix://{self._path}", version=self._version or "auto", timeout=math.ceil(seconds)
            )
            try:
                self._version = client.api_version
                return work(client)
            finally:
                client.close()
        except (DockerException, StreamParseError, HTTPError, OSError) as error:  # requests' own errors are OSErrors
            said = getattr(error, "explanation", None) or str(error)
            raise SandboxUnavailable(f"The Docker daemon says: {said}") from error


def missing(error: SandboxUnavailable) -> bool:
    """Whether the daemon answered that there is no such thing."""
    from docker.errors import NotFound

    return isinstance(error.__cause__, NotFound)
