"""The two containers of a Docker workspace: how each is made, and both as one thing that lives and dies.

The *gate* owns the network namespace: it alone may change its rules, runs nothing but our own process, and is
closed before the *work* container starts inside that namespace. So a packet of the user's meets the rules from the
first on, and a restart of the work container finds them in place. Both end when the host's end of their channel does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from impl.sandboxes.bubblewrap import AGENT, HOME, INSIDE, SHM_BYTES, TMP_BYTES, Layout
from impl.sandboxes.daemon import Daemon
from impl.sandboxes.inside import MEMORY_BYTES, MEMORY_PART, PROCESS_LIMIT
from impl.sandboxes.options import CA_INSIDE, Options, ca_environment

if TYPE_CHECKING:
    from docker import APIClient

LABEL = "artificer.home"
OWNER, SESSION, EXPIRES = "artificer.owner", "artificer.session", "artificer.expires"
CHANNEL = "/run/artificer/s"
PIDS = PROCESS_LIMIT + 256
"""Above what the process inside counts and ends itself."""
CPUS = 4
OPEN_FILES = 8192
FILE_BYTES = 8 << 30
SAID_BYTES = 4096

BEGIN = """python=${1:-$(command -v python3)}
[ -n "$python" ] || { echo "the image has no python3, which commands are started with" >&2; exit 127; }
shell=$(command -v bash || command -v sh)
PATH=$2:$PATH SHELL=$shell
export PATH SHELL
exec "$python" -I -S "$3" container "$4" "$shell" "$5"
"""
"""Started with the image's own PATH; only what comes after it sees the workspace's programs."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the daemon says of itself: its memory in bytes, its processors, and whether root in it is its own user."""

    memory: int
    cpus: int
    rootless: bool
    userns: bool

    @classmethod
    def of(cls, client: APIClient) -> Machine:
        """Ask."""
        info: dict[str, Any] = client.info()
        security = " ".join(info.get("SecurityOptions") or ())
        memory, cpus = int(info.get("MemTotal") or 0), int(info.get("NCPU") or 1)
        return cls(memory, cpus, "name=rootless" in security, "name=userns" in security)

    @property
    def user(self) -> str:
        """Who owns the workspace, in a container's words."""
        return "0:0" if self.rootless else f"{os.getuid()}:{os.getgid()}"


def labels(options: Options, path: Path) -> dict[str, str]:
    """What a later start knows our containers by, `artificer.owner` aside."""
    session = path.parent.name if path.name == "work" else path.name
    expires = int(time.time() + options.ttl_s) if options.ttl_s else 0
    return {LABEL: str(options.home or ""), SESSION: session, EXPIRES: str(expires)}


def _bind(source: str, target: str, *, writable: bool = False) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": not writable}


def host_mounts(layout: Layout, mountinfo: str) -> list[dict[str, Any]]:
    """The host's programs, read-only, for the local image; pure.

    A bind mount takes other file systems below it along, but not its being read-only: each is named again.
    """
    points = [line.split()[4] for line in mountinfo.splitlines() if len(line.split()) > 4]
    paths = [*layout.mounts, *layout.etc]
    paths += [point for point in points if any(point.startswith(f"{path}/") for path in layout.mounts)]
    return [_bind(path, path) for path in dict.fromkeys(paths)]


def _hardened(client: APIClient, machine: Machine, mounts: Sequence[Any], **more: Any) -> dict[str, Any]:
    """What both containers have in common."""
    from docker.types import LogConfig, Ulimit

    if machine.userns and not machine.rootless:
        more["userns_mode"] = "host"  # else nobody in the container could write the workspace
    config: dict[str, Any] = client.create_host_config(
        auto_remove=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        read_only=True,
        ipc_mode="private",
        log_config=LogConfig(type="none"),
        ulimits=[
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
            Ulimit(name="fsize", soft=FILE_BYTES, hard=FILE_BYTES),
        ],
        **more,
    )
    config["Mounts"] = list(mounts)
    return config


def _tmpfs(size: int) -> str:
    return f"rw,nosuid,nodev,exec,size={size},mode=1777"


def make_gate(
    client: APIClient,
    machine: Machine,
    name: str,
    image: str,
    layout: Layout,
    channel: Path,
    dns: Sequence[str],
    **given: Any,
) -> None:
    """Create the gate: the bridge network, the one capability its rules need, the host's own programs."""
    config = _hardened(
        client,
        machine,
        [*given.pop("programs"), _bind(layout.inside, INSIDE), _bind(str(channel), CHANNEL)],
        cap_add=["NET_ADMIN"],
        tmpfs={"/tmp": _tmpfs(1 << 20)},
        network_mode="bridge",
        dns=list(dns),
        pids_limit=64,
        mem_limit=128 << 20,
        memswap_limit=128 << 20,
    )
    command = [layout.python, "-I", "-S", INSIDE, "container", CHANNEL, "/bin/sh"]
    client.create_container(
        image,
        entrypoint=command,
        name=name,
        hostname="sandbox",
        user="0:0",
        working_dir="/tmp",
        host_config=config,
        **given,
    )


def make_work(
    client: APIClient, machine: Machine, name: str, image: str, layout: Layout, channel: Path, work: Path, **given: Any
) -> None:
    """Create the work container on the host directory `work`: in the gate's network, or in none."""
    options: Options = given.pop("options")
    gate: str | None = given.pop("gate")
    local: bool = given.pop("local")
    shown: Mapping[str, Path] = given.pop("shown")
    mounts = [*given.pop("programs"), _bind(layout.inside, INSIDE), _bind(str(channel), CHANNEL)]
    mounts.append(_bind(str(work), HOME, writable=True))
    if options.ca_bundle is not None:
        mounts.append(_bind(str(options.ca_bundle), CA_INSIDE))
    mounts += [_bind(str(place), inside) for inside, place in shown.items()]
    memory = min(MEMORY_BYTES, int(machine.memory * MEMORY_PART)) or MEMORY_BYTES
    config = _hardened(
        client,
        machine,
        mounts,
        tmpfs={"/tmp": _tmpfs(TMP_BYTES), "/run": _tmpfs(1 << 20)},
        network_mode=f"container:{gate}" if gate else "none",
        shm_size=SHM_BYTES,
        pids_limit=PIDS,
        mem_limit=memory,
        memswap_limit=memory,
        nano_cpus=min(CPUS, machine.cpus) * 1_000_000_000,
    )
    folders = f"{HOME}/.local/bin"
    if local and not layout.python.startswith("/usr/bin/"):
        folders += f":{Path(layout.python).parent}"
    client.create_container(
        image,
        entrypoint=[
            *("/bin/sh", "-c", BEGIN, "sh"),
            *(layout.python if local else "", folders, INSIDE, CHANNEL, layout.refused),
        ],
        name=name,
        hostname=None if gate else "sandbox",
        user=machine.user,
        working_dir=HOME,
        environment={**AGENT, **ca_environment(options)},
        host_config=config,
        **given,
    )


def start(client: APIClient, daemon: Daemon, name: str) -> socket.socket:
    """Start a created container; returns the stream of what its first process writes, not blocking."""
    stream = daemon.attach(name)
    try:
        client.start(name)
    except BaseException:
        stream.close()
        raise
    stream.setblocking(False)
    return stream


class Container:
    """A started container as an `Outermost`: it is over when the stream of what it writes ends."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._said = b""
        self._over = False
        self.removed: threading.Event | None = None

    @property
    def returncode(self) -> int | None:
        """None: the daemon knows it, and has forgotten it by the time it could be asked."""
        return None

    def poll(self) -> int | None:
        """Not None once it is over."""
        if self.removed is not None:
            return 0 if self.removed.is_set() else None
        try:
            while not self._over and len(self._said) < SAID_BYTES:
                data = self._stream.recv(SAID_BYTES)
                self._said += data
                self._over = not data
        except BlockingIOError:
            pass
        except OSError:
            self._over = True
        return 0 if self._over else None

    def last_words(self) -> str:
        """What it wrote."""
        self.poll()
        text, rest = b"", self._said.partition(b"\r\n\r\n")[2]
        while len(rest) >= 8:  # one byte of stream, three of nothing, four of length
            size = int.from_bytes(rest[4:8], "big")
            text, rest = text + rest[8 : 8 + size], rest[8 + size :]
        return text.decode("utf-8", "replace")

    def close(self) -> None:
        """Hear no more."""
        self._stream.close()


class Control:
    """A directory of our own beside a workspace, with the sockets its containers connect to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700)

    def listen(self, name: str) -> tuple[Path, socket.socket]:
        """A listening socket: its path, and itself, not blocking. However long the path is."""
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            listener = socket.socket(socket.AF_UNIX)
            listener.setblocking(False)
            listener.bind(f"/proc/self/fd/{directory}/{name}")
            listener.listen(1)
        finally:
            os.close(directory)
        # Nobody else gets through the directory, and root in the gate has no right beyond what everybody has.
        (self.path / name).chmod(0o666)
        return self.path / name, listener

    def remove(self) -> None:
        """Take it away."""
        shutil.rmtree(self.path, ignore_errors=True)


def remove(client: APIClient, names: Sequence[str]) -> None:
    """Remove containers, whatever state they are in; those that are gone or going already are passed over."""
    from docker.errors import APIError

    for name in names:
        with contextlib.suppress(APIError):
            client.remove_container(name, force=True, v=True)
