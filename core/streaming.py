"""One model turn as it streams: stored in batches as a draft, then returned whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from core.ports import StoreError
from core.provider import (
    ModelProvider,
    ModelRequest,
    ProviderError,
    StreamItem,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    TurnEnd,
)
from core.session import SessionLog

BATCH_S = 0.05


class Draft:
    """The text streamed so far. Each piece is stored, and so seen, within 50 ms of its arrival."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._id = f"m{log.history.turns + 1}"
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._stored = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: StoreError | None = None
        self.touched = False

    def add(self, text: str, thinking: str = "") -> None:
        """Take a piece. Raises StoreError where this one, or one before it, could not be stored."""
        if self._failure is not None:
            raise self._failure
        self.touched = True
        if text:
            self._text.append(text)
        if thinking:
            self._thinking.append(thinking)
        due = self._stored + BATCH_S - time.monotonic()
        if due <= 0:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(due, self._flush_later)

    def flush(self) -> None:
        """Store what has not been stored. Raises StoreError."""
        self.stop()
        self._stored = time.monotonic()
        text, thinking = "".join(self._text), "".join(self._thinking)
        self._text, self._thinking = [text], [thinking]
        try:
            self._log.draft(self._id, text, thinking)
        except StoreError as error:
            if error.code != "busy":
                raise
            # Another process keeps the store locked: this is stored, and so shown, a little later.
            self._timer = asyncio.get_running_loop().call_later(BATCH_S, self._flush_later)

    def _flush_later(self) -> None:
        try:
            self.flush()
        except StoreError as error:  # nobody is there to catch it: the next piece raises it
            self._failure = error

    def stop(self) -> None:
        """Forget the pending timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def stream_turn(log: SessionLog, provider: ModelProvider, request: ModelRequest) -> TurnEnd:
    """Stream one turn to its end. Raises ProviderError, never transient once anything was streamed.

    What was shown before a failure or a cancellation stays: it becomes a message marked incomplete.
    """
    draft = Draft(log)
    try:
        async with aclosing(_items(provider, request)) as items:
            async for item in items:
                match item:
                    case TextDelta():
                        draft.add(item.text)
                    case ThinkingDelta():
                        draft.add("", item.text)
                    case ToolCallDelta():
                        draft.touched = True
                    case TurnEnd():
                        return item
        raise _unfinished()
    except ProviderError as error:
        _keep(log, draft)
        if draft.touched:
            error.transient = False
        raise
    except asyncio.CancelledError:
        _keep(log, draft)
        raise
    finally:
        draft.stop()


async def whole_turn(provider: ModelProvider, request: ModelRequest) -> TurnEnd:
    """One turn that nobody watches. Raises ProviderError."""
    async with aclosing(_items(provider, request)) as items:
        async for item in items:
            if isinstance(item, TurnEnd):
                return item
    raise _unfinished()


async def _items(provider: ModelProvider, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
    """What the provider streams; whatever else than ProviderError it raises is one, as the session must not end
    in a traceback."""
    stream: Any = provider.stream(request)
    try:
        async for item in stream:
            yield item
    except ProviderError:
        raise
    except Exception as error:
        message = f"The provider failed inside Artificer: {type(error).__name__}: {error}"
        raise ProviderError("protocol", message, hint="Try again, or use another provider.") from error
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _unfinished() -> ProviderError:
    return ProviderError("incomplete", "The provider's answer ended before it was whole.", transient=True)


def _keep(log: SessionLog, draft: Draft) -> None:
    """Turn a draft that will never be finished into a message, so that what was shown is not lost."""
    if draft.touched:
        draft.flush()
    settle_draft(log)


def settle_draft(log: SessionLog) -> None:
    """Store the session's draft, if any, as an incomplete message of the assistant's."""
    found = log.store.draft(log.id)
    if found is None:
        return
    message, text, _ = found
    if text.strip():
        log.append(("message", {"role": "assistant", "id": message, "text": text, "incomplete": True}))
    else:
        log.store.clear_draft(log.id)
