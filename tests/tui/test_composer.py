"""The composer: several lines, a history, pastes; enter sends."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.events import Paste

from tui.widgets.composer import Composer


class Desk(App[None]):
    """A composer and what it sent."""

    def __init__(self, history: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.sent: list[str] = []
        self._history = history

    def compose(self) -> ComposeResult:
        yield Composer(history=self._history, id="composer")

    def on_composer_sent(self, event: Composer.Sent) -> None:
        self.sent.append(event.text)

    @property
    def composer(self) -> Composer:
        return self.query_one(Composer)


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_enter_sends_and_other_keys_break_the_line(key: str) -> None:
    app = Desk()
    async with app.run_test() as pilot:
        await pilot.press("a", key, "b", "enter")
    assert app.sent == ["a\nb"]


async def test_nothing_is_sent_where_nothing_is_written() -> None:
    app = Desk()
    async with app.run_test() as pilot:
        await pilot.press("enter", "space", "enter")
    assert app.sent == []


async def test_up_on_the_first_line_goes_back_and_down_comes_forward_to_what_was_being_written() -> None:
    app = Desk(("first", "second"))
    async with app.run_test() as pilot:
        await pilot.press(*"new", "up")
        assert app.composer.text == "second"
        await pilot.press("up", "up")
        assert app.composer.text == "first"
        await pilot.press("down", "down")
        assert app.composer.text == "new"


async def test_up_inside_a_text_of_several_lines_moves_the_cursor() -> None:
    app = Desk(("before",))
    async with app.run_test() as pilot:
        await pilot.press("a", "ctrl+j", "b", "up")
        assert app.composer.text == "a\nb"
        assert app.composer.cursor_location[0] == 0
        await pilot.press("up")
        assert app.composer.text == "before"


async def test_up_inside_a_line_that_wraps_moves_the_cursor() -> None:
    app = Desk(("before",))
    async with app.run_test(size=(20, 10)) as pilot:
        await pilot.press(*("x" * 30), "up")
        assert app.composer.text == "x" * 30


async def test_what_was_sent_is_the_newest_of_the_history() -> None:
    app = Desk()
    async with app.run_test() as pilot:
        await pilot.press("a", "enter", "b", "enter", "up", "up")
        assert app.composer.text == "a"


async def test_a_big_paste_shows_as_a_chip_and_is_sent_whole() -> None:
    app = Desk()
    big = "\r\n".join(f"line {n}" for n in range(500))
    async with app.run_test() as pilot:
        app.composer.post_message(Paste(big))
        await pilot.pause()
        assert app.composer.text == "[pasted 500 lines]"
        await pilot.press("enter")
    assert app.sent == [big.replace("\r\n", "\n")]


async def test_a_small_paste_of_several_lines_is_not_sent_by_its_newlines() -> None:
    app = Desk()
    async with app.run_test() as pilot:
        app.composer.post_message(Paste("a\nb\n"))
        await pilot.pause()
        assert app.sent == []
        assert app.composer.text == "a\nb\n"


async def test_what_is_not_sent_survives_with_its_pastes() -> None:
    first, second = Desk(), Desk()
    async with first.run_test() as pilot:
        first.composer.post_message(Paste("x\n" * 100))
        await pilot.press(*"end")
        kept: Any = first.composer.to_json()
    async with second.run_test() as pilot:
        second.composer.restore(kept)
        await pilot.press("enter")
    assert second.sent == ["x\n" * 100 + "end"]


@pytest.mark.parametrize("kept", [None, 1, [], {}, {"text": 3}, {"text": "a", "pastes": 4}])
async def test_what_was_kept_badly_does_no_harm(kept: Any) -> None:
    app = Desk()
    async with app.run_test():
        app.composer.restore(kept)


async def test_a_keymap_changes_the_key_that_sends() -> None:
    app = Desk()
    async with app.run_test() as pilot:
        app.set_keymap({"composer.send": "ctrl+s"})
        await pilot.press("a", "enter")
        assert app.sent == []
        await pilot.press("ctrl+s")
        assert app.sent == ["a\n"]


async def test_what_was_not_taken_stands_there_again_before_what_was_typed_since() -> None:
    app = Desk()
    async with app.run_test() as pilot:
        app.composer.post_message(Paste("x\n" * 100))
        await pilot.press(*"end", "enter", *"new")
        app.composer.unsent()
        await pilot.press("enter")
    assert app.sent == ["x\n" * 100 + "end", "x\n" * 100 + "endnew"]
