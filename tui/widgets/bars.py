"""The lines at the top and the bottom of every screen: what this is, and which keys act here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tui.view.text import Line, Tone, line
from tui.widgets.content import to_content
from tui.widgets.lines import fit


class Bar(Widget):
    """One line with a left, a middle and a right part; the left and middle give way last."""

    left: reactive[Line] = reactive((), layout=False)
    middle: reactive[Line] = reactive((), layout=False)
    right: reactive[Line] = reactive((), layout=False)

    def render(self) -> Content:
        """The parts, cut to the width."""
        width = max(0, self.size.width)
        middle, middle_size = fit(self.middle, width)
        room = max(0, width - middle_size - (2 if middle_size else 0))
        left, left_size = fit(self.left, room)
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


class KeyBar(Bar):
    """The bottom line: figures on the left, and on the right the keys that act where the focus is."""

    ALWAYS = ("panes", "back", "home", "help", "command_palette", "quit")
    """Actions named in this order, on the right of the others."""
    DROPPED = ("command_palette", "home", "quit", "panes")
    """Which of them go first where the room is short; help stays."""

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self.keys_changed)
        self.call_after_refresh(self.keys_changed)

    def keys_changed(self, _: Any = None) -> None:
        """Other keys act now. A screen that has `describe(action)` may name one by what it does here."""
        if not self.screen.is_current:
            return
        describe = getattr(self.screen, "describe", lambda action: None)
        keys: dict[str, tuple[str, str]] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            name = binding.action.removeprefix("app.")
            if binding.show and active.enabled and name not in keys:
                keys[name] = (self.app.get_key_display(binding), describe(name) or binding.description)
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


def _width(items: Sequence[tuple[str, str]]) -> int:
    return sum(cell_len(f"{key} {label}") + 2 for key, label in items)


def _keys_line(here: Sequence[tuple[str, str]], always: Sequence[tuple[str, str]], room: int) -> Line:
    """As many keys as fit; those of the focused pane first."""
    kept: list[tuple[str, str]] = []
    for item in here:
        if _width([*kept, item, *always]) > room:
            break
        kept.append(item)
    parts: list[str | tuple[str, Tone]] = []
    for key, label in (*kept, *always):
        parts += ["  ", (key, Tone.STRONG), (f" {label}", Tone.DIM)]
    return line(*parts[1:])
