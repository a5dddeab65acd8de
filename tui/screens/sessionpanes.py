"""The panes of a session's screen: which of them show at which width, and the keys that lead to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.worker import WorkType

from tui.leaving import left
from tui.panes.chat import ChatPane
from tui.panes.side import LOWER, UPPER
from tui.panes.transcript import TranscriptPane
from tui.panes.workspace import FilesPane
from tui.screens.agentpanes import AgentPanes
from tui.screens.messages import FileOpened
from tui.view.tabs import CHAT, tabs, tabs_title
from tui.view.text import Line, Tone, line
from tui.widgets.bars import Bar
from tui.widgets.composer import Composer
from tui.widgets.lines import TextView
from tui.widgets.rowlist import RowList

MOST_DIFF_LINES = 5_000
LISTS = frozenset({"files", "diff", "revisions", "validation"})
"""Panes that are read from their top."""
NARROW = 100


class SessionPanes(AgentPanes):
    """Shows the panes that fit, one at a time on narrow screens; `pane` is the one in use, `upper` and `lower` those
    that share the side of wide screens."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-wide")]  # noqa: RUF012 - Textual declares it so

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "pane('chat')", "chat", show=False, id="session.chat", tooltip="The conversation", priority=True),
        Binding(
            "f3",
            "workspace",
            "workspace",
            show=False,
            id="session.log",
            tooltip="The workspace: its log; again: its files; again: the diff",
            priority=True,
        ),
        Binding(
            "f4",
            "pane('revisions')",
            "revisions",
            show=False,
            id="session.revisions",
            tooltip="The revisions",
            priority=True,
        ),
        Binding(
            "f5",
            "pane('validation')",
            "checks",
            show=False,
            id="session.validation",
            tooltip="Validation runs",
            priority=True,
        ),
        Binding(
            "f6",
            "pane('transcript')",
            "events",
            show=False,
            id="session.transcript",
            tooltip="Every event",
            priority=True,
        ),
        Binding("escape", "panes", "panes", id="session.panes", tooltip="To the card or the panes, and back"),
    ]

    pane = "chat"
    upper = "log"
    lower = "revisions"
    composed = False
    """Whether the panes are there: the first size and the first poll may come before."""

    def look_again(self, name: str) -> None:
        """Read a pane's files or diff, where it shows."""
        if self.composed and self.query_one(f"#{name}").display:
            look: WorkType[None] = self.query_one(FilesPane).look if name == "files" else self._look_at_diff
            self.run_worker(look, exclusive=True, group=name)

    async def _look_at_diff(self) -> None:
        """The newest revision beside its parent."""
        from core import StoreError, UnknownRef

        lines: Sequence[Line] = (line(("no revision yet", Tone.DIM)),)
        name = self.agent
        revisions = self.shelf.agent(name).revisions if name is not None else ()
        if name is not None and revisions:
            newest = revisions[-1]
            parent = newest.parents[0] if newest.parents else None
            try:
                lines = await asyncio.to_thread(self.shelf.diff, name, parent, newest.digest)
            except (StoreError, UnknownRef) as error:
                lines = (line((f"it cannot be shown: {error}", Tone.FAIL)),)
            if left(self):
                return
        if len(lines) > MOST_DIFF_LINES:
            more = f"… {len(lines) - MOST_DIFF_LINES:,} more lines: F4, d shows all"
            lines = (*lines[:MOST_DIFF_LINES], line((more, Tone.DIM)))
        pane = self.query_one("#diff", TextView)
        if pane.lines != tuple(lines):
            pane.show(lines)

    def show_panes(self) -> None:
        """Show the panes that fit: at 80 columns one at a time, with a line that says which there are."""
        narrow = self.size.width < NARROW
        self.query_one("#tabs").display = narrow
        for name in (*UPPER, *LOWER):
            self.query_one(f"#{name}").display = name == self.pane if narrow else name in (self.upper, self.lower)
        self.query_one("#chat").display = not narrow or self.pane == "chat"
        self.query_one("#side").display = not narrow or self.pane != "chat"
        self.query_one("#tabs", Bar).left = tabs(tuple(UPPER), tuple(LOWER), self.pane, self.size.width - 2)
        self.query("ToastRack").set_class(narrow and self.pane in LISTS, "-over-list")
        for name in UPPER:
            self.query_one(f"#{name}").border_title = "F3 Workspace  " + tabs_title(tuple(UPPER), self.upper)
        for name in LOWER:
            self.query_one(f"#{name}").border_title = tabs_title(tuple(LOWER), self.lower, first=4)

    def action_pane(self, name: str) -> None:
        """Go to a pane; at 80 columns it takes the place of the one shown."""
        self.pane = name
        if name in UPPER:
            self.upper = name
        elif name in LOWER:
            self.lower = name
        self.show_panes()
        if name in ("files", "diff"):
            self.look_again(name)
        self.set_focus(self.query_one(f"#{name}"))  # at once: the next key may be here already, and is for the pane

    def show_event(self, seq: int) -> None:
        """Go to an event in the transcript."""
        self.action_pane("transcript")
        self.query_one(TranscriptPane).action_go(seq)

    def action_workspace(self) -> None:
        """To the workspace; from one of its panes to the next."""
        here = self.focused is not None and self.focused.id in UPPER
        names = tuple(UPPER)
        self.action_pane(names[(names.index(self.upper) + 1) % len(names)] if here else self.upper)

    def describe(self, action: str) -> str | None:
        """Where escape and home lead from here, for the line of keys."""
        if action == "home":
            return "lab" if getattr(self.app, "beneath", None) is not None else None
        if action != "panes":
            return None
        if not self.query_one(Composer).has_focus:
            return "write"
        return "card" if self.query_one(ChatPane).card is not None else "panes"

    def action_panes(self) -> None:
        """From the composer to a waiting card, or to the pane in use; from anywhere else back to the composer."""
        composer = self.query_one(Composer)
        if not composer.has_focus:
            if self.size.width < NARROW and self.query_one(ChatPane).card is not None:
                self.pane = "chat"
                self.show_panes()
            self.set_focus(composer)
            return
        card = self.query_one(ChatPane).card
        if card is not None and self.query_one("#chat").display:
            card.enter()
        else:
            self.set_focus(self.query_one(f"#{self.pane}"))

    @on(Composer.Paged)
    def _paged(self, event: Composer.Paged) -> None:
        """Read back in the conversation while writing; where another pane shows instead, in that."""
        if self.query_one("#chat").display:
            self.query_one(ChatPane).page(event.step)
            return
        pane = self.query_one(f"#{self.pane}")
        turn = getattr(pane, "action_page", None)
        if turn is not None:
            turn(event.step)
        else:
            pane.scroll_relative(y=event.step * max(1, pane.size.height - 1), animate=False)

    @on(RowList.Chosen, "#files")
    async def _file_chosen(self, event: RowList.Chosen) -> None:
        """Open or close a directory; show a file's text."""
        pane = self.query_one(FilesPane)
        entry = pane.entry(event.key)
        if entry is None:
            return
        if entry.kind == "directory":
            pane.toggle(entry.path)
            await pane.look()
        elif entry.kind == "file":
            self.post_message(FileOpened(pane.root, entry.path))

    def on_descendant_focus(self) -> None:
        """Remember the pane in use."""
        for widget in (self.focused, *(self.focused.ancestors if self.focused else ())):
            if isinstance(widget, Widget) and widget.id in (CHAT, *UPPER, *LOWER) and self.size.width >= NARROW:
                self.pane = widget.id
