"""Commands of the lab that run agents: compare, eval, experiment."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import core
from tui.commands import output
from tui.commands.choices import Json, LimitWords, ModelName, ProviderName, SandboxName
from tui.commands.hosting import build_host
from tui.commands.judges import (
    ForceJudge,
    JudgeModel,
    JudgeName,
    bench_of,
    check_judge,
    preference_line,
    read_rubric,
    refuse_unknown,
)
from tui.commands.sessions import find, limits

if TYPE_CHECKING:
    from core import Case, Engine, Experiment, Host, Judged, Preset, Record, Runner, Setting, Suite, Supervisor

T = TypeVar("T")
Replay = Annotated[
    str | None, typer.Option("--replay", metavar="SESSION", help="Answer effects from this session's record alone.")
]
Parallel = Annotated[int | None, typer.Option("--parallel", min=1, max=256, help="How many run at once.")]
EngineUrl = Annotated[
    str | None, typer.Option("--engine", metavar="URL", help="Where cells run: dask://HOST:PORT; without it, here.")
]
Start = Annotated[Path | None, typer.Option("--files", help="A folder each workspace begins with a copy of.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (compare, experiment):
        app.command()(command)
    app.command("eval")(evaluate)


# --- compare -------------------------------------------------------------------------------------------


def compare(
    baseline: Annotated[str, typer.Argument(metavar="AGENT@A", help="Without @, its newest revision.")],
    candidate: Annotated[str, typer.Argument(metavar="AGENT@B", help="The same, to put beside it.")],
    task: Annotated[str, typer.Argument(metavar="TASK", help="What both should do.")],
    provider: ProviderName = None,
    model: ModelName = None,
    sandbox: SandboxName = None,
    limit: LimitWords = None,
    replay: Replay = None,
    files: Start = None,
    judge: JudgeName = None,
    judge_model: JudgeModel = None,
    rubric: Annotated[Path | None, typer.Option("--rubric", help="A text file that a judge goes by.")] = None,
    force_judge: ForceJudge = False,
    as_json: Json = False,
) -> int:
    """Run one task on two revisions side by side. It is evidence; which is better a judge says, where
    you name one.

    0 unless a provider or Artificer itself failed one."""
    from core import Reading, Record, preferred
    from core import Start as Beginning
    from core import compare as run_both

    host = build_host()
    setting = _setting(host, provider, model, sandbox)
    presets = [_preset(host, name) for name in (baseline, candidate)]
    if (judge is None) != (rubric is None):
        raise typer.BadParameter("give --judge PROVIDER and --rubric FILE together, or neither")
    measure, reading = read_rubric(rubric) if rubric is not None else None, Reading(host)
    named = (judge, judge_model) if judge is not None else None
    others = check_judge(host, named, presets, setting, force_judge) if named else frozenset()
    spend, recorded = limits(limit), find(host, replay).id if replay else None
    start = Beginning(_folder(files) if files else None)
    arms = [preset.id for preset in presets]
    kept, _ = core.screen(task)
    record = Record.open(host, host.new_id(), "comparison", kept, {"task": kept, "replay": recorded, "arms": arms})
    common: dict[str, Any] = {
        "parent": record.session,
        "limits": spend,
        "replay": recorded,
        "network": recorded is None,
        "start": start,
    }
    jobs = [setting.job(preset, task, **common) for preset in presets]
    _unlock(host, presets)

    def work(runner: Runner, supervisor: Supervisor) -> Awaitable[dict[str, Any]]:
        bench = bench_of(host, supervisor, named, record, sandbox, others, force_judge)
        if bench is None or measure is None:
            return run_both(task, jobs, runner, record)
        judging = partial(preferred, bench, measure, task, reading=reading)
        return run_both(task, jobs, runner, record, judging=judging)

    with _recording(record, lambda pair: f"{_short(pair['baseline'])} · {_short(pair['candidate'])}") as ended:
        pair = _supervised(host, record.session, work)
        ended.append(pair)
    if as_json:
        output.line(pair)
    else:
        for arm in ("baseline", "candidate"):
            output.text(f"{arm}: {_arm(pair[arm])}\n{pair[arm]['output'] or ''}\n")
        if "preference" in pair:
            output.text(preference_line(pair["preference"]))
        output.say(f"Say which is better with: artificer label {record.session} --verdict {'|'.join(core.PAIR_WORDS)}")
    return _code([pair["baseline"], pair["candidate"]], "arms")


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise output.Refused("not_found", f"There is no folder {path}.", "Name one that is there with --files.")
    return path.resolve()


def _short(arm: Mapping[str, Any]) -> str:
    return f"{arm['preset']}: {arm['stop']}"


def _arm(arm: Mapping[str, Any]) -> str:
    usd = arm["cost"]["usd"]
    words = [arm["preset"], output.short(arm["digest"]), arm["stop"], f"{arm['duration_s']:.1f} s"]
    return " · ".join([*words, f"${usd}" if usd is not None else "cost unknown", arm["session"]])


# --- eval ----------------------------------------------------------------------------------------------


def evaluate(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A folder with suite.yaml.")],
    agent: Annotated[str, typer.Argument(metavar="AGENT[@D]", help="An agent, or `builder`: the Builder itself.")],
    provider: ProviderName = None,
    model: ModelName = None,
    sandbox: SandboxName = None,
    engine: EngineUrl = None,
    parallel: Parallel = None,
    only: Annotated[
        list[str] | None, typer.Option("--case", metavar="ID", help="Only this case; may be repeated.")
    ] = None,
    judge: JudgeName = None,
    judge_model: JudgeModel = None,
    force_judge: ForceJudge = False,
    as_json: Json = False,
) -> int:
    """Run a suite's cases on an agent, judged by its checks. 0 only when every case passed."""
    from core import BUILDER, Reading, Record, builder_preset, judged_by, totals
    from core import evaluate as judge_all

    host = build_host()
    with _reading(suite):
        from core import load_suite

        loaded = load_suite(suite)
    setting = _setting(host, provider, model, sandbox)
    preset = builder_preset() if agent == BUILDER else _preset(host, agent)
    if agent == BUILDER and BUILDER in host.store.agents():
        output.say(f"Note: {BUILDER} is the Builder itself; your agent of that name is {BUILDER}@latest.")
    cases = _cases(loaded, suite, only, by_builder=agent == BUILDER)
    if agent == BUILDER and engine is not None:
        raise output.Refused("usage", "The Builder is evaluated on this machine.", "Leave --engine out.")
    where = _engine(engine, parallel)
    named = (judge, judge_model) if judge is not None else loaded.judge
    asks = any(check.kind == "judge" for case in cases for check in case.checks)
    others = check_judge(host, named, [preset], setting, force_judge) if named and asks else frozenset()
    if judge is not None and not asks:
        refuse_unknown(host, (judge, judge_model))
        output.say("No check here is a judge's, so none is asked.")
    if asks and named is None:
        output.say("Some checks are a judge's: without --judge PROVIDER they stay unjudged, and their cases fail.")
    about = {"suite": loaded.to_json(), "agent": preset.agent, "digest": preset.digest, "cases": [c.id for c in cases]}
    title = f"{loaded.name}: {preset.id}"
    columns = {"agent": preset.agent, "digest": preset.digest, "channel": preset.channel}
    name = host.new_id()

    async def work(runner: Runner, supervisor: Supervisor) -> list[Judged]:
        record = Record.open(host, name, "evaluation", title, about, **columns)
        with _recording(record, lambda done: _score(totals(done))) as ended:
            done = await judge_all(
                loaded,
                preset,
                runner=runner,
                reading=Reading(host),
                record=record,
                engine=where,
                setting=setting,
                cases=cases,
                bench=bench_of(host, supervisor, named if asks else None, record, sandbox, others, force_judge),
                show=lambda judged: _show_case(judged, as_json),
            )
            ended.append(done)
        return done

    done = _supervised(host, name, work, where)
    found, judging = totals(done), judged_by(done)
    last = {"type": "eval", "eval": name, "suite": loaded.to_json(), "agent": preset.agent}
    if as_json:
        output.line({**last, "digest": preset.digest, **found, "judge": judging})
    else:
        output.text(f"{name}  {loaded.name} on {agent}: {_score(found)}")
        if judging is not None:
            cost = f"${judging['usd']}" if judging["usd"] is not None else "cost unknown"
            kin = ", of the author's or the candidate's own family, forced" if judging["same_family"] else ""
            output.say(f"judge {judging['name']}{kin}: asked {judging['asked']} times, {cost}")
    return 0 if not found["failed"] else 1


def _cases(loaded: Suite, path: str, only: Sequence[str] | None, *, by_builder: bool) -> list[Case]:
    """The cases to run: all, or those named."""
    from core import BUILDER, Build

    if not loaded.cases:
        raise output.Refused("bad_file", f"{loaded.name} has no cases.", f"Add some to {path}/suite.yaml.")
    cases = [case for case in loaded.cases if not only or case.id in only]
    if unknown := sorted(set(only or ()) - {case.id for case in cases}):
        raise output.Refused("not_found", f"{loaded.name} has no case {', '.join(unknown)}.", f"They are in {path}.")
    if not by_builder and (building := [c.id for c in cases if not c.task or c.build != Build()]):
        message = f"Only the Builder takes cases with source or publish: {', '.join(building[:5])}."
        raise output.Refused("usage", message, f"Evaluate the Builder with: artificer eval {path} {BUILDER}")
    return cases


def _score(found: Mapping[str, Any]) -> str:
    unjudged = f", {len(found['unjudged'])} unjudged" if found["unjudged"] else ""
    return f"{found['passed']} of {found['cases']} passed{unjudged}"


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


# --- experiment ----------------------------------------------------------------------------------------


def experiment(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A YAML file: revisions, prompts, tasks, repeats.")],
    provider: ProviderName = None,
    model: ModelName = None,
    sandbox: SandboxName = None,
    engine: EngineUrl = None,
    parallel: Parallel = None,
    as_json: Json = False,
) -> int:
    """Run every cell of an experiment. Run again, it goes on with those that have no result yet.

    0 unless a provider or Artificer itself failed one."""

    host = build_host()
    given = _setting(host, provider, model, sandbox, default=False)
    with _reading(file):
        from core import Attempts, Setting, load_experiment, run_experiment

        loaded = load_experiment(file, host.store, given, Setting(host.settings.provider, host.settings.model))
    _check(host, loaded.setting)
    where = _engine(engine, parallel or loaded.parallel)
    if engine is None:
        _unlock(host, [cell.preset for cell in loaded.cells])
    total, shown = len(loaded.cells), 0

    def show(row: Mapping[str, Any]) -> None:
        nonlocal shown
        shown += 1
        if as_json:
            output.line(row)
        output.say(f"{shown}/{total}  {_cell(row)}")

    async def work(runner: Runner, supervisor: Supervisor) -> list[Mapping[str, Any]]:
        record = _experiment_record(host, loaded)
        with _recording(record, lambda rows: f"{len(rows)} cells") as ended:
            rows = await run_experiment(
                loaded, attempts=Attempts(host), runner=runner, record=record, engine=where, show=show
            )
            ended.append(rows)
        return rows

    rows = _supervised(host, loaded.session, work, where)
    stops = [str(row["stop"]) for row in rows]
    last = {"type": "experiment", "experiment": loaded.session, "name": loaded.name, "cells": total}
    if as_json:
        output.line({**last, "stops": {stop: stops.count(stop) for stop in sorted(set(stops))}})
    else:
        for row in rows:
            output.text(f"{_cell(row)}\n{row['output'] or ''}\n")
    return _code(rows, "cells")


def _experiment_record(host: Host, loaded: Experiment) -> Record:
    from core import Record

    plan = [cell.planned() for cell in loaded.cells]
    about = {"name": loaded.name, "cells": [cell.id for cell in loaded.cells], "plan": plan}
    try:
        return Record.open(host, loaded.session, "experiment", loaded.name, about)
    except core.Busy as busy:
        raise output.Refused("busy", f"Another process runs {loaded.name}.", "Follow it in the app.") from busy


def _cell(row: Mapping[str, Any]) -> str:
    again = " (on record)" if row.get("recorded") else ""
    return f"{row['preset']} · {row['prompt']} · {row['task']} · {row['repeat']}: {row['stop']}{again}"


def _code(rows: Sequence[Mapping[str, Any]], what: str) -> int:
    """1 where a provider or Artificer itself failed one of them; any other stop is a result."""
    failed = [row for row in rows if row["stop"] in (core.Stop.PROVIDER_ERROR, core.Stop.PLATFORM_ERROR)]
    if not failed:
        return 0
    why = ", ".join(
        sorted({f"{row['stop']}{' (' + str(row['detail']) + ')' if row['detail'] else ''}" for row in failed})
    )
    output.say(f"{len(failed)} of {len(rows)} {what} failed: {why}.")
    if session := next((row["session"] for row in failed if row["session"]), None):
        output.say(f"See the first with: artificer transcript {session}")
    return 1


# --- what they share -----------------------------------------------------------------------------------


def _engine(url: str | None, slots: int | None) -> Engine:
    """Where cells run: here, or where a URL says."""
    from impl.engines import NoEngine, open_engine

    try:
        return open_engine(url, slots, say=lambda words: output.say(f"Note: {words}"))
    except NoEngine as error:
        raise output.Refused("not_found", str(error.args[0]), "Leave --engine out to run here.") from error
    except core.EngineError as error:
        raise output.Refused(error.code, error.message, error.hint) from error


def _supervised(
    host: Host, record: str, work: Callable[[Runner, Supervisor], Awaitable[T]], engine: Engine | None = None
) -> T:
    """Do `work` on a record with a runner whose sessions other processes can reach, and whose jobs run where the engine
    has them run. Interrupted here, or the record from elsewhere, all it runs is settled first."""
    from core import Runner
    from impl.control import serve

    where = _engine(None, None) if engine is None else engine

    async def go() -> T:
        supervisor = core.Supervisor(host)
        if (task := asyncio.current_task()) is not None:
            supervisor.adopt(record, task)
            for number in (signal.SIGTERM, signal.SIGHUP):  # as an interrupt from the keyboard does
                asyncio.get_running_loop().add_signal_handler(number, supervisor.interrupt, record)
        try:
            async with where.opened(host, Runner(host, supervisor)) as runner:
                server = await serve(host, _Reached(supervisor, runner))
                try:
                    return await work(runner, supervisor)
                finally:
                    server.close()
        finally:
            await supervisor.close()

    try:
        return asyncio.run(go())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except core.EngineError as error:
        raise output.Refused(error.code, error.message, error.hint) from error


class _Reached:
    """What other processes say to a session reaches it, wherever it is run."""

    def __init__(self, supervisor: Supervisor, runner: Runner) -> None:
        self._supervisor = supervisor
        self._runner = runner

    def interrupt(self, session: str) -> bool:
        return self._runner.interrupt(session) or self._supervisor.interrupt(session)

    def resume(self, launch: core.LaunchInput) -> None:
        if self._runner.runs_elsewhere(launch.session or ""):
            raise core.NoSuchSession(f"{launch.session} here: another machine runs it")
        self._supervisor.resume(launch)


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
    from core import BadSuite, NotAPreset, UnsafeTree

    try:
        yield
    except (BadSuite, UnsafeTree) as error:
        wrong = "".join(f"\n  {problem.path}: {problem.message}" for problem in error.problems)
        raise output.Refused("bad_file", f"Cannot use {path}:{wrong}", "Mend what is named here.") from error
    except NotADirectoryError as error:
        raise output.Refused("not_found", f"There is no folder {error.filename}.", "Name one that is there.") from error
    except NotAPreset as error:
        raise output.Refused("bad_file", f"Cannot use {path}: {error}", "Name revisions as AGENT@DIGEST.") from error
