"""`artificer mcp --session ID`: a stdio MCP server that pumps a session's tool calls to the process that drives it.

It speaks the few methods a client of tools needs, by hand: it starts with every turn of an agent CLI, which waits
for it, and the SDK alone takes longer to import than the whole of this to answer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

PROTOCOLS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
SERVER: Final = {"name": "artificer", "version": "1"}
_ID_KEYS: Final = ("claudecode/toolUseId", "callId")
"""Where clients put the id that their model gave the call."""
_NO_METHOD, _BAD_PARAMS, _BAD_JSON = -32601, -32602, -32700

Ask = Callable[[dict[str, Any], "Call"], dict[str, Any]]


class Call:
    """A call under way; `cancel` hangs up on the owner, which ends the tool."""

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._cancelled = False
        self._lock = threading.Lock()

    def on(self, link: socket.socket) -> bool:
        """It is on this connection; false where it was cancelled before."""
        with self._lock:
            self._link = link
            return not self._cancelled

    def cancel(self) -> None:
        """End it."""
        with self._lock:
            self._cancelled = True
            if self._link is not None:
                try:
                    self._link.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return


def ask_owner(path: str, request: dict[str, Any], call: Call) -> dict[str, Any]:
    """One request to the owner's socket. A tool may take any time. `ok` is false where nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(path)
            if not call.on(link):
                return {"ok": False, "message": "cancelled"}
            link.sendall(json.dumps(request).encode() + b"\n")
            reply = json.loads(link.makefile("rb").readline())
    except (OSError, ValueError):
        return {"ok": False, "message": "The process that drives this session does not answer. Stop here."}
    return reply if isinstance(reply, dict) else {"ok": False, "message": "not an answer"}


class Pump:
    """Reads JSON-RPC from one stream and answers on another; each tool call has its own thread."""

    def __init__(self, session: str, ask: Ask, out: IO[bytes]) -> None:
        self._session = session
        self._ask = ask
        self._out = out
        self._lock = threading.Lock()
        self._calls: dict[str, Call] = {}

    def run(self, lines: IO[bytes]) -> None:
        """Serve until the client closes its end; then end what runs."""
        for line in lines:
            if line.strip():
                self._line(line)
        for call in list(self._calls.values()):
            call.cancel()

    def _line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self._send({"id": None, "error": {"code": _BAD_JSON, "message": "not JSON"}})
            return
        if not isinstance(message, dict):
            return
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        method, id = message.get("method"), message.get("id")
        if method == "notifications/cancelled":
            call = self._calls.get(_key((params or {}).get("requestId")))
            if call is not None:
                call.cancel()
        elif id is not None and method is not None:
            self._request(str(method), id, params or {})

    def _request(self, method: str, id: Any, params: Mapping[str, Any]) -> None:
        match method:
            case "initialize":
                self._result(id, self._hello(params))
            case "ping":
                self._result(id, {})
            case "tools/list":
                reply = self._ask({"op": "tools", "session": self._session}, Call())
                self._result(id, {"tools": reply.get("tools", [])})
            case "tools/call" if isinstance(params.get("name"), str):
                call = self._calls[_key(id)] = Call()
                threading.Thread(target=self._call, args=(id, dict(params), call), daemon=True).start()
            case "tools/call":
                self._send({"id": id, "error": {"code": _BAD_PARAMS, "message": "a call names its tool"}})
            case _:
                self._send({"id": id, "error": {"code": _NO_METHOD, "message": f"no method {method}"}})

    def _hello(self, params: Mapping[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        version = asked if asked in PROTOCOLS else PROTOCOLS[-1]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": SERVER}

    def _call(self, id: Any, params: dict[str, Any], call: Call) -> None:
        meta = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        ids = (meta.get(key) for key in _ID_KEYS)
        request = {
            "op": "call",
            "session": self._session,
            "name": params["name"],
            "args": params.get("arguments") or {},
            "id": next((value for value in ids if isinstance(value, str)), None),
        }
        reply = self._ask(request, call)
        self._calls.pop(_key(id), None)
        ok = bool(reply.get("ok")) and bool(reply.get("succeeded"))
        text = str(reply.get("text") if reply.get("ok") else reply.get("message"))
        self._result(id, {"content": [{"type": "text", "text": text}], "isError": not ok})

    def _result(self, id: Any, result: dict[str, Any]) -> None:
        self._send({"id": id, "result": result})

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._lock:
            try:
                self._out.write(data)
                self._out.flush()
            except BrokenPipeError:
                return


def _key(id: Any) -> str:
    return json.dumps(id)


def die_with_owner(path: str) -> None:
    """End the CLI that started this process, and this process, once the owner is dead: a CLI that nobody watches
    spends money. Blocks for as long as the owner lives."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(path)
            link.sendall(b'{"op":"watch"}\n')
            link.recv(1)
    except OSError:
        pass  # it was dead already
    client = os.getppid()
    if client > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(client, signal.SIGTERM)
    os._exit(1)


def pump(session: str, path: str) -> None:
    """Serve `session` on this process's standard streams, through the owner's socket at `path`."""
    Pump(session, lambda request, call: ask_owner(path, request, call), sys.stdout.buffer).run(sys.stdin.buffer)


def main() -> None:
    """Entry point of the process that an agent CLI starts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--die-with-owner", action="store_true")
    given = parser.parse_args()
    if given.die_with_owner:
        threading.Thread(target=die_with_owner, args=(given.socket,), daemon=True).start()
    pump(given.session, given.socket)


if __name__ == "__main__":
    main()
