"""What a clone says of itself, read without running anything of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from impl.sources import Clone, addresses, cloned_from, named_source, read_clone

Write = Callable[..., Path]
URL = "https://example.org/owner/notes"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def clone(write: Write, commit_all: Callable[[Path], str], git: Callable[..., str]) -> tuple[Path, str]:
    """(a repository with an origin, its commit)."""
    root = write({"README.md": "Notes.\n"})
    commit = commit_all(root)
    git(root, "remote", "add", "origin", URL)
    return root, commit


def test_origin_and_commit_are_read(clone: tuple[Path, str]) -> None:
    root, commit = clone
    assert read_clone(root.parent, root.name) == Clone(URL, commit)


def test_a_branch_that_is_packed_is_read(clone: tuple[Path, str], git: Callable[..., str]) -> None:
    root, commit = clone
    git(root, "pack-refs", "--all")
    assert not list((root / ".git" / "refs" / "heads").iterdir())
    assert read_clone(root.parent, root.name) == Clone(URL, commit)


def test_a_detached_head_is_read(clone: tuple[Path, str], git: Callable[..., str]) -> None:
    root, commit = clone
    git(root, "checkout", "--quiet", "--detach")
    assert read_clone(root.parent, root.name) == Clone(URL, commit)


def test_what_is_no_clone_is_none(write: Write, tmp_path: Path) -> None:
    root = write({"README.md": "x"})
    assert read_clone(root.parent, root.name) is None
    assert read_clone(tmp_path, "absent") is None
    assert read_clone(tmp_path / "absent", "source") is None


@pytest.mark.parametrize("link", ["", ".git", ".git/HEAD", ".git/refs", ".git/config"])
def test_nothing_is_read_through_a_link(clone: tuple[Path, str], tmp_path: Path, link: str) -> None:
    root, commit = clone
    place = root / link if link else root
    elsewhere = tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    found = read_clone(root.parent, root.name)
    assert found is None or found in (Clone(URL, None), Clone(None, commit))


@pytest.mark.parametrize("head", ["", "ref: refs/heads/../../../config", "ref: refs/heads/a b", "x" * 40, "ref: HEAD"])
def test_a_head_that_names_no_commit_gives_none(clone: tuple[Path, str], head: str) -> None:
    root, _ = clone
    (root / ".git" / "HEAD").write_text(head)
    assert read_clone(root.parent, root.name) == Clone(URL, None)


def test_programs_that_its_configuration_names_are_not_run(clone: tuple[Path, str], tmp_path: Path) -> None:
    root, commit = clone
    ran = tmp_path / "ran"
    hook = f"touch {ran}"
    lines = [f'[core]\n\tfsmonitor = "{hook}"\n\tsshCommand = "{hook}"\n[include]\n\tpath = /dev/stdin\n']
    lines += [
        f'[remote "other"]\n\turl = ext::sh -c {hook}\n[remote "origin"]\n\tUrl = "{URL}"\n\tuploadpack = {hook}\n'
    ]
    (root / ".git" / "config").write_text("".join(lines))
    assert read_clone(root.parent, root.name) == Clone(URL, commit)
    assert not ran.exists()


@pytest.mark.parametrize("source", [URL, f"{URL}.git", "https://example.org:8443/notes"])
def test_https_addresses_are_the_sandboxes_to_clone(source: str) -> None:
    assert cloned_from(source) == source


@pytest.mark.parametrize("source", ["/srv/notes", ".", "file:///srv/notes", "http://example.org/x", "", "git@a.b:c/d"])
def test_nothing_else_is(source: str) -> None:
    assert cloned_from(source) is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (URL, URL),
        (f"Build an agent from {URL}\n\nKeep it small.", URL),
        ("build me an agent from ./docs", "./docs"),
        ("Build an agent from owner/name", "owner/name"),
        ("~/notes", "~/notes"),
        ('"/srv/notes"', "/srv/notes"),
        (".", "."),
        ("/srv/notes is where its notes go", None),
        ("An agent that reads /etc/hosts", None),
        (f"Take {URL}, please.", None),
        ("Build an agent from scratch", None),
        ("tides", None),
        ("", None),
    ],
)
def test_words_name_a_source_by_being_one_or_beginning_with_it(words: str, named: str | None) -> None:
    assert named_source(words) == named


def test_the_addresses_in_words_are_those_that_git_could_clone() -> None:
    assert addresses(f"Look at {URL}, or (https://example.org/b/c). Not http://example.org/d, not https://x.") == [
        URL,
        "https://example.org/b/c",
    ]
