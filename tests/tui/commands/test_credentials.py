"""artificer credentials: values in by a hidden prompt or stdin, and never out again."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from impl.secrets import sealed
from tests.harness import terminal
from tests.harness.commands import DEADLINE_S, Ran, argv, artificer, expecting
from tests.harness.keyrings import NONE

VALUE = "s3cret-canary-value-0451"
PASSPHRASE = "correct horse battery"
MANIFEST = """\
schema: artificer/v1
name: weather
description: Reads the weather.
persona: persona.md
tools: [forecast]
credentials:
  - name: api_token
    hosts: [api.weather.invalid]
    header: Authorization
    format: Bearer {secret}
"""
TOOL = """\
name: forecast
description: Reads the forecast.
input_schema: {type: object}
credentials: [api_token]
hosts: [api.weather.invalid]
"""
CODE = """\
def run(ctx, input):
    return ctx.http.request("GET", "https://api.weather.invalid/", credential="api_token").status
"""


@pytest.fixture
def agent(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the agent `weather`, on a machine without a keyring, with a passphrase, cheap to use."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", NONE)
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", PASSPHRASE)
    monkeypatch.setattr(sealed, "_N", 2)
    save(tmp_path / "weather", MANIFEST)
    return home


def save(directory: Path, manifest: str) -> str:
    """Save a revision of `weather`; its digest."""
    files = {"agent.yaml": manifest, "persona.md": "You read the weather.\n"}
    files |= {"tools/forecast/tool.yaml": TOOL, "tools/forecast/tool.py": CODE}
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    digest: str = expecting(0, "save", directory).value["digest"]
    return digest


def given(stdin: str | bytes, *words: str, json: bool = True) -> Ran:
    """Run `artificer credentials …` with this on stdin."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), "utf-8")
    try:
        return artificer("credentials", *words, json=json)
    finally:
        sys.stdin = before


def holding(home: Path, value: str) -> list[Path]:
    """The files under `home` that hold `value` in clear."""
    return [path for path in home.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]


def test_a_value_on_stdin_is_set_listed_and_removed_and_stands_nowhere_in_clear(agent: Path) -> None:
    words = argv("credentials", "set", "weather", "api_token", "--json")
    done = subprocess.run(words, input=f"{VALUE}\n", capture_output=True, text=True, timeout=DEADLINE_S)
    row = json.loads(done.stdout)
    assert (done.returncode, row["set"], row["where"]) == (0, True, "file")
    assert (row["hosts"], row["injection"]) == (["api.weather.invalid"], "header Authorization: Bearer ***")
    (listed,) = expecting(0, "credentials", "list").value
    assert listed | {"declared_by": None} == {
        "agent": "weather",
        "name": "api_token",
        "hosts": ["api.weather.invalid"],
        "injection": "header Authorization: Bearer ***",
        "set": True,
        "at": row["at"],
        "declared_by": None,
    }
    assert VALUE not in done.stdout + done.stderr
    assert holding(agent, VALUE) == []
    assert holding(agent, PASSPHRASE) == []
    assert expecting(0, "credentials", "remove", "weather", "api_token").value["removed"] is True
    (listed,) = expecting(0, "credentials", "list").value
    assert (listed["set"], listed["at"]) == (False, None)


def test_for_people_it_says_where_the_value_goes_and_where_it_is_kept(agent: Path) -> None:
    done = given(VALUE, "set", "weather", "api_token", json=False)
    assert done.code == 0
    assert "sent only to api.weather.invalid, as header Authorization: Bearer ***" in done.out
    assert "encrypted" in done.out


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(
    ("stdin", "words", "code", "error"),
    [
        (VALUE, ("weather", "tokn"), 1, "not_declared"),
        (VALUE, ("nobody", "api_token"), 1, "not_found"),
        (VALUE, ("weather@nothing", "api_token"), 1, "not_found"),
        ("short", ("weather", "api_token"), 1, "too_short"),
        ("", ("weather", "api_token"), 1, "too_short"),
        (f"{VALUE}\n{VALUE}\n", ("weather", "api_token"), 1, "not_a_line"),
        (b"\xff\xfe" * 20, ("weather", "api_token"), 1, "not_a_line"),
        ("", ("weather", "api_token", VALUE), 2, "usage"),
        ("", ("weather", "api_token", f"--{VALUE}"), 2, "usage"),
    ],
)
def test_what_cannot_be_set_is_refused_with_its_next_step_and_never_quoted(
    stdin: str | bytes, words: tuple[str, ...], code: int, error: str
) -> None:
    done = given(stdin, "set", *words)
    assert (done.code, done.error["code"]) == (code, error)
    assert done.error["hint"]
    assert VALUE not in done.out + done.err


@pytest.mark.usefixtures("agent")
def test_a_name_that_is_not_declared_is_answered_with_those_that_are() -> None:
    assert "It declares: api_token." in given(VALUE, "set", "weather", "tokn").error["message"]


def test_without_keyring_and_passphrase_nothing_is_kept(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARTIFICER_PASSPHRASE")
    done = given(VALUE, "set", "weather", "api_token")
    assert (done.code, done.error["code"]) == (1, "passphrase_needed")
    assert "ARTIFICER_PASSPHRASE" in done.error["hint"]
    assert not (agent / "secrets.enc").exists()


def test_a_wrong_passphrase_loses_nothing(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(VALUE, "set", "weather", "api_token")
    before = (agent / "secrets.enc").read_bytes()
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", "wrong horse battery")
    done = given("another-value-0451", "set", "weather", "api_token")
    assert (done.code, done.error["code"]) == (1, "wrong_passphrase")
    assert (agent / "secrets.enc").read_bytes() == before


@pytest.mark.usefixtures("agent")
def test_a_change_of_hosts_asks_again(tmp_path: Path) -> None:
    given(VALUE, "set", "weather", "api_token")
    save(tmp_path / "wider", MANIFEST.replace("[api.weather.invalid]", "[api.weather.invalid, evil.example.com]"))
    rows = expecting(0, "credentials", "list").value
    assert {tuple(row["hosts"]): row["set"] for row in rows} == {
        ("api.weather.invalid",): True,
        ("api.weather.invalid", "evil.example.com"): False,
    }


@pytest.mark.usefixtures("agent")
def test_a_value_that_is_not_for_the_live_revision_is_said_to_be_so(tmp_path: Path) -> None:
    expecting(0, "validate", "weather", "--allow-unsafe")
    expecting(0, "publish", "weather")
    save(tmp_path / "wider", MANIFEST.replace("[api.weather.invalid]", "[other.example.com]"))
    done = given(VALUE, "set", "weather", "api_token", json=False)
    assert "artificer credentials set weather@live api_token" in done.err
    assert given(VALUE, "set", "weather@live", "api_token").value["hosts"] == ["api.weather.invalid"]


@pytest.mark.usefixtures("agent")
def test_removing_what_is_not_there_fails() -> None:
    assert expecting(1, "credentials", "remove", "weather", "api_token").error["code"] == "not_found"


def test_a_person_is_asked_for_passphrase_and_value_without_an_echo(agent: Path) -> None:
    variables = {"PYTHON_KEYRING_BACKEND": NONE}
    with terminal.artificer(agent, "credentials", "set", "weather", "api_token", **variables) as screen:
        for prompt, answer in [
            ("New passphrase", PASSPHRASE),
            ("Again", PASSPHRASE),
            ("Value of api_token for weather (hidden): ", VALUE),
        ]:
            screen.wait_for(prompt)
            screen.send(f"{answer}\n")
        screen.wait_for("is set, kept encrypted")
        assert screen.exit_code() == 0
        assert VALUE.encode() not in screen.output
        assert PASSPHRASE.encode() not in screen.output
        assert b"Sent only to api.weather.invalid" in screen.output
        assert screen.restored["line"]
    assert holding(agent, VALUE) == []


def test_a_run_stops_for_a_value_goes_on_with_it_and_shows_it_nowhere(agent: Path) -> None:
    """The name never has an address, so the effect is denied; but it is tried only once it has its value."""
    expecting(0, "validate", "weather", "--allow-unsafe")
    expecting(0, "publish", "weather")
    ran = expecting(11, "run", "weather", '{"tool": "forecast", "args": {}}', "--provider", "offline")
    waiting = ran.result["waiting"]
    assert (waiting["kind"], waiting["names"]) == ("credentials", ["api_token"])
    assert "effect" not in ran.kinds()
    given(VALUE, "set", "weather", "api_token")
    session = ran.result["session"]
    done = expecting(0, "resume", session)
    (effect,) = [event["data"] for event in done.events if event["kind"] == "effect"]
    assert effect["credential"] == "api_token"
    assert VALUE not in done.out + done.err
    assert holding(agent, VALUE) == []
    assert os.environ["ARTIFICER_PASSPHRASE"] == PASSPHRASE
    assert json.dumps(done.lines).count(PASSPHRASE) == 0
