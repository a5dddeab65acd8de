"""What is higher than its window: cards are read from their top, questions keep their keys in view, pages turn while
somebody writes, and nothing typed is lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.containers import VerticalScroll
from textual.events import Key

from core import register_provider
from tests.harness.scripted import ScriptedProvider
from tests.harness.stage import Stage, question, said, stopped
from tests.harness.terminal import ROOT, Terminal
from tests.tui import scenes
from tests.tui.conftest import calm, until
from tests.tui.test_stops import shown
from tui.application import ArtificerApp
from tui.panes.chat import ChatPane
from tui.screens.agent import AgentScreen
from tui.screens.dialogs import RunScreen, YesScreen
from tui.screens.session import SessionScreen
from tui.view.chat import Said
from tui.view.text import line, plain_text
from tui.widgets.blocks import MOST_LINES, MOST_WORDS, lines_of
from tui.widgets.composer import Composer
from tui.widgets.rowlist import RowList

Make = Callable[..., ArtificerApp]


def asks_much(stage: Stage) -> str:
    """A question whose options do not fit on the screen."""
    options = [f"operation {number}" for number in range(1, 41)]
    return scenes.waiting(stage, question("Which operations?", *options, recommended=1, multiple=True), "awaiting_user")


async def test_a_card_higher_than_the_screen_shows_what_it_asks_first(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, asks_much(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await until(pilot, lambda: "Which operations?" in shown(app), "the question is in view")
        assert "operation 1  recommended" in shown(app)
        assert "several as 1,3 or all" in shown(app)  # how to answer, though the card's foot is not in view


async def test_an_option_that_says_why_it_is_recommended_says_so_once(on_stage: Stage, make_app: Make) -> None:
    asked = question("Which one?", "clerk", "painter (recommended: the fullest)", recommended=2)
    app = make_app(on_stage, scenes.waiting(on_stage, asked, "awaiting_user"))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await until(pilot, lambda: "Which one?" in shown(app), "the question is in view")
        assert shown(app).count("recommended") == 1


async def test_page_down_in_the_composer_reads_on_and_page_up_back(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, asks_much(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("pagedown", "pagedown", "pagedown")
        await until(pilot, lambda: "operation 40" in shown(app), "the end of the card")
        await pilot.press(*"ab", "pageup", "pageup", "pageup", "pageup")
        await until(pilot, lambda: "Build an agent" in shown(app), "the beginning")
        assert app.screen.query_one("#composer").has_focus


async def test_the_chosen_option_of_a_high_card_stays_in_view(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, asks_much(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("escape", *["down"] * 30)
        await until(pilot, lambda: "› 31" in shown(app), "it moved and is seen")
        await pilot.press(*["up"] * 30)
        await until(pilot, lambda: "Which operations?" in shown(app), "back at what is asked")


async def test_what_is_sent_brings_the_end_of_the_conversation_into_view(on_stage: Stage, make_app: Make) -> None:
    register_provider("scripted", lambda: ScriptedProvider(["So be it."]))
    app = make_app(on_stage, scenes.long_session(on_stage, 400))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("pageup", "pageup")
        pane = app.screen.query_one(ChatPane)
        await until(pilot, lambda: not pane.at_end, "it reads back")
        await pilot.press(*"go on", "enter")
        await until(pilot, lambda: "So be it." in shown(app), "the answer is in view")


async def test_a_question_with_much_to_say_keeps_its_keys_in_view_and_scrolls(on_stage: Stage, make_app: Make) -> None:
    answers: list[Any] = []
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        words = [line(f"tool +number_{number}") for number in range(60)]
        app.push_screen(YesScreen("Publish it?", words, "publish"), answers.append)
        await until(pilot, lambda: "↑↓ read on" in shown(app), "that there is more, and how to read it")
        assert "y publish" in shown(app)
        said = app.screen.query_one("#said", VerticalScroll)
        await pilot.press("pagedown", "down")
        await until(pilot, lambda: said.scroll_offset.y == 10, "it scrolled")
        await pilot.press("y")
        await until(pilot, lambda: answers == [True])


async def test_a_failed_run_begins_at_what_failed(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("f5", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        rows = app.screen.query_one(RowList)
        assert "✗ manifest" in plain_text(rows.rows[rows.cursor].left)
        assert shown(app).index("unknown_key") < shown(app).index("environment")


EDITS = """
import asyncio, sys
from pathlib import Path
from tui import app, application
def edit(self):
    async def lend():
        try:
            await self._in_terminal(["no-such-editor"])
        except OSError:
            self.notify("the terminal is back")
    self.run_worker(lend())
application.ArtificerApp.action_help = edit
sys.exit(app.run_app(Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_an_editor_that_does_not_start_gives_the_terminal_back_to_the_app(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-c", EDITS, str(tmp_path / "home")]
    with Terminal(argv, env={"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}) as terminal:
        terminal.wait_for("Artificer builds agents.")
        terminal.send("\x1bOP")  # F1
        terminal.wait_for("the terminal is back")
        terminal.send("\x11")
        assert terminal.exit_code() == 0


async def test_what_is_typed_while_a_session_opens_is_not_lost(on_stage: Stage, make_app: Make) -> None:
    name = scenes.long_session(on_stage, 400)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        opening = asyncio.create_task(app.open_session(name))
        while not isinstance(app.screen, SessionScreen):  # noqa: ASYNC110 - the app has no event for it
            await asyncio.sleep(0)
        for letter in "more":
            app.post_message(Key(letter, letter))
        await opening
        await until(pilot, lambda: app.screen.query_one(Composer).text == "more", "all of it is written")
        await pilot.press(
            "f4", "z", "escape"
        )  # once it is open, letters are only the composer's where it has the focus
        await until(pilot, lambda: app.screen.query_one(Composer).has_focus)
        assert app.screen.query_one(Composer).text == "more"


async def test_a_task_typed_right_after_its_key_is_a_task_and_no_key_of_the_tree(
    on_stage: Stage, make_app: Make
) -> None:
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(app.focused, RowList), "the tree has the focus")
        app.post_message(Key("t", "t"))
        while not isinstance(app.screen, AgentScreen):  # noqa: ASYNC110 - the app has no event for it
            await asyncio.sleep(0)
        for letter in "probe":
            app.post_message(Key(letter, letter))
        await until(pilot, lambda: bool(app.screen.query(Composer)), "there is a composer")
        await until(pilot, lambda: app.screen.query_one(Composer).text == "probe", "all of it is written")


def test_of_megabytes_that_were_pasted_the_beginning_is_shown_and_the_rest_is_said() -> None:
    for text in ("\n".join(f"line {number}" for number in range(100_000)), "x" * 5_000_000):
        lines = lines_of(Said("1", "you", text, seq=2))
        assert len(lines) <= MOST_LINES + 1
        assert sum(len(plain_text(spans)) for spans, _ in lines) <= MOST_WORDS + 100
        assert f"of {len(text):,} characters" in plain_text(lines[-1][0])


@pytest.mark.slow
async def test_of_an_endless_reply_the_beginning_is_shown_and_where_the_rest_is(
    on_stage: Stage, make_app: Make
) -> None:
    reply = "# Report\n\n```\n" + "".join(f"row {number}\n" for number in range(200_000))
    name = scenes.building(on_stage, said(reply, 2), stopped("awaiting_user", output="?"), stop="awaiting_user")
    app = make_app(on_stage, name)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await until(pilot, lambda: "… All of it is in the transcript: F6, enter" in shown(app), "what is left out")


async def test_code_of_no_named_language_is_not_guessed_at(
    on_stage: Stage, make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    import textual.highlight

    def guess(code: str, path: str | None) -> str:
        raise AssertionError("it takes a third of a second, whenever a reply grows")

    monkeypatch.setattr(textual.highlight, "guess_language", guess)
    words = said("Run:\n\n```\nmake it\n```\n", 2)
    name = scenes.building(on_stage, words, stopped("awaiting_user", output="?"), stop="awaiting_user")
    app = make_app(on_stage, name)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        assert "make it" in shown(app)
