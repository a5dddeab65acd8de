"""The panes beside a session's conversation, which take turns in two places; to add one, write it and name it here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from textual.widget import Widget

from core import Event
from tui.panes.bundles import RevisionsPane, ValidationPane
from tui.panes.transcript import TranscriptPane
from tui.panes.workspace import FilesPane
from tui.widgets.lines import TextView
from tui.widgets.logview import LogView

UPPER: Mapping[str, Callable[[Path], Widget]] = {
    "log": lambda work: LogView(id="log"),
    "files": lambda work: FilesPane(work, id="files"),
    "diff": lambda work: TextView(id="diff"),
}
"""By id, which its tab says: what makes the pane for a session whose workspace is there. F3 leads from one to the
next."""
LOWER: Mapping[str, Callable[[Path], Widget]] = {
    "revisions": lambda work: RevisionsPane(id="revisions"),
    "validation": lambda work: ValidationPane(id="validation"),
    "transcript": lambda work: TranscriptPane(id="transcript"),
}
"""The same; each has a key of its own, from F4 on."""


@runtime_checkable
class Fed(Protocol):
    """A pane that shows what it makes of events."""

    def feed(self, events: Sequence[Event]) -> None:
        """Take the session's newest events, in order; drafts of what streams among them."""
