"""Bundles: revisions, validation runs, and channels moved by compare-and-swap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from core import ChannelEntry, Revision, StoreError, TreeEntry, ValidationRun, encode
from impl.store.blobs import Blobs
from impl.store.database import Part, Row

_REVISION: Final = 'SELECT agent, digest, parents, at, "by", message, source, licence, session, files FROM revision'
_VALIDATION: Final = (
    "SELECT id, agent, digest, at, passed, checks_version, environment, checks, problems FROM validation"
)
_CHANNEL: Final = 'SELECT agent, channel, digest, validation_run, at, "by", refused, action FROM channel'

#: What decoding a damaged record raises.
_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class Bundles(Part):
    """The store's methods for agents, revisions, validations and channels."""

    _blobs: Blobs

    # --- revisions -------------------------------------------------------------------------------------

    def agents(self) -> list[str]:
        """Names of agents with a revision, sorted."""
        return [_str(row[0]) for row in self._db.rows("SELECT DISTINCT agent FROM revision ORDER BY agent")]

    def add_revision(self, revision: Revision) -> bool:
        """Record it and make it the latest. False where (agent, digest) already was.

        Raises StoreError `not_found` where the blob of one of its files is not in the store.
        """
        for entry in revision.files:
            if not self._blobs.has(entry.sha256):
                raise StoreError(
                    "not_found",
                    f"The content of {entry.path} is not in the store.",
                    "Put the blobs of a tree before its revision.",
                )
        values = (
            revision.agent,
            revision.digest,
            json.dumps(list(revision.parents)),
            revision.at or self._now(),
            revision.by,
            _clean(revision.message),
            _optional(revision.source),
            _optional(revision.licence),
            revision.session,
            _rows(entry.to_json() for entry in revision.files),
        )
        with self._db as execute:
            added = execute(
                'INSERT OR IGNORE INTO revision (agent, digest, parents, at, "by", message, source, licence,'
                " session, files) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            ).rowcount
            execute(
                "INSERT INTO latest (agent, digest) VALUES (?, ?)"
                " ON CONFLICT (agent) DO UPDATE SET digest = excluded.digest",
                (revision.agent, revision.digest),
            )
        return added == 1

    def revision(self, agent: str, digest: str) -> Revision | None:
        """One revision with its files. Raises StoreError `damaged` where its row cannot be read."""
        row = self._db.row(f"{_REVISION} WHERE agent = ? AND digest = ?", (agent, digest))
        if row is None:
            return None
        try:
            return _revision(row)
        except _UNREADABLE as error:
            raise StoreError(
                "damaged",
                f"The record of {agent}@{digest} is damaged ({error}).",
                "Save the same tree under another agent name, or use another revision.",
            ) from error

    def revisions(self, agent: str) -> list[Revision]:
        """All revisions of an agent, oldest first, with their files; a damaged one stands without files."""
        made = []
        for row in self._db.rows(f"{_REVISION} WHERE agent = ? ORDER BY n", (agent,)):
            try:
                made.append(_revision(row))
            except _UNREADABLE:
                agent_, digest, at, by = (_str(row[n]) for n in (0, 1, 3, 4))
                made.append(Revision(agent_, digest, (), at, by, f"(damaged record) {row[5]}"))
        return made

    def latest(self, agent: str) -> str | None:
        """The digest saved last (saving an existing tree again makes it the latest)."""
        row = self._db.row("SELECT digest FROM latest WHERE agent = ?", (agent,))
        return None if row is None else _str(row[0])

    # --- validations -----------------------------------------------------------------------------------

    def add_validation(self, run: ValidationRun) -> None:
        """Record a run."""
        values = (
            run.id,
            run.agent,
            run.digest,
            run.at or self._now(),
            run.passed,
            run.checks_version,
            encode(run.environment),
            _rows(run.checks),
            _rows(run.problems),
        )
        with self._db as execute:
            execute(
                "INSERT INTO validation (id, agent, digest, at, passed, checks_version, environment, checks,"
                " problems) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )

    def validations(self, agent: str, digest: str | None = None) -> list[ValidationRun]:
        """Runs, oldest first. One whose record is damaged counts as not passed."""
        if digest is None:
            rows = self._db.rows(f"{_VALIDATION} WHERE agent = ? ORDER BY n", (agent,))
        else:
            rows = self._db.rows(f"{_VALIDATION} WHERE agent = ? AND digest = ? ORDER BY n", (agent, digest))
        return [_validation(row) for row in rows]

    # --- channels --------------------------------------------------------------------------------------

    def channels(self, agent: str) -> dict[str, str]:
        """Channel name to the digest it names now."""
        rows = self._db.rows(
            "SELECT channel, digest FROM channel WHERE agent = ? AND refused IS NULL ORDER BY n", (agent,)
        )
        return {_str(channel): _str(digest) for channel, digest in rows}

    def channel_log(self, agent: str) -> list[ChannelEntry]:
        """The history of all the agent's channels, oldest first, refused entries included."""
        rows = self._db.rows(f"{_CHANNEL} WHERE agent = ? ORDER BY n", (agent,))
        return [_entry(row) for row in rows]

    def move_channel(self, entry: ChannelEntry, expected: str | None) -> ChannelEntry:
        """Append `entry` if the channel's head is `expected` (None: no head yet); else append it with
        `refused="stale_head"`. An entry that comes refused is recorded as it is. One transaction."""
        entry = replace(entry, at=entry.at or self._now())
        with self._db as execute:
            head = execute(
                "SELECT digest FROM channel WHERE agent = ? AND channel = ? AND refused IS NULL"
                " ORDER BY n DESC LIMIT 1",
                (entry.agent, entry.channel),
            ).fetchone()
            if entry.refused is None and (None if head is None else head[0]) != expected:
                entry = replace(entry, refused="stale_head")
            execute(
                'INSERT INTO channel (agent, channel, digest, validation_run, at, "by", refused, action)'
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    entry.agent,
                    entry.channel,
                    entry.digest,
                    entry.validation_run,
                    entry.at,
                    entry.by,
                    entry.refused,
                    entry.action,
                ),
            )
        return entry


def _revision(row: Row) -> Revision:
    agent, digest, parents, at, by, message, source, licence, session, files = row
    return Revision(
        agent=_str(agent),
        digest=_str(digest),
        parents=tuple(_texts(json.loads(parents))),
        at=_str(at),
        by=_str(by),
        message=_str(message),
        files=tuple(TreeEntry(f["path"], f["sha256"], f["size"], f["x"]) for f in json.loads(files)),
        source=None if source is None else _object(json.loads(source)),
        licence=None if licence is None else _object(json.loads(licence)),
        session=session,
    )


def _validation(row: Row) -> ValidationRun:
    name, agent, digest, at, passed, version, environment, checks, problems = row
    try:
        return ValidationRun(
            _str(name),
            _str(agent),
            _str(digest),
            _str(at),
            passed == 1,
            _str(version),
            _object(json.loads(environment)),
            tuple(_object(check) for check in json.loads(checks)),
            tuple(_object(problem) for problem in json.loads(problems)),
        )
    except _UNREADABLE as error:
        problem = {"code": "damaged", "path": "", "message": str(error), "hint": "Validate again."}
        return ValidationRun(_str(name), _str(agent), _str(digest), _str(at), False, _str(version), {}, (), (problem,))


def _entry(row: Row) -> ChannelEntry:
    agent, channel, digest, run, at, by, refused, action = row
    return ChannelEntry(
        *(_str(agent), _str(channel), _str(digest)), _opt(run), _str(at), _str(by), _opt(refused), _str(action)
    )


def _str(value: object) -> str:
    """A column that holds text; what damage left there instead, as text."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def _opt(value: object) -> str | None:
    return None if value is None else _str(value)


def _object(value: Any) -> Mapping[str, Any]:
    """`value` if it is an object. Raises TypeError."""
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _texts(value: Any) -> list[str]:
    """`value` if it is a list of texts. Raises TypeError."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError("not a list of texts")
    return value


def _rows(values: Any) -> str:
    return "[" + ",".join(encode(value) for value in values) + "]"


def _optional(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else encode(value)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
