"""What a suite may ask of a run: the kinds of check, read strictly, so that a slip is said before anything runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, get_args

from core.lab.matching import bad_schema
from core.lab.scoring import scorer_problem
from core.stops import Stop

CheckKind = Literal[
    "equals",  # the output, surrounding white space aside, is this text
    "contains",  # the output has each of these texts; {text, ignore_case}
    "absent",  # the output has none of these texts; {text, ignore_case}
    "regex",  # this pattern is found in the output, within two seconds
    "json_schema",  # the output is JSON of this schema (2020-12)
    "json",  # the output is this JSON; {value, ignore: [paths], tolerance}
    "number",  # {value, tolerance, relative, pick: last | first | any | only}
    "autoevals",  # {scorer, expected, at_least}: see core/lab/scoring.py
    "judge",  # {rubric, criteria}: a model says whether the output meets it, where every other check has passed
    "calls",  # {used, in_order, forbidden, exactly: [names], args: {name: {…}}, at_most}
    "file",  # of the workspace: {path, exists, equals, contains, absent, regex}
    "build",  # of the Builder: {agent, validated, published}: what stands at its end
    "bundle",  # of the revision the Builder saved last: as `file`
    "command",  # in the workspace: {run, exit, contains, timeout}
    "stop",  # the stop is this one, or one of these
    "limits",  # {usd, tokens, steps, seconds}: spent no more than that
]
KINDS: Final = get_args(CheckKind)


class BadCheck(ValueError):
    """A check of a suite cannot be read; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its kind and what it wants."""

    kind: CheckKind
    want: Any

    @property
    def label(self) -> str:
        """The check in a line, for people."""
        text = json.dumps(self.want, ensure_ascii=False, default=str)
        return f"{self.kind}: {text if len(text) <= 120 else text[:119] + '…'}"


# --- what stands under a key ---------------------------------------------------------------------------

Fits = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _texts(value: Any) -> bool:
    """One or several; of none there is nothing to check."""
    return _text(value) or (_list_of_texts(value) and len(value) > 0)


def _list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_text, value))


def _all_names(value: Any) -> bool:
    """None is an answer too: nothing was called."""
    return _text(value) or _list_of_texts(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def _amount(value: Any) -> bool:
    return _number(value) and value >= 0


def _above_zero(value: Any) -> bool:
    return _number(value) and value > 0


def _money(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return False
    return amount.is_finite() and amount >= 0


def _scalar(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _anything(value: Any) -> bool:
    return True


def _name(value: Any) -> bool:
    return value is None or _text(value)


def _pattern(value: Any) -> bool:
    try:
        return _text(value) and re.compile(value) is not None
    except re.error:
        return False


def _pick(value: Any) -> bool:
    return value in ("last", "first", "any", "only")


def _arguments(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(args, Mapping) for args in value.values())


_FILE: Final[Mapping[str, Fits]] = {
    "path": _text,
    "exists": _flag,
    "equals": _scalar,
    "contains": _texts,
    "absent": _texts,
    "regex": _pattern,
}
_KEYS: Final[Mapping[str, Mapping[str, Fits]]] = {
    "contains": {"text": _texts, "ignore_case": _flag},
    "absent": {"text": _texts, "ignore_case": _flag},
    "json": {"value": _anything, "ignore": _list_of_texts, "tolerance": _amount},
    "number": {"value": _number, "tolerance": _amount, "relative": _flag, "pick": _pick},
    "autoevals": {"scorer": _anything, "expected": _anything, "at_least": _anything, "pick": _anything},
    "judge": {"rubric": _text, "criteria": _list_of_texts},
    "calls": {
        "used": _texts,
        "in_order": _texts,
        "forbidden": _texts,
        "exactly": _all_names,
        "args": _arguments,
        "at_most": _whole,
    },
    "file": _FILE,
    "bundle": _FILE,
    "build": {"agent": _name, "validated": _flag, "published": _flag},
    "command": {"run": _text, "exit": _whole, "contains": _texts, "timeout": _above_zero},
    "limits": {"usd": _money, "tokens": _amount, "steps": _amount, "seconds": _amount},
}
"""What each kind that wants several things takes, and what each of them may be."""
_NEEDED: Final[Mapping[str, str]] = {
    "contains": "text",
    "absent": "text",
    "json": "value",
    "number": "value",
    "judge": "rubric",
    "file": "path",
    "bundle": "path",
    "command": "run",
}
_SHORT: Final[Mapping[str, Fits]] = {"number": _number, "command": _text, "contains": _texts, "absent": _texts}
"""What may stand for the one thing that a kind needs."""


def parse_check(raw: Any) -> Check:
    """A check as a suite writes it: one key, the kind, and what it wants. Raises BadCheck."""
    if not isinstance(raw, Mapping) or len(raw) != 1:
        raise BadCheck(f"A check is one key of {', '.join(KINDS)} and what it wants.")
    ((kind, want),) = raw.items()
    if kind not in KINDS:
        raise BadCheck(f"There is no check {kind!r}. There are: {', '.join(KINDS)}.")
    if kind in _SHORT and _SHORT[kind](want):
        want = {_NEEDED[kind]: want}
    if kind == "json" and not (isinstance(want, Mapping) and "value" in want):
        want = {"value": want}
    problem = _keys_problem(kind, want) if kind in _KEYS else _plain_problem(kind, want)
    if problem is None and kind == "autoevals":
        problem = scorer_problem(want)
    if problem is not None:
        raise BadCheck(f"{kind}: {problem}")
    return Check(kind, want)


def _keys_problem(kind: str, want: Any) -> str | None:
    keys, needed = _KEYS[kind], _NEEDED.get(kind)
    if not isinstance(want, Mapping) or not want or (needed is not None and needed not in want):
        return f"it wants {needed or 'some of ' + ', '.join(keys)}."
    if unknown := [str(key) for key in want if key not in keys]:
        return f"it takes no {', '.join(sorted(unknown))}; it takes {', '.join(keys)}."
    wrong = [key for key, value in want.items() if not keys[key](value)]
    return f"{wrong[0]} cannot be {want[wrong[0]]!r}." if wrong else None


def _plain_problem(kind: str, want: Any) -> str | None:
    match kind:
        case "equals":
            return None if _scalar(want) else "it wants a text."
        case "regex":
            return None if _pattern(want) else f"{want!r} is no pattern."
        case "stop":
            stops = [want] if isinstance(want, str) else want
            known = [stop.value for stop in Stop]
            fits = _list_of_texts(stops) and stops and all(stop in known for stop in stops)
            return None if fits else f"it wants one or more of {', '.join(known)}."
        case _:
            return bad_schema(want)
