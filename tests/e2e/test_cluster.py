"""An experiment on a Dask cluster of two worker processes: the same as here, whatever dies in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core import Attempts, Record, Runner, load_experiment, run_experiment, save_revision
from impl.compose import build_host
from impl.engines.dask.engine import DaskEngine
from tests.harness.cluster import Cluster, Worker, held, tide, until
from tests.harness.commands import Running, artificer, expecting
from tests.harness.home import INPUTS
from tests.harness.wheels import make_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

FILE = """\
schema: artificer/experiment/v1
name: watches
revisions: [harbour-keeper@latest]
sandbox: process
tasks:
{tasks}
repeats: {repeats}
"""
PIER, MOLE, SHIP = "watch post=pier", "watch post=mole", "signal ship=vega"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def workers(cluster: Cluster) -> list[Worker]:
    return cluster.workers(2)


@pytest.fixture
def keeper(home: Path) -> Path:
    """A home with the keeper in it."""
    host = build_host()
    saved = save_revision(host.store, INPUTS / "lab" / "keeper", by="person", message="for a test", now=host.now)
    host.store.close()
    assert saved.revision is not None, saved.problems
    return home


def experiment(path: Path, *tasks: str, repeats: int = 1) -> Path:
    lines = [f"- {{id: t{number}, task: {task}, files: {{a.txt: given}}}}" for number, task in enumerate(tasks)]
    path.write_text(FILE.format(tasks="\n".join(lines), repeats=repeats))
    return path


def plain(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of an experiment by cell, without what differs from run to run."""
    rows = [line for line in lines if line["type"] == "cell"]
    assert len({row["cell"] for row in rows}) == len(rows)
    own = ("session", "attempt", "duration_s", "recorded")
    return {row["cell"]: {name: value for name, value in row.items() if name not in own} for row in rows}


def stored(session: str, *kinds: str) -> list[Any]:
    """The bodies of a session's events of some kinds."""
    host = build_host()
    found = [dict(event.data) for event in host.store.events(session, kinds=kinds or None)]
    host.store.close()
    return found


def notices() -> list[str]:
    return [data["text"] for data in stored("x-watches", "notice")]


def recorded() -> Counter[str]:
    """How often each cell has a result on record."""
    return Counter(data["cell"] for data in stored("x-watches", "cell"))


def turn(places: list[Path]) -> None:
    for place in places:
        (place / "turned").touch()


def told(session: str) -> list[tuple[str, str]]:
    """A session's events without ids and times."""
    host = build_host()
    events = list(host.store.events(session))
    host.store.close()
    calls = [event.data["call"] for event in events if event.kind == "tool_call"]
    words = []
    for event in events:
        data = {k: v for k, v in event.data.items() if k not in ("driven_s", "duration_s")}
        text = json.dumps(data, sort_keys=True)
        for call in calls:
            text = text.replace(call, "call")
        words.append((event.kind, text))
    return words


def told_of_all(session: str) -> list[tuple[str, str]]:
    """What a session's events tell, and its children's, without what ids and lineage make of them."""
    own = told(session)
    children = [data["session"] for data in stored(session, "child")]
    found = [pair for one in (own, *map(told_of_all, children)) for pair in one]
    for name in (session, *children):
        found = [(kind, text.replace(name, "session")) for kind, text in found]
    varies = re.compile(r'"parent": "x-\w+"|\\*"duration_s\\*": [0-9.]+')
    return [(kind, varies.sub("", text)) for kind, text in found]


def test_it_is_the_same_here_and_there_though_a_worker_is_killed(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = experiment(tmp_path / "x.yaml", PIER, MOLE, repeats=4)
    monkeypatch.setenv("ARTIFICER_HOME", str(tmp_path / "here"))
    host = build_host()
    save_revision(host.store, INPUTS / "lab" / "keeper", by="person", message="for a test", now=host.now)
    host.store.close()
    with tide(tmp_path / "here"):
        here = expecting(0, "experiment", file).lines
    sessions = {line["cell"]: told(line["session"]) for line in here[:-1]}
    monkeypatch.setenv("ARTIFICER_HOME", str(keeper))
    with Running("experiment", file, "--engine", cluster.url) as running:
        until(lambda: all(len(worker.watching()) == 2 for worker in workers), "both workers hold two cells")
        workers[0].kill()
        with tide(workers[1].home):
            there = running.end()
    assert there.code == 0
    assert plain(there.lines) == plain(here)
    assert set(recorded().values()) == {1}
    assert sum(line["attempt"] == 2 for line in there.lines[:-1]) == 2
    assert sum("is lost" in text for text in notices()) == 2
    for line in there.lines[:-1]:
        assert told(line["session"]) == sessions[line["cell"]]
        assert (keeper / "workspaces" / line["session"] / "work" / "a.txt").read_text() == "given"
    assert there.lines[-1]["stops"] == here[-1]["stops"] == {"completed": 8}


def test_a_cell_that_may_have_acted_is_not_run_again_when_its_worker_dies(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path
) -> None:
    file = experiment(tmp_path / "x.yaml", SHIP)
    with Running("experiment", file, "--engine", cluster.url) as running:
        until(lambda: any(worker.watching() for worker in workers), "it is held")
        (busy,) = [worker for worker in workers if worker.watching()]
        busy.kill()
        with tide(*(worker.home for worker in workers)):
            lines = running.end().lines
    (row,) = lines[:-1]
    assert (row["stop"], row["detail"], row["attempt"]) == ("platform_error", "outcome_unknown", 1)
    assert len(stored(row["session"], "effect_intent")) == 1
    assert stored(row["session"].replace("-1", "-2")) == []


def test_an_interrupt_ends_it_there_too_and_the_same_file_goes_on(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path
) -> None:
    file = experiment(tmp_path / "x.yaml", PIER, MOLE, repeats=2)
    with Running("experiment", file, "--engine", cluster.url) as running:
        until(lambda: all(len(worker.watching()) == 2 for worker in workers), "all four are held")
        (held(workers[0].home)[0].parent / "turned").touch()
        running.until(lambda line: line["type"] == "cell")
        running.send(signal.SIGINT)
        running.process.wait(2)  # a second of ours, and one for a busy machine
        until(lambda: not any(worker.watching() for worker in workers), "nothing is left there")
        assert running.process.returncode == 130
    kinds = Counter((row["kind"], row["stop"]) for row in expecting(0, "sessions").value)
    assert kinds == {("experiment", "cancelled"): 1, ("arm", "completed"): 1, ("arm", "cancelled"): 3}
    with tide(*(worker.home for worker in workers)):
        lines = expecting(0, "experiment", file, "--engine", cluster.url).lines
    assert lines[-1]["stops"] == {"completed": 4}
    assert [line.get("recorded", False) for line in lines[:-1]].count(True) == 1
    assert set(recorded().values()) == {1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_ended_or_hung_up_settles_it_too(keeper: Path, tmp_path: Path, number: signal.Signals) -> None:
    with Running("experiment", experiment(tmp_path / "x.yaml", PIER)) as running:
        until(lambda: held(keeper), "it is held")
        running.send(number)
        ended = running.end()
        assert (ended.code, ended.error["code"]) == (130, "interrupted")
    kinds = {(row["kind"], row["stop"]) for row in expecting(0, "sessions").value}
    assert kinds == {("experiment", "cancelled"), ("arm", "cancelled")}


def test_one_cell_is_interrupted_by_its_session(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path
) -> None:
    file = experiment(tmp_path / "x.yaml", PIER)
    with Running("experiment", file, "--engine", cluster.url) as running:
        until(lambda: any(worker.watching() for worker in workers), "it is held")
        (session,) = [row["id"] for row in expecting(0, "sessions").value if row["kind"] == "arm"]
        assert expecting(0, "interrupt", session).value["stop"] in (None, "cancelled")
        (row, last) = running.end().lines
    assert (row["session"], row["stop"], last["stops"]) == (session, "cancelled", {"cancelled": 1})


@pytest.mark.parametrize("there", [False, True], ids=["here", "there"])
def test_whoever_gave_it_out_is_killed_and_another_goes_on(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path, there: bool
) -> None:
    words = ["experiment", experiment(tmp_path / "x.yaml", PIER, SHIP), *(["--engine", cluster.url] if there else [])]
    homes = [worker.home for worker in workers] if there else [keeper]
    with Running(*words) as running:
        until(lambda: sum(len(held(home)) for home in homes) == 2, "both are held")
        running.kill()
    with tide(*homes):
        pier, ship, _last = expecting(1, *words).lines
    by_task = {row["task"]: (row["stop"], row["detail"], row["attempt"]) for row in (pier, ship)}
    assert by_task == {"t0": ("completed", None, 2), "t1": ("platform_error", "outcome_unknown", 1)}
    assert set(recorded().values()) == {1}


async def test_what_a_lost_worker_says_late_is_refused_and_noted(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path
) -> None:
    host = build_host()
    file = experiment(tmp_path / "x.yaml", PIER, MOLE, repeats=2)
    loaded = load_experiment(file, host.store)
    record = Record.open(host, loaded.session, "experiment", loaded.name, {})
    engine = DaskEngine(cluster.url.removeprefix("dask://"), None, patience_s=2.0)

    async def go() -> list[Any]:
        async with engine.opened(host, Runner(host)) as runner:
            return list(
                await run_experiment(loaded, attempts=Attempts(host), runner=runner, record=record, engine=engine)
            )

    async def told(words: str) -> None:
        await asyncio.to_thread(until, lambda: sum(words in text for text in notices()) == 2, words)

    hangs, lives = workers
    running = asyncio.create_task(go())
    await asyncio.to_thread(until, lambda: all(len(w.watching()) == 2 for w in workers), "all four are held")
    hangs.signal(signal.SIGSTOP)
    turn(hangs.watching())
    await told("has not been heard for 2 s")
    turn(lives.watching())
    await asyncio.to_thread(until, lambda: len(lives.watching()) == 2, "the others have both again")
    hangs.signal(signal.SIGCONT)
    await told("after it was lost is refused")
    turn(lives.watching())
    rows = await running
    record.close()
    host.store.close()
    assert [row["stop"] for row in rows] == ["completed"] * 4
    assert sorted(row["attempt"] for row in rows) == [1, 1, 2, 2]
    assert set(recorded().values()) == {1}
    assert {stored(row["session"].replace("-2", "-1"), "stop")[0]["stop"] for row in rows if row["attempt"] == 2} == {
        "cancelled"
    }


@pytest.mark.parametrize("there", [False, True], ids=["here", "there"])
def test_it_is_told_in_the_same_lines(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path, there: bool
) -> None:
    file = experiment(tmp_path / "x.yaml", PIER, MOLE)
    words = ["experiment", file, *(["--engine", cluster.url] if there else [])]
    with tide(keeper, *(worker.home for worker in workers)):
        first, again = artificer(*words, json=False), artificer(*words, json=False)
    cells = [f"harbour-keeper@latest · plain · {task} · 1: completed" for task in ("t0", "t1")]
    assert sorted(line.partition("  ")[0] for line in first.err.splitlines()) == ["1/2", "2/2"]
    assert sorted(line.partition("  ")[2] for line in first.err.splitlines()) == cells
    assert again.err.splitlines() == [f"{n}/2  {cell} (on record)" for n, cell in enumerate(cells, 1)]
    assert first.out == again.out
    assert "The tide turned at the pier." in first.out


def test_children_and_replays_are_there_what_they_are_here(
    cluster: Cluster, workers: list[Worker], docs: str, tmp_path: Path
) -> None:
    lead = tmp_path / "lead"
    lead.mkdir()
    (lead / "agent.yaml").write_text(f"schema: artificer/v1\nname: lead\ndelegates: {{presets: [{docs}@live]}}\n")
    (lead / "persona.md").write_text("You lead.\n")
    expecting(0, "save", lead)
    expecting(0, "save", INPUTS / "lab" / "keeper")
    with tide(build_host().home):
        words = ["run", "harbour-keeper@latest", SHIP, "--sandbox", "process"]
        replayed = expecting(0, *words).result["session"]
    task = json.dumps({"tool": "agent", "args": {"preset": f"{docs}@live", "task": "How is a harbour described?"}})
    rows = {}
    for name, more in (("here", []), ("there", ["--engine", cluster.url])):
        file = experiment(tmp_path / f"{name}.yaml", json.dumps(task), SHIP)
        text = file.read_text().replace("[harbour-keeper@latest]", "[lead@latest, harbour-keeper@latest]")
        file.write_text(text.replace("watches", name) + f"replay: {replayed}\n")
        with tide(build_host().home, *(worker.home for worker in workers)):
            lines = expecting(0, "experiment", file, *more).lines[:-1]
        rows[name] = [told_of_all(row["session"]) for row in sorted(lines, key=lambda r: (r["agent"], r["task"]))]
    assert rows["there"] == rows["here"]
    assert any("datum" in text for _, text in rows["there"][2])
    assert sum(kind == "effect" for row in rows["there"] for kind, _ in row) == 1


def test_a_cluster_without_workers_says_how_to_start_one(
    keeper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("impl.engines.dask.engine.CONNECT_S", 1.0)
    (tmp_path / "alone").mkdir()
    with Cluster(tmp_path / "alone") as alone:
        ran = artificer("experiment", experiment(tmp_path / "x.yaml", PIER), "--engine", alone.url)
    assert (ran.code, ran.error["code"]) == (1, "no_workers")
    assert "dask worker" in ran.error["hint"]
    assert expecting(0, "sessions").value == []


def test_a_case_whose_worker_dies_is_run_again_in_a_session_of_its_own(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "suite.yaml").write_text(f"schema: artificer/suite/v1\nname: posts\ncases: [{{id: pier, task: {PIER}}}]\n")
    with Running("eval", suite, "harbour-keeper", "--sandbox", "process", "--engine", cluster.url) as running:
        until(lambda: any(worker.watching() for worker in workers), "it is held")
        next(worker for worker in workers if worker.watching()).kill()
        with tide(*(worker.home for worker in workers)):
            row, last = running.end().lines
    assert (row["passed"], last["failed"]) == (True, [])
    stops = {one["id"]: one["stop"] for one in expecting(0, "sessions").value if one["kind"] == "case"}
    assert sorted(stops.values()) == ["cancelled", "completed"]
    assert stops[row["session"]] == "completed"


def test_a_credential_is_the_workers_own_or_has_no_value(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value here is not even asked for; a worker has one where somebody gave it one there."""
    teller = shutil.copytree(INPUTS / "lab" / "keeper", tmp_path / "teller")
    manifest = (teller / "agent.yaml").read_text().replace("harbour-keeper", "teller")
    (teller / "agent.yaml").write_text(
        manifest + "credentials:\n- {name: key, hosts: [signals.invalid], header: Authorization}\n"
    )
    tool = teller / "tools" / "signal"
    (tool / "tool.yaml").write_text((tool / "tool.yaml").read_text() + "credentials: [key]\n")
    (tool / "tool.py").write_text((tool / "tool.py").read_text().replace("json=", 'credential="key", json='))
    expecting(0, "save", teller)
    monkeypatch.setattr("impl.secrets.kept.find_keyring", lambda: None)  # the file, whatever keyring there is
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", "a passphrase of the test's")
    monkeypatch.setattr("sys.stdin", io.StringIO("canary-value-0123456789\n"))
    expecting(0, "credentials", "set", "teller", "key")
    file = experiment(tmp_path / "x.yaml", SHIP)
    file.write_text(file.read_text().replace("harbour-keeper", "teller"))
    (row, _) = expecting(0, "experiment", file, "--engine", cluster.url).lines
    assert (row["stop"], row["waiting"]["names"]) == ("needs_credentials", ["key"])
    for worker in workers:
        for folder, _, names in os.walk(worker.home):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # the cell is being taken away
                    assert b"canary-value" not in Path(folder, name).read_bytes()


def test_what_tools_need_is_installed_where_they_run(keeper: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "tide_tables", "1.2", {"tide_tables.py": "HIGH = 4\n"})
    reader = tmp_path / "reader"
    (reader / "tools" / "high").mkdir(parents=True)
    (reader / "agent.yaml").write_text("schema: artificer/v1\nname: reader\ntools: [high]\n")
    (reader / "persona.md").write_text("You read tables.\n")
    tool = "name: high\ndescription: High water.\nrequirements: [tide_tables==1.2]\ninput_schema: {type: object}\n"
    (reader / "tools" / "high" / "tool.yaml").write_text(tool)
    code = "def run(ctx, input):\n    import tide_tables\n    return tide_tables.HIGH\n"
    (reader / "tools" / "high" / "tool.py").write_text(code)
    expecting(0, "save", reader)
    file = experiment(tmp_path / "x.yaml", "high")
    file.write_text(file.read_text().replace("harbour-keeper", "reader"))
    (tmp_path / "cluster").mkdir()
    with Cluster(tmp_path / "cluster", ARTIFICER_PACKAGE_INDEX=str(tmp_path / "wheels")) as cluster:
        cluster.workers(1)
        (row, _) = expecting(0, "experiment", file, "--engine", cluster.url).lines
    assert (row["stop"], "4" in row["output"]) == ("completed", True)


def test_an_evaluation_is_judged_by_what_was_done_there(
    cluster: Cluster, workers: list[Worker], keeper: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "suite"
    (suite / "cases").mkdir(parents=True)
    (suite / "suite.yaml").write_text("schema: artificer/suite/v1\nname: posts\ncase_files: [cases/all.yaml]\n")
    checks = "checks: [contains: 'turned at the {post}', file: {{path: d/a.txt, equals: given}}]"
    case = "- {{id: {post}, task: watch post={post}, files: {{d/a.txt: given}}, " + checks + "}}\n"
    (suite / "cases" / "all.yaml").write_text(
        case.format(post="pier") + case.format(post="mole").replace("given}, ", "other}, ")
    )
    words = ["eval", suite, "harbour-keeper", "--sandbox", "process", "--engine", cluster.url]
    with tide(*(worker.home for worker in workers)):
        last = expecting(1, *words).lines[-1]
    assert (last["passed"], last["failed"]) == (1, ["mole"])
    with tide(keeper):
        assert expecting(1, *words[:-2]).lines[-1]["failed"] == ["mole"]
