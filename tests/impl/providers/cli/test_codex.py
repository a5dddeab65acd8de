"""Codex as it was seen to behave: its turns, cumulative counts, endings and home, played by a stand-in."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core import CliProvider, CliTurn, Stop, fork_session
from core.driver import Limits
from impl.providers import load_provider
from impl.providers.codex import toml
from tests.harness.clis import CliStage, StandIn, alive
from tests.harness.eval_driver import eventually

Make = Callable[..., tuple[CliStage, StandIn]]
PRICED = "gpt-5"


def words_of(stand_in: StandIn, start: int = -1) -> list[str]:
    """The argument vector of a start."""
    argv: list[str] = stand_in.started[start]["argv"]
    return argv


def settings_of(stand_in: StandIn) -> dict[str, Any]:
    """What the last start overrode of the configuration."""
    argv = words_of(stand_in)
    return {k: v for a, b in pairwise(argv) if a == "-c" for k, v in [b.split("=", 1)]}


async def test_a_fresh_turn_with_a_tool_of_ours(codex: Make) -> None:
    stage, stand_in = codex('init(); text("Adding."); n = tool("item_1", "add", a=1, b=2); text("It is " + n); done()')
    outcome = await stage.run("Add 1 and 2.", model=PRICED, effort="high")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "It is 3")
    assert list(stage.results().values()) == ["3"]
    assert stage.replies() == ["Adding.", "It is 3"]
    argv, settings = words_of(stand_in), settings_of(stand_in)
    assert argv[:2] == ["exec", "-C"]
    assert argv[-2:] == ["--", "Add 1 and 2."]
    assert argv[argv.index("-m") + 1] == PRICED
    assert settings["model_reasoning_effort"] == '"high"'
    assert settings["sandbox_mode"] == '"read-only"'
    assert settings["features.shell_tool"] == "false"
    assert Path(json.loads(settings["model_instructions_file"])).read_text("utf-8") == "You are a test agent."


async def test_counts_that_grow_over_resume_and_fork_are_charged_once(codex: Make) -> None:
    stage, stand_in = codex('init(); text("Hi."); done(input=100 * turn, output=10 * turn, cached=20 * turn)')
    await stage.run("One", model=PRICED)
    once = stage.info.usd
    await stage.run("Two", model=PRICED)
    assert "-s" not in words_of(stand_in)
    assert "-C" not in words_of(stand_in)
    assert words_of(stand_in)[1:3] == ["resume", "thread-1"]
    assert (stage.info.input_tokens, stage.info.output_tokens, stage.info.cached_tokens) == (200, 20, 40)
    assert once is not None
    assert stage.info.usd is not None
    assert float(stage.info.usd) == pytest.approx(2 * float(once))
    forked = CliStage(stage.home, stage.provider, session="s2")
    await fork_session(forked.host, "s1", new="s2")
    await forked.run("Three", model=PRICED)
    assert words_of(stand_in)[1:3] == ["fork", "thread-1"]
    assert (forked.info.input_tokens, forked.info.usd) == (100, once)
    await forked.run("Four", model=PRICED)
    assert words_of(stand_in)[1:3] == ["resume", "thread-2"]
    assert forked.info.input_tokens == 200


async def test_a_model_without_a_price_costs_an_unknown_amount(codex: Make) -> None:
    stage, _ = codex('init(); text("Hi."); done()')
    outcome = await stage.run("One", model="my-own-model")
    assert outcome.info.usd is None
    assert outcome.info.input_tokens == 100


async def test_an_interrupted_turn_is_counted_from_its_transcript(codex: Make, quick: None) -> None:
    body = """
folder = os.environ["CODEX_HOME"] + "/sessions/2026/01/02"
os.makedirs(folder, exist_ok=True)
total = {"input_tokens": 300, "cached_input_tokens": 0, "output_tokens": 5}
row = {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": total}}}
open(folder + "/rollout-x-thread-1.jsonl", "w").write(json.dumps(row) + "\\n")
init(); text("Hm"); hang()
"""
    stage, stand_in = codex(body)
    task = stage.begin("One", model=PRICED)
    await eventually(lambda: bool(stage.store.session("s1") and stage.store.draft("s1")))
    task.cancel()
    outcome = await task
    assert outcome.stop is Stop.CANCELLED
    assert outcome.info.input_tokens == 300
    assert outcome.info.usd is not None
    assert not alive(stand_in.started[0]["pid"])


async def test_tokens_are_a_budget_in_the_middle_of_a_turn(codex: Make, quick: None) -> None:
    body = """
folder = os.environ["CODEX_HOME"] + "/sessions/2026/01/02"
os.makedirs(folder, exist_ok=True)
init(); tool("item_1", "add", a=1, b=1)
row = {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": {"input_tokens": 900}}}}
open(folder + "/rollout-x-thread-1.jsonl", "w").write(json.dumps(row) + "\\n")
tool("item_2", "add", a=2, b=2); text("Done."); done()
"""
    stage, _ = codex(body)
    outcome = await stage.run("One", limits=Limits(tokens=500))
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "tokens")
    assert list(stage.results().values()) == ["2"]


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ("unexpected status 401 Unauthorized: bad key, url: http://x", "auth"),
        ("unexpected status 503 Service Unavailable: busy", "overloaded"),
        ("You've hit your usage limit. Try again later.", "quota"),
        ("Your input exceeds the context window of this model.", "context"),
        ("stream disconnected before completion", "network"),
    ],
)
async def test_a_failed_turn_is_a_provider_error(codex: Make, message: str, detail: str) -> None:
    body = f"""
init(); out({{"type": "error", "message": {message!r}}})
out({{"type": "turn.failed", "error": {{"message": {message!r}}}}}); sys.exit(1)
"""
    stage, _ = codex(body)
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, detail)
    assert outcome.info.requests == 0


async def test_reconnecting_is_not_fatal_and_an_item_of_type_error_is_a_warning(codex: Make) -> None:
    body = """
init(); item("completed", "item_0", "error", message="metadata not found"); item("completed", "item_1", "error",
message="metadata not found"); out({"type": "error", "message": "Reconnecting... 1/5 (unexpected status 503)"})
text("Here."); done()
"""
    stage, _ = codex(body)
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Here.")
    assert [e.data["text"] for e in stage.events("notice")] == [
        "Codex: metadata not found",
        "Codex: Reconnecting... 1/5 (unexpected status 503)",
    ]


async def test_odd_output_is_survived(codex: Make) -> None:
    body = r"""
print("half a ", end="", file=sys.stderr, flush=True)
init(); out("not JSON"); out("[]"); out({"type": "novelty", "x": [1]}); out('{"type": "item.completed", "item"')
print("line " * 20000, file=sys.stderr, flush=True)
out({"type": "item.completed", "item": {"id": "n", "type": "brand_new", "text": "x"}})
line = json.dumps({"type": "item.completed", "item": {"id": "a", "type": "agent_message", "text": "gr\u00fc\u00dfe"}},
                  ensure_ascii=False).encode()
at = line.index(b"\xc3") + 1
out(line[:at]); time.sleep(0.05); out(line[at:] + b"\n")
out('{"type":"item.completed","item":{"id":"b","type":"agent_message","text":"lone \\ud800 here"}}')
out(b'{"type":"item.completed","item":{"id":"c","type":"agent_message","text":"bad \xff byte"}}\n')
item("completed", "d", "agent_message", text="x" * 2_000_000)
done()
"""
    stage, _ = codex(body)
    outcome = await stage.run("One")
    assert outcome.stop is Stop.COMPLETED
    words = "\n\n".join(stage.replies())
    assert words == "grüße\n\nlone \ufffd here\n\nbad \ufffd byte\n\n" + "x" * 2_000_000


async def test_a_refused_key_is_not_tried_again(codex: Make) -> None:
    stage, stand_in = codex(
        'init(); out({"type": "error", "message": "Reconnecting... 1/5 (unexpected status 401 Unauthorized)"}); hang()'
    )
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "auth")
    assert not alive(stand_in.started[0]["pid"])


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        ("Not inside a trusted directory and --skip-git-repo-check was not specified.", "bad_request"),
        ("Error loading config.toml: unknown configuration field", "bad_request"),
        ("Error: failed to read model instructions file inst.md", "bad_request"),
    ],
)
async def test_failures_that_stand_on_stderr_alone_are_told(codex: Make, words: str, detail: str) -> None:
    trace = "Stack backtrace:\n   0: <unknown>\n"
    stage, _ = codex(f"sys.stderr.write({words + chr(10) + trace!r}); sys.exit(1)")
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, detail)
    assert outcome.record.evidence["message"] == words


async def test_a_thread_it_does_not_know_is_begun_anew(codex: Make) -> None:
    body = """
if mode == "resume":
    print("Error: thread/resume failed: no rollout found for thread id x (code -32600)", file=sys.stderr)
    sys.exit(1)
init(); text("Hello " + str(turn)); done()
"""
    stage, stand_in = codex(body)
    await stage.run("One")
    outcome = await stage.run("Two")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Hello 3")
    assert "[you] Hello 1" in words_of(stand_in)[-1]


async def test_one_that_hangs_after_its_turn_has_answered(codex: Make, quick: None) -> None:
    stage, stand_in = codex('init(); text("Fine."); done(); hang()')
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Fine.")
    assert not alive(stand_in.started[0]["pid"])


async def test_what_it_did_with_a_tool_of_its_own_is_seen(codex: Make) -> None:
    body = """
init(); text("Looking.")
item("started", "item_1", "command_execution", command="ls", status="in_progress")
item("completed", "item_1", "command_execution", command="ls", aggregated_output="a\\nb", exit_code=0)
text("Two files."); done()
"""
    stage, _ = codex(body)
    await stage.run("Look")
    (call,) = stage.events("tool_call")
    (result,) = stage.events("tool_result")
    assert (call.data["tool"], call.data["args"], call.data["observed"]) == ("shell", {"command": "ls"}, True)
    assert (result.data["output"], result.data["ok"], result.data["observed"]) == ("a\nb", True, True)
    assert stage.replies() == ["Looking.", "Two files."]


async def test_repeating_itself_with_tools_of_its_own_ends_it(codex: Make, quick: None) -> None:
    body = """
init()
for n in range(60):
    item("started", f"item_{n}", "command_execution", command="make", status="in_progress")
    item("completed", f"item_{n}", "command_execution", command="make", aggregated_output="Error 2", exit_code=2)
    time.sleep(0.01)
text("Done."); done()
"""
    stage, stand_in = codex(body)
    outcome = await stage.run("Make")
    assert outcome.stop is Stop.DOOM_LOOP
    assert len(stand_in.started) > 1
    assert "repeating yourself" in words_of(stand_in)[-1]
    assert not [s for s in stand_in.started if alive(s["pid"])]


def test_a_session_inherits_the_persons_configuration_with_the_files_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    (mine / "deep").mkdir(parents=True)
    (mine / "deep" / "inst.md").write_text("Be brief.")
    (mine / "auth.json").write_text("{}")
    (mine / "history.jsonl").write_text("private")
    config = {
        "model": "gpt-mine",
        "model_instructions_file": "deep/inst.md",
        "other": "../x",
        "model_providers": {"my own": {"base_url": "http://x", "headers": ["ä", 1, 0.5, True]}},
        "mcp_servers": {"theirs": {"command": "rm"}},
        "notify": ["beep"],
    }
    (mine / "config.toml").write_text("".join(f"{key} = {toml(value)}\n" for key, value in config.items()), "utf-8")
    provider = load_provider("codex")
    assert isinstance(provider, CliProvider)
    turn = CliTurn("hi", tmp_path / "d", tmp_path / "own", ambient={"CODEX_HOME": str(mine)})
    for _ in range(2):
        provider.seed(turn, None)
    inherited = {key: value for key, value in config.items() if key not in ("mcp_servers", "notify")}
    assert tomllib.loads((turn.config / "config.toml").read_text("utf-8")) == inherited
    assert (turn.config / "deep" / "inst.md").read_text() == "Be brief."
    assert (turn.config / "auth.json").resolve() == mine / "auth.json"
    assert not (turn.config / "history.jsonl").exists()
    assert turn.config.stat().st_mode & 0o077 == 0
    assert provider.configured_model(turn) == "gpt-mine"
    child = CliTurn("hi", tmp_path / "child", tmp_path / "own", ambient={"CODEX_HOME": str(tmp_path / "none")})
    provider.seed(child, turn.config)
    assert (child.config / "deep" / "inst.md").read_text() == "Be brief."


async def test_preflight_tells_version_and_login_apart(
    tmp_path: Path, codex: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    codex("")
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.setenv("CODEX_HOME", str(mine))
    path = tmp_path / "bin" / "codex"
    path.write_text("#!/bin/sh\necho codex-cli 0.171.0\n")
    assert (await load_provider("codex").preflight()).state == "not logged in"
    (mine / "auth.json").write_text("half a lo")
    damaged = await load_provider("codex").preflight()
    assert (damaged.state, str(mine / "auth.json") in damaged.message) == ("not logged in", True)
    (mine / "auth.json").write_text("{}")
    assert (await load_provider("codex").preflight()).state == "ready"
    assert (await load_provider("codex:api").preflight()).state == "ready"
    path.write_text("#!/bin/sh\necho codex-cli 0.42.0\n")
    assert (await load_provider("codex").preflight()).state == "wrong version"
