"""Gemini CLI as it was seen to behave: its turns, counts, endings and home, played by a stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from core import CannotFork, CliProvider, CliTurn, Deadlines, Limits, Stop, Usage, fork_session
from impl.providers import load_provider
from impl.providers._gemini_lines import GeminiParser, charged
from impl.providers._pricing import price
from impl.providers.gemini_cli import GeminiCliProvider
from tests.harness.clis import CliStage, StandIn, alive, environ
from tests.harness.eval_driver import eventually

SHAPES = """
args = sys.argv[1:]
def arg(name):
    return args[args.index(name) + 1] if name in args else None
prompt = next((a[len("--prompt="):] for a in args if a.startswith("--prompt=")), None) or sys.stdin.read()
ID = arg("--session-id") or arg("--resume")
HOME = os.environ["GEMINI_CLI_HOME"] + "/.gemini"
settings = json.load(open(HOME + "/settings.json"))
def init(model="gemini-2.5-flash"):
    out({"type": "init", "timestamp": "2026-01-02T03:04:05.678Z", "session_id": ID, "model": model})
    out({"type": "message", "role": "user", "content": prompt})
def text(*pieces):
    for piece in pieces:
        out({"type": "message", "role": "assistant", "content": piece, "delta": True})
def tool(name, **parameters):
    given = settings["mcpServers"]["artificer"]
    server = Server()
    server.start(given["command"], given["args"], given["env"])
    id = f"mcp_artificer_{name}__mcp_artificer_{name}_1_0"
    out({"type": "tool_use", "tool_name": "mcp_artificer_" + name, "tool_id": id, "parameters": parameters})
    content = server.call(name, **parameters)["content"]
    out({"type": "tool_result", "tool_id": id, "status": "success", "output": content[-1]["text"]})
    return content
def row(n=1):
    return {"total_tokens": 115 * n, "input_tokens": 100 * n, "output_tokens": 10 * n, "cached": 20 * n}
def done(models=None, status="success", **more):
    models = models or {"gemini-2.5-flash": row()}
    out({"type": "result", "status": status, "stats": {**row(), "models": models}, **more})
"""
Make = Callable[..., tuple[CliStage, StandIn]]
MODEL = "gemini-2.5-flash"
ONCE = price("google", MODEL, Usage(100, 15, 20))


@pytest.fixture
def gemini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A session driven by a stand-in for Gemini CLI whose turns are this script."""
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL", raising=False)

    def make(body: str, *tools: Any, **driver: Any) -> tuple[CliStage, StandIn]:
        stand_in = StandIn(tmp_path / "bin", "gemini", SHAPES + body)
        (stand_in.folder / "package.json").write_text('{"name": "@google/gemini-cli", "version": "0.61.0"}')
        monkeypatch.setenv("PATH", f"{stand_in.folder}:/usr/bin:/bin")
        return CliStage(tmp_path / "home", load_provider("gemini_cli:api"), *tools, **driver), stand_in

    return make


def words_of(stand_in: StandIn, start: int = -1) -> list[str]:
    """The argument vector of a start."""
    argv: list[str] = stand_in.started[start]["argv"]
    return argv


async def test_a_fresh_turn_with_a_tool_of_ours(gemini: Make) -> None:
    stage, stand_in = gemini('init(); text("Add", "ing."); n = tool("add", a=1, b=2); text("It is 3."); done()')
    outcome = await stage.run("Add 1 and 2.", model=MODEL)
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "It is 3.")
    assert list(stage.results().values()) == ["3"]
    assert stage.replies() == ["Adding.", "It is 3."]
    argv, env = words_of(stand_in), stand_in.started[-1]["env"]
    assert argv[argv.index("-m") + 1] == MODEL
    assert argv[-1] == "--prompt=Add 1 and 2."
    assert Path(env["GEMINI_SYSTEM_MD"]).read_text("utf-8") == "You are a test agent."
    assert Path(env["TMPDIR"]).is_relative_to(stage.home)


async def test_its_own_tools_are_off_and_ours_are_all_it_has(gemini: Make) -> None:
    stage, stand_in = gemini('init(); text("Hi."); done()')
    await stage.run("Hi")
    home = Path(stand_in.started[0]["env"]["GEMINI_CLI_HOME"])
    settings = json.loads((home / ".gemini" / "settings.json").read_text("utf-8"))
    assert settings["tools"] == {"core": ["mcp_artificer_*"]}
    assert settings["mcp"] == {"allowed": ["artificer"]}
    assert list(settings["mcpServers"]) == ["artificer"]
    assert "--yolo" not in words_of(stand_in)


async def test_a_result_that_reads_as_json_but_is_no_object_is_not_mistaken_for_structure(gemini: Make) -> None:
    stage, _ = gemini('init(); c = tool("add", a=1, b=2); text(json.dumps([b["text"] for b in c])); done()')
    outcome = await stage.run("Add")
    assert json.loads(outcome.record.output or "") == ["", "3"]


async def test_asking_the_person_has_another_name_there_as_its_own_would_be_left_out(gemini: Make) -> None:
    stage, _ = gemini('init(); text("Well."); tool("ask_the_user", message="Which?"); hang()')
    outcome = await stage.run("Paint")
    assert outcome.stop is Stop.AWAITING_USER
    assert stage.events("tool_call")[0].data["tool"] == "ask_user"
    assert stage.replies() == ["Well."]


async def test_a_resume_costs_only_its_own_turn_and_thoughts_are_paid_for(gemini: Make) -> None:
    stage, stand_in = gemini('init(); text("Hi."); done()')
    await stage.run("One", model=MODEL)
    await stage.run("Two", model=MODEL)
    native = stage.events("provider_session")[0].data["native"]
    assert words_of(stand_in, 0)[words_of(stand_in, 0).index("--session-id") + 1] == native
    assert words_of(stand_in)[words_of(stand_in).index("--resume") + 1] == native
    assert (stage.info.input_tokens, stage.info.output_tokens, stage.info.cached_tokens) == (200, 30, 40)
    assert float(stage.info.usd or "nan") == pytest.approx(2 * float(ONCE or 0), abs=2e-6)


async def test_a_fork_is_refused_with_what_to_do_instead(gemini: Make) -> None:
    stage, stand_in = gemini('init(); text("Hi."); done()')
    await stage.run("One")
    with pytest.raises(CannotFork, match="Gemini CLI cannot fork a session") as refused:
        await fork_session(stage.host, "s1", new="s2")
    assert (refused.value.code, "artificer fork s1 --provider" in refused.value.hint) == ("capability", True)
    assert stage.store.session("s2") is None
    assert len(stand_in.started) == 1


def test_several_models_of_one_turn_are_priced_each() -> None:
    def of(model: str, usage: Usage) -> Decimal | None:
        return Decimal(usage.input_tokens) * {"a": 1, "b": 10}[model]

    figures = charged({"a": Usage(7, 1), "b": Usage(2, 1)}, 3, of)
    assert (figures.usd, figures.usage.input_tokens, figures.usage.requests, figures.model) == (27, 9, 3, "a")


def test_many_short_requests_are_not_priced_as_a_long_one() -> None:
    def tiered(model: str, usage: Usage) -> Decimal | None:
        return Decimal(usage.input_tokens) * (2 if usage.input_tokens > 200 else 1)

    assert charged({"a": Usage(900, 1)}, 9, tiered).usd == 900


async def test_a_model_without_a_price_costs_an_unknown_amount(gemini: Make) -> None:
    stage, _ = gemini('init(); text("Hi."); done({"my-own": row()})')
    outcome = await stage.run("One")
    assert (outcome.info.usd, outcome.info.input_tokens) == (None, 100)


async def test_figures_without_models_are_of_the_one_it_began_with(gemini: Make) -> None:
    stage, _ = gemini(
        f'init(model={MODEL!r}); text("Hi."); out({{"type": "result", "status": "success", "stats": row()}})'
    )
    outcome = await stage.run("One")
    assert float(outcome.info.usd or "nan") == pytest.approx(float(ONCE or 0), abs=1e-6)


async def test_an_interrupted_turn_is_counted_from_its_chat_file_without_earlier_turns(
    gemini: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GeminiCliProvider, "deadlines", Deadlines(interrupt=0.3))
    body = """
import datetime
folder = HOME + "/tmp/cwd/chats"
os.makedirs(folder, exist_ok=True)
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.999Z")
tokens = {"input": 100, "output": 10, "cached": 20, "thoughts": 5, "tool": 0, "total": 115}
with open(folder + "/session-x-" + ID[:8] + ".jsonl", "a") as file:
    for id, at in (("a", "2020-01-01T00:00:00.000Z"), ("b", now), ("b", now)):
        row = {"id": id, "timestamp": at, "type": "gemini", "tokens": tokens, "model": "gemini-2.5-flash"}
        file.write(json.dumps(row) + "\\n")
init(); text("Hm"); hang()
"""
    stage, stand_in = gemini(body)
    task = stage.begin("One", model=MODEL)
    await eventually(lambda: bool(stage.store.session("s1") and stage.store.draft("s1")))
    task.cancel()
    outcome = await task
    assert outcome.stop is Stop.CANCELLED
    assert (outcome.info.input_tokens, outcome.info.output_tokens) == (100, 15)
    assert float(outcome.info.usd or "nan") == pytest.approx(float(ONCE or 0), abs=1e-6)
    assert not alive(stand_in.started[0]["pid"])
    kept = stage.events("provider_session")[-1].data["transcript"]
    assert kept.endswith(".jsonl")


async def test_tokens_are_a_budget_from_turn_to_turn(gemini: Make) -> None:
    stage, stand_in = gemini('init(); text("Hi."); done()')
    assert (await stage.run("One", limits=Limits(tokens=50))).stop is Stop.COMPLETED
    outcome = await stage.run("Two")
    assert (outcome.stop, outcome.record.detail, len(stand_in.started)) == (Stop.BUDGET, "tokens", 1)


API_ERROR = '[API Error: {{"error":{{"code":{0},"message":"{1}","status":"X"}}}}]'


@pytest.mark.parametrize(
    ("body", "stop", "detail"),
    [
        (("result", API_ERROR.format(401, "nope"), 145), Stop.PROVIDER_ERROR, "auth"),
        (("result", API_ERROR.format(429, "slow down"), 1), Stop.PROVIDER_ERROR, "rate_limit"),
        (("result", API_ERROR.format(429, "You exceeded your current quota"), 1), Stop.PROVIDER_ERROR, "quota"),
        (("result", API_ERROR.format(503, "busy"), 1), Stop.PROVIDER_ERROR, "overloaded"),
        (("result", "The model response was blocked due to safety settings.", 0), Stop.REFUSED, "refusal"),
        (("exit", "YOLO mode is enabled.\\nPlease set an Auth method", 41), Stop.PROVIDER_ERROR, "auth"),
        (("exit", "Gemini CLI is not running in a trusted directory.", 55), Stop.PROVIDER_ERROR, "bad_request"),
        (("exit", "Reached max session turns", 53), Stop.BUDGET, "usd"),
        (("exit", "", 0), Stop.PROVIDER_ERROR, "incomplete"),
    ],
)
async def test_each_ending_is_one_of_ours(gemini: Make, body: tuple[str, str, int], stop: Stop, detail: str) -> None:
    kind, message, code = body
    shown = f'init(); done(status="error", error={{"type": "unknown", "message": {message!r}}}); sys.exit({code})'
    silent = f'sys.stderr.write("Warning: no colours\\n{message}\\n"); sys.exit({code})'
    stage, _ = gemini(shown if kind == "result" else silent)
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (stop, detail)


async def test_a_session_it_has_forgotten_is_begun_anew_and_told_what_was_said(gemini: Make) -> None:
    body = """
if turn == 2:
    sys.stderr.write('Error resuming session: Invalid session identifier "x".\\n'); sys.exit(42)
init(); text("Reply " + str(turn)); done()
"""
    stage, stand_in = gemini(body)
    await stage.run("First")
    outcome = await stage.run("Second")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Reply 3")
    assert "[you] Reply 1" in words_of(stand_in)[-1]


async def test_one_that_hangs_after_its_result_is_ended_and_the_turn_counts(
    gemini: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GeminiCliProvider, "deadlines", Deadlines(linger=0.3, interrupt=0.3))
    stage, stand_in = gemini('init(); text("Fine."); done(); signal.signal(signal.SIGINT, signal.SIG_IGN); hang()')
    outcome = await stage.run("Hi", model=MODEL)
    assert (outcome.stop, outcome.record.output, outcome.info.input_tokens) == (Stop.COMPLETED, "Fine.", 100)
    assert not alive(stand_in.started[0]["pid"])


async def test_a_slash_or_a_dash_begins_words_not_a_command(gemini: Make) -> None:
    stage, stand_in = gemini('init(); text("Hi."); done()')
    await stage.run("/memory show")
    await stage.run("--help")
    assert words_of(stand_in, 0)[-1] == "--prompt= /memory show"
    assert words_of(stand_in)[-1] == "--prompt=--help"


async def test_odd_output_is_survived(gemini: Make) -> None:
    body = """
sys.stderr.write("noise " * 20000); sys.stderr.flush()
init(); out("Warning: not JSON"); out({"type": "novelty", "x": [1]}); out('{"type": "message", "role"'); out("[]")
out(b'{"type":"message","role":"assistant","delta":true,"content":"\\xc3'); time.sleep(0.05); out(b'\\xa4"}\\n')
out('{"type":"message","role":"assistant","delta":true,"content":"\\\\ud800"}')
text("x" * 2_000_000)
out({"type": "tool_use"}); out({"type": "tool_result", "tool_id": 7, "output": {"a": 1}}); out({"type": "result"})
"""
    stage, _ = gemini(body)
    outcome = await stage.run("Hi")
    words = "".join(stage.replies())
    assert words.startswith("ä\ufffdxxx")
    assert len(words) == 2_000_002
    assert outcome.stop is Stop.PROVIDER_ERROR


@pytest.mark.parametrize("line", ['{"type":"result","stats":{"models":[1]}}', '{"type":"error"}', '{"type":"init"}'])
def test_a_line_that_lacks_everything_never_raises(line: str) -> None:
    GeminiParser("mcp_artificer_", lambda model, usage: None).feed(line)


# --- environment and home ------------------------------------------------------------------------------

AMBIENT = {
    "PATH": "/bin",
    "GEMINI_API_KEY": "sk-ancestor",
    "GOOGLE_GEMINI_BASE_URL": "http://router.example",
    "GEMINI_MODEL": "other",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "GOOGLE_API_KEY": "sk-ancestor",
    "GOOGLE_APPLICATION_CREDENTIALS": "/x",
    "GOOGLE_CLOUD_PROJECT": "mine",
    "GEMINI_SANDBOX": "docker",
}


def child(name: str, tmp_path: Path, ambient: dict[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The environment and the settings a child would have."""
    provider = load_provider(name)
    assert isinstance(provider, CliProvider)
    turn = CliTurn("hi", tmp_path / "d", tmp_path / "own", ambient=ambient)
    provider.seed(turn, None)
    env = provider.environment(turn, {}, provider.invoke(turn))
    return env, json.loads((turn.config / ".gemini" / "settings.json").read_text("utf-8"))


def test_no_ancestors_variable_misroutes_a_native_child(tmp_path: Path) -> None:
    env, settings = child("gemini_cli", tmp_path, AMBIENT)
    assert {name for name in AMBIENT if name in env} == {"PATH", "GOOGLE_CLOUD_PROJECT"}
    assert settings["security"]["auth"]["selectedType"] == "oauth-personal"


def test_the_key_route_keeps_key_and_address_alone(tmp_path: Path) -> None:
    env, settings = child("gemini_cli:api", tmp_path, AMBIENT)
    assert {name for name in AMBIENT if name in env} == {"PATH", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"}
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"


def test_the_cloud_route_keeps_project_and_credentials(tmp_path: Path) -> None:
    env, settings = child("gemini_cli:vertex", tmp_path, AMBIENT)
    assert {"GOOGLE_CLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_KEY"} <= set(env)
    assert "GEMINI_API_KEY" not in env
    assert settings["security"]["auth"]["selectedType"] == "vertex-ai"


def test_a_login_is_linked_and_of_the_settings_only_the_model_is_taken_over(tmp_path: Path) -> None:
    mine = tmp_path / "mine" / ".gemini"
    mine.mkdir(parents=True)
    (mine / "oauth_creds.json").write_text("{}")
    (mine / "settings.json").write_text('{"model": {"name": "gemini-2.5-pro"}, // mine\n "mcpServers": {"x": {}},}')
    ambient = {"PATH": "/bin", "GEMINI_CLI_HOME": str(tmp_path / "mine")}
    env, settings = child("gemini_cli", tmp_path, ambient)
    linked = Path(env["GEMINI_CLI_HOME"]) / ".gemini" / "oauth_creds.json"
    assert linked.resolve() == mine / "oauth_creds.json"
    assert settings["model"] == {"name": "gemini-2.5-pro"}
    assert settings["mcpServers"] == {}
    provider = load_provider("gemini_cli")
    assert isinstance(provider, CliProvider)
    turn = CliTurn("hi", tmp_path / "d", tmp_path / "own", ambient=ambient)
    assert provider.configured_model(turn) == "gemini-2.5-pro"


# --- preflight -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("route", "version", "key", "login", "state", "fix"),
    [
        (":api", "0.61.0", "k", False, "ready", ""),
        (":api", "0.61.0", None, False, "no key", "export GEMINI_API_KEY=…"),
        (":api", "0.40.0", "k", False, "wrong version", "npm install -g @google/gemini-cli"),
        ("", "0.61.0", None, True, "ready", ""),
        ("", "0.61.0", "k", False, "not logged in", "gemini"),
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
    StandIn(tmp_path / "bin", "gemini", "")
    (tmp_path / "bin" / "package.json").write_text(json.dumps({"name": "@google/gemini-cli", "version": version}))
    if login:
        (tmp_path / "mine" / ".gemini").mkdir(parents=True)
        (tmp_path / "mine" / ".gemini" / "oauth_creds.json").write_text("{}")
    with environ(monkeypatch, tmp_path / "bin", GEMINI_API_KEY=key, GEMINI_CLI_HOME=str(tmp_path / "mine")):
        status = await load_provider(f"gemini_cli{route}").preflight()
    assert (status.state, status.fix) == (state, fix)


async def test_one_that_is_not_installed_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    status = await load_provider("gemini_cli").preflight()
    assert (status.state, status.fix) == ("not installed", "npm install -g @google/gemini-cli")
