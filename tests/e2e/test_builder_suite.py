"""The Builder evaluated with a suite: what it makes is looked at and thrown away, and nobody's agents change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core import register_provider
from impl.compose import build_host
from tests.harness.commands import expecting
from tests.harness.home import INPUTS
from tests.harness.scripted import Scripted, ScriptedProvider, call

SUITE = INPUTS / "lab" / "builder"
WRITE = """\
mkdir -p /work/agent && cd /work/agent
printf 'schema: artificer/v1\\nname: greeter\\n' > agent.yaml
printf 'You greet.\\n' > persona.md
"""


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A suite of one build from words."""
    root = tmp_path / "suite"
    root.mkdir()
    (root / "suite.yaml").write_text(
        "schema: artificer/suite/v1\nname: words\ncases:\n- id: greeter\n  task: Build an agent that greets.\n"
        "  publish: true\n  checks:\n  - build: {agent: greeter, validated: true, published: true}\n"
        "  - bundle: {path: persona.md, contains: greet}\n  - calls: {in_order: [run_sandbox, save_agent]}\n"
    )
    return root


def playing(*script: Scripted) -> tuple[str, str]:
    """A model that plays a script, as a provider of the command line."""
    register_provider("played", lambda: ScriptedProvider(script))
    return "--provider", "played"


def row(suite: Path, *words: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = expecting(code, "eval", suite, "builder", *words).lines[0]
    return found


def test_the_projects_own_suite_finds_the_builder_as_it_should_be(home: Path) -> None:
    lines = expecting(0, "eval", SUITE, "builder").lines
    assert (lines[-1]["passed"], lines[-1]["failed"], lines[-1]["agent"]) == (5, [], "builder")
    assert lines[-1]["digest"].startswith("sha256:")
    built = {line["id"]: line["built"] for line in lines[:-1]}
    assert built["a-handbook-is-built-and-published"]["published"]
    sessions = expecting(0, "sessions").value
    assert [s["kind"] for s in sessions if s["parent"] == lines[-1]["eval"]] == ["builder"] * 5


def test_agents_that_are_there_are_neither_seen_nor_changed(home: Path, tmp_path: Path) -> None:
    mine = tmp_path / "handbook"
    mine.mkdir()
    (mine / "agent.yaml").write_text("schema: artificer/v1\nname: handbook\n")
    (mine / "persona.md").write_text("Mine.\n")
    for words in (["save", str(mine)], ["validate", "handbook"], ["publish", "handbook"]):
        expecting(0, *words)
    before = [expecting(0, *words).value for words in (["agents"], ["revisions", "handbook"], ["log", "handbook"])]
    line = row(SUITE, "--case", "a-handbook-is-built-and-published")
    assert line["built"]["agent"] == "handbook"
    after = [expecting(0, *words).value for words in (["agents"], ["revisions", "handbook"], ["log", "handbook"])]
    assert after == before


def test_an_agent_that_has_the_builders_name_is_told_apart_by_its_channel(home: Path, tmp_path: Path) -> None:
    mine, suite = tmp_path / "builder", tmp_path / "suite"
    for folder in (mine, suite):
        folder.mkdir()
    (mine / "agent.yaml").write_text("schema: artificer/v1\nname: builder\n")
    (mine / "persona.md").write_text("Mine.\n")
    digest = expecting(0, "save", mine).value["digest"]
    checks = "  checks:\n  - contains: model\n"
    (suite / "suite.yaml").write_text(
        "schema: artificer/suite/v1\nname: both\ncases:\n- id: hello\n  task: hello\n" + checks
    )
    its = expecting(0, "eval", suite, "builder@latest")
    assert (its.lines[-1]["digest"], "Note:" in its.err) == (digest, False)
    builders = expecting(1, "eval", suite, "builder")  # it asks for a source
    assert builders.lines[-1]["digest"] != digest
    assert "your agent of that name is builder@latest" in builders.err


def test_a_case_that_a_person_goes_on_with_stays_apart(home: Path) -> None:
    line = row(SUITE, "--case", "of-several-skills-it-asks-which")
    result = expecting(0, "answer", line["session"], "logbook").result
    assert (result["stop"], result["agent"], result["revision"]) == ("completed", None, None)
    assert expecting(0, "agents").value == []
    built = build_host().home / "workspaces" / line["session"] / "built"
    assert [path.parent.name for path in built.glob("*/skills/*/SKILL.md")] == ["logbook"]


def test_a_model_that_builds_is_judged_by_what_it_saved(home: Path, one: Path) -> None:
    work = call("run_sandbox", command=WRITE)
    line = row(one, *playing([work], [call("save_agent", path="/work/agent")], [call("publish_agent")], "Done."))
    assert line["passed"]
    assert [check["passed"] for check in line["checks"]] == [True] * 4


def test_a_model_that_only_says_it_has_built_fails(home: Path, one: Path) -> None:
    line = row(one, *playing([call("run_sandbox", command=WRITE)], "I have built and published greeter."), code=1)
    why = {check["kind"]: check["why"] for check in line["checks"] if not check["passed"]}
    assert set(why) == {"stop", "build", "bundle", "calls"}
    assert why["stop"] == "it stopped as awaiting_user"
    assert "agent is None" in why["build"]


def test_what_is_changed_after_it_was_saved_does_not_count(home: Path, one: Path) -> None:
    late = call("run_sandbox", command="echo 'You are rude.' > /work/agent/persona.md")
    script = [[call("run_sandbox", command=WRITE)], [call("save_agent", path="/work/agent")], [late]]
    line = row(one, *playing(*script, [call("publish_agent")], "Done."))
    assert line["passed"]


def test_without_a_network_no_address_is_fetched(home: Path, one: Path) -> None:
    (one / "suite.yaml").write_text(
        "schema: artificer/suite/v1\nname: words\ncases:\n- id: far\n"
        "  task: Build an agent from https://example.com/far/away\n"
    )
    line = row(one, code=1)
    events = expecting(0, "transcript", line["session"]).value
    assert "may have no network" in str([event["data"] for event in events if event["kind"] == "tool_result"])


def test_a_suite_for_the_builder_is_for_no_other_agent(docs: str) -> None:
    refused = expecting(2, "eval", SUITE, docs).error
    assert refused["code"] == "usage"
    assert "a-handbook-is-built-and-published" in refused["message"]
