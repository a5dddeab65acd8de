"""Several processes on one home, some of them killed."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from core.ports import SessionInfo
from impl.store.sqlite import SqliteStore

Spawn = Callable[..., "subprocess.Popen[str]"]


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_two_processes_append_to_one_session_without_losing_or_mixing(
    store: SqliteStore, home: Path, spawn: Spawn
) -> None:
    store.create_session(SessionInfo("s", "run"), [])
    code = """
for n in range(300):
    store.append("s", [("notice", {"by": sys.argv[2], "n": n}), ("notice", {"by": sys.argv[2], "n": n})])
"""
    processes = [spawn(home, code, name) for name in ("a", "b", "c")]
    assert [p.wait(60) for p in processes] == [0, 0, 0]
    events = list(store.events("s"))
    assert [e.seq for e in events] == list(range(1, 1801))
    for name in ("a", "b", "c"):
        assert [e.data["n"] for e in events if e.data["by"] == name] == [n // 2 for n in range(600)]
    pairs = zip(events[::2], events[1::2], strict=True)
    assert all(first.data == second.data for first, second in pairs)


def test_processes_that_make_a_home_at_once_all_get_it(home: Path, spawn: Spawn) -> None:
    code = 'store.create_session(SessionInfo(sys.argv[2], "run"), [("started", {})])'
    processes = [spawn(home, code, f"s{n}") for n in range(4)]
    assert [p.wait(60) for p in processes] == [0] * 4
    with SqliteStore(home) as store:
        assert sorted(s.id for s in store.sessions()) == ["s0", "s1", "s2", "s3"]


def test_of_processes_that_claim_at_once_one_wins(store: SqliteStore, home: Path, spawn: Spawn) -> None:
    for n in range(20):
        store.create_session(SessionInfo(f"s{n}", "run"), [])
        store.release(f"s{n}")
    code = """
sys.stdin.readline()
tell(" ".join(f"s{n}" for n in range(20) if store.claim(f"s{n}")))
sys.stdin.readline()
"""
    processes = [spawn(home, code) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    won = [name for process in processes for name in line(process).split()]
    assert sorted(won) == sorted(f"s{n}" for n in range(20))


def test_of_processes_that_publish_at_once_one_moves_the_channel(store: SqliteStore, home: Path, spawn: Spawn) -> None:
    code = """
sys.stdin.readline()
entry = ChannelEntry("a", "live", sys.argv[2], None, "", "person")
tell(store.move_channel(entry, None).refused)
"""
    processes = [spawn(home, code, f"sha256:{n}") for n in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert sorted(line(p) for p in processes) == ["None", "stale_head", "stale_head", "stale_head"]
    assert len(store.channel_log("a")) == 4
    (moved,) = [e for e in store.channel_log("a") if e.refused is None]
    assert store.channels("a") == {"live": moved.digest}


def test_writes_of_another_process_change_data_version(store: SqliteStore, home: Path, spawn: Spawn) -> None:
    store.create_session(SessionInfo("s", "run"), [])
    before = store.data_version()
    assert spawn(home, 'store.append("s", [("notice", {})])').wait(60) == 0
    assert store.data_version() != before
    assert [e.kind for e in store.events("s")] == ["notice"]


@pytest.mark.slow
def test_whatever_was_reported_survives_kill_9(home: Path, spawn: Spawn) -> None:
    chance = random.Random(7)
    code = """
name = sys.argv[2]
store.create_session(SessionInfo(name, "run"), [("started", {})])
n = 0
while True:
    n += 1
    body = {"n": n, "text": "x" * (n * 37 % 5000)}
    tell(store.append(name, [("notice", body), ("notice", body)], {"requests": n})[-1].seq)
"""
    for round_number in range(20):
        name = f"s{round_number}"
        process = spawn(home, code, name)
        seen = [line(process) for _ in range(chance.randrange(1, 300))]
        process.kill()
        assert process.stdout is not None
        # The last line may have been cut by the kill.
        seen += process.stdout.read().split("\n")[:-1]
        reported = int(seen[-1])
        with SqliteStore(home) as store:
            events = list(store.events(name))
            info = store.session(name)
            assert info is not None
            assert info.status == "interrupted"
            # Every append whole, none missing, and the column that went with it too.
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            assert len(events) >= reported
            assert (len(events), info.requests) == (2 * info.requests + 1, (info.last_seq - 1) // 2)
            assert [e.data.get("n") for e in events[1::2]] == list(range(1, info.requests + 1))


def test_the_older_of_two_programs_stops_writing_once_the_newer_has_migrated(home: Path, spawn: Spawn) -> None:
    code = """
store.create_session(SessionInfo("s", "run"), [])
tell("ready")
sys.stdin.readline()
try:
    store.append("s", [("notice", {})])
except StoreError as error:
    tell(error.code)
tell(len(list(store.events("s"))))
try:
    store.draft("s")
except StoreError as error:
    tell(error.code)
"""
    older = spawn(home, code)
    assert line(older) == "ready"
    newer = """
import impl.store.schema as schema
store.close()
schema.MIGRATIONS = (*schema.MIGRATIONS, ("ALTER TABLE draft RENAME COLUMN text TO words",))
store = SqliteStore(Path(sys.argv[1]))
store.append("s", [("notice", {"by": "newer"})])
"""
    assert spawn(home, newer).wait(60) == 0
    assert older.stdin is not None
    older.stdin.write("\n")
    older.stdin.flush()
    assert line(older) == "newer_version"
    assert line(older) == "1"
    assert line(older) == "newer_version"


def test_homes_opened_and_closed_by_several_processes_lose_nothing(home: Path, spawn: Spawn) -> None:
    code = """
store.create_session(SessionInfo(sys.argv[2], "run"), [])
for n in range(60):
    store.close()
    store = SqliteStore(Path(sys.argv[1]))
    store.append(sys.argv[2], [("notice", {"n": n})])
"""
    processes = [spawn(home, code, f"s{n}") for n in range(3)]
    assert [p.wait(60) for p in processes] == [0] * 3
    with SqliteStore(home) as store:
        assert [s.last_seq for s in store.sessions()] == [60] * 3
