"""Which kinds a source comes into question for, and when a person is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from impl.sources import survey

Write = Callable[..., Path]
SKILL = "---\nname: {0}\ndescription: Does {0}.\n---\n\nDo it.\n"
AGENT = "---\nname: {0}\ndescription: Is {0}.\ntools: Read\n---\n\nYou are it.\n"
README = "# Thing\n\nIt does one thing and does it well.\n"
PACKAGE = {"README.md": README, "pyproject.toml": "[project]\nname='thing'\n", "src/thing/core.py": "x = 1\n"}


def skills(*paths: str) -> dict[str, str]:
    return {f"{path}/SKILL.md": SKILL.format(path.rpartition("/")[2]) for path in paths}


def agents(*paths: str) -> dict[str, str]:
    return {path: AGENT.format(path.rpartition("/")[2].removesuffix(".md")) for path in paths}


@pytest.mark.parametrize(
    "place",
    ["one", "skills/one", "plugins/p/skills/one", "skills/group/one", ".claude/skills/one", ".agents/skills/one"],
)
def test_skills_at_their_usual_places_win_over_a_readme(write: Write, place: str) -> None:
    found = survey(write({"README.md": README, **skills(place)}))
    assert found.kinds == ("agent_skills",)
    assert [candidate.id for candidate in found.candidates("agent_skills")] == ["one"]


@pytest.mark.parametrize(
    "place", ["agents/a.md", ".claude/agents/a.md", "categories/01-core/a.md", "plugins/p/agents/a.md"]
)
def test_subagents_at_their_usual_places_win_over_a_readme(write: Write, place: str) -> None:
    found = survey(write({"README.md": README, **agents(place)}))
    assert found.kinds == ("subagents",)


@pytest.mark.parametrize(
    "place", ["tests", "examples", "fixtures", "vendor", "third_party", "docs/examples", "samples"]
)
def test_candidates_among_tests_and_examples_do_not_count(write: Write, place: str) -> None:
    files = {"README.md": README, **skills(f"{place}/skills/one"), **agents(f"{place}/agents/a.md")}
    found = survey(write(files))
    assert found.kinds == ("documentation",)
    assert found.candidates("agent_skills") == ()


def test_a_folder_called_examples_counts_when_it_is_the_one_named(write: Write) -> None:
    assert survey(write(skills("one"), "examples")).kinds == ("agent_skills",)


def test_files_of_a_skill_are_no_skills_of_their_own(write: Write) -> None:
    found = survey(write({**skills("one", "one/examples/inner"), "one/examples/a.md": "x"}))
    assert [(c.id, c.files) for c in found.candidates("agent_skills")] == [("one", 3)]


def test_a_repository_that_is_one_skill_is_named_by_its_front_matter(write: Write) -> None:
    found = survey(write({"SKILL.md": SKILL.format("whole"), "references/a.md": "x"}))
    assert [(c.id, c.path) for c in found.candidates("agent_skills")] == [("whole", ".")]


def test_two_skills_of_one_name_get_ids_of_their_own(write: Write) -> None:
    files = {f"plugins/{p}/skills/lint/SKILL.md": SKILL.format("lint") for p in ("go", "rust")}
    assert [c.id for c in survey(write(files)).candidates("agent_skills")] == ["lint", "rust-lint"]


def test_copies_of_a_subagent_count_once_and_others_of_its_name_get_ids_of_their_own(write: Write) -> None:
    files = {f"plugins/{p}/agents/lint.md": AGENT.format("lint") for p in ("a", "b", "c")}
    files["plugins/c/agents/lint.md"] += "Differently.\n"
    assert [c.id for c in survey(write(files)).candidates("subagents")] == ["lint", "c-lint"]


@pytest.mark.parametrize("own", [{"src/thing/core.py": "x = 1\n"}, {"docs/use.md": "# Use\n\nUse it like this.\n"}])
@pytest.mark.parametrize("place", [".claude", ".agents", ".github"])
def test_a_project_that_carries_helpers_is_documentation(write: Write, place: str, own: dict[str, str]) -> None:
    files = {"README.md": README, **own, **skills(f"{place}/skills/one"), **agents(f"{place}/agents/a.md")}
    found = survey(write(files))
    assert found.kinds == ("documentation",)
    assert len(found.notes) == 2


def test_skills_and_subagents_side_by_side_are_asked_about(write: Write) -> None:
    found = survey(write({**skills("skills/one"), **agents("agents/a.md")}))
    assert set(found.kinds) == {"agent_skills", "subagents"}
    assert found.recommended == "agent_skills"


def test_a_package_that_offers_skills_too_is_asked_about(write: Write) -> None:
    found = survey(write({**PACKAGE, **skills("skills/one")}))
    assert found.kinds == ("agent_skills", "documentation")
    assert found.recommended == "agent_skills"


def test_a_stray_skill_inside_a_package_is_not_its_offer(write: Write) -> None:
    assert survey(write({**PACKAGE, **skills("src/thing/prompts/one")})).kinds == ("documentation",)


def test_a_source_made_of_subagents_or_skills_is_a_collection_of_them_wherever_they_lie(write: Write) -> None:
    three = agents("design/a.md", "design/b.md", "ops/c.md")
    assert survey(write({"README.md": README, **three})).kinds == ("subagents",)
    more = {f"docs/{n}.md": "# Use\n\nUse it like this.\n" for n in range(3)}
    assert survey(write({"README.md": README, **three, **more}, "project")).recommended == "documentation"
    skilled = {"README.md": README, **skills("lab-skills/one", "lab-skills/two", "lab-skills/three")}
    assert survey(write(skilled, "skilled")).kinds == ("agent_skills",)


def test_skills_that_a_program_brings_for_itself_are_not_its_offer_however_many(write: Write) -> None:
    own = skills("src/thing/prompts/one", "src/thing/prompts/two", "src/thing/prompts/three")
    assert survey(write({**PACKAGE, **own})).kinds == ("documentation",)


def test_documents_with_a_name_and_description_are_no_subagents(write: Write) -> None:
    page = "---\nname: Intro\ndescription: First steps\n---\n\n# Intro\n\nThe first steps with this thing.\n"
    assert survey(write({"README.md": README, "docs/intro.md": page})).kinds == ("documentation",)


def test_this_project_itself_is_documentation_without_a_question() -> None:
    found = survey(Path(__file__).parents[3])
    assert found.kinds == ("documentation",)
    assert found.blockers == ()
