"""What the lines of `codex exec --json` mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from core import (
    CliCall,
    CliDelta,
    CliEnd,
    CliEvent,
    CliExit,
    CliFigures,
    CliNotice,
    CliResult,
    CliSession,
    CliText,
    Usage,
)
from impl.providers._cli_lines import FROM_OUTSIDE, last_line, line_object, number, part, status_detail, text_of

_UNKNOWN: Final = re.compile(r"no rollout found|thread not found|session not found", re.I)
_STATUS: Final = re.compile(r"status (\d{3})")
_RETRY: Final = re.compile(r"^Reconnecting")
_FINAL: Final = frozenset({400, 401, 402, 403})
"""Statuses that trying again cannot heal."""
_TAIL: Final = 1 << 20


class CodexParser:
    """Reads one invocation. `server` is ours: calls of its tools are; `gives_up_at_once` ends it at the first failure
    that trying again cannot heal (a login may still be refreshed)."""

    def __init__(self, server: str, *, gives_up_at_once: bool) -> None:
        self._server = server
        self._gives_up = gives_up_at_once
        self._began: set[str] = set()
        self._said: set[str] = set()
        self._requests = 0
        self._error = ""
        self._ended = False

    def feed(self, line: str) -> Sequence[CliEvent]:
        """The events one line stands for."""
        data = line_object(line)
        if data is None:
            return ()
        match data.get("type"):
            case "thread.started" if data.get("thread_id"):
                return [CliSession(str(data["thread_id"]))]
            case "item.started" | "item.updated":
                return list(self._begun(part(data, "item")))
            case "item.completed":
                return list(self._completed(part(data, "item")))
            case "turn.completed":
                self._ended = True
                return [CliFigures(_usage(part(data, "usage"), self._requests + 1)), CliEnd("reply")]
            case "turn.failed":
                self._ended = True
                return [self._failed(str(part(data, "error").get("message") or self._error or "Codex failed."))]
            case "error":
                return list(self._trouble(str(data.get("message", ""))))
            case _:
                return ()

    def finish(self, exit: CliExit) -> Sequence[CliEvent]:
        """Where no turn was completed or failed, the exit and stderr say how it ended."""
        if self._ended:
            return ()
        words = _complaint(exit.stderr)
        if _UNKNOWN.search(words):
            return [CliEnd("unknown_session", message=words)]
        if self._error:
            return [self._failed(self._error)]
        if exit.code <= 0 or exit.code in FROM_OUTSIDE:
            message = f"Codex ended in the middle of its turn (exit code {exit.code})."
            return [CliEnd("error", detail="incomplete", message=message, hint="Resume the session to try again.")]
        return [self._failed(words or f"Codex ended with exit code {exit.code}.")]

    # --- items -------------------------------------------------------------------------------------

    def _begun(self, item: Mapping[str, Any]) -> Iterator[CliEvent]:
        call = self._call(item)
        if call is not None and call.id not in self._began:
            self._began.add(call.id)
            yield call

    def _completed(self, item: Mapping[str, Any]) -> Iterator[CliEvent]:
        match item.get("type"):
            case "agent_message":
                yield CliText(str(item.get("text", "")))
            case "reasoning":
                yield CliDelta(thinking=str(item.get("text", "")))
            case "error":
                yield from self._warned(str(item.get("message", "")))
            case _:
                yield from self._begun(item)
                if str(item.get("id", "")) in self._began:
                    self._requests += 1
                    yield _result(item)

    def _call(self, item: Mapping[str, Any]) -> CliCall | None:
        id = str(item.get("id", ""))
        match item.get("type"):
            case "mcp_tool_call" if item.get("server") == self._server:
                return CliCall(id, str(item.get("tool", "")), part(item, "arguments"), ours=True)
            case "mcp_tool_call":
                return CliCall(id, f"{item.get('server')}.{item.get('tool')}", part(item, "arguments"))
            case "command_execution":
                return CliCall(id, "shell", {"command": item.get("command")})
            case "file_change":
                return CliCall(id, "apply_patch", {"changes": item.get("changes")})
            case "web_search":
                return CliCall(id, "web_search", {"query": item.get("query")})
            case _:
                return None

    def _warned(self, text: str) -> Iterator[CliEvent]:
        """An item of type error is a warning; many come twice."""
        if text and text not in self._said:
            self._said.add(text)
            yield CliNotice(f"Codex: {text}")

    def _trouble(self, text: str) -> Iterator[CliEvent]:
        """Reconnecting is not fatal by itself; anything else is said again by what ends the turn."""
        status = _status(text)
        if self._gives_up and status in _FINAL:
            self._ended = True
            yield self._failed(text)
        elif _RETRY.match(text):
            yield CliNotice(f"Codex: {text}")
        else:
            self._error = text

    def _failed(self, message: str) -> CliEnd:
        status = _status(message)
        detail = _detail(status, message)
        hint = "Log in: codex login, or set a key and use codex:api." if detail == "auth" else ""
        return CliEnd("error", detail=detail, message=message[:2000], hint=hint, final=status in _FINAL)


def _result(item: Mapping[str, Any]) -> CliResult:
    id, status = str(item.get("id", "")), item.get("status")
    match item.get("type"):
        case "mcp_tool_call":
            error = item.get("error")
            if error:
                words = error.get("message") if isinstance(error, dict) else error
                return CliResult(id, False, str(words))
            return CliResult(id, status != "failed", text_of(part(item, "result").get("content")))
        case "command_execution":
            return CliResult(id, item.get("exit_code") == 0, str(item.get("aggregated_output", "")))
        case _:
            return CliResult(id, status not in ("failed", "declined"), str(status or ""))


def _usage(data: Mapping[str, Any], requests: int) -> Usage:
    """Of the thread so far: a fork's begins at its parent's."""
    return Usage(
        input_tokens=number(data, "input_tokens"),
        output_tokens=number(data, "output_tokens"),
        cached_tokens=number(data, "cached_input_tokens"),
        cache_write_tokens=number(data, "cache_write_input_tokens"),
        requests=requests,
    )


def last_count(path: Path) -> CliFigures | None:
    """The thread's tokens as its transcript counted them last; None where it never did."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        if '"token_count"' not in line:
            continue
        total = part(part(part(line_object(line) or {}, "payload"), "info"), "total_token_usage")
        if total:
            return CliFigures(_usage(total, 1))
    return None


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _detail(status: int | None, words: str) -> str:
    if re.search(r"usage limit|quota|billing|insufficient", words, re.I):
        return "quota"
    if re.search(r"context window|context length|too long", words, re.I):
        return "context"
    if status is not None:
        return status_detail(status)
    if re.search(r"not logged in|log in|api key|unauthorized", words, re.I):
        return "auth"
    if re.search(r"trusted directory|config\.toml|configuration|instructions", words, re.I):
        return "bad_request"
    if re.search(r"stream disconnected|error sending request|connection", words, re.I):
        return "network"
    return "server"


def _complaint(stderr: str) -> str:
    """What it says went wrong, without the trace that follows."""
    lines = stderr.partition("Stack backtrace:")[0].splitlines()
    error = next((line for line in lines if line.startswith("Error")), None)
    return error[:500] if error else last_line("\n".join(x for x in lines if not x.startswith("Reading additional")))
