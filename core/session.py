"""A session being driven: its log, which stores an event before anyone sees it, and its columns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

from core.events import Event
from core.group import Group
from core.history import History, no_collection, repairs
from core.ports import SessionInfo, Store, StoreError
from core.provider import Usage

Pair = tuple[str, Mapping[str, Any]]

LOCKED_S: Final = 30.0
"""How long a running session waits for another process to unlock the store, beyond the store's own patience."""
LOCKED_PAUSE_S: Final = 0.1


class Bus:
    """Wakes those who follow a session. It carries no events: each follower reads the store at its own pace,
    so a slow one slows nobody and none is lost. `group` is what its sessions share their commits in, where they do."""

    def __init__(self, group: Group | None = None) -> None:
        self.group = group
        self._waiters: dict[str, set[asyncio.Event]] = {}

    def notify(self, session: str) -> None:
        """Something new is in the store for `session`."""
        for waiter in self._waiters.get(session, ()):
            waiter.set()

    async def follow(self, store: Store, session: str, after: int = 0) -> AsyncIterator[Event]:
        """Events after `after`, then every new one. A draft that changed comes as an event of kind `draft`,
        seq 0. Ends when its consumer closes it."""
        wake = asyncio.Event()
        self._waiters.setdefault(session, set()).add(wake)
        shown: tuple[str, str, str] | None = None
        try:
            while True:
                wake.clear()
                fresh = list(store.events(session, after=after, limit=500))
                for event in fresh:
                    after = event.seq
                    yield event
                draft = store.draft(session)
                if draft is not None and draft != shown:
                    yield draft_event(session, *draft)
                shown = draft
                if not fresh:
                    await wake.wait()
        finally:
            waiters = self._waiters.get(session)
            if waiters is not None:
                waiters.discard(wake)
                if not waiters:
                    del self._waiters[session]


def draft_event(session: str, message: str, text: str, thinking: str) -> Event:
    """Text still streaming, as followers see it: kind `draft`, seq 0, never stored as an event."""
    return Event(session, 0, "", "draft", data={"id": message, "text": text, "thinking": thinking})


class SessionLog:
    """The writing end of one session, owned by this process.

    `append` commits, applies to `history` and the reducers, then tells whoever watches. Columns (usage, cost,
    status) go in the same transaction as the events that change them.
    """

    def __init__(
        self,
        store: Store,
        info: SessionInfo,
        bus: Bus,
        watch: Callable[[Event], None] | None = None,
        reducers: Sequence[Callable[[Event], None]] = (),
    ) -> None:
        self.store = store
        self.info = info
        self.history = History()
        self._reducers = (self.history.apply, *reducers)
        self._bus = bus
        self._watch = watch
        self._spent: Decimal | None = Decimal(info.usd) if info.usd is not None else None
        self._priced = info.requests == 0 or info.usd is not None

    @property
    def id(self) -> str:
        """The session's id."""
        return self.info.id

    def create(self, *pairs: Pair) -> None:
        """Store the session with its first events, then show them. Raises StoreError, ValueError for a taken id."""
        self._show(self.store.create_session(self.info, pairs))

    def load(self) -> None:
        """Read every event into the history and the reducers, and mend what a crash left. For a session just
        claimed."""
        with no_collection():
            for event in self.store.events(self.id):
                for reduce in self._reducers:
                    reduce(event)
        draft = self.store.draft(self.id)
        mend = repairs(self.history, draft)
        if mend:
            self.append(*mend)
        if draft is not None and not draft[1].strip():
            self.store.clear_draft(self.id)

    def follow_with(self, reduce: Callable[[Event], None], kinds: Iterable[str] | None = None) -> None:
        """One more reducer, from the session's first event on; of what is stored it is shown only these kinds."""
        for event in self.store.events(self.id, kinds=kinds):
            reduce(event)
        self._reducers = (*self._reducers, reduce)

    def append(self, *pairs: Pair, **columns: Any) -> list[Event]:
        """Store (kind, data) pairs and columns in one transaction, then show them. Raises StoreError."""
        events = self.store.append(self.id, pairs, columns or None)
        self._stored(columns, events)
        return events

    async def append_together(self, *pairs: Pair, **columns: Any) -> None:
        """`append` in one transaction with what other sessions of this process store in this moment.

        Where another process keeps the store locked it waits up to LOCKED_S, and can be cancelled meanwhile: a
        backup or a hanging command elsewhere must not end what is going on here.
        """
        deadline: float | None = None
        while True:
            try:
                group = self._bus.group
                if group is None or not group.busy():
                    self.append(*pairs, **columns)
                else:
                    await group.append(self.id, pairs, columns or None, partial(self._stored, columns))
            except StoreError as error:
                now = time.monotonic()
                deadline = now + LOCKED_S if deadline is None else deadline
                if error.code != "busy" or now >= deadline:
                    raise
            else:
                return
            await asyncio.sleep(LOCKED_PAUSE_S)

    def _stored(self, columns: Mapping[str, Any], events: Sequence[Event]) -> None:
        if columns:
            self.info = replace(self.info, **columns)
        self._show(events)

    def _show(self, events: Sequence[Event]) -> None:
        for event in events:
            for reduce in self._reducers:
                reduce(event)
        self._bus.notify(self.id)
        if self._watch is not None:
            for event in events:
                self._watch(event)

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Store one event, then show it."""
        self.append((kind, data))

    def draft(self, message: str, text: str, thinking: str) -> None:
        """Store the text streamed so far, then show it."""
        self.store.set_draft(self.id, message, text, thinking)
        self._bus.notify(self.id)
        if self._watch is not None:
            self._watch(draft_event(self.id, message, text, thinking))

    def charge(
        self, usage: Usage | None, usd: Decimal | None, provider: str, model: str | None
    ) -> tuple[Pair, dict[str, Any]]:
        """The `usage` event of one more request, and the session's new totals.

        A request of unknown price makes the total unknown; one whose provider counted nothing still counts.
        """
        counted = usage or Usage()
        if usd is None:
            self._priced = False
        elif self._priced:
            self._spent = (self._spent or Decimal(0)) + usd
        info = self.info
        body = {
            "input_tokens": counted.input_tokens,
            "output_tokens": counted.output_tokens,
            "cached_tokens": counted.cached_tokens,
            "requests": counted.requests,
            "cost": {"usd": None if usd is None else format(usd, "f")},
            "provider": provider,
            "model": model,
        }
        if usage is None or usage.estimated:
            body["reported"] = False
        columns = {
            "input_tokens": info.input_tokens + counted.input_tokens,
            "output_tokens": info.output_tokens + counted.output_tokens,
            "cached_tokens": info.cached_tokens + counted.cached_tokens,
            "requests": info.requests + counted.requests,
            "usd": format_usd(self._spent) if self._priced else None,
        }
        return ("usage", body), columns


def format_usd(value: Decimal | None) -> str | None:
    """US dollars as a plain decimal string, at least two places, no exponent; None stays None."""
    if value is None:
        return None
    quantised = value.quantize(Decimal("0.000001")).normalize()
    text = format(quantised, "f")
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(2, '0')}"
