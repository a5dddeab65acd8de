"""What a judge that is a model is told and believed: a frozen rubric, pairs in both orders, never its own family."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Protocol

Word = Literal["first", "second", "tie"]
Grade = Literal["pass", "fail"]
Winner = Literal["baseline", "candidate", "tie"]
State = Literal["judged", "vetoed", "unjudged"]
"""`vetoed`: checks that compute have decided, whatever a judge would say. `unjudged`: the judge gave no verdict."""


@dataclass(frozen=True, slots=True)
class Rubric:
    """What a judge is told, fixed before anything is judged. `digest` names it in every result."""

    text: str
    criteria: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """`sha256:` and hex, of the whole rubric."""
        whole = json.dumps([self.text, list(self.criteria)], ensure_ascii=False).encode()
        return "sha256:" + hashlib.sha256(whole).hexdigest()


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge said when it was asked once: `word` is None where it gave no verdict, and `why` then says so. `usd`
    is a decimal string, None while unknown; `session` is where it was asked."""

    word: str | None
    why: str
    session: str | None = None
    usd: str | None = None
    tokens: int = 0
    attempts: int = 1


class Judge(Protocol):
    """Says what fits a rubric. `families` are its model's, of which the author and the candidate must not be. It knows
    nobody's origin, and whatever fails comes back as an opinion without a word."""

    name: str
    families: frozenset[str]

    async def prefer(self, rubric: Rubric, task: str, first: str, second: str) -> Opinion:
        """The better of two outputs as they stand: a `Word`."""

    async def grade(self, rubric: Rubric, task: str, output: str) -> Opinion:
        """Whether an output meets the rubric: a `Grade`."""


class SameFamily(ValueError):
    """A judge of the author's or the candidate's own family is no judge of its work."""


def refuse_kin(judge: Judge, others: frozenset[str], *, forced: bool = False) -> None:
    """Raises SameFamily where the judge's model is of one of these families, unless that was forced."""
    shared = sorted(judge.families & others)
    if shared and not forced:
        raise SameFamily(
            f"{judge.name} is of the family {' and '.join(shared)}, as is what wrote or ran what it would judge. "
            "Choose a judge of another family, or force it."
        )


@dataclass(frozen=True, slots=True)
class Preference:
    """What was found of a pair. `winner` is a tie too where the two orders disagree (`consistent` is then false), None
    where it is `unjudged`. `kin` says that a judge of the same family was forced."""

    winner: Winner | None
    state: State
    why: str
    judge: str
    rubric: str
    consistent: bool = True
    kin: bool = False
    opinions: tuple[Opinion, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The row of a record."""
        said = {"winner": self.winner, "state": self.state, "consistent": self.consistent, "why": self.why}
        return {**said, "judge": self.judge, "rubric": self.rubric, "same_family": self.kin, **spent_on(self.opinions)}


async def both_orders(
    judge: Judge,
    rubric: Rubric,
    task: str,
    baseline: str,
    candidate: str,
    *,
    others: frozenset[str] = frozenset(),
    forced: bool = False,
) -> Preference:
    """Put a pair to the judge in both orders. Raises SameFamily where one of `others`, the families that wrote and ran
    the two, is the judge's own and that is not forced."""
    refuse_kin(judge, others, forced=forced)
    forth = await judge.prefer(rubric, task, baseline, candidate)
    asked = (forth,) if forth.word is None else (forth, await judge.prefer(rubric, task, candidate, baseline))
    winner, consistent = settled(*(one.word for one in asked)) if len(asked) == 2 else (None, True)
    state: State = "judged" if winner is not None else "unjudged"
    kin = bool(judge.families & others)
    return Preference(winner, state, asked[-1].why, judge.name, rubric.digest, consistent, kin, asked)


def settled(forth: str | None, back: str | None) -> tuple[Winner | None, bool]:
    """Who won, of baseline first and of candidate first, and whether the two orders agree; None where one gave no
    word."""
    said: Mapping[str, Winner] = {"first": "baseline", "second": "candidate", "tie": "tie"}
    turned: Mapping[str, Winner] = {"first": "candidate", "second": "baseline", "tie": "tie"}
    if forth is None or back is None:
        return None, True
    return (said[forth], True) if said[forth] == turned[back] else ("tie", False)


def veto(baseline: bool, candidate: bool) -> Winner | None:
    """Who wins by checks that compute, by whether each arm passed them; None where both did and a judge may speak."""
    if baseline and candidate:
        return None
    return "baseline" if baseline else "candidate" if candidate else "tie"


def spent_on(opinions: Sequence[Opinion]) -> dict[str, Any]:
    """The sessions a judge was asked in, and what that took; `usd` is None where any of it is not known."""
    known = all(one.usd is not None for one in opinions)
    usd = format(sum((Decimal(one.usd or 0) for one in opinions), Decimal("0.00")), "f") if known else None
    return {
        "sessions": [one.session for one in opinions if one.session is not None],
        "attempts": sum(one.attempts for one in opinions),
        "tokens": sum(one.tokens for one in opinions),
        "usd": usd,
    }


def judge_agreement(verdicts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """How far a judge and people agree, of pairs (judge's word, person's): `pairs` is how many there are, `rate` the
    share that is the same, `kappa` Cohen's, which takes off what chance alone would give; None where it has no value
    (no pairs, or both say one word only)."""
    count = len(verdicts)
    same = sum(judge == person for judge, person in verdicts)
    rate = round(same / count, 4) if count else None
    return {"pairs": count, "same": same, "rate": rate, "kappa": kappa(verdicts)}


def kappa(verdicts: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa of two who said a word each of the same things."""
    count = len(verdicts)
    if not count:
        return None
    words = {word for pair in verdicts for word in pair}
    ones, others = [one for one, _ in verdicts], [other for _, other in verdicts]
    chance = sum(ones.count(word) * others.count(word) for word in words) / count**2
    if chance == 1:
        return None
    observed = sum(one == other for one, other in verdicts) / count
    return round((observed - chance) / (1 - chance), 4)
