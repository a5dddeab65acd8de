"""Searching all sessions: words above, the places where they stand below; enter opens the session at the place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from tui.desk import Desk
from tui.leaving import left
from tui.view.fleet import session_name
from tui.view.rows import Row
from tui.view.text import Tone, column, line, one_line, plural, when
from tui.widgets.bars import Bar, KeyBar
from tui.widgets.field import Field
from tui.widgets.rowlist import RowList

if TYPE_CHECKING:
    from core import SearchHit

MOST = 200
NAME = 18


class SearchScreen(Screen[tuple[str, int] | None]):
    """Closes with the (session, event) to open, or None. `words` are looked for at once."""

    CSS_PATH = "dialogs.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "back", id="search.back", tooltip="Back"),
        Binding("down", "results", "results", show=False, id="search.results", tooltip="To the places found"),
    ]

    def __init__(self, desk: Desk, words: str = "") -> None:
        super().__init__()
        self.desk = desk
        self._words = words

    def compose(self) -> ComposeResult:
        """A field above the list."""
        yield Bar(id="top")
        yield Field(self._words, placeholder="words, or beginnings of words; enter searches", id="words")
        yield RowList(id="hits")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Write first."""
        self.query_one("#top", Bar).left = line(("Search all sessions", Tone.STRONG))
        self.query_one(Input).focus()

    @on(Input.Submitted)
    async def _search(self, event: Input.Submitted) -> None:
        rows = self.query_one(RowList)
        if not event.value.strip():
            return
        hits = await asyncio.to_thread(self.desk.store.search, event.value, MOST)
        if left(self):
            return
        rows.empty = "nothing found"
        rows.show(self._rows(hits))
        rows.refresh()
        most = " (the newest)" if len(hits) == MOST else ""
        self.query_one("#top", Bar).right = line((plural(len(hits), "place") + most, Tone.DIM))
        if hits:
            rows.focus()

    def _rows(self, hits: Sequence[SearchHit]) -> tuple[Row, ...]:
        names: dict[str, str] = {}
        rows = []
        for hit in hits:
            if hit.session not in names:
                info = self.desk.store.session(hit.session)
                names[hit.session] = session_name(info) if info is not None else hit.session
            left = line((column(names[hit.session], NAME) + " ", Tone.STRONG), one_line(hit.snippet))
            right = line((f"{when(hit.at, self.desk.host.now())}  event {hit.seq}", Tone.DIM))
            rows.append(Row(f"{hit.session}:{hit.seq}", left, right))
        return tuple(rows)

    @on(RowList.Chosen)
    def _chosen(self, event: RowList.Chosen) -> None:
        session, _, seq = event.key.rpartition(":")
        self.dismiss((session, int(seq)))

    def action_results(self) -> None:
        """From the field to the list."""
        self.query_one(RowList).focus()
