"""Commands of the lab: compare, eval, label, experiment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import core
from tui.commands import output
from tui.commands.hosting import build_host
from tui.commands.sessions import Json, LimitWords, ModelName, ProviderName, SandboxName, find, limits

if TYPE_CHECKING:
    from core import Host, Judged, Preset, Record, Runner, Setting

T = TypeVar("T")
Replay = Annotated[str | None, typer.Option("--replay", help="Answer effects from this session's record alone.")]
Parallel = Annotated[int | None, typer.Option("--parallel", min=1, max=256, help="How many run at once.")]
Start = Annotated[Path | None, typer.Option("--files", help="A folder each workspace begins with a copy of.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (compare, experiment, label):
        app.command()(command)
    app.command("eval")(evaluate)


# --- compare -------------------------------------------------------------------------------------------


def compare(
    baseline: Annotated[str, typer.Argument(metavar="AGENT@A")],
    candidate: Annotated[str, typer.Argument(metavar="AGENT@B")],
    task: Annotated[str, typer.Argument(metavar="TASK")],
    provider: ProviderName = None,
    model: ModelName = None,
    sandbox: SandboxName = None,
    limit: LimitWords = None,
    replay: Replay = None,
    files: Start = None,
    as_json: Json = False,
) -> int:
    """Run one task on two revisions side by side: evidence, not a judgement."""
    from core import Record
    from core import Start as Beginning
    from core import compare as run_both

    host = build_host()
    setting = _setting(host, provider, model, sandbox)
    presets = [_preset(host, name) for name in (baseline, candidate)]
    spend, recorded = limits(limit), find(host, replay).id if replay else None
    arms = [preset.id for preset in presets]
    record = Record.open(host, host.new_id(), "comparison", task, {"task": task, "replay": recorded, "arms": arms})
    common: dict[str, Any] = {
        "parent": record.session,
        "limits": spend,
        "replay": recorded,
        "network": recorded is None,
        "start": Beginning(files.resolve() if files else None),
    }
    jobs = [setting.job(preset, task, **common) for preset in presets]
    _unlock(host, presets)
    with _recording(record, lambda pair: f"{_short(pair['baseline'])} · {_short(pair['candidate'])}") as ended:
        pair = _driving(host, lambda runner: run_both(task, jobs, runner, record))
        ended.append(pair)
    if as_json:
        output.line(pair)
    else:
        for arm in ("baseline", "candidate"):
            output.text(f"{arm}: {_arm(pair[arm])}\n{pair[arm]['output'] or ''}\n")
    return 0


def _short(arm: Mapping[str, Any]) -> str:
    return f"{arm['preset']}: {arm['stop']}"


def _arm(arm: Mapping[str, Any]) -> str:
    usd = arm["cost"]["usd"]
    words = [arm["preset"], output.short(arm["digest"]), arm["stop"], f"{arm['duration_s']:.1f} s"]
    return " · ".join([*words, f"${usd}" if usd is not None else "cost unknown", arm["session"]])


# --- eval ----------------------------------------------------------------------------------------------


def evaluate(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A folder with suite.yaml.")],
    agent: Annotated[str, typer.Argument(metavar="AGENT[@D]")],
    provider: ProviderName = None,
    model: ModelName = None,
    sandbox: SandboxName = None,
    parallel: Parallel = None,
    only: Annotated[list[str] | None, typer.Option("--case", help="Only this case; may be repeated.")] = None,
    as_json: Json = False,
) -> int:
    """Run a suite's cases on an agent and judge each by its checks; 0 only when every case passed."""
    from core import Reading, Record, totals
    from core import evaluate as judge_all
    from impl.engines import open_engine

    host = build_host()
    with _reading(suite):
        from core import load_suite

        loaded = load_suite(suite)
    setting, preset = _setting(host, provider, model, sandbox), _preset(host, agent)
    cases = [case for case in loaded.cases if not only or case.id in only]
    if unknown := sorted(set(only or ()) - {case.id for case in cases}):
        raise output.Refused("not_found", f"{loaded.name} has no case {', '.join(unknown)}.", f"They are in {suite}.")
    about = {"suite": loaded.to_json(), "agent": preset.agent, "digest": preset.digest, "cases": [c.id for c in cases]}
    title = f"{loaded.name}: {preset.id}"
    columns = {"agent": preset.agent, "digest": preset.digest, "channel": preset.channel}
    record = Record.open(host, host.new_id(), "evaluation", title, about, **columns)
    with _recording(record, lambda done: _score(totals(done))) as ended:
        done = _driving(
            host,
            lambda runner: judge_all(
                loaded,
                preset,
                runner=runner,
                reading=Reading(host),
                record=record,
                engine=open_engine(None, parallel or 4),
                setting=setting,
                cases=cases,
                show=lambda judged: _show_case(judged, as_json),
            ),
        )
        ended.append(done)
    found = totals(done)
    last = {"type": "eval", "eval": record.session, "suite": loaded.to_json(), "agent": preset.agent}
    if as_json:
        output.line({**last, "digest": preset.digest, **found})
    else:
        output.text(f"{record.session}  {loaded.name} on {agent}: {_score(found)}")
    return 0 if not found["failed"] else 1


def _score(found: Mapping[str, Any]) -> str:
    return f"{found['passed']} of {found['cases']} passed"


def _show_case(judged: Judged, as_json: bool) -> None:
    row = judged.to_json()
    if as_json:
        output.line(row)
        return
    if judged.passed:
        output.progress(f"  ✓ {judged.case.id}")
        return
    output.text(f"✗ {judged.case.id}  {row['session'] or '-'}  {judged.why}".rstrip())
    for verdict in judged.verdicts:
        if not verdict.passed:
            output.text(f"    {verdict.check.label}\n      {verdict.why}")


# --- label ---------------------------------------------------------------------------------------------


def label(
    evaluation: Annotated[str, typer.Argument(metavar="EVAL")],
    case: Annotated[
        str | None, typer.Option("--case", help="The case to label; without it, one after another.")
    ] = None,
    verdict: Annotated[str | None, typer.Option("--verdict", help="pass, fail or unsure.")] = None,
    note: Annotated[str, typer.Option("-m", "--note", help="Why.")] = "",
    by: Annotated[str, typer.Option("--by", help="Who says so.")] = "person",
    as_json: Json = False,
) -> int:
    """Say of an evaluation's cases whether they are good; how far the checks agree is printed."""
    from core import LABEL_WORDS, Record, agreement, labels_now

    host = build_host()
    info = find(host, evaluation)
    if info.kind != "evaluation":
        raise output.Refused("not_found", f"{info.id} is no evaluation.", "List them with: artificer sessions")
    if (case is None) != (verdict is None) or (verdict is not None and verdict not in LABEL_WORDS):
        raise typer.BadParameter("give --case ID and --verdict pass|fail|unsure together, or neither")
    try:
        record = Record.append_to(host, info.id)
    except core.Busy as busy:
        raise output.Refused("busy", f"Another process writes {info.id}.", "Try again when it is done.") from busy
    with contextlib.closing(record):
        given = [(case, verdict, note)] if case is not None and verdict is not None else _asked(record, by)
        for name, word, why in given:
            _label(record, name, word, why, by)
        found = agreement(record.rows("case"), record.rows("label"))
        rows = labels_now(record.rows("label"))
    if as_json:
        output.line({"type": "labels", "eval": info.id, "labels": [dict(row) for row in rows], "agreement": found})
    else:
        rate = "none yet" if found["rate"] is None else f"{found['same']} of {found['labels']}"
        output.text(f"{info.id}: checks and labels agree on {rate}. {', '.join(found['differ'])}".rstrip())
    return 0


def _label(record: Record, case: str, word: str, note: str, by: str) -> None:
    from core import LABEL_WORDS, Label, UnknownCase, add_label

    verdict = next((known for known in LABEL_WORDS if known == word), None)
    if verdict is None:
        raise output.Refused("usage", f"{word!r} is no verdict.", f"Say one of {', '.join(LABEL_WORDS)}.")
    try:
        add_label(record, Label(case, verdict, note, by))
    except UnknownCase as error:
        raise output.Refused("not_found", str(error.args[0]), "") from error


def _asked(record: Record, by: str) -> Iterator[tuple[str, str, str]]:
    """From a terminal, one case after another; else JSON lines `{"case", "verdict", "note"}` from standard input."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                yield str(row["case"]), str(row["verdict"]), str(row.get("note", ""))
            except (ValueError, KeyError, TypeError) as error:
                hint = 'Lines are {"case": ID, "verdict": "pass", "note": TEXT}.'
                raise output.Refused("usage", f"This line is no label: {line.strip()[:100]}", hint) from error
        return
    labelled = {row.get("case") for row in record.rows("label") if row.get("by") == by}
    words = {"p": "pass", "f": "fail", "u": "unsure"}
    for row in record.rows("case"):
        if row.get("id") in labelled:
            continue
        output.say(f"\n{row.get('id')}  {row.get('session')}\n{row.get('output') or row.get('why')}")
        key = typer.prompt("p pass, f fail, u unsure, s skip, q end", default="s", err=True).strip().lower()[:1]
        if key == "q":
            return
        if key in words:
            yield str(row.get("id")), words[key], typer.prompt("note", default="", show_default=False, err=True)


# --- experiment ----------------------------------------------------------------------------------------


def experiment(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A YAML file: revisions, prompts, tasks, repeats.")],
    provider: ProviderName = None,
    model: ModelName = None,
    sandbox: SandboxName = None,
    engine: Annotated[str | None, typer.Option("--engine", metavar="URL", help="Where cells run.")] = None,
    parallel: Parallel = None,
    as_json: Json = False,
) -> int:
    """Run every cell of an experiment; run again, it goes on with those that have no result yet."""
    from core import Record
    from impl.engines import NoEngine, open_engine

    host = build_host()
    given = _setting(host, provider, model, sandbox, default=False)
    with _reading(file):
        from core import Attempts, load_experiment, run_experiment

        loaded = load_experiment(file, host.store, given)
    _check(host, loaded.setting)
    try:
        slots = open_engine(engine, parallel or loaded.parallel)
    except NoEngine as error:
        raise output.Refused("not_found", str(error.args[0]), "Leave --engine out to run here.") from error
    try:
        plan = [cell.planned() for cell in loaded.cells]
        about = {"name": loaded.name, "cells": [cell.id for cell in loaded.cells], "plan": plan}
        record = Record.open(host, loaded.session, "experiment", loaded.name, about)
    except core.Busy as busy:
        raise output.Refused("busy", f"Another process runs {loaded.name}.", "Follow it in the app.") from busy
    _unlock(host, [cell.preset for cell in loaded.cells])
    total, shown = len(loaded.cells), 0

    def show(row: Mapping[str, Any]) -> None:
        nonlocal shown
        shown += 1
        if as_json:
            output.line(row)
        output.say(f"{shown}/{total}  {_cell(row)}")

    with _recording(record, lambda rows: f"{len(rows)} cells") as ended:
        rows = _driving(
            host,
            lambda runner: run_experiment(
                loaded, attempts=Attempts(host), runner=runner, record=record, engine=slots, show=show
            ),
        )
        ended.append(rows)
    stops = [str(row["stop"]) for row in rows]
    last = {"type": "experiment", "experiment": record.session, "name": loaded.name, "cells": total}
    if as_json:
        output.line({**last, "stops": {stop: stops.count(stop) for stop in sorted(set(stops))}})
    else:
        for row in rows:
            output.text(f"{_cell(row)}\n{row['output'] or ''}\n")
    return 0


def _cell(row: Mapping[str, Any]) -> str:
    again = " (on record)" if row.get("recorded") else ""
    return f"{row['preset']} · {row['prompt']} · {row['task']} · {row['repeat']}: {row['stop']}{again}"


# --- what they share -----------------------------------------------------------------------------------


def _driving(host: Host, work: Callable[[Runner], Awaitable[T]]) -> T:
    """Do `work` with a runner whose sessions other processes can reach. Interrupted, all it runs is settled first."""
    from core import Runner
    from impl.control import serve

    async def go() -> T:
        supervisor = core.Supervisor(host)
        server = await serve(host, supervisor)
        try:
            return await work(Runner(host, supervisor))
        finally:
            server.close()
            await supervisor.close()

    return asyncio.run(go())


@contextlib.contextmanager
def _recording(record: Record, summary: Callable[[Any], str]) -> Iterator[list[Any]]:
    """The record ends with what is put into the list; without it, as cancelled."""
    ended: list[Any] = []
    try:
        yield ended
    finally:
        if ended:
            record.end("completed", summary(ended[0]))
        else:
            record.end("cancelled", "interrupted")
        record.close()


def _setting(
    host: Host, provider: str | None, model: str | None, sandbox: str | None, *, default: bool = True
) -> Setting:
    from core import Setting

    setting = Setting(provider, model, sandbox)
    if default:
        _check(host, setting)
    return setting


def _check(host: Host, setting: Setting) -> None:
    """Whether what thinks and where it works are there, before anything is made for it."""
    from tui.commands.sessions import check_names

    check_names(
        host, core.LaunchInput(host=host, provider=setting.provider or host.settings.provider, sandbox=setting.sandbox)
    )


def _preset(host: Host, name: str) -> Preset:
    from core import NotAPreset, resolve_preset

    try:
        return resolve_preset(host.store, name, default="latest")
    except NotAPreset as error:
        raise output.Refused("not_found", str(error), "List them with: artificer agents") from error


def _unlock(host: Host, presets: Sequence[Preset]) -> None:
    from tui.commands.credentials import unlock_for

    for agent in sorted({preset.agent for preset in presets}):
        unlock_for(host, core.LaunchInput(host=host, agent=agent))


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """What is wrong with a suite or an experiment's file, as the command's refusal."""
    from core import BadSuite, NotAPreset

    try:
        yield
    except BadSuite as error:
        for problem in error.problems:
            output.say(f"{problem.path}: {problem.message}")
        raise output.Refused("bad_file", f"{path} cannot be used: {error}.", "Mend what is named here.") from error
    except NotADirectoryError as error:
        raise output.Refused("not_found", f"There is no folder {error.filename}.", "Name a suite's folder.") from error
    except NotAPreset as error:
        raise output.Refused(
            "bad_file", f"{path} cannot be used: {error}", "Name revisions as AGENT@DIGEST."
        ) from error
