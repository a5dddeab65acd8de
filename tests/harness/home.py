"""A fresh home for commands: no state, settings or keys of the machine that runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

INPUTS = Path(__file__).parent.parent / "inputs"


def fresh_home(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point every command at a home below `directory`, in an empty working directory, with no variable set."""
    for name in list(os.environ):
        if name.startswith(("ARTIFICER_", "ANTHROPIC_", "OPENAI_")) and name != "ARTIFICER_TEST_INPUTS":
            monkeypatch.delenv(name)
    home, work = directory / "home", directory / "cwd"
    work.mkdir()
    monkeypatch.setenv("ARTIFICER_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory / "config"))
    monkeypatch.setenv("HOME", str(directory / "user"))
    monkeypatch.chdir(work)
    return home
