"""A session on screen: a window over any length, panes by key, other processes followed, places found again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from core import Event, register_provider
from tests.harness.scripted import Gate, ScriptedProvider
from tests.harness.stage import Stage, ran, said, stage
from tests.harness.terminal import ROOT
from tests.tui import scenes
from tests.tui.conftest import calm, until
from tests.tui.test_stops import shown, state
from tui.application import ArtificerApp
from tui.panes.bundles import RevisionsPane
from tui.panes.chat import LARGEST, SLACK, WINDOW, ChatPane
from tui.panes.side import UPPER
from tui.panes.transcript import TranscriptPane
from tui.screens.home import HomeScreen
from tui.screens.session import SessionScreen
from tui.view.chat import Change
from tui.view.text import line, plain_text
from tui.widgets.composer import Composer
from tui.widgets.lines import TextView
from tui.widgets.logview import LogView
from tui.widgets.rowlist import RowList

Make = Callable[..., ArtificerApp]


def screen(app: ArtificerApp) -> SessionScreen:
    assert isinstance(app.screen, SessionScreen)
    return app.screen


async def test_a_long_session_mounts_a_window_of_its_end(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.long_session(on_stage, 4000))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        assert len(app.screen.query_one(ChatPane).widgets) <= WINDOW
        assert "Answer 1999." in shown(app)


@pytest.mark.slow
async def test_scrolling_up_loads_what_is_older_to_the_very_first_message(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.long_session(on_stage, 400))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        pane = app.screen.query_one(ChatPane)
        pane.focus()
        for _ in range(200):
            pane.scroll_home(animate=False)
            await pilot.pause()
            await pilot.press("pageup")
            if "Build an agent from ./petstore" in shown(app):
                break
        assert "Build an agent from ./petstore" in shown(app)
        assert len(pane.widgets) <= LARGEST
        keys = list(pane.blocks)
        assert len(keys) == len(set(keys))
        await pilot.press("end")
        await until(pilot, lambda: "Answer 199." in shown(app), "back at the end")
        assert len(pane.widgets) <= WINDOW + SLACK


class Counting(TextView):
    """A pane as somebody adds one: it counts the events it is fed."""

    count = 0

    def feed(self, events: Sequence[Event]) -> None:
        self.count += len(events)
        self.show((line(f"{self.count} events"),))


async def test_a_pane_that_is_named_beside_the_others_is_shown_and_fed(
    on_stage: Stage, make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(UPPER, "counting", lambda work: Counting(id="counting"))
    name = scenes.long_session(on_stage, 20)
    stored = len(list(on_stage.host.store.events(name)))
    app = make_app(on_stage, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f3", "f3", "f3", "f3")
        await until(pilot, lambda: f"{stored} events" in shown(app), "the pane shows the events")
        assert "Counting" in shown(app)


@pytest.mark.parametrize("key", ["pageup", "up", "home"])
async def test_what_is_older_comes_though_there_is_nothing_to_scroll(on_stage: Stage, make_app: Make, key: str) -> None:
    app = make_app(on_stage, scenes.long_session(on_stage, 400))
    async with app.run_test(size=(200, 150)) as pilot:
        await calm(pilot)
        pane = app.screen.query_one(ChatPane)
        assert pane.max_scroll_y == 0
        before = len(pane.widgets)
        pane.focus()
        await pilot.press(key)
        await until(pilot, lambda: len(pane.widgets) > before, "older ones are shown")


async def test_events_that_come_while_reading_back_do_not_move_what_is_read(on_stage: Stage, make_app: Make) -> None:
    name = scenes.long_session(on_stage, 200)
    app = make_app(on_stage, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        pane = app.screen.query_one(ChatPane)
        pane.focus()
        await pilot.press("pageup", "pageup")
        await pilot.pause()
        top = pane.scroll_offset.y
        on_stage.host.store.append(name, [said(f"News {n}", 1000 + n) for n in range(30)])
        await until(pilot, lambda: any("News 29" in str(b) for b in pane.blocks.values()), "the news are in")
        assert pane.scroll_offset.y == top
        await pilot.press("end")
        await until(pilot, lambda: "News 29" in shown(app), "the end shows them")


async def test_one_more_event_changes_no_other_widget(on_stage: Stage, make_app: Make) -> None:
    name = scenes.long_session(on_stage, 60)
    app = make_app(on_stage, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        pane = app.screen.query_one(ChatPane)
        before = dict(pane.widgets)
        on_stage.host.store.append(name, [said("One more.", 1000)])
        await until(pilot, lambda: "One more." in shown(app))
        assert [widget for key, widget in pane.widgets.items() if key in before] == list(before.values())[
            -len(pane.widgets) + 1 :
        ]


@pytest.mark.parametrize(
    ("key", "pane"), [("f3", "log"), ("f4", "revisions"), ("f5", "validation"), ("f6", "transcript")]
)
@pytest.mark.parametrize("width", [80, 120])
async def test_every_pane_is_one_key_away_and_escape_comes_back(
    on_stage: Stage, make_app: Make, key: str, pane: str, width: int
) -> None:
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(width, 30)) as pilot:
        await calm(pilot)
        await pilot.press(key)
        await until(pilot, lambda: app.focused is not None and app.focused.id == pane, "the pane has the focus")
        assert app.focused is not None
        assert app.focused.region.height > 3
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.focused, Composer), "the composer has it again")


async def test_the_transcript_reads_only_the_pages_that_show(on_stage: Stage, make_app: Make) -> None:
    name = scenes.long_session(on_stage, 5000)
    app = make_app(on_stage, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f6")
        pane = app.screen.query_one(TranscriptPane)
        await pilot.press("g")
        await pilot.pause()
        assert pane.line_count == on_stage.host.store.session(name).last_seq  # type: ignore[union-attr]
        assert len(pane._pages) <= 3
        assert plain_text(pane.get_line(0)).split()[:2] == ["›", "1"]


async def test_what_another_process_does_shows_live_and_read_only(
    on_stage: Stage, make_app: Make, tmp_path: Path
) -> None:
    import asyncio

    name = scenes.followed(on_stage)
    on_stage.host.store.release(name)
    script = tmp_path / "other.py"
    script.write_text(
        "import sys, pathlib\n"
        "from tests.harness.stage import stage, said\n"
        f"store = stage(pathlib.Path({str(on_stage.host.home)!r})).host.store\n"
        f"assert store.claim({name!r})\n"
        "print('mine', flush=True)\n"
        "for line in sys.stdin:\n"
        f"    store.append({name!r}, [said(line.strip(), 7)])\n"
    )
    other = await asyncio.create_subprocess_exec(
        sys.executable, script, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert other.stdin is not None
    assert other.stdout is not None
    await other.stdout.readline()
    app = make_app(on_stage, name)
    try:
        async with app.run_test(size=(120, 40)) as pilot:
            await calm(pilot)
            await until(pilot, lambda: "another process drives it" in shown(app))
            assert state(app) == "▸ working"
            other.stdin.write(b"Hello from elsewhere\n")
            await other.stdin.drain()
            await until(pilot, lambda: "Hello from elsewhere" in shown(app), "it comes over")
            other.kill()
            await other.wait()
            on_stage.host.store.set_value("nudge", 1)  # a death writes nothing; the next write of anybody shows it
            await until(pilot, lambda: "interrupted" in state(app), "its death shows")
    finally:
        if other.returncode is None:
            other.kill()


async def test_a_session_that_was_interrupted_goes_on_by_a_word(on_stage: Stage, make_app: Make) -> None:
    provider = ScriptedProvider(["Which repository?"])
    register_provider("scripted", lambda: provider)
    app = make_app(on_stage, scenes.interrupted(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        assert "interrupted" in state(app)
        await pilot.press(*"go", "enter")
        await until(pilot, lambda: "Which repository?" in shown(app))


@pytest.mark.slow
async def test_resizing_in_the_middle_of_a_stream_loses_nothing(on_stage: Stage, make_app: Make) -> None:
    gate = Gate()
    text = "A list:\n\n" + "\n".join(f"- item number {n}" for n in range(30))
    register_provider("scripted", lambda: ScriptedProvider([[text, gate, "\n- and the last one"]]))
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await app.open_session(await app.desk.build("Build it"))
        await until(pilot, gate.reached.is_set)
        for size in ((80, 24), (60, 20), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        gate.release()
        await until(pilot, lambda: "and the last one" in shown(app), "the rest comes")
        assert "item number 29" in shown(app)


async def test_the_place_and_what_was_written_are_there_again(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press(*"half")
        await pilot.press("ctrl+q")
    again = ArtificerApp(stage(on_stage.host.home).host)
    async with again.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: again.opened)
        assert "Which operations should it have?" in shown(again)
        assert again.screen.query_one(Composer).text == "half"
        await pilot.press("ctrl+o")
        assert isinstance(again.screen, HomeScreen)
        await pilot.press("ctrl+q")
    home = ArtificerApp(stage(on_stage.host.home).host)
    async with home.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: home.opened)
        assert isinstance(home.screen, HomeScreen)


async def test_in_a_fresh_home_the_composer_has_the_focus(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        assert isinstance(app.focused, Composer)


async def test_home_shows_what_other_processes_begin(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        other = stage(on_stage.host.home)
        other.session("Build a bot", stop="completed", summary="made elsewhere")
        await until(pilot, lambda: "made elsewhere" in shown(app))
        assert app.screen.query(RowList)


async def test_the_log_keeps_its_end_in_view_until_somebody_scrolls(on_stage: Stage, make_app: Make) -> None:
    name = scenes.asks(on_stage)
    app = make_app(on_stage, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        log = app.screen.query_one(LogView)
        log.focus()
        await until(pilot, lambda: log.is_vertical_scroll_end)
        await pilot.press("k", "k")
        top = log.scroll_offset.y
        on_stage.host.store.append(name, [pair for n in range(20) for pair in ran(f"echo {n}", "x", call=f"n{n}")])
        await until(pilot, lambda: "echo 19" in plain_text(log.get_line(log.line_count - 3)), "they are in the log")
        assert log.scroll_offset.y == top
        await pilot.press("G")
        assert log.is_vertical_scroll_end


async def test_the_log_keeps_ten_thousand_lines_and_says_how_many_left_it(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        log = app.screen.query_one(LogView)
        for start in range(0, 30_000, 3000):
            log.extend([f"line {n}" for n in range(start, start + 3000)])
            log.flush()
        assert log.line_count <= 12_001
        assert "earlier lines" in plain_text(log.get_line(0))
        assert plain_text(log.get_line(log.line_count - 1)).strip() == "line 29999"


async def test_keys_of_the_tree_act_on_the_revision_under_the_cursor(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f4", "end", "p")
        await until(pilot, lambda: "y publish" in shown(app))
        await pilot.press("y")
        await until(
            pilot, lambda: any("is " in note.message and "Published" in note.title for note in app._notifications)
        )
        tree = app.screen.query_one(RevisionsPane)
        assert on_stage.host.store.channels(scenes.AGENT)["live"] == tree.key


async def test_a_publication_is_refused_where_somebody_was_faster(on_stage: Stage, make_app: Make) -> None:
    from core import publish

    app = make_app(on_stage, scenes.done(on_stage))
    revisions = on_stage.host.store.revisions(scenes.AGENT)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f4", "end", "p")
        await until(pilot, lambda: "y publish" in shown(app))
        publish(on_stage.host.store, scenes.AGENT, revisions[0].digest, by="person", now=on_stage.clock)
        await pilot.press("y")
        await until(pilot, lambda: any("stale_head" in note.title for note in app._notifications))
        assert any("press the key again" in note.message for note in app._notifications)


async def test_a_keymap_file_moves_a_key(on_stage: Stage, make_app: Make) -> None:
    (on_stage.host.home / "keymap.toml").write_text('"revisions.publish" = "P"\n')
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f4", "end", "p")
        await pilot.pause()
        assert "y publish" not in shown(app)
        await pilot.press("P")
        await until(pilot, lambda: "y publish" in shown(app))


async def test_a_broken_keymap_file_is_said_and_the_default_keys_stay(on_stage: Stage, make_app: Make) -> None:
    (on_stage.host.home / "keymap.json").write_text("{broken")
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        assert any("keymap.json cannot be read" in note.message for note in app._notifications)


async def test_copying_says_where_it_went_and_writes_a_file(on_stage: Stage, make_app: Make) -> None:
    app = make_app(on_stage, scenes.done(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await pilot.press("f8")
        assert (on_stage.host.home / "copied.txt").read_text() == "petstore-clerk is ready."
        assert any("OSC 52" in note.message and "copied.txt" in note.message for note in app._notifications)


async def test_help_names_every_binding_with_its_id(on_stage: Stage, make_app: Make) -> None:
    from textual.binding import Binding

    from tui.screens.groups import all_help

    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        text = "\n".join(plain_text(spans) for spans in all_help(app))
        seen = [app, app.screen, app.screen.query_one(Composer)]
        for node in seen:
            for binding in type(node).__dict__.get("BINDINGS", ()):
                assert isinstance(binding, Binding)
                assert binding.id
                assert binding.id in text
        assert "revisions.publish" in text
        assert "revisions.rollback" in text


async def test_a_session_that_is_followed_for_long_is_forgotten_at_its_beginning_and_found_again(
    on_stage: Stage, make_app: Make
) -> None:
    name = scenes.long_session(on_stage, 20)
    app = make_app(on_stage, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        pane = app.screen.query_one(ChatPane)
        for batch in range(5):
            bodies = [("message", {"role": "user", "text": f"Said {n}"}) for n in range(batch * 200, batch * 200 + 200)]
            await screen(app).take(on_stage.host.store.append(name, bodies))
            await pilot.pause()
        assert len(pane.blocks) < 700
        assert len(screen(app).chat.blocks) < 700
        first = next(iter(pane.blocks.values())).seq
        assert screen(app)._first == first
        (before,) = on_stage.host.store.events(name, after=first - 2, limit=1)
        pane.post_message(ChatPane.OlderWanted("any"))
        await until(pilot, lambda: str(before.seq) in pane.blocks, "the one before is there again")


async def test_a_home_that_cannot_be_written_says_so_and_keeps_what_was_typed(
    on_stage: Stage, make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core import StoreError

    def refuse(*_: object) -> None:
        raise StoreError("read_only", "The home cannot be written.", "Make it writable.")

    monkeypatch.setattr(type(on_stage.host.store), "own_socket", refuse)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press(*"build", "enter")
        await until(pilot, lambda: any("Make it writable" in note.message for note in app._notifications))
        assert app.screen.query_one(Composer).text == "build"


@pytest.mark.slow
async def test_a_session_is_left_while_its_events_are_being_shown(on_stage: Stage, make_app: Make) -> None:
    name = scenes.long_session(on_stage, 40)
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        for moment in range(8):
            await app.open_session(name)
            on_stage.host.store.append(name, [said(f"News {moment}.{n}", 9000 + n) for n in range(30)])
            app.desk.supervisor.bus.notify(name)
            await asyncio.sleep(0.02 + 0.01 * moment)  # somewhere between the reading of them and their paint
            await app.action_home()
        assert isinstance(app.screen, HomeScreen)


async def test_the_app_is_left_while_events_are_being_shown(
    on_stage: Stage, make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = scenes.asks(on_stage)
    app = make_app(on_stage, name)
    shown_late: list[bool] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        screen = app.screen

        async def slow(changes: Sequence[Change]) -> None:
            shown_late.append(False)
            while screen.query("#top"):  # noqa: ASYNC110 - nothing tells when a widget is taken away
                await asyncio.sleep(0)
            shown_late[-1] = True

        monkeypatch.setattr(screen.query_one(ChatPane), "apply", slow)
        on_stage.host.store.append(name, [said("News.", 9000)])
        app.desk.supervisor.bus.notify(name)
        await until(pilot, lambda: shown_late != [], "the news are being shown")
    assert shown_late == [True]


async def test_what_others_write_while_the_app_closes_is_not_looked_for(
    on_stage: Stage, make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(on_stage, scenes.asks(on_stage))
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
    monkeypatch.setattr(app.desk, "poll", lambda: True)
    await app._poll()
    assert app.screen_stack == []
