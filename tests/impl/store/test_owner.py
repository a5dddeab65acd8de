"""Ownership: who drives a session, and what death leaves behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from core.ports import SessionInfo, StoreError
from impl.store.sqlite import SqliteStore

Spawn = Callable[..., "subprocess.Popen[str]"]
HOLD = """
store.create_session(SessionInfo("s", "run"), [("started", {})])
tell(store.own_socket())
sys.stdin.readline()
"""


def begin(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def status(store: SqliteStore, session: str = "s") -> str:
    info = store.session(session)
    assert info is not None
    return info.status


def test_opening_and_reading_makes_no_lock_file(home: Path, store: SqliteStore) -> None:
    assert store.sessions() == []
    assert not (home / "run").exists()


def test_a_session_is_owned_by_the_process_that_made_it(store: SqliteStore) -> None:
    store.create_session(SessionInfo("s", "run"), [])
    assert status(store) == "running"
    assert store.owner_socket("s") == store.own_socket()


def test_a_living_owner_is_seen_by_others_and_keeps_the_session(store: SqliteStore, home: Path, spawn: Spawn) -> None:
    socket = begin(spawn(home, HOLD))
    assert status(store) == "running"
    assert [s.status for s in store.sessions()] == ["running"]
    assert str(store.owner_socket("s")) == socket
    assert store.claim("s") is False


def test_a_killed_owner_leaves_an_interrupted_session_that_can_be_claimed(
    store: SqliteStore, home: Path, spawn: Spawn
) -> None:
    process = spawn(home, HOLD)
    socket = Path(begin(process))
    socket.touch()
    process.kill()
    process.wait()
    assert status(store) == "interrupted"
    assert store.owner_socket("s") is None
    assert store.claim("s") is True
    assert status(store) == "running"
    assert not socket.exists()
    assert len(list((home / "run").glob("*.lock"))) == 1


def test_a_stop_makes_it_stopped_and_clearing_it_running_again(store: SqliteStore) -> None:
    store.create_session(SessionInfo("s", "run"), [])
    store.append("s", [("stop", {"stop": "awaiting_user"})], {"stop": "awaiting_user", "ended": "T"})
    assert status(store) == "stopped"
    assert store.claim("s") is True
    assert status(store) == "stopped"
    store.append("s", [("answer", {"text": "yes"})], {"stop": None, "ended": None})
    assert status(store) == "running"


def test_a_released_session_can_be_claimed_by_another(home: Path, store: SqliteStore) -> None:
    store.create_session(SessionInfo("s", "run"), [])
    with SqliteStore(home) as other:
        assert other.claim("s") is False
        other.release("s")
        assert other.claim("s") is False
        store.release("s")
        assert other.claim("s") is True
        assert store.claim("s") is False
    assert status(store) == "interrupted"
    assert store.claim("s") is True


def test_claiming_twice_is_the_same_as_once(store: SqliteStore) -> None:
    store.create_session(SessionInfo("s", "run"), [])
    assert store.claim("s") is True
    assert store.claim("s") is True


def test_an_unknown_session_cannot_be_claimed(store: SqliteStore) -> None:
    with pytest.raises(StoreError) as caught:
        store.claim("nobody")
    assert caught.value.code == "not_found"


def test_a_child_process_does_not_keep_the_lock_of_its_dead_parent(
    store: SqliteStore, home: Path, spawn: Spawn
) -> None:
    code = HOLD.replace("sys.stdin", 'import subprocess; tell(subprocess.Popen(["sleep", "60"]).pid)\nsys.stdin')
    code = code.replace("tell(store.own_socket())", "import os\nstore.own_socket()")
    process = spawn(home, code)
    child = int(begin(process))
    try:
        process.kill()
        process.wait()
        assert status(store) == "interrupted"
    finally:
        os.kill(child, 9)


def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(store: SqliteStore, home: Path, spawn: Spawn) -> None:
    code = """
import os, time
store.create_session(SessionInfo("s", "run"), [])
child = os.fork()
if child == 0:
    tell(os.getpid())
    time.sleep(60)
time.sleep(60)
"""
    process = spawn(home, code)
    child = int(begin(process))
    try:
        assert status(store) == "running"
        process.kill()
        process.wait()
        assert status(store) == "interrupted"
    finally:
        os.kill(child, 9)


def test_the_socket_of_a_deep_home_lies_in_a_private_short_directory(tmp_path: Path) -> None:
    home = tmp_path / ("deep" * 20) / ("home" * 20)
    with SqliteStore(home) as store, SqliteStore(home) as other:
        socket = store.own_socket()
        assert len(os.fsencode(socket)) <= 100
        assert socket.parent.stat().st_mode & 0o777 == 0o700
        store.create_session(SessionInfo("s", "run"), [])
        assert other.owner_socket("s") == socket
    assert not socket.parent.exists()


def test_closing_removes_lock_and_socket(home: Path) -> None:
    with SqliteStore(home) as store:
        store.own_socket().touch()
    assert list((home / "run").iterdir()) == []
