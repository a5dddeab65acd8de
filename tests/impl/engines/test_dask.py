"""What a cluster rests on: words for what is missing, specs that hold no secret, rows that are checked, one line."""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core import EngineError, Host, Job, Runner, SessionInfo, Setting, Start, resolve_preset
from impl.engines import open_engine
from impl.engines.dask import engine
from impl.engines.dask.line import LineLost, Refused
from impl.engines.dask.mirror import Heard
from impl.engines.dask.rows import NotItsRow, Outcome, store_row
from impl.engines.dask.specs import Packer, job_of, needed
from impl.engines.dask.worker import sweep_cells
from impl.engines.dask.workspaces import take_row
from tests.harness.laboratory import Lab
from tests.harness.queues import Ends

# --- what is missing ---------------------------------------------------------------------------------------


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match="not installed") as found:
        open_engine("dask://127.0.0.1:8786")
    assert found.value.code == "not_installed"
    assert "artificer[cluster]" in found.value.hint


@pytest.mark.parametrize("url", ["dask://", "dask://host", "dask://me@host:1", "dask://a b:1", "dask://host:1/x"])
def test_an_address_that_is_none_is_said_before_anything_is_tried(url: str) -> None:
    with pytest.raises(EngineError) as found:
        open_engine(url)
    assert found.value.code == "bad_address"


async def test_a_scheduler_that_does_not_answer_is_said_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setattr(engine, "CONNECT_S", 0.2)
    lab = Lab(tmp_path, {})
    with pytest.raises(EngineError, match=f"127.0.0.1:{unused_tcp_port}") as found:
        async with open_engine(f"dask://127.0.0.1:{unused_tcp_port}").opened(lab.host, Runner(lab.host)):
            pass
    assert found.value.code == "unreachable"
    assert "dask scheduler" in found.value.hint


def test_nothing_of_it_is_loaded_before_it_is_used() -> None:
    names = ("local", "dask.engine", "dask.leases", "dask.worker")
    modules = ", ".join([*(f"impl.engines.{name}" for name in names), "tui.commands.lab"])
    words = f"import sys, {modules}; print('distributed' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- specs -------------------------------------------------------------------------------------------------


def job(lab: Lab, agent: str, **more: Any) -> Job:
    return Setting("cast").job(resolve_preset(lab.store, agent), "Go.", session="s1", **more)


def test_a_spec_says_the_job_and_names_all_it_needs(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {})
    lab.agent("helper", files={"corpus/a.md": "harbour"})
    lab.agent("lead", delegates=["helper", "nobody"])
    (tmp_path / "start" / "empty").mkdir(parents=True)
    (tmp_path / "start" / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "start" / "run.sh").chmod(0o755)
    start = Start(tmp_path / "start", None, {"d/a.txt": "hello"})
    given = job(lab, "lead", start=start, answers=("1",), persona="You are another.")
    (tmp_path / "scratch").mkdir()
    packer = Packer(lab.host, tmp_path / "scratch")
    spec = json.loads(json.dumps(packer.pack(given)))
    assert job_of(spec) == Job(**{**_fields(given), "start": Start(), "provider": "cast"})
    assert [row["agent"] for row in spec["revisions"]] == ["lead", "helper"]
    assert [channel[:2] for channel in spec["channels"]] == [["helper", "live"], ["lead", "live"]]
    assert spec["start"]["directories"] == ["d", "empty"]
    assert {file["path"]: file["x"] for file in spec["start"]["files"]} == {"run.sh": True, "d/a.txt": False}
    assert {b"harbour", b"hello", b"#!/bin/sh\n"} <= {packer.content(name) for name in needed(spec)}


def test_every_field_of_a_job_goes_with_it_or_keeps_it_here(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {})
    lab.agent("lead")
    spec = Packer(lab.host, tmp_path).pack(job(lab, "lead"))
    assert spec["job"].keys() | {"start", "inherited", "build"} == Job.__dataclass_fields__.keys()


def _fields(given: Job) -> dict[str, Any]:
    return {name: getattr(given, name) for name in given.__dataclass_fields__}


def test_no_value_of_a_credential_is_in_a_spec_or_behind_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {})
    credential = {"name": "key", "hosts": ["api.example.com"], "header": "Authorization"}
    lab.agent("teller", credentials=[credential])
    kept = SimpleNamespace(take=lambda *_: pytest.fail("asked for a value"), has=lambda *_: True)
    lab.host.secrets = kept  # type: ignore[assignment]
    packer = Packer(lab.host, tmp_path)
    spec = packer.pack(job(lab, "teller"))
    assert b"api.example.com" in b"".join(packer.content(name) for name in needed(spec))


# --- rows --------------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Lab(tmp_path, {}).host


def cell(host: Host, session: str = "mine") -> Any:
    row = {"create": {"id": session, "kind": "arm"}, "events": [["started", {"kind": "arm"}]]}
    its = SimpleNamespace(job=SimpleNamespace(session=session), sessions=set())
    store_row(host, its, row, b"")
    return its


def test_rows_of_a_cell_become_its_session(host: Host) -> None:
    its = cell(host)
    child = {"id": "child", "kind": "child", "parent": "mine"}
    assert store_row(host, its, {"create": child, "events": []}, b"") is None
    columns = {"stop": "completed", "ended": "1970-01-01T00:00:00Z"}
    store_row(host, its, {"append": "mine", "events": [["stop", {"stop": "completed"}]], "columns": columns}, b"")
    store_row(host, its, {"file": ["mine", "d/a.sh", True, 0]}, b"hello")
    known = host.store.session("mine")
    assert known is not None
    assert (known.stop, known.status, its.sessions) == ("completed", "stopped", {"mine", "child"})
    assert known.ended is not None
    assert known.ended > "2020"  # by the clock here
    written = host.workspace_path("mine") / "d" / "a.sh"
    assert (written.read_text(), written.stat().st_mode & 0o111) == ("hello", 0o111)
    assert store_row(host, its, {"done": {"duration_s": 1.5}}, b"") == Outcome(1.5)


@pytest.mark.parametrize(
    "row",
    [
        {"create": {"id": "other", "kind": "arm"}, "events": []},
        {"create": {"id": "other", "kind": "child", "parent": "theirs"}, "events": []},
        {"create": {"id": "../../../outside", "kind": "child", "parent": "mine"}, "events": []},
        {"create": {"id": "/outside", "kind": "child", "parent": "mine"}, "events": []},
        {"append": "theirs", "events": [["message", {}]], "columns": {}},
        {"file": ["theirs", "a", False, 0]},
        {"blob": "0" * 64},
        {"publish": "agent"},
    ],
)
def test_a_row_that_is_not_its_cells_is_refused(host: Host, row: dict[str, Any]) -> None:
    host.store.create_session(SessionInfo("theirs", "arm"), [])
    with pytest.raises(NotItsRow):
        store_row(host, cell(host), row, b"x")


@pytest.mark.parametrize("path", ["../out", "/out", "a/../../out", "", "link/out", "./out"])
def test_what_comes_back_never_leaves_its_workspace(tmp_path: Path, path: str) -> None:
    work = tmp_path / "home" / "work"
    work.mkdir(parents=True)
    take_row({"link": ["s", "link", str(tmp_path)]}, b"", work) if path.startswith("link") else None
    before = sorted(tmp_path.rglob("*"))
    with suppress(OSError):
        take_row({"file": ["s", path, False, 0]}, b"out", work)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "row",
    [
        {"link": ["s", "alone", "/etc/passwd"]},
        {"link": ["s", "empty", ""]},
        {"file": ["s", "n" * 300, False, 0]},
        {"directory": ["s", "d/" * 2000 + "d"]},
    ],
)
def test_no_name_an_agent_chose_ends_more_than_its_file(tmp_path: Path, row: dict[str, Any]) -> None:
    """A workspace that holds a link and nothing else is one; what cannot be written is left out."""
    take_row(row, b"", tmp_path / "work")
    take_row({"file": ["s", "next", False, 0]}, b"x", tmp_path / "work")
    assert (tmp_path / "work" / "next").read_bytes() == b"x"
    assert (tmp_path / "work" / "alone").is_symlink() is ("alone" in str(row))


# --- the line ----------------------------------------------------------------------------------------------


async def test_nothing_is_sent_to_the_world_before_its_intent_is_stored_elsewhere() -> None:
    ends, performed = Ends(), []

    async def perform(*_: Any) -> Any:
        performed.append(1)

    async with ends.line as line:
        transport: Any = Heard(SimpleNamespace(perform=perform), line.heard)  # type: ignore[arg-type]
        line.say({"append": "s", "events": [["effect_intent", {}]], "columns": {}})
        asking = asyncio.create_task(transport.perform(None, None, {}))
        (row,) = await ends.said()
        assert "effect_intent" in row
        await asyncio.sleep(0.01)
        assert not performed
        await ends.ack()
        await asking
    assert performed == [1]


async def test_a_line_that_nobody_answers_is_lost_and_its_cell_must_stop() -> None:
    ends = Ends(patience_s=0.05)
    async with ends.line as line:
        line.say({"append": "s"})
        with pytest.raises(LineLost, match="no word"):
            await line.heard()
        assert line.stop.is_set()


async def test_who_is_refused_runs_nothing() -> None:
    ends = Ends()
    async with ends.line as line:
        await ends.back.put({"refused": "another has it"})
        with pytest.raises(Refused, match="another has it"):
            await line.granted({"begin": {}})


async def test_what_goes_together_keeps_its_order_and_bytes_come_last() -> None:
    ends = Ends()
    async with ends.line as line:
        for number in range(5):
            line.say({"row": number}, b"bytes" if number == 2 else b"")
        first, then = await ends.out.get(), await ends.out.get()
    assert [json.loads(row)["row"] for row in (*first["rows"], *then["rows"])] == [0, 1, 2, 3, 4]
    assert (len(first["rows"]), first["data"], then["data"]) == (3, b"bytes", b"")


# --- what workers leave ------------------------------------------------------------------------------------


def test_cells_of_dead_workers_are_removed_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    cells = tmp_path / "cells"
    for name in ("dead", "lives"):
        (cells / name / "lease").mkdir(parents=True)
        (cells / f"{name}.lock").touch()
    with (cells / "lives.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sweep_cells(tmp_path)
        assert sorted(path.name for path in cells.iterdir()) == ["lives", "lives.lock"]
    sweep_cells(tmp_path)
    assert list(cells.iterdir()) == []
