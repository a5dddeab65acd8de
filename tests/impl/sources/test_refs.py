"""What an agent made of a reference is called, and when two references are the same source."""

from __future__ import annotations

from pathlib import Path

import pytest

from impl.sources import SourceError, same_source, source_name
from impl.sources.refs import parse_reference


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ("https://example.org/owner/Sqlite-Utils", "sqlite-utils"),
        ("https://example.org/owner/name.git", "name"),
        ("https://example.org/owner/name.git/", "name"),
        ("file:///srv/repos/My%20Skills.git", "my-skills"),
        ("git@example.org:owner/name.git", "name"),
        ("/srv/repos/awesome_agents/", "awesome-agents"),
        ("/srv/repos/.hidden", "hidden"),
        ("/srv/Übung", "ubung"),
        ("/srv/" + "x" * 100, "x" * 64),
        ("/", "agent"),
    ],
)
def test_the_name_is_the_last_path_part(ref: str, name: str) -> None:
    assert source_name(ref) == name


def test_a_dot_is_the_directory_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tide-tables").mkdir()
    monkeypatch.chdir(tmp_path / "tide-tables")
    assert source_name(".") == "tide-tables"


def test_names_in_other_scripts_stay_apart_and_valid() -> None:
    first, second = source_name("/srv/潮汐"), source_name("/srv/港口")
    assert first != second
    assert first.startswith("agent-")
    assert first.isascii()


def test_a_path_its_file_address_and_a_trailing_slash_are_one_source(tmp_path: Path) -> None:
    assert same_source(str(tmp_path), f"file://{tmp_path}/")
    assert same_source(f"{tmp_path}/.git", str(tmp_path))


def test_an_address_with_and_without_git_is_one_source() -> None:
    assert same_source("https://Example.org/a/b.git", "https://example.org/a/b/")
    assert not same_source("https://example.org/a/b", "https://example.org/a/c")


@pytest.mark.parametrize(
    ("ref", "instead"),
    [
        ("git@example.org:owner/name.git", "https://example.org/owner/name.git"),
        ("ssh://git@example.org/owner/name", "https://example.org/owner/name"),
        ("http://example.org/owner/name", "https://example.org/owner/name"),
        ("https://github.com/owner/name/tree/main/skills", "https://github.com/owner/name"),
        ("github.com/owner/name", "https://github.com/owner/name"),
        ("https://someone:geheim@example.org/owner/name", "https://example.org/owner/name"),
    ],
)
def test_an_address_that_is_not_cloned_names_the_one_that_is(ref: str, instead: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_reference(ref)
    assert caught.value.code == "unsupported_url"
    assert f"Use {instead}," in caught.value.hint
    assert "geheim" not in caught.value.message + caught.value.hint
