"""What lies in the session's `/work`, as a tree whose directories open and close."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tui.leaving import left
from tui.view.files import file_rows
from tui.widgets.rowlist import RowList
from tui.workspace import Entry, tree


class FilesPane(RowList):
    """Reads only what is open, and only when it is looked at or told to."""

    def __init__(self, root: Path, *, id: str | None = None) -> None:
        super().__init__(empty="nothing in the workspace yet", id=id)
        self.root = root
        self.opened: frozenset[str] = frozenset()
        self._entries: tuple[Entry, ...] = ()
        self.border_subtitle = "enter opens · read-only"

    async def look(self) -> None:
        """Read the names again."""
        try:
            self._entries = await asyncio.to_thread(tree, self.root, self.opened)
        except FileNotFoundError:
            self._entries = ()
        except OSError as error:
            self._entries, self.empty = (), f"it cannot be read: {error.strerror or error}"
        if left(self):
            return
        self.show(file_rows(self._entries, self.opened))
        self.refresh()

    def entry(self, path: str) -> Entry | None:
        """The entry of a row."""
        return next((entry for entry in self._entries if entry.path == path), None)

    def toggle(self, path: str) -> None:
        """Open a directory, or close it."""
        self.opened ^= {path}
