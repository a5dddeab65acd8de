"""What is written as a key, an option, a row or the name of a pane does the same when it is clicked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

from core import register_provider
from tests.harness.scripted import ScriptedProvider
from tests.harness.stage import Stage, question
from tests.tui import labscenes, scenes
from tests.tui.conftest import calm, until
from tests.tui.test_stops import shown
from tui.application import ArtificerApp
from tui.panes.bundles import RevisionsPane
from tui.panes.chat import ChatPane
from tui.panes.transcript import TranscriptPane
from tui.screens.dialogs import MoveScreen, TextScreen, YesScreen

Make = Callable[..., ArtificerApp]


def place(app: ArtificerApp, text: str) -> tuple[int, int]:
    """Where `text` stands on screen."""
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        x = strip.text.find(text)
        if x >= 0:
            return x, y
    raise AssertionError(f"{text!r} is not on screen")


async def click(pilot: Pilot[Any], app: ArtificerApp, text: str, times: int = 1) -> None:
    await pilot.click(offset=place(app, text), times=times)
    await pilot.pause()


async def test_a_row_is_the_one_that_was_clicked(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        tree = app.screen.query_one(RevisionsPane)
        await click(pilot, app, "1 problem")
        assert "✗" in "".join(span.text for span in tree.rows[tree.cursor].left)
        await click(pilot, app, "1 problem", 2)
        await until(pilot, lambda: isinstance(app.screen, TextScreen), "the second click opens it")


async def test_an_event_is_the_one_that_was_clicked(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await click(pilot, app, "F6 Transcript")
        pane = app.screen.query_one(TranscriptPane)
        assert pane.has_focus
        await click(pilot, app, "openapi.yaml")
        rows = [row for row in shown(app).split("\n") if "openapi.yaml" in row]
        assert str(pane.at) in rows[0]


async def test_panes_are_clicked_by_their_names(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        for name, pane in (("Diff", "diff"), ("Revisions", "revisions"), ("Chat", "chat")):
            await click(pilot, app, name)
            await until(pilot, lambda pane=pane: app.focused is not None and app.focused.id == pane, pane)


async def test_the_kinds_of_the_lab_are_clicked(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, labscenes.evaluations(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await click(pilot, app, "Experiments")
        assert app.screen.kind == "experiment"  # type: ignore[attr-defined]


async def test_the_keys_at_the_bottom_are_clicked(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await click(pilot, app, "esc card")
        card = app.screen.query_one(ChatPane).card
        assert card is not None
        assert card.has_focus
        await click(pilot, app, "F1 help")
        await until(pilot, lambda: isinstance(app.screen, TextScreen), "help")


async def test_an_option_is_chosen_by_a_click_and_taken_by_a_second(on_stage: Stage, make_app: Make) -> None:
    register_provider("scripted", lambda: ScriptedProvider(["So be it."]))
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await click(pilot, app, "choose by tag")
        assert "› 3" in shown(app)
        await click(pilot, app, "choose by tag", 2)
        await until(pilot, lambda: "→ 3 choose by tag" in shown(app), "it was the answer")


async def test_options_of_which_several_may_be_taken_are_marked_by_clicks(on_stage: Stage, make_app: Make) -> None:
    options = [f"operation {number:02}" for number in range(1, 13)]
    asks = question("Which operations?", *options, multiple=True)
    app = make_app(on_stage, scenes.waiting(on_stage, asks, "awaiting_user"))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await click(pilot, app, "operation 11")
        await click(pilot, app, "operation 02")
        assert "11  [x]" in shown(app)
        assert " 2  [x]" in shown(app)  # numbers of one and of two figures end in the same column
        await click(pilot, app, "operation 11")
        assert "11  [ ]" in shown(app)


async def test_a_card_s_keys_are_clicked(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.stuck(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await click(pilot, app, "give\u00a0a\u00a0hint")
        assert app.screen.query_one("#composer").text == "hint "  # type: ignore[attr-defined]


async def test_a_question_whether_to_publish_is_answered_by_a_click(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("f4", "end", "p")
        await until(pilot, lambda: isinstance(app.screen, MoveScreen), "it asks")
        before = on_stage.host.store.channels(scenes.AGENT)
        await click(pilot, app, "leave it")
        await until(pilot, lambda: not isinstance(app.screen, YesScreen), "it was a no")
        assert on_stage.host.store.channels(scenes.AGENT) == before
