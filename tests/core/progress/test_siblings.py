"""Kinds of sessions, each in many forms: the guard stops the loops and leaves the work alone."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest

from core.progress import ProgressGuard, Step
from tests.core.progress import errands, loops, rounds, tools_at_work, tools_in_circles, work
from tests.core.progress.kinds import KINDS, Kind
from tests.core.progress.retold import RETELLINGS, Retell, as_it_is

MODULES = (errands, loops, rounds, tools_at_work, tools_in_circles, work)  # each adds its kinds to the register
LOOPS = [kind for kind in KINDS if kind.expect == "stop"]


def levels(steps: list[Step]) -> list[str]:
    guard = ProgressGuard()
    return [verdict.level for step in steps if (verdict := guard.observe(step)) is not None]


def outcome(steps: list[Step]) -> str:
    found = levels(steps)
    return "stop" if "stop" in found else "nudge" if found else "clear"


def wrong(kind: Kind, retell: Retell, seeds: range) -> dict[int, str]:
    """The siblings that get another verdict than they must."""
    told = {seed: retell(kind.sibling(seed), Random(seed)) for seed in seeds}
    return {seed: found for seed, steps in told.items() if (found := outcome(steps)) != kind.expect}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_siblings_get_the_verdict_of_their_kind(kind: Kind) -> None:
    assert wrong(kind, as_it_is, range(2)) == {}


@pytest.mark.parametrize("kind", LOOPS, ids=lambda kind: kind.name)
def test_a_nudge_goes_before_the_stop(kind: Kind) -> None:
    found = levels(kind.sibling(0))

    assert found[0] == "nudge"
    assert "stop" in found


@pytest.mark.parametrize("retell", RETELLINGS, ids=lambda retell: retell.__name__)
def test_how_a_session_is_told_does_not_matter(retell: Retell) -> None:
    some = KINDS[RETELLINGS.index(retell) % 4 :: 4]

    assert {kind.name: found for kind in some if (found := wrong(kind, retell, range(7, 8)))} == {}


@pytest.mark.parametrize("kind", LOOPS, ids=lambda kind: kind.name)
def test_a_person_who_speaks_in_time_saves_any_loop(kind: Kind) -> None:
    steps = [part for n, step in enumerate(kind.sibling(1)) for part in ((step, Step("user")) if n % 2 else (step,))]

    assert outcome([dataclasses.replace(step, turn=None) for step in steps]) == "clear"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_many_siblings_get_the_verdict_of_their_kind(kind: Kind) -> None:
    assert wrong(kind, as_it_is, range(100, 120)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("retell", RETELLINGS, ids=lambda retell: retell.__name__)
def test_how_many_sessions_are_told_does_not_matter(retell: Retell) -> None:
    assert {kind.name: found for kind in KINDS if (found := wrong(kind, retell, range(200, 203)))} == {}
