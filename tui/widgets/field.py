"""One line to write in."""

from __future__ import annotations

from textual.widgets import Input


class Field(Input):
    """An input whose cursor stands still where nothing is to move."""

    def on_mount(self) -> None:
        """Follow the app."""
        self.cursor_blink = self.app.animation_level != "none"
