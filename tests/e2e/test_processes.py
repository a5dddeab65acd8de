"""Several processes on one home: kill -9 in a build, hand-over, interrupt from outside, two publications at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checking import CheckingServer
from tests.harness.commands import Running, argv, environment, expecting, process

#: A command that waits for the file `go` in its workspace, so that a test decides when it ends.
WAIT = "touch begun; until [ -e go ]; do sleep 0.02; done; echo over"
FILES = """\
mkdir -p agent
printf 'schema: artificer/v1\\nname: greeter\\ndescription: Greets people.\\n' > agent/agent.yaml
printf 'You greet people.\\n' > agent/persona.md
"""


def shell(command: str) -> dict[str, Any]:
    return {"tool": "run_sandbox", "input": {"command": command}}


class Model:
    """A loopback model that plays a list of turns to whoever asks, and what it was asked."""

    def __init__(self, *turns: Any) -> None:
        self.asked: list[str] = []
        self.turns = turns
        self.checking = CheckingServer("openai_compatible", self._play)
        self.env = environment(**self.checking.environment, ARTIFICER_PROVIDER="openai_compatible")

    def _play(self, turn: int, request: Any) -> Any:
        self.asked.append(str(request["messages"]))
        return self.turns[turn] if turn < len(self.turns) else "That is all."


@pytest.fixture
def worker(home: Path, tmp_path: Path) -> str:
    """A published agent that may use its sandbox."""
    bundle = tmp_path / "worker"
    bundle.mkdir()
    manifest = "schema: artificer/v1\nname: worker\ndescription: Works.\npolicy: {run_sandbox: allow}\n"
    (bundle / "agent.yaml").write_text(manifest)
    (bundle / "persona.md").write_text("You work.\n")
    expecting(0, "save", bundle)
    expecting(0, "validate", "worker")
    expecting(0, "publish", "worker")
    return "worker"


@pytest.fixture
def waiting(home: Path, worker: str) -> Iterator[tuple[Model, Running, Path]]:
    """A run in another process, in the middle of a command; and the file that lets that command end."""
    model = Model([shell(WAIT)])
    with model.checking.server, Running("run", worker, "go", env=model.env) as run:
        session = run.event("tool_call")["session"]
        work = home / "workspaces" / session / "work"
        appears(work / "begun")
        yield model, run, work / "go"
    assert model.checking.violations == []


def appears(path: Path) -> None:
    """Wait until a file is there."""
    tick = threading.Event()
    for _ in range(1000):
        if path.exists():
            return
        tick.wait(0.02)
    raise AssertionError(f"{path} did not appear")


def session_of(run: Running) -> str:
    return str(run.read[0]["session"])


def beside(model: Model, *words: str) -> subprocess.Popen[str]:
    """A command in a third process, once it says that it follows the one that drives."""
    command = subprocess.Popen(
        argv(*words, "--json"), env=model.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stderr is not None
    assert "following it" in command.stderr.readline()
    return command


# --- kill -9 -------------------------------------------------------------------------------------------


def test_a_build_that_was_killed_is_listed_read_and_resumed_to_its_end(home: Path) -> None:
    model = Model(
        [shell("echo begun >> log; sleep 1000")],
        [shell(FILES)],
        [{"tool": "save_agent", "input": {"path": "agent"}}],
        [{"tool": "validate_agent", "input": {}}],
        "The greeter is ready.",
    )
    with model.checking.server:
        with Running("build", "-m", "An agent that greets people", env=model.env) as build:
            session = build.event("tool_call", tool="run_sandbox")["session"]
            appears(home / "workspaces" / session / "work" / "log")
            build.kill()
        row = expecting(0, "sessions").value[0]
        assert (row["id"], row["status"], row["stop"]) == (session, "interrupted", None)
        assert expecting(0, "transcript", session).value == build.read
        result = process("resume", session, env=model.env).result
    assert (result["stop"], result["agent"]) == ("completed", "greeter")
    assert (home / "workspaces" / session / "work" / "log").read_text() == "begun\n"
    assert model.checking.violations == []


def test_a_killed_session_that_is_interrupted_is_cancelled_and_whole(
    waiting: tuple[Model, Running, Path],
) -> None:
    model, run, _ = waiting
    run.kill()
    session = session_of(run)
    value = expecting(0, "interrupt", session).value
    assert (value["status"], value["stop"]) == ("stopped", "cancelled")
    kinds = [(e["kind"], e["data"].get("status")) for e in expecting(0, "transcript", session).value]
    assert ("tool_result", "unknown") in kinds
    assert kinds[-1][0] == "stop"
    assert process("resume", session, env=model.env).result["output"] == "That is all."


# --- one drives, another speaks ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("command", ["answer", "resume"])
def test_words_from_another_process_reach_the_one_that_drives(
    waiting: tuple[Model, Running, Path], command: str
) -> None:
    model, run, go = waiting
    words = ["answer", session_of(run), "and in red"] if command == "answer" else None
    other = beside(model, *(words or ["resume", session_of(run), "-m", "and in red"]))
    go.touch()
    first, second = run.end(), other.communicate(timeout=60)[0].splitlines()
    assert (first.code, other.returncode) == (0, 0)
    assert "and in red" in model.asked[-1]
    assert second[-1] == first.out.splitlines()[-1]
    assert second[0] in first.out.splitlines()


@pytest.mark.slow
def test_resume_follows_another_process_to_its_stop_and_exits_with_its_code(
    waiting: tuple[Model, Running, Path],
) -> None:
    model, run, _ = waiting
    other = beside(model, "resume", session_of(run))
    assert process("interrupt", session_of(run), env=model.env).code == 0
    assert run.end().code == 17
    other.communicate(timeout=60)
    assert other.returncode == 17


@pytest.mark.slow
@pytest.mark.parametrize("words", [["resume"], ["answer", "and in red"]], ids=["resume", "answer"])
def test_an_interrupt_ends_following_another_process_and_that_goes_on(
    waiting: tuple[Model, Running, Path], words: list[str]
) -> None:
    model, run, go = waiting
    session = session_of(run)
    other = beside(model, words[0], session, *words[1:])
    other.send_signal(signal.SIGINT)
    out, err = other.communicate(timeout=60)
    assert other.returncode == 130
    assert json.loads(out.splitlines()[-1])["code"] == "interrupted"
    assert f"artificer interrupt {session}" in err
    go.touch()
    assert run.end().code == 0


@pytest.mark.slow
def test_an_interrupt_ends_following_a_transcript_and_says_that_the_session_goes_on(
    waiting: tuple[Model, Running, Path],
) -> None:
    model, run, go = waiting
    with Running("transcript", session_of(run), "--follow", env=model.env) as follower:
        follower.event("tool_call")
        follower.send(signal.SIGINT)
        ended = follower.end()
    assert (ended.code, ended.lines[-1]["code"]) == (130, "interrupted")
    assert "it goes on" in ended.lines[-1]["message"]
    go.touch()
    assert run.end().code == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupt", "SIGINT", "SIGTERM"])
def test_a_run_that_is_stopped_ends_as_cancelled_with_its_result(
    waiting: tuple[Model, Running, Path], how: str
) -> None:
    model, run, _ = waiting
    if how == "interrupt":
        assert process("interrupt", session_of(run), env=model.env).code == 0
    else:
        run.send(signal.Signals[how])
    ran = run.end()
    assert (ran.code, ran.result["stop"]) == (17, "cancelled")
    assert [e["kind"] for e in ran.events[-2:]] == ["tool_result", "stop"]
    assert process("resume", session_of(run), env=model.env).result["stop"] == "completed"


@pytest.mark.slow
def test_a_transcript_is_followed_until_the_stop(waiting: tuple[Model, Running, Path]) -> None:
    model, run, go = waiting
    with Running("transcript", session_of(run), "--follow", env=model.env) as follower:
        follower.event("tool_call")
        go.touch()
        assert follower.end().lines == run.end().lines[:-1]


# --- two publications ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_that_publish_at_once_are_both_in_the_history_and_one_is_refused(worker: str, tmp_path: Path) -> None:
    """Both look at the head, then both move it: the second to move is refused whichever that is."""
    first = expecting(0, "agents").value[0]["live"]
    digests = []
    for words in ("One.\n", "Two.\n"):
        folder = tmp_path / words.strip(".\n")
        expecting(0, "checkout", worker, folder)
        (folder / "persona.md").write_text(words)
        digests.append(expecting(0, "save", folder).value["digest"])
        expecting(0, "validate", worker)
    code = (
        "import sys; from core import publish; from impl.compose import build_host; host = build_host(); "
        "head = host.store.channels('worker').get('live'); print('looked', flush=True); sys.stdin.readline(); "
        "publish(host.store, 'worker', sys.argv[1], by='person', now=host.now, expected=head)"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", code, digest],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for digest in digests
    ]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "looked\n"
    for one in both:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in both:
        one.communicate(timeout=60)
    rows = expecting(0, "log", worker).value[1:]
    assert {row["digest"] for row in rows} == set(digests)
    assert sorted(str(row["refused"]) for row in rows) == ["None", "stale_head"]
    live = expecting(0, "agents").value[0]["live"]
    assert live == next(row["digest"] for row in rows if row["refused"] is None) != first
