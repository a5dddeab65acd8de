"""Stand-ins for the agent CLIs: scripts that print the lines the real ones were seen to print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core import Deadlines
from impl.providers import load_provider
from impl.providers.claude_code import ClaudeCodeProvider
from impl.providers.codex import CodexProvider
from tests.harness.clis import CliStage, StandIn

CLAUDE = '''
args = sys.argv[1:]
def arg(name):
    return args[args.index(name) + 1] if name in args else None
prompt = args[args.index("--") + 1] if "--" in args else sys.stdin.read()
ID = "forked-id" if "--fork-session" in args else arg("--session-id") or arg("--resume")
def init(**more):
    out({"type": "system", "subtype": "init", "session_id": ID, "model": "claude-sonnet-5-5", "tools": [], **more})
def frame(kind, content, **more):
    message = {"id": "msg_1", "role": kind, "model": "claude-sonnet-5-5", "content": content}
    out({"message": message, "parent_tool_use_id": None, "session_id": ID, "type": kind, **more})
def stream(event):
    out({"type": "stream_event", "event": event, "session_id": ID, "parent_tool_use_id": None})
def text(words):
    stream({"type": "message_start", "message": {"usage": {"input_tokens": 12, "output_tokens": 1}}})
    stream({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}})
    frame("assistant", [{"type": "text", "text": words}])
    stream({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}})
def use(id, name, **input):
    frame("assistant", [{"type": "tool_use", "id": id, "name": name, "input": input}])
def used(id, words, **more):
    frame("user", [{"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": words}], **more}])
def tool(id, name, **input):
    """A whole call of one of our tools: the frame, the call over MCP, the frame of its result."""
    global server
    if server is None:
        given = json.load(open(arg("--mcp-config")))["mcpServers"]["artificer"]
        server = Server()
        server.start(given["command"], given["args"], given["env"])
    use(id, "mcp__artificer__" + name, **input)
    words = server.call(name, id, **input)["content"][0]["text"]
    used(id, words)
    return words
server = None
def cost(usd, basis="list", cached=0):
    return {"claude-sonnet-5-5": {"inputTokens": 12, "outputTokens": 7, "cacheReadInputTokens": cached,
                                  "cacheCreationInputTokens": 0, "costUSD": usd, "costBasis": basis}}
def result(words="", usd=0.01, total=None, **more):
    out({"total_cost_usd": total or usd, "session_id": ID, "is_error": False, "num_turns": 1, "subtype": "success",
         "result": words, "stop_reason": "end_turn", "type": "result", "terminal_reason": "completed",
         "model_usage_since_last_result": cost(usd), **more})
'''

CODEX = '''
args = sys.argv[1:]
prompt = args[-1] if args[-1] != "-" else sys.stdin.read()
mode = args[1] if args[1] in ("resume", "fork") else "fresh"
ID = {"fresh": "thread-1", "resume": args[2], "fork": "thread-2"}[mode]
def init():
    out({"type": "thread.started", "thread_id": ID})
    out({"type": "turn.started"})
def item(kind, id, type, **more):
    out({"type": "item." + kind, "item": {"id": id, "type": type, **more}})
def text(words):
    item("completed", "item_0", "agent_message", text=words)
def done(input=100, output=10, cached=20):
    out({"type": "turn.completed", "usage": {"input_tokens": input, "cached_input_tokens": cached,
         "cache_write_input_tokens": 0, "output_tokens": output, "reasoning_output_tokens": 0}})
def tool(id, name, **arguments):
    """A whole call of one of our tools: the item, the call over MCP, the item completed."""
    import tomllib
    given = next(a for a in args if a.startswith("mcp_servers="))
    given = tomllib.loads(given)["mcp_servers"]["artificer"]
    server = Server()
    server.start(given["command"], given["args"], given["env"])
    call = dict(server="artificer", tool=name, arguments=arguments)
    item("started", id, "mcp_tool_call", **call, status="in_progress", result=None, error=None)
    content = server.call(name, **arguments)["content"]
    item("completed", id, "mcp_tool_call", **call, status="completed", result={"content": content}, error=None)
    return content[0]["text"]
'''

Make = Callable[..., tuple[CliStage, StandIn]]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short deadlines."""
    for kind in (ClaudeCodeProvider, CodexProvider):
        monkeypatch.setattr(kind, "deadlines", Deadlines(silent=1.0, linger=0.3, interrupt=0.5))


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A session driven by a stand-in for Claude Code whose turns are this script."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    return _maker(tmp_path, monkeypatch, "claude_code:api", "claude", CLAUDE)


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A session driven by a stand-in for Codex whose turns are this script."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return _maker(tmp_path, monkeypatch, "codex:api", "codex", CODEX)


def _maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, executable: str, shapes: str) -> Make:
    def make(body: str, *tools: object, session: str = "s1", **driver: object) -> tuple[CliStage, StandIn]:
        stand_in = StandIn(tmp_path / "bin", executable, shapes + body)
        monkeypatch.setenv("PATH", f"{stand_in.folder}:/usr/bin:/bin")
        monkeypatch.setenv("HOME", str(tmp_path / "person"))
        for variable in ("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CODEX_HOME"):
            monkeypatch.delenv(variable, raising=False)
        return CliStage(tmp_path / "home", load_provider(name), *tools, session=session, **driver), stand_in  # type: ignore[arg-type]

    return make
