"""Every stop of the loop, driven by a scripted model through the app, comes onto the screen with its next step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from core import Limits, ProviderError, Stop, Text, TurnEnd, build_launch, register_provider
from tests.harness.scripted import Gate, ScriptedProvider, call
from tests.harness.stage import NamedSandboxes, Stage
from tests.tui import scenes
from tests.tui.conftest import calm, until
from tui.application import ArtificerApp
from tui.screens.session import SessionScreen
from tui.view.text import plain_text
from tui.widgets.bars import Bar
from tui.widgets.card import CardBox
from tui.widgets.composer import Composer


def scripted(*turns: Any) -> ScriptedProvider:
    """A provider that plays these turns, registered for the stage."""
    provider = ScriptedProvider(turns)
    register_provider("scripted", lambda: provider)
    return provider


ASK = call("ask_user", message="Which?", options=[{"id": "a", "label": "Alpha"}, {"id": "b", "label": "Beta"}])


def screen(app: ArtificerApp) -> SessionScreen:
    assert isinstance(app.screen, SessionScreen)
    return app.screen


def state(app: ArtificerApp) -> str:
    """What the top line says of whose turn it is."""
    return plain_text(screen(app).query_one("#top", Bar).middle)


def shown(app: ArtificerApp) -> str:
    """All text on screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips).replace("\u00a0", " ")


async def build(pilot: Pilot[Any], words: str = "Build it") -> None:
    """Type it at home, and wait for the session's next stop."""
    app = pilot.app
    assert isinstance(app, ArtificerApp)
    await calm(pilot)
    app.screen.query_one(Composer).focus()
    for key in words.replace(" ", "_"):
        await pilot.press("space" if key == "_" else key)
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, SessionScreen), "the session opens")
    await stopped(pilot)


async def stopped(pilot: Pilot[Any]) -> None:
    """Wait until the session on screen is not running any more, and that shows."""
    app = pilot.app
    assert isinstance(app, ArtificerApp)
    await until(pilot, lambda: not app.desk.drives(screen(app).session), "the drive ends")
    await until(pilot, lambda: "working" not in state(app), "and that shows")
    await calm(pilot)


Make = Callable[..., ArtificerApp]

BUILDER_STOPS = [
    pytest.param(["Which repository?"], "your turn · question", "Which repository?", id="reply"),
    pytest.param([[ASK]], "your turn · question", "Alpha", id="awaiting_user"),
    pytest.param(
        [[call("cannot_convert", capability="browsing", reason="no host is named", evidence=["README:3"])]],
        "cannot convert",
        "There is no safe conversion",
        id="cannot_convert",
    ),
    pytest.param([TurnEnd((Text("I will not."),), "refusal")], "refused", "The model refused", id="refused"),
    pytest.param([ProviderError("auth", "The key is wrong.")], "provider error", "The key is wrong.", id="provider"),
    pytest.param(["", "", "", "", "", "", ""], "stuck", "give a hint", id="doom_loop"),
]


@pytest.mark.parametrize(("turns", "word", "words"), BUILDER_STOPS)
async def test_a_stop_of_the_builder_shows_its_sign_and_its_next_step(
    on_stage: Stage, make_app: Make, turns: list[Any], word: str, words: str
) -> None:
    scripted(*turns)
    async with make_app(on_stage).run_test(size=(120, 40)) as pilot:
        await build(pilot)
        assert word in state(pilot.app)  # type: ignore[arg-type]
        assert words in shown(pilot.app)  # type: ignore[arg-type]


async def test_no_sandbox_is_an_error_of_the_platform_that_names_the_doctor(on_stage: Stage, make_app: Make) -> None:
    on_stage.host.sandboxes = NamedSandboxes(None)
    scripted("never asked")
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await build(pilot)
        assert "Artificer error" in state(app)
        assert "artificer doctor" in shown(app)


async def test_a_spent_budget_offers_to_extend_it(on_stage: Stage, make_app: Make) -> None:
    scripted([call("no_such_tool")], "never asked")
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        launch = replace(build_launch(on_stage.host, message="Build it"), limits=Limits(steps=1))
        session = app.desk.supervisor.start(launch)
        await app.desk.supervisor.wait(session)
        await app.open_session(session)
        await calm(pilot)
        assert "budget spent" in state(app)
        await pilot.press("escape", "x")
        assert app.screen.query_one(Composer).text == "extend "


async def test_a_finished_run_is_nobodys_turn(on_stage: Stage, make_app: Make) -> None:
    scenes.bundle(on_stage)
    scripted("It has three pets.")
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await app.open_session(await app.desk.run(scenes.AGENT, None, "How many pets?"))
        await stopped(pilot)
        assert state(app) == "✓ done"
        assert "It has three pets." in shown(app)


async def test_ctrl_c_cancels_the_turn_says_so_and_the_session_goes_on(on_stage: Stage, make_app: Make) -> None:
    gate = Gate()
    scripted(["Let me", gate, " see."], "Which repository?")
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await app.open_session(await app.desk.build("Build it"))
        await until(pilot, gate.reached.is_set)
        assert state(app) == "▸ working"
        await pilot.press("ctrl+c")
        await stopped(pilot)
        assert "stopped by you" in state(app)
        assert any("ctrl+c again" in note.message for note in app._notifications)
        await pilot.press(*"go", "enter")
        await until(pilot, lambda: "question" in state(app), "it goes on")
        assert on_stage.host.store.session(screen(app).session).stop == Stop.AWAITING_USER.value  # type: ignore[union-attr]


async def test_ctrl_c_twice_leaves_with_130(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("ctrl+c")
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.return_code is not None)
    assert app.return_code == 130


async def test_a_number_in_the_composer_answers_the_question(on_stage: Stage, make_app: Make) -> None:
    provider = scripted([ASK], "Which repository?")
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await build(pilot)
        await pilot.press("2", "enter")
        await until(pilot, lambda: len(provider.requests) == 2, "the model hears it")
        assert '"b"' in str(provider.requests[1].messages)
        await stopped(pilot)
        assert "→ 2 Beta" in shown(app)
        assert app.screen.query_one(Composer).text == ""


async def test_an_answer_that_is_none_is_kept_and_says_what_would_be(on_stage: Stage, make_app: Make) -> None:
    scripted([call("ask_user", message="Which?", options=[{"id": "a", "label": "Alpha"}], free_text=False)])
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await build(pilot)
        await pilot.press(*"none", "enter")
        await pilot.pause()
        assert app.screen.query_one(Composer).text == "none"
        assert any("none of the options" in note.message for note in app._notifications)


async def test_a_card_takes_no_key_from_the_composer_and_leaves_what_is_typed(on_stage: Stage, make_app: Make) -> None:
    gate = Gate()
    scripted([gate, ASK])
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await app.open_session(await app.desk.build("Build it"))
        await until(pilot, gate.reached.is_set)
        await pilot.press(*"half")
        gate.release()
        await stopped(pilot)
        assert app.screen.query(CardBox)
        await pilot.press("1", "y", "e")
        assert app.screen.query_one(Composer).text == "half1ye"
        assert "question" in state(app)


async def test_a_card_in_focus_answers_by_its_keys(on_stage: Stage, make_app: Make) -> None:
    provider = scripted([ASK], "Which repository?")
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await build(pilot)
        await pilot.press("escape", "1")
        await until(pilot, lambda: len(provider.requests) == 2)
        assert '"a"' in str(provider.requests[1].messages)


async def test_what_is_said_while_it_works_is_heard_at_its_next_turn(on_stage: Stage, make_app: Make) -> None:
    gate = Gate()
    provider = scripted([gate, call("no_such_tool")], "Which repository?")
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await app.open_session(await app.desk.build("Build it"))
        await until(pilot, gate.reached.is_set)
        await pilot.press(*"faster", "enter")
        await until(pilot, lambda: "not read yet" in shown(app), "it says that it waits")
        gate.release()
        await until(pilot, lambda: len(provider.requests) == 2)
        assert "faster" in str(provider.requests[1].messages)
        await stopped(pilot)
        assert "not read yet" not in shown(app)
