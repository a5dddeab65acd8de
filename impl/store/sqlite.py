"""The store: SQLite and a directory of blobs under one home, shared by several processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core import encode
from impl.store import errors
from impl.store.blobs import Blobs
from impl.store.bundles import Bundles
from impl.store.database import Database, Durability
from impl.store.owner import Run
from impl.store.search import Search
from impl.store.sessions import Sessions

if TYPE_CHECKING:
    from core import Store

_HASH: Final = re.compile(r"[0-9a-f]{64}")
#: Table, key and column of the places that name blobs.
_NAMING: Final = (("event", "id", "body"), ("revision", "n", "files"), ("validation", "n", "checks"))
#: A blob younger than this may belong to a row that is about to be written.
_YOUNG_S: Final = 24 * 3600.0


def utc_now() -> str:
    """Now, ISO 8601 in UTC with milliseconds and Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


class SqliteStore(Sessions, Search, Bundles):
    """The `Store` port on the directory `home`, which is made (mode 0700) where absent.

    Each store object is an owner of its own: make one per process. Its methods may be called from several
    threads; reads outside the thread that made it use a second connection. With durability `process` what
    is stored survives kill -9, with `full` also power loss. A home that cannot be written opens for reading;
    then every write raises StoreError `read_only` or `disk_full`. Opening raises StoreError `newer_version`
    or `damaged`, having written nothing.
    """

    def __init__(self, home: Path, *, durability: Durability = "process", now: Callable[[], str] = utc_now) -> None:
        self.home = home
        self._now = now
        self._sids = {}
        self._updates = {}
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise errors.from_os(error, home) from error
        self._run = Run(home)
        self._blobs = Blobs(home, fsync=durability == "full")
        self._db = Database(home, durability)

    def data_version(self) -> int:
        """Changes whenever any process (this one included) has written."""
        return self._db.data_version()

    def put_blob(self, data: bytes) -> str:
        """Store bytes once; returns their hex SHA-256. Durable before it returns."""
        return self._blobs.put(data)

    def blob(self, sha256: str) -> bytes:
        """Bytes by hash. Raises StoreError `not_found` or `damaged`."""
        return self._blobs.get(sha256)

    def get_value(self, key: str) -> Any:
        """A JSON value, or None."""
        row = self._db.row("SELECT body FROM value WHERE key = ?", (key,))
        if row is None:
            return None
        try:
            return json.loads(row[0])
        except (ValueError, TypeError):
            return None

    def set_value(self, key: str, value: Any) -> None:
        """Set a JSON value; None deletes."""
        # Wrapped, because only bodies that are objects are encoded; the wrapper is not stored.
        body = encode({"": value})[4:-1]
        with self._db as execute:
            if value is None:
                execute("DELETE FROM value WHERE key = ?", (key,))
            else:
                execute("INSERT OR REPLACE INTO value (key, body) VALUES (?, ?)", (key, body))

    def unreferenced_blobs(self, older_than_s: float = _YOUNG_S) -> list[str]:
        """Blobs that no event, revision or validation names, last stored over `older_than_s` seconds ago."""
        self._blobs.sweep(_YOUNG_S)
        candidates = set(self._blobs.names(older_than_s))
        if candidates:
            for table, key, column in _NAMING:
                candidates -= self._named(table, key, column)
        return sorted(candidates)

    def _named(self, table: str, key: str, column: str) -> set[str]:
        """Everything in a column that looks like a hash; too many do no harm."""
        sql = f"SELECT {key}, {column} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT 500"
        named: set[str] = set()
        last = -1
        while rows := self._db.rows(sql, (last,)):
            for _, body in rows:
                named.update(_HASH.findall(body if isinstance(body, str) else repr(body)))
            last = rows[-1][0]
        return named

    def delete_blob(self, sha256: str) -> int:
        """Remove a blob; returns its size in bytes, 0 where there was none."""
        return self._blobs.delete(sha256)

    def close(self) -> None:
        """Close it; releases what this process owns."""
        # The owner column keeps the run's id; without the lock it names nobody.
        self._run.close()
        self._db.close()


if TYPE_CHECKING:
    _is_a_store: type[Store] = SqliteStore
