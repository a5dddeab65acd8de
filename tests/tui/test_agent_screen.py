"""An agent's screen: what is written for it is a text like any other, and is never lost."""

from __future__ import annotations

from collections.abc import Callable

from core import register_provider
from tests.harness.scripted import ScriptedProvider
from tests.harness.stage import Stage
from tests.tui import scenes
from tests.tui.conftest import calm, until
from tui.application import ArtificerApp
from tui.screens.agent import AgentScreen
from tui.screens.session import SessionScreen
from tui.widgets.composer import Composer

Make = Callable[..., ArtificerApp]
PLACE = f"agent:{scenes.AGENT}"


def shelf(stage: Stage) -> None:
    scenes.bundle(stage)
    stage.host.store.set_value("app:left", PLACE)


def composer(app: ArtificerApp) -> Composer:
    return app.screen.query_one(Composer)


async def test_a_half_written_change_is_there_again_after_a_restart(on_stage: Stage, make_app: Make) -> None:
    shelf(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("c", *"be kinder")
        await until(pilot, lambda: composer(app).text == "be kinder")
        app._keep_place()
    again = make_app(on_stage)
    async with again.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        assert isinstance(again.screen, AgentScreen)
        assert composer(again).text == "be kinder"
        assert again.screen.changing  # it is still for the Builder, not a task


async def test_looking_at_the_tree_does_not_make_a_half_written_change_a_task(on_stage: Stage, make_app: Make) -> None:
    shelf(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("c", *"kinder", "escape")
        assert isinstance(app.screen, AgentScreen)
        assert app.screen.changing
        await pilot.press("t")
        await until(pilot, lambda: not app.screen.changing, "a key said otherwise")  # type: ignore[attr-defined]


async def test_words_for_a_revision_that_cannot_run_stand_in_the_composer_again(
    on_stage: Stage, make_app: Make
) -> None:
    shelf(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        assert isinstance(app.screen, AgentScreen)
        app.screen.talk("sha256:" + "0" * 64)
        await pilot.press(*"hello", "enter")
        await until(pilot, lambda: composer(app).text == "hello", "it is written again")


async def test_a_task_that_began_is_no_draft_any_more_and_is_in_the_history(on_stage: Stage, make_app: Make) -> None:
    register_provider("scripted", lambda: ScriptedProvider(["So be it."]))
    shelf(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("t", *"hello", "enter")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen), "it runs")
        await app.open_agent(scenes.AGENT, talk=True)
        await until(pilot, lambda: composer(app).has_focus)
        assert composer(app).text == ""
        await pilot.press("up")
        await until(pilot, lambda: composer(app).text == "hello", "what was sent before")
