"""Properties of the guard over arbitrary sessions: deterministic, bounded, fair."""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.progress import ProgressGuard, Step
from core.progress.normalise import clean, mask, mask_lines
from tests.core.progress_cases import CASES

# few values, so that sessions repeat themselves
outputs = st.sampled_from(
    ["", "ok", "a\nb", "error: x", "HTTP 500", "3 failed", "2 failed", "running 5%", "No results found.", "x" * 5_000]
)
tools = st.builds(
    Step,
    kind=st.just("tool"),
    tool=st.sampled_from(["read", "run_sandbox"]),
    args=st.dictionaries(st.sampled_from(["command", "path", "n"]), st.sampled_from(["ls", "a", 1, 2]), max_size=3),
    output=outputs,
    ok=st.booleans(),
    workspace=st.sampled_from([None, "w0", "w1", "w2"]),
    rejected=st.booleans(),
    polls=st.booleans(),
    waited_s=st.sampled_from([None, 0, 5]),
    turn=st.sampled_from([None, 1, 2, 3]),
)
others = st.builds(
    Step, kind=st.sampled_from(["text", "empty", "user", "credential", "compact", "nudge"]), output=outputs
)
sessions = st.lists(st.one_of(tools, tools, tools, others), max_size=60)
# one thing again and again, so that verdicts are reached
loops = st.tuples(sessions, st.lists(tools, min_size=1, max_size=4), st.integers(4, 12)).map(
    lambda t: t[0] + t[1] * t[2]
)


def run(steps: list[Step]) -> list[tuple[str, str, str] | None]:
    guard = ProgressGuard()
    found = [guard.observe(step) for step in steps]
    return [None if v is None else (v.level, v.rule, json.dumps(v.evidence)) for v in found]


@given(loops)
def test_equal_steps_give_equal_verdicts(steps: list[Step]) -> None:
    assert run(steps) == run(steps)


@given(loops)
def test_a_stop_is_preceded_by_a_nudge_since_a_person_spoke(steps: list[Step]) -> None:
    nudged = False
    for step, verdict in zip(steps, run(steps), strict=True):
        if step.kind in ("user", "credential"):
            nudged = False
        if verdict is not None:
            assert verdict[0] == "nudge" or nudged
            nudged = True


@given(sessions, loops, st.sampled_from(["user", "credential"]))
def test_what_was_before_a_person_spoke_does_not_count(before: list[Step], steps: list[Step], kind: Any) -> None:
    # workspaces aside: the state the workspace is in stays known
    steps = [s for s in steps if s.workspace is None]
    before = [s for s in before if s.workspace is None]
    after = run([*before, Step(kind), *steps])[len(before) + 1 :]

    assert [v and v[:2] for v in after] == [v and v[:2] for v in run(steps)]


@given(loops)
def test_the_order_of_keys_in_arguments_is_immaterial(steps: list[Step]) -> None:
    turned = [
        Step(**{**fields(s), "args": dict(reversed(s.args.items()))}) if isinstance(s.args, dict) else s for s in steps
    ]

    assert [v and v[:2] for v in run(turned)] == [v and v[:2] for v in run(steps)]


@given(loops)
def test_thoughts_are_ignored(steps: list[Step]) -> None:
    thinking = [Step(**{**fields(s), "thought": f"idea {n}"}) for n, s in enumerate(steps)]

    assert run(thinking) == run(steps)


@given(loops)
def test_nudges_in_between_change_nothing(steps: list[Step]) -> None:
    nudged = [part for s in steps for part in (s, Step("nudge"))]

    assert [v and v[:2] for v in run(nudged)[::2]] == [v and v[:2] for v in run(steps)]


@settings(max_examples=200)
@given(st.text(max_size=400))
def test_masking_reads_any_text(text: str) -> None:
    assert isinstance(mask_lines(mask(clean(text))), str)


@given(
    st.integers(1, 200),
    st.sampled_from(
        ["{} failed, 3 passed", "exit code {}", "HTTP {} from x", "errno {}", "connect to db:{}", "port {}"]
    ),
)
def test_numbers_that_mean_something_are_kept(number: int, shape: str) -> None:
    text = shape.format(number)

    assert mask_lines(mask(text)) == text


def test_many_distinct_steps_leave_a_bounded_state() -> None:
    guard = ProgressGuard()

    def feed(count: int, start: int) -> None:
        for n in range(start, start + count):
            guard.observe(Step("tool", "t", {"n": n}, f"answer {n}", n % 3 != 0, f"w{n}", turn=n))

    feed(6_000, 0)
    size = footprint(guard)
    feed(6_000, 6_000)

    assert footprint(guard) <= size * 1.02 + 4_096
    assert size < 2_000_000


@pytest.mark.slow
def test_a_hundred_thousand_distinct_steps_leave_a_bounded_state() -> None:
    guard = ProgressGuard()
    for n in range(100_000):
        verdict = guard.observe(Step("tool", "t", n, f"answer {n}", True, f"w{n}"))
        assert verdict is None

    assert footprint(guard) < 2_000_000


def test_a_new_guard_is_small() -> None:
    assert footprint(ProgressGuard()) < 16_000


def test_replaying_a_session_gives_the_verdicts_again() -> None:
    steps = [step for case in CASES for step in case.steps]

    assert run(steps) == run(steps)


def fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in Step.__slots__}


def footprint(thing: Any) -> int:
    """Bytes of everything that hangs on `thing`."""
    seen: set[int] = set()
    queue: deque[Any] = deque([thing])
    total = 0
    while queue:
        item = queue.popleft()
        if id(item) in seen or isinstance(item, type):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, dict):
            queue.extend(item.keys())
            queue.extend(item.values())
        elif isinstance(item, (list, tuple, set, frozenset, deque)):
            queue.extend(item)
        else:
            for cls in type(item).__mro__:
                slots = getattr(cls, "__slots__", ())
                names = (slots,) if isinstance(slots, str) else slots
                queue.extend(getattr(item, name) for name in names if hasattr(item, name))
    return total
