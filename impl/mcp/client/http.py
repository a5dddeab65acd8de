"""MCP over HTTPS: every request of the SDK is checked, signed and performed as an effect."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from core import Denied, EffectPolicy, EffectRequest, EffectResponse, Transport
from impl.mcp.client.problems import AUTH, ERROR, OURS, PROTOCOL, UNAVAILABLE, plain

_HEADERS: Final = ("accept", "content-type", "last-event-id")
"""What the SDK may say besides its own `mcp-` headers; the rest belongs to the transport or the credential."""
MAX_EVENT: Final = 10 * 1024 * 1024


class EffectWire(httpx2.AsyncBaseTransport):
    """Carries the SDK's requests. `secrets` are the values that go in and are redacted from what comes back.

    An answer is read whole, so a server can call nothing back; it is told that there is no stream for that.
    """

    def __init__(self, transport: Transport, policy: EffectPolicy, credential: str | None) -> None:
        self._transport = transport
        self._policy = policy
        self._credential = credential
        self.secrets: Mapping[str, str] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Perform one request. What the policy or the transport denies comes back as an answer that says so."""
        if request.method == "GET":
            return httpx2.Response(405, request=request)
        asked = EffectRequest(
            method=request.method,
            url=str(request.url),
            headers=tuple((n, v) for n, v in request.headers.multi_items() if n in _HEADERS or n.startswith("mcp-")),
            body=await request.aread(),
            credential=self._credential,
        )
        verdict = self._policy.check(asked)
        if isinstance(verdict, Denied):
            return _said(request, verdict.reason.value, verdict.detail, sent=False)
        outcome = await self._transport.perform(verdict, self._policy, self.secrets)
        if isinstance(outcome, Denied):
            return _said(request, outcome.reason.value, outcome.detail, sent=outcome.sent)
        if (wrong := self._wrong(request, outcome)) is not None:
            return wrong
        headers = [(name, value) for name, value in outcome.headers if name != "content-encoding"]
        return httpx2.Response(outcome.status, headers=headers, content=outcome.body, request=request)

    def _wrong(self, request: httpx2.Request, answer: EffectResponse) -> httpx2.Response | None:
        """What an answer says that is none of MCP's, None where it may be one."""
        status, kind = answer.status, dict(answer.headers).get("content-type", "").lower()
        if status in (401, 403):
            return _said(request, AUTH, self._not_accepted(status), sent=False)
        if status == 404 and "mcp-session-id" in request.headers:
            return _said(request, UNAVAILABLE, "it has ended the session; the next call begins another", sent=False)
        if request.method != "POST" or status == 202 or kind.startswith(("application/json", "text/event-stream")):
            return None
        if status >= 400:
            return _said(request, ERROR, f"it answered {status}", sent=True)
        return _said(request, PROTOCOL, f"it answered {plain(kind, 60) or 'nothing'}, which is not MCP", sent=True)

    def _not_accepted(self, status: int) -> str:
        if self._credential is None:
            return f"it answered {status}: it wants a credential, and agent.yaml names none for it"
        return f"it answered {status}: it does not accept the value of {self._credential}; set it again"


def _said(request: httpx2.Request, code: str, detail: str, *, sent: bool) -> httpx2.Response:
    """An answer in the server's place: a JSON-RPC error that `impl.mcp.client.connection.read_error` reads."""
    data: dict[str, Any] = {"artificer": OURS, "code": code, "sent": sent}
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": detail, "data": data}}
    content = json.dumps(body).encode()
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=content, request=request)


@contextlib.asynccontextmanager
async def http_streams(url: str, wire: EffectWire) -> AsyncIterator[tuple[Any, Any]]:
    """The SDK's transport over `wire`: no proxy, cookie or setting of this machine takes part."""
    async with (
        httpx2.AsyncClient(transport=wire, trust_env=False, timeout=None) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_EVENT) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def local_streams(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """The SDK's transport to a stand-in on this machine, which a suite names."""
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=None) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_EVENT) as streams,
    ):
        yield streams
