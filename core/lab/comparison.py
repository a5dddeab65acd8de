"""A comparison: the same task for a baseline and a candidate, side by side; evidence, not a judgement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from core.lab.evaluator import Bench
from core.lab.families import families_of_all
from core.lab.judging import Preference, Rubric, SameFamily, both_orders, veto
from core.lab.records import Reading, Record
from core.lab.runner import Job, Ran, Runner
from core.stops import Stop


async def side_by_side(jobs: Sequence[Job], run: Callable[[Job], Awaitable[Ran]]) -> list[Ran]:
    """Run the arms at once. One that cannot start ends the others: half a comparison is no evidence."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_one(run, job)) for job in jobs]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]


async def _one(run: Callable[[Job], Awaitable[Ran]], job: Job) -> Ran:
    return await run(job)


def evidence(task: str, baseline: Ran, candidate: Ran) -> dict[str, Any]:
    """The evidence pair: sessions, digests, stops, durations in seconds, usage, cost, final outputs."""
    return {"type": "comparison", "task": task, "baseline": baseline.to_json(), "candidate": candidate.to_json()}


async def compare(
    task: str,
    jobs: Sequence[Job],
    runner: Runner,
    record: Record,
    *,
    judging: Callable[[Ran, Ran], Awaitable[Preference]] | None = None,
) -> dict[str, Any]:
    """Run the two arms, baseline first in `jobs`, and record each; the evidence pair names its record. What a judge
    prefers is recorded beside the evidence and is no part of it."""
    baseline, candidate = await side_by_side(jobs, runner.run)
    for arm, ran in (("baseline", baseline), ("candidate", candidate)):
        record.add("cell", {"cell": arm, **ran.to_json()})
    pair = {**evidence(task, baseline, candidate), "comparison": record.session}
    if judging is None:
        return pair
    found = (await judging(baseline, candidate)).to_json()
    record.add("preference", found)
    return {**pair, "preference": found}


async def preferred(
    bench: Bench, rubric: Rubric, task: str, baseline: Ran, candidate: Ran, reading: Reading
) -> Preference:
    """Which of two runs a judge prefers, put to it in both orders. An arm that did not complete loses to one that did,
    whatever a judge would say; a judge of their own family is not asked."""
    by_stop = veto(baseline.stop is Stop.COMPLETED, candidate.stop is Stop.COMPLETED)
    if by_stop is not None:
        why = f"not asked: they stopped as {baseline.stop.value} and {candidate.stop.value}"
        return Preference(by_stop, "vetoed", why, bench.judge.name, rubric.digest)
    others = bench.others | families_of_all(
        reading.thought_by(baseline.session) | reading.thought_by(candidate.session)
    )
    outputs = (baseline.output, candidate.output)
    try:
        return await both_orders(bench.judge, rubric, task, *outputs, others=others, forced=bench.forced)
    except SameFamily as error:
        return Preference(None, "unjudged", str(error), bench.judge.name, rubric.digest)
