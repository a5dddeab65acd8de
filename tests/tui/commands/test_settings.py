"""Which setting a command uses: flags, variables, files; and which win over what a session was started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import register_provider
from tests.harness.commands import expecting
from tests.harness.scripted import ScriptedProvider, call


@pytest.fixture
def models(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ScriptedProvider]:
    """Two scripted models by the names `one` and `two`."""
    monkeypatch.setattr("impl.providers._instances", {})
    made = {}
    for name in ("one", "two"):
        made[name] = ScriptedProvider(["Which?", "Which now?", "And now?"])
        made[name].name = name
        register_provider(name, lambda name=name: made[name])  # type: ignore[misc]
    return made


def used(models: dict[str, ScriptedProvider]) -> list[tuple[str, str | None]]:
    """Who was asked for which model, and forget it."""
    found = [(name, seen.model) for name, model in models.items() for seen in model.requests]
    for model in models.values():
        model.requests.clear()
    return found


def test_a_flag_wins_over_a_variable_that_wins_over_a_file(
    models: dict[str, ScriptedProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("artificer.toml").write_text('provider = "one"\nmodel = "from-file"\n')
    expecting(10, "build", "-m", "x")
    assert used(models) == [("one", "from-file")]
    monkeypatch.setenv("ARTIFICER_MODEL", "from-variable")
    expecting(10, "build", "-m", "x")
    assert used(models) == [("one", "from-variable")]
    expecting(10, "build", "-m", "x", "--provider", "two", "--model", "from-flag")
    assert used(models) == [("two", "from-flag")]


def test_a_session_keeps_what_it_was_started_with_whatever_a_file_says_later(
    models: dict[str, ScriptedProvider],
) -> None:
    session = expecting(10, "build", "-m", "x", "--provider", "one", "--model", "m").result["session"]
    Path("artificer.toml").write_text('provider = "two"\nmodel = "other"\n')
    expecting(10, "answer", session, "this")
    assert used(models) == [("one", "m"), ("one", "m")]


def test_a_variable_or_a_flag_overrides_what_a_session_was_started_with(
    models: dict[str, ScriptedProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = expecting(10, "build", "-m", "x", "--provider", "one").result["session"]
    used(models)
    monkeypatch.setenv("ARTIFICER_PROVIDER", "two")
    monkeypatch.setenv("ARTIFICER_MODEL", "m2")
    expecting(10, "answer", session, "this")
    assert used(models) == [("two", "m2")]
    expecting(10, "resume", session, "-m", "that", "--provider", "one", "--model", "m1")
    assert used(models) == [("one", "m1")]
    assert expecting(0, "sessions").value[0]["provider"] == "one"


def test_the_sandbox_asked_for_is_the_one_a_validation_records(models: dict[str, ScriptedProvider]) -> None:
    manifest = "schema: artificer/v1\\nname: x\\n"
    files = f"mkdir agent; echo hi > agent/persona.md; printf '{manifest}' > agent/agent.yaml"
    models["one"].script = [
        [call("run_sandbox", command=files)],
        [call("save_agent", path="agent")],
        [call("validate_agent")],
        "Done.",
    ]
    ran = expecting(12, "build", "-m", "x", "--provider", "one", "--sandbox", "process")
    expecting(0, "answer", ran.result["session"], "once")
    assert expecting(0, "validations", "x").value[0]["environment"]["sandbox"] == "process"


def test_a_settings_file_that_cannot_be_used_is_an_error_with_its_name(home: Path) -> None:
    Path("artificer.toml").write_text("provider = 3\n")
    error = expecting(1, "agents").error
    assert error["code"] == "settings"
    assert "artificer.toml" in error["message"]


def test_doctor_says_what_is_wrong_with_the_settings_among_what_it_can_still_check(home: Path) -> None:
    Path("artificer.toml").write_text('modle = "x"\n')
    rows = {row["name"]: row for row in expecting(1, "doctor").value}
    assert not rows["settings"]["ok"]
    assert "artificer.toml:1: unknown setting 'modle'. Did you mean model?" in rows["settings"]["message"]
    assert {"python", "git"} <= set(rows)


@pytest.mark.parametrize("provider", ["anthropic", "openai_compatible"])
def test_a_provider_without_its_key_says_how_to_give_it_and_asks_nobody(home: Path, provider: str) -> None:
    result = expecting(18, "build", "-m", "x", "--provider", provider).result
    assert (result["stop"], result["detail"]) == ("provider_error", "auth")
    assert result["usage"]["requests"] == 0
    assert "_API_KEY" in str(result["evidence"])
    assert "--provider offline" in str(result["evidence"])


def test_the_effort_is_a_flag_a_variable_or_a_setting(
    models: dict[str, ScriptedProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> str | None:
        (request,) = models["one"].requests
        models["one"].requests.clear()
        return request.effort

    Path("artificer.toml").write_text('provider = "one"\neffort = "from-file"\n')
    session = expecting(10, "build", "-m", "x").result["session"]
    assert asked() == "from-file"
    monkeypatch.setenv("ARTIFICER_EFFORT", "from-variable")
    expecting(10, "answer", session, "this")
    assert asked() == "from-variable"
    expecting(10, "resume", session, "-m", "that", "--effort", "from-flag")
    assert asked() == "from-flag"
