"""Bringing sources in: what is copied, what is left out, and that a clone gives the same bytes."""

from __future__ import annotations

import asyncio
import gc
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from core import digest_tree
from impl.sources import Caps, SourceError, fetch_source

Write = Callable[..., Path]
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


async def code_of(ref: object, dest: Path, caps: Caps | None = None) -> str:
    with pytest.raises(SourceError) as caught:
        await fetch_source(str(ref), dest, caps=caps)
    assert caught.value.hint
    assert not dest.exists()
    return caught.value.code


async def test_gitignore_holds_at_every_level_without_a_repository(write: Write, tmp_path: Path) -> None:
    root = write(
        {
            ".gitignore": "*.log\n/out/\n!keep.log\n",
            "a.log": "",
            "keep.log": "",
            "out/x.md": "",
            "docs/out/x.md": "",
            "docs/.gitignore": "draft-*\n!a.log\n",
            "docs/a.log": "",
            "docs/draft-1.md": "",
            "docs/deep/draft-2.md": "",
            "draft-3.md": "",
        }
    )
    await fetch_source(str(root), tmp_path / "dest")
    kept = {".gitignore", "keep.log", "docs/.gitignore", "docs/a.log", "docs/out/x.md", "draft-3.md"}
    assert names(tmp_path / "dest") == kept


async def test_a_home_of_artificer_within_a_source_is_left_out(write: Write, tmp_path: Path) -> None:
    root = write({"README.md": "x", "state/artificer.db": "x", "state/workspaces/s/work/source/README.md": "x"})
    fetched = await fetch_source(str(root), tmp_path / "dest")
    assert names(tmp_path / "dest") == {"README.md"}
    assert fetched.notes == ("state: Artificer's own home, left out",)


async def test_environments_and_caches_never_come_along(write: Write, tmp_path: Path) -> None:
    tag = "Signature: 8a477f597d28d172789f06886806bc55\n"
    root = write(
        {
            "README.md": "x",
            "node_modules/a/README.md": "x",
            ".venv/lib/x.py": "x",
            "pkg/__pycache__/x.pyc": "x",
            "dist/x.md": "x",
            "target/CACHEDIR.TAG": tag,
            "target/debug/x": "x",
        }
    )
    await fetch_source(str(root), tmp_path / "dest")
    assert names(tmp_path / "dest") == {"README.md"}


async def test_links_and_pipes_are_left_out_with_a_note(write: Write, tmp_path: Path) -> None:
    root = write({"a.md": "text"})
    (root / "outside.md").symlink_to("/etc/hostname")
    (root / "inside.md").symlink_to("a.md")
    os.mkfifo(root / "pipe")
    fetched = await fetch_source(str(root), tmp_path / "dest")
    assert names(tmp_path / "dest") == {"a.md"}
    assert [note.partition(":")[0] for note in fetched.notes] == ["inside.md", "outside.md", "pipe"]


async def test_copies_of_read_only_files_are_writable_and_keep_the_execute_bit(write: Write, tmp_path: Path) -> None:
    root = write({"run.sh": "x", "a.md": "x"})
    (root / "run.sh").chmod(0o555)
    (root / "a.md").chmod(0o444)
    await fetch_source(str(root), tmp_path / "dest")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "dest").iterdir()}
    assert modes == {"run.sh": 0o755, "a.md": 0o644}


async def test_a_clone_gives_the_same_bytes_as_the_folder(
    write: Write, commit_all: Callable[[Path], str], tmp_path: Path
) -> None:
    root = write({"a.md": "text\r\n", "run.sh": "x", "ü/b.md": "x", ".gitignore": "*.log\n", "forced.log": "x"})
    (root / "run.sh").chmod(0o755)
    (root / "link.md").symlink_to("a.md")
    commit = commit_all(root)
    before = os.umask(0o077)
    try:
        by_path = await fetch_source(str(root), tmp_path / "path")
        by_git = await fetch_source(f"file://{root}", tmp_path / "git")
    finally:
        os.umask(before)
    assert digest_tree(tmp_path / "path") == digest_tree(tmp_path / "git")
    assert (by_path.commit, by_git.commit) == (commit, commit)
    assert (by_path.path, by_git.url) == (str(root), f"file://{root}")
    assert by_path.notes == by_git.notes
    assert not (tmp_path / "git" / ".git").exists()


async def test_uncommitted_changes_of_a_folder_come_along(
    write: Write, commit_all: Callable[[Path], str], tmp_path: Path
) -> None:
    root = write({"a.md": "old"})
    commit_all(root)
    (root / "a.md").write_text("new")
    await fetch_source(str(root), tmp_path / "dest")
    assert (tmp_path / "dest" / "a.md").read_text() == "new"


async def test_a_folder_inside_a_repository_has_no_commit(
    write: Write, commit_all: Callable[[Path], str], tmp_path: Path
) -> None:
    root = write({"inner/a.md": "x"})
    commit_all(root)
    assert (await fetch_source(str(root / "inner"), tmp_path / "dest")).commit is None


async def test_no_filter_of_the_persons_configuration_runs(
    write: Write, commit_all: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"a.md": "text", ".gitattributes": "*.md filter=mark\n"})
    commit_all(root)
    home = tmp_path / "home"
    home.mkdir()
    mark = tmp_path / "ran"
    (home / ".gitconfig").write_text(f'[filter "mark"]\n\tsmudge = touch {mark}; cat\n')
    monkeypatch.setenv("HOME", str(home))
    await fetch_source(f"file://{root}", tmp_path / "dest")
    assert (tmp_path / "dest" / "a.md").read_text() == "text"
    assert not mark.exists()


async def test_a_bare_repository_is_cloned(
    write: Write, commit_all: Callable[[Path], str], git: Callable[..., str], tmp_path: Path
) -> None:
    commit = commit_all(write({"a.md": "x"}))
    git(tmp_path, "clone", "--quiet", "--bare", "source", "bare.git")
    fetched = await fetch_source(str(tmp_path / "bare.git"), tmp_path / "dest")
    assert (fetched.kind, fetched.commit) == ("git", commit)


async def test_too_many_files_or_bytes_are_refused(write: Write, tmp_path: Path) -> None:
    root = write({"a.md": "12345", "b.md": "12345"})
    assert await code_of(root, tmp_path / "dest", Caps(files=1)) == "too_large"
    assert await code_of(root, tmp_path / "dest", Caps(bytes=9)) == "too_large"


async def test_a_single_large_file_is_left_out_with_a_note(write: Write, tmp_path: Path) -> None:
    root = write({"a.md": "12345", "big.bin": "x" * 100})
    fetched = await fetch_source(str(root), tmp_path / "dest", caps=Caps(file_bytes=50))
    assert names(tmp_path / "dest") == {"a.md"}
    assert fetched.notes[0].startswith("big.bin: ")


async def test_lfs_pointers_are_missing_files(write: Write, tmp_path: Path) -> None:
    assert await code_of(write({"README.md": "x", "guide.md": LFS}), tmp_path / "dest") == "blobs_missing"


async def test_pictures_that_are_lfs_pointers_are_left_out(write: Write, tmp_path: Path) -> None:
    fetched = await fetch_source(str(write({"README.md": "x", "logo.png": LFS})), tmp_path / "dest")
    assert names(tmp_path / "dest") == {"README.md"}
    assert "logo.png" in fetched.notes[0]


async def test_a_repository_with_nothing_checked_out_says_so(
    write: Write, commit_all: Callable[[Path], str], tmp_path: Path
) -> None:
    root = write({"a.md": "x"})
    commit_all(root)
    (root / "a.md").unlink()
    assert await code_of(root, tmp_path / "dest") == "blobs_missing"


@pytest.mark.parametrize("held", ["nothing", "links"])
async def test_a_repository_whose_commit_holds_no_file_is_empty(
    write: Write, git: Callable[..., str], commit_all: Callable[[Path], str], tmp_path: Path, held: str
) -> None:
    root = write({})
    if held == "links":
        (root / "README.md").symlink_to("/etc/hostname")
        commit_all(root)
    else:
        git(root, "init", "--quiet")
        git(root, "commit", "--quiet", "--allow-empty", "--message", "x")
    assert await code_of(root, tmp_path / "dest") == "empty"
    assert await code_of(f"file://{root}", tmp_path / "dest") == "empty"


async def test_a_device_is_no_source(tmp_path: Path) -> None:
    assert await code_of("/dev/null", tmp_path / "dest") == "not_readable"


async def test_a_repository_that_lost_an_object_says_so(
    write: Write, commit_all: Callable[[Path], str], git: Callable[..., str], tmp_path: Path
) -> None:
    root = write({"a.md": "x", "b.md": "y"})
    commit_all(root)
    blob = git(root, "rev-parse", "HEAD:b.md")
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert await code_of(f"file://{root}", tmp_path / "dest") == "blobs_missing"


async def test_an_empty_folder_and_an_empty_repository_are_empty(
    write: Write, git: Callable[..., str], tmp_path: Path
) -> None:
    root = write({})
    assert await code_of(root, tmp_path / "dest") == "empty"
    git(root, "init", "--quiet")
    assert await code_of(root, tmp_path / "dest") == "empty"
    assert await code_of(f"file://{root}", tmp_path / "dest") == "empty"


async def test_trees_in_trees_that_list_files_without_end_are_refused(
    write: Write, commit_all: Callable[[Path], str], git: Callable[..., str], tmp_path: Path
) -> None:
    root, made = write({"README.md": "Hello.\n"}), tmp_path / "made"
    commit_all(root)
    tree = git(root, "rev-parse", "HEAD^{tree}")
    for _ in range(9):
        made.write_bytes(b"".join(b"40000 d%d\0" % number + bytes.fromhex(tree) for number in range(10)))
        tree = git(root, "hash-object", "-t", "tree", "-w", str(made))
    git(root, "update-ref", "HEAD", git(root, "commit-tree", tree, "-m", "A thousand million files"))
    assert await code_of(f"file://{root}", tmp_path / "dest") == "too_large"


async def test_what_is_not_there_is_not_found(write: Write, tmp_path: Path) -> None:
    assert await code_of(tmp_path / "nowhere", tmp_path / "dest") == "not_found"
    assert await code_of(f"file://{tmp_path}/nowhere", tmp_path / "dest") == "not_found"
    assert await code_of(f"file://{write({'a.md': 'x'})}", tmp_path / "dest") == "not_found"
    assert await code_of(f"file://{write({'a.md': 'x'})}/a.md", tmp_path / "dest") == "not_found"


async def test_a_name_without_an_address_may_be_misspelt_or_the_network_gone(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.invalid leads nowhere from here.* no network") as caught:
        await fetch_source("https://nowhere.invalid/owner/name", tmp_path / "dest")
    assert caught.value.code == "clone_failed"


async def test_an_address_of_another_users_repository_says_so(
    write: Write, commit_all: Callable[..., str], tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files to another user")
    root = write({"a.md": "x"})
    commit_all(root)
    for path in (root, *root.rglob("*")):
        os.chown(path, 65534, 65534)
    with pytest.raises(SourceError, match="belongs to another user"):
        await fetch_source(f"file://{root}", tmp_path / "dest")
    fetched = await fetch_source(str(root), tmp_path / "dest")
    assert (fetched.files, fetched.commit is not None) == (1, True)


async def test_an_unreadable_folder_says_so(write: Write, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every folder")
    root = write({"a.md": "x"})
    root.chmod(0)
    assert await code_of(root, tmp_path / "dest") == "not_readable"


async def test_a_folder_that_is_not_empty_is_left_alone(write: Write, tmp_path: Path) -> None:
    dest = write({"mine.md": "x"}, "dest")
    with pytest.raises(SourceError):
        await fetch_source(str(write({"a.md": "x"})), dest)
    assert names(dest) == {"mine.md"}


class Silent:
    """A server that accepts and never says anything; knows how many connections are open."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.closed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened.set()
        while await reader.read(1024):
            pass
        self.closed.set()
        writer.close()


async def test_a_clone_ends_at_its_deadline(tmp_path: Path) -> None:
    silent = Silent()
    async with await asyncio.start_server(silent.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"https://127.0.0.1:{port}/owner/name"
        assert await code_of(url, tmp_path / "dest", Caps(seconds=0.5)) == "clone_failed"
        await asyncio.wait_for(silent.closed.wait(), 60)


async def test_cancelling_a_clone_ends_git(tmp_path: Path) -> None:
    silent = Silent()
    async with await asyncio.start_server(silent.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        task = asyncio.create_task(fetch_source(f"https://127.0.0.1:{port}/owner/name", tmp_path / "dest"))
        await asyncio.wait_for(silent.opened.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(silent.closed.wait(), 60)
    assert list(tmp_path.iterdir()) == []


async def test_cancelling_a_copy_leaves_nothing_and_says_nothing(write: Write, tmp_path: Path) -> None:
    lost: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    root = write({f"{number}.md": "x" for number in range(2_000)})

    async def cancelled() -> bool:
        begun = asyncio.Event()
        task = asyncio.create_task(fetch_source(str(root), tmp_path / "dest", progress=lambda _: begun.set()))
        await begun.wait()
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert await cancelled()
    gc.collect()
    assert (lost, (tmp_path / "dest").exists()) == ([], False)


async def test_what_may_not_be_opened_is_not_readable(write: Write, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    root = write({"a.md": "x", "sealed/b.md": "x"})
    (root / "a.md").chmod(0)
    (root / "sealed").chmod(0)
    for ref in (root, root / "a.md", root / "sealed"):
        assert await code_of(ref, tmp_path / "dest") == "not_readable"
