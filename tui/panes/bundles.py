"""The revision tree and the validation history of one agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.markup import escape
from textual.message import Message

from tui.screens.messages import Wish
from tui.widgets.content import own_key
from tui.widgets.rowlist import RowList

NAMED: tuple[tuple[Wish, str, str], ...] = (
    ("publish", "p", "publish"),
    ("rollback", "b", "roll back"),
    ("diff", "d", "diff"),
    ("edit", "e", "edit"),
    ("validate", "v", "validate"),
)


class RevisionsPane(RowList):
    """The tree; its keys act on the revision under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "ask('publish')", "publish", id="revisions.publish", tooltip="Publish the revision"),
        Binding("b", "ask('rollback')", "roll back", id="revisions.rollback", tooltip="Roll back to the revision"),
        Binding("d", "ask('diff')", "diff", id="revisions.diff", tooltip="Compare with the marked one, or its parent"),
        Binding("space", "mark", "mark", id="revisions.mark", tooltip="Mark a revision to compare another with"),
        Binding("e", "ask('edit')", "edit", id="revisions.edit", tooltip="Edit the persona in your editor"),
        Binding(
            "E",
            "ask('manifest')",
            "edit manifest",
            show=False,
            id="revisions.manifest",
            tooltip="Edit agent.yaml in your editor",
        ),
        Binding("v", "ask('validate')", "validate", id="revisions.validate", tooltip="Validate the revision"),
        Binding("t", "ask('talk')", "talk", id="revisions.talk", tooltip="Talk to the revision"),
    ]

    @dataclass
    class Wished(Message):
        """The person wants something done with a revision. `marked` is the one to compare with."""

        wish: Wish
        digest: str
        marked: str | None

    @dataclass
    class Marked(Message):
        """The marked revision changed."""

        digest: str | None

    def __init__(self, *, empty: str = "no revision yet", id: str | None = None) -> None:
        super().__init__(empty=empty, id=id)
        self.marked: str | None = None

    def on_mount(self) -> None:
        """Name the keys that there may be no room for at the bottom of the screen."""
        self.border_subtitle = " · ".join(
            f"[@click=ask('{wish}')]{escape(own_key(self, f'revisions.{wish}', key))} {words}[/]"
            for wish, key, words in NAMED
        )

    def action_ask(self, wish: Wish) -> None:
        """Pass the wish on."""
        if self.key:
            self.post_message(self.Wished(wish, self.key, self.marked))

    def action_mark(self) -> None:
        """Mark the revision, or unmark it."""
        self.marked = None if self.marked == self.key else self.key or None
        self.post_message(self.Marked(self.marked))


class ValidationPane(RowList):
    """The validation history; enter opens a run."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(empty="no validation run yet", id=id)
        self.border_subtitle = "enter opens a run"
