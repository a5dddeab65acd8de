"""Workspaces of both kinds, and what the host sees of their processes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from core import Workspace
from impl.sandboxes import SANDBOXES
from impl.sandboxes.bubblewrap import BubblewrapSandbox

Open = Callable[..., Awaitable[Workspace]]


@pytest.fixture(params=["bubblewrap", "process"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of sandbox in turn."""
    return str(request.param)


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens workspaces by kind (on a fresh directory, or the one named) and closes them after the test."""
    workspaces: list[Workspace] = []

    async def open_one(kind: str, path: Path | None = None) -> Workspace:
        sandbox = SANDBOXES[kind]()
        problem = await sandbox.probe()
        if problem is not None:
            pytest.skip(f"{kind} does not work here: {problem}")
        workspace = await sandbox.open(path or tmp_path / f"work-{len(workspaces)}")
        workspaces.append(workspace)
        return workspace

    yield open_one
    for workspace in workspaces:
        await workspace.close()


@pytest.fixture
async def workspace(kind: str, opened: Open) -> Workspace:
    """A workspace of each kind."""
    return await opened(kind)


@pytest.fixture
async def isolated(opened: Open) -> Workspace:
    """A bubblewrap workspace."""
    return await opened("bubblewrap")


@pytest.fixture
async def bubblewrap() -> BubblewrapSandbox:
    """The bubblewrap kind, where it works."""
    sandbox = BubblewrapSandbox()
    problem = await sandbox.probe()
    if problem is not None:
        pytest.skip(f"bubblewrap does not work here: {problem}")
    return sandbox


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
