"""What a worker says of its cell, stored: its sessions' events and columns, blobs, files of its workspaces, its end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

from core import Host, Job, SessionInfo
from impl.engines.dask.workspaces import take_row

_STORES_OWN: Final = ("last_seq", "status", "started", "ended")
"""Columns that say what this store does: a worker's clock is not asked."""
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FIELDS: Final = frozenset(f.name for f in fields(SessionInfo)) - set(_STORES_OWN)


class NotItsRow(Exception):
    """A worker speaks of what is not its cell's."""


class Cell(Protocol):
    """Whose rows these are: the job, and its sessions so far."""

    job: Job
    sessions: set[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last row of a cell: done after so many seconds, cancelled, or failed at what the worker should have done."""

    duration_s: float = 0.0
    cancelled: bool = False
    failed: str | None = None


def store_row(host: Host, cell: Cell, row: Mapping[str, Any], data: bytes) -> Outcome | None:
    """Store one row; the outcome where it is the last. Raises NotItsRow, StoreError, OSError, and ValueError, KeyError
    or TypeError for one that makes no sense."""
    match row:
        case {"create": dict() as info, "events": events}:
            _create(host, cell, info, events)
        case {"append": str() as session, "events": events, "columns": dict() as columns}:
            _own(cell, session)
            if columns.get("ended") is not None:
                columns["ended"] = host.now()
            host.store.append(session, _pairs(events), columns or None)
        case {"blob": str() as name}:
            if host.store.put_blob(data) != name:
                raise NotItsRow(f"the bytes of {name[:12]} are others")
        case (
            {"directory": [str() as session, *_]} | {"file": [str() as session, *_]} | {"link": [str() as session, *_]}
        ):
            _own(cell, session)
            take_row(row, data, host.workspace_path(session))
        case {"done": {"duration_s": seconds}}:
            return Outcome(float(seconds))
        case {"cancelled": True}:
            return Outcome(cancelled=True)
        case {"failed": str() as why}:
            return Outcome(failed=why)
        case _:
            raise NotItsRow(f"an unknown row: {', '.join(row)[:80]}")
    return None


def _create(host: Host, cell: Cell, info: Mapping[str, Any], events: Any) -> None:
    session = str(info["id"])
    if session != cell.job.session and info.get("parent") not in cell.sessions:
        raise NotItsRow(f"a session {session} that nothing of it began")
    if not _ID.fullmatch(session):  # its workspace is a directory of that name
        raise NotItsRow(f"{session[:80]!r}, which is no session's id")
    columns = {name: value for name, value in info.items() if name in _FIELDS}
    host.store.create_session(SessionInfo(**columns), _pairs(events))
    cell.sessions.add(session)


def _own(cell: Cell, session: str) -> None:
    if session not in cell.sessions:
        raise NotItsRow(f"a session {session} that is not its own")


def _pairs(events: Any) -> list[tuple[str, Mapping[str, Any]]]:
    return [(str(kind), data) for kind, data in events]
