"""Claude Code as it was seen to behave: its turns, costs, endings and processes, played by a stand-in."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core import CliProvider, CliTurn, ProviderError, Stop, ask_cli, fork_session
from core.driver import Limits
from impl.providers import load_provider
from tests.harness.clis import CliStage, StandIn, alive
from tests.harness.eval_driver import eventually, tool

Make = Callable[..., tuple[CliStage, StandIn]]


def words_of(stand_in: StandIn, start: int = -1) -> list[str]:
    """The argument vector of a start."""
    argv: list[str] = stand_in.started[start]["argv"]
    return argv


async def test_a_fresh_turn_with_a_tool_of_ours(claude: Make) -> None:
    stage, stand_in = claude(
        'init(); text("Adding."); n = tool("toolu_1", "add", a=1, b=2); text("It is " + n); result()'
    )
    outcome = await stage.run("Add 1 and 2.", model="sonnet", effort="high")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "It is 3")
    assert stage.kinds() == [
        *("started", "message", "provider_session", "message", "tool_call", "tool_result"),
        *("message", "usage", "provider_session", "stop"),
    ]
    assert stage.results() == {"toolu_1": "3"}
    assert stage.replies() == ["Adding.", "It is 3"]
    argv = words_of(stand_in)
    assert argv[-2:] == ["--", "Add 1 and 2."]
    assert argv[argv.index("--model") + 1] == "sonnet"
    assert argv[argv.index("--effort") + 1] == "high"
    assert argv[argv.index("--tools") + 1] == ""
    system = Path(argv[argv.index("--system-prompt-file") + 1])
    assert system.read_text("utf-8") == "You are a test agent."


async def test_words_that_look_like_a_command_are_words(claude: Make) -> None:
    stage, stand_in = claude('init(); text("Hi."); result()')
    await stage.run("/compact @/etc/passwd")
    assert words_of(stand_in)[-1] == " /compact @/etc/passwd"
    assert stand_in.started[0]["env"]["CLAUDE_CODE_DISABLE_ATTACHMENTS"] == "1"


async def test_words_that_no_argument_can_hold_are_said_without_them(claude: Make) -> None:
    stage, stand_in = claude('init(); text("Hi."); result()')
    outcome = await stage.run("a\0b \ud800")
    assert outcome.stop is Stop.COMPLETED
    assert words_of(stand_in)[-1] == "a\ufffdb \ufffd"


async def test_a_resume_and_a_fork_cost_only_their_own_turn(claude: Make) -> None:
    stage, stand_in = claude('init(); text("Hi."); result(usd=0.01, total=0.01 * turn)')
    await stage.run("One")
    await stage.run("Two")
    assert "--resume" in words_of(stand_in)
    assert stage.info.usd == "0.02"
    forked = CliStage(stage.home, stage.provider, session="s2")
    await fork_session(forked.host, "s1", new="s2")
    await forked.run("Three")
    argv = words_of(stand_in)
    assert argv[argv.index("--resume") + 1] == stage.events("provider_session")[-1].data["native"]
    assert "--fork-session" in argv
    assert forked.info.usd == "0.01"
    await forked.run("Four")
    assert words_of(stand_in)[words_of(stand_in).index("--resume") + 1] == "forked-id"


async def test_a_fork_of_what_has_gone_on_since_is_told_what_was_said_until_then(claude: Make) -> None:
    stage, stand_in = claude('init(); text(f"Answer {turn}."); result()')
    await stage.run("One")
    forked = CliStage(stage.home, stage.provider, session="s2")
    await fork_session(stage.host, "s1", new="s2")
    await stage.run("Two")
    await forked.run("Three")
    argv = words_of(stand_in)
    assert "--resume" not in argv
    assert "Answer 1." in argv[-1]
    assert "Two" not in argv[-1]
    assert "Three" in argv[-1]


async def test_a_fork_onto_another_provider_is_told_what_was_said(claude: Make, codex: Make) -> None:
    stage, _ = claude('init(); text("Hi from Claude."); result()')
    await stage.run("One")
    other, stand_in = codex('init(); text("Hi from Codex."); done()', session="s2")
    made = await fork_session(other.host, "s1", new="s2", provider="codex")
    assert (made.provider, made.parent) == ("codex", "s1")
    outcome = await other.run("Two")
    assert outcome.record.output == "Hi from Codex."
    assert words_of(stand_in)[1] != "fork"
    assert "Hi from Claude." in words_of(stand_in)[-1]


async def test_route_model_and_effort_are_stamped_on_every_turn_and_change_between_them(claude: Make) -> None:
    stage, stand_in = claude('init(); text("Hi."); result()')
    await stage.run("One", effort="low")
    await stage.run("Two")
    await stage.run("Three", effort="max")
    said = [event.data for event in stage.events("message") if event.data["role"] == "assistant"]
    assert [(data["provider"], data["route"], data["effort"]) for data in said] == [
        ("claude_code", "api", "low"),
        ("claude_code", "api", "low"),
        ("claude_code", "api", "max"),
    ]
    assert {data["model"] for data in said} == {"claude-sonnet-5-5"}
    assert words_of(stand_in)[words_of(stand_in).index("--effort") + 1] == "max"


async def test_an_effort_that_the_agent_wishes_for_and_it_does_not_take_is_left_out(claude: Make) -> None:
    stage, stand_in = claude('init(); text("Hi."); result()', more={"effort": "extreme"})
    assert (await stage.run("One")).stop is Stop.COMPLETED
    assert "--effort" not in words_of(stand_in)


async def test_a_price_it_does_not_know_stays_unknown(claude: Make) -> None:
    stage, _ = claude('init(); text("Hi."); result(model_usage_since_last_result=cost(0.5, basis="unknown", cached=8))')
    outcome = await stage.run("One")
    assert outcome.info.usd is None
    assert (outcome.info.input_tokens, outcome.info.cached_tokens) == (20, 8)


async def test_a_login_that_is_missing_is_told_with_the_command_that_mends_it(claude: Make) -> None:
    body = """
init()
frame("assistant", [{"type": "text", "text": "Not logged in · Please run /login"}], is_api_error_message=True)
result("Not logged in · Please run /login", is_error=True, model_usage_since_last_result={})
sys.exit(1)
"""
    stage, _ = claude(body)
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "auth")
    assert "claude auth login" in outcome.record.evidence["hint"]
    assert stage.replies() == []
    assert outcome.info.usd == "0.00"


@pytest.mark.parametrize(
    ("status", "words", "detail"),
    [
        (529, "Overloaded", "overloaded"),
        (429, "You have hit your usage limit", "quota"),
        (429, "slow down", "rate_limit"),
        (400, "prompt is too long", "context"),
        (500, "oops", "server"),
    ],
)
async def test_success_with_is_error_is_no_success(claude: Make, status: int, words: str, detail: str) -> None:
    stage, _ = claude(f"init(); result({words!r}, is_error=True, api_error_status={status}); sys.exit(1)")
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, detail)


async def test_a_refused_key_is_not_tried_again(claude: Make) -> None:
    stage, stand_in = claude(
        'init(); out({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "error_status": 401,'
        ' "error": "authentication_failed"}); hang()'
    )
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "auth")
    assert not alive(stand_in.started[0]["pid"])


async def test_a_retry_that_can_heal_is_a_notice(claude: Make) -> None:
    stage, _ = claude(
        'init(); out({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "error_status": 529,'
        ' "error": "overloaded"}); text("Here."); result()'
    )
    outcome = await stage.run("Hi")
    assert outcome.record.output == "Here."
    assert [e.data["text"] for e in stage.events("notice")] == ["Claude Code tries again (1 of 2): overloaded (529)."]


async def test_its_budget_is_what_is_left_and_its_stop_is_ours(claude: Make) -> None:
    body = """
init(); text("Hi.")
if turn == 1: result(usd=0.25)
else: result(usd=0.80, subtype="error_max_budget_usd", is_error=True, errors=["Reached maximum budget"]); sys.exit(1)
"""
    stage, stand_in = claude(body)
    await stage.run("One", limits=Limits(usd="1"))
    outcome = await stage.run("Two")
    argv = words_of(stand_in)
    assert argv[argv.index("--max-budget-usd") + 1] == "0.75"
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "usd")
    assert outcome.info.usd == "1.05"
    assert outcome.record.waiting is not None


async def test_a_session_it_does_not_know_is_begun_anew_once(claude: Make) -> None:
    body = """
if "--resume" in args:
    print("No conversation found with session ID: x", file=sys.stderr)
    out({"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0,
         "errors": ["No conversation found with session ID: x"], "session_id": "x"})
    sys.exit(1)
init(); text("Hello " + str(turn)); result()
"""
    stage, stand_in = claude(body)
    await stage.run("One")
    outcome = await stage.run("Two")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Hello 3")
    prompt = words_of(stand_in)[-1]
    assert "One" in prompt
    assert "[you] Hello 1" in prompt
    assert prompt.endswith("Two")


async def test_an_id_in_use_is_an_error_of_words_on_stderr(claude: Make) -> None:
    stage, _ = claude('print("Error: Session ID x is already in use.", file=sys.stderr); sys.exit(1)')
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "bad_request")
    assert "already in use" in outcome.record.evidence["message"]


async def test_one_that_is_too_old_for_our_flags_says_so(claude: Make) -> None:
    stage, _ = claude("print(\"error: unknown option '--tools'\", file=sys.stderr); sys.exit(1)")
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "capability")
    assert "Update Claude Code" in outcome.record.evidence["hint"]


async def test_a_refusal_is_final(claude: Make) -> None:
    stage, _ = claude('init(); text("No."); result("No.", stop_reason="refusal")')
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.output) == (Stop.REFUSED, "No.")


async def test_a_cancel_in_mid_turn_keeps_words_and_cost_and_kills_the_group(claude: Make, quick: None) -> None:
    body = """
def end(*_):
    result(usd=0.03, subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming")
    sys.exit(0)
signal.signal(signal.SIGINT, end)
child = subprocess.Popen(["sleep", "300"])
open("child", "w").write(str(child.pid))
init(); text("Thinking aloud"); hang()
"""
    stage, stand_in = claude(body)
    task = stage.begin("One")
    await eventually(lambda: bool(stage.store.draft("s1") if stage.store.session("s1") else None))
    child = int((Path(stand_in.started[0]["cwd"]) / "child").read_text())
    task.cancel()
    outcome = await task
    assert outcome.stop is Stop.CANCELLED
    assert outcome.info.usd == "0.03"
    assert stage.replies() == ["Thinking aloud"]
    assert not alive(stand_in.started[0]["pid"])
    await eventually(lambda: not alive(child))


async def test_one_that_ignores_the_interrupt_is_killed_and_its_cost_is_unknown(claude: Make, quick: None) -> None:
    stage, stand_in = claude('signal.signal(signal.SIGINT, signal.SIG_IGN); init(); text("Hm"); hang()')
    task = stage.begin("One")
    await eventually(lambda: bool(stage.store.session("s1") and stage.store.draft("s1")))
    await eventually(lambda: "message_delta" not in str(stage.store.draft("s1")))
    task.cancel()
    outcome = await task
    assert outcome.stop is Stop.CANCELLED
    assert outcome.info.usd is None
    assert outcome.info.requests == 1
    assert not alive(stand_in.started[0]["pid"])


async def test_one_that_hangs_after_its_result_has_answered(claude: Make, quick: None) -> None:
    stage, stand_in = claude('init(); text("Fine."); result(); hang()')
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Fine.")
    assert not alive(stand_in.started[0]["pid"])


async def test_one_that_falls_silent_in_the_middle_is_ended(claude: Make, quick: None) -> None:
    stage, stand_in = claude('init(); text("Hm"); hang()')
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "timeout")
    assert stage.replies() == ["Hm"]
    assert not alive(stand_in.started[0]["pid"])


async def test_a_tool_of_ours_may_take_longer_than_its_silence(claude: Make, quick: None) -> None:
    async def slow(args: Any) -> str:
        await asyncio.sleep(1.3)
        return "slept"

    stage, _ = claude('init(); n = tool("t", "slow"); text(n); result()', tool("slow", slow))
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "slept")


async def test_seconds_end_a_turn(claude: Make, quick: None) -> None:
    stage, stand_in = claude('init(); text("Hm"); time.sleep(0.9); text("Hm"); hang()')
    outcome = await stage.run("One", limits=Limits(seconds=0.8))
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "seconds")
    assert not alive(stand_in.started[0]["pid"])


async def test_lines_of_megabytes_broken_text_noise_and_news_do_no_harm(claude: Make) -> None:
    body = r"""
big = "x" * 2_000_000
print("warning: half a", end="", file=sys.stderr, flush=True)
init(); out("not json at all"); out('{"type": "half'); out({"type": "brand_new_event", "payload": [1]}); out("[1]")
print(" line", file=sys.stderr, flush=True)
out('{"type":"assistant","message":{"content":[{"type":"text","text":"lone \\ud800 here"},{"type":"new_block"}]}}')
line = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "grüße " + big}]}},
                  ensure_ascii=False).encode()
at = line.index("ü".encode()) + 1
out(line[:at]); time.sleep(0.05); out(line[at:] + b"\n")
out(b'{"type":"assistant","message":{"content":[{"type":"text","text":"bad \xff byte"}]}}\n')
out({"type": "assistant", "message": "not an object"}); out({"type": "result_of_something"})
result()
"""
    stage, _ = claude(body)
    outcome = await stage.run("One")
    assert outcome.stop is Stop.COMPLETED
    (reply,) = stage.replies()
    first, second, third = reply.split("\n\n")
    assert first == "lone \ufffd here"
    assert second == "grüße " + "x" * 2_000_000
    assert third == "bad \ufffd byte"


async def test_a_death_without_a_result_is_told(claude: Make) -> None:
    stage, _ = claude('init(); text("Hm"); print("Segmentation fault", file=sys.stderr); os.kill(os.getpid(), 9)')
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "incomplete")
    assert stage.replies() == ["Hm"]
    assert outcome.info.usd is None
    outcome = await stage.run()
    assert outcome.stop is Stop.PROVIDER_ERROR
    assert "interrupted" in stage.events("nudge")[-1].data["rule"]


@pytest.mark.parametrize(
    "figures",
    [
        {},
        {"m": {"inputTokens": -5, "outputTokens": "x", "costUSD": -1}},
        {"m": {"inputTokens": 10**30, "outputTokens": 10**400, "costUSD": 1e300}},
        {"m": {"inputTokens": 1e308, "costUSD": 10**400}},
    ],
)
async def test_figures_that_cannot_be_are_an_unknown_amount(claude: Make, figures: object) -> None:
    stage, _ = claude(
        f'init(); frame("assistant", [{{"type": "text", "text": "Hi."}}])\n'
        f'result("Hi.", model_usage_since_last_result={figures!r})'
    )
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.info.usd, outcome.info.input_tokens) == (Stop.COMPLETED, None, 0)


async def test_one_that_is_not_installed_says_how_to(claude: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, _ = claude("")
    monkeypatch.setenv("PATH", "/nowhere")
    outcome = await stage.run("One")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "not_installed")
    assert "npm install -g" in outcome.record.evidence["hint"]


async def test_preflight_tells_login_key_and_absence_apart(
    tmp_path: Path, claude: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude("")
    body = """
import json, os, sys
if "--version" in sys.argv:
    print(os.environ.get("VERSION", "2.1.332") + " (Claude Code)")
else:
    print(json.dumps({"loggedIn": os.environ.get("LOGGED") == "1", "email": "a@b.c"}))
"""
    path = tmp_path / "bin" / "claude"
    path.write_text(f"#!/usr/bin/env python3\n{body}\n")
    native, keyed = load_provider("claude_code"), load_provider("claude_code:api")
    assert (await native.preflight()).state == "not logged in"
    assert (await native.preflight()).fix == "claude auth login"
    monkeypatch.setenv("LOGGED", "1")
    assert (await native.preflight()).state == "ready"
    assert (await keyed.preflight()).state == "ready"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert (await keyed.preflight()).state == "no key"
    monkeypatch.setenv("VERSION", "1.0.88")
    status = await native.preflight()
    assert (status.state, "2.1.277 or newer" in status.message) == ("wrong version", True)
    path.unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    assert (await native.preflight()).state == "not installed"


@pytest.mark.parametrize(
    ("file", "kept"),
    [
        (".credentials.json", {"claudeAiOauth": {"accessToken": "t"}}),
        (".claude.json", {"primaryApiKey": "k"}),
        (None, None),
    ],
)
async def test_a_login_that_stands_in_a_file_or_variable_is_read_without_asking_it(
    tmp_path: Path, claude: Make, monkeypatch: pytest.MonkeyPatch, file: str | None, kept: object
) -> None:
    _, stand_in = claude("hang()")
    (tmp_path / "bin" / "package.json").write_text('{"name": "@anthropic-ai/claude-code", "version": "2.1.332"}')
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "mine"))
    (tmp_path / "mine").mkdir()
    if file is None:
        monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "t")
    else:
        (tmp_path / "mine" / file).write_text(json.dumps(kept))
    assert (await load_provider("claude_code").preflight()).state == "ready"
    assert stand_in.started == []


@pytest.mark.parametrize(("system", "state"), [("linux", "not logged in"), ("darwin", "wrong version")])
async def test_one_that_is_slow_to_say_is_refused_only_where_its_files_decide(
    claude: Make, monkeypatch: pytest.MonkeyPatch, system: str, state: str
) -> None:
    _, stand_in = claude("hang()")
    (stand_in.folder / "package.json").write_text('{"name": "@anthropic-ai/claude-code", "version": "2.1.332"}')
    monkeypatch.setattr("impl.providers.claude_code.ask_cli", partial(ask_cli, timeout=0.2))
    monkeypatch.setattr(sys, "platform", system)
    provider = load_provider("claude_code")
    status = await provider.preflight()
    assert (status.state, bool(status.fix)) == (state, True)
    if system == "linux":
        with pytest.raises(ProviderError, match="did not say"):
            await provider.ready()
    else:
        await provider.ready()


async def test_its_transcript_is_found_where_it_lies_or_wherever_its_id_is(claude: Make) -> None:
    body = """
root = os.environ["CLAUDE_CONFIG_DIR"] + "/projects/" + "".join(c if c.isalnum() else "-" for c in os.getcwd())
os.makedirs(root, exist_ok=True)
open(f"{root}/{ID}.jsonl", "w").write("{}")
init(); text("Hi."); result()
"""
    stage, _ = claude(body)
    await stage.run("One")
    session = stage.events("provider_session")[-1].data
    kept = Path(session["transcript"])
    assert kept.name == f"{session['native']}.jsonl"
    provider = stage.provider
    assert isinstance(provider, CliProvider)
    moved = kept.rename(kept.parent.parent / kept.name)
    turn = CliTurn("x", Path(session["directory"]), Path(session["directory"]) / "own")
    assert provider.transcript(turn, session["native"]) == moved
    assert provider.transcript(turn, "../../etc") is None
    assert json.loads(moved.read_text()) == {}
