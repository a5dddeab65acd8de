"""Disks that are full and homes that are read-only: typed errors, and nothing half-written."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from core.ports import SessionInfo, StoreError
from impl.store.sqlite import SqliteStore

Mount = Callable[..., None]
Spawn = Callable[..., "subprocess.Popen[str]"]


def fill(store: SqliteStore) -> tuple[int, StoreError]:
    """Append until it fails; returns the last seq reported and the error."""
    last = 0
    while True:
        try:
            last = store.append("s", [("notice", {"text": "x" * 3000})] * 3, {"requests": last + 3})[-1].seq
        except StoreError as error:
            return last, error


def stuff(directory: Path) -> Path:
    """Fill the disk to the last byte with a file."""
    path = directory / "ballast"
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return path


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(StoreError) as caught:
        call()
    assert caught.value.hint
    return caught.value.code


@pytest.fixture
def small(tmp_path: Path, mount: Mount) -> Path:
    """A disk of one megabyte."""
    point = tmp_path / "disk"
    point.mkdir()
    mount("-t", "tmpfs", "-o", "size=1m", "none", str(point))
    return point


def test_a_full_disk_stops_the_append_and_keeps_what_was_stored(small: Path, mount: Mount) -> None:
    with SqliteStore(small / "home") as store:
        store.create_session(SessionInfo("s", "run"), [])
        last, error = fill(store)
        assert error.code == "disk_full"
        assert str(small) in error.message
        info = store.session("s")
        assert info is not None
        assert (info.last_seq, info.requests) == (last, last)
        assert [e.seq for e in store.events("s")] == list(range(1, last + 1))
        mount("-o", "remount,size=8m", str(small))
        assert [e.seq for e in store.append("s", [("notice", {})])] == [last + 1]
    with SqliteStore(small / "home") as store:
        assert [e.seq for e in store.events("s")] == list(range(1, last + 2))


def test_a_home_on_a_full_disk_opens_for_reading_and_writes_again_when_there_is_room(small: Path) -> None:
    with SqliteStore(small / "home") as store:
        store.create_session(SessionInfo("s", "run"), [("notice", {})])
    ballast = stuff(small)
    with SqliteStore(small / "home") as store:
        assert [e.kind for e in store.events("s")] == ["notice"]
        assert code_of(lambda: store.append("s", [("notice", {})])) == "disk_full"
        assert code_of(lambda: store.claim("s")) == "disk_full"
        assert code_of(lambda: store.put_blob(b"x" * 5000)) == "disk_full"
        ballast.unlink()
        assert [e.seq for e in store.append("s", [("notice", {})])] == [2]
        assert [e.seq for e in store.events("s")] == [1, 2]


def test_no_home_can_be_made_on_a_full_disk(small: Path) -> None:
    stuff(small)
    assert code_of(lambda: SqliteStore(small / "home")) == "disk_full"


def test_a_blob_that_found_no_room_leaves_nothing(small: Path) -> None:
    with SqliteStore(small / "home") as store:
        assert code_of(lambda: store.put_blob(b"x" * 2_000_000)) == "disk_full"
        assert [p for p in (small / "home" / "blobs").rglob("*") if p.is_file()] == []
        assert store.blob(store.put_blob(b"small")) == b"small"


def test_a_limit_on_file_size_counts_as_a_full_disk(home: Path, spawn: Spawn) -> None:
    code = """
import resource
store.create_session(SessionInfo("s", "run"), [])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
last = 0
try:
    while True:
        last = store.append("s", [("notice", {"text": "x" * 3000})])[-1].seq
except StoreError as error:
    tell(error.code, last, len(list(store.events("s"))))
"""
    process = spawn(home, code)
    assert process.stdout is not None
    name, last, count = process.stdout.readline().split()
    assert name == "disk_full"
    assert last == count
    with SqliteStore(home) as store:
        assert len(list(store.events("s"))) == int(last)


# --- read-only ---------------------------------------------------------------------------------------------


@pytest.fixture
def frozen(home: Path, tmp_path: Path, mount: Mount) -> Callable[[], Path]:
    """Show `home` read-only in another place, as it then is."""

    def freeze() -> Path:
        point = tmp_path / "frozen"
        point.mkdir()
        mount("--bind", str(home), str(point))
        mount("-o", "remount,bind,ro", str(point))
        return point

    return freeze


def test_a_read_only_home_is_read_and_not_written(home: Path, frozen: Callable[[], Path]) -> None:
    with SqliteStore(home) as store:
        store.create_session(SessionInfo("s", "run"), [("message", {"role": "user", "text": "find me"})])
        blob = store.put_blob(b"content")
    with SqliteStore(frozen()) as store:
        assert [s.id for s in store.sessions()] == ["s"]
        assert [e.data["text"] for e in store.events("s")] == ["find me"]
        assert [h.seq for h in store.search("find")] == [1]
        assert store.blob(blob) == b"content"
        assert isinstance(store.data_version(), int)
        assert code_of(lambda: store.append("s", [("notice", {})])) == "read_only"
        assert code_of(lambda: store.create_session(SessionInfo("t", "run"), [])) == "read_only"
        assert code_of(lambda: store.claim("s")) == "read_only"
        assert code_of(lambda: store.own_socket()) == "read_only"
        assert code_of(lambda: store.put_blob(b"new")) == "read_only"
        assert code_of(lambda: store.set_value("k", 1)) == "read_only"
        assert store.put_blob(b"content") == blob


def test_a_read_only_view_of_a_home_in_use_shows_what_happens(
    home: Path, store: SqliteStore, frozen: Callable[[], Path]
) -> None:
    store.create_session(SessionInfo("s", "run"), [("notice", {})])
    with SqliteStore(frozen()) as view:
        assert [s.status for s in view.sessions()] == ["running"]
        before = view.data_version()
        store.append("s", [("notice", {})])
        assert view.data_version() != before
        assert [e.seq for e in view.events("s")] == [1, 2]


def test_what_a_killed_process_wrote_is_seen_in_a_read_only_home(
    home: Path, frozen: Callable[[], Path], spawn: Spawn
) -> None:
    process = spawn(
        home,
        'store.create_session(SessionInfo("s", "run"), [("notice", {})])\ntell("done")\nsys.stdin.readline()',
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    with SqliteStore(frozen()) as store:
        assert [s.status for s in store.sessions()] == ["interrupted"]
        assert [e.seq for e in store.events("s")] == [1]


def test_a_read_only_directory_without_a_home_says_so(home: Path, frozen: Callable[[], Path]) -> None:
    home.mkdir()
    point = frozen()
    assert code_of(lambda: SqliteStore(point)) == "read_only"
    assert code_of(lambda: SqliteStore(point / "deeper")) == "read_only"


def test_a_home_that_becomes_writable_again_is_written_again(
    home: Path, frozen: Callable[[], Path], mount: Mount
) -> None:
    with SqliteStore(home) as store:
        store.create_session(SessionInfo("s", "run"), [])
    point = frozen()
    with SqliteStore(point) as store:
        assert code_of(lambda: store.append("s", [("notice", {})])) == "read_only"
        mount("-o", "remount,bind,rw", str(point))
        assert [e.seq for e in store.append("s", [("notice", {})])] == [1]


def test_a_home_that_is_a_file_says_so(home: Path) -> None:
    home.write_text("")
    assert code_of(lambda: SqliteStore(home)) == "not_found"
