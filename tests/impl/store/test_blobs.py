"""Blobs: stored once, checked when read."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from core.ports import Revision, SessionInfo, StoreError, TreeEntry, ValidationRun
from impl.store.sqlite import SqliteStore


def test_bytes_come_back_by_their_sha256(store: SqliteStore, home: Path) -> None:
    name = store.put_blob(b"some bytes")
    assert name == hashlib.sha256(b"some bytes").hexdigest()
    assert store.blob(name) == b"some bytes"
    assert (home / "blobs" / name[:2] / name).read_bytes() == b"some bytes"
    assert store.blob(store.put_blob(b"")) == b""


def test_the_same_bytes_are_written_once(store: SqliteStore, home: Path) -> None:
    name = store.put_blob(b"some bytes")
    before = (home / "blobs" / name[:2] / name).stat()
    assert store.put_blob(b"some bytes") == name
    after = (home / "blobs" / name[:2] / name).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_damaged_blob_is_reported_and_mended_by_storing_it_again(store: SqliteStore, home: Path) -> None:
    name = store.put_blob(b"some bytes")
    path = home / "blobs" / name[:2] / name
    path.write_bytes(b"same bytes")
    with pytest.raises(StoreError) as caught:
        store.blob(name)
    assert caught.value.code == "damaged"
    assert store.put_blob(b"some bytes") == name
    assert store.blob(name) == b"some bytes"


@pytest.mark.parametrize("name", ["0" * 64, "nonsense", "", "../../etc/passwd", "0" * 63 + "/"])
def test_a_blob_that_is_not_there_is_not_found(store: SqliteStore, name: str) -> None:
    with pytest.raises(StoreError) as caught:
        store.blob(name)
    assert caught.value.code == "not_found"


def test_threads_that_store_the_same_bytes_at_once_do_not_disturb_each_other(store: SqliteStore) -> None:
    names: list[str] = []
    data = b"x" * 300_000
    threads = [threading.Thread(target=lambda: names.append(store.put_blob(data))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == [hashlib.sha256(data).hexdigest()] * 8
    assert store.blob(names[0]) == data


def test_a_full_durability_store_keeps_blobs_too(home: Path) -> None:
    with SqliteStore(home, durability="full") as store:
        assert store.blob(store.put_blob(b"x")) == b"x"


def test_blobs_that_nothing_names_can_be_found_and_deleted(store: SqliteStore) -> None:
    output, file, log, loose = (store.put_blob(b) for b in (b"output", b"file", b"log", b"loose"))
    store.create_session(SessionInfo("s", "run"), [("tool_result", {"blob": output})])
    store.add_revision(Revision("a", "d", (), "T", "person", "", (TreeEntry("a", file, 4, False),)))
    store.add_validation(ValidationRun("v", "a", "d", "T", True, "1", {}, ({"log": log},)))
    assert store.unreferenced_blobs(older_than_s=-1) == [loose]
    assert store.delete_blob(loose) == 5
    assert store.delete_blob(loose) == 0
    assert store.unreferenced_blobs(older_than_s=-1) == []
    assert store.blob(output) == b"output"


def test_a_young_blob_is_not_yet_unreferenced(store: SqliteStore, home: Path) -> None:
    name = store.put_blob(b"on its way")
    assert store.unreferenced_blobs() == []
    os.utime(home / "blobs" / name[:2] / name, (0, 0))
    assert store.unreferenced_blobs() == [name]


def test_storing_an_old_blob_again_makes_it_young(store: SqliteStore, home: Path) -> None:
    name = store.put_blob(b"on its way")
    os.utime(home / "blobs" / name[:2] / name, (0, 0))
    store.put_blob(b"on its way")
    assert store.unreferenced_blobs() == []


def test_unfinished_files_of_dead_writers_are_swept_when_blobs_are_counted(store: SqliteStore, home: Path) -> None:
    name = store.put_blob(b"x")
    unfinished = home / "blobs" / name[:2] / ".new-1"
    unfinished.write_bytes(b"half")
    store.unreferenced_blobs()
    assert unfinished.exists()
    os.utime(unfinished, (0, 0))
    store.unreferenced_blobs()
    assert not unfinished.exists()
