"""How sandboxes begin and end: deaths on either side, cancelling, damaged workspaces."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import SandboxUnavailable, Workspace
from impl import compose
from impl.sandboxes.docker import CONTROL
from impl.sandboxes.options import Options
from impl.sandboxes.owners import own_mark
from impl.sandboxes.sweep import Sweeper, sweep
from tests.impl.sandboxes.conftest import BUBBLEWRAP, DOCKER, Containers, kept_pids

Open = Callable[..., Awaitable[Workspace]]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the test's own time limit bounds it."""
    while not condition():  # noqa: ASYNC110 - processes have no event
        await asyncio.sleep(0.01)


async def test_cancelling_kills_the_tree_and_leaves_the_workspace_usable(workspace: Workspace, marker: Any) -> None:
    task = asyncio.create_task(workspace.run(f"setsid {marker.sleep} & {marker.sleep}"))
    await until(lambda: len(marker.pids()) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert marker.pids() == []
    assert (await workspace.run("echo usable")).output == "usable\n"


async def test_an_error_of_the_listener_ends_the_command_and_reaches_the_caller(
    workspace: Workspace, marker: Any
) -> None:
    def fail(text: str) -> None:
        raise ZeroDivisionError(text)

    with pytest.raises(ZeroDivisionError):
        await workspace.run(f"echo x; {marker.sleep}", on_output=fail)
    assert marker.pids() == []
    assert (await workspace.run("echo usable")).output == "usable\n"


async def test_a_hung_command_blocks_no_other_workspace(kind: str, opened: Open, marker: Any) -> None:
    hung, other = await opened(kind), await opened(kind)
    task = asyncio.create_task(hung.run(marker.sleep))
    await until(lambda: bool(marker.pids()))
    assert (await other.run("echo free", timeout=20)).output == "free\n"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closing_ends_a_running_command(workspace: Workspace, marker: Any) -> None:
    task = asyncio.create_task(workspace.run(marker.sleep))
    await until(lambda: bool(marker.pids()))
    await workspace.close()
    with pytest.raises(SandboxUnavailable):
        await task
    await until(lambda: marker.pids() == [])
    with pytest.raises(SandboxUnavailable, match="closed"):
        await workspace.run("true")


APP = """
import asyncio, sys
from pathlib import Path
from impl.sandboxes import choose
from impl.sandboxes.options import Options

async def main():
    home = Path(sys.argv[2])
    sandbox, _ = await choose(sys.argv[1], Options(home=home, image="local"))
    workspace = await sandbox.open(home / "work", network=len(sys.argv) > 4)
    await workspace.run(sys.argv[3])

asyncio.run(main())
"""


async def test_everything_dies_with_the_application(
    kind: str, workspace: Workspace, marker: Any, tmp_path: Path
) -> None:
    command = f"setsid {marker.sleep} & {marker.sleep}"
    line = [sys.executable, "-I", "-c", APP, workspace.kind, str(tmp_path / "app"), command]
    app = await asyncio.create_subprocess_exec(*line, *(["network"] if kind in ("filtered", "docker") else []))
    await until(lambda: len(marker.pids()) == 2)
    app.send_signal(signal.SIGKILL)
    await app.wait()
    await until(lambda: marker.pids() == [])
    if kind == "docker":
        await until(lambda: Containers(tmp_path / "app").rows() == [])


async def test_a_process_killed_between_commands_is_started_again(workspace: Workspace, tmp_path: Path) -> None:
    await workspace.run("echo kept > note")
    for pid in kept_pids(workspace, tmp_path):
        os.kill(pid, signal.SIGKILL)
    assert (await workspace.run("cat note")).output == "kept\n"


async def test_a_process_killed_under_a_command_is_sandbox_unavailable(
    workspace: Workspace, marker: Any, tmp_path: Path
) -> None:
    task = asyncio.create_task(workspace.run(marker.sleep))
    await until(lambda: bool(marker.pids()))
    for pid in kept_pids(workspace, tmp_path):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxUnavailable, match="ended while a command ran"):
        await task
    assert (await workspace.run("echo again")).output == "again\n"


async def test_a_command_cannot_kill_the_process_that_serves_it(isolated: Workspace, tmp_path: Path) -> None:
    result = await isolated.run("kill -9 1; kill -STOP 1; kill -9 -1")
    assert (result.exit_code, result.timed_out) in [(0, False), (-9, False), (1, False)]
    before = kept_pids(isolated, tmp_path)
    assert (await isolated.run("echo here")).output == "here\n"
    assert kept_pids(isolated, tmp_path) == before


async def test_a_stopped_process_is_given_up_after_the_deadline(opened: Open) -> None:
    workspace = await opened("process")
    command = "echo begun; until test -e seen; do sleep 0.01; done; kill -STOP $PPID; sleep 300"
    result = await workspace.run(command, timeout=0.5, on_output=lambda _: (workspace.path / "seen").touch())
    assert (result.timed_out, result.output) == (True, "begun\n")
    assert (await workspace.run("echo again")).output == "again\n"


async def test_a_removed_workspace_is_sandbox_unavailable(workspace: Workspace) -> None:
    await workspace.run("true")
    shutil.rmtree(workspace.path)
    with pytest.raises(SandboxUnavailable, match="is gone"):
        await workspace.run("true")


async def test_a_workspace_put_back_is_used_again(workspace: Workspace, tmp_path: Path) -> None:
    await workspace.run("echo old > note")
    workspace.path.rename(tmp_path / "away")
    workspace.path.mkdir()
    (workspace.path / "note").write_text("new\n")
    assert (await workspace.run("cat note")).output == "new\n"


async def test_a_workspace_that_cannot_be_made_is_sandbox_unavailable(kind: str, opened: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxUnavailable, match="cannot be made"):
        await opened(kind, tmp_path / "file" / "work")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(line, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_is_sandbox_unavailable(kind: str, opened: Open, small_disk: Path) -> None:
    workspace = await opened(kind, small_disk / "work")
    result = await workspace.run("head -c 1M /dev/zero > fill")
    assert result.exit_code != 0
    with pytest.raises(SandboxUnavailable, match="No space"):
        await workspace.run("true")
    (workspace.path / "fill").unlink()
    assert (await workspace.run("echo room")).output == "room\n"


@pytest.mark.parametrize("kind", [BUBBLEWRAP, DOCKER], indirect=True)
async def test_a_workspace_of_another_user_is_refused_before_the_first_command(
    kind: str, opened: Open, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a directory away needs root")
    path = tmp_path / "theirs"
    path.mkdir(mode=0o755)
    os.chown(path, 65534, 65534)
    workspace = await opened(kind, path)
    with pytest.raises(SandboxUnavailable, match="belongs to uid 65534"):
        await workspace.run("true")


USER = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from impl.sandboxes import choose

async def main():
    assert os.getuid() == 65534
    sandbox, _ = await choose(sys.argv[2])
    workspace = await sandbox.open(Path(sys.argv[3]))
    result = await workspace.run("echo hello > note; (setsid sleep 0.1 &); cat note; test -w $WORK")
    await workspace.close()
    assert (result.exit_code, result.output) == (0, "hello\\n"), result

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["bubblewrap", "process"])
def test_an_ordinary_user_needs_no_privilege(kind: str) -> None:
    setpriv, python = shutil.which("setpriv"), Path("/usr/bin/python3")
    if os.geteuid() != 0 or setpriv is None or not python.exists():
        pytest.skip("becoming an ordinary user needs root, setpriv and a system Python")
    become = [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]
    project = Path(__file__).parents[3]
    check = [
        *become,
        str(python),
        "-c",
        f"import sys; sys.version_info >= (3, 11) or 1/0; open({str(project / 'core/ports.py')!r})",
    ]
    if subprocess.run(check, capture_output=True, check=False).returncode != 0:
        pytest.skip("the system Python is too old, or an ordinary user may not read this checkout")
    with tempfile.TemporaryDirectory() as directory:
        os.chown(directory, 65534, 65534)
        line = [*become, str(python), "-I", "-B", "-c", USER, str(project), kind, f"{directory}/work"]
        done = subprocess.run(line, capture_output=True, text=True, check=False, env={"PATH": os.defpath})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["bubblewrap", "process"])
async def test_a_sandbox_past_its_age_ends_by_itself_and_its_files_stay(
    kind: str, opened: Open, options: Options, tmp_path: Path
) -> None:
    workspace = await opened(kind, given=replace(options, ttl_s=0.3))
    await workspace.run("echo kept > note")
    await until(lambda: kept_pids(workspace, tmp_path) == [])
    assert (await workspace.run("cat note")).output == "kept\n"


def left_by_a_dead_process(home: Path) -> Path:
    """A directory of sockets in `home` whose owner has ended."""
    code = "from impl.sandboxes.owners import own_mark; print(own_mark())"
    mark = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    path = home / "workspaces" / "s1" / f"{CONTROL}1"
    path.mkdir(parents=True)
    (path / "owner").write_text(mark.strip())
    return path


async def test_what_dead_processes_leave_is_swept_again_and_again_while_one_lives(tmp_path: Path) -> None:
    sweeper, own = Sweeper(every_s=0.02), tmp_path / "one" / "workspaces" / "s2" / f"{CONTROL}2"
    own.mkdir(parents=True)
    (own / "owner").write_text(own_mark())
    sweeper.keep(tmp_path / "one")
    for _ in range(2):
        left = left_by_a_dead_process(tmp_path / "one")
        await until(lambda left=left: not left.exists())  # type: ignore[misc]
    other = left_by_a_dead_process(tmp_path / "two")
    left = left_by_a_dead_process(tmp_path / "one")
    await until(lambda: not left.exists())
    assert (own.exists(), other.exists()) == (True, True)
    sweeper.keep(tmp_path / "two")
    await until(lambda: not other.exists())
    for home in ("one", "two"):
        shutil.rmtree(tmp_path / home)  # what is gone is swept no more
    await until(lambda: not sweeper._due)


def test_what_killed_checks_left_is_removed_once_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, young, other = (tmp_path / name for name in ("artificer-validate-a", "artificer-examples-b", "artificer-x"))
    for path in (left, young, other):
        (path / "bundle").mkdir(parents=True)
    for path in (left, other):
        os.utime(path, (0, 0))
    (tmp_path / "artificer-register-c").symlink_to(young)
    lines = sweep(tmp_path / "home")
    assert f"removed {left}, which a check had left" in lines
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "artificer-examples-b",
        "artificer-register-c",
        "artificer-x",
    ]


async def test_choosing_a_sandbox_and_opening_the_app_begin_to_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "TIDY_AFTER_S", 0.0)
    for home in (tmp_path / "one", tmp_path / "two"):
        left, host = left_by_a_dead_process(home), compose.build_host(home)
        if home.name == "one":
            await host.sandboxes.choose("process")
        else:
            compose.keep_tidy(host)
        await until(lambda left=left: not left.exists())  # type: ignore[misc]
        host.store.close()
