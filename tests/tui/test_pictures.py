"""Every screen and state as a picture, at two sizes and in two themes; `tests/snapshots/index.html` shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from textual.pilot import Pilot

from core import register_provider
from tests.harness.scripted import Gate, ScriptedProvider
from tests.harness.stage import NamedSandbox, NamedSandboxes, Stage
from tests.tui import labscenes, scenes
from tests.tui.conftest import calm, until
from tui.application import ArtificerApp


@dataclass(frozen=True)
class Picture:
    """A scene, the keys pressed in it, and what is opened at the start where it is no session."""

    name: str
    scene: Callable[[Stage], str | None]
    keys: tuple[str, ...] = ()
    agent: str | None = None


def unsafe(stage: Stage) -> str:
    """A session where nothing isolates."""
    stage.host.sandboxes = NamedSandboxes(NamedSandbox("process", unsafe=True))
    return scenes.asks(stage)


def shelf(stage: Stage) -> None:
    """An agent to open."""
    scenes.bundle(stage)
    stage.host.store.set_value("app:left", f"agent:{scenes.AGENT}")


PICTURES = (
    Picture("home-fresh", lambda stage: None),
    Picture("home", scenes.fleet),
    Picture("home-filter", scenes.fleet, ("slash", "d", "o", "c")),
    Picture("home-peek", scenes.fleet, ("down", "space")),
    Picture("question", scenes.asks),
    Picture("question-card-in-focus", scenes.asks, ("escape", "down")),
    Picture("question-several", scenes.asks_for_several, ("escape", "space", "down", "space")),
    Picture("question-in-words", scenes.asks_in_words),
    Picture("question-half-answered", scenes.asks, tuple("2 but")),
    Picture("approval", scenes.wants_approval),
    Picture("credentials", scenes.wants_key),
    Picture("key-pasted", scenes.runs_on_rates, ("enter",)),
    Picture("doom-loop", scenes.stuck),
    Picture("doom-loop-evidence", scenes.stuck, ("escape", "enter")),
    Picture("budget", scenes.spent),
    Picture("cannot-convert", scenes.cannot_convert),
    Picture("refused", scenes.refused),
    Picture("provider-error", scenes.provider_error),
    Picture("platform-error", scenes.platform_error),
    Picture("done", scenes.done),
    Picture("cancelled", scenes.cancelled),
    Picture("interrupted", scenes.interrupted),
    Picture("followed", scenes.followed),
    Picture("odd-text", scenes.odd),
    Picture("unsafe", unsafe),
    Picture("pane-log", scenes.asks, ("f3",)),
    Picture("pane-files", scenes.with_files, ("f3", "f3", "enter")),
    Picture("pane-diff", scenes.asks, ("f3", "f3", "f3")),
    Picture("file", scenes.with_files, ("f3", "f3", "enter", "down", "down", "enter")),
    Picture("search", scenes.fleet, ("f9", *"petstore", "enter")),
    Picture("pane-revisions", scenes.asks, ("f4",)),
    Picture("pane-validation", scenes.asks, ("f5",)),
    Picture("pane-transcript", scenes.asks, ("f6",)),
    Picture("event", scenes.asks, ("f6", "up", "up", "enter")),
    Picture("validation-run", scenes.done, ("f5", "down", "enter")),
    Picture("validation-run-passed", scenes.done, ("f5", "enter")),
    Picture("revision", scenes.done, ("f4", "down", "enter")),
    Picture("diff", scenes.done, ("f4", "down", "d")),
    Picture("diff-of-any-two", scenes.done, ("f4", "space", "end", "d")),
    Picture("publish", scenes.done, ("f4", "end", "p")),
    Picture("roll-back", scenes.done, ("f4", "down", "b")),
    Picture("not-rolled-back", scenes.done, ("f4", "b")),
    Picture("agent", shelf),
    Picture("fork", scenes.asks, ("ctrl+t",)),
    Picture("lab-comparison", labscenes.comparisons),
    Picture("lab-comparison-running", labscenes.pair_running),
    Picture("lab-experiment", labscenes.matrix),
    Picture("lab-experiment-repeats", labscenes.matrix_repeats, ("right", "enter", "down")),
    Picture("lab-evaluations", labscenes.evaluations, ("escape",)),
    Picture("lab-evaluation", labscenes.evaluations),
    Picture("lab-evaluation-running", labscenes.evaluation_running, ("down", "down")),
    Picture("lab-plots", labscenes.evaluations, ("f6",)),
    Picture("lab-empty", labscenes.empty, ("f4",)),
    Picture("help", scenes.asks, ("f1",)),
    Picture("commands", scenes.asks, ("ctrl+p",)),
    Picture("model", scenes.provider_error, ("escape", "m")),
)

#: The smallest runs always, the others with everything that takes its time.
LOOKS = (
    pytest.param((80, 24), "textual-dark", id="80x24-dark"),
    pytest.param((120, 40), "textual-light", id="120x40-light", marks=pytest.mark.slow),
    pytest.param((80, 24), "textual-light", id="80x24-light", marks=pytest.mark.slow),
    pytest.param((120, 40), "textual-dark", id="120x40-dark", marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("size", "theme"), LOOKS)
@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_screen(
    snap_compare: Callable[..., bool],
    on_stage: Stage,
    make_app: Callable[..., ArtificerApp],
    picture: Picture,
    size: tuple[int, int],
    theme: str,
) -> None:
    app = make_app(on_stage, picture.scene(on_stage), theme)

    async def before(pilot: Pilot[Any]) -> None:
        await calm(pilot)
        for key in picture.keys:
            await pilot.press(key)
            await until(pilot, lambda: not app.acting, "what the key began is done or asks")
        await calm(pilot)

    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_reply_half_streamed(
    snap_compare: Callable[..., bool],
    on_stage: Stage,
    make_app: Callable[..., ArtificerApp],
    size: tuple[int, int],
    theme: str,
) -> None:
    gate = Gate()
    provider = ScriptedProvider([["I found **three groups**:\n\n- pets\n- st", gate, "ore"]])
    register_provider("scripted", lambda: provider)
    app = make_app(on_stage, None, theme)

    async def before(pilot: Pilot[Any]) -> None:
        await calm(pilot)
        session = await app.desk.build("Build an agent that knows pets")
        await app.open_session(session)
        await calm(pilot)
        await until(pilot, gate.reached.is_set, "the stream has come to its gate")
        await until(pilot, lambda: "st" in str(on_stage.host.store.draft(session)), "its beginning is stored")
        await until(pilot, lambda: any("- st" in str(b) for b in app.screen.chat.blocks.values()), "and shown")  # type: ignore[attr-defined]
        await calm(pilot)

    assert snap_compare(app, terminal_size=size, run_before=before)


def test_the_page_shows_every_stored_picture() -> None:
    from tests.tui.gallery import INDEX, index

    assert INDEX.read_text("utf-8") == index(), "run: python -m tests.tui.gallery"
