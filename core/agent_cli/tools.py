"""Our tools inside a CLI's own loop: calls come through its MCP server and run like any other, one at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from core.agent_cli.record import Recorder
from core.calls import Calls, Parked
from core.ports import Host, StoreError
from core.provider import ProviderError, ToolCall, ToolResult, ToolSpec

STOP_NOW: Final = (
    "The person has to decide first. Stop here and end your turn without calling anything else: their answer comes "
    "as the next message."
)
ENDED: Final = "This session is not running any more. Stop here and end your turn."
GIVEN_UP: Final = "The agent CLI gave up on this call while it ran. It may have had an effect."
FRAME_WAIT_S: Final = 0.3
"""How long a call waits for the CLI's own line about it, so that what the model said before it is stored before it."""


class Halts(Protocol):
    """What a running turn lets its tools do to it."""

    def spent(self) -> str | None:
        """Words for the model where nothing more may be spent: the turn is then ending."""

    def wait_for(self, parked: Parked) -> None:
        """A person must decide: the turn ends with that stop."""

    def failed(self, error: Exception) -> None:
        """The session cannot go on: the turn ends with this error."""

    def heed(self, *, answering: bool) -> str | None:
        """Do what the guard says; words to add to the answer under way, or None."""


class ToolDoor:
    """The tools of one running session, as its CLI reaches them. `busy` while one of them runs."""

    def __init__(
        self, specs: Sequence[ToolSpec], calls: Calls, recorder: Recorder, turn: Halts, announced: bool = False
    ) -> None:
        self._announced = announced
        self._specs = tuple(specs)
        self._calls = calls
        self._recorder = recorder
        self._turn = turn
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a tool runs."""
        return bool(self._running)

    def specs(self) -> Sequence[ToolSpec]:
        """The tools, as a model sees them."""
        return self._specs

    async def call(self, name: str, args: Any, id: str | None = None) -> tuple[bool, str]:
        """Run a tool: whether it succeeded, and what the model reads. Cancelling cancels the tool."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            async with self._lock:
                return await self._one(name, args, id)
        finally:
            self._running.discard(task)

    async def close(self) -> None:
        """End what runs; later calls are told that the session has ended."""
        self._closed = True
        running = [task for task in self._running if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _one(self, name: str, args: Any, id: str | None) -> tuple[bool, str]:
        if self._closed:
            return False, ENDED
        if self._announced:
            await self._recorder.announced(id, name, FRAME_WAIT_S)
        spent = self._turn.spent()
        if spent is not None:
            return False, spent
        call = self._made(name, args, id)
        try:
            self._recorder.called(call)
            await self._calls.run(call)
            more = self._turn.heed(answering=True)
        except Parked as parked:
            self._turn.wait_for(parked)
            return False, STOP_NOW
        except StoreError as error:
            self._turn.failed(error)
            return False, ENDED
        except asyncio.CancelledError:
            if not self._closed:  # the CLI hung up on this call alone, and goes on
                body = {"call": call.id, "ok": False, "output": GIVEN_UP, "status": "cancelled"}
                body["told"] = True
                self._recorder.log.append(("tool_result", body))
            raise
        ok, output = self._result(call.id)
        return ok, output if more is None else f"{output}\n\n[{more}]"

    def _made(self, name: str, args: Any, id: str | None) -> ToolCall:
        unique = self._recorder.unique(id)
        if isinstance(args, dict):
            return ToolCall(unique, name, args)
        return ToolCall(unique, name, None, raw=json.dumps(args)[:30_000])

    def _result(self, id: str) -> tuple[bool, str]:
        for message in reversed(self._recorder.log.history.messages[-8:]):
            for block in message.blocks:
                if isinstance(block, ToolResult) and block.id == id:
                    return block.ok, block.output
        return False, "The result could not be read."


@asynccontextmanager
async def offered(
    host: Host, session: str, door: ToolDoor
) -> AsyncIterator[tuple[Sequence[str] | None, Mapping[str, str]]]:
    """Let other processes reach a session's tools; gives the command that brings them to an MCP client, and its
    environment; no command where there are no tools. Raises ProviderError where this host cannot offer any."""
    if not door.specs():
        yield None, {}
        return
    if host.offer is None:
        hint = "Start it by a command or the app, or use a provider that is a model."
        raise ProviderError("capability", "This host cannot offer tools to an agent CLI.", hint=hint)
    host.doors[session] = door
    try:
        yield await host.offer(host, session)
    finally:
        await door.close()
        if host.doors.get(session) is door:
            del host.doors[session]
