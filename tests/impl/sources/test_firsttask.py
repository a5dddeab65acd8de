"""What a build says to try first: a question of the pages, or a task of a description, and never an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest

from impl.corpus import CorpusIndex
from impl.sources.firsttask import from_descriptions, from_pages

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("# Ferry\n\nA.\n\n## How do I book?\n\nSo.\n", "how do I book?"),
        ("# Ferry\n\nA.\n\n## 2. How to take a bicycle on board\n\nSo.\n", "how do I take a bicycle on board?"),
        ("# Ferry\n\nA.\n\n## Fares\n\nB.\n\n## Can I bring a dog?\n\nYes.\n", "can I bring a dog?"),
        ("# Ferry\n\n## FAQ\n\n**Q: Is the harbour open at night?**\n\nNo.\n", "is the harbour open at night?"),
        ("# Ferry\n\n## FAQ\n\n<summary>Where are the tickets?</summary>\n\nHere.\n", "where are the tickets?"),
        ("# Fähre\n\n## ¿Dónde se compran los billetes?\n\nAquí.\n", "¿Dónde se compran los billetes?"),
        ("# Ferry\n\nA.\n\n## Installation\n\nB.\n\n## Fares and tickets\n\nC.\n", "Fares and tickets"),
        ("# Ferry\n\nA.\n\n## How to contribute\n\nB.\n\n## Timetable\n\nC.\n", "Timetable"),
        ("# Ferry\n\nA.\n\n## Questions?\n\nB.\n\n## `board(x)`\n\nC.\n\n## SQLite tables\n\nD.\n", "SQLite tables"),
        ("# Ferry\n\nA.\n\n## Installation\n\nB.\n", "Installation"),
        ("# Ferry\n\nA.\n\n## :ship: [How do I board?](#x) {#board}\n\nB.\n", "how do I board?"),
        ("# Ferry\n\nA.\n", "Ferry"),
        ("no heading at all\n", ""),
    ],
)
def test_a_page_gives_a_question_else_a_section_else_its_title(page: str, expected: str) -> None:
    assert from_pages([("README.md", page)]) == expected


def test_a_question_of_a_later_page_wins_over_a_section_of_the_first() -> None:
    pages = [("README.md", "# A\n\nB.\n\n## Fares\n\nC.\n"), ("docs/faq.rst", "Is it late?\n===========\n\nNo.\n")]
    assert from_pages(pages) == "is it late?"


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Use whenever asked to write some sort of status report (weekly, daily).", "write some sort of status report"),
        ("Use this agent when the user wants to plan a voyage, or part of one.", "plan a voyage"),
        ("Use this agent when designing new signals, creating charts.", "help with designing new signals"),
        ("Turns a list of changes into release notes.", ""),
        ("", ""),
    ],
)
def test_a_description_gives_the_task_it_names_or_nothing(description: str, expected: str) -> None:
    assert from_descriptions([description]) == expected


def test_the_first_question_of_this_repository_is_answered_by_its_own_section(tmp_path: Path) -> None:
    page = (REPOSITORY / "README.md").read_text()
    (tmp_path / "README.md").write_text(page)
    assert from_pages([("README.md", page)]) == "how do I roll back?"
    best = CorpusIndex(tmp_path).search("how do I roll back?")[0]
    assert best.heading == "How do I roll back?"
    assert "artificer rollback AGENT" in best.text
