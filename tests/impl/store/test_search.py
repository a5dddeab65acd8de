"""Search: words in messages, tool outputs and stops, newest first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.ports import SessionInfo
from impl.store import search
from impl.store.sqlite import SqliteStore


@pytest.fixture
def store(home: Path) -> Iterator[SqliteStore]:
    times = (f"2030-01-01T00:00:{n // 1000:02}.{n % 1000:03}Z" for n in range(60_000))
    with SqliteStore(home, now=lambda: next(times)) as store:
        store.create_session(SessionInfo("old", "run"), [])
        store.create_session(SessionInfo("new", "run"), [])
        yield store


def say(store: SqliteStore, text: str, session: str = "old", kind: str = "message") -> None:
    store.append(session, [(kind, {"role": "user", "text" if kind == "message" else "output": text})])


def found(store: SqliteStore, text: str, limit: int = 50) -> list[tuple[str, int]]:
    return [(h.session, h.seq) for h in store.search(text, limit)]


def test_words_are_found_in_any_case_order_and_by_their_beginnings(store: SqliteStore) -> None:
    say(store, "The Parser failed on line 3")
    say(store, "Something else failed")
    assert found(store, "failed parser") == [("old", 1)]
    assert found(store, "pars") == [("old", 1)]
    assert found(store, "FAILED") == [("old", 2), ("old", 1)]
    assert found(store, "nowhere") == []


def test_the_newest_event_comes_first_whatever_its_session(store: SqliteStore) -> None:
    say(store, "needle", "old")
    say(store, "needle", "new")
    say(store, "needle", "old")
    assert found(store, "needle") == [("old", 2), ("new", 1), ("old", 1)]
    assert found(store, "needle", limit=2) == [("old", 2), ("new", 1)]


def test_tool_outputs_and_stops_are_searched_and_other_kinds_are_not(store: SqliteStore) -> None:
    say(store, "needle", kind="tool_result")
    say(store, "needle", kind="stop")
    say(store, "needle", kind="log")
    assert [h.kind for h in store.search("needle")] == ["stop", "tool_result"]


def test_what_is_appended_after_a_search_is_found_by_the_next(store: SqliteStore) -> None:
    say(store, "first needle")
    assert found(store, "needle") == [("old", 1)]
    say(store, "second needle")
    assert found(store, "needle") == [("old", 2), ("old", 1)]


def test_parts_of_words_and_scripts_without_spaces_are_found(store: SqliteStore) -> None:
    say(store, "misinterpretation")
    say(store, "他们正在检查数据库的完整性")
    assert found(store, "terpret") == [("old", 1)]
    assert found(store, "数据库") == [("old", 2)]


def test_signs_mean_themselves(store: SqliteStore) -> None:
    say(store, 'a "quoted" 100% path\\to_file -- NEAR(x) AND\nline two')
    for text in ('"quoted"', "100%", "path\\to", "--", "NEAR(x)", "AND", '"', "to_file", "AND\nline", "*"):
        assert found(store, text) == ([] if text == "*" else [("old", 1)]), text
    assert found(store, "pathXto") == []
    assert found(store, "  ") == []


def test_accents_do_not_matter(store: SqliteStore) -> None:
    say(store, "Crème brûlée")
    assert found(store, "creme BRULEE") == [("old", 1)]


def test_a_snippet_shows_the_place_on_one_line(store: SqliteStore) -> None:
    say(store, "x " * 500 + "before\n\nneedle after" + " y" * 500)
    (hit,) = store.search("needle")
    assert "before needle after" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 200


def test_damaged_and_odd_events_are_passed_over(store: SqliteStore) -> None:
    store.append("old", [("message", {"text": 3}), ("stop", {"output": None}), ("message", {})])
    say(store, "needle")
    assert found(store, "needle") == [("old", 4)]


def test_without_an_index_the_same_is_found(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_INDEX", "CREATE VIRTUAL TABLE words USING not_in_this_build(text)")
    for n in range(450):
        say(store, f"needle {n}")
    assert found(store, "Needle", limit=1000) == [("old", n) for n in range(450, 0, -1)]


def test_processes_that_index_at_once_find_each_event_once(
    home: Path, store: SqliteStore, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    store.append("old", [("message", {"role": "user", "text": f"needle {n}"}) for n in range(3000)])
    code = """
for n in range(300):
    store.append("new", [("message", {"role": "user", "text": "needle"})])
    if n % 10 == 0:
        store.search("needle")
tell(len(store.search("needle", 10_000)))
"""
    processes = [spawn(home, code) for _ in range(2)]
    assert [p.wait(60) for p in processes] == [0, 0]
    hits = found(store, "needle", 10_000)
    assert len(hits) == len(set(hits)) == 3600
