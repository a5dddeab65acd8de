"""An Agent Client Protocol agent as a provider, played by a stand-in that speaks the protocol by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from core import Deadlines, Stop, Usage
from core.driver import Limits
from impl.providers import load_provider
from impl.providers._acp_lines import AcpParser, _usage, our_tool
from impl.providers.acp import COMMAND, AcpProvider
from tests.harness.clis import CliStage, StandIn, alive, environ
from tests.harness.eval_driver import eventually, tool

AGENT = '''
import threading
CAPABILITIES = {"loadSession": True}
MADE = {"sessionId": "acp-1"}
HELLO = {"protocolVersion": 1, "agentInfo": {"name": "agent"}}
def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def answer(id, **result):
    out({"jsonrpc": "2.0", "id": id, "result": result})
def fail(id, code, message, **data):
    out({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})
    sys.exit(read())
def update(of, **more):
    params = {"sessionId": "acp-1", "update": {"sessionUpdate": of, **more}}
    out({"jsonrpc": "2.0", "method": "session/update", "params": params})
def text(*pieces, **more):
    for piece in pieces:
        update("agent_message_chunk", content={"type": "text", "text": piece}, **more)
def ask(title, kind="execute", options=("allow_once", "reject_once"), **more):
    """A permission: the option that was chosen."""
    rows = [{"optionId": "o-" + name, "name": name, "kind": name} for name in options]
    params = {"sessionId": "acp-1", "toolCall": {"toolCallId": title, "title": title, "kind": kind, **more}}
    out({"jsonrpc": "2.0", "id": 77, "method": "session/request_permission", "params": {**params, "options": rows}})
    said = read()
    while said.get("id") != 77:
        said = read()
    return said["result"]["outcome"].get("optionId", said["result"]["outcome"]["outcome"])
def add(**input):
    """A call of one of our tools, as agents announce it."""
    given = opened["mcpServers"][0]
    server = Server()
    server.start(given["command"], given["args"], {row["name"]: row["value"] for row in given["env"]})
    update("tool_call", toolCallId="c1", title="artificer_add", kind="other", status="pending", rawInput={})
    words = server.call("add", **input)["content"][0]["text"]
    content = [{"type": "content", "content": {"type": "text", "text": words}}]
    update("tool_call_update", toolCallId="c1", status="completed", content=content)
    return words
def begin():
    """Up to the prompt: the method that opened the session, its parameters, and the prompt."""
    hello = read()
    assert hello["method"] == "initialize" and hello["params"]["protocolVersion"] == 1
    answer(hello["id"], **HELLO, agentCapabilities=CAPABILITIES)
    request = read()
    if request["method"] == "session/load":
        update("agent_message_chunk", content={"type": "text", "text": "old words"})
    answer(request["id"], **(MADE if request["method"] == "session/new" else {}))
    prompt = read()
    while prompt["method"] != "session/prompt":
        configured.append(prompt["params"])
        answer(prompt["id"])
        prompt = read()
    return request["method"], request["params"], prompt
configured = []
def done(reason="end_turn", **more):
    answer(prompt["id"], stopReason=reason, **more)
    read()
'''
Make = Callable[..., tuple[CliStage, StandIn]]
BEGIN = "method, opened, prompt = begin(); words = [b['text'] for b in prompt['params']['prompt']]\n"
HELLO = BEGIN + 'text("He", "llo."); done()'


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A session driven by an agent whose turns are this script."""
    monkeypatch.setattr(AcpProvider, "deadlines", Deadlines(silent=20.0, linger=0.5, interrupt=0.5))

    def make(body: str, *tools: Any, **driver: Any) -> tuple[CliStage, StandIn]:
        stand_in = StandIn(tmp_path / "bin", "agent", AGENT + body)
        monkeypatch.setenv("PATH", f"{stand_in.folder}:/usr/bin:/bin")
        monkeypatch.setenv(COMMAND, "agent --acp 'two words'")
        return CliStage(tmp_path / "home", load_provider("acp"), *tools, **driver), stand_in

    return make


async def go(stage: CliStage, task: str, **launch: Any) -> Any:
    """Run it with a yes to the agent's own tools."""
    outcome = await stage.run(task, **launch)
    if outcome.record.detail == "provider:native-tools":
        outcome = await stage.answer("session", **launch)
    return outcome


async def test_an_agent_is_unsafe_and_needs_a_yes_before_it_starts(agent: Make) -> None:
    stage, stand_in = agent(HELLO)
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.NEEDS_APPROVAL, "provider:native-tools")
    assert stand_in.started == []
    outcome = await stage.answer("session")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Hello.")
    assert stand_in.started[0]["argv"] == ["--acp", "two words"]
    assert "ARTIFICER_ACP_TURN" not in stand_in.started[0]["env"]


async def test_a_turn_with_a_tool_of_ours(agent: Make) -> None:
    stage, _ = agent(BEGIN + 'text("Adding."); n = add(a=1, b=2); text("It is " + n); done()')
    outcome = await go(stage, "Add 1 and 2.")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "It is 3")
    assert list(stage.results().values()) == ["3"]
    assert stage.replies() == ["Adding.", "It is 3"]
    assert not [e for e in stage.events("tool_call") if e.data.get("observed")]


async def test_a_new_session_is_told_who_it_is_and_a_loaded_one_only_the_words(agent: Make) -> None:
    stage, _ = agent(BEGIN + "text(json.dumps([method, words])); done()")
    first = await go(stage, "One")
    second = await go(stage, "/Two")
    assert json.loads(first.record.output) == ["session/new", ["You are a test agent.", "One"]]
    assert json.loads(second.record.output) == ["session/load", ["\u2060/Two"]]
    assert "old words" not in str(stage.replies())


async def test_one_that_can_resume_is_resumed(agent: Make) -> None:
    body = 'CAPABILITIES = {"loadSession": True, "sessionCapabilities": {"resume": {}}}\n'
    stage, _ = agent(body + BEGIN + "text(method); done()")
    await go(stage, "One")
    assert (await go(stage, "Two")).record.output == "session/resume"


async def test_one_that_keeps_no_sessions_begins_anew_and_is_told_what_was_said(agent: Make) -> None:
    stage, _ = agent("CAPABILITIES = {}\n" + BEGIN + 'text(method + " " + words[-1]); done()')
    await go(stage, "One")
    outcome = await go(stage, "Two")
    assert outcome.record.output.startswith("session/new")
    assert "[you] session/new One" in outcome.record.output


async def test_tokens_are_of_the_turn_and_cost_is_of_the_session(agent: Make) -> None:
    body = (
        BEGIN + 'update("usage_update", used=1, size=2, cost={"amount": 0.25 * turn, "currency": "USD"}); text("Hi."); '
        'done(usage={"inputTokens": 80, "outputTokens": 10, "thoughtTokens": 5, "cachedReadTokens": 20, '
        '"totalTokens": 115})'
    )
    stage, _ = agent(body)
    await go(stage, "One")
    outcome = await go(stage, "Two")
    info = outcome.info
    assert (info.usd, info.input_tokens, info.output_tokens, info.cached_tokens) == ("0.50", 200, 30, 40)


async def test_another_currency_and_no_figures_at_all_are_an_unknown_amount(agent: Make) -> None:
    body = BEGIN + 'update("usage_update", used=1, size=2, cost={"amount": 1, "currency": "EUR"}); text("Hi."); done()'
    stage, _ = agent(body)
    assert (await go(stage, "One")).info.usd is None


async def test_a_cost_of_nothing_is_an_unknown_amount(agent: Make) -> None:
    stage, _ = agent(BEGIN + 'update("usage_update", cost={"amount": 0, "currency": "USD"}); text("Hi."); done()')
    assert (await go(stage, "One")).info.usd is None


async def test_money_is_a_budget_in_the_middle_of_a_turn(agent: Make) -> None:
    body = (
        BEGIN + 'add(a=1, b=1); update("usage_update", used=1, size=2, cost={"amount": 3, "currency": "USD"}); '
        'time.sleep(0.2); add(a=2, b=2); text("Done."); done()'
    )
    stage, _ = agent(body)
    outcome = await go(stage, "Add", limits=Limits(usd="1"))
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "usd")
    assert next(iter(stage.results().values())) == "2"


ASKING = BEGIN + 'text("[" + ask("rm -rf x", rawInput={"command": "rm -rf x"}) + "]"); done()'


async def test_a_permission_is_an_approval_and_a_yes_lets_it_go_on(agent: Make) -> None:
    stage, stand_in = agent(ASKING)
    outcome = await go(stage, "Clean")
    assert (outcome.stop, outcome.record.detail) == (Stop.NEEDS_APPROVAL, "acp:execute")
    assert outcome.record.waiting is not None
    assert "rm -rf x" in outcome.record.waiting.message
    assert not alive(stand_in.started[0]["pid"])
    outcome = await stage.answer("once")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "[o-allow_once]")


async def test_a_no_is_passed_on(agent: Make) -> None:
    stage, _ = agent(ASKING)
    await go(stage, "Clean")
    outcome = await stage.answer("deny")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "[o-reject_once]")


async def test_a_yes_for_the_session_asks_no_more(agent: Make) -> None:
    stage, _ = agent(ASKING)
    await go(stage, "Clean")
    await stage.answer("session")
    outcome = await stage.run("Again")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "[o-allow_once]")


async def test_a_permission_for_a_tool_of_ours_is_given_as_it_has_a_gate_of_its_own(agent: Make) -> None:
    stage, _ = agent(BEGIN + 'text(ask("artificer_add", kind="other", options=("allow_always",))); done()')
    assert (await go(stage, "Add")).record.output == "o-allow_always"


async def test_what_it_asks_without_an_option_for_the_answer_is_cancelled(agent: Make) -> None:
    stage, _ = agent(BEGIN + 'text(ask("x", options=("allow_once",))); done()')
    await go(stage, "Clean")
    assert (await stage.answer("deny")).record.output == "cancelled"


async def test_tools_of_its_own_are_recorded_with_what_they_were_given_and_gave(agent: Make) -> None:
    body = (
        BEGIN + 'update("tool_call", toolCallId="t", title="ls", kind="execute", status="pending", rawInput={}); '
        'update("tool_call_update", toolCallId="t", status="in_progress", rawInput={"command": "ls"}); '
        'update("tool_call_update", toolCallId="t", status="failed", rawOutput={"error": "no"}); text("Hm."); done()'
    )
    stage, _ = agent(body)
    await go(stage, "List")
    (called,), (result,) = stage.events("tool_call"), stage.events("tool_result")
    assert (called.data["tool"], called.data["args"], called.data["observed"]) == ("execute", {"command": "ls"}, True)
    assert (result.data["ok"], "no" in result.data["output"]) == (False, True)


async def test_a_model_is_chosen_where_it_can_be(agent: Make) -> None:
    option = {"id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": "a", "options": []}
    for made, key in (({"configOptions": [option]}, "value"), ({"models": {"currentModelId": "a"}}, "modelId")):
        stage, _ = agent(f"MADE = {{'sessionId': 'acp-1', **{made!r}}}\n{BEGIN}text(configured[0][{key!r}]); done()")
        stage = CliStage(stage.home / key, stage.provider)
        assert (await go(stage, "Hi", model="b")).record.output == "b"
        assert stage.events("message")[-1].data["model"] == "b"


async def test_a_model_that_cannot_be_chosen_is_said(agent: Make) -> None:
    stage, _ = agent(HELLO)
    await go(stage, "Hi", model="b")
    assert any("lets no model be chosen" in e.data["text"] for e in stage.events("notice"))


@pytest.mark.parametrize(
    ("body", "stop", "detail"),
    [
        (BEGIN + 'done("refusal")', Stop.REFUSED, "refusal"),
        (BEGIN + 'done("max_turn_requests")', Stop.BUDGET, "usd"),
        (BEGIN + 'text("Half"); done("max_tokens")', Stop.PROVIDER_ERROR, "incomplete"),
        (BEGIN + 'done("cancelled")', Stop.CANCELLED, None),
        (BEGIN + 'done("novelty")', Stop.PROVIDER_ERROR, "protocol"),
        (BEGIN + 'fail(prompt["id"], -32000, "Authentication required")', Stop.PROVIDER_ERROR, "auth"),
        (BEGIN + 'fail(prompt["id"], -32603, "Internal error: invalid x-api-key")', Stop.PROVIDER_ERROR, "auth"),
        (BEGIN + 'fail(prompt["id"], 429, "slow down")', Stop.PROVIDER_ERROR, "rate_limit"),
        (BEGIN + 'fail(prompt["id"], -32603, "Internal error", details="boom")', Stop.PROVIDER_ERROR, "server"),
        (BEGIN + "sys.exit(3)", Stop.PROVIDER_ERROR, "incomplete"),
        ("sys.stderr.write('no such flag\\n'); sys.exit(2)", Stop.PROVIDER_ERROR, "incomplete"),
        ('HELLO = {"protocolVersion": 2}\n' + HELLO, Stop.PROVIDER_ERROR, "capability"),
    ],
)
async def test_each_ending_is_one_of_ours(agent: Make, body: str, stop: Stop, detail: str | None) -> None:
    stage, _ = agent(body)
    outcome = await go(stage, "Hi")
    assert (outcome.stop, outcome.record.detail) == (stop, detail)


async def test_a_cancel_is_said_in_the_protocol_and_the_session_goes_on(agent: Make, tmp_path: Path) -> None:
    entered: list[int] = []
    body = f"""
{BEGIN}
if turn == 1:
    text("Thinking")
    said = read()
    open({str(tmp_path / "said")!r}, "w").write(said["method"])
    done("cancelled")
text(method); done()
"""
    stage, stand_in = agent(body, tool("wait", lambda args: entered.append(1) or ""))
    await stage.run("Hi")
    task = stage.begin(answer="session")
    await eventually(lambda: bool(stage.store.session("s1") and stage.store.draft("s1")))
    task.cancel()
    outcome = await task
    assert outcome.stop is Stop.CANCELLED
    assert (tmp_path / "said").read_text("utf-8") == "session/cancel"
    assert not alive(stand_in.started[0]["pid"])
    assert (await go(stage, "Go on")).record.output == "session/load"


async def test_odd_messages_are_survived(agent: Make) -> None:
    body = f"""
sys.stderr.write("noise " * 20000); sys.stderr.flush()
out("Starting up ..."); out("[]"); out({{"jsonrpc": "2.0", "method": "novelty"}})
{BEGIN}
out({{"jsonrpc": "2.0", "id": 9, "method": "fs/read_text_file", "params": {{"path": "/etc/passwd"}}}})
assert read()["error"]["code"] == -32601
update("novelty", x=1); update("tool_call"); update("agent_message_chunk"); update("usage_update", cost=3)
out({{"jsonrpc": "2.0", "method": "session/update", "params": [1]}})
out(b'{{"jsonrpc":"2.0","method":"session/update","params":{{"update":{{"sessionUpdate":"agent_message_chunk",')
out(b'"content":{{"type":"text","text":"\\xc3'); time.sleep(0.05); out(b'\\xa4"}}}}}}}}\\n')
text("\\ud800"); text("x" * 2_000_000); done(usage=[1])
"""
    stage, _ = agent(body)
    outcome = await go(stage, "Hi")
    words = "".join(stage.replies())
    assert outcome.stop is Stop.COMPLETED
    assert words.startswith("ä\ufffdxxx")
    assert len(words) == 2_000_002


async def test_one_that_lives_on_after_its_answer_is_ended(agent: Make) -> None:
    stage, stand_in = agent(BEGIN + 'signal.signal(signal.SIGINT, signal.SIG_IGN); text("Fine."); done(); hang()')
    outcome = await go(stage, "Hi")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Fine.")
    assert not alive(stand_in.started[0]["pid"])


async def test_a_long_prompt_goes_in_whole(agent: Make) -> None:
    stage, _ = agent(BEGIN + "text(str(len(words[-1]))); done()")
    assert (await go(stage, "ä" * 70_000)).record.output == "70000"


@pytest.mark.parametrize(
    ("title", "id", "name"),
    [
        ("artificer_add", "c1", "add"),
        ("mcp__artificer__run_sandbox", "c1", "run_sandbox"),
        ("add (artificer MCP Server)", "c1", "add"),
        ("artificer: add", "c1", "add"),
        ("", "mcp_artificer_add__mcp_artificer_add_17_0", "add"),
        ("cat artificer.txt", "c1", None),
        ("", "c1", None),
    ],
)
def test_calls_of_our_tools_are_told_apart(title: str, id: str, name: str | None) -> None:
    assert our_tool({"title": title, "toolCallId": id}) == name


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({}, None),
        ({"inputTokens": 100, "outputTokens": 15}, Usage(100, 15)),
        ({"inputTokens": 100, "outputTokens": 15, "cachedReadTokens": 20, "totalTokens": 115}, Usage(100, 15, 20)),
        (
            {"inputTokens": 80, "outputTokens": 10, "cachedReadTokens": 20, "thoughtTokens": 5, "totalTokens": 115},
            Usage(100, 15, 20),
        ),
    ],
)
def test_the_total_tells_what_is_counted_in_what(counts: dict[str, Any], usage: Usage | None) -> None:
    assert _usage(counts) == usage


def test_a_cost_that_falls_is_never_negative() -> None:
    kept: list[Decimal] = []
    parser = AcpParser("x", Decimal(5), kept.append)
    cost = {"sessionUpdate": "usage_update", "cost": {"amount": 1, "currency": "USD"}}
    (figures,) = parser.feed(json.dumps({"acp": "update", "update": cost}))
    assert getattr(figures, "usd", None) == 0
    assert kept == [Decimal(1)]


async def test_preflight_names_the_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = load_provider("acp")
    with environ(monkeypatch, tmp_path, **{COMMAND: None}):
        status = await provider.preflight()
        assert (status.state, status.fix) == ("not installed", "export ARTIFICER_ACP_COMMAND='gemini --acp'")
    with environ(monkeypatch, tmp_path, **{COMMAND: "no-such-agent"}):
        status = await provider.preflight()
        assert (status.state, "no-such-agent" in status.message) == ("not installed", True)
    StandIn(tmp_path / "bin", "agent", "")
    with environ(monkeypatch, tmp_path / "bin", **{COMMAND: "agent --acp"}):
        status = await provider.preflight()
        assert (status.state, status.message) == ("ready", "agent --acp")
