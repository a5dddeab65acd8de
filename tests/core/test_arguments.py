"""Arguments against a tool's schema: the quick check never says yes where the validator would say no."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.arguments import Arguments, _compiled, _flat

PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "boolean", "number", "array", "null"])},
    optional={
        "minLength": st.integers(0, 3),
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(-2, 5),
        "pattern": st.just("^a"),
        "description": st.just("words"),
    },
)
SCHEMAS = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from("abc"), PARTS, max_size=3),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "additionalProperties": st.booleans(),
    }
)
VALUES = st.one_of(
    st.text("ab", max_size=4), st.integers(-3, 6), st.booleans(), st.none(), st.floats(-3, 3), st.just([])
)


@settings(deadline=None)
@given(schema=SCHEMAS, args=st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=3))
def test_the_quick_yes_is_the_validators_yes(schema: dict[str, Any], args: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    fits = _flat(schema)
    tried = {name: {k: v for k, v in part.items() if k != "pattern"} for name, part in schema["properties"].items()}
    valid = Draft202012Validator({**schema, "properties": tried}).is_valid(args)
    if fits is not None and fits(args):
        assert valid
    assert (Arguments("t", schema).problem(args) is None) == valid


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": [], "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "string", "minLength": "x"}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": ["string"]}}, "required": [{}], "additionalProperties": False},
    ],
)
def test_a_broken_schema_is_said_to_be_broken(schema: dict[str, Any]) -> None:
    assert "the schema of t is broken" in str(Arguments("t", schema).problem({"a": "b"}))


def test_a_plain_call_of_a_plain_tool_needs_no_validator() -> None:
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "minLength": 1}, "line": {"type": "integer", "minimum": 1}},
        "required": ["path"],
        "additionalProperties": False,
    }
    fits = _flat(schema)
    assert fits is not None
    assert fits({"path": "a", "line": 3})
    assert not fits({"path": ""})
    assert not fits({"path": "a", "line": 0})
    assert not fits({"path": "a", "line": True})
    assert not fits({"line": 3})


def test_equal_schemas_share_what_was_compiled() -> None:
    _compiled.cache_clear()
    for _ in range(3):
        Arguments("t", {"type": "object"})
    assert _compiled.cache_info().misses == 1


def test_a_pattern_that_would_take_hours_is_not_tried_here() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}, "pattern": {"type": "integer"}},
        "patternProperties": {"^(x+)+$": {"type": "integer"}},
        "additionalProperties": False,
    }
    check = Arguments("t", schema)
    assert check.problem({"a": "a" * 40 + "!", "x" * 40 + "!": 1}) is None
    assert check.problem({"pattern": "words"}) is not None
