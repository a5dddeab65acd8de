"""A single file named as the source: an OpenAPI document, a SKILL.md, a page, a subagent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core import check_bundle, read_manifest
from impl.sources import ImportResult, fetch_source, import_source, same_source, source_name

Write = Callable[..., Path]


async def built(ref: Path, tmp_path: Path, **options: object) -> ImportResult:
    """Bring the file in and import it under its name."""
    await fetch_source(str(ref), tmp_path / "in" / "source")
    result = import_source(
        tmp_path / "in" / "source",
        name=source_name(str(ref)),
        out=tmp_path / "bundle",
        **options,  # type: ignore[arg-type]
    )
    assert result.outcome == "imported", (result.question, result.reason)
    assert check_bundle(tmp_path / "bundle") == []
    return result


async def test_an_openapi_document_brings_the_licence_beside_it(inputs: Path, tmp_path: Path) -> None:
    result = await built(inputs / "openapi" / "openapi.yaml", tmp_path, choice=["read"])
    assert (result.kind, result.name) == ("openapi", "openapi")
    assert result.licence == {"spdx": "MIT", "status": "found", "path": "LICENSE"}


async def test_an_api_document_of_another_name_gives_the_agent_its_name(inputs: Path, tmp_path: Path) -> None:
    document = tmp_path / "harbour-log.yml"
    document.write_bytes((inputs / "openapi" / "openapi.yaml").read_bytes())
    result = await built(document, tmp_path, choice=["tag:berths"])
    assert (result.kind, result.name) == ("openapi", "harbour-log")


async def test_a_skill_file_stands_for_its_whole_directory(inputs: Path, tmp_path: Path) -> None:
    directory = inputs / "skills" / "skills" / "release-notes"
    result = await built(directory / "SKILL.md", tmp_path)
    assert (result.kind, result.name) == ("agent_skills", "release-notes")
    assert read_manifest(tmp_path / "bundle").skills == ("release-notes",)
    assert (tmp_path / "bundle" / "skills" / "release-notes" / "references" / "style.md").is_file()


async def test_a_skill_file_and_its_directory_are_one_source(inputs: Path, tmp_path: Path) -> None:
    directory = inputs / "skills" / "skills" / "release-notes"
    assert same_source(str(directory / "SKILL.md"), str(directory))
    assert (await fetch_source(str(directory / "SKILL.md"), tmp_path / "source")).path == str(directory)


async def test_a_page_becomes_documentation(inputs: Path, tmp_path: Path) -> None:
    result = await built(inputs / "documentation" / "docs" / "measurements.md", tmp_path)
    assert (result.kind, result.counts) == ("documentation", {"pages": 1})


async def test_a_subagent_becomes_that_agent(inputs: Path, tmp_path: Path) -> None:
    result = await built(inputs / "subagents" / "agents" / "reader.md", tmp_path)
    assert (result.kind, result.name) == ("subagents", "reader")
