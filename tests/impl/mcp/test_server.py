"""The MCP server that pumps a session's tools: its protocol, its patience, its end."""

from __future__ import annotations

import asyncio
import io
import json
import os
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from core import Stop, ToolSpec
from impl.control import serve
from impl.mcp.server import Call, Pump, ask_owner
from tests.harness.commands import argv, environment, expecting
from tests.harness.eval_driver import EvalDriver, Stage, make_host
from tests.harness.home import fresh_home
from tests.harness.scripted import Gate

INIT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Door:
    """Tools of a session, without a session."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, str | None]] = []
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()

    def specs(self) -> list[ToolSpec]:
        """One tool."""
        return [ToolSpec("look", "Looks.", {"type": "object"})]

    async def call(self, name: str, args: Any, id: str | None = None) -> tuple[bool, str]:
        """What was asked; `wait` never ends."""
        self.calls.append((name, args, id))
        if name == "wait":
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        return name != "fail", f"{name} ✓"


def talk(*messages: Any, ask: Any = None) -> list[dict[str, Any]]:
    """What the server answers to these lines, in any order."""
    lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
    out = io.BytesIO()
    before = threading.active_count()
    pump = Pump("s1", ask or (lambda request, call: {"ok": True, "succeeded": True, "text": request["name"]}), out)
    pump.run(io.BytesIO(b"\n".join(lines) + b"\n"))
    while threading.active_count() > before:
        threading.Event().wait(0.001)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    """One request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def test_it_says_hello_in_the_protocol_it_was_asked_for() -> None:
    (hello,) = talk(request(0, "initialize", **INIT))
    assert hello["result"]["protocolVersion"] == "2025-06-18"
    assert hello["result"]["capabilities"] == {"tools": {}}
    (other,) = talk(request(0, "initialize", protocolVersion="1999-01-01"))
    assert other["result"]["protocolVersion"] == "2025-11-25"


def test_what_it_does_not_know_is_an_error_and_notifications_have_no_answer() -> None:
    answers = talk(
        request("probe", "server/discover"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        b"not json",
        b"[1, 2]",
        request(2, "ping"),
        request(3, "tools/call"),
    )
    assert [(a["id"], a.get("error", {}).get("code")) for a in answers] == [
        ("probe", -32601),
        (None, -32700),
        (2, None),
        (3, -32602),
    ]


def test_a_call_carries_the_id_its_model_gave_it() -> None:
    seen: list[Any] = []

    def ask(request: dict[str, Any], call: Call) -> dict[str, Any]:
        seen.append(request)
        return {"ok": True, "succeeded": False, "text": "no"}

    for meta in ({"claudecode/toolUseId": "toolu_1"}, {"callId": "call_1"}, {}):
        answers = talk(request(1, "tools/call", name="look", arguments={"a": 1}, _meta=meta), ask=ask)
        assert answers[0]["result"] == {"content": [{"type": "text", "text": "no"}], "isError": True}
    assert [r["id"] for r in seen] == ["toolu_1", "call_1", None]
    assert seen[0] | {"id": None} == {"op": "call", "session": "s1", "name": "look", "args": {"a": 1}, "id": None}


def test_where_nobody_drives_the_model_is_told_to_stop(tmp_path: Path) -> None:
    answer = ask_owner(str(tmp_path / "nobody"), {"op": "tools"}, Call())
    assert answer["ok"] is False
    assert "does not answer" in answer["message"]


async def test_the_owners_socket_lists_and_runs_tools_and_is_the_persons_alone(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    door = Door()
    host.doors["s1"] = door  # type: ignore[assignment]
    server = await serve(host)
    path = str(host.store.own_socket())
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600

    async def ask(**given: Any) -> dict[str, Any]:
        return await asyncio.to_thread(ask_owner, path, given, Call())

    listed = await ask(op="tools", session="s1")
    assert listed["tools"] == [{"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}]
    assert await ask(op="call", session="s1", name="look", args={"a": 1}, id="x") == {
        "ok": True,
        "succeeded": True,
        "text": "look ✓",
    }
    assert (await ask(op="call", session="s1", name="fail", args={}))["succeeded"] is False
    assert door.calls[0] == ("look", {"a": 1}, "x")
    assert (await ask(op="call", session="other", name="look"))["ok"] is False
    assert (await ask(op="interrupt", session="s1"))["ok"] is False
    server.close()


async def test_hanging_up_on_a_call_cancels_it(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    door = Door()
    host.doors["s1"] = door  # type: ignore[assignment]
    server = await serve(host)
    path, call = str(host.store.own_socket()), Call()
    request = {"op": "call", "session": "s1", "name": "wait", "args": {}}
    asking = asyncio.create_task(asyncio.to_thread(ask_owner, path, request, call))
    await door.waiting.wait()
    call.cancel()
    await door.cancelled.wait()
    assert (await asking)["ok"] is False
    server.close()


def test_the_command_for_a_session_nobody_drives_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fresh_home(tmp_path, monkeypatch)
    expecting(0, "sessions")
    done = subprocess.run(argv("mcp", "--session", "nothing"), env=environment(), capture_output=True, text=True)
    assert done.returncode == 1
    assert "There is no session nothing" in done.stderr
    assert home.exists()


async def test_the_command_finds_the_process_that_drives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fresh_home(tmp_path, monkeypatch)
    gate = Gate()
    stage = Stage(home, [["Hm", gate]], EvalDriver())
    task = stage.begin("Hi")
    await gate.reached.wait()
    stage.host.doors["s1"] = Door()  # type: ignore[assignment]
    server = await serve(stage.host)
    process = await asyncio.create_subprocess_exec(
        *argv("mcp", "--session", "s"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    asked = b"\n".join(json.dumps(m).encode() for m in (request(0, "initialize", **INIT), request(1, "tools/list")))
    out, _ = await process.communicate(asked + b"\n")
    hello, tools = (json.loads(line) for line in out.splitlines())
    assert hello["result"]["serverInfo"]["name"] == "artificer"
    assert [t["name"] for t in tools["result"]["tools"]] == ["look"]
    assert process.returncode == 0
    gate.release()
    assert (await task).stop is Stop.COMPLETED
    server.close()
