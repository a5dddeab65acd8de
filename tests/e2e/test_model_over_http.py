"""Runs against a loopback model that checks every request: history, prefix, doom loops, resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checking import CheckingServer
from tests.harness.servers import HOLD, Reply, anthropic_events, openai_chunks, sse

#: Each command of the first API imports its SDK, so that half is for the slow lane.
APIS = (pytest.param("anthropic", marks=pytest.mark.slow), "openai_compatible")
Command = Callable[..., subprocess.CompletedProcess[str]]

AGENT = """\
schema: artificer/v1
name: worker
description: Works in its sandbox.
policy:
  run_sandbox: allow
"""


class World:
    """A home with one published agent that may use its sandbox, and a way to run commands on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment: dict[str, str] = {}
        bundle = home.parent / "worker"
        bundle.mkdir()
        (bundle / "agent.yaml").write_text(AGENT)
        (bundle / "persona.md").write_text("You work.\n")
        self.run("save", str(bundle))
        self.run("validate", "worker")
        self.run("publish", "worker")

    def command(self, *words: str) -> list[str]:
        """The argument vector of one command."""
        return [sys.executable, "-P", "-m", "tui.cli", *words]

    @property
    def env(self) -> dict[str, str]:
        """The environment of commands: this home, and the server's variables."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ARTIFICER_", "OPENAI_", "ANTHROPIC_"))}
        return {**kept, "ARTIFICER_HOME": str(self.home), **self.environment}

    def run(self, *words: str, code: int | None = 0) -> list[dict[str, Any]]:
        """Run a command with --json; returns its lines."""
        done = subprocess.run(self.command(*words, "--json"), env=self.env, capture_output=True, text=True, timeout=100)
        assert code is None or done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command with --json; read its lines from stdout."""
        return subprocess.Popen(self.command(*words, "--json"), env=self.env, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A fresh home."""
    return World(tmp_path / "home")


def shell(command: str, call: str | None = None) -> dict[str, Any]:
    """A call of run_sandbox."""
    return {"tool": "run_sandbox", "input": {"command": command}, **({"id": call} if call else {})}


def serve(world: World, api: str, script: Any, **more: Any) -> CheckingServer:
    """A checking server that the world's commands reach."""
    checking = CheckingServer(api, script, **more)
    world.environment = {**checking.environment, "ARTIFICER_PROVIDER": api}
    return checking


def wait_for(process: subprocess.Popen[str], fits: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    """Read lines until one fits."""
    assert process.stdout is not None
    for line in process.stdout:
        value: dict[str, Any] = json.loads(line)
        if fits(value):
            return value
    raise AssertionError("the process ended without it")


def kind(name: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a line is an event of this kind."""
    return lambda line: line.get("kind") == name


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    """Each API."""
    return str(request.param)


def test_parallel_calls_bad_json_and_unknown_tools_keep_the_history_valid(world: World, api: str) -> None:
    broken = {
        "tool_calls": [{"index": 0, "id": "c9", "function": {"name": "run_sandbox", "arguments": '{"command": '}}]
    }

    def script(turn: int, request: Any) -> Any:
        if turn == 0:
            return ["I look.", shell("echo one", "a"), shell("echo two", "b"), {"tool": "nope", "input": {}, "id": "c"}]
        if turn == 1:
            if api == "anthropic":
                return [{"tool": "run_sandbox", "input": {"cmd": 1}, "id": "d"}]
            return Reply(sse(*openai_chunks(broken, finish="tool_calls")))
        return "All done."

    checking = serve(world, api, script)
    with checking.server:
        result = world.run("run", "worker", "go")[-1]
    assert checking.violations == []
    assert (result["stop"], result["output"]) == ("completed", "All done.")
    results = [e["data"] for e in world.run("transcript", result["session"])[0] if e["kind"] == "tool_result"]
    assert [r["ok"] for r in results] == [True, True, False, False]


def test_a_truncated_answer_is_continued_and_its_cut_call_never_runs(world: World, api: str) -> None:
    cut_call = '{"command": "touch ran'

    def script(turn: int, request: Any) -> Any:
        if turn == 0:
            if api == "anthropic":
                events = anthropic_events("Half a", {"tool": "run_sandbox", "input": {}, "id": "x"}, stop="max_tokens")
                events[5]["delta"] = {"type": "input_json_delta", "partial_json": cut_call}
                return Reply(sse(*events, named=True))
            call = {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "run_sandbox", "arguments": cut_call}}]}
            return Reply(sse(*openai_chunks("Half a", call, finish="length")))
        if turn == 1:
            finish = {"stop": "max_tokens"} if api == "anthropic" else {"finish": "length"}
            events = anthropic_events("One. ", **finish) if api == "anthropic" else openai_chunks("One. ", **finish)
            return Reply(sse(*events, named=api == "anthropic"))
        return "Two."

    checking = serve(world, api, script)
    with checking.server:
        result = world.run("run", "worker", "go")[-1]
    assert checking.violations == []
    assert result["output"] == "One. Two."
    assert not list(world.home.glob("workspaces/*/work/ran*"))


def test_a_cancel_in_mid_stream_leaves_a_session_that_goes_on(world: World, api: str) -> None:
    def script(turn: int, request: Any) -> Any:
        if turn == 0:
            events = (
                anthropic_events("A long answer begins")
                if api == "anthropic"
                else openai_chunks("A long answer begins")
            )
            return Reply([sse(*events[:3], named=api == "anthropic"), HOLD])
        return "Done."

    checking = serve(world, api, script)
    with checking.server:
        process = world.start("run", "worker", "go", "--stream")
        session = wait_for(process, kind("draft"))["session"]
        process.send_signal(signal.SIGINT)
        result = wait_for(process, lambda line: line["type"] == "result")
        assert (result["stop"], process.wait(20)) == ("cancelled", 17)
        final = world.run("resume", session)[-1]
    assert checking.violations == []
    assert (final["stop"], final["output"]) == ("completed", "Done.")


def test_a_crash_between_intent_and_result_is_an_unknown_outcome_and_never_runs_again(world: World, api: str) -> None:
    def script(turn: int, request: Any) -> Any:
        return [shell("echo x >> ran; sleep 1000", "a")] if turn == 0 else "I looked."

    checking = serve(world, api, script)
    with checking.server:
        process = world.start("run", "worker", "go")
        session = wait_for(process, kind("tool_call"))["session"]
        ran = world.home / "workspaces" / session / "work" / "ran"
        deadline = time.monotonic() + 20
        while not ran.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.wait()
        assert world.run("sessions")[0][-1]["status"] == "interrupted"
        result = world.run("resume", session)[-1]
    assert checking.violations == []
    assert result["output"] == "I looked."
    assert ran.read_text() == "x\n"
    results = [e["data"] for e in world.run("transcript", session)[0] if e["kind"] == "tool_result"]
    assert [r["status"] for r in results] == ["unknown"]


def test_compaction_and_a_model_switch_keep_the_history_valid(world: World, api: str) -> None:
    def script(turn: int, request: Any) -> Any:
        return [shell(f"seq {turn * 1000} {turn * 1000 + 400}", f"c{turn}")] if turn < 12 else "Done."

    checking = serve(world, api, script)
    world.environment["ARTIFICER_CONTEXT_WINDOW"] = "6000"
    with checking.server:
        result = world.run("run", "worker", "go", "--model", "small-one")[-1]
        assert (result["stop"], result["output"]) == ("completed", "Done.")
        assert checking.compactions >= 1
        again = world.run("resume", result["session"], "-m", "and now?", "--model", "other-one")[-1]
    assert checking.violations == []
    assert again["output"] == "Done."


def test_the_same_failure_with_drifting_timestamps_is_a_doom_loop_with_evidence(world: World, api: str) -> None:
    def script(turn: int, request: Any) -> Any:
        return [shell("date +%FT%T.%N; echo 'connect to box port 22: Connection refused' >&2; exit 7", f"c{turn}")]

    checking = serve(world, api, script)
    with checking.server:
        result = world.run("run", "worker", "go", code=14)[-1]
        assert result["stop"] == "doom_loop"
        assert result["waiting"]["kind"] == "doom_loop"
        assert "Connection refused" in result["evidence"]["failure"]
        assert result["evidence"]["count"] >= 3
        asked = checking.turns
        hinted = world.run("answer", result["session"], "hint try another host", code=14)[-1]
    assert checking.violations == []
    assert hinted["stop"] == "doom_loop"
    assert checking.turns - asked >= 3, "after a hint fresh evidence is demanded"


def test_real_progress_and_a_poll_with_changing_output_never_stop(world: World, api: str) -> None:
    def script(turn: int, request: Any) -> Any:
        if turn < 25:
            return [
                shell(
                    f"echo step {turn} > f{turn}; echo build at $(( {turn} * 4 ))%; exit $(( {turn} % 2 ))", f"c{turn}"
                )
            ]
        return "Done."

    checking = serve(world, api, script)
    with checking.server:
        result = world.run("run", "worker", "go")[-1]
    assert checking.violations == []
    assert result["output"] == "Done."
