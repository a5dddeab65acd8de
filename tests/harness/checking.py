"""A model server that holds every request to what both APIs demand of a history, and to the shared prefix.

`violations` lists what was wrong, empty where nothing was. A request whose system text is the summary prompt
of a compaction is answered apart and starts a new prefix, as does a change of model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.harness.servers import Asked, FakeServer, Reply, anthropic_stream, openai_stream

#: What the script is given: how many turns were asked before, and the decoded request.
Script = Callable[[int, dict[str, Any]], Reply | Sequence[Any] | str]


class CheckingServer:
    """A loopback server of either API; `script(turn, request)` gives the parts of each reply. `summary` is the
    answer to a request for one, or makes it of that request."""

    def __init__(
        self, api: str, script: Script, summary: str | Callable[[str], str] = "Everything so far, in short."
    ) -> None:
        self.api = api
        self.violations: list[str] = []
        self.turns = 0
        self.compactions = 0
        self._script = script
        self._summary = summary
        self._before: list[str] = []
        self._model: str | None = None
        self.server = FakeServer(self._answer)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that send a provider here."""
        if self.api == "anthropic":
            return {"ANTHROPIC_BASE_URL": self.server.url, "ANTHROPIC_API_KEY": "sk-ant-none-0000000000"}
        return {"OPENAI_BASE_URL": f"{self.server.url}/v1", "OPENAI_API_KEY": ""}

    def _answer(self, asked: Asked) -> Reply:
        request = asked.json
        if self._is_summary(request):
            self.compactions += 1
            self._before = []
            summary = self._summary(json.dumps(request)) if callable(self._summary) else self._summary
            return self._reply([summary])
        self._check(request)
        turn, self.turns = self.turns, self.turns + 1
        given = self._script(turn, request)
        if isinstance(given, Reply):
            return given
        return self._reply([given] if isinstance(given, str) else given)

    def _reply(self, parts: Sequence[Any]) -> Reply:
        return Reply(anthropic_stream(*parts) if self.api == "anthropic" else openai_stream(*parts))

    def _is_summary(self, request: dict[str, Any]) -> bool:
        return "Write only the summary" in json.dumps(request)

    def _check(self, request: dict[str, Any]) -> None:
        messages = request["messages"]
        problems = _anthropic(messages) if self.api == "anthropic" else _openai(messages)
        self.violations += [f"turn {self.turns}: {problem}" for problem in problems]
        now = [json.dumps(_unmarked(message), sort_keys=True) for message in messages]
        if self._model == request.get("model") and now[: len(self._before)] != self._before:
            self.violations.append(f"turn {self.turns}: the earlier messages are no prefix of these")
        self._before, self._model = now, request.get("model")


def _unmarked(value: Any) -> Any:
    """Without cache markers, which may move."""
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    return value


def _openai(messages: list[dict[str, Any]]) -> list[str]:
    """What a strict chat completions server would refuse."""
    found: list[str] = []
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if not open_calls or message["tool_call_id"] != open_calls.pop(0):
                found.append(f"message {number}: a result out of order or without its call")
            continue
        if open_calls:
            found.append(f"message {number}: calls without results: {open_calls}")
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        for call in message.get("tool_calls") or ():
            try:
                sound = isinstance(json.loads(call["function"]["arguments"]), dict)
            except ValueError:
                sound = False
            if not sound:
                found.append(f"message {number}: arguments that are no JSON object")
        if role == "assistant" and not message.get("content") and not open_calls:
            found.append(f"message {number}: an empty answer")
    if open_calls or messages[-1]["role"] == "assistant":
        found.append("the last message is the model's")
    return found


def _anthropic(messages: list[dict[str, Any]]) -> list[str]:
    """What a strict Messages API server would refuse."""
    found: list[str] = []
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if message["role"] == "user":
            if results != open_calls or [b["type"] for b in blocks[: len(results)]] != ["tool_result"] * len(results):
                found.append(f"message {number}: results {results} for calls {open_calls}")
            open_calls = []
        else:
            if open_calls:
                found.append(f"message {number}: calls without results: {open_calls}")
            open_calls = [b["id"] for b in blocks if b["type"] == "tool_use"]
            found += [
                f"message {number}: input is no object" for b in blocks if not isinstance(b.get("input", {}), dict)
            ]
        if not blocks or any(b["type"] == "text" and not b["text"].strip() for b in blocks):
            found.append(f"message {number}: an empty block")
    if open_calls or messages[-1]["role"] == "assistant":
        found.append("the last message is the model's")
    return found
