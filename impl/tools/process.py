"""One run of a generated tool: its process in the sandbox, the socket it speaks on, and a typed ending."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core import Broker, Denied, EffectRequest, NeedsCredential, Workspace

MAX_FRAME: Final = 32 * 1024 * 1024
LINK: Final = ".link"
RUNNER: Final = "inside.py"


@dataclass(frozen=True, slots=True)
class ToolRun:
    """How a run ended: `value` of a result, else `error` from a closed set (`tool_error`, `bad_result`,
    `effect_denied`, `tool_timeout`, `tool_crashed`, `protocol`) with `message`; `needs` names a credential
    that has no value, or none that can be read now, as `message` then says; `printed` is what it
    wrote to its output."""

    value: Any = None
    error: str | None = None
    message: str = ""
    reason: str | None = None
    needs: str | None = None
    printed: str = ""


async def run_tool(
    workspace: Workspace,
    *,
    entrypoint: str,
    input: Mapping[str, Any],
    broker: Broker,
    log: Callable[[str], None],
    timeout: float,
    corpus: str | None = None,
    path: tuple[str, ...] = (),
) -> ToolRun:
    """Run a tool whose files lie in `workspace`; `entrypoint` is relative to its directory.

    `workspace` has no network. Raises SandboxUnavailable.
    """
    root = workspace.path
    inside = str(root) if workspace.unsafe else "/work"
    start = {
        "entrypoint": f"{inside}/{entrypoint}",
        "input": dict(input),
        "corpus": corpus,
        "scratch": f"{inside}/scratch",
        "path": list(path),
    }
    conversation = _Conversation(broker, log, start)
    async with _listening(root / LINK, conversation.serve):
        command = f"exec python3 -I -B {_quoted(f'{inside}/{RUNNER}')} {_quoted(f'{inside}/{LINK}')}"
        running = asyncio.ensure_future(workspace.run(command, timeout=timeout, cap=200_000))
        suspended = asyncio.ensure_future(conversation.suspended.wait())
        try:
            await asyncio.wait({running, suspended}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
            result = (await asyncio.gather(running, return_exceptions=True))[0]
        finally:
            suspended.cancel()
            running.cancel()
        await conversation.settled()
    if conversation.needs is not None:
        return ToolRun(needs=conversation.needs.name, message=conversation.needs.why or "")
    if isinstance(result, BaseException):
        raise result
    return conversation.ending(result.output, result.exit_code, timed_out=result.timed_out)


class _Conversation:
    """What is said on the socket during one run. Only the first connection is heard: the runner's."""

    def __init__(self, broker: Broker, log: Callable[[str], None], start: Mapping[str, Any]) -> None:
        self._broker = broker
        self._log = log
        self._start = start
        self._last: Mapping[str, Any] | None = None
        self._broken: str | None = None
        self._taken = False
        self._ended = asyncio.Event()
        self.needs: NeedsCredential | None = None
        self.suspended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak with one client until it is done."""
        if self._taken:
            writer.close()
            return
        self._taken = True
        try:
            await _send(writer, self._start)
            while (frame := await _receive(reader)) is not None and await self._take(frame, writer):
                pass
        except (ValueError, asyncio.IncompleteReadError, ConnectionError) as error:
            self._broken = str(error)
        finally:
            self._ended.set()
            writer.close()

    async def _take(self, frame: Mapping[str, Any], writer: asyncio.StreamWriter) -> bool:
        match frame.get("kind"):
            case "effect":
                try:
                    outcome = await self._broker.ask(_request(frame))
                except NeedsCredential as missing:
                    self.needs = missing
                    self.suspended.set()
                    await _send(writer, {"kind": "suspend"})
                    return False
                if isinstance(outcome, Denied):
                    self._log(f"{outcome.reason}: {outcome.detail}")
                await _send(writer, outcome.to_json())
                return True
            case "log":
                self._log(str(frame.get("text", ""))[:10_000])
                return True
            case "result" | "error":
                self._last = frame
                return False
            case _:
                raise ValueError("a frame of no known kind")

    async def settled(self) -> None:
        """Wait, briefly, until what the tool sent before it ended has been read."""
        if self._taken:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 2.0)

    def ending(self, printed: str, exit_code: int | None, *, timed_out: bool) -> ToolRun:
        """The typed ending."""
        if timed_out:
            return ToolRun(error="tool_timeout", message="the tool did not end in its time", printed=printed)
        last = self._last
        if last is None:
            why = f"the tool's process ended with {exit_code} and said no result"
            kind = "protocol" if self._broken and exit_code == 0 else "tool_crashed"
            return ToolRun(error=kind, message=why, printed=printed)
        if last.get("kind") == "result":
            return ToolRun(value=last.get("value"), printed=printed)
        error = str(last.get("error"))
        known = error if error in ("tool_error", "bad_result", "effect_denied") else "tool_error"
        reason = last.get("reason")
        words = f"{last.get('message', '')}\n{last.get('traceback', '')}".strip()
        return ToolRun(error=known, message=words[:12_000], reason=str(reason) if reason else None, printed=printed)


def _request(frame: Mapping[str, Any]) -> EffectRequest:
    """An effect frame as a request; what is not of its form is an empty one, which no policy allows."""
    headers = frame.get("headers")
    pairs = [(str(h[0]), str(h[1])) for h in headers if isinstance(h, list) and len(h) == 2] if headers else []
    credential = frame.get("credential")
    try:
        body = base64.b64decode(str(frame.get("body", "")), validate=True)
    except binascii.Error as error:
        raise ValueError("an effect's body is not base64") from error
    return EffectRequest(
        method=str(frame.get("method", "")),
        url=str(frame.get("url", "")),
        headers=tuple(pairs),
        body=body,
        credential=credential if isinstance(credential, str) else None,
    )


async def _send(writer: asyncio.StreamWriter, value: Mapping[str, Any]) -> None:
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    writer.write(struct.pack(">I", len(data)) + data)
    await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> Mapping[str, Any] | None:
    """The next frame, None at the end. Raises ValueError for what is no frame."""
    try:
        (size,) = struct.unpack(">I", await reader.readexactly(4))
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise
    if size > MAX_FRAME:
        raise ValueError(f"a frame of {size} bytes")
    value = json.loads(await reader.readexactly(size))
    if not isinstance(value, dict):
        raise ValueError("a frame that is no object")
    return value


@contextlib.asynccontextmanager
async def _listening(
    directory: Path, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> Any:
    """A Unix socket `s` in `directory`, however long its path is."""
    directory.mkdir(exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        (directory / "s").unlink()
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A socket's path holds about a hundred bytes; this one is short wherever the home lies.
        link.bind(f"/proc/self/fd/{handle}/s")
        os.chmod(directory / "s", 0o666)
        server = await asyncio.start_unix_server(serve, sock=link, limit=MAX_FRAME)
    except OSError:
        link.close()
        raise
    finally:
        os.close(handle)
    try:
        yield
    finally:
        server.close()
        with contextlib.suppress(FileNotFoundError):
            (directory / "s").unlink()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
