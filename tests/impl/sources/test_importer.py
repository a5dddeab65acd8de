"""One import from its arguments to its result: questions of kind, what is written, what the result says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from impl.sources import ImportResult, import_source

Write = Callable[..., Path]
Convert = Callable[..., ImportResult]
BOTH = {
    "skills/one/SKILL.md": "---\nname: one\ndescription: Does one.\n---\n\nDo it.\n",
    "agents/a.md": "---\nname: a\ndescription: Is a.\ntools: Read\n---\n\nYou are a.\n",
}


def test_the_kind_is_asked_before_what_to_take_of_it(write: Write, convert: Convert) -> None:
    asked = convert(write(BOTH))
    assert (asked.outcome, asked.asks, asked.recommended) == ("question", "kind", "agent_skills")
    assert [option.id for option in asked.options] == ["agent_skills", "subagents"]


@pytest.mark.parametrize("answer", [{"kind": "subagents"}, {"choice": ["subagents"]}])
def test_a_kind_is_answered_by_name_or_as_a_choice(write: Write, convert: Convert, answer: dict[str, object]) -> None:
    result = convert(write(BOTH), **answer)
    assert (result.outcome, result.kind) == ("imported", "subagents")


def test_a_kind_that_is_not_there_asks_again(write: Write, convert: Convert) -> None:
    asked = convert(write(BOTH), kind="openapi")
    assert (asked.outcome, asked.asks) == ("question", "kind")


def test_nothing_is_written_but_for_an_import(write: Write, tmp_path: Path) -> None:
    for root in (write(BOTH), write({"a.py": "import pyautogui\n"}, "blocked")):
        import_source(root, name="x", out=tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_bundle_is_never_written_over(write: Write, tmp_path: Path) -> None:
    out = write({"mine.md": "x"}, "out")
    with pytest.raises(FileExistsError):
        import_source(write(BOTH), name="x", kind="subagents", out=out)
    assert [path.name for path in out.iterdir()] == ["mine.md"]


def test_the_result_is_plain_json_without_a_path_of_this_host(write: Write, convert: Convert, tmp_path: Path) -> None:
    result = convert(write(BOTH), kind="subagents")
    text = json.dumps(result.to_json())
    assert str(tmp_path) not in text
    assert json.loads(text)["bundle"] == result.bundle.name if result.bundle else False
