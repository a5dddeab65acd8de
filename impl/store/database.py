"""The SQLite database of a home: opening, transactions, waiting for others, and reading in spite of damage."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import quote

from core import StoreError
from impl.store import errors, schema

Durability = Literal["process", "full"]
Row = tuple[Any, ...]
T = TypeVar("T")

#: How long a read or write waits for other processes, in seconds.
PATIENCE_S: Final = 5.0


class Database:
    """One connection for the thread that made it and for all writes, one for reads of other threads.

    `with database as execute:` is one write transaction; nesting is a mistake. Every SQLite error leaves as
    StoreError. `home` must exist.
    """

    def __init__(self, home: Path, durability: Durability = "process") -> None:
        self.path = home / "artificer.db"
        self.durability = durability
        self.refusal: StoreError | None = None
        self._thread = threading.get_ident()
        self._lock = threading.RLock()
        self._reader: sqlite3.Connection | None = None
        self._reader_lock = threading.RLock()
        self._version = schema.version()
        self._writes = 0
        self._uri = ""
        self._main = self._open()
        self._execute = self._main.execute

    # --- opening ---------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        """Open for writing; where that cannot be, for reading, keeping in `refusal` why."""
        self.refusal = None
        try:
            if self.path.exists() and not errors.writable(self.path):
                raise errors.read_only(self.path.parent, "not writable by this user")
            return self._open_writable()
        except StoreError as error:
            if error.code not in ("read_only", "disk_full") or not _has_content(self.path):
                raise
            self.refusal = error
            return self._open_readable(error)

    def _open_writable(self) -> sqlite3.Connection:
        try:
            # SQLite gives its side files the mode of the database file. A file that is there is not even
            # opened: closing it would drop the locks that other connections of this process hold.
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise errors.from_os(error, self.path.parent) from error
        self._uri = f"file:{quote(str(self.path))}?mode=rw"
        return self._connect(self._uri, self._prepare)

    def _open_readable(self, why: StoreError) -> sqlite3.Connection:
        """`mode=ro` needs the side files of a database in use; without them nothing is in flight and the
        file can be read as it lies (`immutable`)."""
        wal = self.path.with_name(self.path.name + "-wal")
        ways = ["mode=ro"] if _has_content(wal) else ["mode=ro", "mode=ro&immutable=1"]
        for way in ways:
            self._uri = f"file:{quote(str(self.path))}?{way}"
            try:
                return self._connect(self._uri, _check_readable)
            except StoreError as error:
                if error.code in ("newer_version", "damaged", "busy"):
                    raise
        raise why

    def _connect(self, uri: str, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        def attempt() -> sqlite3.Connection:
            db = sqlite3.connect(
                uri,
                uri=True,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
            try:
                prepare(db)
            except BaseException:
                db.close()
                raise
            return db

        return self._patiently(attempt)

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Settings of a writing connection, and the schema. Nothing is written to a database that is not ours."""
        found = schema.found_version(db)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if self.durability == 'full' else 'NORMAL'}")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA journal_size_limit = 67108864")
        if found == self._version:
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            schema.migrate(db)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    # --- writing ---------------------------------------------------------------------------------------

    def __enter__(self) -> Callable[..., sqlite3.Cursor]:
        self._lock.acquire()
        try:
            if self.refusal is not None:
                self._try_writing_again()
            try:
                self._execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if not errors.is_busy(error):
                    raise errors.from_sqlite(error, self.path) from error
                self._patiently(lambda: self._execute("BEGIN IMMEDIATE"))
            self._check_version()
        except BaseException:
            self._roll_back()
            self._lock.release()
            raise
        return self._execute

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._execute("COMMIT")
                self._writes += 1
                return
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise errors.from_sqlite(error, self.path) from error
        except sqlite3.Error as failed:
            self._roll_back()
            if failed is error:
                raise
            raise errors.from_sqlite(failed, self.path) from failed
        finally:
            self._lock.release()

    def _check_version(self) -> None:
        """A newer program may have migrated the home since we opened it; the check costs 1 µs."""
        (found,) = self._execute("PRAGMA user_version").fetchone()
        if found != self._version:
            raise schema.newer(found)

    def _roll_back(self) -> None:
        # SQLite has already rolled back by itself after some failures (a full disk, for one).
        if self._main.in_transaction:
            self._execute("ROLLBACK")

    def _try_writing_again(self) -> None:
        """Space may have been freed, or the mount made writable, since the database was opened."""
        assert self.refusal is not None
        if not errors.writable(self.path):
            raise self.refusal
        db = self._open_writable()
        with self._reader_lock:
            # It may be one that takes the file for unchanging.
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        self._main.close()
        self._main, self._execute, self.refusal = db, db.execute, None

    # --- reading ---------------------------------------------------------------------------------------

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows of a query. Text that is not UTF-8 comes with U+FFFD in it instead of failing."""
        db, lock = self._connection()
        with lock:
            try:
                return db.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                if errors.is_undecodable(error):
                    return _rows_replacing(db, sql, values)
                if errors.is_busy(error):
                    return self._patiently(lambda: db.execute(sql, values).fetchall())
                raise self._reason(db, error) from error

    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row of a query, or None."""
        found = self.rows(sql, values)
        return found[0] if found else None

    def _reason(self, db: sqlite3.Connection, error: sqlite3.Error) -> Exception:
        """A statement that no longer fits the tables means that a newer program has changed them."""
        if errors.primary(error) == sqlite3.SQLITE_ERROR:
            (found,) = db.execute("PRAGMA user_version").fetchone()
            if found > self._version:
                return schema.newer(found)
        return errors.from_sqlite(error, self.path)

    def _connection(self) -> tuple[sqlite3.Connection, threading.RLock]:
        if threading.get_ident() == self._thread:
            return self._main, self._lock
        with self._reader_lock:
            if self._reader is None:
                self._reader = self._connect(self._uri, _only_read)
            return self._reader, self._reader_lock

    def data_version(self) -> int:
        """A number that changes whenever any connection of any process has written."""
        # SQLite counts the commits of others; our own are counted beside it.
        with self._lock:
            try:
                (others,) = self._execute("PRAGMA data_version").fetchone()
            except sqlite3.Error as error:
                if not errors.is_busy(error):
                    raise errors.from_sqlite(error, self.path) from error
                (others,) = self._patiently(lambda: self._execute("PRAGMA data_version").fetchone())
            return int(others) << 32 | self._writes

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """Try until nobody is in the way, at most PATIENCE_S; other errors leave at once as StoreError."""
        deadline = time.monotonic() + PATIENCE_S
        pause = 0.0005
        while True:
            try:
                return attempt()
            except sqlite3.Error as error:
                if not errors.is_busy(error) or time.monotonic() > deadline:
                    raise errors.from_sqlite(error, self.path) from error
            # Uneven pauses, so that several waiting processes do not meet again and again.
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 1.5, 0.02)

    def close(self) -> None:
        """Close the connections; a second time does nothing."""
        with self._lock, self._reader_lock:
            if self._reader is not None:
                self._reader.close()
            self._main.close()


class Part:
    """What the groups of the store's methods share: the database and the clock."""

    _db: Database
    _now: Callable[[], str]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _only_read(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA query_only = ON")


def _check_readable(db: sqlite3.Connection) -> None:
    if schema.found_version(db) < schema.version():
        raise StoreError(
            "read_only",
            "The home was written by an older Artificer and cannot be brought up to date while it is read-only.",
            "Make it writable once, or copy it to a writable directory.",
        )


def _rows_replacing(db: sqlite3.Connection, sql: str, values: Sequence[Any]) -> list[Row]:
    before = db.text_factory
    db.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        return db.execute(sql, values).fetchall()
    finally:
        db.text_factory = before
