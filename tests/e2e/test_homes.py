"""Homes that cannot be used as they are: a full disk, no right to write, a newer version; nothing half-done."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.commands import artificer, expecting
from tests.harness.home import INPUTS

Mount = Callable[..., None]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """`mount` with these arguments, the last one the mount point; skipped where not allowed."""
    points: list[str] = []

    def _mount(*arguments: str | Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root may mount a disk of a chosen size")
        done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this machine mounts nothing: {done.stderr.strip()}")
        points.append(str(arguments[-1]))

    yield _mount
    for point in reversed(dict.fromkeys(points)):
        subprocess.run(["umount", "-l", point], check=True)


@pytest.fixture
def disk(home: Path, mount: Mount, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A small disk of a size, with the home on it."""

    def _disk(size: str) -> Path:
        point = home.parent / "disk"
        point.mkdir()
        mount("-t", "tmpfs", "-o", f"size={size}", "none", point)
        monkeypatch.setenv("ARTIFICER_HOME", str(point / "home"))
        return point

    return _disk


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Documentation of 120 KB."""
    folder = tmp_path / "manual"
    shutil.copytree(INPUTS / "documentation", folder)
    (folder / "docs" / "long.md").write_text("# Long\n\n" + "A buoy floats on the water all day.\n" * 3_400)
    return folder


@pytest.mark.parametrize("size", ["140k", "200k", "280k", "360k", "440k", "520k"])
def test_a_disk_that_fills_up_says_so_and_the_build_goes_on_once_there_is_room(
    disk: Callable[[str], Path], mount: Mount, source: Path, size: str
) -> None:
    point = disk(size)
    ran = artificer("build", source, "--publish")
    last = ran.lines[-1]
    words = str(last)
    assert ran.code in (1, 19), ran
    assert "No room to write" in words
    assert "ARTIFICER_HOME to another disk" in words
    assert all(row["live"] is None for row in expecting(0, "agents").value)
    mount("-o", "remount,size=20m", point)
    for row in expecting(0, "sessions").value:
        assert expecting(0, "resume", row["id"]).result["channel"] == "live"
        assert "buoy" in expecting(0, "run", "manual", "what does a buoy do?").result["output"]


def test_a_home_that_may_only_be_read_is_read_and_refuses_the_rest(disk: Callable[[str], Path], mount: Mount) -> None:
    point = disk("5m")
    expecting(0, "build", INPUTS / "documentation", "--publish")
    mount("-o", "remount,ro", point)
    assert [row["name"] for row in expecting(0, "agents").value] == ["documentation"]
    assert len(expecting(0, "sessions").value) == 1
    for words in (
        ("build", INPUTS / "documentation"),
        ("run", "documentation", "what has a harbour?"),
        ("validate", "documentation"),
        ("publish", "documentation"),
    ):
        error = expecting(1, *words).error
        assert error["code"] == "read_only"
        assert "ARTIFICER_HOME" in error["hint"]


def test_a_home_of_a_newer_version_is_left_alone(home: Path) -> None:
    expecting(0, "build", INPUTS / "documentation")
    with sqlite3.connect(home / "artificer.db") as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        database.execute(f"PRAGMA user_version = {version + 1}")
    before = (home / "artificer.db").read_bytes()
    for words in (("agents",), ("build", INPUTS / "documentation"), ("sessions",)):
        error = expecting(1, *words).error
        assert error["code"] == "newer_version"
        assert "Upgrade" in error["hint"]
    assert (home / "artificer.db").read_bytes() == before


def test_a_home_that_is_a_file_is_no_home(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("ARTIFICER_HOME", str(tmp_path / "file"))
    assert "ARTIFICER_HOME" in expecting(1, "agents").error["hint"]
    assert (tmp_path / "file").read_text() == "mine"
