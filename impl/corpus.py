"""Finds the passages of a bundle's corpus that a question is about: BM25 over an in-memory SQLite index."""

from __future__ import annotations

import math
import os
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core import CorpusDocument, Passage, UnknownResource
from impl.passages import Piece, split
from impl.words import content_words, stem, unspaced, weight, words

if TYPE_CHECKING:
    import sqlite3

#: Bytes of one document that are indexed; `text` still gives the whole of it.
MAX_INDEXED: Final = 4_000_000
#: Distinct words of a query that count.
MAX_TERMS: Final = 24
#: Of so many passages found, those headed by the question itself come first.
_NEAREST: Final = 50

# A word in a heading says more of what a passage is about than one in its text; the headings above it, and
# the document's own name, say a little.
_WEIGHTS: Final = (4.0, 1.5, 1.0, 1.5, 1.0)  # heading, trail, body, path, unspaced
_QUERY: Final = f"select rowid, -bm25(passage, {', '.join(map(str, _WEIGHTS))}) from passage where passage match ?"
_SCHEMA: Final = """
create virtual table passage using fts5(
    heading, trail, body, path, pairs, tokenize = "porter unicode61 remove_diacritics 2", detail = full
)
"""


# Words tied by hyphens, underscores or dots: the names of commands, options and functions.
_COMPOUND: Final = re.compile(r"[^\W_]+(?:[-_.][^\W_]+)+")


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    piece: Piece


class CorpusIndex:
    """The documents under one directory, searchable. Lazy: nothing is read before the first question.

    Safe to use from several threads. It reads the directory once: a changed corpus wants a new index.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._documents: list[CorpusDocument] | None = None
        self._entries: list[_Entry] = []
        self._first: list[bool] = []
        self._db: sqlite3.Connection | None = None

    def search(self, query: str, limit: int = 5) -> list[Passage]:
        """The passages that fit best, best first; [] where none has a word of the query.

        Any text is a query: quotes, operators and emoji have no meaning of their own, stop words are dropped.
        `score` is above 0 and comparable within one search only.
        """
        terms = _terms(query)
        if not terms or limit <= 0:
            return []
        with self._lock:
            db = self._index()
            ranked = self._headed(query, _rank(db, terms, self._first))
        return [self._passage(row, score) for row, score in ranked[:limit]]

    def _headed(self, query: str, ranked: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """What opens a section whose heading is the question itself (function words aside) comes before all else."""
        asked = _said(query)
        opening = [row for row, _ in ranked[:_NEAREST] if self._first[row - 1]]
        own = [row for row in opening if _said(self._entries[row - 1].piece.heading) == asked]
        own.sort(key=lambda row: words(self._entries[row - 1].piece.heading) != words(query))
        return [(row, ranked[0][1]) for row in own] + [pair for pair in ranked if pair[0] not in own]

    def documents(self) -> list[CorpusDocument]:
        """Every text document, by path."""
        with self._lock:
            self._index()
            return list(self._documents or ())

    def text(self, path: str) -> str:
        """A document's whole text, line ends as `\\n`. Raises UnknownResource naming the nearest paths."""
        known = {d.path: d.path for d in self.documents()}
        name = unicodedata.normalize("NFC", path.strip()).replace("\\", "/").removeprefix("./")
        if name not in known:
            name = self._by_last_part(name, list(known)) or name
        if name not in known:
            raise UnknownResource(_unknown(path, list(known)))
        data = (self._root / name).read_bytes()
        return data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")

    @staticmethod
    def _by_last_part(name: str, known: Sequence[str]) -> str | None:
        """The one document that ends in `name`, where there is exactly one: people drop the folder."""
        found = [k for k in known if k.casefold().endswith("/" + name.casefold()) or k.casefold() == name.casefold()]
        return found[0] if name and len(found) == 1 else None

    def _passage(self, row: int, score: float) -> Passage:
        entry = self._entries[row - 1]
        return Passage(entry.path, entry.piece.line, entry.piece.heading, entry.piece.text, score)

    def _index(self) -> sqlite3.Connection:
        """Build it once. Called with the lock held."""
        if self._db is not None:
            return self._db
        import sqlite3

        db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        db.execute(_SCHEMA)
        documents: list[CorpusDocument] = []
        entries: list[_Entry] = []
        for path, data in _read(self._root):
            text = data[:MAX_INDEXED].decode("utf-8", "replace")
            title, pieces = split(text, path.rpartition(".")[2].lower())
            documents.append(CorpusDocument(path, title or _stem(path), len(data)))
            entries.extend(_Entry(path, piece) for piece in pieces)
        with db:
            db.execute("begin")
            db.executemany(
                "insert into passage(rowid, heading, trail, body, path, pairs) values (?, ?, ?, ?, ?, ?)",
                ((number, *_columns(entry)) for number, entry in enumerate(entries, 1)),
            )
        self._documents, self._entries, self._db = documents, entries, db
        self._first = [entry.piece.first for entry in entries]
        return db


def _said(text: str) -> frozenset[str]:
    return frozenset(map(stem, content_words(text))) | frozenset(unspaced(text))


def _columns(entry: _Entry) -> tuple[str, str, str, str, str]:
    piece = entry.piece
    pairs = " ".join(unspaced(f"{piece.heading} {piece.text}"))
    return piece.heading, " ".join(piece.trail), piece.text, entry.path, pairs


def _read(root: Path) -> Iterator[tuple[str, bytes]]:
    """(path relative to the root, bytes) of every text file, by path; links and hidden files are left out."""
    found: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        found.extend(os.path.join(folder, f) for f in files if not f.startswith("."))
    for name in sorted(found):
        file = Path(name)
        if file.is_symlink() or not file.is_file():
            continue
        data = file.read_bytes()
        if b"\0" not in data[:8192]:
            yield unicodedata.normalize("NFC", file.relative_to(root).as_posix()), data


@dataclass(frozen=True, slots=True)
class _Term:
    """One thing a passage may hold: an FTS5 expression, quoted, so that nothing in it is an operator."""

    match: str
    weight: float


def _terms(query: str) -> list[_Term]:
    """The query's words that carry meaning, in order, then its compounds (`analyze-tables`) as phrases."""
    terms = [_Term(f'"{word}"', weight(word)) for word in content_words(query)]
    terms += [_Term(f'"{pair}"' if len(pair) > 1 else f'"{pair}"*', 1.0) for pair in unspaced(query)]
    terms += [_Term(f'"{" ".join(words(compound))}"', 0.5) for compound in _COMPOUND.findall(query)]
    return list(dict.fromkeys(terms))[:MAX_TERMS]


def _rank(db: sqlite3.Connection, terms: Sequence[_Term], first: Sequence[bool]) -> list[tuple[int, float]]:
    """(rowid, score), best first.

    A sum of BM25 by word, so that words of doing count less; raised for passages that hold more of the query
    and hold it near together, and for the one that opens its section.
    """
    found = [(term, _scores(db, term.match) or _scores(db, _begins(term.match))) for term in terms]
    live = [(term, rows) for term, rows in found if rows]
    rarity = {t: t.weight * math.log(1 + len(first) / (len(rows) or 0.5)) for t, rows in found}
    whole = sum(rarity.values())
    plain = [t.match for t, _ in live if " " not in t.match and not t.match.endswith("*")]
    near = [_scores(db, f"NEAR({a} {b}, 6)") for a, b in pairwise(plain)]
    ranked = []
    for row in set().union(*(rows for _, rows in live)):
        score = sum(t.weight * rows.get(row, 0.0) for t, rows in live)
        covered = sum(rarity[t] for t, rows in live if row in rows) / whole
        together = sum(row in rows for rows in near) / len(near) if near else 0.0
        opening = 1.2 if first[row - 1] else 1.0
        ranked.append((row, score * (0.3 + 0.7 * covered) * (1 + 0.2 * together) * opening))
    return sorted(ranked, key=lambda r: (-r[1], r[0]))


def _begins(match: str) -> str:
    """The same term as a prefix, for a word that stands nowhere by itself; short ones would fit anything."""
    return match + "*" if len(match) > 6 and not match.endswith("*") else match


def _scores(db: sqlite3.Connection, match: str) -> dict[int, float]:
    """Row to BM25, above 0, of the passages that `match`."""
    return dict(db.execute(_QUERY, (match,)))


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0] or path


def _unknown(path: str, known: Sequence[str]) -> str:
    import difflib

    if not known:
        return f"There is no document {path!r}: the corpus is empty."
    by_name = {k.rpartition("/")[2].casefold(): k for k in known}
    near = difflib.get_close_matches(path.casefold(), [k.casefold() for k in known], 3, 0.4)
    near += difflib.get_close_matches(path.rpartition("/")[2].casefold(), list(by_name), 3, 0.5)
    folded = {k.casefold(): k for k in known}
    names = list(dict.fromkeys(folded.get(n) or by_name[n] for n in near))[:3] or list(known)[:3]
    return f"There is no document {path!r}. Nearest: {', '.join(names)}."
