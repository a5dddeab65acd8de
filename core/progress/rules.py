"""The rules: each notes a step in what is remembered and finds what is due."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from core.progress.calls import Call, as_text
from core.progress.memory import Recent, Seen, State, Tally
from core.progress.reading import WHOLE, Answer
from core.progress.step import Level, Rule, Step

#: Of each rule: the score at which to nudge and to stop. Failures and answers count in twentieths (WHOLE = once).
FAILURE: Final = (4 * WHOLE, 6 * WHOLE)
IDENTICAL: Final = (4, 6)
IDENTICAL_DRIFTING: Final = (6, 8)  # the same but for times and ids: a benchmark may be run five times
IDENTICAL_SLEEPING: Final = (6, 10)  # the command itself waits
GUESS, GUESS_NUMBERED = 6, 9  # what weighs the refusal of another thing, where a certain repetition weighs WHOLE
WAITING: Final = (10, 14)
WAITING_DRIFTING: Final = (20, 40)
WAITING_HARDLY: Final = (8, 12)  # polls that do not wait between
CYCLE: Final = (3, 4)
CYCLE_DRIFTING: Final = (6, 8)  # two things measured by turns
RETURNS: Final = (3 * 4, 4 * 4)
ANSWERS: Final = (5 * 20, 8 * 20)
NOTHING_NEW: Final = (10 * 10, 16 * 10)
SPEECH: Final = (3, 4)
COMPACTIONS: Final = (4, 6)
MONOLOGUE: Final = (6, 10)

SLEEP_S: Final = 10.0  # a command that sleeps this long waits on something
PROGRESS_SLACK: Final = 4  # steps of progress between two equal failures that do not yet count as distance


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule finds due after a step; `key` tells apart the things a rule may find."""

    level: Level
    rule: Rule
    key: int
    failure: str
    count: int
    first: int
    last: int
    calls: tuple[str, ...]


def _due(score: float, limits: tuple[int, int]) -> Level | None:
    return "stop" if score >= limits[1] else "nudge" if score >= limits[0] else None


def _found(rule: Rule, key: int, tally: Tally, score: float, limits: tuple[int, int], failure: str) -> list[Finding]:
    level = _due(score, limits)
    if level is None:
        return []
    return [Finding(level, rule, key, failure, tally.count, tally.first, tally.last, tuple(tally.calls))]


def _tally(tallies: Recent[int, Tally], key: int, where: int) -> Tally:
    tally = tallies.get(key) or Tally(where, where)
    tallies.put(key, tally)
    return tally


def workspace(state: State, step: Step, seen: Seen, where: int) -> list[Finding]:
    """Edits that undo one another: states of the workspace come again, and none that is new."""
    digest = step.workspace
    if digest is None or digest == state.workspace:
        return []
    first = state.workspace is None
    state.workspace = digest
    if digest not in state.workspaces:
        state.workspaces.put(digest, True)
        state.returns = 0
        seen.new_workspace = not first
        return []
    state.workspaces.put(digest, True)
    if state.returns == 0:
        state.returns_first = where
    # a look at two versions that shows something new each time may go on four times as long
    state.returns += 4 if state.stale else 1
    level = _due(state.returns, RETURNS)
    if level is None:
        return []
    text = f"the workspace returned to an earlier state ({digest[:80]})"
    return [
        Finding(
            level, "workspace_return", 0, text, -(-state.returns // 4), state.returns_first, where, (seen.call.shown,)
        )
    ]


def failures(state: State, seen: Seen, waits: bool, where: int) -> list[Finding]:
    """The same failure whatever the call: counts on through changes, the slower the more was gained between."""
    call, answer = seen.call, seen.answer
    if not answer.failed:
        state.worked.put(call.manner, state.turns)
        if call.key in state.failed_calls:  # what failed works now
            state.failed_calls.drop(call.key)
            for key, tally in state.failures.items():
                if call.key in tally.callers:
                    state.failures.drop(key)
        return []
    state.failed_calls.put(call.key, True)
    findings: list[Finding] = []
    for key, weight in answer.failures:
        tally = _tally(state.failures, key, where)
        again = tally.count > 0
        if not again:
            tally.moving = seen.moving and not seen.new_workspace
        gained = state.progress - tally.progress
        idle = state.workspace is not None and tally.workspace == state.workspace
        waited = state.waits != tally.waits
        drifts = tally.lines != answer.lines
        known = call.key in tally.callers
        other = not known and (state.worked.get(call.manner) or 0) > tally.turn
        if not tally.met(where, state.turns, call):
            continue
        if not known:
            tally.callers = [*tally.callers[-15:], call.key]
        tally.progress, tally.waits, tally.lines = state.progress, state.waits, answer.lines
        tally.workspace = state.workspace
        factor = 1.0
        if again:
            tally.score *= 0.95 ** max(0, gained - PROGRESS_SLACK)
            if gained and idle:
                factor = 0.8  # something was read, but nothing was done about it
            elif gained:
                factor = 0.5 if drifts else 0.6  # perhaps the next of many places that fail alike
            if waits or (tally.moving and known):
                factor *= 0.35
            elif waited:
                factor *= 0.5
            if other:  # of many things that are done alike some fail: that is their own matter
                factor = 0.0
            elif answer.negative and not known:  # to look in many places and find nothing is work
                factor *= 0.3
        tally.score += weight * factor
        findings += _found("same_failure", key, tally, round(tally.score, 6), FAILURE, answer.text)
    return findings


def in_vain(state: State, step: Step, seen: Seen, waits: bool, where: int) -> list[Finding]:
    """The same refusal of one thing after another, with nothing learnt between: guesses, be they names or versions."""
    call, answer = seen.call, seen.answer
    if answer.shape == 0 or waits:
        return []
    tally = state.failures.get(answer.shape)
    if tally is None or tally.progress != state.progress:
        tally = Tally(where, where, progress=state.progress)
    state.failures.put(answer.shape, tally)
    before, tally.call = tally.call, call
    if not tally.met(where, state.turns, call):
        return []
    numbered = before is not None and _DIGITS.sub("0", before.text) == _DIGITS.sub("0", call.text)
    if numbered and step.rejected:  # nothing was looked up under another number: it is the same refusal
        tally.score += WHOLE
    else:
        tally.score += GUESS_NUMBERED if numbered else GUESS
    return _found("same_failure", answer.shape, tally, tally.score, FAILURE, answer.text)


def waiting(state: State, step: Step, call: Call, answer: Answer, where: int) -> list[Finding]:
    """Waiting for something that does not move: has patience, most of all where only a clock moves."""
    tally = state.waiting.get(call.key)
    if tally is None or tally.lines != answer.key:
        tally = Tally(where, where, raw=answer.raw, lines=answer.key)
    state.waiting.put(call.key, tally)
    tally.drifts |= tally.raw != answer.raw
    tally.waited |= (step.waited_s or 0) >= 1 or call.sleeps >= 1
    if not tally.met(where, state.turns, call):
        return []
    limits = WAITING_DRIFTING if tally.drifts else WAITING if tally.waited else WAITING_HARDLY
    return _found("waiting", call.key, tally, tally.count, limits, answer.text)


def identical(state: State, seen: Seen, where: int) -> list[Finding]:
    """One call and one answer, again, with nothing fresh between."""
    call, answer = seen.call, seen.answer
    tally = _tally(state.repeats, seen.pair, where)
    if tally.count == 0:
        tally.raw, tally.waits, tally.moving = answer.raw, state.waits, seen.moving and not seen.new_workspace
    tally.drifts |= tally.raw != answer.raw
    tally.waited |= tally.moving or tally.waits != state.waits
    if not tally.met(where, state.turns, call):
        return []
    if tally.waited:
        limits = WAITING
    elif call.sleeps >= SLEEP_S and not answer.failed:
        limits = IDENTICAL_SLEEPING
    else:
        limits = IDENTICAL_DRIFTING if tally.drifts else IDENTICAL
    return _found("identical", seen.pair, tally, tally.count, limits, answer.text)


def cycle(state: State, seen: Seen, new_turn: bool, where: int) -> list[Finding]:
    """The same two to twelve calls and answers in the same order; calls made in parallel are one element."""
    cycles = state.cycles
    raw = seen.answer.raw if seen.answer.measures else seen.pair
    if new_turn or not state.turn_pairs or not cycles.elements:
        state.turn_pairs.add(seen.pair)
        cycles.push(seen.pair, raw, f"{seen.call.shown[:80]} → {seen.answer.text[:60]}", where)
    elif seen.pair not in state.turn_pairs and len(state.turn_pairs) < 64:
        state.turn_pairs.add(seen.pair)
        cycles.replace(hash(frozenset(state.turn_pairs)), raw)
    repeated = cycles.repeated()
    if repeated is None:
        return []
    period, times = repeated
    level = _due(times, CYCLE_DRIFTING if cycles.drifts(period) else CYCLE)
    if level is None:
        return []
    labels = list(cycles.labels)[-period:]
    first = list(cycles.places)[-min(period * times, len(cycles.places))]
    return [Finding(level, "cycle", period, "; ".join(labels)[:500], times, first, where, tuple(labels[:4]))]


def same_answer(state: State, seen: Seen, where: int) -> list[Finding]:
    """Calls that differ, the answer known already: a search reworded, a command respelt."""
    call, answer = seen.call, seen.answer
    if answer.failed or answer.ack or answer.bare:
        return []
    tally = _tally(state.answers, seen.told, where)
    before, tally.call = tally.call, call
    if not tally.met(where, state.turns, call):
        return []
    if before is None or before.key == call.key:
        tally.score += 20 if before is None else 0
        return []
    tally.score += _alikeness(before, call, answer)
    return _found("same_answer", seen.told, tally, tally.score, ANSWERS, answer.text)


_WORD = re.compile(r"(?<![\w-])\w[\w./]{2,}")  # a name, and no option
_DIGITS = re.compile(r"\d+")


def _alikeness(before: Call, call: Call, answer: Answer) -> int:
    """What an equal answer to another call weighs, of 20. Going from thing to thing is work, asking in other words
    is not, nor is a number that makes no difference to much."""
    if call.query != before.query and not answer.negative:
        return 20
    if _DIGITS.sub("0", before.text) == _DIGITS.sub("0", call.text):
        return 20 if answer.long else 2 if answer.brief else 10
    if set(_WORD.findall(call.text.lower())) <= set(_WORD.findall(before.text.lower())):  # another spelling
        return 20
    return 14 if answer.negative else 2 if answer.brief else 10


def nothing_new(state: State, seen: Seen, measured: bool, where: int) -> list[Finding]:
    """Things seen before in any order. What a compaction made the model forget it may look up once more."""
    if seen.fresh or seen.reread or state.stale_turn == state.turns:
        return []
    if seen.times == 0:
        # a call not made before with a known answer: an "ok" for it may well be work, but an edit that leaves
        # the workspace as it was, of the file that was edited before, is not
        idle = measured and seen.call.target is not None and seen.call.target == state.last_target
        little = seen.answer.ack or seen.answer.brief
        gain = (16 if idle else 0) if little else 5 if seen.answer.failed else 10
    else:
        gain = 4 if seen.times == 1 else 10
    if gain == 0:
        return []
    state.stale_turn = state.turns
    if state.stale == 0:
        state.stale_first = where
    state.stale += gain
    level = _due(state.stale, NOTHING_NEW)
    if level is None:
        return []
    calls = tuple(dict.fromkeys(list(state.cycles.labels)[-4:])) or (seen.call.shown,)
    count = state.stale // 10
    return [Finding(level, "nothing_new", 0, seen.answer.text, count, state.stale_first, where, calls)]


def compaction(state: State, where: int) -> list[Finding]:
    """Nothing but compactions: the session only makes room for itself."""
    if state.compacted == 0:
        state.compacted_first = where
    state.compacted += 1
    state.epoch += 1
    level = _due(state.compacted, COMPACTIONS)
    if level is None:
        return []
    text = "a compaction with nothing done since the one before"
    return [Finding(level, "nothing_new", 1, text, state.compacted, state.compacted_first, where, ())]


_SPEECH_NOISE = re.compile(r"[\W\d_]+")


def speech(state: State, step: Step, where: int) -> list[Finding]:
    """Replies without a deed: empty ones, the same words, or words upon words."""
    text = as_text(step.output)
    said = _SPEECH_NOISE.sub(" ", f"{text[:2_000]} {text[-1_000:]}").strip().lower()
    state.turns += 1
    state.compacted = 0
    if state.talk == 0:
        state.talk_first = where
    state.talk += 1
    findings: list[Finding] = []
    silent = step.kind == "empty" or not text.strip()
    tally = _tally(state.speech, hash((silent, "" if silent else said or text.strip()[:1_000])), where)
    tally.met(where, state.turns, None)
    rule: Rule = "empty" if silent else "same_text"
    if tally.count > 1:  # words that alternate are each said again
        state.resaid += 1
    findings += _found(
        rule, 0, tally, max(tally.count, state.resaid), SPEECH, "an empty reply" if silent else text.strip()[:500]
    )
    level = _due(state.talk, MONOLOGUE)
    if level is not None:
        findings.append(Finding(level, "monologue", 0, text.strip()[:500], state.talk, state.talk_first, where, ()))
    return findings
