"""The evaluator: runs the cases of a suite, judges each by its checks, and records what it found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from core.lab.checks import Exited, Seen, Verdict, judge
from core.lab.families import families_of_all
from core.lab.handover import BadStart
from core.lab.judging import Judge, Rubric, SameFamily, refuse_kin, spent_on
from core.lab.records import Reading, Record
from core.lab.runner import BUILDER, Lost, Preset, Ran, Runner, Setting
from core.lab.suite import Case, Suite
from core.lab.wanted import Check
from core.ports import Engine

COMMAND_S = 60.0


@dataclass(frozen=True, slots=True)
class Bench:
    """The judge of an evaluation. `others` are the families of models that wrote what is evaluated; one of them judges
    only where that is `forced`, and every verdict then says so."""

    judge: Judge
    others: frozenset[str] = frozenset()
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """One case and how it went: `ran` is None where it could not begin, and then `why` says so. `built` is what the
    Builder made."""

    case: Case
    ran: Ran | None
    verdicts: tuple[Verdict, ...] = ()
    why: str = ""
    built: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return self.ran is not None and all(verdict.passed for verdict in self.verdicts)

    @property
    def unjudged(self) -> bool:
        """Whether it would pass but for what no judge could say."""
        failed = [verdict for verdict in self.verdicts if not verdict.passed]
        return bool(failed) and all(verdict.unjudged for verdict in failed)

    def to_json(self) -> dict[str, Any]:
        """The row of the evaluation's record."""
        row: dict[str, Any] = {"type": "case", "id": self.case.id, "passed": self.passed}
        if self.ran is None:
            return {**row, "session": None, "why": self.why, "checks": [], "tags": list(self.case.tags)}
        checks = [verdict.to_json() for verdict in self.verdicts]
        built = {"built": dict(self.built)} if self.built else {}
        return {**row, **self.ran.to_json(), **built, "why": "", "checks": checks, "tags": list(self.case.tags)}


async def evaluate(
    suite: Suite,
    preset: Preset,
    *,
    runner: Runner,
    reading: Reading,
    record: Record,
    engine: Engine,
    setting: Setting,
    cases: Sequence[Case] | None = None,
    bench: Bench | None = None,
    show: Callable[[Judged], None] = lambda judged: None,
) -> list[Judged]:
    """Run and judge the cases (all, by default), in the suite's order; each is recorded and shown when it is done."""

    async def work(case: Case) -> Judged:
        return await run_case(suite, case, preset, runner, reading, record.session, setting, bench)

    wanted = suite.cases if cases is None else cases
    done: dict[str, Judged] = {}
    async with aclosing(engine.run(wanted, work)) as results:
        async for case, judged in results:
            record.add("case", judged.to_json())
            done[case.id] = judged
            show(judged)
    return [done[case.id] for case in wanted]


async def run_case(
    suite: Suite,
    case: Case,
    preset: Preset,
    runner: Runner,
    reading: Reading,
    parent: str,
    setting: Setting,
    bench: Bench | None = None,
) -> Judged:
    """Run one case in the suite's environment, and judge it."""
    job = setting.job(
        preset,
        case.task,
        kind="case",
        parent=parent,
        limits=case.limits,
        network=suite.network,
        suite={**suite.to_json(), "case": case.id},
        start=case.start,
        answers=case.answers,
        build=case.build if preset.agent == BUILDER and preset.id == BUILDER else None,
    )
    try:
        ran = await runner.run(job)
    except (BadStart, Lost) as error:
        return Judged(case, None, why=str(error))
    computed = await judge_run([check for check in case.checks if check.kind != "judge"], ran, reading)
    veto = not all(verdict.passed for verdict in computed)
    graded = [
        await _graded(check, case.task, ran, reading, bench, veto) for check in case.checks if check.kind == "judge"
    ]
    return Judged(case, ran, (*computed, *graded), built=what_was_built(ran, reading))


async def _graded(check: Check, task: str, ran: Ran, reading: Reading, bench: Bench | None, veto: bool) -> Verdict:
    """What a model says of an output; it is not asked where checks that compute have failed already."""
    rubric = Rubric(check.want["rubric"], tuple(check.want.get("criteria", ())))
    about: dict[str, Any] = {"state": "unjudged", "judge": None, "rubric": rubric.digest, "same_family": False}
    if bench is None:
        return Verdict(check, False, "no judge was named", about)
    others = bench.others | families_of_all(reading.thought_by(ran.session))
    about |= {"judge": bench.judge.name, "same_family": bool(bench.judge.families & others)}
    if veto:
        return Verdict(check, False, "not asked: another check has failed", {**about, "state": "vetoed"})
    try:
        refuse_kin(bench.judge, others, forced=bench.forced)
    except SameFamily as error:
        return Verdict(check, False, str(error), about)
    opinion = await bench.judge.grade(rubric, task, ran.output)
    about |= {"state": "unjudged" if opinion.word is None else "judged", **spent_on([opinion])}
    return Verdict(check, opinion.word == "pass", opinion.why, about)


async def judge_run(checks: Sequence[Check], ran: Ran, reading: Reading) -> list[Verdict]:
    """The verdicts on one run, in the checks' order. Commands run in its workspace once all else is judged, one after
    the other, each once: what they change there is no evidence."""
    seen = what_was_seen(ran, reading)
    first = await asyncio.to_thread(lambda: [None if c.kind == "command" else judge(c, seen) for c in checks])
    exits: dict[str, Exited] = {}
    for check in checks:
        if check.kind == "command" and check.want["run"] not in exits:
            command, timeout = check.want["run"], float(check.want.get("timeout", COMMAND_S))
            ended = await reading.command(ran.session, ran.info.sandbox, command, timeout)
            if ended is not None:
                exits[command] = ended
    seen = replace(seen, exits=exits)
    return [verdict or judge(check, seen) for check, verdict in zip(checks, first, strict=True)]


def what_was_seen(ran: Ran, reading: Reading) -> Seen:
    """The facts of a run that checks decide on: what its children took is part of what it took."""
    tree = reading.tree(ran.session)
    known = all(info.usd is not None for info in tree)
    return Seen(
        output=ran.output,
        stop=ran.stop.value,
        calls=reading.calls(ran.session),
        tokens=sum(info.input_tokens + info.output_tokens for info in tree),
        steps=sum(info.requests for info in tree),
        usd=format(sum((Decimal(info.usd or 0) for info in tree), Decimal(0)), "f") if known else None,
        seconds=ran.duration_s,
        file=lambda path: reading.file(ran.session, path),
        built_file=lambda path: reading.built_file(ran.session, path),
        built=what_was_built(ran, reading),
    )


def what_was_built(ran: Ran, reading: Reading) -> dict[str, Any]:
    """Of a Builder's run: the agent it made, whether that passed validation and where it is published; else empty."""
    if ran.info.kind != "builder":
        return {}
    state = reading.built(ran.session)
    return {"agent": state.agent, "digest": state.digest, "validated": state.passed, "published": bool(state.channel)}


def totals(judged: Sequence[Judged]) -> dict[str, Any]:
    """How many passed, which did not, and which of those no judge could decide."""
    failed = [one.case.id for one in judged if not one.passed]
    unjudged = [one.case.id for one in judged if one.unjudged]
    return {"cases": len(judged), "passed": len(judged) - len(failed), "failed": failed, "unjudged": unjudged}


def judged_by(judged: Sequence[Judged]) -> dict[str, Any] | None:
    """What the judge of an evaluation was asked and took; None where none was."""
    rows = [v.about for one in judged for v in one.verdicts if "sessions" in v.about]
    if not rows:
        return None
    known = all(row["usd"] is not None for row in rows)
    usd = format(sum((Decimal(row["usd"] or 0) for row in rows), Decimal("0.00")), "f") if known else None
    tokens = sum(int(row["tokens"]) for row in rows)
    forced = any(row["same_family"] for row in rows)
    return {"name": rows[0]["judge"], "asked": len(rows), "tokens": tokens, "usd": usd, "same_family": forced}
