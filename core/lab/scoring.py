"""Scorers of the `autoevals` library as checks: those that compute alone; a threshold makes pass or fail."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, get_args

from core.lab.matching import json_in, numbers_in

ScorerName = Literal[
    "ExactMatch",  # the output is `expected`: 1 or 0
    "Levenshtein",  # how few letters must change
    "JSONDiff",  # how alike two JSON values are, part by part
    "NumericDiff",  # how near the output's number (the last, or `pick`: first) is
]
SCORERS: Final = get_args(ScorerName)
LONGEST: Final = 100_000
"""Characters of an output that are compared; with more the time would be minutes."""
_MISSING: Final = "the library autoevals is not installed. Install it with: pip install 'artificer[eval]'"


def scorer_problem(want: Any) -> str | None:
    """Why a check `{scorer, expected, at_least, pick}` cannot be used, None where it can. Nothing is imported."""
    if not isinstance(want, Mapping) or "scorer" not in want or "expected" not in want:
        return "it wants scorer, expected and at_least."
    if (name := want["scorer"]) not in SCORERS:
        listed = ", ".join(SCORERS)
        return f"there is no scorer {name!r} here, only what computes alone: {listed}. A judge check asks a model."
    least = want.get("at_least", 1 if name == "ExactMatch" else None)
    if isinstance(least, bool) or not isinstance(least, int | float) or not 0 < least <= 1:
        return f"{name} wants at_least, above 0 and at most 1: from which score on it passes."
    number = isinstance(want["expected"], int | float) and not isinstance(want["expected"], bool)
    if name == "NumericDiff" and not number:
        return "NumericDiff compares with a number."
    if want.get("pick", "last") not in ("first", "last"):
        return "pick is first or last."
    return None if find_spec("autoevals") is not None else _MISSING


def score_problem(want: Mapping[str, Any], output: str) -> str | None:
    """None where the output scores enough, else what it scores."""
    name, expected, least = want["scorer"], want["expected"], float(want.get("at_least", 1))
    if len(output) > LONGEST:
        return f"it has {len(output):,} characters, too many to score"
    given: Any = output.strip()
    if name == "NumericDiff":
        numbers = numbers_in(output)
        if not numbers:
            return "it has no number"
        given = numbers[0 if want.get("pick") == "first" else -1]
    elif name == "JSONDiff":
        found = json_in(output)
        if not found:
            return "it is no JSON"
        given = found[0]
    elif name == "Levenshtein":
        expected = str(expected).strip()
    score = _score(name, given, expected)
    return None if score >= least else f"{name} is {score:.4g}, less than {least:g}"


def _score(name: str, given: Any, expected: Any) -> float:
    """The library's score, 0 to 1. Raises ModuleNotFoundError, in words, where the library is gone meanwhile."""
    try:
        library = import_module("autoevals")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_MISSING[0].upper() + _MISSING[1:], name="autoevals") from error
    found = getattr(library, name)().eval(given, expected).score
    return float(found or 0)
