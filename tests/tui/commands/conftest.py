"""A fresh home for every test of a command, and an agent to work on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harness.commands import expecting
from tests.harness.home import INPUTS, fresh_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this test's commands."""
    return fresh_home(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which an agent was built from documentation and published."""
    with pytest.MonkeyPatch.context() as patch:
        home = fresh_home(tmp_path_factory.mktemp("published"), patch)
        expecting(0, "build", INPUTS / "documentation", "--publish")
    return home


@pytest.fixture
def docs(home: Path, published: Path) -> str:
    """A published agent that answers from documentation."""
    shutil.copytree(published, home)
    return "documentation"
