"""A judge is asked twice, and believed where it says the same both times."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from core.lab.judging import Judge, Rubric, SameFamily, Word, both_orders, judge_agreement

RUBRIC = Rubric("The shorter answer is the better one.", ("short",))


@dataclass
class Scripted:
    """Gives these words in turn."""

    words: list[Word]
    name: str = "scripted"
    family: str = "tests"
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def prefer(self, rubric: Rubric, task: str, first: str, second: str) -> Word:
        self.asked.append((first, second))
        return self.words.pop(0)


@pytest.mark.parametrize(
    ("words", "winner", "consistent"),
    [
        (["first", "second"], "baseline", True),
        (["second", "first"], "candidate", True),
        (["tie", "tie"], "tie", True),
        (["first", "first"], "tie", False),
        (["second", "second"], "tie", False),
        (["first", "tie"], "tie", False),
    ],
)
async def test_the_two_orders_must_agree(words: list[Word], winner: str, consistent: bool) -> None:
    judge = Scripted(words)
    found = await both_orders(judge, RUBRIC, "Say it.", "old", "new")
    assert (found.winner, found.consistent, found.rubric) == (winner, consistent, RUBRIC.digest)
    assert judge.asked == [("old", "new"), ("new", "old")]


async def test_a_judge_of_the_authors_family_is_refused_before_it_is_asked() -> None:
    judge: Judge = Scripted([])
    with pytest.raises(SameFamily, match="tests"):
        await both_orders(judge, RUBRIC, "Say it.", "old", "new", author="tests")


def test_any_change_of_a_rubric_has_another_digest() -> None:
    digests = {RUBRIC.digest, Rubric(RUBRIC.text).digest, Rubric(RUBRIC.text + " ", ("short",)).digest}
    assert len(digests) == 3


def test_agreement_with_people_is_a_share_of_pairs() -> None:
    verdicts = [("baseline", "baseline"), ("tie", "candidate"), ("tie", "tie"), ("candidate", "candidate")]
    assert judge_agreement(verdicts) == {"pairs": 4, "same": 3, "rate": 0.75}  # type: ignore[arg-type]
    assert judge_agreement([])["rate"] is None
