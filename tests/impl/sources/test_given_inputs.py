"""Real sources from the folder that ARTIFICER_TEST_INPUTS names, each by the git way and the plain way."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from core import check_bundle, digest_tree, read_manifest
from impl.sources import fetch_source, import_source, source_name

CASES: dict[str, tuple[list[str] | None, dict[str, int]]] = {
    "skills": (["all"], {"skills": 3, "files": 20}),
    "subagents": (["api-designer"], {"subagents": 1}),
    "docs-sqlite-utils": (None, {"pages": 3}),
    "openapi-petstore": (["read"], {"tools": 8, "credentials": 2}),
}


@pytest.mark.parametrize("folder", CASES)
async def test_a_clone_and_the_folder_give_the_same_bundle(
    given_inputs: Path, commit_all: Callable[[Path], str], tmp_path: Path, folder: str
) -> None:
    choice, counts = CASES[folder]
    repository = tmp_path / folder
    shutil.copytree(given_inputs / folder, repository, copy_function=shutil.copyfile)
    for directory in (repository, *(path for path in repository.rglob("*") if path.is_dir())):
        directory.chmod(0o755)
    commit_all(repository)
    digests = set()
    for way, ref in {"plain": str(given_inputs / folder), "git": f"file://{repository}"}.items():
        await fetch_source(ref, tmp_path / way / "source")
        out = tmp_path / way / "bundle"
        result = import_source(tmp_path / way / "source", name=source_name(ref), choice=choice, out=out)
        assert (result.outcome, result.counts) == ("imported", counts)
        assert check_bundle(out) == []
        digests.add(digest_tree(out))
    assert len(digests) == 1


def test_three_skills_and_three_subagents_are_asked_about(given_inputs: Path, tmp_path: Path) -> None:
    skills = import_source(given_inputs / "skills", name="x", out=tmp_path / "out")
    assert [option.id for option in skills.options] == ["brand-guidelines", "internal-comms", "theme-factory"]
    assert skills.multiple
    agents = import_source(given_inputs / "subagents", name="x", out=tmp_path / "out")
    assert [option.id for option in agents.options] == ["api-designer", "graphql-architect", "ui-designer"]
    assert not agents.multiple


def test_a_subagent_with_bash_may_use_the_sandbox(given_inputs: Path, tmp_path: Path) -> None:
    result = import_source(given_inputs / "subagents", name="x", choice=["ui-designer"], out=tmp_path / "out")
    assert result.licence == {"spdx": "MIT", "status": "found", "path": "LICENSE"}
    assert read_manifest(tmp_path / "out").policy.run_sandbox == "allow"


def test_documentation_without_a_readme_is_drawn_from_its_index(given_inputs: Path, tmp_path: Path) -> None:
    result = import_source(given_inputs / "docs-sqlite-utils", name="x", out=tmp_path / "out")
    assert "CLI tool and Python library for manipulating SQLite databases" in result.description
    assert "`docs/index.rst`" in (tmp_path / "out" / "persona.md").read_text()


def test_an_openapi_document_is_asked_about_by_groups_and_operations(given_inputs: Path, tmp_path: Path) -> None:
    result = import_source(given_inputs / "openapi-petstore", name="x", out=tmp_path / "out")
    assert (result.outcome, result.kind, result.recommended, result.multiple) == ("question", "openapi", "read", True)
    ids = [option.id for option in result.options]
    assert ids[:5] == ["read", "all-operations", "tag:pet", "tag:store", "tag:user"]
    assert len(ids) == 24


def test_all_operations_become_tools_of_which_those_that_write_ask(given_inputs: Path, tmp_path: Path) -> None:
    import_source(given_inputs / "openapi-petstore", name="x", choice=["all"], out=tmp_path / "out")
    manifest = read_manifest(tmp_path / "out")
    assert len(manifest.tools) == 19
    assert (manifest.policy.tools["add_pet"], manifest.policy.tools["get_pet_by_id"]) == ("ask", "allow")
    assert {c.name: (c.header, c.hosts) for c in manifest.credentials} == {
        "api_key": ("api_key", ("petstore3.swagger.io",)),
        "petstore_auth": ("Authorization", ("petstore3.swagger.io",)),
    }
