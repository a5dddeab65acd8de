"""A judge is asked twice, and believed where it says the same both times; how far it agrees with people is counted."""

from __future__ import annotations

import pytest

from core.lab.families import families_of
from core.lab.judging import Judge, Rubric, SameFamily, both_orders, judge_agreement, veto
from tests.harness.judges import Scripted

RUBRIC = Rubric("The shorter answer is the better one.", ("short",))


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
async def test_the_two_orders_must_agree(words: list[str | None], winner: str, consistent: bool) -> None:
    judge = Scripted(words)
    found = await both_orders(judge, RUBRIC, "Say it.", "old", "new")
    assert (found.winner, found.consistent, found.state, found.rubric) == (winner, consistent, "judged", RUBRIC.digest)
    assert judge.asked == [("old", "new"), ("new", "old")]
    row = found.to_json()
    assert (row["sessions"], row["usd"], row["tokens"]) == (["s1", "s2"], "0.02", 30)


@pytest.mark.parametrize("words", [[None], ["first", None]])
async def test_a_pair_one_order_of_which_got_no_verdict_is_unjudged(words: list[str | None]) -> None:
    found = await both_orders(Scripted(words), RUBRIC, "Say it.", "old", "new")
    assert (found.winner, found.state) == (None, "unjudged")


async def test_a_judge_of_the_authors_family_is_refused_before_it_is_asked() -> None:
    judge: Judge = Scripted([])
    with pytest.raises(SameFamily, match="tests"):
        await both_orders(judge, RUBRIC, "Say it.", "old", "new", others=frozenset({"tests", "other"}))


async def test_a_forced_judge_of_the_same_family_is_called_that() -> None:
    others = frozenset({"tests"})
    found = await both_orders(Scripted(["tie", "tie"]), RUBRIC, "Say it.", "old", "new", others=others, forced=True)
    assert found.to_json()["same_family"] is True


def test_any_change_of_a_rubric_has_another_digest() -> None:
    digests = {RUBRIC.digest, Rubric(RUBRIC.text).digest, Rubric(RUBRIC.text + " ", ("short",)).digest}
    assert len(digests) == 3


def test_checks_that_compute_veto_what_a_judge_would_say() -> None:
    found = [veto(*arms) for arms in ((True, True), (True, False), (False, True), (False, False))]
    assert found == [None, "baseline", "candidate", "tie"]


def test_agreement_is_counted_with_what_chance_would_give_taken_off() -> None:
    """35 of 50 are the same; by chance alone half would be, as one says yes to half of them."""
    pairs = [("pass", "pass")] * 20 + [("pass", "fail")] * 5 + [("fail", "pass")] * 10 + [("fail", "fail")] * 15
    assert judge_agreement(pairs) == {"pairs": 50, "same": 35, "rate": 0.7, "kappa": 0.4}
    assert judge_agreement([("a", "a"), ("b", "b")])["kappa"] == 1.0
    assert judge_agreement([("a", "b"), ("b", "a")])["kappa"] == -1.0


def test_agreement_that_cannot_be_counted_has_no_value() -> None:
    assert judge_agreement([]) == {"pairs": 0, "same": 0, "rate": None, "kappa": None}
    assert judge_agreement([("pass", "pass")] * 9) == {"pairs": 9, "same": 9, "rate": 1.0, "kappa": None}


@pytest.mark.parametrize(
    ("provider", "model", "families"),
    [
        ("anthropic", None, {"anthropic"}),
        ("anthropic", "claude-sonnet-5-5", {"anthropic"}),
        ("claude_code:api", None, {"anthropic"}),
        ("codex", None, {"openai"}),
        ("openai_compatible", "gpt-5", {"openai"}),
        ("openai_compatible", "openai/o3-mini", {"openai"}),
        ("openai_compatible", "anthropic/claude-3", {"anthropic"}),
        ("openai_compatible", "qwen3-8b", {"alibaba"}),
        ("openai_compatible", "deepseek-r1-distill-qwen-7b", {"deepseek", "alibaba"}),
        ("openai_compatible", "Ministral-8B", {"mistral"}),
        ("openai_compatible", "house-model-2", {"house"}),
        ("anthropic", "glm-4.6", {"zhipu"}),
        ("gemini-cli", None, {"google"}),
        ("acp", None, {"acp"}),
        ("offline", None, {"rules"}),
    ],
)
def test_a_models_family_is_what_its_name_says_else_its_providers(
    provider: str, model: str | None, families: set[str]
) -> None:
    assert families_of(provider, model) == families
