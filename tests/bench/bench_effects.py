"""What an effect costs beside a bare pinned HTTPS request, in the transport alone and as a tool in its sandbox waits
for it, and redaction for each megabyte: one JSON object."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpcore

from core import (
    Allowed,
    Binding,
    EffectPolicy,
    EffectRequest,
    EffectResponse,
    Redactor,
    SessionInfo,
    read_manifest,
    read_tool,
)
from impl.compose import build_host
from impl.settings import Settings
from impl.tools.process import run_tool
from impl.tools.shop import ToolShop
from impl.transport.exchange import PinnedBackend
from impl.transport.https import HttpsTransport, Loopback
from tests.harness.tls import Authority, TlsServer, answer

ROUNDS = 80
LIMIT_MS = 2.0
REDACT_LIMIT_MS = 100.0
SECRET = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH"
POLICY = EffectPolicy(
    ["api.example.com"], {"token": Binding(("api.example.com",), header="Authorization", format="Bearer {secret}")}
)


async def bare(port: int, context: ssl.SSLContext) -> None:
    """The same request with nothing around it: a connection to a given address, and the body read."""
    backend = PinnedBackend([("127.0.0.1", port)], lambda: None)
    origin = httpcore.Origin(b"https", b"api.example.com", 443)
    headers = [
        (b"Host", b"api.example.com"),
        (b"Authorization", f"Bearer {SECRET}".encode()),
        (b"Connection", b"close"),
    ]
    async with httpcore.AsyncHTTPConnection(origin, ssl_context=context, network_backend=backend) as connection:
        response = await connection.handle_async_request(
            httpcore.Request(b"GET", httpcore.URL("https://api.example.com/items?page=1"), headers=headers)
        )
        await response.aread()


async def effect(transport: HttpsTransport) -> None:
    """From what a tool asks for to the redacted answer in the form it is replayed in."""
    request = POLICY.check(EffectRequest("GET", "https://api.example.com/items?page=1", [], b"", "token"))
    assert isinstance(request, Allowed)
    response = await transport.perform(request, POLICY, {"token": SECRET})
    assert isinstance(response, EffectResponse)
    json.dumps(response.to_json())


async def resolve(host: str) -> Sequence[str]:
    """The server on loopback, whatever is asked for."""
    return ["127.0.0.1"]


def serving(authority: Authority) -> TlsServer:
    """A server that answers with a page of a list."""
    body = json.dumps([{"id": n, "name": f"item {n}"} for n in range(30)]).encode()
    return TlsServer(authority, [answer(body, headers=["Content-Type: application/json"])])


async def _in_transport() -> tuple[float, float]:
    """(bare, transport alone): the least of interleaved rounds, in milliseconds."""
    authority = Authority()
    async with serving(authority) as server:
        transport = HttpsTransport(resolver=resolve, tls_context=authority.trusting, loopback=Loopback(server.port))
        best = [float("inf"), float("inf")]
        for round_ in range(ROUNDS):
            start = time.perf_counter()
            await bare(server.port, authority.trusting)
            between = time.perf_counter()
            await effect(transport)
            end = time.perf_counter()
            if round_ >= 5:  # warm
                best = [min(best[0], between - start), min(best[1], end - between)]
    return best[0] * 1_000, best[1] * 1_000


# --- as a tool waits for it ----------------------------------------------------------------------------

BLOCKS = 12
A_BLOCK = 12
TOOL = """import time


def run(ctx, input):
    took = []
    for _ in range(input["count"]):
        began = time.perf_counter()
        answer = ctx.http.request("GET", "https://api.example.com/items?page=1", credential="TOKEN")
        took.append(time.perf_counter() - began)
        assert answer.status == 200 and len(answer.json()) == 30
    return took
"""
MANIFESTS = {
    "agent.yaml": """schema: artificer/v1
name: measured
description: Asks.
tools: [ask]
credentials:
  - {name: TOKEN, hosts: [api.example.com], header: Authorization, format: "Bearer {secret}"}
""",
    "persona.md": "You ask.\n",
    "tools/ask/tool.yaml": """name: ask
description: Asks.
input_schema: {type: object, properties: {count: {type: integer}}, required: [count]}
credentials: [TOKEN]
hosts: [api.example.com]
""",
    "tools/ask/tool.py": TOOL,
}


def bundle(root: Path) -> Path:
    """A bundle whose one tool asks as often as it is told, and says how long it waited each time."""
    for path, text in MANIFESTS.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


async def _in_tool(directory: Path) -> dict[str, Any]:
    """The least of interleaved blocks, in milliseconds: what a warm tool process waits for an effect that is checked,
    recorded durably, performed over TLS, redacted and answered; and the bare request beside it."""
    authority = Authority()
    host = build_host(directory / "home", Settings())
    sandbox, _ = await host.sandboxes.choose("bubblewrap")
    host.store.create_session(SessionInfo("s1", "run"), [("started", {})])
    root = bundle(directory / "bundle")
    async with serving(authority) as server:
        host.transport = HttpsTransport(
            resolver=resolve, tls_context=authority.trusting, loopback=Loopback(server.port)
        )
        place = directory / "home" / "workspaces" / "s1" / "tools"
        shop = ToolShop(host, "s1", "measured", root, place, read_manifest(root), sandbox, lambda name: SECRET)
        best = {"bare": float("inf"), "tool": float("inf")}
        for block in range(BLOCKS):
            for _ in range(A_BLOCK):
                start = time.perf_counter()
                await bare(server.port, authority.trusting)
                best["bare"] = min(best["bare"], time.perf_counter() - start)
            for took in await _call(shop, f"c{block}"):
                best["tool"] = min(best["tool"], took)
        await shop.close()
    host.store.close()
    return {name: least * 1_000 for name, least in best.items()}


async def _call(shop: ToolShop, call: str) -> list[float]:
    """How long the tool waited for each effect of one call."""
    tool = read_tool(shop.root / "tools" / "ask")

    def emit(kind: str, data: Mapping[str, Any]) -> None:
        shop.host.store.append(shop.session, [(kind, data)])

    ran = await run_tool(
        await shop.opened(),
        entrypoint="ask/tool.py",
        input={"count": A_BLOCK},
        broker=shop.broker("ask", tool, call, emit),
        log=lambda text: None,
        timeout=60,
    )
    assert ran.error is None, ran
    took: list[float] = ran.value
    return took


def _redact(data: bytes) -> float:
    best = float("inf")
    for _ in range(5):
        redactor = Redactor({"token": SECRET})
        start = time.perf_counter()
        for at in range(0, len(data), 65_536):
            redactor.feed(data[at : at + 65_536])
        redactor.flush()
        best = min(best, time.perf_counter() - start)
    return best * 1_000


def run() -> dict[str, Any]:
    """Interleaved, the minimum of many rounds; milliseconds."""
    bare_ms, effect_ms = asyncio.run(_in_transport())
    with tempfile.TemporaryDirectory() as directory:
        in_tool = asyncio.run(_in_tool(Path(directory)))
    noise = random.Random(7).randbytes(1_000_000)
    record = b'{"id": 17, "text": "some \\"quoted\\" words & signs, 50% off", "path": "a\\/b"},\n'
    redact_ms = {
        "json": _redact((record * (1_000_000 // len(record) + 1))[:1_000_000]),
        "base64": _redact(base64.b64encode(noise)[:1_000_000]),
        "binary": _redact(noise),
    }
    added = in_tool["tool"] - in_tool["bare"]
    return {
        "name": "effect",
        "bare_ms": round(in_tool["bare"], 2),
        "effect_ms": round(in_tool["tool"], 2),
        "added_ms": round(added, 2),
        "transport_alone_added_ms": round(effect_ms - bare_ms, 2),
        "limit_ms": LIMIT_MS,
        "redact_ms_per_mb": {kind: round(cost, 1) for kind, cost in redact_ms.items()},
        "redact_limit_ms": REDACT_LIMIT_MS,
        "passed": added <= LIMIT_MS and max(redact_ms.values()) <= REDACT_LIMIT_MS,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run()) + "\n")
