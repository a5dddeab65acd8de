"""The home list: who waits comes first, oldest first; children stand under their parents."""

from __future__ import annotations

from dataclasses import replace

from core import SessionInfo
from tui.view.fleet import AgentInfo, fleet
from tui.view.rows import matching
from tui.view.text import plain_text

NOW = "2026-03-04T12:00:00.000Z"


def info(name: str, stop: str | None = "completed", ended: str = "2026-03-04T11:00:00Z", **more: object) -> SessionInfo:
    base = SessionInfo(name, "builder", agent=name, stop=stop, started="2026-03-04T10:00:00Z", ended=ended, usd="0.10")
    return replace(base, **more)  # type: ignore[arg-type]


def keys(*sessions: SessionInfo, agents: tuple[AgentInfo, ...] = ()) -> list[str]:
    return [row.key or plain_text(row.left) for row in fleet(sessions, agents, NOW).rows]


def test_groups_come_in_their_order_and_the_longest_waiting_first() -> None:
    found = keys(
        info("done"),
        info("asked later", "awaiting_user", "2026-03-04T11:30:00Z"),
        info("asked first", "doom_loop", "2026-03-04T11:10:00Z"),
        info("works", None, status="running"),
        info("long ago", ended="2026-03-01T11:00:00Z"),
        agents=(AgentInfo("bot", None, None),),
    )
    assert found == [
        "WAITING FOR YOU",
        "session:asked first",
        "session:asked later",
        "RUNNING",
        "session:works",
        "DONE TODAY",
        "session:done",
        "AGENTS",
        "agent:bot",
        "EARLIER",
        "session:long ago",
    ]


def test_failures_and_interrupted_sessions_wait_for_the_person() -> None:
    waiting = fleet(
        [info("a", "provider_error"), info("b", None, status="interrupted"), info("c", "cancelled")], (), NOW
    )
    assert waiting.waiting == 2


def test_children_stand_under_their_parent_whatever_became_of_them() -> None:
    found = keys(info("parent", None, status="running"), info("child", parent="parent", depth=1))
    assert found == ["RUNNING", "session:parent", "session:child"]


def test_a_price_that_is_unknown_is_said() -> None:
    headline = plain_text(fleet([info("a"), info("b", usd=None)], (), NOW).headline)
    assert headline == "0 waiting · 0 running · $0.10 + unknown today"


def test_a_filter_keeps_the_rows_with_all_its_words_and_their_headings() -> None:
    rows = fleet([info("doc-helper"), info("bot", "awaiting_user")], (), NOW).rows
    assert [row.key or plain_text(row.left) for row in matching(rows, "doc help")] == [
        "DONE TODAY",
        "session:doc-helper",
    ]
    assert matching(rows, "nothing like it") == ()
