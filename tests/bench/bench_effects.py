"""What an effect costs beside a bare pinned HTTPS request, and redaction for each megabyte: one JSON object."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import sys
import time
from collections.abc import Sequence
from typing import Any

import httpcore

from core import Allowed, Binding, EffectPolicy, EffectRequest, EffectResponse, Redactor
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


async def _compare() -> tuple[float, float]:
    authority = Authority()
    body = json.dumps([{"id": n, "name": f"item {n}"} for n in range(30)]).encode()

    async def resolve(host: str) -> Sequence[str]:
        return ["127.0.0.1"]

    async with TlsServer(authority, [answer(body, headers=["Content-Type: application/json"])]) as server:
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
    bare_ms, effect_ms = asyncio.run(_compare())
    noise = random.Random(7).randbytes(1_000_000)
    record = b'{"id": 17, "text": "some \\"quoted\\" words & signs, 50% off", "path": "a\\/b"},\n'
    redact_ms = {
        "json": _redact((record * (1_000_000 // len(record) + 1))[:1_000_000]),
        "base64": _redact(base64.b64encode(noise)[:1_000_000]),
        "binary": _redact(noise),
    }
    added = effect_ms - bare_ms
    return {
        "name": "effect",
        "bare_ms": round(bare_ms, 2),
        "effect_ms": round(effect_ms, 2),
        "added_ms": round(added, 2),
        "limit_ms": LIMIT_MS,
        "redact_ms_per_mb": {kind: round(cost, 1) for kind, cost in redact_ms.items()},
        "redact_limit_ms": REDACT_LIMIT_MS,
        "passed": added <= LIMIT_MS and max(redact_ms.values()) <= REDACT_LIMIT_MS,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run()) + "\n")
