"""Git repositories for tests, made apart from this machine's configuration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(directory: Path, *arguments: str) -> str:
    """Run git in `directory`; its output."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    command = ["git", *identity, "-c", "protocol.file.allow=always", *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit_all(directory: Path) -> str:
    """Make `directory` a repository with one commit of all its files; gives the commit."""
    git(directory, "init", "--quiet")
    git(directory, "add", "--all", "--force")
    git(directory, "commit", "--quiet", "--allow-empty", "--message", "All of it")
    return git(directory, "rev-parse", "HEAD")


def drop_blobs(repository: Path, keep: int = 0) -> None:
    """Delete the loose objects of all files but the first `keep` of a repository, as a damaged disk would."""
    listed = git(repository, "ls-tree", "-r", "HEAD").splitlines()
    for line in listed[keep:]:
        name = line.split()[2]
        (repository / ".git" / "objects" / name[:2] / name[2:]).unlink()
