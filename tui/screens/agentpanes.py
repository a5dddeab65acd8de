"""What every screen with an agent's revisions and validations does with them."""

from __future__ import annotations

from textual import on
from textual.message import Message
from textual.screen import Screen

from tui.panes.bundles import RevisionsPane, ValidationPane, Wish
from tui.panes.transcript import TranscriptPane
from tui.shelf import Shelf
from tui.view.bundles import run_rows, tree_rows
from tui.widgets.rowlist import RowList


class AgentPanes(Screen[None]):
    """A screen that has `shelf`, `agent` and the two panes: fills them and passes wishes on."""

    shelf: Shelf

    class Left(Message):
        """Back to the home screen."""

    class RunWanted(Message):
        """The agent is to be run, `ref` (None: what is live) with a task; or, `change`, edited by the Builder."""

        def __init__(self, agent: str, ref: str | None, task: str, *, change: bool = False) -> None:
            super().__init__()
            self.agent = agent
            self.ref = ref
            self.task = task
            self.change = change

    class Wanted(Message):
        """Something is to be done with a revision of an agent."""

        def __init__(self, wish: Wish, agent: str, digest: str, marked: str | None) -> None:
            super().__init__()
            self.wish = wish
            self.agent = agent
            self.digest = digest
            self.marked = marked

    class RunOpened(Message):
        """A validation run is to be read."""

        def __init__(self, agent: str, run: str) -> None:
            super().__init__()
            self.agent = agent
            self.run = run

    class RevisionOpened(Message):
        """A revision is to be read."""

        def __init__(self, agent: str, digest: str) -> None:
            super().__init__()
            self.agent = agent
            self.digest = digest

    class EventOpened(Message):
        """An event is to be read in full."""

        def __init__(self, seq: int) -> None:
            super().__init__()
            self.seq = seq

    @property
    def agent(self) -> str | None:
        """The agent's name, None while it has none."""
        raise NotImplementedError

    def refresh_bundles(self) -> None:
        """Read the agent's rows again and show them."""
        name = self.agent
        if name is None:
            return
        found, now = self.shelf.agent(name), self.shelf.host.now()
        tree = self.query_one(RevisionsPane)
        tree.show(tree_rows(found.revisions, found.runs, found.channels, now, tree.marked))
        self.query_one(ValidationPane).show(run_rows(found.runs, now))

    @on(RevisionsPane.Marked)
    def _marked(self) -> None:
        self.refresh_bundles()

    @on(RevisionsPane.Wished)
    def _wished(self, event: RevisionsPane.Wished) -> None:
        if self.agent is not None:
            self.post_message(self.Wanted(event.wish, self.agent, event.digest, event.marked))

    @on(RowList.Chosen)
    def _row_chosen(self, event: RowList.Chosen) -> None:
        if self.agent is None:
            return
        if isinstance(event.rows, ValidationPane):
            self.post_message(self.RunOpened(self.agent, event.key))
        elif isinstance(event.rows, RevisionsPane):
            self.post_message(self.RevisionOpened(self.agent, event.key))

    @on(TranscriptPane.Opened)
    def _event_opened(self, event: TranscriptPane.Opened) -> None:
        self.post_message(self.EventOpened(event.seq))
