"""Each check passes what it should and says what it found where it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from core.lab.checks import Called, Exited, Seen, judge
from core.lab.matching import REGEX_S, differences, numbers_in
from core.lab.wanted import BadCheck, parse_check
from tests.harness.servers import FakeServer, Reply

CALLS = (Called("search", {"query": "tide", "limit": 3}, True), Called("read", {}, True), Called("search", {}, False))


def seen(output: str = "", **facts: Any) -> Seen:
    return Seen(output, facts.pop("stop", "completed"), **facts)


@pytest.mark.parametrize(
    ("check", "output", "passes"),
    [
        ({"equals": "4 metres"}, " 4 metres\n", True),
        ({"equals": "4 metres"}, "4 metres.", False),
        ({"contains": "metres"}, "4 metres", True),
        ({"contains": ["4", "feet"]}, "4 metres", False),
        ({"contains": {"text": "METRES", "ignore_case": True}}, "4 metres", True),
        ({"absent": "feet"}, "4 metres", True),
        ({"absent": ["feet", "metres"]}, "4 metres", False),
        ({"regex": r"^\d+ metres$"}, "It is:\n4 metres", True),
        ({"regex": r"^\d+ feet$"}, "4 metres", False),
        ({"json_schema": {"type": "object", "required": ["a"]}}, '{"a": 1}', True),
        ({"json_schema": {"type": "object", "required": ["a"]}}, 'Here:\n```json\n{"a": 1}\n```', True),
        ({"json_schema": {"type": "object", "required": ["a"]}}, "{}", False),
        ({"json_schema": {"type": "object"}}, "no JSON", False),
        ({"json": {"a": [1, {"b": None}]}}, '{"a": [1, {"b": null}]}', True),
        ({"json": {"a": 1}}, '{"a": 1, "b": 2}', False),
        ({"json": {"value": {"a": 1.0}, "tolerance": 0.1, "ignore": ["$.at"]}}, '{"a": 1.05, "at": "now"}', True),
        ({"json": {"value": [{"id": 1, "n": 2}], "ignore": ["$[*].id"]}}, '[{"id": 9, "n": 2}]', True),
        ({"json": {"a": True}}, '{"a": 1}', False),
        ({"number": 1234.5}, "It costs 1,234.50 euro", True),
        ({"number": {"value": 100, "tolerance": 0.02, "relative": True}}, "about 101", True),
        ({"number": {"value": 100, "tolerance": 0.5}}, "about 101", False),
        ({"number": {"value": 3, "pick": "first"}}, "3 of 7", True),
        ({"number": {"value": 3}}, "3 of 7", False),
        ({"number": {"value": 3, "pick": "any"}}, "2, 3 or 4", True),
        ({"number": {"value": 3, "pick": "only"}}, "3 of 7", False),
        ({"number": -4}, "it is −4 degrees", True),
        ({"number": 4}, "four", False),
    ],
)
def test_checks_of_the_output(check: dict[str, Any], output: str, passes: bool) -> None:
    verdict = judge(parse_check(check), seen(output))
    assert verdict.passed is passes
    assert bool(verdict.why) is not passes


@pytest.mark.parametrize(
    ("want", "output", "why"),
    [
        ({"scorer": "ExactMatch", "expected": "4 metres"}, " 4 metres\n", ""),
        ({"scorer": "ExactMatch", "expected": {"a": 1}}, '{"a":1}', ""),
        ({"scorer": "ExactMatch", "expected": "4 metres"}, "4 feet", "ExactMatch is 0, less than 1"),
        ({"scorer": "Levenshtein", "expected": "hello world", "at_least": 0.9}, "hello wrld", ""),
        ({"scorer": "Levenshtein", "expected": "hello world", "at_least": 0.95}, "hello wrld", "is 0.9091, less than"),
        ({"scorer": "JSONDiff", "expected": {"a": "tide", "b": 4}, "at_least": 0.9}, '{"b": 4, "a": "tide"}', ""),
        (
            {"scorer": "JSONDiff", "expected": {"a": 1, "b": 4}, "at_least": 0.9},
            '```json\n{"a": 1}\n```',
            "is 0.5, less",
        ),
        ({"scorer": "JSONDiff", "expected": {}, "at_least": 0.9}, "none", "no JSON"),
        ({"scorer": "JSONDiff", "expected": {"a": 0.5}, "at_least": 0.9}, f'{{"a": 1{"0" * 400}}}', "compared"),
        ({"scorer": "NumericDiff", "expected": 100, "at_least": 0.97}, "about 105 of 3, or 101", ""),
        ({"scorer": "NumericDiff", "expected": 100, "at_least": 0.97, "pick": "first"}, "110 or 100", "is 0.9524"),
        ({"scorer": "NumericDiff", "expected": 100, "at_least": 0.97}, "many", "no number"),
        ({"scorer": "Levenshtein", "expected": "x", "at_least": 0.1}, "x" * 100_001, "too many to score"),
    ],
)
def test_a_scorer_passes_from_its_threshold_on(want: dict[str, Any], output: str, why: str) -> None:
    verdict = judge(parse_check({"autoevals": want}), seen(output))
    assert verdict.passed is not bool(why)
    assert why in verdict.why


def test_scorers_that_ask_a_model_are_not_offered() -> None:
    for name in ("Factuality", "EmbeddingSimilarity", "Moderation", "ClosedQA"):
        with pytest.raises(BadCheck, match="computes alone"):
            parse_check({"autoevals": {"scorer": name, "expected": "x", "at_least": 0.5}})


@pytest.mark.parametrize("least", [None, 0, 1.5, True, "half"])
def test_a_scorer_wants_a_threshold_that_some_output_can_miss(least: Any) -> None:
    with pytest.raises(BadCheck, match="at_least"):
        parse_check({"autoevals": {"scorer": "Levenshtein", "expected": "x", "at_least": least}})


def test_where_the_library_is_not_installed_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.meta_path", [])
    for name in [name for name in sys.modules if name.partition(".")[0] == "autoevals"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(BadCheck, match=r"pip install 'artificer\[eval\]'"):
        parse_check({"autoevals": {"scorer": "ExactMatch", "expected": "x"}})


def test_the_library_is_loaded_when_it_first_scores() -> None:
    code = (
        "import sys; from core.lab.checks import Seen, judge\nfrom core.lab.wanted import parse_check\n"
        "check = parse_check({'autoevals': {'scorer': 'ExactMatch', 'expected': 'x'}})\n"
        "assert 'autoevals' not in sys.modules\n"
        "assert judge(check, Seen('x', 'completed')).passed and 'autoevals' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


@pytest.mark.parametrize(
    ("check", "output"),
    [
        ({"json_schema": {"properties": {"a": {"multipleOf": 0.1}}}}, '{"a": NaN}'),
        ({"autoevals": {"scorer": "ExactMatch", "expected": {"a": 1}}}, "9" * 5000),
        ({"json": {"value": {"a": 1}, "tolerance": 1}}, '{"a": ' + "9" * 400 + "}"),
    ],
)
def test_an_answer_that_cannot_be_compared_fails_its_check_and_nothing_else(check: Any, output: str) -> None:
    verdict = judge(parse_check(check), seen(output))
    assert not verdict.passed
    assert verdict.why


def test_an_answer_nested_without_end_fails_its_check_and_nothing_else() -> None:
    for check in ({"json": []}, {"json_schema": {"type": "array"}}):
        assert not judge(parse_check(check), seen("[" * 200_000 + "]" * 200_000)).passed


@pytest.mark.parametrize(
    ("want", "passes"),
    [
        ({"used": "search"}, True),
        ({"used": ["search", "write"]}, False),
        ({"forbidden": ["write"]}, True),
        ({"forbidden": ["read"]}, False),
        ({"in_order": ["search", "read"]}, True),
        ({"in_order": ["read", "read"]}, False),
        ({"exactly": ["search", "read", "search"]}, True),
        ({"exactly": ["search", "read"]}, False),
        ({"at_most": 3}, True),
        ({"at_most": 2}, False),
        ({"args": {"search": {"query": "tide"}}}, True),
        ({"args": {"search": {"query": "ebb"}}}, False),
    ],
)
def test_checks_of_the_trajectory(want: dict[str, Any], passes: bool) -> None:
    assert judge(parse_check({"calls": want}), seen(calls=CALLS)).passed is passes


@pytest.mark.parametrize(
    ("want", "passes"),
    [
        ({"path": "a.txt"}, True),
        ({"path": "b.txt"}, False),
        ({"path": "b.txt", "exists": False}, True),
        ({"path": "a.txt", "exists": False}, False),
        ({"path": "a.txt", "equals": "one two"}, True),
        ({"path": "a.txt", "contains": ["one"], "absent": "three"}, True),
        ({"path": "a.txt", "absent": "two"}, False),
        ({"path": "a.txt", "regex": "^one"}, True),
    ],
)
def test_checks_of_files(want: dict[str, Any], passes: bool) -> None:
    facts = seen(file=lambda path: b"one two\n" if path == "a.txt" else None)
    assert judge(parse_check({"file": want}), facts).passed is passes


@pytest.mark.parametrize(
    ("want", "passes"),
    [
        ("true", True),
        ("false", False),
        ({"run": "false", "exit": 1}, True),
        ({"run": "true", "contains": "ok"}, True),
        ({"run": "true", "contains": "no"}, False),
        ("sleep", False),
        ("never run", False),
    ],
)
def test_checks_of_commands(want: Any, passes: bool) -> None:
    exits = {"true": Exited(0, "ok\n"), "false": Exited(1, ""), "sleep": Exited(None, "")}
    assert judge(parse_check({"command": want}), seen(exits=exits)).passed is passes


def test_a_stop_is_one_of_those_wanted() -> None:
    facts = seen(stop="refused")
    assert judge(parse_check({"stop": ["refused", "awaiting_user"]}), facts).passed
    assert judge(parse_check({"stop": "completed"}), facts).why == "it stopped as refused"


@pytest.mark.parametrize(
    ("want", "why"),
    [
        ({"usd": "0.10", "tokens": 100, "steps": 2, "seconds": 3}, ""),
        ({"usd": 0.04}, "0.05 usd, more than 0.04"),
        ({"tokens": 99}, "100 tokens, more than 99"),
        ({"steps": 1}, "2 steps, more than 1"),
        ({"seconds": 2}, "2.5 seconds, more than 2"),
    ],
)
def test_limits_pass_or_fail(want: dict[str, Any], why: str) -> None:
    facts = seen(usd="0.05", tokens=100, steps=2, seconds=2.5)
    assert judge(parse_check({"limits": want}), facts).why == why


def test_an_unknown_cost_is_not_within_a_limit() -> None:
    assert judge(parse_check({"limits": {"usd": "9"}}), seen(usd=None)).why == "what it cost is not known"


def test_a_pattern_that_takes_for_ever_fails_in_time() -> None:
    verdict = judge(parse_check({"regex": "^(a+)+$"}), seen("a" * 40 + "b"))
    assert verdict.why == f"the pattern took more than {REGEX_S:g} s"


def test_a_schema_with_patterns_is_gone_by_and_none_of_them_takes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    check = parse_check({"json_schema": {"type": "string", "pattern": "^(a+)+$"}})
    assert judge(check, seen('"aaaa"')).passed
    assert judge(check, seen('"aab"')).why == "$: 'aab' does not match '^(a+)+$'"
    monkeypatch.setattr("core.lab.matching.SCHEMA_S", 0.5)
    assert judge(check, seen(f'"{"a" * 40}b"')).why == "the schema's patterns took more than 0.5 s"


@pytest.mark.parametrize(
    "raw",
    [
        {"equals": "a", "contains": "b"},
        "contains",
        {"eq": "a"},
        {"number": {"tolerance": 1}},
        {"file": {"exists": True}},
        {"calls": {"unused": []}},
        {"regex": "("},
        {"number": "abc"},
        {"number": {"value": float("nan")}},
        {"number": 10**400},
        {"limits": {"tokens": 10**400}},
        {"number": {"value": 1, "pick": "middle"}},
        {"limits": {}},
        {"limits": {"usd": "abc"}},
        {"limits": {"tokens": "abc"}},
        {"limits": {"seconds": -1}},
        {"calls": {"at_most": "many"}},
        {"calls": {"args": ["search"]}},
        {"contains": [5, 6]},
        {"contains": ""},
        {"contains": []},
        {"absent": {"text": []}},
        {"regex": ""},
        {"calls": {"forbidden": []}},
        {"file": {"path": "a", "contains": []}},
        {"equals": None},
        {"command": {"run": 5}},
        {"command": {"run": "true", "timeout": "long"}},
        {"file": {"path": "a", "exists": "yes"}},
        {"build": {"published": "yes"}},
        {"judge": {"criteria": ["short"]}},
        {"judge": {"rubric": "Short.", "criteria": [1]}},
        {"json": {"value": 1, "tolerance": "some"}},
        {"json_schema": ["object"]},
        {"json_schema": {"type": "objekt"}},
        {"stop": "complete"},
        {"stop": []},
    ],
)
def test_what_is_no_check_is_refused(raw: Any) -> None:
    with pytest.raises(BadCheck):
        parse_check(raw)


def test_a_schema_that_stands_elsewhere_is_not_fetched() -> None:
    with FakeServer([Reply(b"{}")]) as server:
        check = parse_check({"json_schema": {"$ref": f"{server.url}/schema.json"}})
        assert "refers to what is not in it" in judge(check, seen("{}")).why
    assert server.requests == []


def test_differences_name_their_places() -> None:
    want, have = {"a": [1, 2], "b": {"c": "x"}}, {"a": [1, 3, 4], "b": {"d": 1}}
    assert differences(want, have) == [
        "$.a has 3 items, not 2",
        "$.a[1] is 3, not 2",
        "$.b.c is missing",
        "$.b.d is not wanted",
    ]
    assert differences(want, json.loads(json.dumps(want))) == []


def test_numbers_are_read_as_people_write_them() -> None:
    assert numbers_in("1,234.5 and -2, v3 not, 1e3, 5%") == [1234.5, -2.0, 1000.0, 5.0]
