"""Our MCP server as Gemini CLI needs it: `python -m impl.providers._gemini_pump` in place of `impl.mcp.server`.

It takes a result whose first text reads as JSON for structured content, and refuses it where that is no object: a tool
that answers `3` or `[]` would have failed. An empty text before it reads as nothing. And what it leaves out when nobody
sits at it, it leaves out of everyone's tools: `ask_user` has another name there.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from impl.mcp.server import Call, Pump, ask_owner, die_with_owner

_PLAIN: Final = "impl.mcp.server"
_RENAMED: Final = {"ask_user": "ask_the_user"}
_RESTORED: Final = {theirs: ours for ours, theirs in _RENAMED.items()}


def for_gemini(command: Sequence[str]) -> list[str]:
    """The command of our server, so that it is this module."""
    return [__name__ if word == _PLAIN else word for word in command]


def renamed(name: str) -> str:
    """What a tool of ours is called there."""
    return _RENAMED.get(name, name)


def restored(name: str) -> str:
    """What a tool that is called so there is called here."""
    return _RESTORED.get(name, name)


class GeminiPump(Pump):
    """A pump whose tools are all offered, and whose results are never taken for structured content."""

    def _call(self, id: Any, params: dict[str, Any], call: Call) -> None:
        super()._call(id, {**params, "name": restored(params["name"])}, call)

    def _result(self, id: Any, result: dict[str, Any]) -> None:
        tools, content = result.get("tools"), result.get("content")
        if isinstance(tools, list):
            result = {**result, "tools": [{**row, "name": renamed(row["name"])} for row in tools]}
        if isinstance(content, list) and content and _misread(str(content[0].get("text", ""))):
            result = {**result, "content": [{"type": "text", "text": ""}, *content]}
        super()._result(id, result)


def _misread(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def main() -> None:
    """Entry point of the process that Gemini CLI starts; as `impl.mcp.server.main`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--die-with-owner", action="store_true")
    given = parser.parse_args()
    if given.die_with_owner:
        threading.Thread(target=die_with_owner, args=(given.socket,), daemon=True).start()
    GeminiPump(given.session, lambda request, call: ask_owner(given.socket, request, call), sys.stdout.buffer).run(
        sys.stdin.buffer
    )


if __name__ == "__main__":
    main()
