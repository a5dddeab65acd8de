"""Workspaces of every kind, and what the host sees of their processes."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from core import Sandbox, Workspace
from impl.sandboxes import SANDBOXES, daemon
from impl.sandboxes.bubblewrap import BubblewrapSandbox
from impl.sandboxes.containers import LABEL
from impl.sandboxes.inside import descendants
from impl.sandboxes.options import Options

Open = Callable[..., Awaitable[Workspace]]

BUBBLEWRAP = pytest.param("bubblewrap")
FILTERED = pytest.param("filtered", marks=pytest.mark.slow)
"""Bubblewrap with its filtered network."""
DOCKER = pytest.param("docker", marks=pytest.mark.docker)
"""Docker on the local image, with no network."""


@pytest.fixture(params=[BUBBLEWRAP, "process", FILTERED, DOCKER])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of sandbox in turn."""
    return str(request.param)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """Options whose home is this test's own."""
    return Options(home=tmp_path, image="local")


@pytest.fixture
async def opened(tmp_path: Path, options: Options) -> AsyncIterator[Open]:
    """Opens workspaces by kind (on a fresh directory, or the one named) and closes them after the test."""
    workspaces: list[Workspace] = []

    async def open_one(
        kind: str, path: Path | None = None, network: bool = False, given: Options | None = None
    ) -> Workspace:
        sandbox: Sandbox = SANDBOXES["bubblewrap" if kind == "filtered" else kind](given or options)
        problem = await sandbox.probe()
        if problem is not None:
            pytest.skip(f"{kind} does not work here: {problem}")
        network = network or kind == "filtered"
        workspace = await sandbox.open(path or tmp_path / f"work-{len(workspaces)}", network=network)
        workspaces.append(workspace)
        if network:
            await workspace.run("true")
            if note := getattr(sandbox, "note", ""):
                pytest.skip(f"{kind} has no filtered network here: {note}")
        return workspace

    yield open_one
    for workspace in workspaces:
        await workspace.close()


@pytest.fixture
async def workspace(kind: str, opened: Open) -> Workspace:
    """A workspace of each kind."""
    return await opened(kind)


@pytest.fixture(params=[BUBBLEWRAP, DOCKER])
async def isolated(request: pytest.FixtureRequest, opened: Open) -> Workspace:
    """A workspace of each kind that isolates, without a network."""
    return await opened(str(request.param))


@pytest.fixture
async def bubblewrap() -> BubblewrapSandbox:
    """The bubblewrap kind, where it works."""
    sandbox = BubblewrapSandbox()
    problem = await sandbox.probe()
    if problem is not None:
        pytest.skip(f"bubblewrap does not work here: {problem}")
    return sandbox


class Containers:
    """The containers of one home, asked of the daemon."""

    def __init__(self, home: Path) -> None:
        path = daemon.find()
        if isinstance(path, str):
            pytest.skip(f"docker does not work here: {path}")
        self.home = home
        self.daemon = daemon.Daemon(path)

    def rows(self) -> list[dict[str, object]]:
        """What there is, in any state, inspected; the work container first."""
        from docker import APIClient
        from docker.errors import NotFound

        def inspect(client: APIClient) -> list[dict[str, object]]:
            rows = []
            for row in client.containers(all=True):
                if (row["Labels"] or {}).get(LABEL) == str(self.home):
                    with contextlib.suppress(NotFound):  # it went meanwhile
                        rows.append(client.inspect_container(row["Id"]))
            return sorted(rows, key=lambda row: str(row["Name"]), reverse=True)

        return self.daemon.call(inspect, 20)

    def work(self) -> dict[str, object]:
        """The one work container."""
        return next(row for row in self.rows() if "-work-" in str(row["Name"]))


@pytest.fixture
def containers(tmp_path: Path) -> Containers:
    """This test's containers."""
    return Containers(tmp_path)


def kept_pids(workspace: Workspace, home: Path) -> list[int]:
    """The processes kept for this test's workspaces, as the host sees them."""
    if workspace.kind == "docker":
        return [int(row["State"]["Pid"]) for row in Containers(home).rows()]  # type: ignore[index, call-overload]
    found = []
    for pid in descendants(os.getpid()):
        try:
            if b"inside.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue  # it ended while we looked
    return found


class Marker:
    """A command argument that no other process of the machine has, and the processes that have it."""

    def __init__(self) -> None:
        self.seconds = f"300.{uuid.uuid4().int % 10**12:012}"
        self.sleep = f"sleep {self.seconds}"

    def pids(self) -> list[int]:
        """The processes, in any namespace, that run `sleep` with it."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue  # it ended while we looked
            if words[:1] == [b"sleep"] and self.seconds.encode() in words:
                found.append(int(entry.name))
        return found


@pytest.fixture
def marker() -> Marker:
    """A fresh marker."""
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("no /proc to look for processes in")
    return Marker()
