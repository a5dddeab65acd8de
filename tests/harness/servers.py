"""A loopback HTTP server that sends exactly the bytes a test gives it, and records what it was asked.

    with FakeServer([Reply(anthropic_stream("Hello"))]) as server:
        ...                      # ask server.url
    server.requests[0].json      # what was asked

A body may be cut anywhere: `Reply([b"da", 0.05, b"ta: ...", HOLD])` sends two pieces 50 ms apart, then
waits for the client to go away and sets `request.gone`.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal


class _Hold:
    """In a body: wait until the client closes the connection, then set `request.gone`."""


HOLD: Final = _Hold()

Piece = bytes | float | threading.Event | _Hold


@dataclass(slots=True)
class Reply:
    """One response. `body` is bytes, or pieces of them with pauses in seconds, events to wait for, HOLD.

    `framing`: `chunked`, `length` (Content-Length), or `close` (the end of the connection ends the body).
    `cut` drops the connection after the body without ending it; `reset` does so with a TCP reset.
    """

    body: bytes | Sequence[Piece] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    framing: Literal["chunked", "length", "close"] = "chunked"
    cut: bool = False
    reset: bool = False


@dataclass(slots=True)
class Asked:
    """One recorded request; header names are lower case. `gone` is set once its client hung up on a HOLD."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    gone: threading.Event = field(default_factory=threading.Event)

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


Script = Iterable[Reply] | Callable[[Asked], Reply]


class FakeServer:
    """Serves `script` on a free port: replies in order of requests (the last one again and again once they
    run out), or what a function gives for each. One thread a connection; keep-alive is honoured."""

    def __init__(self, script: Script) -> None:
        self._handler = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._next = 0
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.requests: list[Asked] = []
        self.connections = 0

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeServer:
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Shut before closed: a thread that still accepts would take the next server's clients, under the same
        # file descriptor, and answer them with this one's replies.
        _shut(self._socket)
        self._accepting.join()
        self._socket.close()
        with self._lock:
            for connection in self._open:
                _shut(connection)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection, connection.makefile("rb") as reader:
                while (asked := _read(reader)) is not None:
                    reply = self._reply(asked)
                    if not _send(connection, reply, asked):
                        return
        except OSError:
            return
        finally:
            with self._lock:
                self._open.discard(connection)

    def _reply(self, asked: Asked) -> Reply:
        with self._lock:
            self.requests.append(asked)
            if self._handler is None:
                reply = self._replies[min(self._next, len(self._replies) - 1)]
                self._next += 1
                return reply
        return self._handler(asked)


def _read(reader: Any) -> Asked | None:
    line = reader.readline().decode("latin-1").split()
    if len(line) < 2:
        return None
    headers: dict[str, str] = {}
    while (raw := reader.readline().decode("latin-1").strip()) != "":
        name, _, value = raw.partition(":")
        headers[name.lower()] = value.strip()
    size = int(headers.get("content-length", "0"))
    body = reader.read(size)
    return Asked(line[0], line[1], headers, body) if len(body) == size else None  # whoever asked died over it


def _send(connection: socket.socket, reply: Reply, asked: Asked) -> bool:
    """Send it; returns whether the connection may be used again."""
    pieces: Sequence[Piece] = [reply.body] if isinstance(reply.body, bytes) else reply.body
    headers = dict(reply.headers)
    match reply.framing:
        case "chunked":
            headers["transfer-encoding"] = "chunked"
        case "length":
            headers["content-length"] = str(sum(len(p) for p in pieces if isinstance(p, bytes)) + reply.cut)
        case "close":
            headers["connection"] = "close"
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.sendall(f"HTTP/1.1 {reply.status} Status\r\n{head}\r\n".encode("latin-1"))
    for piece in pieces:
        match piece:
            case bytes():
                _write(connection, piece, chunked=reply.framing == "chunked")
            case threading.Event():
                piece.wait(30)
            case _Hold():
                _await_close(connection, asked)
                return False
            case _:
                threading.Event().wait(piece)
    if reply.reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
    if reply.framing == "chunked" and not reply.cut:
        connection.sendall(b"0\r\n\r\n")
    return reply.framing != "close" and not reply.cut


def _write(connection: socket.socket, data: bytes, *, chunked: bool) -> None:
    if chunked and data:
        data = f"{len(data):x}\r\n".encode() + data + b"\r\n"
    connection.sendall(data)


def _await_close(connection: socket.socket, asked: Asked) -> None:
    connection.settimeout(30)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return
    except OSError:
        pass
    asked.gone.set()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


# --- recorded forms ------------------------------------------------------------------------------------


def sse(*events: object, named: bool = False) -> bytes:
    """Events as a server sends them: strings as they are, all else as JSON; `named` adds `event:` lines."""
    out: list[str] = []
    for event in events:
        if named and isinstance(event, dict):
            out.append(f"event: {event['type']}\n")
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        out.append(f"data: {data}\n\n")
    return "".join(out).encode("utf-8", "surrogatepass")


def anthropic_events(
    *blocks: str | Mapping[str, Any],
    stop: str = "end_turn",
    model: str = "claude-sonnet-5-5",
    usage: Mapping[str, int] | None = None,
) -> list[dict[str, Any]]:
    """The events of a Messages API turn. A string is a text block; `{"tool": name, "input": {...}}` (with an
    optional `id`) a tool call; `{"thinking": text, "signature": s}` thinking; any other mapping is sent as
    it is in content_block_start."""
    counts = {"input_tokens": 12, "output_tokens": 1, **(usage or {})}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    out: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "usage": counts}}]
    for index, block in enumerate(blocks):
        out.append({"type": "content_block_start", "index": index, "content_block": _start(block, index)})
        for delta in _deltas(block):
            out.append({"type": "content_block_delta", "index": index, "delta": delta})
        out.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    out.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    out.append({"type": "message_stop"})
    return out


def anthropic_stream(*blocks: str | Mapping[str, Any], **options: Any) -> bytes:
    """`anthropic_events` as bytes."""
    return sse(*anthropic_events(*blocks, **options), named=True)


def _start(block: str | Mapping[str, Any], index: int) -> Mapping[str, Any]:
    if isinstance(block, str):
        return {"type": "text", "text": ""}
    if "tool" in block:
        call_id = block.get("id", f"toolu_{index}")
        return {"type": "tool_use", "id": call_id, "name": block["tool"], "input": {}}
    if "thinking" in block:
        return {"type": "thinking", "thinking": "", "signature": ""}
    return block


def _deltas(block: str | Mapping[str, Any]) -> list[dict[str, Any]]:
    if isinstance(block, str):
        return [{"type": "text_delta", "text": piece} for piece in _halves(block)]
    if "tool" in block:
        raw = json.dumps(block["input"], ensure_ascii=False)
        return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_halves(raw))]
    if "thinking" in block:
        thought = [{"type": "thinking_delta", "thinking": piece} for piece in _halves(block["thinking"])]
        return [*thought, {"type": "signature_delta", "signature": block.get("signature", "sig")}]
    return []


def openai_chunks(
    *parts: str | Mapping[str, Any],
    finish: str | None = None,
    model: str = "gpt-test",
    usage: Mapping[str, Any] | None = None,
) -> list[Any]:
    """The events of a chat completion, `[DONE]` last. A string is content; `{"tool": name, "input": {...}}`
    (with an optional `id`) a tool call; any other mapping is sent as it is as a delta."""
    deltas: list[Mapping[str, Any]] = [{"role": "assistant", "content": ""}]
    calls = 0
    for part in parts:
        if isinstance(part, str):
            deltas += [{"content": piece} for piece in _halves(part)]
        elif "tool" in part:
            deltas += _call_deltas(part, calls)
            calls += 1
        else:
            deltas.append(part)
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    out: list[Any] = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = finish or ("tool_calls" if calls else "stop")
    out.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
    counts = usage or {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
    out.append({**base, "choices": [], "usage": counts})
    return [*out, "[DONE]"]


def openai_stream(*parts: str | Mapping[str, Any], **options: Any) -> bytes:
    """`openai_chunks` as bytes."""
    return sse(*openai_chunks(*parts, **options))


def _call_deltas(part: Mapping[str, Any], index: int) -> list[Mapping[str, Any]]:
    head = {"name": part["tool"], "arguments": ""}
    call_id = part.get("id", f"call_{index}")
    first = {"index": index, "id": call_id, "type": "function", "function": head}
    pieces = _halves(json.dumps(part["input"], ensure_ascii=False))
    deltas = [first, *({"index": index, "function": {"arguments": piece}} for piece in pieces)]
    return [{"tool_calls": [delta]} for delta in deltas]


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]
