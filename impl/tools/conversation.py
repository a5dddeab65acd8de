"""What a tool's process and the host say to each other during one call: framed JSON, each frame checked and counted."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core import Broker, DenialReason, Denied, EffectRequest, EffectResponse, NeedsCredential

MAX_JSON: Final = 4 * 1024 * 1024
"""Bytes of a frame's JSON, and so of a result. Its bytes apart, a frame also holds a body."""
MAX_BODY: Final = 16 * 1024 * 1024
MAX_FRAMES: Final = 20_000
"""Frames of one call; one that goes on is ended."""
MAX_EFFECTS: Final = 2_000
"""Effects of one call, those that are denied among them: each is kept."""
MAX_LOG_LINES: Final = 1_000
LOG_LINE: Final = 10_000
"""Characters of one line of a log."""
_LARGE: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class ToolRun:
    """How a run ended: `value` of a result, else `error` from a closed set (`tool_error`, `bad_result`,
    `effect_denied`, `environment_missing`, `tool_timeout`, `tool_crashed`, `protocol`) with `message`. `reason` is the
    effect's, `needs` a credential that has no value, or none that can be read now, as `message` then says; `printed`
    is what it wrote to its output."""

    value: Any = None
    error: str | None = None
    message: str = ""
    reason: str | None = None
    needs: str | None = None
    printed: str = ""


@dataclass(slots=True)
class Conversation:
    """One call's: `start` is told first, then the tool asks and says until it has ended.

    `ended` is how, as far as the tool itself said, or what it did wrong; None while it has not.
    """

    broker: Broker
    log: Callable[[str], None]
    start: Mapping[str, Any]
    ended: ToolRun | None = None
    over: bool = field(default=False)
    """Set once the tool's process has ended: what it asked for last is not done any more."""
    _lines: int = 0
    _effects: int = 0

    async def hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak until the tool has said its end, hung up, or broken the rules. Raises StoreError."""
        try:
            await send(writer, self.start)
            for _ in range(MAX_FRAMES):
                frame = await receive(reader)
                if frame is None or not await self._take(*frame, writer):
                    return
            self._wrong(f"over {MAX_FRAMES} frames in one call")
        except (ValueError, RecursionError, asyncio.IncompleteReadError) as error:
            self._wrong(str(error))
        except ConnectionError:
            return  # it hung up while it was told something

    def _wrong(self, message: str) -> None:
        self.ended = ToolRun(error="protocol", message=f"what the tool's process sent is not heard: {message}"[:1000])

    async def _take(self, frame: Mapping[str, Any], body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Whether the conversation goes on after this frame."""
        match frame.get("kind"):
            case "effect":
                return not self.over and await self._effect(frame, body, writer)
            case "log":
                self._say(str(frame.get("text", "")))
                return True
            case "result":
                self.ended = ToolRun(value=frame.get("value"))
                return False
            case "error":
                self.ended = _failure(frame)
                return False
            case _:
                raise ValueError("it is of no known kind")

    async def _effect(self, frame: Mapping[str, Any], body: bytes, writer: asyncio.StreamWriter) -> bool:
        self._effects += 1
        if self._effects > MAX_EFFECTS:
            raise ValueError(f"over {MAX_EFFECTS} effects in one call")
        try:
            outcome = await self.broker.ask(_request(frame, body))
        except NeedsCredential as missing:
            self.ended = ToolRun(needs=missing.name, message=missing.why or "")
            return False
        if isinstance(outcome, Denied):
            self._say(f"{outcome.reason}: {outcome.detail}")
            if self.broker.fatal is not None:
                self.ended = denied(self.broker.fatal)
                return False
            await send(writer, outcome.to_json())
        else:
            await send(writer, _head(outcome), outcome.body)
        return True

    def _say(self, text: str) -> None:
        self._lines += 1
        if self._lines <= MAX_LOG_LINES:
            self.log(text[:LOG_LINE])
        elif self._lines == MAX_LOG_LINES + 1:
            self.log(f"[no more than {MAX_LOG_LINES} lines of a call are kept]")


def denied(outcome: Denied) -> ToolRun:
    """The ending of a call whose effect was denied and that cannot go on."""
    return ToolRun(error="effect_denied", reason=outcome.reason.value, message=outcome.detail)


_OWN: Final = frozenset({"tool_error", "bad_result", "effect_denied", "environment_missing"})
_REASONS: Final = frozenset(reason.value for reason in DenialReason)


def _failure(frame: Mapping[str, Any]) -> ToolRun:
    """What the tool's process says went wrong; its words are its own, its types are ours."""
    error = frame.get("error")
    reason = frame.get("reason")
    words = f"{frame.get('message', '')}\n{frame.get('traceback', '')}".strip()
    return ToolRun(
        error=error if isinstance(error, str) and error in _OWN else "tool_error",
        message=words[:12_000],
        reason=reason if isinstance(reason, str) and reason in _REASONS else None,
    )


def _head(outcome: EffectResponse) -> dict[str, Any]:
    return {"status": outcome.status, "headers": [list(header) for header in outcome.headers]}


def _request(frame: Mapping[str, Any], body: bytes) -> EffectRequest:
    """An effect frame as a request. Raises ValueError for one that is not of its form; what it asks for is the
    policy's to judge."""
    method, url, headers, credential = (frame.get(name) for name in ("method", "url", "headers", "credential"))
    if not isinstance(method, str) or not isinstance(url, str) or not isinstance(headers, list):
        raise ValueError("an effect has a method, a URL and headers")
    if credential is not None and not isinstance(credential, str):
        raise ValueError("an effect names its credential in words")
    pairs = [tuple(header) for header in headers if isinstance(header, list)]
    if len(pairs) != len(headers) or any(len(p) != 2 or not all(isinstance(t, str) for t in p) for p in pairs):
        raise ValueError("headers are pairs of texts")
    return EffectRequest(method, url, tuple((name, value) for name, value in pairs), body, credential)


# --- frames --------------------------------------------------------------------------------------------


async def send(writer: asyncio.StreamWriter, value: Mapping[str, Any], body: bytes = b"") -> None:
    """Send one frame. Raises ConnectionError where nobody takes it."""
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    writer.write(struct.pack(">II", len(data), len(body)) + data)
    if body:
        writer.write(body)
    await writer.drain()


async def receive(reader: asyncio.StreamReader) -> tuple[Mapping[str, Any], bytes] | None:
    """The next frame and its body, None at the end. Raises ValueError or RecursionError for what is no frame."""
    try:
        size, more = struct.unpack(">II", await reader.readexactly(8))
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise
    if size > MAX_JSON or more > MAX_BODY:
        raise ValueError(f"{size} and {more} bytes are too many")
    data = await reader.readexactly(size)
    value = await asyncio.to_thread(_read, data) if size > _LARGE else _read(data)
    return value, await reader.readexactly(more)


def _read(data: bytes) -> Mapping[str, Any]:
    value = json.loads(data, parse_constant=_no_number)
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return value


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON's")
