"""What help lists and the palette offers: all bindings by place, all commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.keymap import misplaced
from tui.panes.bundles import RevisionsPane
from tui.screens.help import help_lines
from tui.screens.messages import Wish
from tui.view.text import Line

if TYPE_CHECKING:
    from tui.application import ArtificerApp


def all_help(app: ArtificerApp) -> list[Line]:
    """The help text."""
    groups = [(title, [b for cls in classes for b in _own(cls)]) for title, *classes in _places(app)]
    return help_lines(groups, app.own_keys, near_home(app.host.home / "keymap.toml"))


def wrong_keys(app: ArtificerApp) -> list[str]:
    """What of the person's own keys names nothing, or has one key do two things in one place."""
    everywhere, *others = _places(app)
    places = []
    for title, *classes in [everywhere, *others]:
        bindings = [b for cls in (*classes, *everywhere[1:]) for base in cls.__mro__ for b in _own(base)]
        keys = [(b.id, b.key) for b in bindings if isinstance(b, Binding) and b.id]
        places.append((title, list(dict.fromkeys(keys))))
    return misplaced(app.own_keys, places)


def _own(cls: type) -> Sequence[BindingType]:
    """The bindings a class declares itself."""
    return list(cls.__dict__.get("BINDINGS", ()))


def _places(app: ArtificerApp) -> list[tuple[str, *tuple[type, ...]]]:
    """All that has keys, by where it acts; what acts everywhere comes first."""
    from tui.panes.chat import ChatPane
    from tui.panes.lab import CaseList, ComparisonPane
    from tui.panes.transcript import TranscriptPane
    from tui.screens.agent import AgentScreen
    from tui.screens.dialogs import AskScreen, RunScreen, TextScreen, YesScreen
    from tui.screens.home import HomeScreen
    from tui.screens.keeping import KeepScreen
    from tui.screens.lab import LabScreen
    from tui.screens.search import SearchScreen
    from tui.screens.session import SessionScreen
    from tui.screens.sessionpanes import SessionPanes
    from tui.widgets.card import CardBox
    from tui.widgets.composer import Composer
    from tui.widgets.lines import TextView
    from tui.widgets.logview import LogView
    from tui.widgets.matrix import MatrixView
    from tui.widgets.rowlist import RowList

    return [
        ("Everywhere", type(app)),
        ("Composer", Composer),
        ("Home", HomeScreen),
        ("Session", SessionPanes, SessionScreen),
        ("Card (escape from the composer focuses it)", CardBox),
        ("Revisions", RevisionsPane),
        ("Agent", AgentScreen),
        ("Lab", LabScreen, ComparisonPane),
        ("Lab: the matrix", MatrixView),
        ("Lab: cases", CaseList),
        ("Lists", RowList),
        ("Conversation", ChatPane),
        ("Log", LogView),
        ("Transcript", TranscriptPane),
        ("Texts", TextView),
        ("Text, difference, help", TextScreen),
        ("Validation run", RunScreen),
        ("Search", SearchScreen),
        ("Publish, roll back, and other questions", YesScreen),
        ("A key that was pasted", KeepScreen),
        ("Asking for a word", AskScreen),
    ]


def near_home(path: Path) -> str:
    """A path with `~` for the person's home directory."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def commands(app: ArtificerApp, screen: Screen[Any]) -> Iterable[SystemCommand]:
    """Commands of the palette, those of the screen first."""
    tree = screen.query(RevisionsPane)
    if tree:
        yield from _revision_commands(tree.first())
    session = getattr(screen, "session", None)
    if isinstance(session, str):
        for label, pane in (
            ("conversation", "chat"),
            ("workspace log", "log"),
            ("workspace files", "files"),
            ("diff of the newest revision", "diff"),
            ("revisions", "revisions"),
            ("validation runs", "validation"),
            ("transcript", "transcript"),
        ):
            yield SystemCommand(f"Show {label}", "Go to the pane", partial(screen.run_action, f"pane('{pane}')"))
        yield SystemCommand("Go on", "Try again, or go on after an interruption", app.action_resume)
        yield SystemCommand("Fork", "Go on in a copy, and leave this as it is", partial(screen.run_action, "fork"))
        yield SystemCommand("Model", "Go on with another model", app.action_model)
        yield SystemCommand("Provider", "Go on with another provider", app.action_provider)
    yield SystemCommand("Home", "All sessions and agents", app.action_home)
    yield SystemCommand("Lab", "Comparisons, experiments, evaluations", app.action_lab)
    yield SystemCommand("Search", "Search all sessions", app.action_search)
    yield SystemCommand("Stop", "Stop the running turn", app.action_stop)
    yield SystemCommand("Copy", "Copy the selection, or the last reply", app.action_copy)
    yield SystemCommand("Mouse", "Give the mouse to the terminal, or take it back", app.action_mouse)
    yield SystemCommand("Theme", "Change the theme", app.action_change_theme)
    yield SystemCommand("Help", "Every key", app.action_help)
    yield SystemCommand("Quit", "Leave Artificer", app.action_quit)


def _revision_commands(tree: RevisionsPane) -> Iterable[SystemCommand]:
    wishes: tuple[tuple[str, Wish, str], ...] = (
        ("Publish", "publish", "Publish the revision under the cursor"),
        ("Roll back", "rollback", "Roll back to the revision under the cursor, or from the live one"),
        ("Diff", "diff", "Compare the revision with the marked one, or its parent"),
        ("Edit", "edit", "Edit the persona in your editor, save and validate"),
        ("Edit manifest", "manifest", "Edit agent.yaml in your editor, save and validate"),
        ("Validate", "validate", "Run the gate on the revision"),
        ("Talk", "talk", "Run the revision with a task"),
    )
    for title, wish, words in wishes:
        yield SystemCommand(title, words, partial(tree.action_ask, wish))
