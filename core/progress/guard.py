"""Watches the steps of a session and says when it goes in circles: first a nudge, then a stop.

It compares what the world answered. A step is *fresh* where it brought something: an answer never seen, a workspace
never seen, or plausible work of unknown effect. Fresh steps clear the tallies of repetition; the tally of a
failure they only make slower. Everything is pure and bounded: equal steps give equal verdicts.
"""

from __future__ import annotations

from typing import Any, Final

from core.progress import rules
from core.progress.calls import Call, as_args, read_call
from core.progress.memory import Recent, Seen, State
from core.progress.reading import Answer, outcome, read_answer
from core.progress.step import Level, Rule, Step, Verdict

_WOULD_BE: Final[dict[Rule, str]] = {
    "same_failure": "A different failure, fewer failures, or success of what failed.",
    "identical": "A different answer to this call, a call not made before, or a change in the workspace.",
    "cycle": "A step outside this cycle whose answer is new, or a change in the workspace.",
    "workspace_return": "A change that leaves the workspace in a state it has not been in before.",
    "same_answer": "An answer that says something the earlier ones did not.",
    "nothing_new": "An answer not seen before, or a change in the workspace.",
    "waiting": "A change in what is waited for, or doing something else in the meantime.",
    "empty": "A reply with words or a tool call.",
    "same_text": "A tool call, a question to the person, or a final answer.",
    "monologue": "A tool call, a question to the person, or a final answer.",
}


class ProgressGuard:
    """Detects doom loops. Feed it every step in order; replaying the same steps gives the same verdicts."""

    __slots__ = ("_readings", "_state", "_steps")

    def __init__(self) -> None:
        self._steps = 0
        self._state = State()
        self._readings: Recent[tuple[int, bool, int], Answer] = Recent(128)

    def observe(self, step: Step) -> Verdict | None:
        """What to do after this step: None goes on. A stop is always preceded by a nudge since a person last spoke.

        A stop is repeated for every further step of the same loop; a `user` or `credential` step forgets all.
        """
        where = self._steps if step.ref is None else step.ref
        self._steps += 1
        state = self._state
        match step.kind:
            case "user" | "credential":
                self._state = State(state.workspace)
                return None
            case "compact":
                return _judge(state, rules.compaction(state, where))
            case "text" | "empty":
                return _judge(state, rules.speech(state, step, where))
            case "tool":
                return _judge(state, self._tool(state, step, where))
            case _:
                return None

    def _tool(self, state: State, step: Step, where: int) -> list[rules.Finding]:
        args = as_args(step.args)
        call = read_call(step.tool, args)
        answer = self._read(step, call, args)
        new_turn = step.turn is None or step.turn != state.last_turn
        state.last_turn = step.turn
        if new_turn:
            state.turns += 1
            state.turn_pairs = set()
        state.talk = state.resaid = state.compacted = 0
        state.speech.clear()
        waits = step.polls or bool(step.waited_s and step.waited_s > 0)
        seen = Seen(state, call, answer)
        findings = rules.workspace(state, step, seen, where)
        seen.settle(state, waits, step.workspace)
        findings += rules.failures(state, seen, waits, where)
        findings += rules.in_vain(state, step, seen, waits, where)
        if waits:
            state.waits += 1
            state.cycles.clear()
            findings += rules.waiting(state, step, call, answer, where)
        else:
            findings += rules.identical(state, seen, where)
            findings += rules.cycle(state, seen, new_turn, where)
            findings += rules.same_answer(state, seen, where)
            findings += rules.nothing_new(state, seen, step.workspace is not None, where)
            state.last_target = call.target
        return findings

    def _read(self, step: Step, call: Call, args: Any) -> Answer:
        text, ok = outcome(step.output, step.ok and not step.rejected)
        key = (hash(text), ok, hash((call.key, step.rejected)))
        answer = self._readings.get(key)
        if answer is None:
            answer = read_answer(text, ok, step.tool, args, rejected=step.rejected)
            self._readings.put(key, answer)
        return answer


def _judge(state: State, findings: list[rules.Finding]) -> Verdict | None:
    """One verdict of all that is due: a stop where a nudge went before it, a nudge where none stands already."""
    if not findings:
        return None
    ready = [f for f in findings if f.level == "stop" and (state.live or (f.rule, f.key) in state.nudged)]
    told = {f.rule for f in findings if (f.rule, f.key) in state.nudged}
    untold = [f for f in findings if f.rule not in told]
    for finding in findings:
        state.nudged.put((finding.rule, finding.key), True)
    if ready:
        return _verdict("stop", ready[0])
    if untold and not state.live:
        state.live = True
        return _verdict("nudge", untold[0])
    return None


def _verdict(level: Level, finding: rules.Finding) -> Verdict:
    return Verdict(
        level,
        finding.rule,
        {
            "rule": finding.rule,
            "failure": finding.failure[:500],
            "count": finding.count,
            "first": finding.first,
            "last": finding.last,
            "calls": list(finding.calls),
            "progress_would_be": _WOULD_BE[finding.rule],
        },
    )
