"""providers, doctor and gc: what this machine has, and cleaning up."""

from __future__ import annotations

import shutil
from pathlib import Path

from core import register_provider
from tests.harness.commands import expecting
from tests.harness.scripted import ScriptedProvider


def test_providers_say_whether_they_are_ready_and_what_would_mend_them(home: Path) -> None:
    rows = {row["name"]: row for row in expecting(0, "providers").value}
    assert rows["offline"]["state"] == "ready"
    assert "ANTHROPIC_API_KEY" in rows["anthropic"]["message"]
    assert rows["anthropic"]["fix"].startswith("export ANTHROPIC_API_KEY=")


def test_a_provider_that_does_not_load_is_a_row_and_no_failure(home: Path) -> None:
    def broken() -> ScriptedProvider:
        raise ImportError("no module named nonsense")

    register_provider("broken", broken)
    row = next(row for row in expecting(0, "providers").value if row["name"] == "broken")
    assert (row["state"], row["message"]) == ("not installed", "no module named nonsense")


def test_the_doctor_looks_at_everything_an_agent_needs(home: Path) -> None:
    names = {row["name"] for row in expecting(0, "doctor").value}
    assert {"python", "store", "sandbox bubblewrap", "sandbox process", "git", "provider offline"} <= names


def test_a_home_that_cannot_be_used_makes_the_doctor_fail_with_its_remedy(tmp_path: Path, home: Path) -> None:
    home.write_text("a file")
    row = next(row for row in expecting(1, "doctor").value if row["name"] == "store")
    assert (row["ok"], "ARTIFICER_HOME" in row["fix"]) == (False, True)


def test_gc_removes_workspaces_of_no_session_and_keeps_all_others(docs: str, home: Path) -> None:
    session = expecting(0, "sessions").value[0]["id"]
    shutil.copytree(home / "workspaces" / session, home / "workspaces" / "nobodys")
    assert expecting(0, "gc").value["freed_bytes"] > 0
    assert [path.name for path in (home / "workspaces").iterdir()] == [session]
    assert expecting(0, "run", docs, "what has a harbour?").result["stop"] == "completed"
