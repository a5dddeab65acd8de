"""The session's `/work` and the newest diff in the workspace pane: read-only, bounded, no link followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.stage import Stage, ran
from tests.tui import scenes
from tests.tui.conftest import calm, until
from tests.tui.test_stops import screen, shown
from tui.application import ArtificerApp
from tui.screens.dialogs import TextScreen
from tui.view.files import file_lines, file_rows
from tui.view.text import plain_text
from tui.workspace import MOST_BYTES, MOST_ENTRIES, read, tree

Make = Callable[..., ArtificerApp]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a directory, files and links, and a secret beside it."""
    (tmp_path / "secret").write_text("not yours")
    work = tmp_path / "work"
    (work / "source").mkdir(parents=True)
    (work / "source" / "a.txt").write_text("one\n")
    (work / "b.txt").write_text("two\n")
    (work / "file").symlink_to(tmp_path / "secret")
    (work / "up").symlink_to(tmp_path)
    return work


def test_directories_come_first_and_only_opened_ones_show_what_they_hold(root: Path) -> None:
    assert [e.path for e in tree(root, frozenset())] == ["source", "b.txt", "file", "up"]
    assert [e.path for e in tree(root, frozenset({"source"}))] == ["source", "source/a.txt", "b.txt", "file", "up"]


def test_links_are_named_and_lead_nowhere(root: Path) -> None:
    kinds = {entry.path: entry.kind for entry in tree(root, frozenset({"up", "file"}))}
    assert kinds == {"source": "directory", "b.txt": "file", "file": "link", "up": "link"}
    for path in ("file", "up/secret", "../secret", "source/../../secret"):
        with pytest.raises(OSError):
            read(root, path)


def test_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        read(root, "pipe")


def test_a_large_directory_and_a_large_file_are_bounded(root: Path) -> None:
    for n in range(MOST_ENTRIES + 10):
        (root / "source" / f"{n}").touch()
    assert len(tree(root, frozenset({"source"}))) == MOST_ENTRIES + 4
    (root / "big").write_bytes(b"x\n" * MOST_BYTES)
    body, size = read(root, "big")
    assert (len(body), size) == (MOST_BYTES, 2 * MOST_BYTES)
    assert "the first" in plain_text(file_lines(body, size)[-1])


def test_what_is_no_text_is_said_and_names_cannot_draw() -> None:
    assert plain_text(file_lines(b"\0\1", 2)[0]) == "2 bytes, no text"
    assert [plain_text(one)[7:] for one in file_lines(b"a\x1b[2Jb\n", 7)] == ["ab", ""]


def test_a_name_with_control_characters_is_made_safe(root: Path) -> None:
    (root / "a\x1b[31mb\nc").touch()
    (row,) = [row for row in file_rows(tree(root, frozenset()), frozenset()) if row.key.startswith("a")]
    assert plain_text(row.left).strip() == "ab c"


async def test_the_key_of_the_workspace_goes_from_log_to_files_to_diff(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.with_files(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        for pane in ("log", "files", "diff", "log"):
            await pilot.press("f3")
            await until(pilot, lambda pane=pane: app.focused is not None and app.focused.id == pane, pane)  # type: ignore[misc]
        await pilot.press("f3")
        await until(pilot, lambda: "source/" in shown(app), "the names")
        await pilot.press("enter", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextScreen), "a file opens")
        assert "MIT" in shown(app)
        await pilot.press("escape", "f3")
        await until(pilot, lambda: "+You answer briefly." in shown(app), "the newest revision beside its parent")


async def test_files_that_a_command_made_show_when_it_is_done(on_stage: Stage, make_app: Make) -> None:
    name = scenes.with_files(on_stage)
    app = make_app(on_stage, name)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("f3", "f3")
        await until(pilot, lambda: "notes.md" in shown(app))
        (on_stage.host.workspace_path(name) / "made.txt").write_text("x")
        await screen(app).take(on_stage.host.store.append(name, ran("touch made.txt", call="c20")))
        await until(pilot, lambda: "made.txt" in shown(app))


async def test_a_session_without_a_workspace_says_so(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("f3", "f3")
        await until(pilot, lambda: "nothing in the workspace yet" in shown(app))
