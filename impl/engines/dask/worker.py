"""What runs on a worker of a cluster: one cell, in a host of its own that is composed from the cell's spec.

`work` is the one function that a cluster is asked to call, by name; what it is given and what it gives are texts of
JSON. A cell's home lies in this machine's ARTIFICER_HOME, under `cells`, for as long as it runs; settings, sandboxes,
credentials and the variables of providers are this machine's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from core import (
    ChannelEntry,
    Driver,
    Host,
    Revision,
    Runner,
    SandboxUnavailable,
    SessionInfo,
    StoreError,
    parse_tool,
    write_tree,
)
from impl.engines.dask.line import Inlet, Line, LineLost, Refused
from impl.engines.dask.mirror import Heard, Mirror
from impl.engines.dask.specs import PROTOCOL, Spec, entries_of, job_of, needed
from impl.engines.dask.workspaces import send_workspaces
from impl.removal import remove_tree

CELLS: Final = "cells"
CHOOSE_S: Final = 4.0
SETTLE_S: Final = 5.0
"""How long the last words of a cell may take to be heard."""
_OF_THE_HOME: Final = ("blobs", "environments")
_OF_THE_PROCESS: Final = ("laid-out",)
"""What cells have in common with the machine's home, and with each other: it is named by what it holds, so they cannot
get in each other's way."""
_AT_ONCE: Final = 16
_TOOL: Final = re.compile(r"tools/[^/]+/tool\.yaml")


async def work(text: str) -> str:
    """Say who is here (`{"hello": true}`), or run the cell of a spec: `done`, `refused` or `lost`."""
    asked = json.loads(text)
    if "hello" in asked:
        from importlib.metadata import version

        who = {"protocol": PROTOCOL, "version": version("artificer")}
        return json.dumps({**who, "unisolated": await _unisolated()})
    async with _line(asked) as line:
        return await _under_lease(asked, line)


async def _unisolated() -> str | None:
    """Why code of agents would not be isolated here; None where it is, or that takes long to tell."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CHOOSE_S):
            sandbox, why = await _machine().host.sandboxes.choose(None)
        return why if sandbox.unsafe else None
    return None


@contextlib.asynccontextmanager
async def _line(spec: Spec) -> AsyncIterator[Line]:
    from distributed import Queue, get_client

    client = get_client()
    await client
    me = os.urandom(8).hex()
    out = await Queue(spec["line"], client=client)
    back = Inlet(await Queue(f"{spec['line']}-{me}", client=client))
    try:
        async with Line(out, back, spec["lease"], me, spec["patience_s"]) as line:
            yield line
    finally:
        out.close()
        await back.close()


async def _under_lease(spec: Spec, line: Line) -> str:
    """The cell, for as long as the lease lasts; ended, with its sandbox, where that does or is told to."""
    from distributed import get_worker

    try:
        await line.granted({"begin": {"worker": get_worker().address, "pid": os.getpid()}})
    except (Refused, LineLost, TimeoutError):
        return "refused"
    running = asyncio.ensure_future(_cell(spec, line))
    stop = asyncio.ensure_future(line.stop.wait())
    try:
        await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        running.cancel()
        await asyncio.wait({running})
    line.say(_last_row(running))
    with contextlib.suppress(TimeoutError, LineLost):
        async with asyncio.timeout(SETTLE_S):
            await line.heard()
    return "done" if line.lost is None else "lost"


def _last_row(running: asyncio.Future[float]) -> dict[str, Any]:
    if running.cancelled():
        return {"cancelled": True}
    error = running.exception()
    if error is None:
        return {"done": {"duration_s": running.result()}}
    return {"failed": f"{type(error).__name__}: {getattr(error, 'message', None) or error}"}


async def _cell(spec: Spec, line: Line) -> float:
    """Run the job of a spec; its wall time in seconds. Raises what this machine could not do for it."""
    machine = _machine()
    home = machine.place / spec["lease"]
    store: Mirror | None = None
    try:
        home.mkdir(parents=True)
        for place, names in ((machine.host.home, _OF_THE_HOME), (machine.place, _OF_THE_PROCESS)):
            for name in names:
                (place / name).mkdir(mode=0o700, parents=True, exist_ok=True)
                (home / name).symlink_to(place / name)
        store = Mirror(home)
        async with machine.fetching:
            await _fetch(spec, store, line)
        host = await _composed(spec, machine, home, store, line)
        store.tell = line.say
        ran = await Runner(host).run(job_of(spec))
        await send_workspaces(home, store, line)
        return ran.duration_s
    finally:
        if store is not None:
            store.close()
        await asyncio.to_thread(remove_tree, home)


async def _fetch(spec: Spec, store: Mirror, line: Line) -> None:
    """Ask for the content that this machine has not seen yet."""
    missing = store.lacks(needed(spec))
    for first in range(0, len(missing), _AT_ONCE):
        names = missing[first : first + _AT_ONCE]
        for name, data in zip(names, await asyncio.gather(*map(line.blob, names)), strict=True):
            if hashlib.sha256(data).hexdigest() != name:
                raise StoreError("damaged", f"What came for {name[:12]}… is something else.", "Run it again.")
            await asyncio.to_thread(store.take_in, data)


async def _composed(spec: Spec, machine: _Machine, home: Path, store: Mirror, line: Line) -> Host:
    """The host of a cell: this machine's, on a home and store of the cell's own that hold what its spec names."""
    for row in spec["revisions"]:
        files = entries_of(row["files"])
        store.add_revision(Revision(row["agent"], row["digest"], (), row["at"], row["by"], "", files))
    for agent, channel, digest in spec["channels"]:
        store.move_channel(ChannelEntry(agent, channel, digest, None, "", "import"), None)
    if spec["replay"]:
        for session, events in json.loads(store.blob(spec["replay"]["rows"])):
            store.create_session(SessionInfo(session, "run"), events)
    host = machine.host
    assert host.transport is not None
    # What is None in the job is the agent's own, not what this machine has set.
    settings = replace(host.settings, model=None, sandbox=None, context_window=None)
    transport = Heard(host.transport, line.heard)
    here = replace(host, home=home, store=store, settings=settings, transport=transport, doors={})
    if spec["suite"]:
        here = replace(here, environment=_in_suite_at(await machine.suite(spec["suite"], store)))
    await asyncio.to_thread(_begin_with, spec["start"], here.workspace_path(spec["job"]["session"]), store)
    await machine.install(_required(spec, store), spec["job"]["sandbox"])
    return here


def _required(spec: Spec, store: Mirror) -> set[tuple[str, ...]]:
    """The sets of packages that tools of the spec's agents need."""
    files = [file for revision in spec["revisions"] for file in revision["files"]]
    manifests = [file for file in files if _TOOL.fullmatch(file["path"])]
    tools = [parse_tool(store.blob(file["sha256"]))[0] for file in manifests]
    return {tool.requirements for tool in tools if tool is not None} - {()}


def _in_suite_at(place: Path) -> Any:
    from impl.drivers.suite import in_suite

    def environment(driver: Driver, suite: Mapping[str, Any]) -> Driver:
        return in_suite(driver, {**suite, "path": str(place)})

    return environment


def _begin_with(start: Mapping[str, Any], workspace: Path, store: Mirror) -> None:
    """Lay out what a workspace begins with."""
    for name in start["directories"]:
        (workspace / name).mkdir(parents=True, exist_ok=True)
    for file in start["files"]:
        path = workspace / file["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.blob(file["sha256"]))
        path.chmod(0o755 if file["x"] else 0o644)


# --- this machine --------------------------------------------------------------------------------------


class _Machine:
    """What the cells of this process have in common: the machine's own host, and a place for theirs.

    The place is locked for as long as the process lives; what dead ones left goes when the next one begins.
    """

    def __init__(self) -> None:
        from impl.compose import build_host

        self.host = build_host()
        self.fetching = asyncio.Lock()
        self._laying = asyncio.Lock()
        self._installed: set[tuple[tuple[str, ...], str | None]] = set()
        root = self.host.home / CELLS
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        me = os.urandom(6).hex()
        self._lock = os.open(root / f"{me}.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        sweep_cells(self.host.home)
        self.place = root / me
        self.place.mkdir(mode=0o700)

    async def suite(self, suite: Mapping[str, Any], store: Mirror) -> Path:
        """Where the suite of a spec lies."""
        place = self.place / "suites" / str(suite["digest"]).removeprefix("sha256:")
        async with self._laying:
            if not place.exists():
                await asyncio.to_thread(write_tree, entries_of(suite["files"]), store.blob, place)
        return place

    async def install(self, sets: set[tuple[str, ...]], sandbox: str | None) -> None:
        """Install what tools need and was not yet, as registering them does on a machine of one's own. A tool without
        says so when it is called."""
        from impl.tools.environments import EnvironmentFailed
        from impl.tools.shop import environments

        with contextlib.suppress(EnvironmentFailed, SandboxUnavailable):
            for packages in sorted(sets - {known for known, kind in self._installed if kind == sandbox}):
                async with self._laying:
                    kind, _ = await self.host.sandboxes.choose(sandbox)
                    await (await environments(self.host, kind)).install(packages)
                self._installed.add((packages, sandbox))


def sweep_cells(home: Path) -> None:
    """Remove the cells of workers that died."""
    root = home / CELLS
    for lock in root.glob("*.lock"):
        with contextlib.suppress(OSError):  # it lives, or another process is at it
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(root / lock.stem)
                lock.unlink(missing_ok=True)
            finally:
                os.close(handle)


_known: list[_Machine] = []


def _machine() -> _Machine:
    if not _known:
        _known.append(_Machine())
    return _known[0]
