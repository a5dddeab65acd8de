"""What a CLI says and does, stored as a session's events: its words, calls of our tools, tools it ran itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from core.agent_cli.events import CliCall, CliResult
from core.calls import OUTPUT_CAP, cap, clean
from core.history import blocks_to_json
from core.provider import Block, Text, ToolCall
from core.session import Pair, SessionLog
from core.streaming import Draft

_GONE = "The CLI ended before this call had a result. It may have had an effect."


class Recorder:
    """The writing side of one turn. Words are held until it is known what they belong to (a call, or the reply);
    a draft shows them meanwhile. Tools the CLI ran itself are stored when they have answered."""

    def __init__(self, log: SessionLog, provider: str, model: str | None, how: Mapping[str, Any]) -> None:
        self.log = log
        self.model = model
        self._provider = provider
        self._how = how
        self._texts: list[str] = []
        self._streamed = False
        self._draft: Draft | None = None
        self._observed: dict[str, CliCall] = {}
        self._waiting: list[tuple[CliCall, CliResult]] = []
        self._announced: dict[str, str] = {}
        self._news = asyncio.Event()

    # --- words -------------------------------------------------------------------------------------

    def delta(self, text: str, thinking: str) -> None:
        """A piece as it streams."""
        self._streamed = self._streamed or bool(text)
        self._drafting().add(clean(text), clean(thinking))

    def text(self, text: str) -> None:
        """A whole piece of what it says."""
        text = clean(text)
        if not text.strip():
            return
        if not self._streamed:
            self._drafting().add(text)
        self._drafting().add("\n\n")
        self._streamed = False
        self._texts.append(text)

    @property
    def held(self) -> str:
        """Words not stored yet."""
        return "\n\n".join(self._texts)

    def _drafting(self) -> Draft:
        if self._draft is None:
            self._draft = Draft(self.log)
        return self._draft

    # --- calls of our tools ------------------------------------------------------------------------

    def announce(self, call: CliCall) -> None:
        """The CLI's line about a call of one of our tools."""
        self._announced[call.id] = call.name
        self._news.set()

    async def announced(self, id: str | None, name: str, within: float) -> None:
        """Wait until that line has come, or `within` seconds have passed."""
        try:
            async with asyncio.timeout(within):
                while not self._take(id, name):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return

    def _take(self, id: str | None, name: str) -> bool:
        if id is not None and id in self._announced:
            del self._announced[id]
            return True
        found = next((key for key, called in self._announced.items() if called == name), None)
        if found is not None:
            del self._announced[found]
        return found is not None

    def unique(self, id: str | None) -> str:
        """A call id this session has not seen."""
        taken = self.log.history.call_ids
        base = id or "call"
        name, number = base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        return name

    def called(self, call: ToolCall) -> None:
        """Store that the model calls one of our tools, with what it said before. Raises StoreError."""
        self._store_message([*self._words(), call], "tool_calls")

    # --- tools it ran itself -----------------------------------------------------------------------

    def observe(self, call: CliCall) -> None:
        """A tool of its own has begun."""
        self._observed[call.id] = call

    def observed(self, result: CliResult) -> bool:
        """A tool of its own has answered. True where that is stored now, false where one of ours runs first."""
        call = self._observed.pop(result.id, None)
        if call is not None:
            self._waiting.append((call, result))
        return self.settle()

    def settle(self) -> bool:
        """Store what was observed and had to wait for a tool of ours. Raises StoreError."""
        if self.log.history.pending or not self._waiting:
            return False
        while self._waiting:
            self._store_observed(*self._waiting.pop(0))
        return True

    def _store_observed(self, seen: CliCall, result: CliResult) -> None:
        call = ToolCall(self.unique(seen.id), seen.name, dict(seen.args))
        output = clean(result.output)
        intent = {"call": call.id, "tool": call.name, "args": dict(seen.args), "observed": True}
        body: dict[str, Any] = {"call": call.id, "ok": result.ok, "output": cap(output, OUTPUT_CAP), "observed": True}
        if len(output) > OUTPUT_CAP:
            body |= {"size": len(output), "blob": self.log.store.put_blob(output.encode())}
        intent["turn"] = self.log.history.turns + 1
        self._store_message([*self._words(), call], "tool_calls", ("tool_call", intent), ("tool_result", body))

    # --- ends --------------------------------------------------------------------------------------

    def reply(self, text: str, finish: str, *more: Pair, **columns: Any) -> None:
        """Store the last words as the reply, `text` where it said none, with what goes with them. Raises StoreError."""
        words: list[Block] = [*self._words()] or ([Text(clean(text))] if text.strip() else [])
        self._store_message(words, finish, *more, **columns)

    def broken_off(self) -> None:
        """The turn ends in the middle: what was said stays, and what it ran without an answer is said to be open.
        Where a call waits for a person, nothing may follow it: words after it are dropped."""
        if self.log.history.pending:
            self.quiet()
            self.log.store.clear_draft(self.log.id)
            return
        for call in list(self._observed.values()):
            self._waiting.append((call, CliResult(call.id, False, _GONE)))
        self._observed.clear()
        self.settle()
        if self._texts:
            self._store_message(self._words(), "stop", incomplete=True)
        elif self._draft is not None:
            self._draft.flush()
        self.quiet()

    def quiet(self) -> None:
        """Stop the draft's timer."""
        if self._draft is not None:
            self._draft.stop()

    def _words(self) -> list[Block]:
        words, self._texts = self.held, []
        return [Text(words)] if words else []

    def _store_message(self, blocks: list[Block], finish: str, *more: Pair, **columns: Any) -> None:
        self.quiet()
        self._draft, self._streamed = None, False
        turn = self.log.history.turns + 1
        body: dict[str, Any] = {
            "role": "assistant",
            "id": f"m{turn}",
            "text": "\n\n".join(block.text for block in blocks if isinstance(block, Text)),
            "blocks": blocks_to_json(blocks),
            "finish": finish,
            "provider": self._provider,
            "model": self.model,
            **self._how,
            "turn": turn,
        }
        if columns.pop("incomplete", False):
            body["incomplete"] = True
        self.log.append(("message", body), *more, **columns)
