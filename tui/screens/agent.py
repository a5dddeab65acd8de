"""One agent: its revisions, its validation history, what is live; and a composer to talk to it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from tui.desk import Desk
from tui.panes.bundles import RevisionsPane, ValidationPane
from tui.screens.agentpanes import AgentPanes
from tui.screens.messages import HomeWanted, RunWanted
from tui.shelf import LIVE, Shelf
from tui.view.bundles import channel_rows
from tui.view.text import Tone, line, short
from tui.widgets.bars import Bar, KeyBar
from tui.widgets.composer import Composer
from tui.widgets.lines import TextView


class AgentScreen(AgentPanes):
    """An agent's shelf."""

    CSS_PATH = "agent.tcss"
    AUTO_FOCUS = ""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "f4",
            "pane('revisions')",
            "revisions",
            show=False,
            id="agent.revisions",
            tooltip="The revisions",
            priority=True,
        ),
        Binding(
            "f5",
            "pane('validation')",
            "checks",
            show=False,
            id="agent.validation",
            tooltip="Validation runs",
            priority=True,
        ),
        Binding(
            "f6",
            "pane('history')",
            "history",
            show=False,
            id="agent.history",
            tooltip="What was published when",
            priority=True,
        ),
        Binding("c", "change", "change with the Builder", id="agent.change", tooltip="Change it with the Builder"),
        Binding("escape", "home", "home", id="agent.home", tooltip="All sessions and agents"),
        Binding("f10,ctrl+o", "home", "home", show=False, id="session.home", tooltip="All sessions and agents"),
    ]

    def __init__(self, desk: Desk, shelf: Shelf, name: str, *, talk: bool = False, ref: str | None = None) -> None:
        super().__init__()
        self.desk = desk
        self.shelf = shelf
        self.agent_name = name
        self.ref = ref
        """The revision that is talked to; None: what is live, else the latest."""
        self.early = talk
        self.changing = False

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.agent_name

    def compose(self) -> ComposeResult:
        """The tree above the runs and the channel's history, a composer, the keys."""
        yield Bar(id="top")
        with Vertical(id="shelf"):
            yield RevisionsPane(id="revisions")
            yield ValidationPane(id="validation")
            yield TextView(id="history")
        yield Composer(history=self.desk.history(), id="composer")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Show the tree."""
        for name, title in (("revisions", "Revisions"), ("validation", "Validation"), ("history", "Published")):
            self.query_one(f"#{name}").border_title = title
        self.refresh_bundles()
        self._restore()
        self._prompt()
        self.set_focus(self.query_one(Composer) if self.early else self.query_one(RevisionsPane))

    def refresh_bundles(self) -> None:
        """Also the top line and the channel's history."""
        super().refresh_bundles()
        found = self.shelf.agent(self.agent_name)
        live = found.channels.get(LIVE)
        top = self.query_one("#top", Bar)
        top.left = line((self.agent_name, Tone.STRONG))
        top.middle = line(f"● live {short(live)}") if live else line(("nothing live", Tone.DIM))
        latest = found.revisions[-1] if found.revisions else None
        licence = latest.licence if latest is not None else None
        top.right = line(
            (f"licence {(licence or {}).get('spdx') or (licence or {}).get('status') or 'none'}", Tone.DIM)
        )
        self.query_one("#history", TextView).show(channel_rows(found.log, self.shelf.host.now()), top=False)

    def describe(self, action: str) -> str | None:
        """Where escape leads from here, for the line of keys."""
        return "revisions" if action == "home" and self.query_one(Composer).has_focus else None

    def poll(self) -> None:
        """Another process wrote something."""
        if self.query(RevisionsPane):
            self.refresh_changed_bundles()

    def _prompt(self) -> None:
        composer = self.query_one(Composer)
        if self.changing:
            composer.placeholder = f"What should change about {self.agent_name}? The Builder does it"
        else:
            composer.placeholder = f"A task for {self.agent_name}{f' {short(self.ref)}' if self.ref else ''}"
        composer.border_subtitle = f"enter {'changes' if self.changing else 'runs'} it · ctrl+j new line"

    def talk(self, digest: str | None) -> None:
        """Write a task for a revision."""
        self.ref, self.changing = digest, False
        self._prompt()
        self.set_focus(self.query_one(Composer))

    def action_change(self) -> None:
        """Write what should change."""
        self.changing = True
        self._prompt()
        self.set_focus(self.query_one(Composer))

    def action_pane(self, name: str) -> None:
        """Go to a pane, at once: the next key may be here already, and is for it."""
        self.set_focus(self.query_one(f"#{name}"))

    def action_home(self) -> None:
        """From the composer to the tree, from there to the list."""
        composer = self.query_one(Composer)
        if composer.has_focus:
            if not composer.text:  # what is half written stays what it is for
                self.ref, self.changing = None, False
                self._prompt()
            self.set_focus(self.query_one(RevisionsPane))
        else:
            self.post_message(HomeWanted())

    @on(Composer.Paged)
    def _paged(self, event: Composer.Paged) -> None:
        """A page of the list, while writing."""
        for rows in self.query(RevisionsPane).results(RevisionsPane):
            rows.action_page(event.step)

    @on(Composer.Sent)
    def _sent(self, event: Composer.Sent) -> None:
        self.post_message(RunWanted(self.agent_name, self.ref, event.text, event.composer, self.changing))

    @property
    def _draft(self) -> str:
        return f"composer:agent:{self.agent_name}"

    def _restore(self) -> None:
        """What was written here before and not sent, and what for, unless the screen was opened for something else."""
        kept = self.desk.store.get_value(self._draft)
        composer = self.query_one(Composer)
        composer.restore(kept)
        if composer.text and not self.early:
            self.ref, self.changing = kept.get("ref"), bool(kept.get("changing"))

    def keep(self) -> None:
        """Keep what is written and not sent, and what for."""
        kept = self.query_one(Composer).to_json()
        if kept is not None:
            kept |= {"ref": self.ref, "changing": self.changing}
        self.desk.keep(self._draft, kept)
