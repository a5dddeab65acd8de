"""What a key does from where a person is: search, go on, mend, and home with the cursor on what was left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core import register_provider
from tests.harness.scripted import ScriptedProvider
from tests.harness.stage import Stage, said, stage
from tests.tui import scenes
from tests.tui.conftest import calm, until
from tests.tui.test_stops import screen, shown, state
from tui.application import ArtificerApp
from tui.keymap import split
from tui.panes.transcript import TranscriptPane
from tui.screens.dialogs import RunScreen
from tui.screens.home import HomeScreen
from tui.widgets.composer import Composer
from tui.widgets.rowlist import RowList

Make = Callable[..., ArtificerApp]


async def test_a_search_opens_the_session_at_the_event(on_stage: Stage, make_app: Make) -> None:
    name = scenes.long_session(on_stage, 2000)
    (found,) = on_stage.host.store.append(name, [said("the needle", 9000)])
    on_stage.host.store.append(name, [said(f"hay {n}", 9001 + n) for n in range(300)])
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f9", *"needle", "enter")
        await until(pilot, lambda: "the needle" in shown(app), "it is found")
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.screen.query(TranscriptPane)), "the session opens")
        pane = app.screen.query_one(TranscriptPane)
        await until(pilot, lambda: pane.at == found.seq, "at the event")
        await until(pilot, lambda: f"› {found.seq:>6}" in shown(app), "which is in view")


async def test_a_search_without_a_hit_says_so(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("f9", *"nowhere", "enter")
        await until(pilot, lambda: "nothing found" in shown(app))


async def test_what_was_interrupted_goes_on_by_key_and_the_screen_names_it(on_stage: Stage, make_app: Make) -> None:
    register_provider("scripted", lambda: ScriptedProvider(["Which repository?"]))
    app = make_app(on_stage, scenes.interrupted(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        assert "^r go on" in shown(app)
        assert "ctrl+r goes on" in shown(app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "your turn · question" in state(app), "it came to a stop")


async def test_a_session_that_waits_for_words_cannot_go_on_without_them(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        assert "^r go on" not in shown(app)
        await pilot.press("ctrl+r")
        assert "question" in state(app)


async def test_coming_home_the_list_has_the_focus_on_what_was_left(on_stage: Stage, make_app: Make) -> None:
    scenes.fleet(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("down", "enter")
        await until(pilot, lambda: not isinstance(app.screen, HomeScreen))
        session = screen(app).session
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(app.focused, RowList), "the list")
        assert app.screen.query_one(RowList).key == f"session:{session}"


async def test_coming_home_to_half_written_words_the_composer_keeps_the_focus(on_stage: Stage, make_app: Make) -> None:
    name = scenes.asks(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("n", *"half")
        await app.open_session(name)
        await calm(pilot)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await calm(pilot)
        assert isinstance(app.focused, Composer)


async def test_a_failed_run_is_mended_by_key_in_the_file_that_failed(
    on_stage: Stage, make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    async def edit(self: ArtificerApp, command: list[str]) -> int:
        opened.append(command[-1])
        return 0

    monkeypatch.setattr(ArtificerApp, "_in_terminal", edit)
    monkeypatch.setenv("EDITOR", "edit")
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f5", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("e")
        await until(pilot, lambda: bool(opened), "the editor opens")
        assert opened[0].endswith("/agent.yaml")
        await until(pilot, lambda: any("Nothing was changed" in note.message for note in app._notifications))
        await pilot.press("up", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("e")
        await pilot.pause()
        assert len(opened) == 1  # nothing is to be mended in one that passed


async def test_what_failed_to_be_published_says_that_it_was_not(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f4", "down", "down", "p")
        await until(pilot, lambda: isinstance(app.screen, RunScreen), "its problems")
        assert "not published" in shown(app)


@pytest.mark.parametrize(("live", "words"), [(False, "F4, p publishes"), (True, "F4, t runs it")])
async def test_once_it_is_built_the_composer_says_what_comes_next(
    on_stage: Stage, make_app: Make, live: bool, words: str
) -> None:
    from core import publish

    name = scenes.done(on_stage)
    newest = on_stage.host.store.revisions(scenes.AGENT)[-1].digest
    scenes.validate(on_stage, newest, 4)
    if live:
        publish(on_stage.host.store, scenes.AGENT, newest, by="person", now=on_stage.clock)
    app = make_app(on_stage, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        assert words in shown(app)


async def test_what_another_process_publishes_shows_in_the_tree(on_stage: Stage, make_app: Make) -> None:
    from core import publish

    name = scenes.done(on_stage)
    app = make_app(on_stage, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        other = stage(on_stage.host.home).host.store
        first = other.revisions(scenes.AGENT)[0].digest
        publish(other, scenes.AGENT, first, by="person", now=on_stage.clock)
        await until(pilot, lambda: f"{first[7:15]} live" in shown(app))


async def test_a_drive_that_the_disk_ends_leaves_the_words_and_the_turn_with_the_person(
    on_stage: Stage, make_app: Make
) -> None:
    from core import StoreError

    register_provider("scripted", lambda: ScriptedProvider(["never said"]))
    name = scenes.asks_in_words(on_stage)
    app = make_app(on_stage, name)
    store = on_stage.host.store
    append = store.append

    def full(*args: object, **more: object) -> object:
        raise StoreError("disk_full", "No room to write.", "Free space.")

    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        store.append = full
        await pilot.press(*"words", "enter")
        await until(pilot, lambda: any("No room" in note.message for note in app._notifications), "it is said")
        await until(pilot, lambda: app.screen.query_one(Composer).text == "words", "they are written still")
        assert "working" not in state(app)
        store.append = append
        await pilot.press("enter")
        await until(pilot, lambda: "never said" in shown(app), "and can be sent again")


async def test_keys_of_one_s_own_are_named_where_they_act(on_stage: Stage, make_app: Make) -> None:
    keys = '"revisions.publish" = "P"\n"move.yes" = "Y"\n"card.hint" = "x,h"\n'
    (on_stage.host.home / "keymap.toml").write_text(keys)
    app = make_app(on_stage, scenes.stuck(on_stage))
    scenes.bundle(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        assert "x give a hint" in shown(app)
        assert "P publish · b roll back" in shown(app)
        await pilot.press("f4", "end", "P")
        await until(pilot, lambda: "Y publish    n leave it" in shown(app), "the question names it too")


async def test_keys_that_cannot_be_used_are_said_and_the_others_are(on_stage: Stage, make_app: Make) -> None:
    lines = ('"revisions.pubish" = "P"', '"app.help" = "no such key"', '"home.new" = "l"', '"home.peek" = "ctrl+y"')
    (on_stage.host.home / "keymap.toml").write_text("\n".join(lines))
    scenes.fleet(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await until(pilot, lambda: len(app._notifications) == 2, "all is looked through")
        said = "\n".join(note.message for note in app._notifications)
        assert 'There is no "revisions.pubish", but "revisions.publish"' in said
        assert '"app.help": there is no key “no such key”' in said
        assert "“l” is both" in said
        assert "^y peek" in shown(app)
        assert "F1 help" in shown(app)  # the one it had


@pytest.mark.parametrize(
    "key", ["a", "P", "f5", "ctrl+y", "ctrl+shift+left", "space", "question_mark", "full_stop", "é"]
)
def test_a_key_that_some_keyboard_has_is_one(key: str) -> None:
    assert split({"home.new": key}) == ({"home.new": key}, [])


@pytest.mark.parametrize("key", ["", "ctrl+", "page up", "f99", "hyperdrive", "a,,b"])
def test_what_no_keyboard_has_is_no_key(key: str) -> None:
    good, wrong = split({"home.new": key})
    assert not good
    assert len(wrong) == 1


async def test_what_was_edited_and_not_saved_is_gone_on_with(
    on_stage: Stage, make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    async def edit(self: ArtificerApp, command: list[str]) -> int:
        file = Path(command[-1])
        found.append(file.read_text())
        file.write_text(f"{found[0]}An hour's work.\n")
        return 1 if len(found) == 1 else 0

    monkeypatch.setattr(ArtificerApp, "_in_terminal", edit)
    monkeypatch.setenv("EDITOR", "edit")
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f4", "e")
        await until(pilot, lambda: any("ended with 1" in note.message for note in app._notifications))
        await pilot.press("e")
        await until(pilot, lambda: any("Saved as" in note.message for note in app._notifications), "it is saved")
        assert "An hour's work." in found[1]
        assert not any((on_stage.host.home / "checkouts").iterdir())
