"""Search over what was said: an index brought up to date when somebody searches.

Indexing at append would make each append several times slower, so it happens here, in short transactions
that let other writers in between. Where there is no index (a read-only home, SQLite without FTS5) or it
finds nothing (part of a word, scripts without spaces), the bodies themselves are scanned. Where part of the file is
damaged, events are read one by one, and what cannot be read is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from core import Event, SearchHit, StoreError
from impl.store.database import Part, Row
from impl.store.schema import SEQ_BITS, SEQ_MASK

_KINDS: Final = "('message', 'tool_result', 'stop')"
_INDEX: Final = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')"
)
#: Events of one indexing transaction, some 10 ms; and characters of one event that are indexed.
_BATCH: Final = 500
_INDEXED_CHARACTERS: Final = 200_000
_AROUND: Final = 60
#: A session whose last number is higher has a damaged one.
_MOST_EVENTS: Final = 1_000_000


class Search(Part):
    """The store's `search`."""

    def search(self, text: str, limit: int = 50) -> list[SearchHit]:
        """Where the words (or beginnings of words) stand in messages, tool outputs and stops; newest first.

        The first search of a large home indexes it, some 20 µs an event: call it in a thread.
        """
        text = text.encode("utf-8", "replace").decode("utf-8")
        words = text.split()
        if not words or limit <= 0:
            return []
        try:
            hits = self._indexed(words, limit) if self._update_index() else []
        except StoreError as error:
            if error.code != "damaged":
                raise
            hits = []
        return hits or list(_take(self._scan(text), limit))

    def _update_index(self) -> bool:
        """Index what is new. False where no index can be had."""
        if self._db.refusal is not None:
            return False
        if self._db.row("SELECT 1 FROM sqlite_master WHERE name = 'words'") is None:
            try:
                with self._db as execute:
                    execute(_INDEX)
            except StoreError as error:
                # "no such module: fts5" comes as a plain SQL error; a full disk must not end a search either.
                if error.code in ("damaged", "disk_full", "read_only"):
                    return False
                raise
        behind = self._db.rows(
            "SELECT sid, indexed, last_seq FROM session WHERE indexed < last_seq"
            " AND typeof(indexed) = 'integer' AND typeof(last_seq) = 'integer'"
        )
        try:
            for sid, indexed, last in behind:
                self._index_session(sid, indexed, last)
        except StoreError as error:
            if error.code not in ("damaged", "disk_full", "read_only"):
                raise
            return False
        return True

    def _index_session(self, sid: int, indexed: int, last: int) -> None:
        base = sid << SEQ_BITS
        while indexed < last:
            upto = min(last, indexed + _BATCH)
            rows = self._or_singly(
                f"SELECT id, at, kind, body FROM event WHERE id > ? AND id <= ? AND kind IN {_KINDS}",
                (base | indexed, base | upto),
                partial(range, (base | indexed) + 1, (base | upto) + 1),
            )
            texts = [(row[0], _said(row)[:_INDEXED_CHARACTERS]) for row in rows]
            with self._db as execute:
                # Another process may index at the same time; whoever comes second leaves the batch alone.
                done = execute(
                    "UPDATE session SET indexed = ? WHERE sid = ? AND indexed = ?", (upto, sid, indexed)
                ).rowcount
                if not done:
                    return
                for number, said in texts:
                    if said:
                        execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, said))
            indexed = upto

    def _indexed(self, words: list[str], limit: int) -> list[SearchHit]:
        query = " ".join('"' + word.replace('"', '""') + '"*' for word in words)
        found = "SELECT rowid FROM words WHERE words MATCH ?"
        rows = self._or_singly(
            "SELECT e.id, e.at, e.kind, e.body FROM words JOIN event e ON e.id = words.rowid"
            " WHERE words MATCH ? ORDER BY e.at DESC, e.id DESC LIMIT ?",
            (query, limit),
            lambda: [number for (number,) in self._db.rows(found, (query,))],
        )
        newest = sorted(rows, key=lambda row: (str(row[1]), row[0]), reverse=True)[:limit]  # read singly they are not
        return [self._hit(row, _said(row), words) for row in newest]

    def _scan(self, text: str) -> Iterator[SearchHit]:
        inside = json.dumps(text, ensure_ascii=False)[1:-1]
        for sign in "\\%_":
            inside = inside.replace(sign, "\\" + sign)
        below = 1 << 62
        while True:
            rows = self._or_singly(
                f"SELECT id, at, kind, body FROM event WHERE id < ? AND kind IN {_KINDS}"
                r" AND body LIKE ? ESCAPE '\' ORDER BY id DESC LIMIT 200",
                (below, f"%{inside}%"),
                partial(self._every, below),
            )
            for row in rows:
                said = _said(row)
                if text.lower() in said.lower():
                    yield self._hit(row, said, [text])
            if len(rows) != 200:
                return
            below = rows[-1][0]

    def _or_singly(self, sql: str, values: tuple[Any, ...], numbers: Callable[[], Iterable[int]]) -> list[Row]:
        """The rows of a query for events; where damage is in its way, those of these numbers that can be read."""
        try:
            return self._db.rows(sql, values)
        except StoreError as error:
            if error.code != "damaged":
                raise
        rows: list[Row] = []
        for number in numbers():
            try:
                rows += self._db.rows(
                    f"SELECT id, at, kind, body FROM event WHERE id = ? AND kind IN {_KINDS}", (number,)
                )
            except StoreError as error:
                if error.code != "damaged":
                    raise
        return rows

    def _every(self, below: int) -> Iterator[int]:
        """The number of each event there should be below one, the highest first."""
        for sid, last in self._db.rows("SELECT sid, CAST(last_seq AS INTEGER) FROM session ORDER BY sid DESC"):
            base = sid << SEQ_BITS
            yield from range(min(base + min(last, _MOST_EVENTS), below - 1), base, -1)

    def _hit(self, row: Row, said: str, words: list[str]) -> SearchHit:
        number, at, kind, _ = row
        found = self._db.row("SELECT id FROM session WHERE sid = ?", (number >> SEQ_BITS,))
        session = "" if found is None else str(found[0])
        return SearchHit(session, number & SEQ_MASK, str(at), str(kind), snippet(said, words))


def snippet(said: str, words: list[str]) -> str:
    """The first place of one of the words with some text on both sides, on one line."""
    places = [m.start() for word in words if (m := re.search(re.escape(word), said, re.IGNORECASE))]
    begin = max(0, min(places, default=0) - _AROUND)
    end = begin + 2 * _AROUND + len(words[0])
    middle = " ".join(said[begin:end].split())
    return ("…" if begin else "") + middle + ("…" if end < len(said) else "")


def _said(row: Row) -> str:
    """The words of an event that a person may search; empty where it cannot be read."""
    number, at, kind, body = row
    if not isinstance(body, str | bytes):
        return ""
    data = Event("", number & SEQ_MASK, at, kind, body).data
    value: Any = data.get("text" if kind == "message" else "output")
    return value if isinstance(value, str) else ""


def _take(hits: Iterator[SearchHit], limit: int) -> Iterator[SearchHit]:
    for _, hit in zip(range(limit), hits, strict=False):
        yield hit
