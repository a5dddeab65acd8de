"""Damage: what can still be read is read, and what cannot says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.ports import ChannelEntry, Revision, SessionInfo, StoreError, ValidationRun
from impl.store.sqlite import SqliteStore


@pytest.fixture
def raw(home: Path, store: SqliteStore) -> Iterator[sqlite3.Connection]:
    """A connection of somebody who writes what the store never would."""
    store.create_session(SessionInfo("s", "run"), [("notice", {"n": n}) for n in range(1, 6)])
    connection = sqlite3.connect(home / "artificer.db", isolation_level=None)
    yield connection
    connection.close()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("X'FFFE0001'", id="garbage blob"),
        pytest.param("NULL", id="null"),
        pytest.param("'{\"cut\": '", id="cut JSON"),
        pytest.param("'[1]'", id="not an object"),
        pytest.param("42", id="integer"),
        pytest.param("1.5", id="real"),
        pytest.param("CAST(X'7B22FF' AS TEXT)", id="text that is not UTF-8"),
        pytest.param("replace(hex(zeroblob(50000)), '00', '[')", id="deep nesting"),
    ],
)
def test_a_damaged_body_is_one_damaged_event(store: SqliteStore, raw: sqlite3.Connection, body: str) -> None:
    raw.execute(f"UPDATE event SET body = {body} WHERE id & 0xffff = 3")
    events = list(store.events("s"))
    assert [(e.seq, e.damaged) for e in events] == [(n, n == 3) for n in range(1, 6)]
    assert [e.damaged for e in store.tail("s", 3)] == [True, False, False]
    assert events[2].to_json()["data"]["damaged"]


@pytest.mark.parametrize("value", ["NULL", "X'FF'", "7", "CAST(X'FF41' AS TEXT)"])
def test_a_damaged_kind_or_time_leaves_the_event_readable(
    store: SqliteStore, raw: sqlite3.Connection, value: str
) -> None:
    raw.execute(f"UPDATE event SET kind = {value}, at = {value} WHERE id & 0xffff = 3")
    events = list(store.events("s"))
    assert [e.data for e in events] == [{"n": n} for n in range(1, 6)]
    assert isinstance(events[2].kind, str)
    assert isinstance(events[2].at, str)


def test_a_json_blob_reads_as_json(store: SqliteStore, raw: sqlite3.Connection) -> None:
    raw.execute("UPDATE event SET body = CAST(body AS BLOB)")
    assert [e.data for e in store.events("s")] == [{"n": n} for n in range(1, 6)]


def test_a_missing_event_stands_in_its_place_as_damaged(store: SqliteStore, raw: sqlite3.Connection) -> None:
    raw.execute("DELETE FROM event WHERE id & 0xffff IN (1, 3)")
    assert [(e.seq, e.damaged) for e in store.events("s")] == [(n, n in (1, 3)) for n in range(1, 6)]
    assert [e.seq for e in store.events("s", after=2, limit=2)] == [3, 4]
    assert [e.seq for e in store.events("s", kinds=("notice",))] == [2, 4, 5]


@pytest.mark.parametrize("gone", [(5,), (2, 4, 5), (1, 2, 3, 4, 5)])
def test_the_last_events_too_stand_in_their_place_where_they_are_missing(
    store: SqliteStore, raw: sqlite3.Connection, gone: tuple[int, ...]
) -> None:
    raw.execute(f"DELETE FROM event WHERE id & 0xffff IN ({', '.join(map(str, gone))})")
    assert [(e.seq, e.damaged) for e in store.events("s")] == [(n, n in gone) for n in range(1, 6)]
    assert [e.seq for e in store.events("s", after=3, limit=1)] == [4]
    assert [e.seq for e in store.events("s", after=4)] == [5]
    assert list(store.events("s", after=5)) == []
    store.append("s", [("notice", {"n": 6})])
    assert [(e.seq, e.damaged) for e in store.events("s", after=4)] == [(5, True), (6, False)]


def test_a_damaged_number_of_events_makes_none_up(store: SqliteStore, raw: sqlite3.Connection) -> None:
    raw.execute("UPDATE session SET last_seq = 1000000000")
    assert [e.seq for e in store.events("s")] == [1, 2, 3, 4, 5]
    store.append("s", [("notice", {"n": 6})])
    assert [e.seq for e in store.events("s") if not e.damaged] == [1, 2, 3, 4, 5, 1000000001]
    assert len(list(store.events("s"))) < 10_000


@pytest.mark.parametrize("value", ["'many'", "X'00'", "1.5", "''"])
def test_a_number_of_events_that_is_none_hides_nothing(store: SqliteStore, raw: sqlite3.Connection, value: str) -> None:
    store.append("s", [("message", {"text": "needle"})])
    raw.execute(f"UPDATE session SET last_seq = {value}, indexed = {value}")
    assert [e.seq for e in store.events("s")] == [e.seq for e in store.tail("s", 6)] == [1, 2, 3, 4, 5, 6]
    assert [hit.seq for hit in store.search("needle")] == [6]
    (info,) = store.sessions()
    assert info.last_seq == 0


def test_an_append_that_fails_halfway_leaves_nothing_of_itself(store: SqliteStore, raw: sqlite3.Connection) -> None:
    raw.execute("INSERT INTO event (id, at, kind, body) SELECT max(id) + 2, 'T', 'notice', '{}' FROM event")
    with pytest.raises(StoreError) as caught:
        store.append("s", [("notice", {"n": 6}), ("notice", {"n": 7})], {"title": "new"})
    assert caught.value.code == "damaged"
    info = store.session("s")
    assert info is not None
    assert (info.last_seq, info.title) == (5, "")
    assert [e.seq for e in store.events("s") if not e.damaged] == [1, 2, 3, 4, 5, 7]


def test_an_unknown_kind_is_kept(store: SqliteStore) -> None:
    store.create_session(SessionInfo("t", "run"), [("from_the_future", {"a": 1})])
    assert [(e.kind, e.data) for e in store.events("t")] == [("from_the_future", {"a": 1})]


def test_a_session_with_damaged_columns_is_listed_with_the_others(store: SqliteStore, raw: sqlite3.Connection) -> None:
    store.create_session(SessionInfo("t", "run", title="fine"), [])
    raw.execute(
        "UPDATE session SET kind = NULL, depth = 'deep', title = CAST(X'41FF' AS TEXT), model = 3,"
        " input_tokens = X'00', owner = X'FF' WHERE id = 's'"
    )
    damaged, fine = store.sessions()
    assert (damaged.kind, damaged.depth, damaged.title, damaged.model) == ("", 0, "A\ufffd", "3")
    assert damaged.status == "interrupted"
    assert fine.title == "fine"


def test_a_damaged_draft_or_value_does_not_raise(store: SqliteStore, raw: sqlite3.Connection) -> None:
    store.set_value("k", 1)
    store.set_draft("s", "m", "text")
    raw.execute("UPDATE value SET body = X'FF'")
    raw.execute("UPDATE draft SET text = CAST(X'FF' AS TEXT)")
    assert store.get_value("k") is None
    assert store.draft("s") == ("m", "\ufffd", "")


def test_a_damaged_revision_leaves_the_others_readable(store: SqliteStore, raw: sqlite3.Connection) -> None:
    for n in (1, 2):
        store.add_revision(Revision("a", f"sha256:{n}", (), "T", "person", "m"))
    raw.execute("UPDATE revision SET files = '[{' WHERE digest = 'sha256:1'")
    assert [r.digest for r in store.revisions("a")] == ["sha256:1", "sha256:2"]
    with pytest.raises(StoreError) as caught:
        store.revision("a", "sha256:1")
    assert caught.value.code == "damaged"
    assert store.revision("a", "sha256:2") is not None


ODD = ["NULL", "''", "'no JSON'", "7", "1.5", "'7'", "'[]'", "'{}'", "'[7]'", "X'00FF'", "CAST(X'FF41' AS TEXT)"]
NESTED = "replace(hex(zeroblob(50000)), '00', '[')"


@pytest.mark.parametrize("value", [*ODD, NESTED])
@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("revision", ("parents", "at", "by", "message", "source", "licence", "session", "files")),
        ("validation", ("at", "checks_version", "environment", "checks", "problems")),
        ("channel", ("validation_run", "at", "by", "action")),
    ],
)
def test_whatever_a_column_of_a_record_became_the_record_is_listed(
    store: SqliteStore, raw: sqlite3.Connection, table: str, columns: tuple[str, ...], value: str
) -> None:
    store.add_revision(Revision("a", "sha256:1", (), "T", "person", "m", source={"path": "p"}, licence={"spdx": "MIT"}))
    store.add_validation(ValidationRun("v", "a", "sha256:1", "T", True, "1", {}))
    store.move_channel(ChannelEntry("a", "live", "sha256:1", "v", "T", "person"), None)
    for column in columns:
        raw.execute(f'UPDATE {table} SET "{column}" = {value}')
        (revision,), (run,), (entry,) = store.revisions("a"), store.validations("a"), store.channel_log("a")
        assert (revision.digest, run.id, entry.digest) == ("sha256:1", "v", "sha256:1")
        assert all(isinstance(facts, dict | None) for facts in (revision.source, revision.licence, run.environment))
        assert all(isinstance(text, str) for text in (revision.at, revision.message, run.at, entry.at, entry.action))
        assert all(isinstance(problem, dict) for problem in run.problems)


@pytest.mark.parametrize("value", [value for value in ODD if value not in ("7", "1.5", "'7'")])
def test_a_damaged_cost_is_one_that_is_not_known(store: SqliteStore, raw: sqlite3.Connection, value: str) -> None:
    raw.execute(f"UPDATE session SET usd = {value}")
    info = store.session("s")
    assert info is not None
    assert info.usd is None


@pytest.mark.parametrize("value", [*ODD, "'../../etc'", "'a' || char(0)"])
def test_a_damaged_owner_is_nobody_alive(store: SqliteStore, raw: sqlite3.Connection, value: str) -> None:
    raw.execute(f"UPDATE session SET owner = {value}")
    assert store.owner_socket("s") is None
    assert store.claim("s")


def test_a_damaged_validation_never_counts_as_passed(store: SqliteStore, raw: sqlite3.Connection) -> None:
    store.add_validation(ValidationRun("v", "a", "d", "T", True, "1", {}))
    raw.execute("UPDATE validation SET problems = '{'")
    (run,) = store.validations("a")
    assert run.passed is False
    assert [p["code"] for p in run.problems] == ["damaged"]


def test_a_page_of_garbage_costs_its_events_and_no_more(home: Path) -> None:
    with SqliteStore(home) as store:
        store.create_session(SessionInfo("s", "run"), [])
        store.append("s", [("notice", {"n": n, "text": "x" * 300}) for n in range(1, 1001)])
        store.create_session(SessionInfo("t", "run"), [("notice", {})])
    path = home / "artificer.db"
    data = bytearray(path.read_bytes())
    middle = data.index(b'{"n":500,') // 4096 * 4096
    data[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    with SqliteStore(home) as store:
        events = list(store.events("s"))
        bad = [e.seq for e in events if e.damaged]
        assert [e.seq for e in events] == list(range(1, 1001))
        assert 500 in bad
        assert len(bad) < 30
        assert [e.seq for e in store.tail("s", 1000)] == list(range(1, 1001))
        assert [e.seq for e in store.append("s", [("notice", {})])] == [1001]
        assert [e.kind for e in store.events("t")] == ["notice"]


@pytest.mark.parametrize("indexed_before", [True, False])
def test_a_page_of_garbage_hides_its_own_events_alone_from_a_search(home: Path, indexed_before: bool) -> None:
    with SqliteStore(home) as store:
        store.create_session(SessionInfo("s", "run"), [])
        store.append("s", [("message", {"text": f"needle n{n} " + "x" * 300}) for n in range(1, 201)])
        store.create_session(SessionInfo("t", "run"), [("message", {"text": "another needle"})])
        if indexed_before:
            assert len(store.search("needle", 1000)) == 201
    path = home / "artificer.db"
    data = bytearray(path.read_bytes())
    middle = data.index(b"needle n100 ") // 4096 * 4096
    data[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    with SqliteStore(home) as store:
        unread = {e.seq for e in store.events("s") if e.damaged}
        readable = {("t", 1)} | {("s", n) for n in range(1, 201) if n not in unread}
        assert 0 < len(unread) < 30
        for words in ("needle", "eedle"):  # from the index, and from the bodies
            hits = [(h.session, h.seq) for h in store.search(words, 1000)]
            assert (set(hits), len(hits)) == (readable, len(readable))
        assert [(h.session, h.seq) for h in store.search("needle n200")] == [("s", 200)]


def test_a_file_that_is_no_database_is_named_and_left_alone(home: Path) -> None:
    home.mkdir()
    path = home / "artificer.db"
    path.write_bytes(b"this is a text file\n" * 500)
    with pytest.raises(StoreError) as caught:
        SqliteStore(home)
    assert caught.value.code == "damaged"
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert path.read_bytes() == b"this is a text file\n" * 500


def test_another_programs_database_is_left_alone(home: Path) -> None:
    home.mkdir()
    path = home / "artificer.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (a)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        SqliteStore(home)
    assert caught.value.code == "damaged"
    assert path.read_bytes() == before


def test_a_newer_database_is_refused_and_left_alone(home: Path) -> None:
    SqliteStore(home).close()
    path = home / "artificer.db"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        SqliteStore(home)
    assert caught.value.code == "newer_version"
    assert "99" in caught.value.message
    assert path.read_bytes() == before


def test_an_older_database_is_brought_forward(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from impl.store import schema

    with SqliteStore(home) as store:
        store.create_session(SessionInfo("s", "run"), [("notice", {})])
    step = ("ALTER TABLE session ADD COLUMN colour TEXT", "CREATE TABLE extra (a)")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    with SqliteStore(home) as store:
        assert [e.kind for e in store.events("s")] == ["notice"]
        store.append("s", [("notice", {})])
    with sqlite3.connect(home / "artificer.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT count(*) FROM extra").fetchone() == (0,)
    db.close()


def test_a_migration_that_fails_changes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from impl.store import schema

    SqliteStore(home).close()
    step = ("CREATE TABLE extra (a)", "NOT SQL AT ALL")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
        with pytest.raises(StoreError):
            SqliteStore(home)
    with SqliteStore(home) as store:
        assert store.sessions() == []
    with sqlite3.connect(home / "artificer.db") as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
    db.close()


def test_a_database_that_stays_locked_is_busy(
    store: SqliteStore, raw: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from impl.store import database

    monkeypatch.setattr(database, "PATIENCE_S", 0.05)
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as caught:
        store.move_channel(ChannelEntry("a", "live", "d", None, "", "person"), None)
    assert caught.value.code == "busy"
    assert len(list(store.events("s"))) == 5
    raw.execute("ROLLBACK")
    assert store.move_channel(ChannelEntry("a", "live", "d", None, "", "person"), None).refused is None
