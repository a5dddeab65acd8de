"""One model turn as it streams: stored in batches as a draft, then returned whole."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

from core.provider import (
    ModelProvider,
    ModelRequest,
    ProviderError,
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
        self._stored = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.touched = False

    def add(self, text: str, thinking: str = "") -> None:
        """Take a piece."""
        self.touched = True
        if text:
            self._text.append(text)
        if thinking:
            self._thinking.append(thinking)
        due = self._stored + BATCH_S - time.monotonic()
        if due <= 0:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(due, self.flush)

    def flush(self) -> None:
        """Store what has not been stored."""
        self.stop()
        self._stored = time.monotonic()
        text, thinking = "".join(self._text), "".join(self._thinking)
        self._text, self._thinking = [text], [thinking]
        self._log.draft(self._id, text, thinking)

    def stop(self) -> None:
        """Forget the pending timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def stream_turn(log: SessionLog, provider: ModelProvider, request: ModelRequest) -> TurnEnd:
    """Stream one turn to its end. Raises ProviderError, never transient once anything was streamed.

    What was shown before a failure stays: it becomes a message marked incomplete.
    """
    draft = Draft(log)
    try:
        async with aclosing(_stream(provider, request)) as items:
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
    except ProviderError as error:
        _keep(log, draft)
        if draft.touched:
            error.transient = False
        raise
    finally:
        draft.stop()
    _keep(log, draft)
    raise ProviderError("incomplete", "The provider's answer ended before it was whole.", transient=not draft.touched)


def _stream(provider: ModelProvider, request: ModelRequest) -> Any:
    return provider.stream(request)


def _keep(log: SessionLog, draft: Draft) -> None:
    """Turn a draft that will never be finished into a message, so that what was shown is not lost."""
    settle_draft(log, draft.flush if draft.touched else None)


def settle_draft(log: SessionLog, flush: Any = None) -> None:
    """Store the session's draft, if any, as an incomplete message of the assistant's."""
    if flush is not None:
        flush()
    found = log.store.draft(log.id)
    if found is None:
        return
    message, text, _ = found
    if text.strip():
        log.append(("message", {"role": "assistant", "id": message, "text": text, "incomplete": True}))
    else:
        log.store.clear_draft(log.id)
