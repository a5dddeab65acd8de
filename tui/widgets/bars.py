"""The lines at the top and the bottom of every screen: what this is, and which keys act here."""

from __future__ import annotations

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

    ALWAYS = ("help", "command_palette", "quit")

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)
        self.call_after_refresh(self._bindings_changed)

    def _bindings_changed(self, _: Any = None) -> None:
        if not self.screen.is_current:
            return
        keys: dict[str, tuple[str, str]] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and binding.action not in keys:
                keys[binding.action] = (self.app.get_key_display(binding), binding.description)
        here = [item for action, item in keys.items() if action.removeprefix("app.") not in self.ALWAYS]
        named = {action.removeprefix("app."): item for action, item in keys.items()}
        always = [named[action] for action in self.ALWAYS if action in named]
        room = max(0, self.size.width - sum(cell_len(span.text) for span in self.left) - 2)
        self.right = _keys_line(here, always, room)

    def on_resize(self) -> None:
        """Other keys may fit."""
        self._bindings_changed()


def _keys_line(here: list[tuple[str, str]], always: list[tuple[str, str]], room: int) -> Line:
    """As many keys as fit; those of the focused pane first, help always."""
    chosen = list(always)
    kept: list[tuple[str, str]] = []

    def width(items: list[tuple[str, str]]) -> int:
        return sum(cell_len(f"{key} {label}") + 2 for key, label in items)

    while len(chosen) > 1 and width(chosen) + (width(here[:2])) > room:
        chosen.pop()
    for item in here:
        if width([*kept, item, *chosen]) > room:
            break
        kept.append(item)
    parts: list[str | tuple[str, Tone]] = []
    for key, label in (*kept, *chosen):
        parts += ["  ", (key, Tone.STRONG), (f" {label}", Tone.DIM)]
    return line(*parts[1:])
