"""Forking by key: asked once, done in a copy, refused in words where it cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core import SessionInfo, register_provider
from tests.harness.scripted import ScriptedProvider
from tests.harness.stage import Stage, said, stopped
from tests.tui import scenes
from tests.tui.conftest import calm, until
from tests.tui.test_stops import screen, shown
from tui.application import ArtificerApp
from tui.screens.session import SessionScreen

Make = Callable[..., ArtificerApp]


def forks(on: Stage, of: str) -> list[SessionInfo]:
    """The sessions that are forks of one."""
    return on.host.store.sessions(parent=of)


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.slow)])
async def test_a_fork_opens_at_the_same_question_and_both_can_be_answered(
    on_stage: Stage, make_app: Make, size: tuple[int, int]
) -> None:
    register_provider("scripted", lambda: ScriptedProvider([]))
    name = scenes.asks(on_stage)
    app = make_app(on_stage, name)
    async with app.run_test(size=size) as pilot:
        await calm(pilot)
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "Fork this session?" in shown(app), "it asks")
        assert forks(on_stage, name) == []
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen) and screen(app).session != name, "it opens")
        await calm(pilot)
        (made,) = forks(on_stage, name)
        assert screen(app).session == made.id
        assert "your turn · question" in shown(app)
        await pilot.press("1", "enter")
        await until(pilot, lambda: "→ 1 read only" in shown(app), "it is answered there")
        assert on_stage.host.store.session(name).stop == "awaiting_user"  # type: ignore[union-attr]


@pytest.mark.slow
async def test_a_no_leaves_everything_as_it_is(on_stage: Stage, make_app: Make) -> None:
    register_provider("scripted", lambda: ScriptedProvider([]))
    name = scenes.asks(on_stage)
    app = make_app(on_stage, name)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("ctrl+t", "n")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen), "back")
        assert (screen(app).session, forks(on_stage, name)) == (name, [])


@pytest.mark.slow
async def test_what_works_is_stopped_before_it_is_forked(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.building(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("ctrl+t")
        await until(pilot, lambda: any("ctrl+c stops it" in n.message for n in app._notifications), "it says so")
        assert isinstance(app.screen, SessionScreen)


@pytest.mark.slow
async def test_an_agent_cli_that_cannot_fork_says_so_and_what_to_do(on_stage: Stage, make_app: Make) -> None:
    native = ("provider_session", {"provider": "gemini_cli", "native": "n1", "total": {}})
    ends = (native, said("Hello."), stopped("completed"))
    name = on_stage.session("Hi", *ends, kind="run", provider="gemini_cli", agent="greeter", stop="completed")
    app = make_app(on_stage, name)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("ctrl+t", "y")
        await until(pilot, lambda: any("cannot fork" in note.message for note in app._notifications), "it says so")
        assert any("--provider NAME" in note.message for note in app._notifications)
        assert forks(on_stage, name) == []
