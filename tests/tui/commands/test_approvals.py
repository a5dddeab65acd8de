"""What an agent may do without asking, and what a yes covers: once, this session, always, or no."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core import register_provider
from tests.harness.commands import artificer, expecting
from tests.harness.home import INPUTS
from tests.harness.scripted import ScriptedProvider, call

Turns = Callable[..., ScriptedProvider]


@pytest.fixture
def turns(home: Path, monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Let a scripted model play these turns in the next commands."""
    provider = ScriptedProvider()
    register_provider("scripted", lambda: provider)
    monkeypatch.setattr("impl.providers._instances", {})
    monkeypatch.setenv("ARTIFICER_PROVIDER", "scripted")

    def _turns(*script: Any) -> ScriptedProvider:
        provider.script = [turn if isinstance(turn, str) else [turn] for turn in script]
        return provider

    return _turns


@pytest.fixture
def asker(home: Path, tmp_path: Path) -> str:
    """A published agent whose commands ask first."""
    bundle = tmp_path / "asker"
    bundle.mkdir()
    manifest = "schema: artificer/v1\nname: asker\ndescription: Asks.\npolicy: {run_sandbox: ask}\n"
    (bundle / "agent.yaml").write_text(manifest)
    (bundle / "persona.md").write_text("You ask.\n")
    expecting(0, "save", bundle)
    expecting(0, "validate", "asker")
    expecting(0, "publish", "asker")
    return "asker"


def touch(name: str) -> Any:
    return call("run_sandbox", command=f"touch {name}")


def made(home: Path, session: str) -> set[str]:
    return {path.name for path in (home / "workspaces" / session / "work").iterdir()}


def test_a_command_that_asks_says_exactly_what_would_run_and_runs_nothing(turns: Turns, asker: str, home: Path) -> None:
    turns(touch("a"), "Done.")
    result = expecting(12, "run", asker, "go").result
    waiting = result["waiting"]
    assert (result["stop"], waiting["kind"]) == ("needs_approval", "approval")
    assert "touch a" in waiting["message"]
    assert [option["id"] for option in waiting["options"]] == ["once", "session", "always", "deny"]
    assert not (home / "workspaces" / result["session"] / "work").exists() or not made(home, result["session"])


def test_once_is_for_that_call_alone(turns: Turns, asker: str, home: Path) -> None:
    turns(touch("a"), touch("b"), "Done.")
    session = expecting(12, "run", asker, "go").result["session"]
    assert "touch b" in expecting(12, "answer", session, "once").result["waiting"]["message"]
    assert made(home, session) == {"a"}


def test_session_is_for_all_calls_of_the_session_and_no_other(turns: Turns, asker: str, home: Path) -> None:
    turns(touch("a"), touch("b"), "Done.", touch("c"))
    session = expecting(12, "run", asker, "go").result["session"]
    assert expecting(0, "answer", session, "session").result["output"] == "Done."
    assert made(home, session) == {"a", "b"}
    assert "touch c" in expecting(12, "run", asker, "go").result["waiting"]["message"]


def test_always_is_for_this_agent_from_then_on(turns: Turns, asker: str) -> None:
    turns(touch("a"), "Done.", touch("b"), "Done again.")
    session = expecting(12, "run", asker, "go").result["session"]
    expecting(0, "answer", session, "always")
    assert expecting(0, "run", asker, "go").result["output"] == "Done again."


def test_a_no_is_a_result_the_model_goes_on_from(turns: Turns, asker: str, home: Path) -> None:
    turns(touch("a"), "Then not.")
    session = expecting(12, "run", asker, "go").result["session"]
    ran = expecting(0, "answer", session, "deny")
    assert ran.result["output"] == "Then not."
    assert [e["data"]["ok"] for e in ran.events if e["kind"] == "tool_result"] == [False]


def test_answers_given_ahead_cover_approvals_too(turns: Turns, asker: str) -> None:
    turns(touch("a"), "Done.")
    assert expecting(0, "run", asker, "go", "--answer", "once").result["output"] == "Done."


# --- without a sandbox that isolates -------------------------------------------------------------------


@pytest.fixture
def unsafe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without bubblewrap or Docker."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-docker")
    tools = tmp_path / "bin"
    tools.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for path in Path(directory).glob("*"):
            if path.name != "bwrap" and not os.path.lexists(tools / path.name):
                (tools / path.name).symlink_to(path)
    monkeypatch.setenv("PATH", str(tools))


def test_rules_go_on_without_isolation_and_say_so(unsafe: None, home: Path) -> None:
    ran = artificer("build", INPUTS / "documentation", "--publish", json=False)
    assert ran.code == 0
    assert "Unsafe: no sandbox" in ran.err


def test_a_model_without_isolation_asks_before_its_first_command(unsafe: None, turns: Turns, home: Path) -> None:
    turns(touch("a"), "What should it do?")
    result = expecting(12, "build", "-m", "x").result
    assert "directly on this machine" in result["waiting"]["message"]
    assert not list((home / "workspaces").rglob("a"))
    expecting(10, "answer", result["session"], "session")
    assert "a" in made(home, result["session"])


def test_a_no_to_the_unsafe_mode_runs_nothing(unsafe: None, turns: Turns, home: Path) -> None:
    turns(touch("a"), "What now?")
    result = expecting(12, "build", "-m", "x").result
    expecting(10, "answer", result["session"], "deny")
    assert not list((home / "workspaces").rglob("a"))


@pytest.fixture
def teller(home: Path, tmp_path: Path) -> str:
    """A published agent with a tool that leaves a mark where it runs."""
    bundle = tmp_path / "teller"
    (bundle / "tools" / "tell").mkdir(parents=True)
    (bundle / "agent.yaml").write_text("schema: artificer/v1\nname: teller\ntools: [tell]\n")
    (bundle / "persona.md").write_text("You tell.\n")
    schema = "input_schema: {type: object, properties: {path: {type: string}}, required: [path]}\n"
    (bundle / "tools" / "tell" / "tool.yaml").write_text(f"name: tell\ndescription: Leaves a mark.\n{schema}")
    (bundle / "tools" / "tell" / "tool.py").write_text(
        "def run(ctx, input):\n    open(input['path'], 'w').close()\n    return 'told'\n"
    )
    expecting(0, "save", bundle)
    expecting(0, "validate", "teller")
    expecting(0, "publish", "teller")
    return "teller"


def test_an_agents_own_code_asks_without_isolation_also_under_rules(
    teller: str, unsafe: None, home: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    task = f'tell path="{mark}"'
    asked = expecting(12, "run", teller, task).result
    assert "directly on this machine" in asked["waiting"]["message"]
    expecting(0, "answer", asked["session"], "deny")
    assert not mark.exists()
    expecting(0, "answer", expecting(12, "run", teller, task).result["session"], "once")
    assert mark.exists()


def test_an_agents_own_code_asks_without_isolation_whoever_thinks(
    teller: str, unsafe: None, turns: Turns, tmp_path: Path
) -> None:
    turns(call("tell", path=str(tmp_path / "mark")), "Done.")
    expecting(12, "run", teller, "go")
    assert not (tmp_path / "mark").exists()


def test_the_unsafe_mode_by_name_is_the_yes_to_an_agents_own_code(teller: str, unsafe: None, tmp_path: Path) -> None:
    expecting(0, "run", teller, f'tell path="{tmp_path}/mark"', "--sandbox", "process")
    assert (tmp_path / "mark").exists()


def test_an_isolating_sandbox_that_was_asked_for_is_never_replaced(unsafe: None, home: Path) -> None:
    result = expecting(19, "build", INPUTS / "documentation", "--sandbox", "bubblewrap").result
    assert (result["stop"], result["detail"]) == ("platform_error", "sandbox_unavailable")


# --- finding again -------------------------------------------------------------------------------------


def test_search_finds_words_in_any_session(docs: str) -> None:
    session = expecting(0, "run", docs, "does it read feet?").result["session"]
    hits = expecting(0, "search", "heights in feet").value
    assert {"session", "seq", "at", "kind", "snippet"} <= set(hits[0])
    assert session in {hit["session"] for hit in hits}


def test_costs_are_by_day_and_agent(docs: str) -> None:
    (row,) = expecting(0, "costs").value
    assert (row["agent"], row["sessions"], row["usd"]) == (docs, 1, "0.00")


@pytest.mark.parametrize("key", ["day", "agent", "session", "tree"])
def test_costs_are_by_what_is_asked_for(docs: str, key: str) -> None:
    (row,) = expecting(0, "costs", "--by", key).value
    assert row[key]
    assert (row["sessions"], row["usd"], row["known_usd"], row["unknown"]) == (1, "0.00", "0.00", 0)


def test_costs_by_anything_else_name_what_there_is(home: Path) -> None:
    assert "day, agent, session, tree" in expecting(2, "costs", "--by", "moon").error["message"]
