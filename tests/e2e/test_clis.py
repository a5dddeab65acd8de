"""The real agent CLIs against models on loopback: turns, resume, fork, cancel, failures, budgets, what they may do."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from core import CliProvider, Outcome, Stop, fork_session
from core.driver import Limits
from impl.providers import load_provider
from tests.harness.clis import CliStage, Model, alive, anthropic_model, installed, refused, responses_model, using
from tests.harness.commands import Running, environment, expecting
from tests.harness.eval_driver import eventually, tool
from tests.harness.servers import HOLD, Reply

pytestmark = [pytest.mark.cli, pytest.mark.timeout(180)]


@dataclass
class Cli:
    """One CLI under test: how to start it against a model, and what is particular to it."""

    name: str
    package: str
    executable: str
    model_name: str
    model: Callable[..., Model]
    key: str
    address: str
    suffix: str
    price: str
    """What a turn of one request costs."""

    def provider(self) -> CliProvider:
        made = load_provider(f"{self.name}:api")
        assert isinstance(made, CliProvider)
        return made


CLIS = {
    "claude_code": Cli(
        "claude_code",
        "@anthropic-ai/claude-code@2.1.332",
        "claude",
        "claude-sonnet-5-5",
        anthropic_model,
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "",
        "0.000094",
    ),
    "codex": Cli(
        "codex",
        "@openai/codex@0.171.0",
        "codex",
        "gpt-5.2",
        responses_model,
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "/v1",
        "",
    ),
}


@pytest.fixture(params=CLIS)
def cli(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Each CLI in turn, first on PATH, with a key and nothing of the person's."""
    one = CLIS[request.param]
    monkeypatch.setenv("PATH", f"{installed(one.package, one.executable)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(one.key, "sk-test-key")
    return one


@pytest.fixture
def start(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[CliStage, Model]]]:
    """Make a session whose CLI talks to a model that plays these turns."""
    models: list[Model] = []

    def make(*turns: Any, tools: Any = (), session: str = "s1", home: Path | None = None) -> tuple[CliStage, Model]:
        model = cli.model(*turns).__enter__()
        models.append(model)
        monkeypatch.setenv(cli.address, model.url + cli.suffix)
        return CliStage(home or tmp_path / "home", cli.provider(), *tools, session=session), model

    yield make
    for model in models:
        model.__exit__(None, None, None)


async def go(stage: CliStage, cli: Cli, task: str | None = None, **launch: Any) -> Outcome:
    return await stage.run(task, model=cli.model_name, **launch)


def usage(stage: CliStage) -> list[tuple[int, int, int]]:
    return [(e.data["input_tokens"], e.data["output_tokens"], e.data["requests"]) for e in stage.events("usage")]


async def test_a_turn_with_a_tool_of_ours(cli: Cli, start: Any) -> None:
    stage, model = start(["Let me add.", using("add", a=1, b=2)], "It is 3.")
    outcome = await go(stage, cli, "Add 1 and 2.")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "It is 3.")
    assert list(stage.results().values()) == ["3"]
    assert [k for k in stage.kinds() if k not in ("notice", "provider_session")] == [
        *("started", "message", "message", "tool_call", "tool_result", "message", "usage", "stop")
    ]
    first, last = [e.data for e in stage.events("message") if e.data["role"] == "assistant"]
    assert (first["text"], first["finish"], last["finish"]) == ("Let me add.", "tool_calls", "stop")
    assert (last["provider"], last["model"]) == (cli.name, cli.model_name)
    assert len(model.requests) == 2
    tokens = (24, 14, 2) if cli.name == "claude_code" else (200, 20, 2)
    assert usage(stage) == [tokens]


async def test_the_model_reads_our_system_text_and_finds_none_of_the_clis_own_tools(cli: Cli, start: Any) -> None:
    stage, model = start("Hello.")
    await go(stage, cli, "Hi")
    (asked,) = model.requests
    assert "You are a test agent." in str(asked.get("system") or asked["input"][0])
    names = {str(t.get("name") or t.get("type")) for t in asked["tools"]}
    ours = {name for name in names if name.startswith("mcp__artificer")}
    harmless = {
        "DeferredToolPlaceholder",
        *("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "request_user_input"),
    }
    assert ours
    assert names - ours <= harmless


async def test_all_of_many_tools_are_offered(cli: Cli, start: Any) -> None:
    words = "It takes a long time to say what this one does. " * 30
    schema = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(20)}}
    many = [tool(f"tool_{n}", lambda args: "ok", schema, words) for n in range(80)]
    stage, model = start(using("tool_79"), "Done.", tools=many)
    outcome = await go(stage, cli, "Hi")
    assert outcome.record.output == "Done."
    assert list(stage.results().values()) == ["ok"]
    text = str(model.requests[0]["tools"])
    assert all(f"tool_{n}'" in text for n in range(80))


async def test_words_are_words_no_commands_and_no_files_of_this_machine(cli: Cli, start: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the content of a file")
    stage, model = start("Hello.")
    words = f"/help with @{secret} and\n@{secret} !ls #note"
    outcome = await go(stage, cli, words)
    assert outcome.record.output == "Hello."
    assert "the content of a file" not in str(model.requests)
    assert f"@{secret} !ls #note" in str(model.requests)


async def test_resuming_goes_on_in_the_same_conversation_and_costs_only_the_new_turn(cli: Cli, start: Any) -> None:
    stage, model = start("One.", "Two.")
    await go(stage, cli, "First")
    outcome = await go(stage, cli, "Second")
    assert stage.replies() == ["One.", "Two."]
    asked = str(model.requests[1])
    assert "First" in asked
    assert "One." in asked
    natives = {e.data["native"] for e in stage.events("provider_session")}
    assert len(natives) == 1
    each = (12, 7, 1) if cli.name == "claude_code" else (100, 10, 1)
    assert usage(stage) == [each, each]
    if cli.price:
        assert outcome.info.usd == str(2 * Decimal(cli.price))
    else:
        assert outcome.info.usd is None  # a server of one's own has no price


async def test_a_fork_knows_what_was_said_and_does_not_pay_for_it_again(cli: Cli, start: Any) -> None:
    stage, _ = start("One.")
    await go(stage, cli, "First")
    forked, model = start("Other.", "More.", session="s2", home=stage.home)
    await fork_session(forked.host, "s1", new="s2")
    await go(forked, cli, "Second")
    assert "One." in str(model.requests[0])
    each = (12, 7, 1) if cli.name == "claude_code" else (100, 10, 1)
    assert usage(forked) == [each]
    await go(forked, cli, "Third")
    assert usage(forked) == [each, each]
    assert "Other." in str(model.requests[1])
    ids = [e.data["native"] for e in stage.events("provider_session")]
    assert forked.events("provider_session")[-1].data["native"] not in ids


async def test_a_cancel_in_mid_turn_ends_its_processes_and_the_session_goes_on(cli: Cli, start: Any) -> None:
    entered = asyncio.Event()

    async def wait(args: Any) -> str:
        entered.set()
        await asyncio.Event().wait()
        return ""

    stage, _ = start(using("wait"), "Back again.", tools=[tool("wait", wait)])
    task = asyncio.get_running_loop().create_task(go(stage, cli, "Wait"))
    await entered.wait()
    pids = children()
    assert pids
    began = time.monotonic()
    task.cancel()
    outcome = await task
    assert time.monotonic() - began < 2.5
    assert outcome.stop is Stop.CANCELLED
    assert not [pid for pid in pids if alive(pid)]
    assert "Cancelled" in next(iter(stage.results().values())) or "Stopped" in next(iter(stage.results().values()))
    outcome = await go(stage, cli, "Go on")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Back again.")


async def test_a_cancel_while_the_model_answers_keeps_what_was_said(cli: Cli, start: Any) -> None:
    whole = cli.model()._dialect(["Hello there, this is long."], cli.model_name)
    cut = (
        whole[: whole.index(b"delta", whole.index(b"_delta") + 40) + 200] if cli.name == "claude_code" else whole[:300]
    )
    stage, model = start(Reply([cut, HOLD]), "Again.")
    task = asyncio.get_running_loop().create_task(go(stage, cli, "Hi"))
    await eventually(lambda: bool(model.requests))
    task.cancel()
    assert (await task).stop is Stop.CANCELLED
    assert (await go(stage, cli, "Go on")).record.output == "Again."


async def test_a_refused_key_is_a_provider_error_at_once(cli: Cli, start: Any) -> None:
    no = refused(401, "authentication_error", "invalid key")
    stage, model = start(no, no, no)
    outcome = await go(stage, cli, "Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "auth")
    assert "Log in" in outcome.record.evidence["hint"]
    assert len(model.requests) <= 2
    assert stage.info.requests == 0


async def test_an_overload_heals(cli: Cli, start: Any) -> None:
    busy = refused(529 if cli.name == "claude_code" else 503, "overloaded_error", "Overloaded")
    stage, _ = start(busy, "Here I am.")
    outcome = await go(stage, cli, "Hi")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Here I am.")


async def test_a_budget_stops_it(cli: Cli, start: Any) -> None:
    stage, _ = start(using("add", a=1, b=2), using("add", a=3, b=4), "Done.")
    limits = Limits(usd="0.00001") if cli.name == "claude_code" else Limits(steps=1)
    outcome = await go(stage, cli, "Add", limits=limits)
    assert outcome.stop is Stop.BUDGET
    assert outcome.record.waiting is not None
    assert outcome.record.waiting.kind == "budget"


async def test_a_session_it_has_forgotten_is_begun_anew_and_told_what_was_said(cli: Cli, start: Any) -> None:
    stage, model = start("One.", "Two.")
    await go(stage, cli, "First")
    for path in (stage.home / "clis").rglob("*.jsonl"):
        path.unlink()
    for path in (stage.home / "clis").rglob("*.sqlite*"):
        path.unlink()
    outcome = await go(stage, cli, "Second")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Two.")
    asked = str(model.requests[-1])
    assert "[you] One." in asked
    assert "Second" in asked
    assert any("new one was started" in e.data["text"] for e in stage.events("notice"))


async def test_one_that_hangs_after_its_result_is_ended_and_the_turn_counts(
    cli: Cli, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = installed(cli.package, cli.executable) / cli.executable
    wrapper = tmp_path / "bin" / cli.executable
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n"{real}" "$@"\nsleep 300\n')
    wrapper.chmod(0o755)
    stage, _ = start("Fine.")
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    began = time.monotonic()
    outcome = await go(stage, cli, "Hi")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Fine.")
    assert time.monotonic() - began < 30
    assert not children()


async def test_a_question_stops_the_turn_and_the_answer_is_its_next_prompt(cli: Cli, start: Any) -> None:
    stage, model = start(using("ask_user", message="Which?"), "Blue it is.", "Blue it is.")
    outcome = await go(stage, cli, "Paint")
    assert outcome.stop is Stop.AWAITING_USER
    assert outcome.record.waiting is not None
    assert outcome.record.waiting.message == "Which?"
    outcome = await stage.answer("blue", model=cli.model_name)
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Blue it is.")
    assert "blue" in str(model.requests[-1])
    assert len(stage.events("tool_result")) == 1


async def test_a_tool_that_needs_a_yes_runs_once_it_has_one(cli: Cli, start: Any) -> None:
    ran: list[Any] = []
    pay = tool("pay", lambda args: ran.append(args) or "paid", default="ask")
    stage, model = start(using("pay", to="Ann"), "Paid.", "Paid.", tools=[pay])
    outcome = await go(stage, cli, "Pay")
    assert outcome.stop is Stop.NEEDS_APPROVAL
    assert ran == []
    outcome = await stage.answer("once", model=cli.model_name)
    assert (outcome.stop, ran) == (Stop.COMPLETED, [{"to": "Ann"}])
    assert "paid" in str(model.requests[-1])


async def test_a_loop_that_a_nudge_does_not_end_is_stopped(cli: Cli, start: Any) -> None:
    broken = tool("look", lambda args: "Error: nothing there")
    stage, model = start(*[using("look") for _ in range(40)], tools=[broken])
    outcome = await go(stage, cli, "Look")
    assert outcome.stop is Stop.DOOM_LOOP
    assert "nudge" in stage.kinds()
    assert any("repeating yourself" in str(asked) for asked in model.requests)
    assert len(model.requests) < 40


def test_the_builder_on_claude_code_builds_and_publishes_an_agent_that_runs_on_codex(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [str(installed(one.package, one.executable)) for one in CLIS.values()]
    monkeypatch.setenv("PATH", os.pathsep.join([*folders, os.environ["PATH"]]))
    manifest = "schema: artificer/v1\nname: greeter\ndescription: Greets people.\n"
    write = f"mkdir -p agent; printf '{manifest}' > agent/agent.yaml; echo 'You greet people.' > agent/persona.md"
    turns = [
        ["I write it.", using("run_sandbox", command=write)],
        using("save_agent", path="agent"),
        using("validate_agent"),
        using("publish_agent"),
        "The greeter is ready.",
    ]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-key")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key")
    with anthropic_model(*turns) as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        words = ("build", "-m", "An agent that greets people", "--publish", "--provider", "claude_code:api")
        result = expecting(0, *words, "--model", "claude-sonnet-5-5").result
    assert (result["stop"], result["agent"], result["channel"]) == ("completed", "greeter", "live")
    assert Decimal(result["cost"]["usd"]) == 5 * Decimal(CLIS["claude_code"].price)
    with responses_model("Hello, Ann.") as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url + "/v1")
        result = expecting(0, "run", "greeter", "Greet Ann", "--provider", "codex:api", "--model", "gpt-5.2").result
        assert "You greet people." in str(model.requests[0])
    assert (result["stop"], result["output"]) == ("completed", "Hello, Ann.")


async def test_codex_starts_none_of_the_persons_own_servers_and_keeps_to_their_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = CLIS["codex"]
    monkeypatch.setenv("PATH", f"{installed(one.package, one.executable)}{os.pathsep}{os.environ['PATH']}")
    mine = tmp_path / "mine"
    mine.mkdir()
    with responses_model("From my own provider.") as model:
        (mine / "config.toml").write_text(
            f"""
model = "my-model"
model_provider = "mine"
model_instructions_file = "inst.md"
[model_providers.mine]
name = "mine"
base_url = "{model.url}/v1"
env_key = "MY_KEY"
wire_api = "responses"
[mcp_servers.other]
command = "touch"
args = ["{tmp_path}/started"]
"""
        )
        (mine / "inst.md").write_text("Not this.")
        monkeypatch.setenv("CODEX_HOME", str(mine))
        monkeypatch.setenv("MY_KEY", "sk-mine")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
        provider = load_provider("codex")
        stage = CliStage(tmp_path / "home", provider)
        outcome = await stage.run("Hi")
    assert outcome.record.output == "From my own provider."
    assert stage.events("message")[-1].data["model"] == "my-model"
    assert "Not this." not in str(model.requests[0])
    assert not (tmp_path / "started").exists()
    assert not (mine / "sessions").exists()


def test_it_does_not_outlive_a_killed_owner(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cli.model(using("run_sandbox", command="echo hi"), Reply([b": \n\n", HOLD])) as model:
        more = {cli.key: "sk-test-key", cli.address: model.url + cli.suffix}
        words = ("build", "-m", "x", "--provider", f"{cli.name}:api", "--model", cli.model_name)
        with Running(*words, env=environment(**more)) as running:
            running.event("tool_result")
            started = children(running.process.pid)
            assert started
            running.kill()
        while any(map(alive, started)):
            time.sleep(0.05)


def children(parent: int | None = None) -> list[int]:
    """Living processes that this one, or `parent`, started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text("utf-8").rsplit(")", 1)[-1].split()
            except OSError:
                continue
            if int(fields[1]) == (parent or os.getpid()) and fields[0] != "Z":
                found.append(int(entry.name))
    return found
