"""The real Gemini CLI and opencode against models on loopback, by their own modules and as ACP agents."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from core import Stop, fork_session
from core.driver import Limits
from impl.providers import load_provider
from tests.harness.clis import CliStage, Model, Turn, anthropic_model, installed, native, refused, using
from tests.harness.eval_driver import tool
from tests.harness.gemini import GeminiModel, refused_by_gemini
from tests.harness.servers import Reply

pytestmark = [pytest.mark.cli, pytest.mark.timeout(180)]

GEMINI, OPENCODE = ("@google/gemini-cli@0.61.0", "gemini"), ("opencode-ai@1.18.33", "opencode")


@dataclass(frozen=True)
class Cli:
    """One CLI under test: its module, its package, and what its model and tools are called."""

    provider: str
    package: tuple[str, str]
    model_name: str | None
    model: Callable[..., Model]
    use: Callable[..., dict[str, Any]]
    tokens: tuple[int, int]
    busy: Reply
    no: Reply
    usd: str | None = None
    command: str = ""


def _for_opencode(name: str, /, **args: Any) -> dict[str, Any]:
    return native(f"artificer_{name}", **args)


_GEMINI: dict[str, Any] = {
    "model": GeminiModel,
    "use": using,
    "busy": refused_by_gemini(503, "overloaded"),
    "no": refused_by_gemini(401, "API key not valid"),
}
_OPENCODE: dict[str, Any] = {
    "model": anthropic_model,
    "use": _for_opencode,
    "busy": refused(529, "overloaded_error", "Overloaded"),
    "no": refused(401, "authentication_error", "invalid x-api-key"),
}
CLIS = {
    "gemini_cli": Cli("gemini_cli:api", GEMINI, "gemini-2.5-flash", tokens=(100, 15), **_GEMINI),
    "opencode": Cli(
        "opencode:api", OPENCODE, "anthropic/claude-sonnet-4-5", tokens=(12, 7), usd="0.000141", **_OPENCODE
    ),
    "acp-gemini": Cli(
        "acp", GEMINI, None, tokens=(100, 10), command="gemini --acp --skip-trust -m gemini-2.5-flash", **_GEMINI
    ),
    "acp-opencode": Cli("acp", OPENCODE, None, tokens=(12, 7), command="opencode acp", **_OPENCODE),
}
_OWN = ("gemini_cli", "opencode")


@pytest.fixture(params=CLIS)
def cli(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Each CLI in turn, first on PATH, with a key, a home of its own, and nothing of the person's."""
    one = CLIS[request.param]
    monkeypatch.setenv("PATH", f"{installed(*one.package)}{os.pathsep}{os.environ['PATH']}")
    for name in ("GEMINI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-test-key")
    monkeypatch.setenv("ARTIFICER_ACP_COMMAND", one.command)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "person" / name))
    return one


@pytest.fixture
def start(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[CliStage, Model]]]:
    """Make a session whose CLI talks to a model that plays these turns."""
    models: list[Model] = []

    def make(*turns: Turn, tools: Any = (), session: str = "s1", home: Path | None = None) -> tuple[CliStage, Model]:
        model = cli.model(*turns).__enter__()
        models.append(model)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", model.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        if cli.command:
            _settings_of_the_person(tmp_path / "person", model.url)
        return CliStage(home or tmp_path / "home", load_provider(cli.provider), *tools, session=session), model

    yield make
    for model in models:
        model.__exit__(None, None, None)


def _settings_of_the_person(person: Path, url: str) -> None:
    """What an agent that configures itself needs to reach the model, and to let us be its only tools."""
    (person / ".gemini").mkdir(parents=True, exist_ok=True)
    gemini = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 3}}
    (person / ".gemini" / "settings.json").write_text(json.dumps(gemini))
    (person / "CONFIG" / "opencode").mkdir(parents=True, exist_ok=True)
    opencode = {
        "model": "anthropic/claude-sonnet-4-5",
        "provider": {"anthropic": {"options": {"baseURL": f"{url}/v1"}}},
        "agent": {"title": {"disable": True}},
    }
    (person / "CONFIG" / "opencode" / "opencode.json").write_text(json.dumps(opencode))


async def go(stage: CliStage, cli: Cli, task: str | None = None, **launch: Any) -> Any:
    """Run it on; what needs a yes to its own tools gets it for the session."""
    outcome = await stage.run(task, model=cli.model_name, **launch)
    if outcome.stop is Stop.NEEDS_APPROVAL and outcome.record.detail == "provider:native-tools":
        assert cli.command
        outcome = await stage.answer("session", model=cli.model_name)
    return outcome


def usage(stage: CliStage) -> list[tuple[int, int]]:
    return [(e.data["input_tokens"], e.data["output_tokens"]) for e in stage.events("usage")]


async def test_a_turn_with_a_tool_of_ours(cli: Cli, start: Any) -> None:
    stage, model = start(["Let me add.", cli.use("add", a=1, b=2)], "It is 3.")
    outcome = await go(stage, cli, "Add 1 and 2.")
    assert outcome.stop is Stop.COMPLETED
    assert "It is 3." in outcome.record.output
    assert list(stage.results().values()) == ["3"]
    assert "isError" not in json.dumps(model.requests[-1])
    assert "3" in json.dumps(model.requests[-1])
    assert "Let me add." in "".join(stage.replies())


async def test_resuming_goes_on_in_the_same_conversation_and_costs_only_the_new_turn(cli: Cli, start: Any) -> None:
    stage, model = start("One.", "Two.")
    await go(stage, cli, "First")
    outcome = await go(stage, cli, "/Second '@/etc/hostname' \"42\"")
    assert stage.replies() == ["One.", "Two."]
    asked = json.dumps(model.requests[-1])
    assert "First" in asked
    assert "One." in asked
    assert json.dumps("/Second '@/etc/hostname' \"42\"")[1:-1] in asked
    begun_anew = "new one was started" in str(stage.events("notice"))
    # Over ACP it loads only what an earlier process of it had the time to write down.
    assert not begun_anew or cli.command.startswith("gemini")
    assert usage(stage) == [cli.tokens, cli.tokens]
    if cli.usd:
        assert outcome.info.usd == str(2 * Decimal(cli.usd))


async def test_a_number_is_a_prompt_and_a_dash_begins_one(cli: Cli, start: Any) -> None:
    stage, model = start("One.", "Two.")
    await go(stage, cli, "42")
    await go(stage, cli, "--help")
    assert stage.replies() == ["One.", "Two."]
    assert "--help" in json.dumps(model.requests[-1])


@pytest.mark.parametrize("cli", _OWN, indirect=True)
async def test_the_model_reads_our_system_text_and_finds_none_of_the_clis_own_tools(cli: Cli, start: Any) -> None:
    stage, model = start([native("run_shell_command", command="touch x"), native("bash", command="touch x")], "Hello.")
    await go(stage, cli, "Hi")
    asked = model.requests[0]
    assert "You are a test agent." in str(asked.get("systemInstruction") or asked.get("system"))
    rows = [row for one in asked["tools"] for row in one.get("functionDeclarations", [one])]
    assert {row["name"].removeprefix("mcp_") for row in rows} >= {"artificer_add"}
    assert all(row["name"].removeprefix("mcp_").startswith("artificer_") for row in rows)
    assert not list(stage.home.rglob("x"))


@pytest.mark.parametrize("cli", ["opencode"], indirect=True)
async def test_a_fork_knows_what_was_said_and_does_not_pay_for_it_again(cli: Cli, start: Any) -> None:
    stage, _ = start("One.")
    await go(stage, cli, "First")
    forked, model = start("Other.", "More.", session="s2", home=stage.home)
    await fork_session(forked.host, "s1", new="s2")
    await go(forked, cli, "Second")
    assert "One." in json.dumps(model.requests[0])
    await go(forked, cli, "Third")
    assert usage(forked) == [cli.tokens, cli.tokens]
    assert "Other." in json.dumps(model.requests[-1])


async def test_a_cancel_in_mid_turn_ends_its_processes_and_the_session_goes_on(cli: Cli, start: Any) -> None:
    entered = asyncio.Event()

    async def wait(args: Any) -> str:
        entered.set()
        await asyncio.Event().wait()
        return ""

    stage, _ = start(cli.use("wait"), "Back again.", tools=[tool("wait", wait)])
    task = asyncio.get_running_loop().create_task(go(stage, cli, "Wait"))
    await entered.wait()
    began = time.monotonic()
    task.cancel()
    outcome = await task
    assert time.monotonic() - began < 3
    assert outcome.stop is Stop.CANCELLED
    assert not children()
    outcome = await go(stage, cli, "Go on")
    assert outcome.stop is Stop.COMPLETED
    assert "Back again." in outcome.record.output


async def test_a_refused_key_is_a_provider_error(cli: Cli, start: Any) -> None:
    stage, _ = start(*[cli.no] * 6)
    outcome = await go(stage, cli, "Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "auth")
    assert "Log in" in outcome.record.evidence["hint"]


async def test_an_overload_heals(cli: Cli, start: Any) -> None:
    stage, _ = start(cli.busy, "Here I am.")
    outcome = await go(stage, cli, "Hi")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Here I am.")


async def test_a_budget_stops_it(cli: Cli, start: Any) -> None:
    stage, _ = start(cli.use("add", a=1, b=2), cli.use("add", a=3, b=4), "Done.")
    outcome = await go(stage, cli, "Add", limits=Limits(steps=1))
    assert outcome.stop is Stop.BUDGET


@pytest.mark.parametrize("cli", _OWN, indirect=True)
async def test_a_session_it_has_forgotten_is_begun_anew_and_told_what_was_said(cli: Cli, start: Any) -> None:
    stage, model = start("One.", "Two.")
    await go(stage, cli, "First")
    for path in [*(stage.home / "clis").rglob("session-*.jsonl"), *(stage.home / "clis").rglob("opencode.db*")]:
        path.unlink()
    outcome = await go(stage, cli, "Second")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Two.")
    assert "[you] One." in json.dumps(model.requests[-1])
    assert any("new one was started" in e.data["text"] for e in stage.events("notice"))


@pytest.mark.parametrize("cli", _OWN, indirect=True)
async def test_one_that_hangs_after_its_result_is_ended_and_the_turn_counts(
    cli: Cli, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = (installed(*cli.package) / cli.package[1]).resolve()
    wrapper = tmp_path / "bin" / cli.package[1]
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n{shlex.quote(str(real))} "$@"\nsleep 300\n')
    wrapper.chmod(0o755)
    described = next(p / "package.json" for p in real.parents if (p / "package.json").exists())
    (wrapper.parent / "package.json").write_text(described.read_text())
    stage, _ = start("Fine.")
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    outcome = await go(stage, cli, "Hi")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Fine.")
    assert usage(stage) == [cli.tokens]
    assert not children()


async def test_a_question_stops_the_turn_and_the_answer_is_its_next_prompt(cli: Cli, start: Any) -> None:
    stage, model = start(cli.use("ask_user", message="Which?"), "Blue it is.", "Blue it is.")
    outcome = await go(stage, cli, "Paint")
    assert outcome.stop is Stop.AWAITING_USER
    outcome = await stage.answer("blue", model=cli.model_name)
    assert outcome.stop is Stop.COMPLETED
    assert "Blue it is." in outcome.record.output
    assert "blue" in json.dumps(model.requests[-1])


@pytest.mark.parametrize("cli", ["acp-gemini"], indirect=True)
async def test_what_an_agent_asks_permission_for_is_asked_of_the_person(cli: Cli, start: Any, tmp_path: Path) -> None:
    target = tmp_path / "written"
    shell = native("run_shell_command", command=f"touch {target}")
    stage, _ = start(shell, shell, "Written.")
    outcome = await go(stage, cli, "Write")
    assert outcome.stop is Stop.NEEDS_APPROVAL
    assert str(target) in outcome.record.waiting.message
    assert not target.exists()
    outcome = await stage.answer("once", model=cli.model_name)
    assert outcome.stop is Stop.COMPLETED
    assert target.exists()


def children() -> list[int]:
    """Living processes that descend from this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text("utf-8").rsplit(")", 1)[-1].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.append(int(entry.name))
    return found
