"""The database's tables, and how a database of an older version becomes one of this version.

The version is `PRAGMA user_version`. Any change that an older writer would not keep up gets a migration
and with it a higher version; an older program then refuses to write. Additions that older programs may
ignore (a new index, the search index) need none.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from core import StoreError

#: "ARTF": tells this database from any other that lies at the same path.
APPLICATION_ID: Final = 0x41525446

#: Bits of an event's id that hold its seq; the rest is the session's number. One B-tree ordered by
#: (session, seq) with no second index: an append touches one leaf, a session's events lie together.
SEQ_BITS: Final = 32
SEQ_MASK: Final = (1 << SEQ_BITS) - 1

_FIRST: Final = (
    """CREATE TABLE session (
        sid INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        last_seq INTEGER NOT NULL DEFAULT 0,
        indexed INTEGER NOT NULL DEFAULT 0,  -- events up to this seq are in the search index
        owner TEXT,                          -- run id of the process that drives it
        kind TEXT, agent TEXT, digest TEXT, channel TEXT, parent TEXT, depth INTEGER,
        stop TEXT, started TEXT, ended TEXT, provider TEXT, model TEXT, sandbox TEXT,
        input_tokens INTEGER, output_tokens INTEGER, cached_tokens INTEGER, requests INTEGER,
        usd TEXT, title TEXT, summary TEXT
    )""",
    # The body comes last, so that a filter on kind or at never reads the pages a long body spills over.
    """CREATE TABLE event (
        id INTEGER PRIMARY KEY,  -- session.sid << 32 | seq
        at TEXT, kind TEXT, body TEXT
    )""",
    """CREATE TABLE draft (
        sid INTEGER PRIMARY KEY REFERENCES session(sid),
        message TEXT, text TEXT, thinking TEXT
    )""",
    """CREATE TABLE revision (
        n INTEGER PRIMARY KEY,
        agent TEXT NOT NULL, digest TEXT NOT NULL, parents TEXT, at TEXT, "by" TEXT, message TEXT,
        source TEXT, licence TEXT, session TEXT, files TEXT,
        UNIQUE (agent, digest)
    )""",
    "CREATE TABLE latest (agent TEXT PRIMARY KEY, digest TEXT NOT NULL)",
    """CREATE TABLE validation (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, digest TEXT NOT NULL, at TEXT, passed INTEGER NOT NULL,
        checks_version TEXT, environment TEXT, problems TEXT, checks TEXT
    )""",
    "CREATE INDEX validation_of ON validation (agent, digest)",
    """CREATE TABLE channel (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        agent TEXT NOT NULL, channel TEXT NOT NULL, digest TEXT NOT NULL, validation_run TEXT,
        at TEXT, "by" TEXT, refused TEXT, action TEXT
    )""",
    "CREATE INDEX channel_of ON channel (agent, channel)",
    "CREATE TABLE value (key TEXT PRIMARY KEY, body TEXT NOT NULL)",
)

#: MIGRATIONS[n] takes a database of version n to n + 1; the first makes the tables of an empty one.
MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST,)

#: One statement, so that the answer belongs to one moment while another process makes the tables.
_WHOSE: Final = (
    "SELECT (SELECT user_version FROM pragma_user_version),"
    " (SELECT application_id FROM pragma_application_id), count(*) FROM sqlite_master"
)


def version() -> int:
    """The schema version this program writes."""
    return len(MIGRATIONS)


def found_version(db: sqlite3.Connection) -> int:
    """The version of the database behind `db`; 0 where it is empty. Raises StoreError `newer_version`
    where this program is too old for it, `damaged` where it is somebody else's database."""
    found, application, tables = db.execute(_WHOSE).fetchone()
    if application != APPLICATION_ID and (found or tables or application):
        raise StoreError(
            "damaged",
            "The database was not made by Artificer.",
            "Move the file away, or set ARTIFICER_HOME to another directory.",
        )
    if found > version():
        raise newer(found)
    return int(found)


def newer(found: int) -> StoreError:
    """What a program says that meets a database of version `found`, newer than its own."""
    return StoreError(
        "newer_version",
        f"This home was written by a newer Artificer (schema {found}; this one knows {version()}).",
        "Upgrade Artificer, or set ARTIFICER_HOME to another directory. Nothing was changed.",
    )


def migrate(db: sqlite3.Connection) -> None:
    """Bring the database to this version. Call inside a transaction that holds the write lock."""
    found = found_version(db)
    if found == version():
        return
    for statements in MIGRATIONS[found:]:
        for statement in statements:
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {version()}")
