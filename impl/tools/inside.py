"""Runs one generated tool inside its sandbox; the host is reached over one Unix socket, by framed JSON.

Standard library only. `python3 -I inside.py DIRECTORY`: the socket is DIRECTORY/s. A frame is a 4-byte
big-endian length and a JSON object. What the tool prints goes to stderr's stream and is a log, never a frame.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import inspect
import json
import os
import socket
import struct
import sys
import traceback
from typing import Any

MAX_FRAME = 32 * 1024 * 1024


class EffectDenied(Exception):
    """An effect was not performed; `reason` is the host's typed reason, `detail` its words."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class _Suspended(BaseException):
    """The host ends this process now and runs the tool again later; no handler of the tool's should see it."""


class Response:
    """An answer: `status`, `headers` (a dict, names lower case), `body` (bytes), `text`, `json()`."""

    def __init__(self, frame: dict[str, Any]) -> None:
        self.status = frame["status"]
        self.headers = dict(frame["headers"])
        self.body = base64.b64decode(frame["body"]) if frame["encoding"] == "base64" else frame["body"].encode()

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"Response({self.status}, {len(self.body)} bytes)"


class Http:
    """`ctx.http`: requests that the host checks, signs and performs."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def request(
        self,
        method: str,
        url: str,
        headers: Any = (),
        body: bytes | str = b"",
        json: Any = None,
        credential: str | None = None,
    ) -> Response:
        """Ask for one request. Raises EffectDenied where the host does not perform it."""
        pairs = list(headers.items()) if hasattr(headers, "items") else [tuple(pair) for pair in headers]
        if json is not None:
            body = _dumps(json)
            if not any(str(name).lower() == "content-type" for name, _ in pairs):
                pairs.append(("Content-Type", "application/json"))
        if isinstance(body, str):
            body = body.encode()
        frame = {
            "kind": "effect",
            "method": str(method),
            "url": str(url),
            "headers": [[str(name), str(value)] for name, value in pairs],
            "body": base64.b64encode(bytes(body or b"")).decode(),
            "credential": credential,
        }
        answer = self._link.ask(frame)
        if "denied" in answer:
            raise EffectDenied(answer["denied"], answer.get("detail", ""))
        return Response(answer)


class Context:
    """`ctx`: what a tool may use. `corpus` and `scratch` are directories; corpus is read-only or None."""

    EffectDenied = EffectDenied

    def __init__(self, link: Link, start: dict[str, Any]) -> None:
        self.http = Http(link)
        self._link = link
        self.corpus = start.get("corpus")
        self.scratch = start.get("scratch")

    def log(self, *words: object) -> None:
        """A line for the session's log."""
        self._link.send({"kind": "log", "text": " ".join(str(word) for word in words)[:10000]})


class Link:
    """The socket to the host."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, value: Any) -> None:
        data = _dumps(value)
        if len(data) > MAX_FRAME:
            raise ValueError(f"{len(data)} bytes are more than a frame holds")
        self._connection.sendall(struct.pack(">I", len(data)) + data)

    def receive(self) -> Any:
        (size,) = struct.unpack(">I", self._exactly(4))
        return json.loads(self._exactly(size))

    def ask(self, value: Any) -> dict[str, Any]:
        self.send(value)
        answer: dict[str, Any] = self.receive()
        if answer.get("kind") == "suspend":
            raise _Suspended
        return answer

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._connection.recv(min(size, 1 << 20))
            if not part:
                raise _Suspended
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")


def _load(path: str) -> Any:
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("artificer_tool", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["artificer_tool"] = module
    spec.loader.exec_module(module)
    return module


def _run(start: dict[str, Any], context: Context) -> Any:
    for path in reversed(start.get("path", ())):
        sys.path.insert(0, path)
    value = _load(start["entrypoint"]).run(context, start["input"])
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def main() -> None:
    """Connect, take the start frame, run the tool, send its result or its failure."""
    os.chdir(sys.argv[1])
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect("s")
    link = Link(connection)
    start = link.receive()
    os.chdir(start.get("scratch") or "/")
    os.dup2(2, 1)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for as long as the process lives
    try:
        value = _run(start, Context(link, start))
    except _Suspended:
        os._exit(75)
    except EffectDenied as error:
        link.send({"kind": "error", "error": "effect_denied", "reason": error.reason, "message": str(error)})
    except BaseException as error:  # noqa: BLE001 - whatever it raises ends typed
        rows = traceback.format_exception(type(error), error, error.__traceback__)
        words = f"{type(error).__name__}: {error}"
        link.send({"kind": "error", "error": "tool_error", "message": words[:4000], "traceback": "".join(rows)[-8000:]})
    else:
        try:
            link.send({"kind": "result", "value": value})
        except (TypeError, ValueError, RecursionError) as error:
            link.send({"kind": "error", "error": "bad_result", "message": f"the result is not JSON: {error}"[:4000]})
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
