"""Agents by hand and by key: checkout, save, validate, publish, roll back, and the listings of all that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.commands import artificer, expecting
from tests.harness.home import INPUTS

NONE = "sha256:" + "0" * 64


def edit(agent: str, directory: Path, words: str) -> str:
    """Check the agent out, change its persona, save it; the new digest."""
    expecting(0, "checkout", agent, directory)
    (directory / "persona.md").write_text(words)
    digest: str = expecting(0, "save", directory, "-m", words.strip()).value["digest"]
    return digest


def test_listings_hold_at_least_what_programs_lean_on(docs: str) -> None:
    columns = {
        "agents": {"name", "live", "latest"},
        "revisions": {"digest", "parents", "at", "by", "message", "validated", "channels"},
        "validations": {"id", "digest", "at", "passed", "checks_version", "environment", "problems"},
        "log": {"at", "channel", "digest", "validation_run", "by", "refused"},
        "sessions": {
            *("id", "kind", "agent", "digest", "parent", "status", "stop", "started", "ended", "usage", "cost"),
            "summary",
        },
    }
    for command, wanted in columns.items():
        rows = expecting(0, command, *([docs] if command in ("revisions", "validations", "log") else [])).value
        assert isinstance(rows, list)
        assert rows
        assert wanted <= set(rows[0]), command


def test_agents_are_listed_oldest_first(docs: str, tmp_path: Path) -> None:
    expecting(0, "checkout", docs, tmp_path / "edit")
    expecting(0, "save", tmp_path / "edit", "--agent", "a-younger-one")
    assert [row["name"] for row in expecting(0, "agents").value] == [docs, "a-younger-one"]


def test_the_next_step_can_be_pasted_whatever_the_folder_is_called(docs: str, tmp_path: Path) -> None:
    ran = artificer("checkout", docs, tmp_path / "two words", json=False)
    assert f"artificer save '{tmp_path}/two words' --agent {docs}" in ran.err


def test_an_empty_home_lists_nothing(home: Path) -> None:
    for command in ("agents", "sessions", "costs"):
        assert expecting(0, command).value == []


def test_show_gives_the_manifest_the_files_and_where_it_came_from(docs: str) -> None:
    value = expecting(0, "show", docs).value
    assert {"name", "digest", "manifest", "files", "source", "licence"} <= set(value)
    assert value["manifest"]["schema"] == "artificer/v1"
    assert all(set(file) == {"path", "sha256", "size", "x"} for file in value["files"])
    assert value["source"]["path"].endswith("/documentation")
    assert value["licence"] == {"spdx": "MIT", "status": "found", "path": "LICENSE"}


def test_a_manifest_that_is_lost_is_said_in_its_place_and_all_else_is_shown(docs: str, home: Path) -> None:
    whole = expecting(0, "show", docs).value
    blob = next(file["sha256"] for file in whole["files"] if file["path"] == "agent.yaml")
    next(home.rglob(blob)).unlink()
    value = expecting(0, "show", docs).value
    assert blob[:12] in value.pop("damaged")
    assert value == whole | {"manifest": None}
    assert f"[agent.yaml cannot be read: There is no blob {blob[:12]}" in artificer("show", docs, json=False).out


def test_a_person_checks_out_edits_and_saves_a_revision(docs: str, tmp_path: Path) -> None:
    before = expecting(0, "show", docs).value["digest"]
    digest = edit(docs, tmp_path / "edit", "You answer in one sentence.\n")
    row = expecting(0, "revisions", docs).value[-1]
    assert (row["digest"], row["by"], row["parents"], row["validated"]) == (digest, "person", [before], None)
    assert row["message"] == "You answer in one sentence."


def test_saving_without_a_change_adds_nothing(docs: str, tmp_path: Path) -> None:
    expecting(0, "checkout", docs, tmp_path / "edit")
    saved = expecting(0, "save", tmp_path / "edit").value
    assert saved["created"] is False
    assert len(expecting(0, "revisions", docs).value) == 1


def test_saving_under_another_name_is_another_agent(docs: str, tmp_path: Path) -> None:
    expecting(0, "checkout", docs, tmp_path / "edit")
    assert expecting(0, "save", tmp_path / "edit", "--agent", "second").value["agent"] == "second"
    assert [row["name"] for row in expecting(0, "agents").value] == [docs, "second"]


@pytest.mark.parametrize("name", ["Two Words", "../up", "a@b", "-x", "line\nbreak", "x" * 65])
def test_what_can_be_no_name_is_no_agents(docs: str, tmp_path: Path, name: str) -> None:
    expecting(0, "checkout", docs, tmp_path / "edit")
    (problem,) = expecting(1, "save", tmp_path / "edit", f"--agent={name}").error["problems"]
    assert problem["code"] == "bad_name"
    assert [row["name"] for row in expecting(0, "agents").value] == [docs]


def test_a_checkout_never_writes_over_anything(docs: str, tmp_path: Path) -> None:
    target = tmp_path / "edit"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    assert expecting(1, "checkout", docs, target).error["code"] == "exists"
    assert [path.name for path in target.iterdir()] == ["mine.txt"]


def test_what_is_checked_out_is_what_was_saved(docs: str, tmp_path: Path) -> None:
    expecting(0, "checkout", docs, tmp_path / "edit")
    shown = expecting(0, "show", docs).value
    assert expecting(0, "validate", f"{tmp_path}/edit").value["digest"] == shown["digest"]


def test_a_directory_is_validated_without_a_record(docs: str, tmp_path: Path) -> None:
    expecting(0, "checkout", docs, tmp_path / "edit")
    (tmp_path / "edit" / "persona.md").unlink()
    ran = expecting(1, "validate", tmp_path / "edit")
    assert [p["code"] for p in ran.value["problems"]] == ["persona_missing"]
    assert set(ran.value["problems"][0]) == {"code", "path", "message", "hint"}
    assert len(expecting(0, "validations", docs).value) == 1


def test_one_byte_more_is_another_digest_that_is_not_published_before_it_passed(docs: str, tmp_path: Path) -> None:
    live = expecting(0, "agents").value[0]["live"]
    expecting(0, "checkout", docs, tmp_path / "edit")
    with (tmp_path / "edit" / "persona.md").open("a") as file:
        file.write("\n")
    digest = expecting(0, "save", tmp_path / "edit").value["digest"]
    assert digest != live
    error = expecting(1, "publish", docs).error
    assert error["code"] == "not_validated"
    assert "artificer validate" in error["hint"]
    last = expecting(0, "log", docs).value[-1]
    assert (last["digest"], last["refused"]) == (digest, "not_validated")
    assert expecting(0, "agents").value[0]["live"] == live
    expecting(0, "validate", docs)
    assert expecting(0, "publish", docs).value["digest"] == digest
    assert expecting(0, "agents").value[0]["live"] == digest


def test_what_failed_is_refused_and_says_so(docs: str, tmp_path: Path) -> None:
    edit(docs, tmp_path / "edit", " ")
    assert expecting(1, "validate", docs).value["passed"] is False
    assert expecting(1, "publish", docs).error["code"] == "validation_failed"
    assert [row["validated"] for row in expecting(0, "revisions", docs).value] == ["passed", "failed"]


def test_a_revision_that_cannot_run_says_how_to_make_one_that_can(docs: str, tmp_path: Path) -> None:
    expecting(0, "checkout", docs, tmp_path / "edit")
    (tmp_path / "edit" / "agent.yaml").write_text(f"name: {docs}\nskills: [\n")
    expecting(0, "save", tmp_path / "edit", "--agent", docs)
    stopped = expecting(19, "run", f"{docs}@latest", "hello").result
    assert stopped["detail"] == "manifest_error"
    assert "artificer checkout AGENT DIR" in stopped["evidence"]["text"]


def test_rolling_back_goes_to_the_one_published_before(docs: str, tmp_path: Path) -> None:
    first = expecting(0, "agents").value[0]["live"]
    second = edit(docs, tmp_path / "edit", "You answer in one sentence.\n")
    expecting(0, "validate", docs)
    expecting(0, "publish", docs)
    assert expecting(0, "rollback", docs).value["digest"] == first
    assert expecting(0, "agents").value[0]["live"] == first
    assert expecting(0, "rollback", docs, "--to", second[7:19]).value["digest"] == second
    log = expecting(0, "log", docs).value
    assert [row["digest"] for row in log] == [first, second, first, second]
    assert all(row["refused"] is None and row["by"] == "person" for row in log)


def test_a_revision_that_never_passed_is_never_rolled_back_to(docs: str, tmp_path: Path) -> None:
    digest = edit(docs, tmp_path / "edit", " ")
    expecting(1, "validate", docs)
    assert expecting(1, "rollback", docs, "--to", digest).error["code"] == "never_passed"
    assert expecting(0, "log", docs).value[-1]["refused"] == "never_passed"


def test_there_is_nothing_to_roll_back_to_before_a_second_publication(docs: str) -> None:
    error = expecting(1, "rollback", docs).error
    assert (error["code"], bool(error["hint"])) == ("not_found", True)


def test_channels_are_apart(docs: str, tmp_path: Path) -> None:
    live = expecting(0, "agents").value[0]["live"]
    digest = edit(docs, tmp_path / "edit", "You answer in one sentence.\n")
    expecting(0, "validate", docs)
    expecting(0, "publish", docs, "--channel", "beta")
    rows = {row["digest"]: row["channels"] for row in expecting(0, "revisions", docs).value}
    assert rows == {live: ["live"], digest: ["beta"]}
    assert expecting(0, "show", f"{docs}@beta").value["digest"] == digest
    assert expecting(0, "show", f"{docs}@live").value["digest"] == live


@pytest.mark.parametrize("name", ["Beta", "a b", "latest", "-x"])
def test_a_name_no_channel_can_have_is_a_usage_error(docs: str, name: str) -> None:
    assert expecting(2, "publish", docs, f"--channel={name}").error["code"] == "usage"
    assert len(expecting(0, "log", docs).value) == 1


def test_a_diff_says_which_files_and_lines_changed(docs: str, tmp_path: Path) -> None:
    before = expecting(0, "show", docs).value["digest"]
    after = edit(docs, tmp_path / "edit", "You answer in one sentence.\n")
    value = expecting(0, "diff", docs, before, after).value
    assert (value["before"], value["after"]) == (before, after)
    assert [file["path"] for file in value["files"]] == ["persona.md"]
    words = artificer("diff", docs, before, after, json=False).out
    assert "+You answer in one sentence." in words


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nobody"),
        ("revisions", "nobody"),
        ("log", "nobody"),
        ("validations", "nobody"),
        ("validate", "nobody"),
        ("publish", "nobody"),
        ("rollback", "nobody"),
        ("checkout", "nobody", "x"),
        ("diff", "nobody", "a", "b"),
        ("run", "nobody", "x"),
        ("show", f"documentation@{NONE}"),
        ("publish", f"documentation@{NONE}"),
        ("run", "documentation@ffffffffffff", "x"),
        ("rollback", "documentation", "--to", "ffffffffffff"),
        ("diff", "documentation", "live", "ffffffffffff"),
    ],
)
def test_what_is_not_there_is_said_with_a_next_step(docs: str, words: tuple[str, ...]) -> None:
    error = expecting(1, *words).error
    assert error["code"] == "not_found"
    assert error["message"]
    assert error["hint"]


def test_a_bundle_that_cannot_be_stored_is_refused_with_its_problems(docs: str, tmp_path: Path) -> None:
    expecting(0, "checkout", docs, tmp_path / "edit")
    (tmp_path / "edit" / "link").symlink_to("/etc/passwd")
    error = expecting(1, "save", tmp_path / "edit").error
    assert error["code"] == "not_saved"
    assert [problem["code"] for problem in error["problems"]] == ["symlink"]


def test_an_unsafe_sandbox_passes_no_bundle_with_tools_unless_that_is_said(docs: str, tmp_path: Path) -> None:
    edit = tmp_path / "edit"
    expecting(0, "checkout", docs, edit)
    tool = edit / "tools" / "shout"
    tool.mkdir(parents=True)
    (tool / "tool.yaml").write_text(
        "name: shout\ndescription: Shouts.\ninput_schema:\n  type: object\n  properties: {text: {type: string}}\n"
    )
    (tool / "tool.py").write_text("def run(ctx, input):\n    return input['text'].upper()\n")
    with (edit / "agent.yaml").open("a") as file:
        file.write("tools: [shout]\n")
    expecting(0, "save", edit)
    ran = expecting(1, "validate", docs, "--sandbox", "process")
    assert [problem["code"] for problem in ran.value["problems"]] == ["unsafe_sandbox"]
    allowed = expecting(0, "validate", docs, "--sandbox", "process", "--allow-unsafe").value
    assert allowed["environment"]["allow_unsafe"] is True
    assert expecting(0, "validate", docs).value["environment"]["sandbox"] != "process"


def test_an_agent_without_a_licence_is_listed_as_private(home: Path) -> None:
    expecting(0, "build", INPUTS / "no-licence")
    assert expecting(0, "agents").value[0]["licence"]["status"] == "missing"
    assert "private use only" in artificer("agents", json=False).out


@pytest.mark.parametrize(
    "words",
    [
        ("publish", "documentation@"),
        ("publish", "documentation@sha256:"),
        ("rollback", "documentation", "--to", ""),
        ("validate", "documentation@"),
    ],
)
def test_an_empty_name_of_a_revision_is_no_name(docs: str, words: tuple[str, ...]) -> None:
    before = expecting(0, "log", docs).value
    assert expecting(1, *words).error["code"] == "not_found"
    assert expecting(0, "log", docs).value == before


def test_what_a_person_edits_keeps_its_source_and_licence(home: Path, tmp_path: Path) -> None:
    expecting(0, "build", INPUTS / "no-licence")
    before = expecting(0, "show", "no-licence").value
    edit("no-licence", tmp_path / "edit", "You answer in one sentence.\n")
    after = expecting(0, "show", "no-licence").value
    assert after["digest"] != before["digest"]
    assert (after["source"], after["licence"]) == (before["source"], before["licence"])
    assert after["licence"]["status"] == "missing"
