"""Small sources for the import tests: written files, repositories, and the inputs kept in the tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from impl.sources import ImportResult, import_source

INPUTS = Path(__file__).parents[2] / "inputs"


@pytest.fixture
def inputs() -> Path:
    """The sources kept under `tests/inputs`."""
    return INPUTS


@pytest.fixture
def given_inputs() -> Path:
    """Further sources, from the folder that ARTIFICER_TEST_INPUTS names."""
    folder = os.environ.get("ARTIFICER_TEST_INPUTS")
    if not folder:
        pytest.skip("ARTIFICER_TEST_INPUTS names no folder with further inputs")
    return Path(folder)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write files (path to text or bytes) below a new directory and give the directory."""

    def _write(files: Mapping[str, str | bytes], name: str = "source") -> Path:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        for path, content in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return _write


@pytest.fixture
def git() -> Callable[..., str]:
    """Run git in a directory, apart from this machine's configuration."""

    def _git(directory: Path, *arguments: str) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
        command = ["git", *identity, *arguments]
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    return _git


@pytest.fixture
def commit_all(git: Callable[..., str]) -> Callable[[Path], str]:
    """Make a directory a repository with one commit of all its files; gives the commit."""

    def _commit(directory: Path) -> str:
        git(directory, "init", "--quiet")
        git(directory, "add", "--all", "--force")
        git(directory, "commit", "--quiet", "--message", "All of it")
        return git(directory, "rev-parse", "HEAD")

    return _commit


@pytest.fixture
def convert(tmp_path: Path) -> Callable[..., ImportResult]:
    """Import a directory into a fresh bundle directory."""

    def _convert(root: Path, **options: object) -> ImportResult:
        count = len(list(tmp_path.glob("bundle*")))
        return import_source(root, out=tmp_path / f"bundle{count}", **{"name": "agent", **options})  # type: ignore[arg-type]

    return _convert
