"""providers, doctor and gc: what this machine has, and cleaning up."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from keyring.backends.null import Keyring as NullKeyring

from core import ProviderStatus, ask_cli, register_provider
from tests.harness.clis import StandIn
from tests.harness.commands import expecting
from tests.harness.keyrings import MemoryKeyring, system_keyring
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
    assert row["fix"] == "pip install --force-reinstall artificer"


@pytest.mark.parametrize("answer", ["never", "too late"])
def test_clis_that_do_not_answer_are_named_with_what_mends_them_and_end(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("impl.providers._cli_files.ask_cli", partial(ask_cli, timeout=0.3))
    monkeypatch.setattr("impl.providers.claude_code.ask_cli", partial(ask_cli, timeout=0.3))
    wait = "hang()" if answer == "never" else "time.sleep(1); out('9.9.9')"
    stand_ins = [StandIn(tmp_path / "bin", name, wait) for name in ("claude", "codex", "gemini", "opencode")]
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    rows = {row["name"]: row for row in expecting(0, "providers").value}
    for name in ("claude_code", "codex", "gemini_cli", "opencode"):
        assert (rows[name]["state"], "gave no answer" in rows[name]["message"]) == ("wrong version", True)
        assert rows[name]["fix"].startswith("npm install -g ")
    started = [one["pid"] for stand_in in stand_ins for one in stand_in.started]
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def test_a_provider_that_does_not_say_whether_it_is_ready_has_a_state_of_the_list(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ScriptedProvider):
        async def preflight(self) -> ProviderStatus:
            await asyncio.sleep(60)
            return ProviderStatus("ready")

    monkeypatch.setattr("tui.commands.house.PREFLIGHT_S", 0.2)
    register_provider("slow", Slow)
    row = next(row for row in expecting(0, "providers").value if row["name"] == "slow")
    assert (row["state"], "longer than 0.2 s" in row["message"]) == ("wrong version", True)
    assert row["fix"]


def test_the_doctor_looks_at_everything_an_agent_needs(home: Path) -> None:
    names = {row["name"] for row in expecting(0, "doctor").value}
    assert {"python", "store", "sandbox bubblewrap", "sandbox process", "git", "provider offline"} <= names


def doctors(name: str, code: int = 0) -> dict[str, Any]:
    """One row of the doctor's."""
    return next(row for row in expecting(code, "doctor").value if row["name"] == name)


def test_the_doctor_says_where_values_are_kept_and_how_to_do_without_a_person(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with system_keyring(MemoryKeyring()):
        assert doctors("keyring")["message"].startswith("the system keyring (")
    with system_keyring(NullKeyring()):
        row = doctors("keyring")
        assert (row["ok"], str(home / "secrets.enc") in row["message"]) == (True, True)
        assert row["fix"] == "read -rs ARTIFICER_PASSPHRASE && export ARTIFICER_PASSPHRASE"
        monkeypatch.setenv("ARTIFICER_PASSPHRASE", "short")
        row = doctors("keyring")
        assert (row["ok"], "at least 8 characters" in row["message"]) == (False, True)


def test_the_doctor_names_the_command_that_gives_a_sandbox_or_its_network(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("impl.sandboxes.pasta.find", lambda: "pasta is not installed: `apt install passt` (or so).")
    if not doctors("sandbox bubblewrap")["ok"]:
        pytest.skip("bubblewrap does not work here")
    row = doctors("network bubblewrap")
    assert (row["ok"], row["fix"]) == (False, "apt install passt")
    monkeypatch.setattr("shutil.which", lambda program, path=None: None)
    assert doctors("sandbox bubblewrap")["fix"] == "apt install bubblewrap"
    assert doctors("sandbox docker")["fix"] == "apt install docker.io"


@pytest.mark.parametrize(
    ("term", "encoding", "ok", "fix"),
    [
        ("xterm-256color", "UTF-8", True, ""),
        ("dumb", "UTF-8", False, "export TERM=xterm-256color"),
        ("", "UTF-8", False, "export TERM=xterm-256color"),
        ("xterm", "ANSI_X3.4-1968", False, "export LANG=C.UTF-8"),
    ],
)
def test_the_doctor_says_what_a_terminal_lacks(
    home: Path, monkeypatch: pytest.MonkeyPatch, term: str, encoding: str, ok: bool, fix: str
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("locale.getpreferredencoding", lambda setlocale=True: encoding)
    row = doctors("terminal")
    assert (row["ok"], row["fix"]) == (ok, fix)


def test_a_home_that_cannot_be_used_makes_the_doctor_fail_with_its_remedy(tmp_path: Path, home: Path) -> None:
    home.write_text("a file")
    row = next(row for row in expecting(1, "doctor").value if row["name"] == "store")
    assert (row["ok"], "ARTIFICER_HOME" in row["fix"]) == (False, True)


def test_gc_removes_what_belongs_to_no_session_and_keeps_what_a_session_goes_on_with(docs: str, home: Path) -> None:
    session = expecting(0, "sessions").value[0]["id"]
    shutil.copytree(home / "workspaces" / session, home / "workspaces" / "nobodys")
    for owner in (session, "nobodys"):
        kept = home / "clis" / owner / "codex"
        kept.mkdir(parents=True)
        (kept / "rollout.jsonl").write_text("{}\n")
    assert expecting(0, "gc").value["freed_bytes"] > 0
    assert [path.name for path in (home / "workspaces").iterdir()] == [session]
    assert [path.name for path in (home / "clis").iterdir()] == [session]
    assert (home / "clis" / session / "codex" / "rollout.jsonl").exists()
    assert expecting(0, "run", docs, "what has a harbour?").result["stop"] == "completed"
