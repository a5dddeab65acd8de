"""What agents leave in a workspace is removed, whatever it is."""

from __future__ import annotations

import os
from pathlib import Path

from impl.removal import bytes_below, remove_tree


def test_directories_nested_without_end_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "work"
    top.mkdir()
    here = os.getcwd()
    os.chdir(top)
    try:
        for _ in range(2500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    (top / "d" / "file").write_bytes(b"1234")
    assert bytes_below(top) == 4
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(kept)
    remove_tree(tmp_path / "work")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept"]


def test_what_is_closed_is_removed_too(tmp_path: Path) -> None:
    closed = tmp_path / "work" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    closed.chmod(0)
    remove_tree(tmp_path / "work")
    assert list(tmp_path.iterdir()) == []
