"""Real MCP servers for agents of a laboratory: one in a sandbox, one over TLS on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from impl.transport.https import HttpsTransport, Loopback
from tests.harness.laboratory import Lab
from tests.harness.tls import Authority

HOST = "mcp.example.com"
SECRET = "tide-9f83-Value/+for=tests"
STDIO = {"name": "local", "transport": "stdio", "command": "python3", "args": ["skills/local/server.py"]}
HTTP = {"name": "harbour", "transport": "http", "url": f"https://{HOST}/mcp"}
KEY = {"name": "HARBOUR_KEY", "hosts": [HOST], "header": "Authorization", "format": "Bearer {secret}"}
SKILL = "---\nname: local\ndescription: Holds a server.\n---\nNothing to do.\n"

HEAD = """
import json, os, socket, sys, time

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def tool(name, **more):
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object", "properties": {}}, **more}

def text(words):
    return {"content": [{"type": "text", "text": words}]}

def serve(tools, call, listed=None):
    for line in sys.stdin:
        asked = json.loads(line)
        method, number, params = asked.get("method"), asked.get("id"), asked.get("params") or {}
        if method == "initialize":
            info = {"name": "tiny", "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
            say(id=number, result=result)
        elif method == "tools/list":
            say(id=number, result=listed or {"tools": tools})
        elif method == "tools/call":
            say(id=number, result=call(params["name"], params.get("arguments") or {}))
        elif number is not None:
            say(id=number, error={"code": -32601, "message": "no such method"})
"""
"""A whole MCP server in the standard library, which is all that a sandbox has."""


def stdio(body: str) -> dict[str, str]:
    """The files of a bundle that brings a server: `body` follows HEAD."""
    return {"skills/local/SKILL.md": SKILL, "skills/local/server.py": HEAD + body}


def results(lab: Lab, session: str) -> list[str]:
    """What the tools of a session gave, in order."""
    return [result["output"] for result in lab.results(session)]


def notices(lab: Lab, session: str) -> list[str]:
    """What a person was told."""
    return [event.data["text"] for event in lab.store.events(session, kinds=("notice",))]


class Values:
    """Secrets by name; none where `values` is empty."""

    def __init__(self, **values: str) -> None:
        self.values = values

    def has(self, agent: str, name: str, binding: str) -> bool:
        """Whether there is one."""
        return name in self.values

    def take(self, agent: str, name: str, binding: str) -> str | None:
        """It."""
        return self.values.get(name)


class Harbour:
    """A server of the SDK's own behind TLS. `authorization` are the headers it was sent, `calls` how often it acted."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.authorization: list[str | None] = []
        self.status: int | None = None
        self.forgets_after: int | None = None
        self.calls = 0
        self.port = 0

    def app(self) -> Any:
        """The ASGI app."""
        server = MCPServer("harbour")

        @server.tool(annotations={"readOnlyHint": True})  # type: ignore[arg-type]
        def tide(place: str) -> str:
            """The tide at a place."""
            self.calls += 1
            return f"high tide at {place}; you sent {self.authorization[-1]}"

        @server.tool()
        def book(berth: int) -> str:
            """Books a berth."""
            self.calls += 1
            return f"booked {berth}"

        inner = server.streamable_http_app(
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
        )

        async def outer(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                headers = dict(scope["headers"])
                self.authorization.append(headers[b"authorization"].decode() if b"authorization" in headers else None)
                status = self.status
                if len(self.authorization) - 1 == self.forgets_after:
                    status = 404
                if status is not None:
                    await send({"type": "http.response.start", "status": status, "headers": []})
                    await send({"type": "http.response.body", "body": b"no"})
                    return
            await inner(scope, receive, send)

        return outer

    @contextlib.asynccontextmanager
    async def serving(self, *, tls: bool = True) -> AsyncIterator[None]:
        """On a free port of loopback."""
        config = uvicorn.Config(self.app(), port=0, log_level="critical", lifespan="on")
        config.load()
        config.ssl = self.authority.server(HOST) if tls else None
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        with contextlib.suppress(SystemExit):
            await server.startup()
        self.port = server.servers[0].sockets[0].getsockname()[1]
        running = asyncio.create_task(server.main_loop())
        try:
            yield
        finally:
            server.should_exit = True
            await running
            await server.shutdown()

    def transport(self) -> HttpsTransport:
        """A transport that finds it: a test's allowance for loopback, on its port, under its authority."""
        return transport(self.authority, self.port)


def transport(authority: Authority, port: int) -> HttpsTransport:
    """A transport to a server on loopback under a test's authority."""
    return HttpsTransport(resolver=_loopback, tls_context=authority.trusting, loopback=Loopback(port), deadline_s=10)


async def _loopback(host: str) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture(scope="session")
def authority() -> Authority:
    """A certificate authority of the tests' own."""
    return Authority()


@pytest.fixture
async def harbour(authority: Authority) -> AsyncIterator[Harbour]:
    """A server over TLS on loopback."""
    server = Harbour(authority)
    async with server.serving():
        yield server


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Lab]:
    """Makes a laboratory whose agent `clerk` plays `script`; `manifest` are keys of its agent.yaml."""

    def make(script: Any, files: Mapping[str, str] | None = None, host: Any = None, **manifest: Any) -> Lab:
        lab = Lab(tmp_path, {"clerk": script}, **(host or {}))
        skills = ["local"] if files else []
        lab.agent("clerk", files=files, skills=skills, **manifest)
        return lab

    return make
