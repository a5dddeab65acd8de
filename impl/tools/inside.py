"""Runs one generated tool inside its sandbox; the host is reached over one Unix socket, by framed JSON.

Standard library only. `python3 -I inside.py DIRECTORY`: the socket is DIRECTORY/s. A frame is two big-endian lengths
of 4 bytes each, a JSON object, and bytes that belong to it (a body). What the tool prints goes to stderr's stream and
is a log, never a frame.
"""

from __future__ import annotations

import _thread
import importlib.util
import json
import os
import socket
import struct
import sys
from types import CoroutineType
from typing import Any

MAX_JSON = 4 * 1024 * 1024
MAX_BODY = 16 * 1024 * 1024
LINE = 10_000


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

    def __init__(self, frame: dict[str, Any], body: bytes) -> None:
        self.status = frame["status"]
        self.headers = dict(frame["headers"])
        self.body = body

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
            "credential": credential,
        }
        answer, content = self._link.ask(frame, bytes(body or b""))
        if "denied" in answer:
            raise EffectDenied(answer["denied"], answer.get("detail", ""))
        return Response(answer, content)


class Context:
    """`ctx`: what a tool may use. `corpus` and `scratch` are directories: corpus is read-only or None, scratch empty at
    the start of a call."""

    EffectDenied = EffectDenied

    def __init__(self, link: Link, start: dict[str, Any]) -> None:
        self.http = Http(link)
        self._link = link
        self.corpus = start.get("corpus")
        self.scratch = start.get("scratch")

    def log(self, *words: object) -> None:
        """A line for the session's log."""
        self._link.send({"kind": "log", "text": " ".join(str(word) for word in words)[:LINE]})


class Link:
    """The socket to the host. Threads of a tool may share it: they are answered one after the other."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._asking = _thread.allocate_lock()
        self._sending = _thread.allocate_lock()

    def send(self, value: Any, body: bytes = b"") -> None:
        data = _dumps(value)
        if len(data) > MAX_JSON or len(body) > MAX_BODY:
            raise ValueError(f"{len(data) + len(body)} bytes are more than a frame holds")
        with self._sending:
            self._connection.sendall(struct.pack(">II", len(data), len(body)) + data + body)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        size, more = struct.unpack(">II", self._exactly(8))
        value: dict[str, Any] = json.loads(self._exactly(size))
        return value, self._exactly(more)

    def ask(self, value: Any, body: bytes) -> tuple[dict[str, Any], bytes]:
        with self._asking:
            self.send(value, body)
            return self.receive()

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


class _NoEnvironment(Exception):
    """The tool's requirements are not installed for this Python."""


def _run(start: dict[str, Any], context: Context) -> Any:
    environment = start.get("environment")
    if environment is not None:
        tag = f"{sys.implementation.cache_tag}-{os.uname().machine}"
        packages = os.path.join(environment, tag)
        if not os.path.isdir(packages):
            raise _NoEnvironment(f"not installed for {tag}: {start.get('requirements')}")
        sys.path.insert(0, packages)
    value = _load(start["entrypoint"]).run(context, start["input"])
    if not isinstance(value, CoroutineType):
        return value
    import asyncio  # costs more than all the rest of a start

    return asyncio.run(value)


def _ending(link: Link, start: dict[str, Any]) -> dict[str, Any]:
    """Run the tool; the frame that says how that ended."""
    try:
        value = _run(start, Context(link, start))
    except _Suspended:
        os._exit(75)
    except _NoEnvironment as error:
        return {"kind": "error", "error": "environment_missing", "message": str(error)}
    except EffectDenied as error:
        return {"kind": "error", "error": "effect_denied", "reason": error.reason, "message": str(error)}
    except BaseException as error:  # noqa: BLE001 - whatever it raises ends typed
        return {"kind": "error", "error": "tool_error", **_words(error)}
    return {"kind": "result", "value": value}


def _words(error: BaseException) -> dict[str, str]:
    """An exception in words; its own may fail too."""
    import traceback

    try:
        rows = traceback.format_exception(type(error), error, error.__traceback__)
        return {"message": f"{type(error).__name__}: {error}"[:4000], "traceback": "".join(rows)[-8000:]}
    except Exception:  # noqa: BLE001 - an exception of the tool's that cannot even be shown
        return {"message": type(error).__name__, "traceback": ""}


def main() -> None:
    """Connect, take the start frame, run the tool, send its result or its failure."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.chdir(sys.argv[1])
    connection.connect("s")
    link = Link(connection)
    start, _ = link.receive()
    os.chdir(start["scratch"])
    os.dup2(2, 1)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for as long as the process lives
    ending = _ending(link, start)
    try:
        link.send(ending)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"the result is not JSON, or too much of it: {error}"[:4000]
        link.send({"kind": "error", "error": "bad_result", "message": message})
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
