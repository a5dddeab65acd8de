"""The lab's screen: what is recorded shows as it comes, sessions open from it and lead back, labels are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from core import Record, Supervisor, labels_now
from impl.control import serve
from tests.harness.stage import Stage, stage
from tests.tui import labscenes
from tests.tui.conftest import calm, until
from tests.tui.test_stops import shown
from tui.application import ArtificerApp
from tui.screens.home import HomeScreen
from tui.screens.lab import LabScreen
from tui.screens.session import SessionScreen
from tui.widgets.matrix import MatrixView
from tui.widgets.rowlist import RowList

Make = Callable[..., ArtificerApp]
WIDE = (120, 40)


def labels(on: Stage, record: str) -> list[tuple[str, str, str]]:
    """The labels that stand, as the command reads them."""
    rows = labels_now(Record(on.host.store, on.host.now, record).rows("label"))
    return [(str(row["case"]), str(row["verdict"]), str(row["note"])) for row in rows]


@pytest.mark.parametrize("size", [(80, 24), pytest.param(WIDE, marks=pytest.mark.slow)])
async def test_the_lab_is_reached_from_home_by_a_key_and_leads_back(
    on_stage: Stage, make_app: Make, size: tuple[int, int]
) -> None:
    labscenes.comparison(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=size) as pilot:
        await calm(pilot)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LabScreen), "the lab")
        assert "How deep is the water" in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen), "home again")


@pytest.mark.slow
async def test_a_row_of_home_that_is_a_record_opens_the_lab_on_it(on_stage: Stage, make_app: Make) -> None:
    labscenes.comparison(on_stage, "cmp-0", 90)
    labscenes.comparison(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=WIDE) as pilot:
        await calm(pilot)
        await app.open_key("session:cmp-0")
        assert isinstance(app.screen, LabScreen)
        assert app.screen.record == "cmp-0"


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "words"), [(("f2",), "compare"), (("f3",), "experiment"), (("f4",), "eval SUITE")])
async def test_an_empty_lab_says_which_command_fills_it(
    on_stage: Stage, make_app: Make, keys: tuple[str, ...], words: str
) -> None:
    labscenes.empty(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press(*keys)
        assert f"  artificer {words}" in shown(app)


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_the_first_record_that_comes_while_the_lab_is_open_shows(
    on_stage: Stage, make_app: Make, size: tuple[int, int]
) -> None:
    labscenes.empty(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=size) as pilot:
        await calm(pilot)
        labscenes.comparisons(on_stage)
        await until(pilot, lambda: "How deep is the water" in shown(app), "it is in the list")
        await pilot.press("enter")
        await until(pilot, lambda: "baseline" in shown(app), "and is read in full")


async def test_a_session_opened_from_a_pair_leads_back_to_the_pair(on_stage: Stage, make_app: Make) -> None:
    done = on_stage.session("T", kind="arm", id="run-candidate", agent="harbour-clerk", stop="completed")
    labscenes.comparisons(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=WIDE) as pilot:
        await calm(pilot)
        lab = app.screen
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen) and app.screen.composed, "its session")
        assert app.screen.session == done  # type: ignore[attr-defined]
        await until(pilot, lambda: "^o lab" in shown(app), "the way back is named")
        await pilot.press("ctrl+o")
        await until(pilot, lambda: app.screen is lab, "the lab again")
        assert lab.record == "cmp-1"  # type: ignore[attr-defined]


async def test_a_matrix_fills_while_it_is_looked_at(on_stage: Stage, make_app: Make) -> None:
    record = labscenes.experiment(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=WIDE) as pilot:
        await calm(pilot)
        assert "6 of 9 · 2 running" in shown(app)
        assert shown(app).count("▸ working") == 3  # the record and two cells
        cell = labscenes.planned(1)[6]
        record.add("cell", {**cell, **labscenes.ran(cell["cell"], "refused", session=f"{cell['cell']}-1")})
        await until(pilot, lambda: "7 of 9 · 1 running" in shown(app), "one more")
        assert "⊘ refused" in shown(app)
        record.end("completed", "7 cells")
        record.close()
        await until(pilot, lambda: "· not run" in shown(app), "nobody is at it any more")


@pytest.mark.slow
async def test_enter_opens_the_cell_under_the_cursor(on_stage: Stage, make_app: Make) -> None:
    on_stage.session("T", kind="arm", id="run-c111", agent="harbour-clerk", stop="doom_loop")
    labscenes.experiment(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        assert isinstance(app.focused, MatrixView)
        await pilot.press("down", "right", "enter")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen), "its session")
        assert app.screen.session == "run-c111"  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_of_several_runs_of_a_cell_the_person_chooses(on_stage: Stage, make_app: Make) -> None:
    labscenes.matrix_repeats(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=WIDE) as pilot:
        await calm(pilot)
        await pilot.press("enter")
        assert isinstance(app.focused, RowList)
        await pilot.press("down")
        await until(pilot, lambda: "answer 9" in shown(app), "what it answered")
        assert app.focused.key == "run-c200"


async def test_a_label_given_by_key_is_the_one_the_command_shows(on_stage: Stage, make_app: Make) -> None:
    labscenes.evaluations(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=WIDE) as pilot:
        await calm(pilot)
        await pilot.press("down", "f")
        await until(pilot, lambda: "= fail" in shown(app), "it shows")
        await pilot.press("m", *"feet", "enter")
        await until(pilot, lambda: ("depth-sundvik-1", "fail", "feet") in labels(on_stage, "eval-9"), "with its note")
        await pilot.press("p")
        await until(pilot, lambda: "≠ pass" in shown(app).split("depth-sundvik-1")[1], "another label")
        assert ("depth-sundvik-1", "pass", "") in labels(on_stage, "eval-9")
        assert on_stage.host.store.session("eval-9").status == "stopped"  # type: ignore[union-attr]


@pytest.mark.slow
async def test_a_pair_is_labelled_by_key(on_stage: Stage, make_app: Make) -> None:
    labscenes.comparisons(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await pilot.press("c")
        await until(pilot, lambda: "label     candidate" in shown(app), "it shows")
        assert labels(on_stage, "cmp-1") == [("pair", "candidate", "")]


@pytest.mark.slow
async def test_what_another_process_writes_is_not_labelled_meanwhile(on_stage: Stage, make_app: Make) -> None:
    labscenes.evaluations(on_stage)
    other = stage(on_stage.host.home)
    assert other.host.store.claim("eval-9")
    app = make_app(on_stage)
    async with app.run_test(size=WIDE) as pilot:
        await calm(pilot)
        before = labels(on_stage, "eval-9")
        await pilot.press("f")
        await until(pilot, lambda: any("Another process" in note.message for note in app._notifications), "it says why")
        assert labels(on_stage, "eval-9") == before
    other.host.store.close()


@pytest.mark.slow
async def test_figures_over_time_show_where_there_are_several(on_stage: Stage, make_app: Make) -> None:
    labscenes.evaluations(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        await until(pilot, lambda: app.screen.settled, "the series is read")  # type: ignore[attr-defined]
        await pilot.press("f6")
        await until(pilot, lambda: "◉" in shown(app), "the one under the cursor")
        assert shown(app).count("●") == 4
        assert "diagnostics, never a score" in shown(app)
        await pilot.press("escape", "f3", "f4", "end")
        assert "F6" in shown(app)


@pytest.mark.slow
async def test_from_narrow_to_wide_nothing_is_lost(on_stage: Stage, make_app: Make) -> None:
    labscenes.comparisons(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=(80, 24)) as pilot:
        await calm(pilot)
        assert "output of  baseline · candidate" in shown(app)
        await pilot.press("right")
        await until(pilot, lambda: "4.2 metres. High tide" in shown(app), "the other output")
        await pilot.resize_terminal(*WIDE)
        await until(pilot, lambda: "output of the candidate" in shown(app), "both")
        assert "output of the baseline" in shown(app)
        assert "Name the harbours." in shown(app)


@pytest.mark.slow
async def test_the_lab_is_where_the_app_was_left(on_stage: Stage, make_app: Make) -> None:
    labscenes.comparisons(on_stage)
    app = make_app(on_stage)
    async with app.run_test(size=WIDE) as pilot:
        await calm(pilot)
        await pilot.press("escape", "down")
        assert app.screen.query_one("#records", RowList).key == "cmp-0"
        await pilot.press("ctrl+q")
    again = stage(on_stage.host.home)
    assert again.host.store.get_value("app:left") == "lab:cmp-0"
    again.host.store.close()


@pytest.mark.slow
async def test_what_works_on_a_record_in_another_process_is_stopped_by_key(on_stage: Stage, make_app: Make) -> None:
    other = stage(on_stage.host.home)
    record = labscenes.experiment(other)
    supervisor = Supervisor(other.host)
    work = asyncio.create_task(asyncio.Event().wait())
    supervisor.adopt(record.session, work)
    server = await serve(other.host, supervisor)
    app = make_app(on_stage)
    async with app.run_test(size=WIDE) as pilot:
        await calm(pilot)
        assert "i interrupt" in shown(app)
        await pilot.press("i")
        await until(pilot, work.cancelled, "it is stopped")
        record.end("cancelled", "interrupted")
        record.close()
        await until(pilot, lambda: "run its file again to go on" in shown(app), "and says how to go on")
        assert "i interrupt" not in shown(app)
    server.close()
    await supervisor.close()
    other.host.store.close()
