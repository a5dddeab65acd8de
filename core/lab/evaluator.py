"""The evaluator: runs the cases of a suite, judges each by its checks, and records what it found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from core.lab.checks import Check, Exited, Seen, Verdict, judge
from core.lab.handover import BadStart
from core.lab.records import Reading, Record
from core.lab.runner import Preset, Ran, Runner, Setting
from core.lab.suite import Case, Suite
from core.ports import Engine

COMMAND_S = 60.0


@dataclass(frozen=True, slots=True)
class Judged:
    """One case and how it went: `ran` is None where it could not begin, and then `why` says so."""

    case: Case
    ran: Ran | None
    verdicts: tuple[Verdict, ...] = ()
    why: str = ""

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return self.ran is not None and all(verdict.passed for verdict in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        """The row of the evaluation's record."""
        row: dict[str, Any] = {"type": "case", "id": self.case.id, "passed": self.passed}
        if self.ran is None:
            return {**row, "session": None, "why": self.why, "checks": [], "tags": list(self.case.tags)}
        checks = [verdict.to_json() for verdict in self.verdicts]
        return {**row, **self.ran.to_json(), "why": "", "checks": checks, "tags": list(self.case.tags)}


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
    show: Callable[[Judged], None] = lambda judged: None,
) -> list[Judged]:
    """Run and judge the cases (all, by default), in the suite's order; each is recorded and shown when it is done."""

    async def work(case: Case) -> Judged:
        return await run_case(suite, case, preset, runner, reading, record.session, setting)

    wanted = suite.cases if cases is None else cases
    done: dict[str, Judged] = {}
    async with aclosing(engine.run(wanted, work)) as results:
        async for case, judged in results:
            record.add("case", judged.to_json())
            done[case.id] = judged
            show(judged)
    return [done[case.id] for case in wanted]


async def run_case(
    suite: Suite, case: Case, preset: Preset, runner: Runner, reading: Reading, parent: str, setting: Setting
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
    )
    try:
        ran = await runner.run(job)
    except BadStart as error:
        return Judged(case, None, why=str(error))
    return Judged(case, ran, tuple(await judge_run(case.checks, ran, reading)))


async def judge_run(checks: Sequence[Check], ran: Ran, reading: Reading) -> list[Verdict]:
    """The verdicts on one run. Commands run in its workspace after it has stopped, one after the other."""
    exits: dict[str, Exited] = {}
    for check in checks:
        if check.kind == "command":
            command, timeout = str(check.want["run"]), float(check.want.get("timeout", COMMAND_S))
            found = await reading.command(ran.session, ran.info.sandbox, command, timeout)
            if found is not None:
                exits[command] = found
    seen = what_was_seen(ran, reading, exits)
    return await asyncio.to_thread(lambda: [judge(check, seen) for check in checks])


def what_was_seen(ran: Ran, reading: Reading, exits: Mapping[str, Exited]) -> Seen:
    """The facts of a run that checks decide on."""
    info = ran.info
    return Seen(
        output=ran.output,
        stop=ran.stop.value,
        calls=reading.calls(ran.session),
        tokens=info.input_tokens + info.output_tokens,
        steps=info.requests,
        usd=info.usd,
        seconds=ran.duration_s,
        file=lambda path: reading.file(ran.session, path),
        exits=exits,
    )


def totals(judged: Sequence[Judged]) -> dict[str, Any]:
    """How many passed, and which did not."""
    failed = [one.case.id for one in judged if not one.passed]
    return {"cases": len(judged), "passed": len(judged) - len(failed), "failed": failed}
