"""The manifests read strictly and write back the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.bundle.manifest import (
    Manifest,
    ManifestError,
    dump_manifest,
    dump_tool,
    parse_manifest,
    parse_tool,
    read_manifest,
    read_tool,
)
from core.bundle.skills import parse_skill
from core.bundle.strict_yaml import MAX_DEPTH, dump_yaml, load

from .conftest import GOOD, MakeBundle


def value(text: str):
    document = load(text.encode(), "a.yaml")
    assert document.problems == []
    return document.value


@pytest.mark.parametrize("word", ["no", "on", "yes", "off", "y", "2020-01-01", "1:30", "0b1", "12_000", "<<", "="])
def test_words_that_older_yaml_gave_a_meaning_are_text(word: str) -> None:
    assert value(f"key: {word}") == {"key": word}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("False", False), ("", None), ("~", None), ("12", 12), ("-3", -3), ("0x1F", 31), ("1.5", 1.5)],
)
def test_the_core_types_are_read(text: str, expected: object) -> None:
    assert value(f"key: {text}") == {"key": expected}


def test_a_key_is_its_text() -> None:
    assert value("1: a\ntrue: b\nno: c\n") == {"1": "a", "true": "b", "no": "c"}


def test_of_two_equal_keys_the_first_counts_and_both_lines_are_known() -> None:
    document = load(b"a: 1\nb: 2\na: 3\n", "a.yaml")
    assert document.value == {"a": 1, "b": 2}
    assert [p.message for p in document.problems] == ["line 3: the key 'a' stands twice"]


def test_nesting_up_to_the_cap_is_read() -> None:
    assert load(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "a.yaml").problems == []
    deeper = MAX_DEPTH + 1
    assert [p.code for p in load(b"[" * deeper + b"]" * deeper, "a.yaml").problems] == ["yaml_too_deep"]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    parse_manifest(data)
    parse_skill(b"---\n" + data + b"\n---\n", "x")


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab:-&*!|>'\"{}[],#?%@`~<=\n \t0"), max_size=60))
def test_no_yaml_like_text_raises(text: str) -> None:
    parse_manifest(text.encode())


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(
        [
            "no",
            "1e3",
            "0o17",
            "0x1",
            "1.",
            "-.5",
            "~",
            "null",
            "a\nb\n",
            " a",
            "\n",
            "\x85",
            "a\r",
            "\u2028\n",
            "\ufeff",
            "#",
            "a: b",
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc:\n ", max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text("abcdef", min_size=1), plain, max_size=4))
def test_what_is_dumped_is_read_back(data) -> None:
    document = load(dump_yaml(data).encode(), "a.yaml")
    assert document.problems == []
    assert document.value == data


def test_a_manifest_is_written_in_the_order_of_the_format_without_defaults() -> None:
    text = (
        "policy: {tools: {b: allow, a: ask}, run_sandbox: deny}\n"
        "limits: {usd: 0.50, seconds: 60}\nmodel: big\nname: weather\nschema: artificer/v1\ncorpus: false\n"
    )
    manifest, problems, _ = parse_manifest(text.encode())
    assert problems == []
    assert manifest is not None
    assert dump_manifest(manifest) == (
        "schema: artificer/v1\nname: weather\nmodel:\n  name: big\npolicy:\n  tools:\n    a: ask\n    b: allow\n"
        "limits:\n  usd: '0.5'\n  seconds: 60.0\n"
    )


def test_a_dumped_manifest_is_the_same_manifest() -> None:
    manifest, _, _ = parse_manifest(GOOD["agent.yaml"].encode())
    assert manifest is not None
    assert parse_manifest(dump_manifest(manifest).encode())[0] == manifest


def test_a_dumped_tool_is_the_same_tool() -> None:
    tool, _, _ = parse_tool(GOOD["tools/get_forecast/tool.yaml"].encode())
    assert tool is not None
    assert parse_tool(dump_tool(tool).encode())[0] == tool


def test_the_manifest_that_says_least_has_the_least_power() -> None:
    manifest = Manifest.model_validate({"schema": "artificer/v1", "name": "a"})
    assert (manifest.policy.run_sandbox, manifest.tools, manifest.corpus) == ("deny", (), False)


def test_problems_say_their_line() -> None:
    _, problems, _ = parse_manifest(b"schema: artificer/v1\nname: a\n\ncredentials:\n- name: K\n  hosts: ['*']\n")
    assert [p.message.split(":")[0] for p in problems] == ["line 6"]


@pytest.mark.parametrize("amount", ["0", "-1", "nan", "inf", "true", "much", "[1]"])
def test_an_amount_is_a_positive_decimal(amount: str) -> None:
    _, problems, _ = parse_manifest(f"schema: artificer/v1\nname: a\nlimits: {{usd: {amount}}}\n".encode())
    assert [p.code for p in problems] == ["bad_value"]


def test_reading_a_directory_gives_its_manifests(make_bundle: MakeBundle) -> None:
    root = make_bundle()
    assert read_manifest(root).name == "weather"
    assert read_tool(root / "tools/get_forecast").hosts == ("api.example.com",)


def test_reading_a_directory_without_a_manifest_says_so(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        read_manifest(tmp_path)
    assert [p.code for p in caught.value.problems] == ["manifest_missing"]


def test_a_skill_is_read_with_its_body() -> None:
    text = b"---\nname: a-b\ndescription: 'Does: this'\nmetadata: {version: 1.0}\nallowed-tools: Read\n---\n\nBody\n"
    skill, problems = parse_skill(text, "a-b")
    assert problems == []
    assert skill is not None
    assert (skill.name, skill.description, skill.body) == ("a-b", "Does: this", "Body\n")
    assert (skill.metadata, skill.allowed_tools) == ({"version": "1.0"}, "Read")


@pytest.mark.parametrize("name", ["a--b", "-a", "a-", "A", "a_b", "a" * 65, "é"])
def test_a_skill_with_a_bad_name_is_invalid(name: str) -> None:
    _, problems = parse_skill(f"---\nname: {name}\ndescription: x\n---\n".encode(), name)
    assert [p.code for p in problems] == ["skill_invalid"]


def test_lines_of_a_skill_count_from_the_top_of_its_file() -> None:
    _, problems = parse_skill(b"---\nname: a\ndescription: x\nother: 1\n---\n", "a")
    assert [p.message.split(":")[0] for p in problems] == ["line 4"]


def test_the_tree_needs_neither_pydantic_nor_yaml() -> None:
    code = "import core.bundle.tree, sys; print({'pydantic', 'yaml', 'rfc8785', 'jsonschema'} & set(sys.modules))"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
