"""Many sessions share their commits: still nothing is seen, run or gone on with before it is stored."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core import Event, LaunchInput, SessionInfo, Stop, StoreError, Supervisor, ToolContext
from core.group import Group
from impl.store import database
from impl.store.schema import SEQ_BITS, SEQ_MASK
from impl.store.sqlite import SqliteStore
from tests.harness.eval_driver import EvalDriver, make_host, tool, tool_with_context
from tests.harness.scripted import ScriptedProvider, call

SESSIONS, TURNS = 20, 4
WORK = EvalDriver(tools=[tool("work", lambda args: f"{args['n']} done")])


def working() -> ScriptedProvider:
    """One call a turn in each session, then a reply."""

    def turn(request: Any) -> Any:
        done = len(request.messages) // 2
        return "done" if done >= TURNS else [call("work", session=request.session, n=done)]

    return ScriptedProvider([turn] * 10_000)


def many(home: Path, driver: EvalDriver = WORK, **launch: Any) -> tuple[Supervisor, list[str], Any]:
    """Sessions that have all been started, on a host of their own."""
    host = make_host(home, driver=driver, provider=working())
    supervisor = Supervisor(host)
    given = LaunchInput(host=host, task="Work", provider="scripted", **launch)
    return supervisor, [supervisor.start(given) for _ in range(SESSIONS)], host


def stored(home: Path, session: str) -> dict[int, str]:
    """The bodies of a session's events that any other connection sees, by number."""
    with sqlite3.connect(home / "artificer.db") as other:
        sql = "SELECT event.id, body FROM event JOIN session ON sid = event.id >> ? WHERE session.id = ?"
        return {number & SEQ_MASK: body for number, body in other.execute(sql, (SEQ_BITS, session))}


def group_on(home: Path, *sessions: str) -> tuple[Group, SqliteStore]:
    """A group, and its store in which these sessions are."""
    store = SqliteStore(home)
    for session in sessions:
        store.create_session(SessionInfo(session, "run"), [])
    return Group(store, lambda: True), store


def begin(group: Group, session: str, kind: str, shown: list[Event]) -> asyncio.Task[None]:
    """A session that appends one event, and keeps what it is shown."""
    return asyncio.create_task(group.append(session, [(kind, {})], None, shown.extend))


async def test_sessions_at_once_share_their_commits(tmp_path: Path) -> None:
    supervisor, sessions, host = many(tmp_path)
    before = host.store.data_version()
    outcomes = await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    commits = host.store.data_version() - before
    assert {outcome.stop for outcome in outcomes} == {Stop.COMPLETED}
    appends = SESSIONS * (3 * TURNS + 1)
    own = SESSIONS * 3  # its beginning, its stop, and that it is given up
    assert 0 < commits < own + appends / 5


async def test_a_session_alone_stores_what_it_does_at_once(tmp_path: Path) -> None:
    host = make_host(tmp_path, driver=WORK, provider=working())
    supervisor = Supervisor(host)
    before = host.store.data_version()
    await supervisor.wait(supervisor.start(LaunchInput(host=host, task="Work", provider="scripted")))
    assert host.store.data_version() - before == 3 * TURNS + 1 + 3


async def test_no_event_of_many_sessions_is_shown_before_it_is_stored(tmp_path: Path) -> None:
    missing: list[Event] = []

    def watch(event: Event) -> None:
        if event.kind != "draft" and event.seq not in stored(tmp_path, event.session):
            missing.append(event)

    supervisor, sessions, _ = many(tmp_path, watch=watch)
    await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    assert missing == []


async def test_the_intent_is_stored_before_the_tool_runs_also_where_many_do(tmp_path: Path) -> None:
    ran: list[bool] = []

    async def work(args: dict[str, Any], context: ToolContext) -> str:
        intent = f'{{"call":"{context.call}","tool":"work"'
        ran.append(any(body.startswith(intent) for body in stored(tmp_path, context.session).values()))
        return "ok"

    supervisor, sessions, _ = many(tmp_path, EvalDriver(tools=[tool_with_context("work", work)]))
    await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    assert ran == [True] * SESSIONS * TURNS


async def test_a_result_is_stored_before_the_model_reads_it_also_where_many_do(tmp_path: Path) -> None:
    unread: list[str] = []

    def turn(request: Any) -> Any:
        if len(request.messages) == 1:
            return [call("work", n=1)]
        if not any('"output":"1 done"' in body for body in stored(tmp_path, request.session).values()):
            unread.append(request.session)
        return "done"

    host = make_host(tmp_path, driver=WORK, provider=ScriptedProvider([turn] * 2 * SESSIONS))
    supervisor = Supervisor(host)
    launch = LaunchInput(host=host, task="Work", provider="scripted")
    sessions = [supervisor.start(launch) for _ in range(SESSIONS)]
    await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    assert unread == []


async def test_who_is_cancelled_while_waiting_for_the_commit_has_stored_and_shown_what_they_gave(
    tmp_path: Path,
) -> None:
    group, store = group_on(tmp_path, "a", "b")
    shown: list[Event] = []
    cancelled, other = begin(group, "a", "notice", shown), begin(group, "b", "notice", shown)
    await asyncio.sleep(0)
    assert stored(tmp_path, "a") == {}
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert [(event.session, event.seq) for event in shown] == [("a", 1), ("b", 1)]
    assert (set(stored(tmp_path, "a")), set(stored(tmp_path, "b"))) == ({1}, {1})
    await other
    store.close()


async def test_sessions_interrupted_at_any_moment_are_whole_and_go_on(tmp_path: Path) -> None:
    supervisor, sessions, host = many(tmp_path)
    for session in sessions:  # each a tick later in its life than the one before
        await asyncio.sleep(0)
        supervisor.interrupt(session)
    first = await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    assert Stop.CANCELLED in {outcome.stop for outcome in first}
    for session in sessions:
        supervisor.resume(LaunchInput(host=host, session=session, task="Go on"))
    outcomes = await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    assert {outcome.stop for outcome in outcomes} == {Stop.COMPLETED}
    for session in sessions:
        kinds = [event.kind for event in host.store.events(session)]
        asked = [e.data["blocks"] for e in host.store.events(session, kinds=["message"]) if "blocks" in e.data]
        calls = sum(block["t"] == "call" for blocks in asked for block in blocks)
        assert kinds.count("tool_result") == calls
        assert "repair" not in kinds


async def test_a_session_whose_events_do_not_fit_fails_alone(tmp_path: Path) -> None:
    group, store = group_on(tmp_path, "a", "b", "c")
    with sqlite3.connect(tmp_path / "artificer.db") as other:
        other.execute("UPDATE session SET last_seq = -1 WHERE id = 'b'")
        other.execute("INSERT INTO event (id) SELECT sid << ? FROM session WHERE id = 'b'", (SEQ_BITS,))
    shown: list[Event] = []
    tasks = [begin(group, session, "notice", shown) for session in "abc"]
    failures = await asyncio.gather(*tasks, return_exceptions=True)
    assert [getattr(failure, "code", None) for failure in failures] == [None, "damaged", None]
    assert [event.session for event in shown] == ["a", "c"]
    store.close()


async def test_one_whose_watcher_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    group, store = group_on(tmp_path, "a", "b")

    def fail(events: list[Event]) -> None:
        raise RuntimeError("looked too closely")

    shown: list[Event] = []
    bad = asyncio.create_task(group.append("a", [("notice", {})], None, fail))
    await begin(group, "b", "notice", shown)
    with pytest.raises(RuntimeError, match="too closely"):
        await bad
    assert [event.session for event in shown] == ["b"]
    store.close()


async def test_a_database_that_stays_locked_fails_each_and_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE_S", 0.05)
    group, store = group_on(tmp_path, "a", "b")
    shown: list[Event] = []
    locked = sqlite3.connect(tmp_path / "artificer.db", isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    failures = await asyncio.gather(*(begin(group, s, "notice", shown) for s in "ab"), return_exceptions=True)
    assert [getattr(failure, "code", None) for failure in failures] == ["busy", "busy"]
    assert shown == []
    locked.execute("ROLLBACK")
    await begin(group, "a", "notice", shown)
    assert [(event.session, event.seq) for event in shown] == [("a", 1)]
    locked.close()
    store.close()


def locking(home: Path, seconds: float) -> EvalDriver:
    """An agent whose first `lock` keeps the store locked, as another process would, and returns at once."""
    locks: list[sqlite3.Connection] = []

    def lock(args: dict[str, Any]) -> str:
        if not locks:
            locks.append(sqlite3.connect(home / "artificer.db", isolation_level=None))
            locks[0].execute("BEGIN IMMEDIATE")
            asyncio.get_running_loop().call_later(seconds, locks[0].close)
        return "locked"

    return EvalDriver(tools=[tool("lock", lock)])


@pytest.mark.parametrize("sessions", [1, 3])
async def test_running_sessions_outlive_a_lock_that_outlives_the_stores_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sessions: int
) -> None:
    monkeypatch.setattr(database, "PATIENCE_S", 0.02)
    turns = [lambda request: ["Some ", "words"] if len(request.messages) > 1 else [call("lock")]] * 9
    host = make_host(tmp_path, driver=locking(tmp_path, 0.3), provider=ScriptedProvider(turns))
    supervisor = Supervisor(host)
    ids = [supervisor.start(LaunchInput(host=host, task="Go", provider="scripted")) for _ in range(sessions)]
    outcomes = [await supervisor.wait(session) for session in ids]
    assert [(outcome.stop, outcome.record.output) for outcome in outcomes] == [
        (Stop.COMPLETED, "Some words")
    ] * sessions
    for session in ids:
        kinds = [event.kind for event in host.store.events(session)]
        assert (kinds.count("tool_result"), kinds.count("message")) == (1, 3)


async def test_a_store_that_stays_locked_ends_a_session_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE_S", 0.02)
    monkeypatch.setattr("core.session.LOCKED_S", 0.1)
    host = make_host(tmp_path, driver=locking(tmp_path, 30), provider=ScriptedProvider([[call("lock")], "done"]))
    supervisor = Supervisor(host)
    session = supervisor.start(LaunchInput(host=host, task="Go", provider="scripted"))
    with pytest.raises(StoreError, match="kept the database locked"):
        await supervisor.wait(session)
    assert [event.kind for event in host.store.events(session)][-1] == "tool_call"


async def test_another_writer_gets_its_turn_while_many_sessions_run(tmp_path: Path) -> None:
    supervisor, sessions, _ = many(tmp_path)

    def write() -> int:
        written = 0
        with SqliteStore(tmp_path) as other:
            while supervisor.running() and written < 200:
                other.set_value("count", written)
                written += 1
        return written

    writer = asyncio.create_task(asyncio.to_thread(write))
    outcomes = await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    assert {outcome.stop for outcome in outcomes} == {Stop.COMPLETED}
    assert await writer > 0


async def test_garbage_is_looked_for_as_usual_once_the_sessions_have_ended(tmp_path: Path) -> None:
    usual = gc.get_threshold()
    supervisor, sessions, _ = many(tmp_path)
    assert gc.get_threshold()[0] > usual[0]
    await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    await supervisor.close()
    assert gc.get_threshold() == usual


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.core.test_group import EvalDriver, many, tool

home = Path(sys.argv[1])

def work(args):
    ran = os.open(home / "ran", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(ran, f"{args['session']} {args['n']}\\n".encode())
    os.close(ran)
    return f"{args['n']} done"

def show(event):
    if event.kind != "draft":
        os.write(1, f"{event.session} {event.seq}\\n".encode())

async def main():
    supervisor, sessions, _ = many(home, EvalDriver(tools=[tool("work", work)]), watch=show)
    await asyncio.gather(*(supervisor.wait(session) for session in sessions))

asyncio.run(main())
"""


def killed(home: Path, lines: int) -> list[tuple[str, int]]:
    """Many sessions of another process, killed once it has shown about that many events: those it showed."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(home)], stdout=subprocess.PIPE, cwd=root)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    seen += process.stdout.read().split(b"\n")[:-1]  # the last line may have been cut
    process.wait()
    return [(name, int(seq)) for name, seq in (line.decode().split() for line in seen if line)]


@pytest.mark.parametrize("lines", [173, *(pytest.param(n, marks=pytest.mark.slow) for n in (70, 99, 140, 211, 260))])
async def test_of_many_sessions_killed_at_once_nothing_shown_is_lost_and_no_call_runs_twice(
    tmp_path: Path, lines: int
) -> None:
    lost = [(name, seq) for name, seq in killed(tmp_path, lines) if seq not in stored(tmp_path, name)]
    assert lost == []

    def work(args: dict[str, Any]) -> str:
        with (tmp_path / "ran").open("a") as ran:
            ran.write(f"{args['session']} {args['n']}\n")
        return f"{args['n']} done"

    host = make_host(tmp_path, driver=EvalDriver(tools=[tool("work", work)]), provider=working())
    supervisor = Supervisor(host)
    sessions = [info.id for info in host.store.sessions() if info.status == "interrupted"]
    for session in sessions:
        supervisor.resume(LaunchInput(host=host, session=session))
    outcomes = await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    assert {outcome.stop for outcome in outcomes} == {Stop.COMPLETED}
    assert set(Counter((tmp_path / "ran").read_text().split("\n")[:-1]).values()) == {1}
