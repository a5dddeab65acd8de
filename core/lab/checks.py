"""The checks of a case: pure decisions on what one run said, did, left behind and took."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from core.lab.matching import contains_all, differences, json_in, numbers_in, regex_found, schema_problem
from core.lab.scoring import score_problem
from core.lab.wanted import Check


@dataclass(frozen=True, slots=True)
class Called:
    """One tool call of a run."""

    tool: str
    args: Mapping[str, Any]
    ok: bool


@dataclass(frozen=True, slots=True)
class Exited:
    """How a command in the workspace ended: `exit` is None where it was killed at its deadline."""

    exit: int | None
    output: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run came to. `file(path)` gives a workspace file's bytes or None, `built_file(path)` one of the revision
    a Builder saved; `built` is `{agent, validated, published}` of a Builder; `exits` what commands came to, by their
    text; `usd` is None while unknown; `seconds` is wall time."""

    output: str
    stop: str
    calls: Sequence[Called] = ()
    tokens: int = 0
    steps: int = 0
    usd: str | None = None
    seconds: float = 0.0
    file: Callable[[str], bytes | None] = lambda path: None
    built_file: Callable[[str], bytes | None] = lambda path: None
    built: Mapping[str, Any] = field(default_factory=dict)
    exits: Mapping[str, Exited] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a check passed; `why` says what was found where it did not. `about` is what else its record says: of a
    judge's, its `state` (judged, vetoed or unjudged), name, rubric, sessions and cost."""

    check: Check
    passed: bool
    why: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unjudged(self) -> bool:
        """Whether nobody could say: it has not passed, and it has not failed either."""
        return self.about.get("state") == "unjudged"

    def to_json(self) -> dict[str, Any]:
        """The row of the evaluation's record."""
        row = {"check": self.check.label, "kind": self.check.kind, "passed": self.passed, "why": self.why}
        return {**row, **self.about}


def judge(check: Check, seen: Seen) -> Verdict:
    """The verdict on one check. Pure but for `seen.file`; a regular expression is given two seconds."""
    try:
        why = _problem(check, seen)
    except (RecursionError, ArithmeticError, ValueError, TypeError) as error:
        # What a model says may be nested or large without end, or no number: none of it ends an evaluation.
        why = f"it cannot be compared: {error}"
    return Verdict(check, why is None, why or "")


def _problem(check: Check, seen: Seen) -> str | None:
    want = check.want
    match check.kind:
        case "equals":
            return None if seen.output.strip() == str(want).strip() else _found(seen.output)
        case "contains" | "absent":
            return _text(check.kind, want, seen.output)
        case "regex":
            return regex_found(want, seen.output)
        case "json_schema":
            return _on_json(seen.output, lambda value: schema_problem(want, value))
        case "json":
            return _on_json(seen.output, lambda value: _json(want, value))
        case "number":
            return _number(want, seen.output)
        case "autoevals":
            return score_problem(want, seen.output)
        case "judge":
            return "no judge was asked"
        case "calls":
            return _calls(want, seen.calls)
        case "file":
            return _file(want, seen.file(str(want["path"])))
        case "bundle":
            return _file(want, seen.built_file(str(want["path"])))
        case "build":
            wrong = [f"{key} is {seen.built.get(key)!r}" for key in want if seen.built.get(key) != want[key]]
            return "; ".join(wrong) or None
        case "command":
            return _command(want, seen.exits.get(str(want["run"])))
        case "stop":
            wanted = [want] if isinstance(want, str) else list(want)
            return None if seen.stop in wanted else f"it stopped as {seen.stop}"
        case "limits":
            return _limits(want, seen)


def _found(text: str) -> str:
    line = " ".join(text.split())
    return f"it said: {line if len(line) <= 300 else line[:299] + '…'}"


def _text(kind: str, want: Mapping[str, Any], text: str) -> str | None:
    wanted = [want["text"]] if isinstance(want.get("text"), str) else list(want.get("text", ()))
    missing, present = contains_all(text, [str(w) for w in wanted], ignore_case=bool(want.get("ignore_case")))
    if kind == "contains":
        return f"it lacks {', '.join(map(repr, missing))}; {_found(text)}" if missing else None
    return f"it has {', '.join(map(repr, present))}" if present else None


def _on_json(text: str, problem: Callable[[Any], str | None]) -> str | None:
    found = json_in(text)
    return problem(found[0]) if found else f"it is no JSON; {_found(text)}"


def _json(want: Mapping[str, Any], value: Any) -> str | None:
    tolerance = float(want.get("tolerance", 0))
    found = differences(want["value"], value, tolerance=tolerance, ignore=frozenset(want.get("ignore", ())))
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return "; ".join(found[:5]) + more if found else None


def _number(want: Mapping[str, Any], text: str) -> str | None:
    found = numbers_in(text)
    pick = want.get("pick", "last")
    if pick == "only" and len(found) != 1:
        return f"it has {len(found)} numbers, not one"
    picked = {"last": found[-1:], "first": found[:1]}.get(str(pick), found)
    value, tolerance = float(want["value"]), float(want.get("tolerance", 0))
    allowed = tolerance * abs(value) if want.get("relative") else tolerance
    if any(abs(number - value) <= allowed + 1e-12 for number in picked):
        return None
    return f"it has {', '.join(f'{n:g}' for n in picked[:5])}" if picked else f"it has no number; {_found(text)}"


def _calls(want: Mapping[str, Any], calls: Sequence[Called]) -> str | None:
    names = [call.tool for call in calls]
    made = f"it called {', '.join(names) or 'nothing'}"
    if missing := [name for name in _names(want, "used") if name not in names]:
        return f"{', '.join(missing)} was not called; {made}"
    if forbidden := sorted({name for name in _names(want, "forbidden") if name in names}):
        return f"{', '.join(forbidden)} was called"
    rest = iter(names)
    if not all(name in rest for name in _names(want, "in_order")):
        return f"not in that order; {made}"
    if "exactly" in want and names != _names(want, "exactly"):
        return made
    if "at_most" in want and len(names) > int(want["at_most"]):
        return f"{len(names)} calls"
    for name, args in dict(want.get("args", {})).items():
        given = [call.args for call in calls if call.tool == name]
        if not any(all(key in one and one[key] == value for key, value in args.items()) for one in given):
            return f"{name} was not called with {json.dumps(args)}, but with {json.dumps(given)[:300]}"
    return None


def _names(want: Mapping[str, Any], key: str) -> list[str]:
    given = want.get(key, ())
    return [given] if isinstance(given, str) else [str(name) for name in given]


def _file(want: Mapping[str, Any], data: bytes | None) -> str | None:
    path = want["path"]
    if want.get("exists") is False:
        return None if data is None else f"{path} is there"
    if data is None:
        return f"{path} is not there"
    text = data.decode("utf-8", "replace")
    if "equals" in want and text.strip() != str(want["equals"]).strip():
        return f"{path}: {_found(text)}"
    for kind in ("contains", "absent"):
        if kind in want and (why := _text(kind, {"text": want[kind]}, text)) is not None:
            return f"{path}: {why}"
    if "regex" in want and (why := regex_found(str(want["regex"]), text)) is not None:
        return f"{path}: {why}"
    return None


def _command(want: Mapping[str, Any], ran: Exited | None) -> str | None:
    if ran is None:
        return "it was not run: no sandbox was at hand"
    wanted = int(want.get("exit", 0))
    if ran.exit != wanted:
        how = "was stopped at its deadline" if ran.exit is None else f"exited with {ran.exit}"
        return f"it {how}: {ran.output[-300:].strip()}"
    if "contains" in want:
        return _text("contains", {"text": want["contains"]}, ran.output)
    return None


def _limits(want: Mapping[str, Any], seen: Seen) -> str | None:
    for name, spent in (("tokens", seen.tokens), ("steps", seen.steps), ("seconds", seen.seconds)):
        if name in want and spent > float(want[name]):
            return f"{spent:g} {name}, more than {want[name]}"
    if "usd" in want:
        if seen.usd is None:
            return "what it cost is not known"
        if Decimal(seen.usd) > Decimal(str(want["usd"])):
            return f"{seen.usd} usd, more than {want['usd']}"
    return None
