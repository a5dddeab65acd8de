"""One transaction for what many sessions store in the same tick of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.events import Event
from core.ports import Store

if TYPE_CHECKING:
    from core.session import Pair


@dataclass(frozen=True, slots=True)
class Entry:
    """What one session stores: its events, its columns, what is done with them then, and what waits for that."""

    session: str
    pairs: Sequence[Pair]
    columns: Mapping[str, Any] | None
    then: Callable[[list[Event]], None]
    stored: asyncio.Future[None]


class Group:
    """Gathers what the sessions of one event loop append until its tick ends, and commits it at once.

    A commit costs more than what is in it, so what many share costs each little. Nothing is shown before it is
    stored, and whoever appends goes on once it is. `busy` tells whether there is anybody to share with: a session
    alone need not wait for the tick's end.
    """

    def __init__(self, store: Store, busy: Callable[[], bool]) -> None:
        self.busy = busy
        self._store = store
        self._waiting: list[Entry] = []

    async def append(
        self,
        session: str,
        pairs: Sequence[Pair],
        columns: Mapping[str, Any] | None,
        then: Callable[[list[Event]], None],
    ) -> None:
        """Store the pairs, and do `then` with the events. Raises what either raised.

        Where the caller is cancelled both are done all the same, and before it comes to know: what the event loop was
        asked to do first it does first.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        entry = Entry(session, pairs, columns, then, loop.create_future())
        self._waiting.append(entry)
        await entry.stored

    def _flush(self) -> None:
        """Store what is waiting now, and let those go on who wait for it."""
        entries, self._waiting = self._waiting, []
        self._commit(entries)

    def _commit(self, entries: Sequence[Entry]) -> None:
        try:
            stored = self._store.append_all([(entry.session, entry.pairs, entry.columns) for entry in entries])
        except Exception as error:  # noqa: BLE001 - it is raised where each of them was appended
            if len(entries) > 1 and getattr(error, "code", None) != "busy":
                for entry in entries:  # it may be the fault of one
                    self._commit([entry])
            else:
                for entry in entries:
                    _finish(entry, error)
            return
        for entry, events in zip(entries, stored, strict=True):
            try:
                entry.then(events)
            except Exception as error:  # noqa: BLE001 - the same
                _finish(entry, error)
            else:
                _finish(entry)


def _finish(entry: Entry, error: Exception | None = None) -> None:
    if entry.stored.done():  # whoever waited was cancelled
        return
    if error is None:
        entry.stored.set_result(None)
    else:
        entry.stored.set_exception(error)
