"""A tool call as one line: what it does, and how it went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from core import Event
from tui.view.text import one_line, took


@dataclass(frozen=True, slots=True)
class CallLine:
    """`gist` is the command, or the arguments in brief. `result` says how it ended: `0.2 s`, `exit 1 · …`."""

    call: str
    tool: str
    gist: str
    state: Literal["running", "ok", "failed"] = "running"
    result: str = ""

    @property
    def sign(self) -> str:
        """How it went, without colour."""
        match self.state:
            case "running":
                return "▸"
            case "ok":
                return "✓"
            case "failed":
                return "✗"


def call_line(event: Event) -> CallLine:
    """The line of a `tool_call` event."""
    data = event.data
    tool, args = str(data.get("tool", "?")), data.get("args")
    return CallLine(str(data.get("call")), tool, gist(tool, args if isinstance(args, Mapping) else {}))


def gist(tool: str, args: Mapping[str, Any]) -> str:
    """The call in brief: `$ ls source`, `save_agent bundle`, `http_get {"url": …}`."""
    if tool == "run_sandbox" and isinstance(args.get("command"), str):
        return "$ " + one_line(args["command"], 200)
    if not args:
        return tool
    if len(args) == 1:
        value = next(iter(args.values()))
        return f"{tool} {one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 160)}"
    return f"{tool} {one_line(json.dumps(args, ensure_ascii=False), 160)}"


def finished(line: CallLine, data: Mapping[str, Any]) -> CallLine:
    """The line once its `tool_result` is there."""
    ok = bool(data.get("ok"))
    parts = []
    facts = data.get("data")
    code = facts.get("exit_code") if isinstance(facts, Mapping) else None
    if code:
        parts.append(f"exit {code}")
    if data.get("status") in ("skipped", "rejected", "unknown"):
        parts.append({"skipped": "did not run", "rejected": "not run", "unknown": "outcome unknown"}[data["status"]])
    seconds = data.get("duration_s")
    if isinstance(seconds, int | float) and seconds >= 0.05:
        parts.append(took(seconds))
    if not ok:
        parts.append(one_line(str(data.get("output", "")), 160))
    good = ok and not code
    return replace(line, state="ok" if good else "failed", result=" · ".join(part for part in parts if part))
