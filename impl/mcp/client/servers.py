"""The MCP servers of one session: their tools for the loop, and what happens where a server fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import mcp_types as types

from core import (
    Allowed,
    Broker,
    DenialReason,
    Denied,
    EffectPolicy,
    EffectRequest,
    EffectResponse,
    Host,
    Ledger,
    Manifest,
    McpServer,
    NeedsCredential,
    ReplayBook,
    Sandbox,
    SandboxUnavailable,
    Stop,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSpec,
    declared,
    ref_for,
    waiting_for,
)
from impl.mcp.client.connection import CALL_S, START_S, Connection
from impl.mcp.client.http import EffectWire, http_streams, local_streams
from impl.mcp.client.offered import Offered, offer, text_of
from impl.mcp.client.problems import PROTOCOL, TIMEOUT, UNAVAILABLE, McpProblem, plain
from impl.mcp.client.stdio import Server, stdio_streams

CONNECT: Final = "connect"
_HEADERS: Final = (("content-type", "application/json"),)
_REASONS: Final[Mapping[str, DenialReason]] = {
    **{reason.value: reason for reason in DenialReason},
    UNAVAILABLE: DenialReason.NETWORK,
    TIMEOUT: DenialReason.DEADLINE,
    PROTOCOL: DenialReason.PROTOCOL,
}
"""How a failed effect is recorded; what is not here is an answer of the server's."""

Emit = Callable[[str, Mapping[str, Any]], None]


@dataclass(slots=True)
class McpServers:
    """The servers that `manifest` declares. `root` is the bundle as laid out, `place` a directory of the session's.

    `credential(name)` gives a value or None, in a thread; `replay` answers from another run instead of the network.
    `at` are addresses on this machine, by server, of what a suite has stand in for them.
    """

    host: Host
    session: str
    agent: str
    root: Path
    place: Path
    manifest: Manifest
    choose: Callable[[], Awaitable[Sandbox]]
    credential: Callable[[str], str | None]
    emit: Emit
    replay: ReplayBook | None = None
    at: Mapping[str, str] = field(default_factory=dict)
    _connections: list[Connection] = field(default_factory=list)

    async def tools(self) -> list[Tool]:
        """The tools of all servers, in the manifest's order; a server that fails is left out with a notice."""
        listed = await asyncio.gather(*(self._listed(server) for server in self.manifest.mcp))
        taken = set(self.manifest.tools)
        tools: list[Tool] = []
        for server, found in zip(self.manifest.mcp, listed, strict=True):
            if isinstance(found, NeedsCredential):
                tools.append(self._connect_tool(server, found))
                continue
            if isinstance(found, McpProblem):
                self._notice(f"Going on without the MCP server {server.name}: {found.code}: {found.message}.")
                continue
            caller, listing, more = found
            offered, out = offer(server.name, listing, taken)
            taken |= {tool.name for tool in offered}
            if more:
                out.append("those after the first 128")
            if out:
                left = "; ".join(out[:10]) + ("; …" if len(out) > 10 else "")
                self._notice(f"Tools of the MCP server {server.name} that are left out: {left}.")
            tools += [self._tool(server, tool, caller) for tool in offered]
            if self._asked_to_connect(server):
                tools.append(self._connect_tool(server, None))
        return tools

    async def close(self) -> None:
        """End all connections and servers."""
        await asyncio.gather(*(connection.close() for connection in self._connections))
        self._connections.clear()

    def _notice(self, text: str) -> None:
        """Said once a session, however often it is driven."""
        said = self.host.store.events(self.session, kinds=("notice",))
        if not any(event.data.get("text") == text for event in said):
            self.emit("notice", {"text": text})

    # --- listing -----------------------------------------------------------------------------------

    async def _listed(self, server: McpServer) -> Any:
        """(how to call it, its tools, whether there are more), or the McpProblem or NeedsCredential."""
        try:
            caller = await self._caller(server)
            answer = await caller(server.name, {"method": "tools/list"}, f"mcp:{server.name}", self.emit)
            listing = types.ListToolsResult.model_validate({"tools": answer["tools"]}, by_name=False).tools
            return caller, listing, bool(answer.get("more"))
        except (McpProblem, NeedsCredential) as problem:
            return problem
        except (ValueError, KeyError, TypeError) as error:
            return McpProblem(PROTOCOL, f"its list of tools cannot be read: {plain(str(error), 200)}")

    async def _caller(self, server: McpServer) -> Any:
        """`caller(tool, asked, call, emit)` gives the answer to `{"method", …}`. Raises McpProblem, NeedsCredential."""
        if (stand_in := self.at.get(server.name)) is not None:
            return _Unrecorded(self.keep(partial(local_streams, stand_in)))
        if server.url is not None:
            return _OverHttps(self, server)
        return _Unrecorded(self.keep(partial(stdio_streams, await self._to_run(server))))

    async def _to_run(self, server: McpServer) -> Server:
        try:
            sandbox = await self.choose()
        except SandboxUnavailable as error:
            raise McpProblem(UNAVAILABLE, str(error)) from None
        if sandbox.unsafe:
            raise McpProblem(UNAVAILABLE, "it would run without a sandbox; install bubblewrap or Docker for it")
        command = server.command or ""
        return Server(command, server.args, self.root, self.place / server.name, sandbox)

    def keep(self, streams: Callable[[], Any]) -> Connection:
        """A connection that is closed with the rest."""
        connection = Connection(streams, start_s=START_S, call_s=CALL_S)
        self._connections.append(connection)
        return connection

    # --- tools -------------------------------------------------------------------------------------

    def _tool(self, server: McpServer, offered: Offered, caller: Any) -> Tool:
        async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            asked = {"method": "tools/call", "name": offered.tool, "arguments": dict(args)}
            try:
                answer = await caller(offered.name, asked, context.call, context.emit)
            except NeedsCredential as missing:
                return self._needs(missing, context)
            except McpProblem as problem:
                data = {"error": problem.code, "server": server.name}
                return ToolOutput(f"{problem.code}: {server.name}: {problem.message}", ok=False, data=data)
            return ToolOutput(text_of(answer), ok=answer.get("isError") is not True)

        return Tool(ToolSpec(offered.name, offered.description, offered.schema), run, default=offered.default)

    def _connect_tool(self, server: McpServer, missing: NeedsCredential | None) -> Tool:
        """Stands for a server whose tools cannot be listed before its credential has a value."""
        empty = {"type": "object", "properties": {}, "additionalProperties": False}
        words = f"The MCP server {server.name} needs the credential {server.credential} first. Call this to get it."

        async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            if missing is not None:
                return self._needs(missing, context)
            return ToolOutput(f"{server.name} is connected; its tools are there now, named {server.name}__….")

        return Tool(ToolSpec(f"{server.name}__{CONNECT}", words, empty), run)

    def _asked_to_connect(self, server: McpServer) -> bool:
        """Whether a call of its connect tool is still open: the value came meanwhile."""
        name, kinds = f"{server.name}__{CONNECT}", ("tool_call", "tool_result")
        calls = [e.data for e in self.host.store.events(self.session, kinds=kinds)]
        done = {data.get("call") for data in calls if "ok" in data}
        return any(data.get("tool") == name and data.get("call") not in done for data in calls)

    def _needs(self, missing: NeedsCredential, context: ToolContext) -> ToolOutput:
        declaration = declared(self.manifest)[missing.name]
        session = self.host.store.session(self.session)
        ref = ref_for(self.host.store, self.agent, declaration, session.digest if session else None)
        waiting = waiting_for(context.call, self.agent, (declaration,), ref=ref, why=missing.why)
        return ToolOutput("", ok=False, stop=Stop.NEEDS_CREDENTIALS, waiting=waiting, detail=missing.name)


class _Unrecorded:
    """Asks a server in a sandbox, or a suite's. It has no effects, so nothing of it is recorded besides the call."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __call__(self, tool: str, asked: Mapping[str, Any], call: str, emit: Emit) -> Mapping[str, Any]:
        return await _perform(self._connection, asked)


class _OverHttps:
    """Asks a server over HTTPS. What is asked is one effect of its call, with the policy, credential, record and
    replay of every effect; the SDK's requests that perform it pass the same policy one by one."""

    def __init__(self, servers: McpServers, server: McpServer) -> None:
        self._servers = servers
        self._server = server
        known = declared(servers.manifest)
        name = server.credential
        bindings = {name: known[name].to_binding()} if name is not None and name in known else {}
        self._policy = EffectPolicy([server.host or ""], bindings)
        self._connection: Connection | None = None
        self._wire: EffectWire | None = None

    async def __call__(self, tool: str, asked: Mapping[str, Any], call: str, emit: Emit) -> Mapping[str, Any]:
        servers, store = self._servers, self._servers.host.store
        listing = asked["method"] == "tools/list"
        past = () if listing else store.events(servers.session, kinds=("effect_intent", "effect"))
        broker = Broker(
            call=call,
            tool=tool,
            policy=self._policy,
            transport=self if servers.host.transport is not None else None,
            credential=servers.credential,
            emit=emit,
            ledger=Ledger(past, call),
            put_blob=store.put_blob,
            blob=store.blob,
            replay=servers.replay,
            redacts=declared(servers.manifest),
        )
        # A list only reads, whatever method carries it: it may be asked for again, and replayed more than once.
        method = "GET" if listing else "POST"
        body = json.dumps(asked, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
        request = EffectRequest(method, self._server.url or "", _HEADERS, body, self._server.credential)
        outcome = await broker.ask(request)
        if isinstance(outcome, Denied):
            raise McpProblem(outcome.reason.value, outcome.detail, sent=outcome.sent)
        answer: dict[str, Any] = json.loads(outcome.body)
        if isinstance(error := answer.get("error"), dict):
            raise McpProblem(str(error.get("code")), str(error.get("message")), sent=True)
        return answer

    async def perform(
        self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]
    ) -> EffectResponse | Denied:
        """Do what was asked for over the SDK; see `Transport`."""
        transport = self._servers.host.transport
        assert transport is not None, "the broker was given none otherwise"
        if self._connection is None or self._wire is None:
            self._wire = EffectWire(transport, policy, request.credential)
            self._connection = self._servers.keep(partial(http_streams, self._server.url or "", self._wire))
        self._wire.secrets = secrets
        try:
            answer = await _perform(self._connection, json.loads(request.body))
        except McpProblem as problem:
            if (reason := _REASONS.get(problem.code)) is not None:
                return Denied(reason, problem.message, problem.sent)
            answer = {"error": {"code": problem.code, "message": problem.message}}
        return EffectResponse(200, _HEADERS, json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))


async def _perform(connection: Connection, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer to `{"method": "tools/list" | "tools/call", …}` in the form of the wire. Raises McpProblem."""
    if asked["method"] == "tools/list":
        tools, more = await connection.list_tools()
        return {"tools": [_dumped(tool) for tool in tools], "more": more}
    return _dumped(await connection.call(asked["name"], asked["arguments"]))


def _dumped(model: Any) -> dict[str, Any]:
    data: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data
