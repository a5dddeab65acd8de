"""What is spent is added up where it was spent, and what is not known of it stays unknown."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from core import SessionInfo, costs_by
from impl.store.sqlite import SqliteStore


class Book:
    """A store whose clock a test sets, and sessions that spent something in it."""

    def __init__(self, home: Path) -> None:
        self.now = "2026-03-01T10:00:00Z"
        self.store = SqliteStore(home, now=lambda: self.now)

    def spend(self, session: str, usd: str | None, *, agent: str | None = "pilot", parent: str | None = None) -> None:
        """One request of a session, begun where it is new."""
        known = self.store.session(session)
        if known is None:
            info = SessionInfo(id=session, kind="run", agent=agent, parent=parent, started=self.now, usd="0.00")
            self.store.create_session(info, [("started", {})])
            known = self.store.session(session)
            assert known is not None
        total = None if usd is None or known.usd is None else str(Decimal(known.usd) + Decimal(usd))
        body = {"input_tokens": 10, "output_tokens": 2, "cached_tokens": 4, "requests": 1, "cost": {"usd": usd}}
        columns = {
            "input_tokens": known.input_tokens + 10,
            "output_tokens": known.output_tokens + 2,
            "cached_tokens": known.cached_tokens + 4,
            "requests": known.requests + 1,
            "usd": total,
            "ended": self.now,
            "stop": "completed",
        }
        self.store.append(session, [("usage", body)], columns)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def test_by_session_each_stands_alone(book: Book) -> None:
    book.spend("a", "0.01")
    book.spend("b", "0.02")
    book.spend("b", "0.02")
    rows = costs_by(book.store, ["session"])
    assert [(row["session"], row["requests"], row["input_tokens"], row["usd"]) for row in rows] == [
        ("a", 1, 10, "0.01"),
        ("b", 2, 20, "0.04"),
    ]


def test_by_tree_children_count_where_they_began(book: Book) -> None:
    book.spend("a", "0.01")
    book.spend("child", "0.02", agent="mate", parent="a")
    book.spend("grandchild", "0.04", agent="mate", parent="child")
    book.spend("other", "0.08", parent="long-gone")
    rows = {row["tree"]: row for row in costs_by(book.store, ["tree"])}
    assert {tree: (row["sessions"], row["usd"], row["agent"]) for tree, row in rows.items()} == {
        "a": (3, "0.07", "pilot"),
        "other": (1, "0.08", "pilot"),
    }


def test_by_agent_all_its_sessions_count(book: Book) -> None:
    book.spend("a", "0.01")
    book.spend("b", "0.02", agent="mate")
    book.spend("c", "0.04")
    book.spend("d", "0.08", agent=None)
    assert [(row["agent"], row["usd"]) for row in costs_by(book.store, ["agent"])] == [
        ("mate", "0.02"),
        ("pilot", "0.05"),
        ("run", "0.08"),
    ]


def test_by_day_it_counts_when_it_was_spent(book: Book) -> None:
    book.spend("a", "0.01")
    book.now = "2026-03-02T00:30:00Z"
    book.spend("a", "0.04")
    book.spend("b", "0.08")
    rows = costs_by(book.store, ["day"])
    assert [(row["day"], row["sessions"], row["usd"]) for row in rows] == [
        ("2026-03-01", 1, "0.01"),
        ("2026-03-02", 2, "0.12"),
    ]


@pytest.mark.parametrize("key", ["day", "agent", "tree"])
def test_what_is_not_known_stays_unknown_beside_what_is(book: Book, key: str) -> None:
    book.spend("a", "0.01")
    book.spend("b", None, parent="a")
    (row,) = costs_by(book.store, [key])  # type: ignore[list-item]
    assert (row["usd"], row["known_usd"], row["unknown"], row["sessions"]) == (None, "0.01", 1, 2)


def test_sessions_that_name_each_other_as_parents_end(book: Book) -> None:
    book.spend("a", "0.01", parent="b")
    book.spend("b", "0.02", parent="a")
    assert sum(Decimal(row["usd"]) for row in costs_by(book.store, ["tree"])) == Decimal("0.03")
