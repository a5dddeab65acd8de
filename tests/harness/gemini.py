"""A Gemini API on loopback that plays turns, for the agent CLIs that speak to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from impl.providers._gemini_pump import renamed
from tests.harness.clis import Model, Turn
from tests.harness.servers import Asked, Reply, sse

TOKENS = {"promptTokenCount": 100, "candidatesTokenCount": 10, "thoughtsTokenCount": 5, "cachedContentTokenCount": 20}
"""What each request is counted as: 15 tokens are written, 5 of them thoughts."""


class GeminiModel(Model):
    """As Model, for a path that names the model and the method: use `models` for those that were asked."""

    def __init__(self, *turns: Turn) -> None:
        super().__init__(_dialect, "", turns)
        self.models: list[str] = []

    def _reply(self, asked: Asked) -> Reply:
        if "enerateContent" not in asked.path:
            return Reply(b"{}", 200, {"content-type": "application/json"}, "length")
        self.models.append(asked.path.rpartition("/")[2].partition(":")[0])
        return super()._reply(asked)


def _dialect(parts: Sequence[Any], model: str) -> bytes:
    rows = [{"text": part} if isinstance(part, str) else _call(part) for part in parts]
    chunks: list[dict[str, Any]] = [{"candidates": [{"content": {"role": "model", "parts": [row]}}]} for row in rows]
    last = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}
    total = sum(TOKENS[name] for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"))
    chunks.append({"candidates": [last], "usageMetadata": {**TOKENS, "totalTokenCount": total}})
    return sse(*chunks)


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    name = given["use"] if given.get("native") else f"mcp_artificer_{renamed(given['use'])}"
    return {"functionCall": {"name": name, "args": given["args"]}}


def refused_by_gemini(status: int, message: str) -> Reply:
    """An HTTP error as this vendor sends it."""
    body = {"error": {"code": status, "message": message, "status": "FAILED"}}
    return Reply(json.dumps(body).encode(), status, {"content-type": "application/json"}, "length")
