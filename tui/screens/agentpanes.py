"""What every screen with an agent's revisions and validations does with them."""

from __future__ import annotations

from textual import on
from textual.events import Key

from tui.panes.bundles import RevisionsPane, ValidationPane
from tui.panes.transcript import TranscriptPane
from tui.screens import messages
from tui.screens.base import QuietScreen
from tui.shelf import Shelf
from tui.view.bundles import run_rows, tree_rows
from tui.widgets.composer import Composer
from tui.widgets.rowlist import RowList


class AgentPanes(QuietScreen[None]):
    """A screen that has `shelf`, `agent` and the two panes: fills them and passes wishes on."""

    shelf: Shelf
    _shown: object = None
    """What the store held of the agent when its rows were read."""

    early = False
    """Whether the composer is about to get the focus: what is typed before it has it is written all the same."""

    def on_key(self, event: Key) -> None:
        """A letter that found nothing with the focus."""
        if self.early and event.is_printable and event.character is not None:
            event.stop()
            self.query_one(Composer).insert(event.character)

    def on_descendant_focus(self) -> None:
        """From now on keys go where the focus is."""
        self.early = False

    @property
    def agent(self) -> str | None:
        """The agent's name, None while it has none."""
        raise NotImplementedError

    def refresh_bundles(self) -> None:
        """Read the agent's rows again and show them."""
        name = self.agent
        self._shown = None if name is None else self.shelf.mark(name)
        if name is None:
            return
        found, now = self.shelf.agent(name), self.shelf.host.now()
        tree = self.query_one(RevisionsPane)
        tree.show(tree_rows(found.revisions, found.runs, found.channels, now, tree.marked))
        self.query_one(ValidationPane).show(run_rows(found.runs, now))

    def refresh_changed_bundles(self) -> None:
        """The same, where another process did something to the agent."""
        name = self.agent
        if name is not None and self.shelf.mark(name) != self._shown:
            self.refresh_bundles()

    @on(RevisionsPane.Marked)
    def _marked(self) -> None:
        self.refresh_bundles()

    @on(RevisionsPane.Wished)
    def _wished(self, event: RevisionsPane.Wished) -> None:
        if self.agent is not None:
            self.post_message(messages.RevisionWish(event.wish, self.agent, event.digest, event.marked))

    @on(RowList.Chosen)
    def _row_chosen(self, event: RowList.Chosen) -> None:
        if self.agent is None:
            return
        if isinstance(event.rows, ValidationPane):
            self.post_message(messages.RunOpened(self.agent, event.key))
        elif isinstance(event.rows, RevisionsPane):
            self.post_message(messages.RevisionOpened(self.agent, event.key))

    @on(TranscriptPane.Opened)
    def _event_opened(self, event: TranscriptPane.Opened) -> None:
        self.post_message(messages.EventOpened(event.seq))
