"""An experiment: every cell a session with one result, and the same file goes on where it was."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core import Job, Lost, Ran, SessionInfo, Start, Stop, StoreError, lay_out
from core.lab.experiment import Attempts, Experiment, load_experiment, run_experiment
from core.lab.records import Record
from core.lab.runner import Runner, Setting
from core.lab.suite import BadSuite
from impl.drivers.suite import in_suite
from impl.engines import open_engine
from tests.harness.laboratory import Lab
from tests.harness.scripted import Gate

FILE = """\
schema: artificer/experiment/v1
name: greetings
revisions: [{revisions}]
prompts:
- {{id: plain, text: "{{task}}"}}
- {{id: loud, text: "LOUD: {{task}}"}}
tasks:
- {{id: one, task: First.}}
- {{id: two, task: Second., files: {{a.txt: hello}}}}
repeats: 2
"""


def echo(request: Any) -> str:
    return str(request.messages[0].text)


def lab_of(tmp_path: Path, **cast: Any) -> tuple[Lab, Path]:
    lab = Lab(tmp_path, {"old": [echo], "new": [echo], **cast}, environment=in_suite)
    lab.agent("old")
    lab.agent("new")
    file = tmp_path / "greetings.yaml"
    file.write_text(FILE.format(revisions="old@live, new@live"))
    return lab, file


def load(lab: Lab, file: Path) -> Experiment:
    return load_experiment(file, lab.store, Setting(provider="cast"))


async def go(lab: Lab, file: Path, slots: int = 4, show: Any = None) -> list[Mapping[str, Any]]:
    loaded = load(lab, file)
    record = Record.open(lab.host, loaded.session, "experiment", loaded.name, {})
    try:
        return await run_experiment(
            loaded,
            attempts=Attempts(lab.host),
            runner=Runner(lab.host, lab.supervisor),
            record=record,
            engine=open_engine(None, slots),
            show=show or (lambda row: None),
        )
    finally:
        record.close()


def arms(lab: Lab) -> list[SessionInfo]:
    return [info for info in lab.store.sessions() if info.kind == "arm"]


async def test_every_revision_prompt_task_and_repeat_is_a_cell(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    rows = await go(lab, file)
    places = {(row["agent"], row["prompt"], row["task"], row["repeat"]) for row in rows}
    assert len(rows) == len(places) == 2 * 2 * 2 * 2
    assert {row["output"] for row in rows if row["prompt"] == "loud"} == {"LOUD: First.", "LOUD: Second."}
    assert {(arm.parent, arm.stop) for arm in arms(lab)} == {("x-greetings", "completed")}
    assert sorted(row["session"] for row in rows) == sorted(arm.id for arm in arms(lab))


async def test_the_same_file_runs_nothing_twice(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    rows = await go(lab, file)
    again = await go(lab, file)
    assert again == rows
    assert len(arms(lab)) == len(rows)


async def test_a_new_task_runs_its_own_cells_alone(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    before = {row["cell"] for row in await go(lab, file)}
    file.write_text(file.read_text().replace("repeats: 2", "- {id: three, task: Third.}\nrepeats: 2"))
    rows = await go(lab, file)
    assert {row["task"] for row in rows if row["cell"] not in before} == {"three"}
    assert len(arms(lab)) == len(rows) == 24


def test_other_limits_and_another_model_make_new_cells(tmp_path: Path) -> None:
    """Be the model named nowhere but in the settings: what another one said is no result of this one."""
    lab, file = lab_of(tmp_path)
    usual = [load_experiment(file, lab.store, None, Setting("cast", model)) for model in ("one", "two")]
    named = load_experiment(file, lab.store, Setting("cast", "one"))
    file.write_text(file.read_text() + "limits: {steps: 3}\n")
    limited = load_experiment(file, lab.store, Setting("cast", "one"))
    ids = [{cell.id for cell in one.cells} for one in (*usual, named, limited)]
    assert ids[0] == ids[2]
    assert len(ids[0] | ids[1] | ids[3]) == 3 * len(ids[0])


async def test_a_moved_channel_makes_new_cells(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    before = {row["cell"] for row in await go(lab, file)}
    lab.agent("new", "is newer.")
    rows = await go(lab, file)
    assert {row["agent"] for row in rows if row["cell"] not in before} == {"new"}


async def test_a_prompt_may_bring_a_persona_which_stands_on_record_beside_the_digest(tmp_path: Path) -> None:
    def persona(request: Any) -> str:
        return str(request.system)

    lab, file = lab_of(tmp_path, old=[persona], new=[persona])
    (tmp_path / "personas").mkdir()
    (tmp_path / "personas" / "kind.md").write_text("old but kind.\n")
    file.write_text(
        "schema: artificer/experiment/v1\nname: personas\nrevisions: [old@live]\n"
        "prompts:\n- {id: plain}\n- {id: short, persona: old and short.}\n"
        "- {id: kind, persona_file: personas/kind.md, text: 'Please: {task}'}\ntasks: [{id: one, task: First.}]\n"
    )
    rows = {row["prompt"]: row for row in await go(lab, file)}
    said = {name: row["output"] for name, row in rows.items()}
    assert said == {"plain": "old plays along.", "short": "old and short.", "kind": "old but kind."}
    assert len({row["digest"] for row in rows.values()}) == 1
    started = {name: lab.events(row["session"], "started")[0].data for name, row in rows.items()}
    assert "persona" not in started["plain"]
    for name in ("short", "kind"):
        assert started[name]["persona"]["digest"] == rows[name]["persona"]
    assert rows["plain"]["persona"] is None
    (tmp_path / "personas" / "kind.md").write_text("old but kinder.\n")
    again = {row["prompt"]: row["output"] for row in await go(lab, file)}
    assert again == {**said, "kind": "old but kinder."}
    assert len(arms(lab)) == 4


async def test_each_cell_works_in_its_own_copy_of_the_start(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    rows = await go(lab, file)
    files = [lab.host.workspace_path(row["session"]) / "a.txt" for row in rows if row["task"] == "two"]
    assert {path.read_text() for path in files} == {"hello"}
    assert len(set(files)) == 8


async def test_what_was_cut_short_runs_again_and_what_was_done_does_not(tmp_path: Path) -> None:
    gate, held = Gate(), []

    async def second(request: Any) -> str:
        if "Second." in echo(request) and not held:
            held.append(request.session)
            await gate.wait()
        return echo(request)

    lab, file = lab_of(tmp_path, new=[second])
    running = asyncio.create_task(go(lab, file, slots=1))
    await gate.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    done = {event.data["cell"] for event in lab.events("x-greetings", "cell")}
    (cut,) = [arm for arm in arms(lab) if arm.stop == Stop.CANCELLED]
    assert cut.id == held[0]
    shown: list[Mapping[str, Any]] = []
    rows = await go(lab, file, show=shown.append)
    assert {row["cell"] for row in shown if row.get("recorded")} == done
    assert [row["attempt"] for row in rows].count(2) == 1
    assert len({row["cell"] for row in rows}) == len(lab.events("x-greetings", "cell")) == 16


async def test_a_cell_that_may_have_acted_is_not_run_again(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    cell = load(lab, file).cells[0]
    name = f"{cell.id}-1"
    lab.store.create_session(SessionInfo(name, "arm", agent="old", digest=cell.preset.digest), [("started", {})])
    lab.store.append(name, [("effect_intent", {"call": "c", "url": "https://example.com"})])
    lab.store.append(name, [("stop", {"stop": "cancelled"})], {"stop": "cancelled"})
    rows = await go(lab, file)
    assert (rows[0]["cell"], rows[0]["stop"], rows[0]["detail"]) == (cell.id, "platform_error", "outcome_unknown")
    assert lab.store.session(f"{cell.id}-2") is None


async def test_a_cell_whose_child_may_have_acted_is_not_run_again(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    cell = load(lab, file).cells[0]
    name = f"{cell.id}-1"
    lab.store.create_session(SessionInfo(name, "arm", agent="old", digest=cell.preset.digest), [("started", {})])
    lab.store.create_session(SessionInfo("child", "child", parent=name), [("effect_intent", {"call": "c"})])
    lab.store.append(name, [("child", {"session": "child"}), ("stop", {"stop": "cancelled"})], {"stop": "cancelled"})
    rows = await go(lab, file)
    assert (rows[0]["stop"], rows[0]["detail"]) == ("platform_error", "outcome_unknown")


async def test_a_cell_that_loses_whatever_runs_it_is_given_up(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    loaded = load(lab, file)
    lost: list[str | None] = []

    class Losing(Runner):
        async def run(self, job: Job, **_: Any) -> Ran:
            if job.session is None or job.session.partition("-")[0] != loaded.cells[0].id:
                return await super().run(job)
            lost.append(job.session)
            raise Lost(job.session, "its worker died")

    record = Record.open(lab.host, loaded.session, "experiment", loaded.name, {})
    runner = Losing(lab.host, lab.supervisor)
    engine = open_engine(None, 4)
    rows = await run_experiment(loaded, attempts=Attempts(lab.host), runner=runner, record=record, engine=engine)
    assert len(lost) == 3
    assert (rows[0]["stop"], rows[0]["detail"], rows[0]["output"]) == (
        "platform_error",
        "worker_lost",
        "its worker died",
    )
    assert {row["stop"] for row in rows[1:]} == {"completed"}


async def test_a_result_nobody_recorded_is_recorded_not_run_again(tmp_path: Path) -> None:
    lab, file = lab_of(tmp_path)
    cell = load(lab, file).cells[0]
    runner = Runner(lab.host, lab.supervisor)
    await runner.run(Setting("cast").job(cell.preset, "Said before.", session=f"{cell.id}-1"))
    rows = await go(lab, file)
    assert (rows[0]["cell"], rows[0]["output"], rows[0]["attempt"]) == (cell.id, "Said before.", 1)


def test_a_file_that_grows_while_it_is_handed_over_comes_as_large_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing, target = tmp_path / "from" / "notes", tmp_path / "to"
    growing.parent.mkdir()
    growing.write_text("short")
    real = os.fstat

    def then_larger(handle: int) -> os.stat_result:
        found = real(handle)
        os.truncate(growing, 1 << 20)
        return found

    monkeypatch.setattr(os, "fstat", then_larger)
    lay_out(Start(growing.parent), target)
    assert (target / "notes").read_text() == "short"


def test_a_full_disk_is_no_fault_of_what_a_workspace_begins_with() -> None:
    """The cell keeps no result for it: with room again it runs."""
    with pytest.raises(StoreError) as found:
        lay_out(Start(texts={"full": "there is never room in /dev/full"}), Path("/dev"))
    assert found.value.code == "disk_full"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("old@live", "old@live, old@live"), "stands twice"),
        (("id: loud", "id: plain"), "prompt 'plain' stands twice"),
        (("id: two", "id: one"), "task 'one' stands twice"),
        (("Second., files: {a.txt: hello}", "First."), "or a prompt's or task's text, stands twice"),
        (('text: "LOUD: {task}"', "persona: Loudly., persona_file: greetings.yaml"), "one of the two"),
        (("LOUD: {task}", "LOUD"), "{task}"),
        (("repeats: 2", "repeats: 0"), "repeats"),
        (("repeats: 2", "repeat: 2"), "not known"),
        (("repeats: 2", "repeats: 2\nreplay: nothing"), "no session nothing"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    lab, file = lab_of(tmp_path)
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(BadSuite, match=words):
        load(lab, file)
