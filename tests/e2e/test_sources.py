"""From a source to an agent through commands alone: right conversions, the same digest both ways, clear refusals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.commands import Ran, artificer, expecting
from tests.harness.home import INPUTS
from tests.harness.repositories import commit_all, drop_blobs, git


@pytest.fixture
def given() -> Path:
    """Further sources, from the folder that ARTIFICER_TEST_INPUTS names."""
    folder = os.environ.get("ARTIFICER_TEST_INPUTS")
    if not folder:
        pytest.skip("ARTIFICER_TEST_INPUTS names no folder with further inputs")
    return Path(folder)


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of a source that a test may make a repository of."""

    def _copy(source: Path) -> Path:
        target = tmp_path / "sources" / source.name
        shutil.copytree(source, target)
        return target

    return _copy


def three_ways(folder: Path, *words: str) -> set[str]:
    """The digests of a build from the folder, from it as a repository (twice), and from its address."""
    digests = {expecting(0, "build", folder, *words).result["revision"]}
    commit = commit_all(folder)
    for way in (folder, folder, f"file://{folder}"):
        ran = expecting(0, "build", way, *words)
        digests.add(ran.result["revision"])
        source = next(e["data"] for e in ran.events if e["kind"] == "source")
        assert source["commit"] == commit
    assert len(expecting(0, "revisions", ran.result["agent"]).value) == 1
    return digests


OWN = [
    ("documentation", ()),
    ("skills", ("--answer", "all")),
    ("subagents", ("--answer", "2")),
]
GIVEN = [
    ("docs-sqlite-utils", ()),
    ("skills", ("--answer", "all")),
    ("subagents", ("--answer", "2")),
]


@pytest.mark.parametrize(("name", "words"), OWN)
def test_a_folder_a_repository_and_an_address_give_the_same_digest(
    home: Path, copy: Callable[[Path], Path], name: str, words: tuple[str, ...]
) -> None:
    assert len(three_ways(copy(INPUTS / name), *words)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), GIVEN)
def test_given_sources_give_the_same_digest_every_way(
    home: Path, given: Path, copy: Callable[[Path], Path], name: str, words: tuple[str, ...]
) -> None:
    assert len(three_ways(copy(given / name), *words)) == 1


@pytest.mark.parametrize("name", ["skills", "subagents"])
def test_a_source_with_several_candidates_stops_and_an_answer_publishes(home: Path, name: str) -> None:
    asked = expecting(10, "build", INPUTS / name, "--publish").result
    assert asked["waiting"]["recommended"]
    done = expecting(0, "answer", asked["session"], asked["waiting"]["recommended"]).result
    assert (done["stop"], done["channel"]) == ("completed", "live")


@pytest.mark.parametrize("name", ["skills", "subagents"])
def test_given_sources_with_several_candidates_stop_and_an_answer_publishes(home: Path, given: Path, name: str) -> None:
    asked = expecting(10, "build", given / name, "--publish").result
    done = expecting(0, "answer", asked["session"], asked["waiting"]["recommended"]).result
    assert (done["stop"], done["channel"]) == ("completed", "live")


def test_documentation_answers_with_passages_and_where_they_stand(docs: str) -> None:
    reply = expecting(0, "run", docs, "what does a harbour have?").result["output"]
    assert "> A harbour has a name and a datum." in reply
    assert "docs/harbours.rst:4" in reply


def test_given_documentation_answers_from_its_pages(home: Path, given: Path) -> None:
    expecting(0, "build", given / "docs-sqlite-utils", "--publish")
    reply = expecting(0, "run", "docs-sqlite-utils", "how do I insert a CSV file?").result["output"]
    assert "--csv" in reply
    assert "docs/cli.rst:" in reply


def test_an_agent_of_all_skills_follows_the_one_that_fits(home: Path) -> None:
    expecting(0, "build", INPUTS / "skills", "--answer", "all", "--publish")
    ran = expecting(0, "run", "skills", "turn these changes into release notes")
    read = [e["data"]["args"] for e in ran.events if e["kind"] == "tool_call" and e["data"]["tool"] == "read_skill"]
    assert read == [{"name": "release-notes"}]


def test_what_bringing_a_source_in_leaves_out_stands_in_the_loss_report(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tides"
    folder.mkdir()
    (folder / "README.md").write_text("# Tides\n\nWhen the water comes.\n")
    (folder / "linked.md").symlink_to("README.md")
    report = expecting(0, "build", folder).result["output"]
    assert "linked.md: a symbolic link, not followed, left out" in report
    assert "nothing" not in report


def test_a_skill_from_a_file_with_a_byte_order_mark_keeps_its_description(home: Path, tmp_path: Path) -> None:
    skill = tmp_path / "notes" / "release-notes" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    lines = [
        "---",
        "name: release-notes",
        "description: >-",
        "  Turns commits into a",
        "  changelog.",
        "---",
        "Group them.",
    ]
    skill.write_bytes(("\ufeff" + "\r\n".join(lines)).encode())
    expecting(0, "build", tmp_path / "notes", "--publish")
    reply = expecting(0, "run", "notes", "make a changelog of these commits").result["output"]
    assert "> Group them." in reply
    assert "name:" not in reply


def test_an_import_grants_no_more_than_its_source(home: Path) -> None:
    policies = {}
    for number, name in enumerate(("reader", "runner", "talker"), 1):
        result = expecting(0, "build", INPUTS / "subagents", "--answer", str(number)).result
        shown = expecting(0, "show", f"{result['agent']}@{result['revision']}").value["manifest"]
        policies[name] = (shown.get("policy") or {}).get("run_sandbox", "deny")
    assert policies == {"reader": "deny", "runner": "allow", "talker": "deny"}


# --- what cannot be built ------------------------------------------------------------------------------


def refused(source: Path | str) -> Ran:
    """A build that must end as `cannot_convert` or in a question that says why the source cannot be read."""
    ran = artificer("build", source, "--publish")
    assert ran.code in (10, 13), ran
    assert expecting(0, "agents").value == []
    return ran


def why(ran: Ran) -> str:
    """Everything a person is told about it."""
    return f"{ran.result['output']} {ran.result['detail']} {ran.result['evidence']}".lower()


@pytest.mark.parametrize(
    ("name", "word"), [("windows-desktop", "desktop"), ("mcp-server", "mcp")], ids=["windows", "mcp"]
)
def test_what_has_no_safe_conversion_exits_13_with_evidence(home: Path, name: str, word: str) -> None:
    ran = refused(INPUTS / name)
    assert ran.code == 13
    evidence = ran.result["evidence"]
    assert set(evidence) == {"capability", "reason", "evidence"}
    assert evidence["evidence"]
    assert word in why(ran)


def test_an_empty_repository_is_refused(home: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    for way in (empty, f"file://{empty}"):
        ran = refused(way)
        assert ran.code == 13
        assert "empty" in why(ran) or "no files" in why(ran)


def test_a_folder_of_binaries_is_refused(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "binaries"
    folder.mkdir()
    for number in range(3):
        (folder / f"part{number}.bin").write_bytes(bytes(range(256)) * 10)
    ran = refused(folder)
    assert ran.code == 13
    assert "binar" in why(ran)


def test_a_repository_without_its_blobs_is_refused(home: Path, copy: Callable[[Path], Path]) -> None:
    folder = copy(INPUTS / "documentation")
    commit_all(folder)
    drop_blobs(folder, keep=1)
    ran = refused(f"file://{folder}")
    assert ran.code == 13
    assert "missing" in why(ran)


def test_a_partial_clone_without_its_blobs_is_refused(home: Path, copy: Callable[[Path], Path], tmp_path: Path) -> None:
    whole = copy(INPUTS / "documentation")
    commit_all(whole)
    git(whole, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:none", f"file://{whole}", "partial.git")
    shutil.rmtree(whole)
    for way in (tmp_path / "partial.git", f"file://{tmp_path}/partial.git"):
        ran = refused(way)
        assert "missing" in why(ran) or "not downloaded" in why(ran)


def test_files_that_are_only_pointers_are_refused(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pointers"
    folder.mkdir()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"
    for name in ("README.md", "guide.md"):
        (folder / name).write_text(pointer)
    ran = refused(folder)
    assert "lfs" in why(ran)


def test_an_address_where_nothing_is_can_be_mended_in_the_session(home: Path, tmp_path: Path) -> None:
    ran = refused(f"file://{tmp_path}/nothing")
    assert ran.code == 10
    assert "no repository" in why(ran)
    done = expecting(0, "answer", ran.result["session"], str(INPUTS / "documentation"))
    assert done.result["agent"] == "documentation"
