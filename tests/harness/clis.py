"""Agent CLIs for tests: the real ones from the npm registry in a cache folder, stand-ins that print what a test says,
and models on loopback that they talk to."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core import Outcome, Provider, Tool
from impl.control import offer
from tests.harness.eval_driver import EvalDriver, Stage, tool
from tests.harness.servers import Asked, FakeServer, Reply, anthropic_stream, sse

CACHE = Path(os.environ.get("ARTIFICER_CLI_CACHE") or Path.home() / ".cache" / "artificer-clis")
INSTALL_S = 600

Turn = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | Reply

_ids = count(1)


# --- the real ones -------------------------------------------------------------------------------------


def installed(package: str, executable: str) -> Path:
    """The folder that holds `executable` of an npm package, installed on first use. Skips where npm is absent."""
    found = CACHE / package.replace("/", "+") / "node_modules" / ".bin"
    if (found / executable).exists():
        return found
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    root = found.parent.parent
    root.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["npm", "install", "--prefix", str(root), "--no-audit", "--no-fund", package],
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
    )
    if done.returncode:
        pytest.skip(f"npm cannot install {package}: {done.stderr[-300:]}")
    return found


# --- stand-ins -----------------------------------------------------------------------------------------

_STAND_IN = """#!{python}
import json, os, signal, subprocess, sys, time
started = {{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}}
with open({log!r}, "a") as log:
    log.write(json.dumps(started) + "\\n")
turn = len(open({log!r}).readlines())
def out(value):
    data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
    sys.stdout.buffer.write(data + (b"" if isinstance(value, bytes) else b"\\n"))
    sys.stdout.buffer.flush()
def hang():
    while True:
        time.sleep(60)
{mcp}
{body}
"""
_MCP = '''
class Server:
    """The MCP server it was given, spoken to by hand."""
    def __init__(self):
        self.process, self.id = None, 0
    def start(self, command, args, env):
        self.process = subprocess.Popen([command, *args], env={**os.environ, **env}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"})
    def send(self, method, **params):
        self.id += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        self.process.stdin.write(line.encode() + b"\\n")
        self.process.stdin.flush()
    def read(self):
        return json.loads(self.process.stdout.readline())
    def ask(self, method, **params):
        self.send(method, **params)
        return self.read()
    def call(self, name, id=None, **args):
        meta = {"_meta": {"claudecode/toolUseId": id}} if id else {}
        return self.ask("tools/call", name=name, arguments=args, **meta)["result"]
'''


class StandIn:
    """An executable of some name in a folder of its own, written by the test as the body of a Python script.

    The body may use `out(line)`, `turn` (the number of its start, from 1), `hang()` and `Server()`.
    """

    def __init__(self, folder: Path, name: str, body: str) -> None:
        self.folder = folder
        self._log = folder / f"{name}.started"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text(_STAND_IN.format(python=sys.executable, log=str(self._log), mcp=_MCP, body=body), "utf-8")
        path.chmod(0o755)

    @property
    def started(self) -> list[dict[str, Any]]:
        """How it was started each time: argv, env, cwd, pid."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text("utf-8").splitlines()]


# --- models --------------------------------------------------------------------------------------------


def using(name: str, /, **args: Any) -> dict[str, Any]:
    """A turn that calls one of our tools."""
    return {"use": name, "args": args}


def native(name: str, /, **args: Any) -> dict[str, Any]:
    """A turn that calls a tool of the CLI's own."""
    return {"use": name, "args": args, "native": True}


def refused(status: int, kind: str, message: str) -> Reply:
    """An HTTP error as both vendors send it."""
    body = {"type": "error", "error": {"type": kind, "message": message, "code": kind}}
    return Reply(json.dumps(body).encode(), status, {"content-type": "application/json"}, "length")


class Model:
    """A model on loopback that plays turns: texts, `using(...)`, lists of both, or whole replies. After the last it
    says "done". Use `url`; `requests` holds what it was asked."""

    def __init__(self, dialect: Callable[[Sequence[Any], str], bytes], path: str, turns: Sequence[Turn]) -> None:
        self._dialect = dialect
        self._path = path
        self._turns = list(turns)
        self._lock = threading.Lock()
        self.requests: list[Any] = []
        self._server = FakeServer(self._reply)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return self._server.url

    def __enter__(self) -> Model:
        self._server.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self._server.__exit__(*given)

    def bytes(self, model: str) -> bytes:
        """The next turn as it would be sent."""
        return self._dialect([self._turns.pop(0)], model)

    def _reply(self, asked: Asked) -> Reply:
        if asked.method != "POST" or not asked.path.split("?")[0].endswith(self._path):
            return Reply(b'{"data":[],"models":[]}', 200, {"content-type": "application/json"}, "length")
        with self._lock:
            self.requests.append(asked.json)
            turn: Turn = self._turns.pop(0) if self._turns else "done"
        if isinstance(turn, Reply):
            return turn
        parts = [turn] if isinstance(turn, str | Mapping) else list(turn)
        return Reply(self._dialect(parts, str(asked.json.get("model"))))


def anthropic_model(*turns: Turn) -> Model:
    """A Messages API that knows our tools under the names Claude Code gives them."""

    def dialect(parts: Sequence[Any], model: str) -> bytes:
        blocks = [p if isinstance(p, str) else _anthropic_call(p) for p in parts]
        calls = any(not isinstance(p, str) for p in parts)
        return anthropic_stream(*blocks, stop="tool_use" if calls else "end_turn", model=model)

    return Model(dialect, "/messages", turns)


def _anthropic_call(given: Mapping[str, Any]) -> dict[str, Any]:
    name = given["use"] if given.get("native") else f"mcp__artificer__{given['use']}"
    return {"tool": name, "input": given["args"], "id": f"toolu_{next(_ids):08d}"}


def responses_model(*turns: Turn) -> Model:
    """A Responses API that knows our tools under the namespace Codex gives them."""

    def dialect(parts: Sequence[Any], model: str) -> bytes:
        return responses_stream(*(p if isinstance(p, str) else _responses_call(p) for p in parts))

    return Model(dialect, "/responses", turns)


def _responses_call(given: Mapping[str, Any]) -> dict[str, Any]:
    number = next(_ids)
    call = {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": given["use"],
        "arguments": json.dumps(given["args"]),
    }
    return call if given.get("native") else {**call, "namespace": "mcp__artificer"}


def responses_stream(*items: str | Mapping[str, Any], tokens: tuple[int, int, int] = (100, 20, 10)) -> bytes:
    """A Responses API turn: texts and items as they are; `tokens` are input, of it cached, output."""
    response = {"id": "resp_1", "object": "response", "output": []}
    out: list[Any] = [{"type": "response.created", "response": {**response, "status": "in_progress"}}]
    for index, given in enumerate(items):
        text = given if isinstance(given, str) else None
        content = [{"type": "output_text", "text": text}]
        message = {"type": "message", "role": "assistant", "id": f"msg_{index}", "content": content}
        item = message if text is not None else given
        out.append({"type": "response.output_item.added", "output_index": index, "item": item})
        if text is not None:
            place = {"item_id": f"msg_{index}", "output_index": index, "content_index": 0}
            out.append({"type": "response.output_text.delta", "delta": text, **place})
        out.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {
        "input_tokens": tokens[0],
        "input_tokens_details": {"cached_tokens": tokens[1]},
        "output_tokens": tokens[2],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens[0] + tokens[2],
    }
    out.append({"type": "response.completed", "response": {**response, "status": "completed", "usage": usage}})
    return sse(*out, named=True)


# --- a session -----------------------------------------------------------------------------------------


def add_tool() -> Tool:
    """`add(a, b)`."""
    number = {"type": "number"}
    schema = {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}
    return tool("add", lambda args: str(args["a"] + args["b"]), schema, "Adds two numbers.")


class CliStage(Stage):
    """One session driven by a CLI, its tools reachable as in the product."""

    def __init__(self, home: Path, provider: Provider, *tools: Tool, session: str = "s1", **driver: Any) -> None:
        given = EvalDriver(tools=list(tools) or [add_tool()], **driver)
        super().__init__(home, provider, given, session=session)
        self.host.offer = offer

    async def run(self, task: str | None = None, **launch: Any) -> Outcome:
        """Start the session with `task`, or go on with it."""
        return await super().run(task, **launch)

    def replies(self) -> list[str]:
        """The texts of all the assistant's messages."""
        return [e.data["text"] for e in self.events("message") if e.data["role"] == "assistant"]


@contextlib.contextmanager
def environ(monkeypatch: pytest.MonkeyPatch, folder: Path, **more: str | None) -> Iterator[None]:
    """`folder` first on PATH, and these variables; None unsets."""
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        for name, value in more.items():
            if value is None:
                patch.delenv(name, raising=False)
            else:
                patch.setenv(name, value)
        yield


def alive(pid: int) -> bool:
    """Whether a process lives (a zombie does not)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False
    return text.rsplit(")", 1)[-1].split()[0] != "Z"
