"""A store whose every event is told on, and a transport that waits until that has been heard."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core import Allowed, Denied, EffectPolicy, EffectResponse, Event, SessionInfo, Transport
from impl.store.sqlite import SqliteStore

Tell = Callable[[Mapping[str, Any], bytes], None]


class Mirror(SqliteStore):
    """A store for the one cell on a machine that does not record it: what is stored here is told to whoever does, in
    order. Text that is still streaming is not told."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.tell: Tell | None = None
        self._order = threading.RLock()

    def create_session(self, info: SessionInfo, events: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Event]:
        """See `Store`."""
        with self._order:
            made = super().create_session(info, events)
            self._say({"create": asdict(info), "events": [[kind, data] for kind, data in events]})
        return made

    def append_all(
        self, batches: Sequence[tuple[str, Sequence[tuple[str, Mapping[str, Any]]], Mapping[str, Any] | None]]
    ) -> list[list[Event]]:
        """See `Store`."""
        with self._order:
            made = super().append_all(batches)
            for session, events, columns in batches:
                pairs = [[kind, data] for kind, data in events]
                self._say({"append": session, "events": pairs, "columns": dict(columns or {})})
        return made

    def put_blob(self, data: bytes) -> str:
        """See `Store`."""
        name = super().put_blob(data)
        self._say({"blob": name}, data)
        return name

    def take_in(self, data: bytes) -> str:
        """Store bytes that whoever records has; not told."""
        return super().put_blob(data)

    def lacks(self, names: Sequence[str]) -> list[str]:
        """Those of these hashes whose bytes are not here."""
        return [name for name in names if not self._blobs.has(name)]

    def _say(self, row: Mapping[str, Any], data: bytes = b"") -> None:
        if self.tell is not None:
            self.tell(row, data)


class Heard:
    """A transport that sends nothing before what was stored until then, the intent to send it among it, is stored
    where it will be read should this machine die."""

    def __init__(self, transport: Transport, heard: Callable[[], Awaitable[None]]) -> None:
        self._transport = transport
        self._heard = heard

    async def perform(
        self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]
    ) -> EffectResponse | Denied:
        """See `Transport`."""
        await self._heard()
        return await self._transport.perform(request, policy, secrets)
