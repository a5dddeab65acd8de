"""The question whether a key that was pasted among words is to be stored, and as which credential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click
from textual.screen import ModalScreen

from tui.view.pasted import Pasted, Place, keep_lines
from tui.view.text import button, line
from tui.widgets.content import Hanging, Lines, clicked, own_key

HANG = 9


class KeepScreen(ModalScreen[str | None]):
    """Closes with the name to store it as; empty: leave it out of what is sent; None: back to the composer."""

    CSS_PATH = "dialogs.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "keep", "store", id="keep.yes", tooltip="Store the key under the marked name"),
        Binding("n", "leave", "leave out", id="keep.no", tooltip="Store nothing, and send the words without the key"),
        Binding("escape", "back", "back", id="keep.back", tooltip="Back to what you wrote"),
        Binding("up,k", "move(-1)", "Up", show=False, id="keep.up", tooltip="The name above"),
        Binding("down,j", "move(1)", "Down", show=False, id="keep.down", tooltip="The name below"),
        *(
            Binding(str(n), f"pick({n})", f"as {n}", show=False, id=f"keep.{n}", tooltip=f"Store it under name {n}")
            for n in range(1, 10)
        ),
    ]

    def __init__(self, pasted: Pasted, places: Sequence[Place]) -> None:
        super().__init__()
        self._pasted = pasted
        self._places = places
        self._at = 0

    def compose(self) -> ComposeResult:
        """What would be stored where, and the keys."""
        box = Vertical(id="dialog")
        box.border_title = "Store this key now?"
        with box:
            yield Lines(self._lines())

    def _lines(self) -> list[Hanging]:
        several = len(self._places) > 1
        store = f"1-{len(self._places)}" if several else own_key(self, "keep.yes", "y")
        leave = "send without it" if self._pasted.words else "leave it"
        gap = line("    ")
        keys = (
            *button(store, "store it", "keep"),
            *gap,
            *button(own_key(self, "keep.no", "n"), leave, "leave"),
            *gap,
            *button(own_key(self, "keep.back", "esc"), "back", "back"),
        )
        return [(spans, HANG) for spans in (*keep_lines(self._pasted, self._places, self._at), (), keys)]

    async def on_click(self, event: Click) -> None:
        """The answers."""
        await clicked(event, self)

    def action_move(self, step: int) -> None:
        """Another name."""
        self._at = min(max(self._at + step, 0), len(self._places) - 1)
        self.query_one(Lines).show(self._lines())

    def action_pick(self, number: int) -> None:
        """Store it under a numbered name."""
        if number <= len(self._places):
            self.dismiss(self._places[number - 1].name)

    def action_keep(self) -> None:
        """Store it under the marked name."""
        self.dismiss(self._places[self._at].name)

    def action_leave(self) -> None:
        """Store nothing."""
        self.dismiss("")

    def action_back(self) -> None:
        """Back to what was written."""
        self.dismiss(None)
