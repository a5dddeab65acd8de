"""Sessions and events: what is appended is what is read."""

from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from core.events import Event
from core.ports import SessionInfo, Store, StoreError
from impl.store.sqlite import SqliteStore


def make(store: SqliteStore, name: str = "s1", **fields: object) -> list[Event]:
    info = SessionInfo(name, "run", **fields)  # type: ignore[arg-type]
    return store.create_session(info, [("started", {"kind": "run"})])


def numbers(store: SqliteStore, session: str = "s1", **how: object) -> list[int]:
    return [e.seq for e in store.events(session, **how)]  # type: ignore[arg-type]


def test_it_is_a_store(store: SqliteStore) -> None:
    port: Store = store
    assert port.sessions() == []


def test_events_are_numbered_from_one_without_gaps(store: SqliteStore) -> None:
    make(store)
    store.append("s1", [("notice", {"text": "a"}), ("notice", {"text": "b"})])
    made = store.append("s1", [("notice", {"text": "c"})])
    assert [e.seq for e in made] == [4]
    assert [(e.seq, e.kind) for e in store.events("s1")] == [
        (1, "started"),
        (2, "notice"),
        (3, "notice"),
        (4, "notice"),
    ]


def test_an_appended_event_equals_the_one_read_back(store: SqliteStore) -> None:
    make(store)
    data = {"role": "user", "text": 'ünï "quoted"\n\u2028 \ud83d half', "n": [1, None, True, 1.5]}
    (made,) = store.append("s1", [("message", data)])
    (read,) = store.events("s1", after=1)
    assert made.to_json() == read.to_json()
    assert read.data["text"] == 'ünï "quoted"\n\u2028 \ufffd half'


def test_times_come_from_the_clock_given(home: Path) -> None:
    with SqliteStore(home, now=lambda: "2030-01-02T03:04:05.678Z") as store:
        assert make(store)[0].at == "2030-01-02T03:04:05.678Z"
        info = store.session("s1")
        assert info is not None
        assert info.started == "2030-01-02T03:04:05.678Z"


def test_the_default_clock_says_milliseconds_and_z(store: SqliteStore) -> None:
    at = make(store)[0].at
    assert len(at) == len("2030-01-02T03:04:05.678Z")
    assert at.endswith("Z")


def test_events_can_be_read_after_a_seq_by_kind_and_up_to_a_limit(store: SqliteStore) -> None:
    make(store)
    for n in range(10):
        store.append("s1", [("usage" if n % 2 else "message", {"n": n})])
    assert numbers(store, after=9) == [10, 11]
    assert numbers(store, limit=3) == [1, 2, 3]
    assert numbers(store, kinds=["usage"], after=4) == [5, 7, 9, 11]
    assert numbers(store, kinds=["usage"], limit=2) == [3, 5]
    assert numbers(store, kinds=[]) == []


def test_long_sessions_are_read_whole_across_pages(store: SqliteStore) -> None:
    make(store)
    store.append("s1", [("notice", {"n": n}) for n in range(9_999)])
    assert numbers(store) == list(range(1, 10_001))
    assert numbers(store, kinds=["notice"], limit=5_000) == list(range(2, 5_002))


def test_tail_gives_the_last_events_oldest_first(store: SqliteStore) -> None:
    make(store)
    make(store, "s2")
    store.append("s1", [("notice", {"n": n}) for n in range(10)])
    assert [e.seq for e in store.tail("s1", 3)] == [9, 10, 11]
    assert [e.seq for e in store.tail("s2", 3)] == [1]
    assert store.tail("s1", 0) == []


def test_events_appended_while_iterating_are_seen(store: SqliteStore) -> None:
    make(store)
    store.append("s1", [("notice", {"n": n}) for n in range(300)])
    reading = store.events("s1")
    next(reading)
    store.append("s1", [("notice", {"last": True})])
    assert [e.seq for e in reading][-1] == 302


def test_columns_change_together_with_the_events(store: SqliteStore) -> None:
    make(store, agent="a", depth=2)
    store.append("s1", [("stop", {"stop": "completed"})], {"stop": "completed", "ended": "T", "usd": "0.1"})
    info = store.session("s1")
    assert info is not None
    assert (info.stop, info.ended, info.usd, info.last_seq, info.agent, info.depth) == (
        "completed",
        "T",
        "0.1",
        2,
        "a",
        2,
    )


def test_half_a_surrogate_pair_in_a_column_is_no_obstacle(store: SqliteStore) -> None:
    make(store, title="cut \ud83d")
    store.append("s1", [], {"summary": "cut \ud83d"})
    info = store.session("s1")
    assert info is not None
    assert (info.title, info.summary) == ("cut ?", "cut ?")
    assert store.match_session("\ud83d") == []
    assert store.search("\ud83d") == []


def test_columns_alone_can_be_set_without_an_event(store: SqliteStore) -> None:
    make(store)
    assert store.append("s1", [], {"title": "A title"}) == []
    info = store.session("s1")
    assert info is not None
    assert (info.title, info.last_seq) == ("A title", 1)


def test_an_unknown_column_changes_nothing(store: SqliteStore) -> None:
    make(store)
    with pytest.raises(ValueError, match="status"):
        store.append("s1", [("notice", {})], {"status": "running"})
    assert numbers(store) == [1]


def test_a_failing_append_leaves_nothing_of_itself(store: SqliteStore) -> None:
    make(store)
    with pytest.raises(sqlite3.Error):
        store.append("s1", [("notice", {})], {"title": object()})
    with pytest.raises(TypeError):
        store.append("s1", [("notice", {}), ("notice", {"not json": object()})])
    assert numbers(store) == [1]
    assert [e.seq for e in store.append("s1", [("notice", {})])] == [2]


def test_appends_of_several_sessions_are_stored_in_their_order(store: SqliteStore) -> None:
    make(store)
    store.create_session(SessionInfo("s2", "run"), [])
    one, two = ("s1", [("notice", {"n": 1})], {"requests": 1}), ("s2", [("notice", {"n": 2})], None)
    three = ("s1", [("notice", {"n": 3}), ("notice", {"n": 4})], {"requests": 2})
    before = store.data_version()
    made = store.append_all([one, two, three])
    assert store.data_version() - before == 1
    assert [[(e.session, e.seq) for e in events] for events in made] == [
        [("s1", 2)],
        [("s2", 1)],
        [("s1", 3), ("s1", 4)],
    ]
    assert [e.data.get("n") for e in store.events("s1", after=1)] == [1, 3, 4]
    info = store.session("s1")
    assert info is not None
    assert (info.requests, info.last_seq) == (2, 4)


def test_of_appends_of_which_one_fails_none_is_stored(store: SqliteStore) -> None:
    make(store)
    with pytest.raises(StoreError, match="nobody"):
        store.append_all([("s1", [("notice", {})], {"requests": 9}), ("nobody", [("notice", {})], None)])
    assert numbers(store) == [1]
    info = store.session("s1")
    assert info is not None
    assert (info.requests, info.last_seq) == (0, 1)


def test_an_unknown_session_cannot_be_appended_to(store: SqliteStore) -> None:
    with pytest.raises(StoreError) as caught:
        store.append("nobody", [("notice", {})])
    assert caught.value.code == "not_found"
    assert list(store.events("nobody")) == []
    assert store.tail("nobody", 5) == []
    assert store.session("nobody") is None
    assert store.draft("nobody") is None


def test_a_session_id_is_used_once(store: SqliteStore) -> None:
    make(store)
    with pytest.raises(ValueError, match="s1"):
        make(store)
    assert numbers(store) == [1]


def test_sessions_are_listed_oldest_first_and_the_newest_kept_by_a_limit(store: SqliteStore) -> None:
    for name in ("b", "a", "c"):
        make(store, name)
    assert [s.id for s in store.sessions()] == ["b", "a", "c"]
    assert [s.id for s in store.sessions(limit=2)] == ["a", "c"]


def test_a_prefix_finds_ids_and_signs_in_it_mean_themselves(store: SqliteStore) -> None:
    for name in ("ab1", "ab2", "a_3"):
        make(store, name)
    assert store.match_session("ab") == ["ab1", "ab2"]
    assert store.match_session("a_") == ["a_3"]
    assert store.match_session("%") == []


def test_a_draft_is_replaced_and_goes_with_the_assistants_message(store: SqliteStore) -> None:
    make(store)
    store.set_draft("s1", "m1", "Hel")
    store.set_draft("s1", "m1", "Hello \ud83d", "hm")
    assert store.draft("s1") == ("m1", "Hello ?", "hm")
    store.append("s1", [("message", {"role": "user", "text": "x"})])
    assert store.draft("s1") is not None
    store.append("s1", [("message", {"role": "assistant", "text": "Hello."})])
    assert store.draft("s1") is None


def test_a_draft_can_be_forgotten(store: SqliteStore) -> None:
    make(store)
    store.set_draft("s1", "m1", "Hel")
    store.clear_draft("s1")
    assert store.draft("s1") is None


def test_everything_is_there_after_reopening(home: Path) -> None:
    with SqliteStore(home) as store:
        make(store)
        store.set_draft("s1", "m1", "half")
        store.set_value("window", {"pane": 3})
    with SqliteStore(home, durability="full") as store:
        assert numbers(store) == [1]
        assert store.draft("s1") == ("m1", "half", "")
        assert store.get_value("window") == {"pane": 3}


def test_values_are_json_and_none_deletes(store: SqliteStore) -> None:
    for value in ("text", 3, [1, {"a": None}], False):
        store.set_value("k", value)
        assert store.get_value("k") == value
    store.set_value("k", None)
    assert store.get_value("k") is None


def test_data_version_changes_with_own_writes_and_not_without(store: SqliteStore) -> None:
    make(store)
    before = store.data_version()
    assert store.data_version() == before
    store.append("s1", [("notice", {})])
    assert store.data_version() != before


def test_threads_may_append_and_read_at_once(store: SqliteStore) -> None:
    names = [f"t{n}" for n in range(4)]
    for name in names:
        make(store, name)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for n in range(50):
                store.append(name, [("notice", {"n": n})])
                assert len(numbers(store, name)) == n + 2
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    work_here = [store.tail(name, 5) for name in names for _ in range(50)]
    for thread in threads:
        thread.join()
    assert not failures
    assert len(work_here) == 200
    assert [numbers(store, name)[-1] for name in names] == [51] * 4


def test_many_sessions_live_in_one_home(store: SqliteStore) -> None:
    for n in range(500):
        make(store, f"s{n:03}")
        store.append(f"s{n:03}", [("notice", {"n": n})])
    assert [s.last_seq for s in store.sessions()] == [2] * 500
    assert [e.data for e in store.events("s321", after=1)] == [{"n": 321}]


def test_only_the_user_may_read_what_is_kept(home: Path, store: SqliteStore) -> None:
    make(store)
    store.put_blob(b"x")
    modes = {p: stat.S_IMODE(p.stat().st_mode) for p in [home, *home.rglob("*")]}
    assert {p.name for p in modes} >= {"artificer.db", "artificer.db-wal", "blobs", "run"}
    assert {p.name for p, mode in modes.items() if mode & 0o077} == set()


def test_sessions_of_some_kinds_or_of_one_parent_are_listed_alone(store: SqliteStore) -> None:
    for name, kind, parent in (("x", "experiment", None), ("a", "arm", "x"), ("r", "run", None), ("b", "arm", "x")):
        store.create_session(SessionInfo(name, kind, parent=parent), [])
    assert [info.id for info in store.sessions(kinds=("experiment", "run"))] == ["x", "r"]
    assert [info.id for info in store.sessions(parent="x")] == ["a", "b"]
    assert [info.id for info in store.sessions(parent="x", kinds=["arm"], limit=1)] == ["b"]
    assert store.sessions(kinds=()) == []
