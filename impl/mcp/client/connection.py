"""One MCP session, kept open by a task of its own: the SDK's scopes must end in the task they began in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from impl.mcp.client.problems import ERROR, OURS, PROTOCOL, TIMEOUT, UNAVAILABLE, McpProblem, plain

START_S: Final = 20.0
CALL_S: Final = 300.0
CLOSE_S: Final = 2.0
MAX_PAGES: Final = 20
MAX_TOOLS: Final = 128
_CLOSED: Final = "Connection closed"
_NO_HANDSHAKE: Final = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)

Streams = Callable[[], AbstractAsyncContextManager[tuple[Any, Any]]]
"""Opens a transport: what the SDK reads from and writes to. May raise McpProblem."""


class Connection:
    """A connection to one server, opened on first use and again after it broke. Nothing is ever sent twice.

    `start_s` bounds opening, `call_s` an answer, in seconds.
    """

    def __init__(self, streams: Streams, *, start_s: float = START_S, call_s: float = CALL_S) -> None:
        self._streams = streams
        self._start_s = start_s
        self._call_s = call_s
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._session: ClientSession | None = None
        self._over = asyncio.Event()

    async def list_tools(self) -> tuple[list[types.Tool], bool]:
        """The tools it lists, MAX_TOOLS at most, and whether there are more. Raises McpProblem."""
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._ask(types.ListToolsRequest(params=params), types.ListToolsResult, self._start_s)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > MAX_TOOLS:
                break
        return found[:MAX_TOOLS], cursor is not None or len(found) > MAX_TOOLS

    async def call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """The result of a tool, an error of the tool's own included. Raises McpProblem."""
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        # Not the SDK's own call_tool: that runs the server's output schema over the answer.
        result: types.CallToolResult = await self._ask(
            types.CallToolRequest(params=params), types.CallToolResult, self._call_s
        )
        return result

    async def _ask(self, request: Any, kind: Any, seconds: float) -> Any:
        session = await self._opened()
        try:
            return await session.send_request(request, kind, request_read_timeout_seconds=seconds)
        except MCPError as error:
            problem = read_error(error, seconds)
            if problem.code == UNAVAILABLE:
                await self._end()
            raise problem from None
        except (ValidationError, RuntimeError, ValueError) as error:
            raise McpProblem(PROTOCOL, f"its answer is not MCP: {plain(str(error), 200)}", sent=True) from None

    async def _opened(self) -> ClientSession:
        async with self._lock:
            if self._session is not None and self._task is not None and not self._task.done():
                return self._session
            await self._end()
            opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
            self._over = asyncio.Event()
            self._task = asyncio.create_task(self._keep(opened, self._over))
            try:
                ends: set[asyncio.Future[Any]] = {opened, self._task}
                await asyncio.wait(ends, timeout=self._start_s, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                await self._end()
                raise
            if not opened.done():
                await self._end()
                raise McpProblem(TIMEOUT, f"it did not answer within {self._start_s:g} s of its start")
            self._session = await opened
            return self._session

    async def _keep(self, opened: asyncio.Future[ClientSession], over: asyncio.Event) -> None:
        """Hold the connection open until it is over; a failure to open goes to `opened`."""
        try:
            async with self._streams() as (read, write), _session(read, write) as session:
                opened.set_result(session)
                await over.wait()
        except Exception as error:  # noqa: BLE001 - whatever a server makes the SDK raise is that server's problem
            if not opened.done():
                opened.set_exception(_why(error))

    async def _end(self) -> None:
        opened, self._session = self._session is not None, None
        task, self._task = self._task, None
        if task is None:
            return
        if opened:
            self._over.set()
            await asyncio.wait({task}, timeout=CLOSE_S)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSE_S)

    async def close(self) -> None:
        """End it; what runs in it ends with an error."""
        await self._end()


@contextlib.asynccontextmanager
async def _session(read: Any, write: Any) -> AsyncIterator[ClientSession]:
    """A session that has greeted its server: the handshake, or where there is none, the discovery that replaced it."""
    info = types.Implementation(name="artificer", version="1")
    async with ClientSession(read, write, client_info=info) as session:
        try:
            await session.initialize()
        except MCPError as error:
            if error.code not in _NO_HANDSHAKE:
                raise
            await session.discover()
        yield session


def _why(error: BaseException) -> McpProblem:
    """The first problem that says something, of a group too."""
    if isinstance(error, BaseExceptionGroup):
        found = [_why(inner) for inner in error.exceptions]
        return next((problem for problem in found if problem.code != UNAVAILABLE), found[0])
    if isinstance(error, McpProblem):
        return error
    if isinstance(error, MCPError):
        return read_error(error, START_S)
    if isinstance(error, ValidationError | RuntimeError | ValueError):
        return McpProblem(PROTOCOL, f"it does not speak MCP: {plain(str(error), 200)}")
    return McpProblem(UNAVAILABLE, plain(f"{type(error).__name__}: {error}", 200))


def read_error(error: MCPError, seconds: float) -> McpProblem:
    """An error of the SDK's or the server's as ours. Ours come back in `data`, see `impl.mcp.client.http`."""
    data = error.error.data
    if isinstance(data, dict) and data.get("artificer") == OURS:
        return McpProblem(data["code"], error.message, sent=data["sent"])
    match error.code:
        # Servers use the code for errors of their own; the words are the SDK's.
        case types.CONNECTION_CLOSED if error.message == _CLOSED:
            return McpProblem(UNAVAILABLE, "it ended; whether it did what was asked is unknown", sent=True)
        case types.REQUEST_TIMEOUT:
            return McpProblem(TIMEOUT, f"it did not answer within {seconds:g} s", sent=True)
        case types.PARSE_ERROR:
            return McpProblem(PROTOCOL, f"its answer is not MCP: {plain(error.message, 200)}", sent=True)
        case _:
            return McpProblem(ERROR, f"it answered with error {error.code}: {plain(error.message, 1000)}", sent=True)
