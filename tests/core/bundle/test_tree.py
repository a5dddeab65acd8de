"""The digest names the content of a tree and nothing else."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import unicodedata
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from core.bundle.tree import (
    Caps,
    UnsafeTree,
    check_entries,
    digest_entries,
    digest_tree,
    fold,
    scan_tree,
    survey_tree,
    write_tree,
)
from core.ports import StoreError, TreeEntry

VECTOR = "sha256:b977b9fbbc5bd25ae66bc5e10c9228d748d69b073657bf71582883672643a973"


def put(root: Path, path: str, content: bytes = b"x", *, x: bool = False) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(0o755 if x else 0o644)


def codes(root: Path) -> list[str]:
    with pytest.raises(UnsafeTree) as caught:
        scan_tree(root)
    return [str(problem.code) for problem in caught.value.problems]


def vector(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    put(root, "agent.yaml", b"schema: artificer/v1\nname: vector\n")
    put(root, "persona.md", b"You are a test vector.\n")
    put(root, "skills/café/run.sh", b"#!/bin/sh\necho ok\n", x=True)
    (root / "corpus").mkdir()
    return root


def test_the_published_vector_has_its_digest(tmp_path: Path) -> None:
    assert digest_tree(vector(tmp_path)) == VECTOR


def test_the_published_vector_stands_in_the_documentation() -> None:
    assert VECTOR in (digest_tree.__doc__ or "")


def test_ignored_names_do_not_change_the_digest(tmp_path: Path) -> None:
    vector(tmp_path)
    put(tmp_path, ".git/config")
    put(tmp_path, "skills/.DS_Store")
    put(tmp_path, "skills/__pycache__/a.txt")
    put(tmp_path, "skills/a.pyc")
    (tmp_path / "empty/inside").mkdir(parents=True)
    assert digest_tree(tmp_path) == VECTOR


def test_the_executable_bit_changes_the_digest(tmp_path: Path) -> None:
    vector(tmp_path)
    (tmp_path / "persona.md").chmod(0o755)
    assert digest_tree(tmp_path) != VECTOR


def test_a_name_in_decomposed_form_has_the_digest_of_the_composed_one(tmp_path: Path) -> None:
    vector(tmp_path)
    (tmp_path / "skills/café").rename(tmp_path / "skills" / unicodedata.normalize("NFD", "café"))
    assert digest_tree(tmp_path) == VECTOR


def test_the_encoding_is_rfc_8785() -> None:
    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), unique=True))
    def holds(paths: list[str]) -> None:
        entries = [TreeEntry(path, "0" * 64, len(path), bool(i % 2)) for i, path in enumerate(paths)]
        rows = [e.to_json() for e in sorted(entries, key=lambda e: e.path.encode())]
        assert digest_entries(entries) == "sha256:" + hashlib.sha256(rfc8785.dumps(rows)).hexdigest()

    holds()


names = st.text("abcdefgh0123", min_size=1, max_size=4)
files = st.dictionaries(
    st.tuples(names, names).map("/".join), st.tuples(st.binary(max_size=20), st.booleans()), max_size=8
)


@settings(max_examples=25, deadline=None)
@given(files, st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_the_order_of_creation_or_on_times(tree, random) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        first, second = Path(scratch, "a"), Path(scratch, "b")
        first.mkdir()
        second.mkdir()
        for path, (content, x) in tree.items():
            put(first, path, content, x=x)
        shuffled = list(tree.items())
        random.shuffle(shuffled)
        for path, (content, x) in shuffled:
            put(second, path, content, x=x)
            os.utime(second / path, (1, 1))
        assert digest_tree(first) == digest_tree(second)


@settings(max_examples=25, deadline=None)
@given(files)
def test_a_written_tree_has_the_digest_it_was_written_from(tree) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        source, copy = Path(scratch, "a"), Path(scratch, "b")
        source.mkdir()
        blobs = {}
        for path, (content, x) in tree.items():
            put(source, path, content, x=x)
            blobs[hashlib.sha256(content).hexdigest()] = content
        write_tree(scan_tree(source), blobs.__getitem__, copy)
        assert digest_tree(copy) == digest_tree(source)


@settings(max_examples=50)
@given(st.text(max_size=10))
def test_folding_ignores_case_and_unicode_form(text: str) -> None:
    assert fold(text) == fold(unicodedata.normalize("NFD", text))
    assert fold(fold(text)) == fold(text)


def test_large_files_are_hashed_whole(tmp_path: Path) -> None:
    content = os.urandom(3 * (1 << 20) + 7)
    put(tmp_path, "a", content)
    put(tmp_path, "b", content[: 1 << 20])
    put(tmp_path, "c", b"")
    expected = [
        (p, hashlib.sha256(c).hexdigest(), len(c)) for p, c in (("a", content), ("b", content[: 1 << 20]), ("c", b""))
    ]
    assert [(e.path, e.sha256, e.size) for e in scan_tree(tmp_path)] == expected


@pytest.mark.parametrize("target", ["persona.md", "/etc/passwd", "nowhere", "."])
def test_symbolic_links_are_refused(tmp_path: Path, target: str) -> None:
    put(tmp_path, "persona.md")
    (tmp_path / "link").symlink_to(target)
    assert codes(tmp_path) == ["symlink"]


def test_a_file_that_grows_while_it_is_read_is_a_problem_and_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = tmp_path / "corpus.md"
    growing.write_text("short")
    real = os.fstat

    def then_larger(handle: int) -> os.stat_result:
        found = real(handle)
        os.truncate(growing, 1 << 40)
        return found

    monkeypatch.setattr(os, "fstat", then_larger)
    (problem,) = survey_tree(tmp_path).problems
    assert (problem.code, problem.path, problem.message) == ("unreadable", "corpus.md", "grows while it is read")


def test_pipes_are_refused_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert codes(tmp_path) == ["special_file"]


def test_a_file_with_a_name_outside_the_tree_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "outside")
    (tmp_path / "tree").mkdir()
    os.link(tmp_path / "outside", tmp_path / "tree/inside")
    assert codes(tmp_path / "tree") == ["hard_link"]


def test_hard_links_within_the_tree_are_two_files(tmp_path: Path) -> None:
    put(tmp_path, "a")
    os.link(tmp_path / "a", tmp_path / "b")
    assert [entry.path for entry in scan_tree(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("one", "other"), [("Readme", "README"), ("dir/a", "Dir/b"), ("é", "e\u0301"), ("straße", "STRASSE")]
)
def test_names_a_file_system_could_confuse_are_refused(tmp_path: Path, one: str, other: str) -> None:
    put(tmp_path, one)
    put(tmp_path, other)
    if len(list(tmp_path.rglob("*"))) < 2:
        pytest.skip("this file system confuses them itself")
    assert codes(tmp_path) == ["case_clash"]


def test_an_ignored_or_empty_sibling_is_no_clash(tmp_path: Path) -> None:
    put(tmp_path, "docs/a")
    (tmp_path / "Docs").mkdir()
    assert [entry.path for entry in scan_tree(tmp_path)] == ["docs/a"]


def test_a_name_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system takes Unicode names alone")
    assert codes(tmp_path) == ["bad_path"]


@pytest.mark.parametrize("name", ["..\\up.md", "two\nlines.md", "\x1b[31mred.md", "a\x85b"])
def test_a_name_with_a_backslash_or_a_control_character_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    assert codes(tmp_path) == ["bad_path"]


def test_directories_that_nest_without_end_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "/".join(["d"] * 80) + "/f")
    assert codes(tmp_path) == ["too_deep"]


def test_caps_are_problems_of_their_own(tmp_path: Path) -> None:
    put(tmp_path, "a", b"12345")
    put(tmp_path, "b", b"123")
    put(tmp_path, "c", b"123")
    found = {
        str(problem.code)
        for caps in (Caps(file=4), Caps(total=7), Caps(files=2))
        for problem in survey_tree(tmp_path, caps).problems
    }
    assert found == {"file_too_large", "bundle_too_large", "too_many_files"}


@pytest.mark.parametrize("kind", ["file", "absent"])
def test_what_is_no_directory_raises(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "file":
        path.write_text("x")
    with pytest.raises(NotADirectoryError):
        digest_tree(path)


def entry(path: str, content: bytes = b"x") -> TreeEntry:
    return TreeEntry(path, hashlib.sha256(content).hexdigest(), len(content), False)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../x", "", "a//b", "./a", "a/"])
def test_stored_paths_that_lead_elsewhere_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnsafeTree) as caught:
        write_tree([entry(path)], lambda _: b"x", tmp_path / "dest")
    assert [p.code for p in caught.value.problems] == ["path_outside"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("paths", [("a", "A"), ("a", "a/b"), ("a", "a"), ("d/x", "D/y")])
def test_stored_paths_that_cannot_stand_side_by_side_are_refused(paths: tuple[str, str]) -> None:
    assert [p.code for p in check_entries([entry(path) for path in paths])] == ["case_clash"]


def test_writing_refuses_a_directory_with_anything_in_it(tmp_path: Path) -> None:
    put(tmp_path, "dest/mine")
    with pytest.raises(FileExistsError):
        write_tree([entry("a")], lambda _: b"x", tmp_path / "dest")
    assert [p.name for p in (tmp_path / "dest").iterdir()] == ["mine"]


def test_writing_into_an_empty_directory_keeps_that_directory(tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    dest.mkdir()
    before = dest.stat().st_ino
    write_tree([entry("agent.yaml"), entry("d/a")], lambda _: b"x", dest)
    assert dest.stat().st_ino == before
    assert [e.path for e in scan_tree(dest)] == ["agent.yaml", "d/a"]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    def read(sha256: str) -> bytes:
        raise StoreError("not_found", "gone")

    with pytest.raises(StoreError):
        write_tree([entry("a")], read, tmp_path / "dest")
    assert list(tmp_path.iterdir()) == []


def test_content_that_is_not_what_its_entry_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        write_tree([entry("a", b"one")], lambda _: b"two", tmp_path / "dest")
    assert caught.value.code == "damaged"
    assert list(tmp_path.iterdir()) == []


def test_the_published_tree_survives_a_copy(tmp_path: Path) -> None:
    shutil.copytree(vector(tmp_path / "a"), tmp_path / "b")
    assert digest_tree(tmp_path / "b") == VECTOR
