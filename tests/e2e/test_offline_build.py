"""Whole command lines with the offline provider: an OpenAPI document becomes an agent, a broken agent is mended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tui.commands import run

INPUTS = Path(__file__).parents[1] / "inputs"
Command = Callable[..., tuple[int, list[Any]]]


@pytest.fixture
def artificer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command line with --json in a fresh home; (exit code, the lines it printed)."""
    monkeypatch.setenv("ARTIFICER_HOME", str(tmp_path / "home"))
    for name in ("ARTIFICER_PROVIDER", "ARTIFICER_MODEL", "ARTIFICER_SANDBOX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> tuple[int, list[Any]]:
        capsys.readouterr()
        code = run([*words, "--json"])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return command


def test_an_openapi_document_asks_and_the_answer_publishes_its_tools(artificer: Command) -> None:
    code, lines = artificer("build", str(INPUTS / "openapi"), "--publish")
    assert code == 10
    waiting = lines[-1]["waiting"]
    assert (waiting["kind"], waiting["recommended"]) == ("question", "read")
    assert [option["id"] for option in waiting["options"]][:3] == ["read", "all-operations", "tag:berths"]
    code, lines = artificer("answer", lines[-1]["session"], "read, op:addBoat")
    assert code == 0, lines[-1]
    assert (lines[-1]["agent"], lines[-1]["channel"]) == ("openapi", "live")
    for part in ("5 tools, 2 credentials", "artificer credentials set openapi captain"):
        assert part in lines[-1]["output"]
    code, rows = artificer("show", "openapi")
    assert rows[0]["licence"]["spdx"] == "MIT"


def test_an_agent_that_a_person_broke_is_mended_when_told(artificer: Command, tmp_path: Path) -> None:
    broken = tmp_path / "helper"
    (broken / "skills" / "one").mkdir(parents=True)
    (broken / "agent.yaml").write_text("schema: artificer/v1\nname: helper\ncolour: red\n")
    (broken / "persona.md").write_text("You help.\n")
    (broken / "skills" / "one" / "SKILL.md").write_text("---\nname: two\ndescription: Does one.\n---\n\nDo it.\n")
    assert artificer("save", str(broken))[0] == 0
    assert artificer("validate", "helper")[0] == 1
    code, lines = artificer("build", "--agent", "helper", "-m", "repair it")
    if lines[-1]["stop"] == "needs_approval":
        pytest.skip("no sandbox that may run a command unasked works here")
    assert code == 0, lines[-1]
    for part in ("one is listed under skills", "colour went under metadata", "its name 'two' became 'one'"):
        assert part in lines[-1]["output"]
    assert artificer("validate", "helper")[0] == 0
    code, rows = artificer("revisions", "helper")
    assert len(rows[0]) == 2
