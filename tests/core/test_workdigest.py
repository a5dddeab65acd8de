"""A workspace's digest says what is in it, and nothing of where it lies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.workdigest import WorkspaceDigest


def filled(root: Path, **files: str) -> Path:
    for name, text in files.items():
        (root / name).mkdir(parents=True)
        (root / name / "note.txt").write_text(text)
    return root


def test_the_same_files_elsewhere_have_the_same_digest(tmp_path: Path) -> None:
    one, other = (filled(tmp_path / name / "work", a="first", b="second") for name in ("one", "other"))
    assert WorkspaceDigest(one).take() == WorkspaceDigest(other).take() is not None


def test_a_file_of_another_name_or_content_has_another_digest(tmp_path: Path) -> None:
    roots = [filled(tmp_path / "1", a="x"), filled(tmp_path / "2", b="x"), filled(tmp_path / "3", a="y")]
    assert len({WorkspaceDigest(root).take() for root in roots}) == 3


def test_of_an_empty_workspace_there_is_none(tmp_path: Path) -> None:
    assert WorkspaceDigest(tmp_path).take() is None
    assert WorkspaceDigest(tmp_path / "none").take() is None


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path)], ids=["pipe", "link"])
def test_what_takes_a_files_place_while_it_looks_is_neither_waited_for_nor_followed(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("mine")
    (entry,) = os.scandir(tmp_path)
    entry.stat(follow_symlinks=False)  # as it was found
    note.unlink()
    put(note)
    row = WorkspaceDigest(tmp_path)._row(entry)
    assert row is None or row[2] == hashlib.sha256(b"").hexdigest()
