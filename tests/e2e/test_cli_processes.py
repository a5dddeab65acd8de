"""An agent CLI under a command: driven to its end, interrupted, orphaned; a stand-in plays it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.harness.clis import StandIn, alive
from tests.harness.commands import Running, environment, expecting

SHAPES = """
import tomllib
given = next(a for a in sys.argv if a.startswith("mcp_servers="))
given = tomllib.loads(given)["mcp_servers"]["artificer"]
server = Server()
server.start(given["command"], given["args"], given["env"])
out({"type": "thread.started", "thread_id": "t1"})
def text(words):
    out({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": words}})
"""
DONE = 'out({"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 1}})\n'


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> StandIn:
    """Codex, as far as this script plays it."""
    made = StandIn(tmp_path / "bin", "codex", SHAPES + body)
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return made


def test_a_published_agent_runs_on_a_cli_with_its_own_tools(
    docs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = 'found = server.call("list_corpus")["content"][0]["text"]; text(found[:40]); ' + DONE
    stand_in(tmp_path, monkeypatch, body)
    ran = expecting(0, "run", docs, "List", "--provider", "codex:api", "--model", "gpt-5")
    assert ran.result["stop"] == "completed"
    assert "documents" in ran.result["output"]
    assert ran.result["usage"] == {"input_tokens": 9, "output_tokens": 1, "cached_tokens": 0, "requests": 1}
    (row,) = [r for r in expecting(0, "sessions").value if r["id"] == ran.result["session"]]
    assert (row["provider"], row["model"]) == ("codex:api", "gpt-5")
    again = expecting(0, "resume", ran.result["session"], "-m", "More")
    assert again.result["stop"] == "completed"


def test_sigint_ends_the_cli_and_gives_the_result(docs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = stand_in(tmp_path, monkeypatch, 'text("Hm"); server.call("list_corpus"); hang()')
    with Running("run", docs, "List", "--provider", "codex:api", env=environment()) as running:
        running.event("tool_result")
        running.send(signal.SIGINT)
        ran = running.end()
    assert (ran.code, ran.result["stop"]) == (17, "cancelled")
    assert not alive(made.started[0]["pid"])


def test_a_cli_does_not_outlive_a_killed_owner(docs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = stand_in(tmp_path, monkeypatch, 'text("Hm"); server.call("list_corpus"); hang()')
    with Running("run", docs, "List", "--provider", "codex:api", env=environment()) as running:
        session = running.event("tool_result")["session"]
        running.kill()
    pid = made.started[0]["pid"]
    while alive(pid):
        os.sched_yield()
    (row,) = [r for r in expecting(0, "sessions").value if r["id"] == session]
    assert row["status"] == "interrupted"
