"""Sessions and their events: appended in one transaction, read lazily, in spite of damaged rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from core import Event, SessionInfo, StoreError, encode
from impl.store.database import Part, Row
from impl.store.owner import Run
from impl.store.schema import SEQ_BITS, SEQ_MASK

#: Columns a caller sets; `id`, `last_seq` and `status` are the store's own.
_TEXTS: Final = ("kind", "agent", "digest", "channel", "parent", "stop", "started", "ended", "provider")
_MORE_TEXTS: Final = ("model", "sandbox", "usd", "title", "summary")
_NUMBERS: Final = ("depth", "input_tokens", "output_tokens", "cached_tokens", "requests")
COLUMNS: Final = (*_TEXTS, *_MORE_TEXTS, *_NUMBERS)
_KNOWN: Final = frozenset(COLUMNS)
_REQUIRED: Final = frozenset({"kind", "started", "provider", "title", "summary"})

_SELECT: Final = f"SELECT id, last_seq, owner, {', '.join(COLUMNS)} FROM session"
_CREATE: Final = (
    f"INSERT INTO session (id, last_seq, owner, {', '.join(COLUMNS)}) VALUES (?, ?, ?{', ?' * len(COLUMNS)})"
)
_INSERT: Final = "INSERT INTO event (id, at, kind, body) VALUES (?, ?, ?, ?)"
_EVENT: Final = "SELECT id, at, kind, body FROM event"

_MONEY: Final = re.compile(r"\d{1,15}(\.\d{1,30})?")

#: Rows of one read. The first is small, so that the first screen does not wait for the second.
_FIRST_PAGE: Final = 256
_PAGE: Final = 4096

Pairs = Sequence[tuple[str, Mapping[str, Any]]]


class _Encoded(NamedTuple):
    """One append, ready to be written."""

    session: str
    bodies: list[tuple[str, str]]
    update: str
    values: list[object]
    answered: bool


class Sessions(Part):
    """The store's methods for sessions, events, drafts and ownership."""

    _run: Run
    _sids: dict[str, int]
    _updates: dict[tuple[str, ...], str]

    # --- writing ---------------------------------------------------------------------------------------

    def create_session(self, info: SessionInfo, events: Pairs) -> list[Event]:
        """Add a session owned by this process, with its first events, in one transaction.

        An empty `started` becomes now. Raises ValueError where the id is taken.
        """
        at = self._now()
        bodies = [(kind, encode(data)) for kind, data in events]
        self._run.acquire()
        columns = [_value(getattr(info, name)) for name in COLUMNS]
        columns[COLUMNS.index("started")] = info.started or at
        try:
            with self._db as execute:
                sid = execute(_CREATE, (info.id, len(bodies), self._run.id, *columns)).lastrowid
                assert sid is not None
                made = _insert(execute, info.id, sid, 0, at, bodies)
        except sqlite3.IntegrityError as error:
            raise ValueError(f"session {info.id} already exists") from error
        self._sids[info.id] = sid
        return made

    def append(self, session: str, events: Pairs, columns: Mapping[str, Any] | None = None) -> list[Event]:
        """Append (kind, data) pairs in one transaction, setting the session's columns with them.

        Columns are fields of SessionInfo; the loop clears a stop with `{"stop": None, "ended": None}`. An
        assistant's message clears the draft. Raises StoreError, `not_found` for an unknown session, and
        ValueError for an unknown column.
        """
        (made,) = self.append_all(((session, events, columns),))
        return made

    def append_all(self, batches: Sequence[tuple[str, Pairs, Mapping[str, Any] | None]]) -> list[list[Event]]:
        """Several appends (session, events, columns), in their order and in one transaction: all or none."""
        at = self._now()
        ready = [self._encoded(*batch) for batch in batches]
        with self._db as execute:
            return [self._append(execute, at, one) for one in ready]

    def _encoded(self, session: str, events: Pairs, columns: Mapping[str, Any] | None) -> _Encoded:
        """What takes time, done before others are kept waiting."""
        names = tuple(columns) if columns else ()
        return _Encoded(
            session,
            [(kind, encode(data)) for kind, data in events],
            self._updates.get(names) or self._make_update(names),
            [_value(value) for value in columns.values()] if columns else [],
            any(kind == "message" and data.get("role") == "assistant" for kind, data in events),
        )

    def _append(self, execute: Callable[..., sqlite3.Cursor], at: str, given: _Encoded) -> list[Event]:
        session, bodies, update, values, answered = given
        sid = self._sid(session)
        found = execute(update, (len(bodies), *values, sid)).fetchall()
        if not found:
            raise _unknown(session)
        try:
            made = _insert(execute, session, sid, found[0][0] - len(bodies), at, bodies)
        except sqlite3.IntegrityError as error:
            raise StoreError(
                "damaged",
                f"The event numbers of session {session} do not fit its last one; nothing was appended.",
                "It can still be read. Go on in a new session.",
            ) from error
        if answered:
            execute("DELETE FROM draft WHERE sid = ?", (sid,))
        return made

    def _make_update(self, names: tuple[str, ...]) -> str:
        unknown = [name for name in names if name not in _KNOWN]
        if unknown:
            raise ValueError(f"not a column of a session: {', '.join(unknown)}")
        sets = "".join(f", {name} = ?" for name in names)
        update = f"UPDATE session SET last_seq = last_seq + ?{sets} WHERE sid = ? RETURNING last_seq"
        self._updates[names] = update
        return update

    def _sid(self, session: str) -> int:
        """The number of a session. Raises StoreError `not_found`."""
        sid = self._sids.get(session)
        if sid is None:
            row = self._db.row("SELECT sid FROM session WHERE id = ?", (session,))
            if row is None:
                raise _unknown(session)
            sid = self._sids[session] = row[0]
        return sid

    # --- reading events --------------------------------------------------------------------------------

    def events(
        self, session: str, *, after: int = 0, limit: int | None = None, kinds: Iterable[str] | None = None
    ) -> Iterator[Event]:
        """Events with seq > after, oldest first; bodies decoded lazily. An unknown session has none.

        One that is missing stands in its place as damaged, unless only some `kinds` are asked for.
        """
        wanted = None if kinds is None else tuple(kinds)
        try:
            base = self._sid(session) << SEQ_BITS
        except StoreError as error:
            if error.code != "not_found":
                raise
            return
        size, left = _FIRST_PAGE, limit
        while left is None or left > 0:
            count = size if left is None else min(size, left)
            page = self._page(session, base, after, count, wanted)
            whole = page if wanted is not None else _with_missing(session, after, page)
            yield from whole if left is None else whole[:left]
            if len(page) < count:
                if wanted is None and (left is None or left > len(whole)):
                    end = self._end(session, base, page[-1].seq if page else max(0, after))
                    yield from end if left is None else end[: left - len(whole)]
                return
            after = page[-1].seq
            left = None if left is None else left - len(whole)
            size = _PAGE

    def _end(self, session: str, base: int, after: int) -> list[Event]:
        """Events after the last that was found: those that came meanwhile, and in its place each that is gone, of which
        the session's own number tells."""
        row = self._db.row("SELECT last_seq FROM session WHERE sid = ?", (base >> SEQ_BITS,))
        last = row[0] if row is not None and isinstance(row[0], int) else 0
        if not after < last <= after + _PAGE:  # further on it is the number that is damaged
            return []
        found = self._page(session, base, after, _PAGE, None)
        return _with_missing(session, after, found, last)

    def tail(self, session: str, count: int) -> list[Event]:
        """The last `count` events, oldest first."""
        row = self._db.row("SELECT sid, CAST(last_seq AS INTEGER) FROM session WHERE id = ?", (session,))
        if row is None or count <= 0:
            return []
        base = row[0] << SEQ_BITS
        try:
            found = self._db.rows(
                f"{_EVENT} WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT ?", (base, base | SEQ_MASK, count)
            )
        except StoreError as error:
            if error.code != "damaged":
                raise
            return self._salvage(session, base, max(0, row[1] - count), count, None)
        return [_event(session, row) for row in reversed(found)]

    def _page(self, session: str, base: int, after: int, count: int, kinds: tuple[str, ...] | None) -> list[Event]:
        only = "" if kinds is None else f" AND kind IN ({', '.join('?' * len(kinds))})"
        sql = f"{_EVENT} WHERE id > ? AND id <= ?{only} ORDER BY id LIMIT ?"
        try:
            found = self._db.rows(sql, (base + max(0, after), base | SEQ_MASK, *(kinds or ()), count))
        except StoreError as error:
            if error.code != "damaged":
                raise
            return self._salvage(session, base, after, count, kinds)
        return [_event(session, row) for row in found]

    def _salvage(self, session: str, base: int, after: int, count: int, kinds: tuple[str, ...] | None) -> list[Event]:
        """Read one by one where part of the file is damaged, each unreadable place standing as a damaged event."""
        row = self._db.row("SELECT CAST(last_seq AS INTEGER) FROM session WHERE sid = ?", (base >> SEQ_BITS,))
        made: list[Event] = []
        for seq in range(max(0, after) + 1, (row[0] if row else 0) + 1):
            if len(made) == count:
                break
            try:
                found = self._db.rows(f"{_EVENT} WHERE id = ?", (base | seq,))
            except StoreError as error:
                if error.code != "damaged":
                    raise
                made.append(Event(session, seq, "", "damaged", data={"damaged": error.message, "raw": ""}))
                continue
            made.extend(_event(session, row) for row in found if kinds is None or row[2] in kinds)
        return made

    # --- reading sessions ------------------------------------------------------------------------------

    def session(self, session: str) -> SessionInfo | None:
        """One session by its whole id."""
        row = self._db.row(f"{_SELECT} WHERE id = ?", (session,))
        return None if row is None else self._info(row, self._run.alive)

    def sessions(
        self, *, limit: int | None = None, kinds: Iterable[str] | None = None, parent: str | None = None
    ) -> list[SessionInfo]:
        """All (or the newest `limit`), oldest first; of some kinds, or of one parent, where that is said."""
        wanted = [] if kinds is None else list(kinds)
        marks = ", ".join("?" * len(wanted))
        where = [*([f"kind IN ({marks})"] if kinds is not None else []), *(["parent = ?"] if parent else [])]
        narrowed = f" WHERE {' AND '.join(where)}" if where else ""
        values = (*wanted, *([parent] if parent else []), -1 if limit is None else limit)
        rows = self._db.rows(f"{_SELECT}{narrowed} ORDER BY sid DESC LIMIT ?", values)
        known: dict[str, bool] = {}

        def alive(run: str) -> bool:
            if run not in known:
                known[run] = self._run.alive(run)
            return known[run]

        return [self._info(row, alive) for row in reversed(rows)]

    def match_session(self, prefix: str) -> list[str]:
        """Ids that begin with `prefix`, sorted."""
        rows = self._db.rows(
            "SELECT id FROM session WHERE id >= ? AND id < ? ORDER BY id",
            (_clean(prefix), _clean(prefix) + "\U0010ffff"),
        )
        return [row[0] for row in rows]

    def _info(self, row: Row, alive: Callable[[str], bool]) -> SessionInfo:
        """A row as SessionInfo; a value of a wrong type becomes the field's empty value or its text."""
        fields: dict[str, Any] = {}
        for name, value in zip(COLUMNS, row[3:], strict=True):
            if name in _NUMBERS:
                fields[name] = value if isinstance(value, int) else 0
            elif value is None:
                fields[name] = "" if name in _REQUIRED else None
            else:
                fields[name] = value if isinstance(value, str) else str(value)
        if fields["usd"] is not None and not _MONEY.fullmatch(fields["usd"]):
            fields["usd"] = None  # what it cost is not known any more
        status = _status(fields["stop"], row[2], alive)
        last = row[1] if isinstance(row[1], int) else 0
        return SessionInfo(id=str(row[0]), last_seq=last, status=status, **fields)

    # --- drafts ----------------------------------------------------------------------------------------

    def set_draft(self, session: str, message: str, text: str, thinking: str = "") -> None:
        """Keep the text streamed so far of message id `message`; replaces the one before."""
        with self._db as execute:
            execute(
                "INSERT OR REPLACE INTO draft (sid, message, text, thinking) VALUES (?, ?, ?, ?)",
                (self._sid(session), message, _clean(text), _clean(thinking)),
            )

    def draft(self, session: str) -> tuple[str, str, str] | None:
        """(message id, text, thinking) of an unfinished message, or None."""
        row = self._db.row(
            "SELECT message, text, thinking FROM draft JOIN session USING (sid) WHERE id = ?", (session,)
        )
        return None if row is None else (str(row[0]), str(row[1]), str(row[2]))

    def clear_draft(self, session: str) -> None:
        """Forget the draft."""
        with self._db as execute:
            execute("DELETE FROM draft WHERE sid = ?", (self._sid(session),))

    # --- ownership -------------------------------------------------------------------------------------

    def claim(self, session: str) -> bool:
        """Make this process the owner, if nobody alive is. False where another process drives it.

        The stop and the end stay as they are: whoever goes on clears them with its first append.
        """
        self._run.acquire()
        with self._db as execute:
            # As bytes: text that is no UTF-8, as damage leaves it, would be refused.
            row = execute("SELECT CAST(owner AS BLOB) FROM session WHERE id = ?", (session,)).fetchone()
            if row is None:
                raise _unknown(session)
            owner = _text(row[0])
            if owner == self._run.id:
                return True
            if self._run.alive(owner):
                return False
            execute("UPDATE session SET owner = ? WHERE id = ?", (self._run.id, session))
        return True

    def release(self, session: str) -> None:
        """Give ownership up; nothing happens where this process is not the owner."""
        with self._db as execute:
            execute("UPDATE session SET owner = NULL WHERE id = ? AND owner = ?", (session, self._run.id))

    def owner_socket(self, session: str) -> Path | None:
        """The Unix socket of the living process that drives it, or None."""
        row = self._db.row("SELECT owner FROM session WHERE id = ?", (session,))
        if row is None or not self._run.alive(row[0]):
            return None
        return self._run.socket_of(row[0])

    def own_socket(self) -> Path:
        """Where this process listens for interrupt and answer of sessions it owns."""
        return self._run.acquire()


def _insert(
    execute: Callable[..., sqlite3.Cursor],
    session: str,
    sid: int,
    last: int,
    at: str,
    bodies: list[tuple[str, str]],
) -> list[Event]:
    base, made = sid << SEQ_BITS, []
    for seq, (kind, body) in enumerate(bodies, last + 1):
        execute(_INSERT, (base | seq, at, kind, body))
        made.append(Event(session, seq, at, kind, body))
    return made


def _event(session: str, row: Row) -> Event:
    number, at, kind, body = row
    if type(body) is str and type(kind) is str and type(at) is str:
        return Event(session, number & SEQ_MASK, at, kind, body)
    if body is not None and not isinstance(body, str | bytes):
        body = repr(body)
    # JSON kept as a BLOB still reads; anything else becomes `{"damaged": …}` when it is looked at.
    return Event(session, number & SEQ_MASK, _text(at), _text(kind) or "damaged", body)


def _with_missing(session: str, after: int, page: list[Event], last: int = 0) -> list[Event]:
    """The page, up to event `last` at least, with a damaged event wherever a row is missing. Commits are whole, so no
    gap is one to be filled yet."""
    last = max(last, page[-1].seq if page else 0)
    if last <= after or last - after == len(page):
        return page
    made: list[Event] = []
    for seq, event in (*((event.seq, event) for event in page), (last + 1, None)):
        first = made[-1].seq + 1 if made else after + 1
        # Where more are missing at once it is a number that is damaged: nobody is helped by a million of them.
        made.extend(_lost(session, gone) for gone in range(first, min(seq, first + _PAGE)))
        if event is not None:
            made.append(event)
    return made


def _lost(session: str, seq: int) -> Event:
    return Event(session, seq, "", "damaged", data={"damaged": "this event is missing", "raw": ""})


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _value(value: object) -> object:
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    """Half of a surrogate pair, as a stream may end with, cannot be stored as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _status(stop: str | None, owner: str | None, alive: Callable[[str], bool]) -> str:
    """A stop says that the loop is not running, whoever holds the session; without one the owner's life decides."""
    if stop is not None:
        return "stopped"
    return "running" if owner and alive(owner) else "interrupted"


def _unknown(session: str) -> StoreError:
    return StoreError("not_found", f"There is no session {session}.", "`artificer sessions` lists them.")
