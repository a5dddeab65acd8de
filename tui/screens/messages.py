"""What screens ask of the app: one message for each wish. Light, because the app imports it before its first paint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from textual.message import Message

if TYPE_CHECKING:
    from tui.widgets.composer import Composer

Wish = Literal["publish", "rollback", "diff", "edit", "manifest", "validate", "talk"]


@dataclass
class Opened(Message):
    """A session, an agent or the lab is to be opened: `session:ID`, `agent:NAME`, `lab:` or `lab:RECORD`. `over`: over
    the screen that asks, to which home leads back then."""

    key: str
    over: bool = False


@dataclass
class WritingBegun(Message):
    """The person writes what may begin a session."""


@dataclass
class HomeWanted(Message):
    """Back to the home screen."""


@dataclass
class RunWanted(Message):
    """The agent is to be run, `ref` (None: what is live) with a task; or, `change`, edited by the Builder. `composer`
    keeps the words until that has begun."""

    agent: str
    ref: str | None
    task: str
    composer: Composer
    change: bool = False


@dataclass
class RevisionWish(Message):
    """Something is to be done with a revision of an agent; `marked` is the one to compare with."""

    wish: Wish
    agent: str
    digest: str
    marked: str | None


@dataclass
class RunOpened(Message):
    """A validation run is to be read."""

    agent: str
    run: str


@dataclass
class RevisionOpened(Message):
    """A revision is to be read."""

    agent: str
    digest: str


@dataclass
class EventOpened(Message):
    """An event is to be read in full."""

    seq: int


@dataclass
class FileOpened(Message):
    """A file of a workspace is to be read."""

    root: Path
    path: str


@dataclass
class MendWanted(Message):
    """A file of a revision (None: its persona) is to be edited, because a check found something in it."""

    agent: str
    digest: str
    path: str | None
