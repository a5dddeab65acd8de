"""The lines at the top and the bottom of every screen: what this is, and which keys act here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from textual.binding import ActiveBinding
from textual.content import Content
from textual.events import Click
from textual.reactive import reactive
from textual.widget import Widget

from tui.view.text import Line, Tone, line, plain_text
from tui.widgets.content import ACT, clicked, to_content
from tui.widgets.lines import fit

SHORTEST = 16
"""Cells that the left part keeps."""


class Bar(Widget):
    """One line with a left, a middle and a right part. Where it is too short for all, the left one is cut first, but
    for its beginning, then the right one."""

    left: reactive[Line] = reactive((), layout=False)
    middle: reactive[Line] = reactive((), layout=False)
    right: reactive[Line] = reactive((), layout=False)

    def render(self) -> Content:
        """The parts, cut to the width."""
        width = max(0, self.size.width)
        middle, middle_size = fit(self.middle, width)
        room = max(0, width - middle_size - (2 if middle_size else 0))
        wanted = sum(cell_len(span.text) for span in self.right)
        left, left_size = fit(self.left, min(room, max(SHORTEST, room - wanted - (2 if wanted else 0))))
        right, right_size = fit(self.right, max(0, room - left_size - 2))
        if right_size < 8 and right != self.right:
            right, right_size = (), 0
        free = width - left_size - middle_size - right_size
        if middle_size and right_size:
            start = max(2, (width - middle_size) // 2 - left_size)
            before = min(start, max(2, free - 2))
        elif middle_size:
            before = free
        else:
            before = free
        after = free - before
        parts = (*left, *line(" " * before), *middle, *line(" " * after), *right)
        return to_content((parts,))

    async def on_click(self, event: Click) -> None:
        """Names of panes lead to them."""
        await clicked(event, self.screen)


class KeyBar(Bar):
    """The bottom line: figures on the left, and on the right the keys that act where the focus is."""

    ALWAYS = ("panes", "back", "home", "help", "command_palette", "quit")
    """Actions named in this order, on the right of the others."""
    DROPPED = ("command_palette", "home", "quit", "panes")
    """Which of them go first where the room is short; help stays."""

    _shown: Mapping[str, ActiveBinding] = {}

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self.keys_changed)
        self.call_after_refresh(self.keys_changed)

    async def on_click(self, event: Click) -> None:
        """A key's name does what the key does."""
        active = self._shown.get(event.style.meta.get(ACT, ""))
        if active is not None:
            event.stop()
            await self.app.run_action(active.binding.action, active.node)

    def keys_changed(self, _: Any = None) -> None:
        """Other keys act now. A screen that has `describe(action)` may name one by what it does here."""
        if not self.screen.is_current:
            return
        describe = getattr(self.screen, "describe", lambda action: None)
        keys: dict[str, Line] = {}
        self._shown = shown = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            name = binding.action.removeprefix("app.")
            if binding.show and active.enabled and name not in keys:
                shown[name] = active
                label = describe(name) or binding.description
                keys[name] = line((self.app.get_key_display(binding), Tone.STRONG), (f" {label}", Tone.DIM))
                keys[name] = tuple(replace(span, act=name) for span in keys[name])
        here = [item for name, item in keys.items() if name not in self.ALWAYS]
        always = {name: keys[name] for name in self.ALWAYS if name in keys}
        room = max(0, self.size.width - 2 - sum(cell_len(span.text) for span in self.left))
        for name in self.DROPPED:
            if _width([*here[:1], *always.values()]) > room:
                always.pop(name, None)
        self.right = _keys_line(here, list(always.values()), room)

    def on_resize(self) -> None:
        """Other keys may fit."""
        self.keys_changed()


def _width(items: Sequence[Line]) -> int:
    return sum(cell_len(plain_text(item)) + 2 for item in items)


def _keys_line(here: Sequence[Line], always: Sequence[Line], room: int) -> Line:
    """As many keys as fit; those of the focused pane first."""
    kept: list[Line] = []
    for item in here:
        if _width([*kept, item, *always]) > room:
            break
        kept.append(item)
    made = tuple(span for item in (*kept, *always) for span in (*line("  "), *item))
    return made[1:]
