"""A whole story in a real terminal: from nothing to a published agent, broken, mended, rolled back and found again."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.stage import stage
from tests.harness.terminal import ROOT
from tests.harness.tmux import Tmux, needs_tmux

pytestmark = [needs_tmux, pytest.mark.slow, pytest.mark.timeout(300)]

SKILL = """---
name: {name}
description: Says how to {name}. Use it when somebody asks how to {name}.
license: MIT
---

# How to {name}

Do it slowly.
"""

EDITOR = """#!/bin/sh
[ -z "$ARTIFICER_PASSPHRASE" ] && sh "$(dirname "$0")/edit" "$1" "$(dirname "$1")"
"""


def source(tmp_path: Path) -> Path:
    """Two skills to choose from."""
    root = tmp_path / "garden"
    for name in ("prune", "sow"):
        (root / name).mkdir(parents=True)
        (root / name / "SKILL.md").write_text(SKILL.format(name=name))
    return root


def artificer() -> str:
    return f"{shlex.quote(sys.executable)} -P -m tui.cli"


@pytest.fixture
def terminal(tmp_path: Path) -> Tmux:
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    env = {
        "ARTIFICER_HOME": str(tmp_path / "home"),
        "ARTIFICER_PROVIDER": "offline",
        "ARTIFICER_PASSPHRASE": "what no editor gets to see",
        "EDITOR": str(editor),
        "HOME": str(tmp_path),
        "TEXTUAL_ANIMATIONS": "none",
        "LANG": "C.UTF-8",
    }
    return Tmux(env=env, cwd=ROOT)


def test_from_nothing_to_a_published_agent_and_back(tmp_path: Path, terminal: Tmux) -> None:
    edit = tmp_path / "edit"
    with terminal:
        terminal.run(artificer())
        terminal.wait("Artificer builds agents.")

        # name a source, answer by number
        terminal.type(str(source(tmp_path)))
        terminal.keys("Enter")
        terminal.wait("your turn · question", "prune", "sow")
        terminal.type("1")
        terminal.keys("Enter")
        terminal.wait("✓ done", "passed")

        # read the validation
        terminal.keys("F5")
        terminal.wait("✓ passed")
        terminal.keys("Enter")
        terminal.wait("Validation of", "✓ manifest", "it says well-formed, never good")
        terminal.keys("Escape")
        terminal.wait("✓ done", gone="Validation of")

        # publish by key
        terminal.keys("F4")
        terminal.wait("p publish")
        terminal.keys("p")
        terminal.wait("nothing → ", "difference", "y publish")
        terminal.keys("y")
        terminal.wait("● Published")

        # edit the persona, publish that too
        edit.write_text('echo "You whisper." >> "$1"')
        terminal.keys("e")
        terminal.wait("✓ It passed", "edited from")
        terminal.keys("p")
        terminal.wait("y publish")
        terminal.keys("y")
        terminal.wait("› ● ", gone="y publish")

        # break it: the revision is kept, and fails with its problem
        edit.write_text('echo "colour: blue" >> "$2/agent.yaml"')
        terminal.keys("e")
        terminal.wait("✗ failed", "unknown_key", "Next:")
        terminal.keys("Escape")
        terminal.wait("1 problem", gone="unknown_key")
        terminal.keys("p")  # no passed run: it is validated again, and shows its problems instead
        terminal.wait("unknown_key")
        terminal.keys("Escape")

        # mend it
        edit.write_text("""sed -i '/colour/d' "$2/agent.yaml"; echo "You hum." >> "$1" """)
        terminal.wait("1 problem", gone="unknown_key")
        terminal.keys("e")
        terminal.wait("✓ It passed", "› ✓ ")

        # roll back by key
        terminal.keys("F4", "j", "j")
        terminal.wait("› ● ")
        terminal.keys("b")
        terminal.wait("Roll back", "y roll back")
        terminal.keys("y")
        screen = terminal.wait("● Rolled back")
        assert "live" in screen

        # quit, and come back to the same place
        terminal.keys("C-q")
        terminal.wait("left 0")
        terminal.run(artificer())
        terminal.wait("✓ done", "prune")

    store = stage(tmp_path / "home").host.store
    (agent,) = store.agents()
    log = store.channel_log(agent)
    assert [entry.action for entry in log] == ["publish", "publish", "rollback"]
    assert log[2].digest == log[0].digest
    assert [run.passed for run in store.validations(agent)] == [True, True, False, False, True]
    assert [revision.by for revision in store.revisions(agent)] == ["builder", "person", "person", "person"]


SUITE = """schema: artificer/suite/v1
name: garden
network: true
cases:
- {id: prunes, task: "How do I prune?", checks: [{contains: slowly}]}
- {id: flies, task: "How do I prune?", checks: [{contains: "on wings"}]}
"""


def test_what_the_command_line_evaluates_is_read_labelled_and_opened_in_the_app(tmp_path: Path, terminal: Tmux) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "suite.yaml").write_text(SUITE)

    def run(*args: object, code: int = 0) -> str:
        words = [sys.executable, "-P", "-m", "tui.cli", *map(str, args)]
        done = subprocess.run(words, env={**os.environ, **terminal.env}, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == code, done.stderr
        return done.stdout

    run("build", source(tmp_path), "--answer", "prune")
    with terminal:
        terminal.run(artificer())
        terminal.wait("DONE TODAY", "◆ garden")
        terminal.keys("l")
        terminal.wait("No comparison yet.")
        terminal.keys("F4")
        terminal.wait("No evaluation yet.", "artificer eval SUITE AGENT")

        # it comes while the screen is looked at
        evaluation = run("eval", suite, "garden", code=1).splitlines()[-1].split()[0]
        terminal.wait("✗ 1/2", "✓ passed   prunes", "✗ failed   flies")

        # a label by key is the command's
        terminal.keys("Enter")
        terminal.wait("› ✓ passed   prunes")
        terminal.keys("Down", "p")
        terminal.wait("≠ pass", "checks and labels agree on 0 of 1")
        row = json.loads(run("label", evaluation, "--json", "--case", "prunes", "--verdict", "pass"))
        assert {one["case"]: one["verdict"] for one in row["labels"]} == {"flies": "pass", "prunes": "pass"}
        terminal.wait("= pass", "checks and labels agree on 1 of 2")

        # the case's session, and back; and the same place after a restart
        terminal.keys("Enter")
        terminal.wait("How do I prune?", "✓ done", "^o lab")
        terminal.keys("C-o")
        terminal.wait("✗ failed   flies", gone="^o lab")
        terminal.keys("C-q")
        terminal.wait("left 0")
        terminal.run(artificer())
        terminal.wait("✗ 1/2", "✗ failed   flies")


def test_a_window_that_changes_its_size_shows_fewer_panes_and_loses_nothing(tmp_path: Path, terminal: Tmux) -> None:
    with terminal:
        terminal.run(artificer())
        terminal.wait("Artificer builds agents.")
        terminal.type(str(source(tmp_path)))
        terminal.keys("Enter")
        terminal.wait("your turn · question", "F3 Workspace")
        terminal.type("half an ans")
        terminal.resize(80, 24)
        terminal.wait("F3 Log", "half an ans", gone="F3 Workspace")
        terminal.resize(120, 36)
        terminal.wait("F3 Workspace", "half an ans", gone="F3 Log")
        terminal.keys("C-q")
        terminal.wait("left 0")
        terminal.run(artificer())
        terminal.wait("your turn · question", "half an ans")
