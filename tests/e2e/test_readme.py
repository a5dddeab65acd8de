"""What the README shows can be typed: the agent of its first command, and the suite and experiment it has for it."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path

import pytest

from tests.harness.commands import expecting
from tests.harness.home import fresh_home

README = Path(__file__).parents[2] / "README.md"


def shown(schema: str) -> str:
    """The file of that schema that the README shows."""
    block = re.search(rf"^    schema: artificer/{schema}/v1\n(?:    .*\n)+", README.read_text("utf-8"), re.M)
    assert block is not None
    return textwrap.dedent(block[0])


def test_the_suite_and_the_experiment_run_on_the_agent_of_the_first_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_home(tmp_path, monkeypatch)
    checkout, suite, experiment = tmp_path / "artificer", tmp_path / "suite", tmp_path / "experiment.yaml"
    checkout.mkdir()
    suite.mkdir()
    shutil.copy(README, checkout)
    (suite / "suite.yaml").write_text(shown("suite"))
    experiment.write_text(shown("experiment"))

    expecting(0, "build", checkout, "--publish")
    assert expecting(0, "eval", suite, "artificer").lines[-1]["passed"] == 1
    assert expecting(0, "experiment", experiment).lines[-1]["stops"] == {"completed": 3}
