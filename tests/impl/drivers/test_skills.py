"""A directory of skills as a running agent reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from impl.drivers.skills import SkillShelf


@pytest.mark.parametrize(
    ("front", "description"),
    [
        ("description: 2026-13-45", "2026-13-45"),
        ("description: 0x" + "f" * 9_000, "0x" + "f" * 9_000),
        ("description: yes\nmetadata: {made: 2026-13-45}", "yes"),
        ("a: &a [x]\ndescription: [*a, *a]", ""),
        ("description: " + "[" * 5_000, ""),
    ],
)
def test_front_matter_is_text_and_never_an_error(tmp_path: Path, front: str, description: str) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "SKILL.md").write_text(f"---\nname: one\n{front}\n---\n\nDo it.\n")
    shelf = SkillShelf(tmp_path, ["one"])
    assert [info.description for info in shelf.infos()] == [description]
    assert shelf.skill("one").text.endswith("Do it.")
