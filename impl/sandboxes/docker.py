"""The Docker sandbox: a hardened container a workspace, in a network that was closed before it started.

The image is the setting `sandbox_image`, else a public one that is pulled at the first command, with its progress
shown; `local` is this machine's own /usr on an empty image. The daemon is asked only to start, pause and end
containers: commands go over a Unix socket, past it. Where no rules can be loaded (nft is not on this host) the
workspace gets no network.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core import SandboxUnavailable, Workspace
from impl.sandboxes import daemon, images
from impl.sandboxes.bubblewrap import Layout, host_base, survey
from impl.sandboxes.containers import (
    EXPIRES,
    OWNER,
    Container,
    Control,
    Machine,
    host_mounts,
    labels,
    make_gate,
    make_work,
    remove,
    start,
)
from impl.sandboxes.daemon import Daemon
from impl.sandboxes.kept import InsideProcess, Launched, Notice
from impl.sandboxes.network import FALLBACK_RESOLVERS, Filter, changed_since, filter_here, resolvers, rules
from impl.sandboxes.options import LOCAL, PUBLIC, Options
from impl.sandboxes.owners import own_mark
from impl.sandboxes.workspace import open_workspace

if TYPE_CHECKING:
    import socket

    from docker import APIClient

CONNECT_S = 15.0
"""How long a started container may take to connect."""
RULES_S = 10.0
CONTROL = ".sandbox-"
"""How directories of sockets begin, beside the workspaces they are for."""


class DockerSandbox:
    """The sandbox kind `docker`. `note` says why workspaces get no network here; empty where they get the filtered
    one. `answers` says, once probed, whether a daemon is here, be it of use or not."""

    name = "docker"
    unsafe = False

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()
        self.answers = False
        self._image = self._options.image or PUBLIC
        self._daemon: Daemon | None = None
        self._machine: Machine | None = None
        self._local: str | None = None
        self._layout: Layout | None = None
        nft = shutil.which("nft", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
        self._nft = nft or ""
        self.note = (
            "" if nft else "nft is not installed: `apt install nftables` (or your system's package of that name)."
        )

    async def probe(self) -> str | None:
        """None where a daemon of this machine answers and has the image, or its registry can give it; else why not.

        Without a daemon the answer is instant; one that hangs is given up after half a second. Only where the image
        is missing is the registry asked, for two seconds more; nothing is pulled.
        """
        if self._daemon is not None:
            return None
        path = daemon.find()
        if isinstance(path, str):
            return path
        try:
            async with asyncio.timeout(daemon.ANSWER_S):
                status, version = await daemon.get(path, "/version")
            self.answers = True
            if status != 200 or not isinstance(version, dict):
                return f"the daemon at {path} does not answer as Docker does (status {status})."
            if version.get("Os") != "linux":
                return f"the daemon at {path} runs {version.get('Os')} containers, not Linux ones."
            problem = self._no_local() if self._image == LOCAL else await images.problem_with(path, self._image)
        except TimeoutError:
            return f"the daemon at {path} did not answer within {daemon.ANSWER_S * 1000:.0f} ms."
        except (OSError, ValueError) as error:
            return f"the daemon at {path} does not answer: {error}."
        if problem is None:
            self._daemon = Daemon(path)
        return problem

    def _no_local(self) -> str | None:
        if not sys.platform.startswith("linux"):
            return "the image `local` shows this machine's own programs, which needs Linux."
        return None

    async def base(self) -> str:
        """The image, by its id, pulled where it is not here; this machine's own programs for the local one."""
        problem = await self.probe()
        if problem is not None or self._daemon is None:
            raise SandboxUnavailable(f"The Docker sandbox does not work here: {problem}")
        if self._image == LOCAL:
            return host_base(survey("", frozenset()).python)
        image = self._image
        await self._pull(self._daemon, lambda line: None)
        return f"the image {await self._daemon.ask(lambda client: images.identity(client, image))}"

    async def no_network(self) -> str | None:
        """Why workspaces get no network here, as far as is known before one starts; None where they get the filtered
        one."""
        return self.note or None

    async def open(self, path: Path, *, network: bool = False, shown: Mapping[str, Path] | None = None) -> Workspace:
        """A workspace on the host directory `path`, made where absent. Raises SandboxUnavailable."""
        problem = await self.probe()
        if problem is not None:
            raise SandboxUnavailable(f"The Docker sandbox does not work here: {problem}")

        async def launch(path: Path, notice: Notice) -> Launched:
            return await self._launch(path, notice, network, shown or {})

        return await open_workspace(self.name, path, self.unsafe, launch, self._options.lifetime)

    # --- starting ----------------------------------------------------------------------------------

    async def _launch(self, path: Path, notice: Notice, network: bool, shown: Mapping[str, Path]) -> Launched:
        assert self._daemon is not None, "open() has probed"
        await self._prepare(self._daemon, notice)
        pair = Pair(self._daemon, Control(path.parent / f"{CONTROL}{secrets.token_hex(6)}"))
        try:
            reach: Filter | None = None
            if network and not self.note:
                reach = filter_here(self._options.allow_cidrs, resolvers() or FALLBACK_RESOLVERS)
                await self._close_gate(pair, path, reach)
            if network and self.note:
                notice(f"[No network in this sandbox: {self.note}]\n")
            return await self._start_work(pair, path, reach, shown)
        except BaseException:
            pair.kill()
            raise

    async def _prepare(self, daemon: Daemon, notice: Notice) -> None:
        """What every container needs: facts of the daemon, the local image, and the image of the workspace."""
        if self._layout is None:
            self._layout = survey("", frozenset())
        layout = self._layout
        if self._machine is None:
            self._machine = await daemon.ask(Machine.of)
        if self._local is None and (self._image == LOCAL or not self.note):
            self._local = await daemon.ask(lambda client: images.ensure_local(client, layout))
        if self._image != LOCAL:
            await self._pull(daemon, notice)

    async def _pull(self, daemon: Daemon, notice: Notice) -> None:
        image, loop = self._image, asyncio.get_running_loop()

        def show(line: str) -> None:
            loop.call_soon_threadsafe(notice, line)
            loop.call_soon_threadsafe(self._options.tell, line)

        if not await daemon.ask(lambda client: images.has(client, image)):
            try:
                await daemon.ask(lambda client: images.pull(client, image, show), images.PULL_S)
            except SandboxUnavailable as error:
                why = str(error).rstrip(".")
                raise SandboxUnavailable(f"The image {image} cannot be pulled: {why}. {images.NEXT}") from error

    def _given(self, path: Path) -> dict[str, Any]:
        """What both containers of a workspace are given alike."""
        return {"labels": {**labels(self._options, path), OWNER: own_mark()}}

    def _programs(self, layout: Layout) -> list[dict[str, Any]]:
        return host_mounts(layout, Path("/proc/self/mountinfo").read_text())

    async def _close_gate(self, pair: Pair, path: Path, reach: Filter) -> None:
        """Start the gate and load the rules; where they cannot be loaded there is no gate, and `note` says why."""
        layout, machine, image = self._layout, self._machine, self._local
        assert layout is not None
        assert machine is not None
        assert image is not None
        channel, listener = pair.control.listen("gate")
        given = {"programs": self._programs(layout), "dns": reach.resolvers, **self._given(path)}

        def make(client: APIClient, name: str) -> None:
            make_gate(client, machine, name, image, layout, channel, **given)

        launched = await pair.start("gate", make, listener)
        pair.gate = await InsideProcess.start(launched, path)
        script = f"{self._nft} -f - <<'END'\n{rules(reach)}END"
        result = await pair.gate.run(script, RULES_S, None, 10_000)
        if result.exit_code != 0:
            said = result.output.strip().splitlines()
            self.note = f"the rules cannot be loaded ({said[0] if said else f'status {result.exit_code}'})."
            pair.open_gate()

    async def _start_work(self, pair: Pair, path: Path, reach: Filter | None, shown: Mapping[str, Path]) -> Launched:
        layout, machine = self._layout, self._machine
        assert layout is not None
        assert machine is not None
        local = self._image == LOCAL
        image = self._local if local else self._image
        assert image is not None
        channel, listener = pair.control.listen("work")
        given = {
            "programs": self._programs(layout) if local else [],
            "options": self._options,
            "gate": pair.names.get("gate") if pair.gate is not None else None,
            "local": local,
            "shown": shown,
            **self._given(path),
        }

        def make(client: APIClient, name: str) -> None:
            make_work(client, machine, name, image, layout, channel, path, **given)

        launched = await pair.start("work", make, listener)
        pair.outdated = changed_since(reach) if reach is not None and pair.gate is not None else pair.outdated
        return launched


class Pair:
    """The containers of one workspace: started, paused, and ended together."""

    def __init__(self, daemon: Daemon, control: Control) -> None:
        self.control = control
        self.names: dict[str, str] = {}
        self.gate: InsideProcess | None = None
        self.outdated: Callable[[], bool] = lambda: False
        self._daemon = daemon
        self._containers: list[Container] = []
        self._killed = False
        (control.path / "owner").write_text(own_mark())

    async def start(self, role: str, make: Callable[[APIClient, str], None], listener: socket.socket) -> Launched:
        """Create and start a container, and wait until it connects to `listener`. Raises SandboxUnavailable."""
        name = f"artificer-{role}-{secrets.token_hex(6)}"
        self.names[role] = name

        def run(client: APIClient) -> socket.socket:
            make(client, name)
            return start(client, self._daemon, name)

        try:
            container = Container(await self._daemon.ask(run))
            self._containers.append(container)
            channel = await _connected(listener, container)
        finally:
            listener.close()
        return Launched(
            channel, container, container.last_words, self.kill, self._is_outdated, self._pause, self._resume
        )

    def _is_outdated(self) -> bool:
        return self.outdated() or (self.gate is not None and not self.gate.alive)

    async def _pause(self) -> None:
        names = list(self.names.values())

        def pause(client: APIClient) -> None:
            for name in reversed(names):
                client.pause(name)

        await self._daemon.ask(pause)

    async def _resume(self) -> None:
        names = list(self.names.values())

        def resume(client: APIClient) -> None:
            for name in names:
                client.unpause(name)

        await self._daemon.ask(resume)

    def open_gate(self) -> None:
        """Do without a gate: the work container must not join it."""
        gate, self.gate = self.gate, None
        name = self.names.pop("gate", None)
        if gate is not None and name is not None:
            self._daemon.later(lambda client: remove(client, [name]))

    def kill(self) -> None:
        """End both, at once; safe to call again."""
        if self._killed:
            return
        self._killed = True
        names = [name for _, name in sorted(self.names.items(), reverse=True)]  # work, then its gate
        removed = self._daemon.later(lambda client: self._remove(client, names))
        for container in self._containers:
            container.removed = removed
            container.close()
        if self.gate is not None:
            self.gate.dead = True

    def _remove(self, client: APIClient, names: list[str]) -> None:
        remove(client, names)
        self.control.remove()


async def _connected(listener: socket.socket, container: Container) -> socket.socket:
    """Our end of the channel. Raises SandboxUnavailable where the container ends or takes too long."""
    accepting = asyncio.ensure_future(asyncio.get_running_loop().sock_accept(listener))
    until = time.monotonic() + CONNECT_S
    try:
        while time.monotonic() < until:
            done, _ = await asyncio.wait({accepting}, timeout=0.05)
            if done:
                return accepting.result()[0]
            if container.poll() is not None:
                said = container.last_words().strip().splitlines()
                raise SandboxUnavailable(f"The container ended at once: {said[-1] if said else 'it said nothing'}.")
    finally:
        accepting.cancel()
    raise SandboxUnavailable(f"The container did not connect within {CONNECT_S:.0f} s.")


def abandoned(rows: Sequence[Mapping[str, Any]], dead: Callable[[str, int], bool]) -> list[str]:
    """The names of those of the daemon's containers whose owner is dead, by `dead(mark, expiry in epoch seconds)`."""
    names = []
    for row in rows:
        marks = row.get("Labels") or {}
        expires = marks.get(EXPIRES, "0")
        if dead(marks.get(OWNER, ""), int(expires) if expires.isdigit() else 0):
            names.append(str((row.get("Names") or [row["Id"]])[0]).lstrip("/"))
    return names
