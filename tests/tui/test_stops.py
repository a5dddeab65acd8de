"""Every stop of the loop, driven by a scripted model through the app, comes onto the screen with its next step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from core import Limits, ProviderError, Stop, Text, TurnEnd, build_launch, register_provider
from tests.harness.eval_driver import OneSandbox
from tests.harness.keyrings import MemoryKeyring, system_keyring
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


ASKING = """schema: artificer/v1
name: clerk
persona: persona.md
policy: {run_sandbox: ask}
"""


@pytest.fixture
def boxed(on_stage: Stage) -> Stage:
    """A stage whose sandbox is a real one."""
    on_stage.host.sandboxes = OneSandbox()
    return on_stage


async def run(pilot: Pilot[Any], agent: str, digest: str) -> None:
    """Run a revision to its first stop, on screen."""
    app = pilot.app
    assert isinstance(app, ArtificerApp)
    await calm(pilot)
    await app.open_session(await app.desk.run(agent, digest, "Do it"))
    await stopped(pilot)


@pytest.mark.parametrize(("key", "said", "shows"), [("y", "once", "✓ $ echo it ran"), ("n", "deny", "✗ $ echo it ran")])
async def test_an_approval_shows_exactly_what_will_run_and_a_key_decides(
    boxed: Stage, make_app: Make, tmp_path: Path, key: str, said: str, shows: str
) -> None:
    provider = scripted([call("run_sandbox", command="echo it ran > here")], "As you like.")
    files = {"agent.yaml": ASKING, "persona.md": "You are a clerk."}
    digest = boxed.revision("clerk", files, minutes=9, scratch=tmp_path / "clerk")
    app = make_app(boxed)
    async with app.run_test(size=(120, 40)) as pilot:
        await run(pilot, "clerk", digest)
        assert "approval" in state(app)
        assert "$ echo it ran > here" in shown(app)
        session = screen(app).session
        assert not (boxed.host.workspace_path(session) / "here").exists()
        await pilot.press("escape", key)
        await until(pilot, lambda: "As you like." in shown(app), "it goes on")
        await stopped(pilot)
        assert state(app) == "✓ done"
        assert shows in shown(app)
        assert len(provider.requests) == 2
        assert (boxed.host.workspace_path(session) / "here").exists() is (said == "once")


RATES = {
    "agent.yaml": """schema: artificer/v1
name: rates-bot
persona: persona.md
tools: [rate]
credentials:
  - {name: RATES_API_KEY, hosts: [api.rates.invalid], header: X-Key}
""",
    "persona.md": "You know the rates.",
    "tools/rate/tool.yaml": """name: rate
description: Asks for a rate.
input_schema: {type: object}
hosts: [api.rates.invalid]
credentials: [RATES_API_KEY]
""",
    "tools/rate/tool.py": """def run(ctx, input):
    return ctx.http.request("GET", "https://api.rates.invalid/", credential="RATES_API_KEY").status
""",
}


async def test_a_tool_without_its_key_asks_for_it_by_name_and_host_in_a_masked_field(
    boxed: Stage, make_app: Make, tmp_path: Path
) -> None:
    scripted([call("rate")], "never asked")
    digest = boxed.revision("rates-bot", RATES, minutes=9, scratch=tmp_path / "rates")
    app = make_app(boxed)
    with system_keyring(MemoryKeyring()):
        async with app.run_test(size=(120, 40)) as pilot:
            await run(pilot, "rates-bot", digest)
            assert "needs key" in state(app)
            assert "It needs RATES_API_KEY" in shown(app)
            assert "api.rates.invalid" in shown(app)
            await pilot.press("escape")
            box = app.focused
            assert isinstance(box, Input)
            assert box.password


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
        await until(pilot, lambda: any("ctrl+c again" in note.message for note in app._notifications), "it says so")
        await pilot.press(*"go", "enter")
        await until(pilot, lambda: "question" in state(app), "it goes on")
        assert on_stage.host.store.session(screen(app).session).stop == Stop.AWAITING_USER.value  # type: ignore[union-attr]


async def test_ctrl_c_twice_leaves_with_130(on_stage: Stage, make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.application.AGAIN_S", 60.0)  # however slow the machine is
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
