"""opencode as it was seen to behave: its steps, costs, endings and directories, played by a stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core import CliProvider, CliTurn, Deadlines, Stop, fork_session
from core.driver import Limits
from impl.providers import load_provider
from impl.providers.opencode import OpencodeProvider
from tests.harness.clis import CliStage, StandIn, alive, environ

SHAPES = """
args = sys.argv[1:]
def arg(name):
    return args[args.index(name) + 1] if name in args else None
prompt = sys.stdin.read()
ID = "ses_fork" if "--fork" in args else arg("--session") or "ses_1"
config = json.load(open(os.environ["XDG_CONFIG_HOME"] + "/opencode/opencode.json"))
def line(kind, **part):
    out({"type": kind, "timestamp": 1, "sessionID": ID, "part": {"id": "prt", "sessionID": ID, **part}})
def text(words):
    line("text", type="text", text=words)
def used(id, name, input, output, ok=True):
    state = {"status": "completed" if ok else "error", "input": input, "output" if ok else "error": output}
    line("tool_use", type="tool", tool=name, callID=id, state=state)
def tool(id, name, **input):
    given = config["mcp"]["artificer"]
    server = Server()
    server.start(given["command"][0], given["command"][1:], given["environment"])
    words = server.call(name, **input)["content"][0]["text"]
    used(id, "artificer_" + name, input, words)
    return words
def step(reason="stop", cost=0.25):
    tokens = {"total": 115, "input": 80, "output": 10, "reasoning": 5, "cache": {"write": 0, "read": 20}}
    line("step_finish", type="step-finish", reason=reason, tokens=tokens, cost=cost)
def start():
    line("step_start", type="step-start")
def error(name, **data):
    out({"type": "error", "timestamp": 1, "sessionID": ID, "error": {"name": name, "data": data}})
"""
Make = Callable[..., tuple[CliStage, StandIn]]
HELLO = 'start(); text("Hi."); step()'


@pytest.fixture
def opencode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A session driven by a stand-in for opencode whose turns are this script."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    def make(body: str, *tools: Any, **driver: Any) -> tuple[CliStage, StandIn]:
        stand_in = StandIn(tmp_path / "bin", "opencode", SHAPES + body)
        (stand_in.folder / "package.json").write_text('{"name": "opencode-ai", "version": "1.18.33"}')
        monkeypatch.setenv("PATH", f"{stand_in.folder}:/usr/bin:/bin")
        return CliStage(tmp_path / "home", load_provider("opencode:api"), *tools, **driver), stand_in

    return make


def words_of(stand_in: StandIn, start: int = -1) -> list[str]:
    """The argument vector of a start."""
    argv: list[str] = stand_in.started[start]["argv"]
    return argv


def configuration(stand_in: StandIn) -> dict[str, Any]:
    """What the last start was configured with."""
    folder = Path(stand_in.started[-1]["env"]["XDG_CONFIG_HOME"])
    loaded: dict[str, Any] = json.loads((folder / "opencode" / "opencode.json").read_text("utf-8"))
    return loaded


async def test_a_fresh_turn_with_a_tool_of_ours_costs_the_sum_of_its_steps(opencode: Make) -> None:
    body = 'start(); text("Adding."); n = tool("call_0", "add", a=1, b=2); step("tool-calls"); start(); text(n); step()'
    stage, stand_in = opencode(body)
    outcome = await stage.run("Add 1 and 2.", model="anthropic/claude-sonnet-4-5", effort="high")
    assert (outcome.stop, list(stage.results().values())) == (Stop.COMPLETED, ["3"])
    assert (outcome.info.usd, outcome.info.requests) == ("0.50", 2)
    assert (outcome.info.input_tokens, outcome.info.output_tokens, outcome.info.cached_tokens) == (200, 30, 40)
    argv = words_of(stand_in)
    assert argv[argv.index("-m") + 1] == "anthropic/claude-sonnet-4-5"
    assert argv[argv.index("--variant") + 1] == "high"
    assert "--auto" not in argv


async def test_its_own_tools_are_off_and_ours_are_all_it_has(opencode: Make) -> None:
    stage, stand_in = opencode(HELLO)
    await stage.run("Hi")
    config = configuration(stand_in)
    agent = config["agent"]["artificer"]
    assert agent["tools"] == {"*": False, "artificer_*": True}
    assert agent["permission"] == {"*": "deny", "artificer_*": "allow"}
    assert agent["prompt"] == "You are a test agent."
    assert list(config["mcp"]) == ["artificer"]
    argv = words_of(stand_in)
    assert argv[argv.index("--agent") + 1] == "artificer"


async def test_a_prompt_is_heard_word_for_word(opencode: Make) -> None:
    stage, _ = opencode("start(); text(json.dumps(prompt)); step()")
    for prompt in ("42", '--help "me"  twice\nand 007', "ä" * 70_000):
        outcome = await stage.run(prompt)
        assert json.loads(outcome.record.output or "") == prompt


async def test_a_resume_and_a_fork_cost_only_their_own_turn(opencode: Make) -> None:
    stage, stand_in = opencode(HELLO)
    await stage.run("One")
    await stage.run("Two")
    assert words_of(stand_in)[words_of(stand_in).index("--session") + 1] == "ses_1"
    assert stage.info.usd == "0.50"
    forked = CliStage(stage.home, stage.provider, session="s2")
    await fork_session(forked.host, "s1", new="s2")
    await forked.run("Three")
    assert "--fork" in words_of(stand_in)
    assert forked.info.usd == "0.25"
    await forked.run("Four")
    assert words_of(stand_in)[words_of(stand_in).index("--session") + 1] == "ses_fork"
    assert "--fork" not in words_of(stand_in)
    assert forked.info.usd == "0.50"
    homes = {started["env"]["XDG_DATA_HOME"] for started in stand_in.started}
    assert len(homes) == 1


async def test_what_costs_nothing_here_costs_an_unknown_amount(opencode: Make) -> None:
    stage, _ = opencode('start(); text("Hi."); step(cost=0)')
    outcome = await stage.run("Hi")
    assert (outcome.info.usd, outcome.info.input_tokens) == (None, 100)


async def test_one_that_never_exits_after_its_last_step_is_ended_and_the_turn_counts(
    opencode: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpencodeProvider, "deadlines", Deadlines(linger=0.3, interrupt=0.3))
    stage, stand_in = opencode(HELLO + "; hang()")
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.output, outcome.info.usd) == (Stop.COMPLETED, "Hi.", "0.25")
    assert not alive(stand_in.started[0]["pid"])


async def test_a_step_that_may_not_be_the_last_waits_for_the_exit(opencode: Make) -> None:
    stage, _ = opencode('start(); text("Hm."); step("unknown"); time.sleep(0.2); text("Done."); step("unknown")')
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Hm.\n\nDone.")


async def test_money_is_a_budget_in_the_middle_of_a_turn(opencode: Make) -> None:
    body = (
        'start(); tool("a", "add", a=1, b=1); step("tool-calls"); time.sleep(0.2); '
        'tool("b", "add", a=2, b=2); step("tool-calls"); text("Done."); step()'
    )
    stage, _ = opencode(body)
    outcome = await stage.run("Add", limits=Limits(usd="0.20"))
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "usd")
    assert list(stage.results().values()) == ["2"]


@pytest.mark.parametrize(
    ("body", "stop", "detail"),
    [
        ('error("APIError", message="nope", statusCode=401); sys.exit(1)', Stop.PROVIDER_ERROR, "auth"),
        ('error("ProviderAuthError", message="x"); sys.exit(1)', Stop.PROVIDER_ERROR, "auth"),
        ('error("APIError", message="nope", statusCode=529); sys.exit(1)', Stop.PROVIDER_ERROR, "overloaded"),
        ('error("APIError", message="Usage limit reached", statusCode=429)', Stop.PROVIDER_ERROR, "quota"),
        ('error("ContextOverflowError", message="x")', Stop.PROVIDER_ERROR, "context"),
        ('error("UnknownError", message="Model not found: a/b")', Stop.PROVIDER_ERROR, "not_found"),
        ('error("MessageAbortedError")', Stop.CANCELLED, None),
        ('start(); step("content-filter")', Stop.REFUSED, "refusal"),
        ('start(); text("Half"); step("length")', Stop.PROVIDER_ERROR, "incomplete"),
        ('sys.stderr.write("\\x1b[91mError: \\x1b[0mboom\\n"); sys.exit(1)', Stop.PROVIDER_ERROR, "server"),
        ("start(); sys.exit(0)", Stop.PROVIDER_ERROR, "incomplete"),
    ],
)
async def test_each_ending_is_one_of_ours(opencode: Make, body: str, stop: Stop, detail: str | None) -> None:
    stage, _ = opencode(body)
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (stop, detail)


async def test_a_session_it_has_forgotten_is_begun_anew_and_told_what_was_said(opencode: Make) -> None:
    body = """
if turn == 2:
    sys.stderr.write("\\x1b[91m\\x1b[1mError: \\x1b[0mSession not found\\n"); sys.exit(1)
start(); text(prompt if turn == 3 else "One."); step()
"""
    stage, _ = opencode(body)
    await stage.run("First")
    outcome = await stage.run("Second")
    assert outcome.stop is Stop.COMPLETED
    assert "[you] One." in (outcome.record.output or "")


async def test_a_tool_of_its_own_is_recorded_as_observed(opencode: Make) -> None:
    stage, _ = opencode('start(); used("c", "bash", {"command": "ls"}, "no such tool", ok=False); text("Hm."); step()')
    await stage.run("Hi")
    (called,) = stage.events("tool_call")
    assert (called.data["tool"], called.data["observed"]) == ("bash", True)


async def test_odd_output_is_survived(opencode: Make) -> None:
    body = """
sys.stderr.write("noise " * 20000); sys.stderr.flush()
out("not JSON"); out({"type": "novelty"}); out("[]"); out({"type": "step_finish", "part": {"tokens": [1], "cost": "x"}})
start(); out({"type": "tool_use", "part": {"state": 3}})
out(b'{"type":"text","sessionID":"ses_1","part":{"text":"\\xc3'); time.sleep(0.05); out(b'\\xa4"}}\\n')
out('{"type":"text","sessionID":"ses_1","part":{"text":"\\\\ud800"}}')
text("x" * 2_000_000); step()
"""
    stage, _ = opencode(body)
    outcome = await stage.run("Hi")
    assert outcome.stop is Stop.COMPLETED
    words = "".join(stage.replies())
    assert words.startswith("ä\n\n\ufffd\n\nxxx")
    assert len(words) > 2_000_000


# --- environment and directories -----------------------------------------------------------------------

AMBIENT = {
    "PATH": "/bin",
    "ANTHROPIC_API_KEY": "sk-ancestor",
    "ANTHROPIC_BASE_URL": "http://router.example",
    "OPENAI_API_KEY": "sk-ancestor",
    "OPENAI_BASE_URL": "http://router.example/v1",
    "OPENCODE_CONFIG_CONTENT": "{}",
    "OPENCODE_SERVER_PASSWORD": "x",
    "OPENCODE": "1",
}


def child(name: str, tmp_path: Path, ambient: dict[str, str]) -> tuple[dict[str, str], dict[str, Any], CliTurn]:
    """The environment and configuration a child would have."""
    provider = load_provider(name)
    assert isinstance(provider, CliProvider)
    turn = CliTurn("hi", tmp_path / "d", tmp_path / "own", ambient=ambient)
    provider.seed(turn, None)
    env = provider.environment(turn, {}, provider.invoke(turn))
    return env, json.loads((turn.scratch / "config" / "opencode" / "opencode.json").read_text("utf-8")), turn


def test_no_ancestors_variable_misroutes_a_native_child(tmp_path: Path) -> None:
    env, config, _ = child("opencode", tmp_path, {**AMBIENT, "XDG_CONFIG_HOME": str(tmp_path / "none")})
    assert {name for name in AMBIENT if name in env} == {"PATH"}
    assert "provider" not in config


def test_the_key_route_keeps_keys_and_addresses(tmp_path: Path) -> None:
    env, config, _ = child("opencode:api", tmp_path, AMBIENT)
    assert {name for name in AMBIENT if name in env} == {"PATH", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"}
    addresses = {name: row["options"]["baseURL"] for name, row in config["provider"].items()}
    assert addresses == {"anthropic": "http://router.example/v1", "openai": "http://router.example/v1"}


def test_providers_travel_with_the_files_and_variables_they_name_and_nothing_that_runs_does(tmp_path: Path) -> None:
    mine, data = tmp_path / "config" / "opencode", tmp_path / "data" / "opencode"
    (mine / "keys").mkdir(parents=True)
    data.mkdir(parents=True)
    (data / "auth.json").write_text('{"x": {}}')
    (mine / "keys" / "a.txt").write_text("k")
    (mine / "opencode.jsonc").write_text(
        '{"model": "p/m", /* mine */ "plugin": ["evil"], "mcp": {"other": {}}, "provider": {"p": {"options": '
        '{"apiKey": "{file:keys/a.txt}", "baseURL": "http://x//y", "headers": {"k": "{env:OPENAI_API_KEY}"}},}},}'
    )
    ambient = {
        **AMBIENT,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    env, config, turn = child("opencode", tmp_path, ambient)
    assert config["provider"]["p"]["options"]["baseURL"] == "http://x//y"
    assert (config["model"], config["plugin"], config["mcp"]) == ("p/m", [], {})
    assert (turn.scratch / "config" / "opencode" / "keys" / "a.txt").read_text("utf-8") == "k"
    assert env["OPENAI_API_KEY"] == "sk-ancestor"
    assert "ANTHROPIC_API_KEY" not in env
    assert (turn.config / "data" / "opencode" / "auth.json").resolve() == data / "auth.json"
    below = CliTurn("hi", tmp_path / "e", tmp_path / "own2", ambient={**ambient, "XDG_CONFIG_HOME": "/nowhere"})
    provider = load_provider("opencode")
    assert isinstance(provider, CliProvider)
    provider.seed(below, turn.config)
    provider.invoke(below)
    assert (below.scratch / "config" / "opencode" / "keys" / "a.txt").read_text("utf-8") == "k"


@pytest.mark.parametrize(
    ("route", "version", "key", "login", "state", "fix"),
    [
        (":api", "1.18.33", "k", False, "ready", ""),
        (":api", "1.18.33", None, False, "no key", "export ANTHROPIC_API_KEY=…"),
        (":api", "1.2.0", "k", False, "wrong version", "npm install -g opencode-ai"),
        ("", "1.18.33", None, True, "ready", ""),
        ("", "1.18.33", "k", False, "not logged in", "opencode auth login"),
    ],
)
async def test_preflight_names_the_one_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    route: str,
    version: str,
    key: str | None,
    login: bool,
    state: str,
    fix: str,
) -> None:
    StandIn(tmp_path / "bin", "opencode", "")
    (tmp_path / "bin" / "package.json").write_text(json.dumps({"name": "opencode-ai", "version": version}))
    if login:
        (tmp_path / "opencode").mkdir()
        (tmp_path / "opencode" / "auth.json").write_text('{"anthropic": {}}')
    given: dict[str, str | None] = {"OPENAI_API_KEY": None, "GEMINI_API_KEY": None, "ANTHROPIC_API_KEY": key}
    homes = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "none")}
    with environ(monkeypatch, tmp_path / "bin", **given, **homes):
        status = await load_provider(f"opencode{route}").preflight()
    assert (status.state, status.fix) == (state, fix)


async def test_a_version_that_only_it_can_tell_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StandIn(tmp_path / "bin", "opencode", 'out("1.9.0")')
    with environ(monkeypatch, tmp_path / "bin", ANTHROPIC_API_KEY="k"):
        status = await load_provider("opencode:api").preflight()
    assert status.state == "wrong version"
    assert "1.9.0" in status.message
