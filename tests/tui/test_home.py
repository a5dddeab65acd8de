"""Home: however many sessions there are, those that wait are seen and the figures are right."""

from __future__ import annotations

from collections.abc import Callable

from core import SessionInfo
from tests.harness.stage import Stage
from tests.tui import scenes
from tests.tui.conftest import calm, until
from tests.tui.test_stops import shown
from tui.application import ArtificerApp
from tui.screens.home import SHOWN_SESSIONS, HomeScreen
from tui.view.rows import Row
from tui.view.text import line
from tui.widgets.rowlist import RowList

Make = Callable[..., ArtificerApp]


async def test_a_session_that_waits_is_seen_behind_a_thousand_later_ones(on_stage: Stage, make_app: Make) -> None:
    waiting = scenes.asks(on_stage)
    store = on_stage.host.store
    columns = {"ended": on_stage.clock(), "stop": "completed"}
    for number in range(SHOWN_SESSIONS + 5):
        name = f"later{number:06}"
        store.create_session(SessionInfo(id=name, kind="run", started=on_stage.clock(), usd="0.01"), [])
        store.append(name, [], columns)
        store.release(name)
    app = make_app(on_stage)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        await until(pilot, lambda: "1 waiting" in shown(app), "it is counted")
        assert scenes.ASK.split("?")[0] in shown(app)
        assert "$10.09 today" in shown(app)  # four cents of its own
        assert f"› ● {scenes.AGENT}" in shown(app)  # and it is the first, which has the cursor
        store.append(waiting, [], {"stop": "completed"})
        await until(pilot, lambda: "0 waiting" in shown(app), "what another process does to it is seen")


async def test_a_reading_that_comes_while_the_app_is_closing_is_none(on_stage: Stage, make_app: Make) -> None:
    scenes.asks(on_stage)
    app = make_app(on_stage)
    async with app.run_test() as pilot:
        await calm(pilot)
        home = app.screen
        assert isinstance(home, HomeScreen)
    assert not home.query("#top")
    await home.refresh_rows()


async def test_the_row_under_the_cursor_stays_in_view_when_others_come_above_it(
    on_stage: Stage, make_app: Make
) -> None:
    scenes.fleet(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        rows = app.screen.query_one(RowList)
        key = rows.key
        rows.show([*(Row(f"new{number}", line("news")) for number in range(60)), *rows.rows])
        await pilot.pause()
        assert rows.key == key
        assert rows.scroll_offset.y <= rows.cursor < rows.scroll_offset.y + rows.size.height
        rows.show([])
        rows.show([Row(key, line("it")), *(Row(f"new{number}", line("news")) for number in range(60))])
        assert rows.cursor == 0
        rows.show([*(Row(f"more{number}", line("news")) for number in range(60)), *rows.rows])
        await pilot.pause()
        assert rows.key == key
        assert rows.scroll_offset.y <= rows.cursor < rows.scroll_offset.y + rows.size.height
