"""The port of the store: sessions, blobs, revisions, validation runs, channels, and the rows they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from core.events import Event


class StoreError(Exception):
    """The store cannot do it; `hint` is the next step. `code` is `disk_full`, `read_only`, `busy`,
    `newer_version`, `damaged`, `not_found`."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session's columns. `status` is `running`, `stopped` or `interrupted` (its owner died before a
    stop), computed at read. `usd` is a decimal string, None while unknown; times are ISO 8601 with Z."""

    id: str
    kind: str
    agent: str | None = None
    digest: str | None = None
    channel: str | None = None
    parent: str | None = None
    depth: int = 0
    status: str = "stopped"
    stop: str | None = None
    started: str = ""
    ended: str | None = None
    summary: str = ""
    provider: str = "offline"
    model: str | None = None
    sandbox: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    usd: str | None = None
    last_seq: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a bundle: NFC POSIX `path`, hex `sha256`, `size` in bytes, `x` whether executable."""

    path: str
    sha256: str
    size: int
    x: bool

    def to_json(self) -> dict[str, Any]:
        """The row the digest is made of."""
        return {"path": self.path, "sha256": self.sha256, "size": self.size, "x": self.x}


@dataclass(frozen=True, slots=True)
class Revision:
    """A stored bundle tree and what stands beside it. `by` is `builder`, `person`, `author` or `import`.
    `source` is `{"url"|"path", "commit", "kind"}` or None; `licence` is `{"spdx","status","path"}` or None."""

    agent: str
    digest: str
    parents: tuple[str, ...]
    at: str
    by: str
    message: str
    files: tuple[TreeEntry, ...] = ()
    source: Mapping[str, Any] | None = None
    licence: Mapping[str, Any] | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class ValidationRun:
    """One execution of the gate. `problems` are `{"code","path","message","hint"}`; `checks` are
    `{"name","passed","duration_s","log"}`; `environment` says sandbox, Python, platform, unsafe."""

    id: str
    agent: str
    digest: str
    at: str
    passed: bool
    checks_version: str
    environment: Mapping[str, Any]
    checks: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """One line of a channel's history. `refused` is the reason where the publication did not happen."""

    agent: str
    channel: str
    digest: str
    validation_run: str | None
    at: str
    by: str
    refused: str | None = None
    action: str = "publish"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A place in a session where the searched text stands."""

    session: str
    seq: int
    at: str
    kind: str
    snippet: str


class Store(Protocol):
    """Durable state. Every method is synchronous, short and safe among several processes."""

    # sessions and events
    def create_session(self, info: SessionInfo, events: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Event]:
        """Add a session owned by this process, with its first events, in one transaction."""

    def append(
        self,
        session: str,
        events: Sequence[tuple[str, Mapping[str, Any]]],
        columns: Mapping[str, Any] | None = None,
    ) -> list[Event]:
        """Append (kind, data) pairs in one transaction, setting the session's columns with them.
        A `message` of the assistant's clears the draft in the same transaction. Once it returns, they
        survive kill -9."""

    def append_all(
        self, batches: Sequence[tuple[str, Sequence[tuple[str, Mapping[str, Any]]], Mapping[str, Any] | None]]
    ) -> list[list[Event]]:
        """Several appends (session, events, columns), in their order and in one transaction: all or none."""

    def events(
        self, session: str, *, after: int = 0, limit: int | None = None, kinds: Iterable[str] | None = None
    ) -> Iterator[Event]:
        """Events with seq > after, oldest first; bodies decoded lazily."""

    def tail(self, session: str, count: int) -> list[Event]:
        """The last `count` events, oldest first."""

    def session(self, session: str) -> SessionInfo | None:
        """One session by its whole id."""

    def sessions(
        self, *, limit: int | None = None, kinds: Iterable[str] | None = None, parent: str | None = None
    ) -> list[SessionInfo]:
        """All (or the newest `limit`), oldest first; of some kinds, or of one parent, where that is said."""

    def match_session(self, prefix: str) -> list[str]:
        """Ids that begin with `prefix`."""

    def set_draft(self, session: str, message: str, text: str, thinking: str = "") -> None:
        """Keep the text streamed so far of message id `message`; replaces the one before."""

    def draft(self, session: str) -> tuple[str, str, str] | None:
        """(message id, text, thinking) of an unfinished message, or None."""

    def clear_draft(self, session: str) -> None:
        """Forget the draft."""

    def claim(self, session: str) -> bool:
        """Make this process the owner, if nobody alive is. False where another process drives it."""

    def release(self, session: str) -> None:
        """Give ownership up."""

    def owner_socket(self, session: str) -> Path | None:
        """The Unix socket of the living process that drives it, or None."""

    def own_socket(self) -> Path:
        """Where this process listens for interrupt and answer of sessions it owns."""

    def data_version(self) -> int:
        """Changes whenever any process (this one included) has written."""

    def search(self, text: str, limit: int = 50) -> list[SearchHit]:
        """Where the words stand in messages, tool outputs and stops; newest first."""

    # blobs
    def put_blob(self, data: bytes) -> str:
        """Store bytes once; returns their hex SHA-256. Durable before it returns."""

    def blob(self, sha256: str) -> bytes:
        """Bytes by hash. Raises StoreError `not_found` or `damaged`."""

    def unreferenced_blobs(self) -> list[str]:
        """Blobs that nothing stored names, and that were not stored just now."""

    def delete_blob(self, sha256: str) -> int:
        """Remove a blob; returns its size in bytes, 0 where there was none."""

    # bundles
    def agents(self) -> list[str]:
        """Names of agents with a revision, sorted."""

    def add_revision(self, revision: Revision) -> bool:
        """Record it; the blobs of its files must be there. False where (agent, digest) already was."""

    def revision(self, agent: str, digest: str) -> Revision | None:
        """One revision with its files."""

    def revisions(self, agent: str) -> list[Revision]:
        """All revisions of an agent, oldest first, with their files."""

    def latest(self, agent: str) -> str | None:
        """The digest saved last (saving an existing tree again makes it the latest)."""

    def add_validation(self, run: ValidationRun) -> None:
        """Record a run."""

    def validations(self, agent: str, digest: str | None = None) -> list[ValidationRun]:
        """Runs, oldest first."""

    def channels(self, agent: str) -> dict[str, str]:
        """Channel name to the digest it names now."""

    def channel_log(self, agent: str) -> list[ChannelEntry]:
        """The history of all the agent's channels, oldest first, refused entries included."""

    def move_channel(self, entry: ChannelEntry, expected: str | None) -> ChannelEntry:
        """Append `entry` if the channel's head is `expected` (None: no head yet); else append it with
        `refused="stale_head"`. One transaction; returns the entry as recorded."""

    # small durable values (grants, window state)
    def get_value(self, key: str) -> Any:
        """A JSON value, or None."""

    def set_value(self, key: str, value: Any) -> None:
        """Set a JSON value; None deletes."""

    def close(self) -> None:
        """Close it; releases what this process owns."""
