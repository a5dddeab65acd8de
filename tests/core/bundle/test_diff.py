"""A diff of two revisions shows files and, first of all, what the agent may do differently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.bundle.diff import BundleDiff, diff_revisions
from core.bundle.revisions import save_revision
from core.ports import Revision
from impl.store.sqlite import SqliteStore

from .conftest import GOOD, MakeBundle


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "home")
    yield store
    store.close()


def save(store: SqliteStore, root: Path) -> Revision:
    saved = save_revision(store, root, agent="weather", by="person", message="", now=lambda: "2026-01-01T00:00:00Z")
    assert saved.revision is not None
    return saved.revision


@pytest.fixture
def between(store: SqliteStore, make_bundle: MakeBundle):
    def diff(changes) -> BundleDiff:
        before = save(store, make_bundle(None, "before"))
        return diff_revisions(store, before, save(store, make_bundle(changes, "after")))

    return diff


def test_equal_revisions_have_no_change(between) -> None:
    diff = between({})
    assert (diff.files, diff.fields, diff.summary()) == ((), (), ["no change"])


def test_files_are_added_removed_and_changed(between) -> None:
    diff = between({"corpus/new.md": "a\nb\n", "corpus/guide.md": None, "persona.md": "You answer briefly.\n"})
    assert [(c.kind, c.path) for c in diff.files] == [
        ("removed", "corpus/guide.md"),
        ("added", "corpus/new.md"),
        ("changed", "persona.md"),
    ]
    assert diff.summary() == ["files: 1 added, 1 removed, 1 changed (+3 −4 lines)"]
    assert "-You answer questions about the weather.\n+You answer briefly.\n" in diff.text()


def test_a_missing_newline_at_the_end_is_said(between) -> None:
    assert "+new\n\\ No newline at end of file\n" in between({"persona.md": "new"}).text()


def test_binary_files_are_noted(between) -> None:
    (change,) = between({"persona.md": b"\x00\x01"}).files
    assert (change.binary, change.text) == (True, "")


def test_a_changed_executable_bit_is_a_change(store: SqliteStore, make_bundle: MakeBundle) -> None:
    root = make_bundle()
    before = save(store, root)
    (root / "persona.md").chmod(0o755)
    (change,) = diff_revisions(store, before, save(store, root)).files
    assert (change.path, change.x, change.text) == ("persona.md", True, "")


def test_the_summary_says_first_what_the_agent_may_do_differently(between) -> None:
    text = GOOD["agent.yaml"].replace("tools: [get_forecast]", "tools: [send_mail]").replace("about the", "on")
    text += "- name: MAIL\n  hosts: [mail.example.com]\n  query: key\npolicy: {run_sandbox: allow}\n"
    assert between({"agent.yaml": text}).summary() == [
        "tools +send_mail −get_forecast; credentials +MAIL (mail.example.com); policy.run_sandbox: unset → allow",
        "description: Answers questions about the weather. → Answers questions on weather.",
        "files: 1 changed (+6 −2 lines)",
    ]


def test_from_nothing_everything_is_new(store: SqliteStore, make_bundle: MakeBundle) -> None:
    diff = diff_revisions(store, None, save(store, make_bundle()))
    assert {change.kind for change in diff.files} == {"added"}
    assert len(diff.summary()) == 3
    assert diff.to_json()["before"] is None


def test_a_manifest_that_is_no_manifest_can_be_compared(between) -> None:
    assert {change.after for change in between({"agent.yaml": "[broken"}).fields} == {None}
