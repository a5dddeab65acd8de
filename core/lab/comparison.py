"""A comparison: the same task for a baseline and a candidate, side by side; evidence, not a judgement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from core.lab.records import Record
from core.lab.runner import Job, Ran, Runner


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


async def compare(task: str, jobs: Sequence[Job], runner: Runner, record: Record) -> dict[str, Any]:
    """Run the two arms, baseline first in `jobs`, and record each; the evidence pair names its record."""
    baseline, candidate = await side_by_side(jobs, runner.run)
    for arm, ran in (("baseline", baseline), ("candidate", candidate)):
        record.add("cell", {"cell": arm, **ran.to_json()})
    return {**evidence(task, baseline, candidate), "comparison": record.session}
