"""The same session told otherwise: nothing that matters differs, so neither may the verdict."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from random import Random

from core.progress import Step

Retell = Callable[[list[Step], Random], list[Step]]


def as_it_is(steps: list[Step], dice: Random) -> list[Step]:
    return steps


def with_compactions(steps: list[Step], dice: Random) -> list[Step]:
    return [part for step in steps for part in ((step, Step("compact")) if dice.random() < 0.15 else (step,))]


def with_nudges(steps: list[Step], dice: Random) -> list[Step]:
    return [part for step in steps for part in (step, Step("nudge"))]


def with_words(steps: list[Step], dice: Random) -> list[Step]:
    """Words before some of the calls; those made in parallel, and silences, have none between."""
    if any(step.turn is not None or step.kind in ("compact", "empty") for step in steps):
        return steps
    told: list[Step] = []
    for number, step in enumerate(steps):
        if dice.random() < 0.3:
            told.append(Step("text", output=f"Idea {number}: {dice.random()}"))
        told.append(step)
    return told


def with_turns(steps: list[Step], dice: Random) -> list[Step]:
    return _each(steps, lambda step, number: {"turn": number} if step.turn is None else {})


def with_thoughts(steps: list[Step], dice: Random) -> list[Step]:
    return _each(steps, lambda step, number: {"thought": str(dice.random())})


def after_other_work(steps: list[Step], dice: Random) -> list[Step]:
    before = [
        Step("tool", "read_doc", {"path": f"doc{n}"}, f"document {n} says {n * 7}") for n in range(dice.randint(1, 15))
    ]
    return [*before, *steps]


def with_exit_codes(steps: list[Step], dice: Random) -> list[Step]:
    return _each(steps, lambda step, _: {"output": f"{step.output}\n[exit code 1]"} if _ran_badly(step) else {})


def with_exit_codes_alone(steps: list[Step], dice: Random) -> list[Step]:
    """Only the text says that the command failed."""
    return _each(
        steps, lambda step, _: {"ok": True, "output": f"Exit code: 1\n{step.output}"} if _ran_badly(step) else {}
    )


def as_objects(steps: list[Step], dice: Random) -> list[Step]:
    return _each(steps, lambda step, _: {} if step.rejected else {"ok": True, "output": _object(step)})


def as_json(steps: list[Step], dice: Random) -> list[Step]:
    return _each(steps, lambda step, _: {} if step.rejected else {"output": json.dumps(_object(step))})


def with_arguments_as_json(steps: list[Step], dice: Random) -> list[Step]:
    return _each(steps, lambda step, _: {"args": json.dumps(step.args)} if isinstance(step.args, dict) else {})


RETELLINGS: tuple[Retell, ...] = (
    *(as_it_is, with_compactions, with_nudges, with_words, with_turns, with_thoughts, after_other_work),
    *(with_exit_codes, with_exit_codes_alone, as_objects, as_json, with_arguments_as_json),
)


def _each(steps: list[Step], change: Callable[[Step, int], dict[str, object]]) -> list[Step]:
    return [
        dataclasses.replace(step, **change(step, number)) if step.kind == "tool" else step
        for number, step in enumerate(steps)
    ]


def _ran_badly(step: Step) -> bool:
    return not step.ok and not step.rejected and isinstance(step.output, str)


def _object(step: Step) -> object:
    if not isinstance(step.output, str):
        return step.output
    said, unsaid = ("stdout", "stderr") if step.ok else ("stderr", "stdout")
    return {"exit_code": 0 if step.ok else 1, said: step.output, unsaid: ""}
