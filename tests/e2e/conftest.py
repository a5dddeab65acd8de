"""A fresh home for every test of a command, and an agent to work on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.commands import expecting
from tests.harness.home import INPUTS, fresh_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this test's commands."""
    return fresh_home(tmp_path, monkeypatch)


@pytest.fixture
def docs(home: Path) -> str:
    """A published agent that answers from documentation."""
    expecting(0, "build", INPUTS / "documentation", "--publish", "--provider", "offline")
    return "documentation"
