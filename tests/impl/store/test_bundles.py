"""Revisions, validation runs and channels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.ports import ChannelEntry, Revision, StoreError, TreeEntry, ValidationRun
from impl.store.sqlite import SqliteStore


def entry(digest: str, **fields: str | None) -> ChannelEntry:
    return replace(ChannelEntry("a", "live", digest, "v1", "T", "person"), **fields)  # type: ignore[arg-type]


def test_a_revision_comes_back_whole(store: SqliteStore) -> None:
    blob = store.put_blob(b"persona")
    revision = Revision(
        agent="a",
        digest="sha256:1",
        parents=("sha256:0",),
        at="T",
        by="import",
        message="from ünïcode",
        files=(TreeEntry("persona.md", blob, 7, False), TreeEntry("tools/é/run.py", blob, 7, True)),
        source={"url": "https://example.org/r", "commit": "c", "kind": "skills"},
        licence={"spdx": "MIT", "status": "found", "path": "LICENSE"},
        session="s1",
    )
    assert store.add_revision(revision) is True
    assert store.revision("a", "sha256:1") == revision
    assert store.revisions("a") == [revision]
    assert store.revision("a", "sha256:2") is None
    assert store.agents() == ["a"]


def test_a_revision_needs_the_content_of_its_files(store: SqliteStore) -> None:
    revision = Revision("a", "d", (), "T", "person", "", (TreeEntry("persona.md", "0" * 64, 7, False),))
    with pytest.raises(StoreError) as caught:
        store.add_revision(revision)
    assert caught.value.code == "not_found"
    assert "persona.md" in caught.value.message
    assert store.agents() == []
    assert store.latest("a") is None


def test_revisions_are_listed_oldest_first_and_the_last_saved_is_the_latest(store: SqliteStore) -> None:
    for digest in ("d2", "d1", "d3"):
        assert store.add_revision(Revision("a", digest, (), "T", "person", "")) is True
    assert [r.digest for r in store.revisions("a")] == ["d2", "d1", "d3"]
    assert store.latest("a") == "d3"


def test_saving_an_existing_tree_again_adds_nothing_and_makes_it_the_latest(store: SqliteStore) -> None:
    for digest in ("d1", "d2"):
        store.add_revision(Revision("a", digest, (), "T", "person", "first"))
    assert store.add_revision(Revision("a", "d1", (), "T2", "builder", "second")) is False
    assert store.latest("a") == "d1"
    assert [(r.digest, r.message) for r in store.revisions("a")] == [("d1", "first"), ("d2", "first")]


def test_agents_may_share_a_tree(store: SqliteStore) -> None:
    for agent in ("b", "a"):
        assert store.add_revision(Revision(agent, "d", (), "T", "person", "")) is True
    assert store.agents() == ["a", "b"]


def test_validations_are_many_per_revision_oldest_first(store: SqliteStore) -> None:
    problem = {"code": "c", "path": "p", "message": "m", "hint": "h"}
    runs = [
        ValidationRun("v2", "a", "d1", "T", False, "7", {"sandbox": "docker"}, (), (problem,)),
        ValidationRun("v1", "a", "d1", "T", True, "7", {}, ({"name": "n", "passed": True},)),
        ValidationRun("v3", "a", "d2", "T", True, "7", {}),
    ]
    for run in runs:
        store.add_validation(run)
    assert store.validations("a") == runs
    assert store.validations("a", "d1") == runs[:2]
    assert store.validations("b") == []


def test_a_channel_begins_where_none_is_expected(store: SqliteStore) -> None:
    assert store.move_channel(entry("d1"), None).refused is None
    assert store.channels("a") == {"live": "d1"}
    assert store.move_channel(entry("d2"), None).refused == "stale_head"
    assert store.channels("a") == {"live": "d1"}


def test_a_stale_head_is_refused_and_recorded(store: SqliteStore) -> None:
    store.move_channel(entry("d1"), None)
    store.move_channel(entry("d2"), "d1")
    refused = store.move_channel(entry("d3", by="other"), "d1")
    assert refused == entry("d3", by="other", refused="stale_head")
    assert store.channels("a") == {"live": "d2"}
    assert [(e.digest, e.refused) for e in store.channel_log("a")] == [
        ("d1", None),
        ("d2", None),
        ("d3", "stale_head"),
    ]


def test_a_refused_entry_is_recorded_as_it_is_and_moves_nothing(store: SqliteStore) -> None:
    store.move_channel(entry("d1"), None)
    assert store.move_channel(entry("d2", refused="not_validated"), "d1").refused == "not_validated"
    assert store.move_channel(entry("d2", refused="not_validated"), "dx").refused == "not_validated"
    assert store.channels("a") == {"live": "d1"}
    assert store.move_channel(entry("d2"), "d1").refused is None


def test_a_rollback_is_a_new_line_naming_an_older_digest(store: SqliteStore) -> None:
    store.move_channel(entry("d1"), None)
    store.move_channel(entry("d2"), "d1")
    store.move_channel(entry("d1", action="rollback"), "d2")
    assert store.channels("a") == {"live": "d1"}
    assert [(e.digest, e.action) for e in store.channel_log("a")][-1] == ("d1", "rollback")


def test_channels_are_apart_by_name_and_agent(store: SqliteStore) -> None:
    store.move_channel(entry("d1"), None)
    store.move_channel(entry("d2", channel="beta"), None)
    store.move_channel(entry("d3", agent="b"), None)
    assert store.channels("a") == {"live": "d1", "beta": "d2"}
    assert store.channels("b") == {"live": "d3"}
    assert store.channels("c") == {}
