"""The seam for judges that are models: a frozen rubric, pairs put to it in both orders, disagreement a tie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Word = Literal["first", "second", "tie"]
Winner = Literal["baseline", "candidate", "tie"]


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


class Judge(Protocol):
    """Says which of two outputs fits a rubric better. `family` is its model's, which must not be the author's."""

    name: str
    family: str

    async def prefer(self, rubric: Rubric, task: str, first: str, second: str) -> Word:
        """The better of the two, as they stand; it knows neither's origin."""


class SameFamily(ValueError):
    """A judge of the author's own family is no judge of its work."""


@dataclass(frozen=True, slots=True)
class Preference:
    """What a judge said of a pair: `winner` is a tie too where the two orders disagree (`consistent` is then false)."""

    winner: Winner
    consistent: bool
    judge: str
    rubric: str

    def to_json(self) -> dict[str, Any]:
        """The row of a record."""
        return {"winner": self.winner, "consistent": self.consistent, "judge": self.judge, "rubric": self.rubric}


async def both_orders(
    judge: Judge, rubric: Rubric, task: str, baseline: str, candidate: str, *, author: str | None = None
) -> Preference:
    """Put a pair to the judge in both orders. Raises SameFamily where `author`, the family that wrote the candidate,
    is the judge's own."""
    if author is not None and author == judge.family:
        raise SameFamily(f"{judge.name} is of the family {author}, which wrote the candidate. Choose another judge.")
    forth = await judge.prefer(rubric, task, baseline, candidate)
    back = await judge.prefer(rubric, task, candidate, baseline)
    winner = settled(forth, back)
    return Preference(winner or "tie", winner is not None, judge.name, rubric.digest)


def settled(forth: Word, back: Word) -> Winner | None:
    """Who won, of baseline first and of candidate first; None where the two disagree."""
    said: Mapping[Word, Winner] = {"first": "baseline", "second": "candidate", "tie": "tie"}
    turned: Mapping[Word, Winner] = {"first": "candidate", "second": "baseline", "tie": "tie"}
    return said[forth] if said[forth] == turned[back] else None


def judge_agreement(verdicts: Sequence[tuple[Winner, Winner]]) -> dict[str, Any]:
    """How often a judge and people said the same, of pairs (judge, person); `rate` is None without any."""
    same = sum(judge == person for judge, person in verdicts)
    return {"pairs": len(verdicts), "same": same, "rate": round(same / len(verdicts), 4) if verdicts else None}
