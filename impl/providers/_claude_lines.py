"""What the lines of `claude -p --output-format stream-json` mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
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
from impl.providers._cli_lines import (
    FROM_OUTSIDE,
    dollars,
    last_line,
    line_object,
    number,
    part,
    status_detail,
    text_of,
    whole,
)

UNKNOWN: Final = "No conversation found"
_FINAL: Final = frozenset({400, 401, 402, 403})
"""Statuses that trying again cannot heal."""


class ClaudeParser:
    """Reads one invocation. `prefix` marks calls of our tools; `gives_up_at_once` ends it at the first failure that
    trying again cannot heal (a login may still be refreshed)."""

    def __init__(self, prefix: str, *, gives_up_at_once: bool) -> None:
        self._prefix = prefix
        self._gives_up = gives_up_at_once
        self._requests = 0
        self._before = Usage(requests=0)
        self._current = Usage(requests=0)
        self._ended = False

    def feed(self, line: str) -> Sequence[CliEvent]:
        """The events one line stands for; `type` may stand anywhere in it."""
        data = line_object(line)
        if data is None or data.get("parent_tool_use_id"):
            return ()
        match data.get("type"):
            case "system":
                return list(self._system(data))
            case "stream_event":
                return list(self._streamed(part(data, "event")))
            case "assistant":
                return list(self._said(data))
            case "user":
                return list(self._results(data))
            case "result":
                return self._result(data)
            case _:
                return ()

    def finish(self, exit: CliExit) -> Sequence[CliEvent]:
        """Where no result came, the exit and stderr say how it ended."""
        if self._ended:
            return ()
        words = last_line(exit.stderr)
        if UNKNOWN in exit.stderr:
            return [CliEnd("unknown_session", message=words)]
        if exit.code < 0 or exit.code in FROM_OUTSIDE:
            message = f"Claude Code was ended from outside (exit code {exit.code})."
            return [CliEnd("error", detail="incomplete", message=message, hint="Resume the session to try again.")]
        if "unknown option" in words:
            hint = "Update Claude Code: npm install -g @anthropic-ai/claude-code"
            return [CliEnd("error", detail="capability", message=f"This Claude Code is too old: {words}", hint=hint)]
        if "already in use" in words:
            return [CliEnd("error", detail="bad_request", message=words, hint="Resume the session to try again.")]
        message = f"Claude Code ended without a result (exit code {exit.code}). {words}".strip()
        return [CliEnd("error", detail=_detail(None, words, "incomplete"), message=message)]

    # --- lines -------------------------------------------------------------------------------------

    def _system(self, data: Mapping[str, Any]) -> Iterator[CliEvent]:
        match data.get("subtype"):
            case "init" if data.get("session_id"):
                model = data.get("model")
                yield CliSession(str(data["session_id"]), model if isinstance(model, str) else None)
            case "api_retry":
                status, words = whole(data, "error_status"), str(data.get("error") or "unknown")
                if self._gives_up and status in _FINAL:
                    self._ended = True
                    yield _failed(status, f"Claude Code was refused: {words} ({status}).")
                    return
                number_of = f"{data.get('attempt')} of {data.get('max_retries')}"
                yield CliNotice(f"Claude Code tries again ({number_of}): {words} ({status}).")
            case "compact_boundary":
                yield CliNotice("Claude Code has compacted its own view of this conversation.")
            case _:
                return

    def _streamed(self, event: Mapping[str, Any]) -> Iterator[CliEvent]:
        match event.get("type"):
            case "message_start":
                self._begin(part(part(event, "message"), "usage"))
            case "message_delta":
                self._current = replace(self._current, output_tokens=number(part(event, "usage"), "output_tokens"))
                yield CliFigures(_sum(self._before, self._current), interim=True)
            case _:
                pass
        delta = part(event, "delta")
        match delta.get("type"):
            case "text_delta":
                yield CliDelta(text=str(delta.get("text", "")))
            case "thinking_delta":
                yield CliDelta(thinking=str(delta.get("thinking", "")))
            case _:
                return

    def _begin(self, usage: Mapping[str, Any]) -> None:
        """One more request: what those before it used is settled."""
        self._requests += 1
        self._before = _sum(self._before, self._current)
        read, written = number(usage, "cache_read_input_tokens"), number(usage, "cache_creation_input_tokens")
        whole = number(usage, "input_tokens") + read + written
        self._current = Usage(whole, number(usage, "output_tokens"), read, written, 1)

    def _said(self, data: Mapping[str, Any]) -> Iterator[CliEvent]:
        """One frame holds one block; its usage undercounts."""
        message = part(data, "message")
        if data.get("is_api_error_message") or message.get("model") == "<synthetic>":
            return
        model = message.get("model")
        for block in _blocks(message):
            match block.get("type"):
                case "text":
                    yield CliText(str(block.get("text", "")), model if isinstance(model, str) else None)
                case "tool_use":
                    name = str(block.get("name", ""))
                    ours = name.startswith(self._prefix)
                    args = part(block, "input")
                    yield CliCall(str(block.get("id", "")), name.removeprefix(self._prefix), args, ours)
                case _:
                    pass

    def _results(self, data: Mapping[str, Any]) -> Iterator[CliEvent]:
        for block in _blocks(part(data, "message")):
            if block.get("type") == "tool_result":
                ok = not block.get("is_error")
                yield CliResult(str(block.get("tool_use_id", "")), ok, text_of(block.get("content")))

    # --- the end -----------------------------------------------------------------------------------

    def _result(self, data: Mapping[str, Any]) -> list[CliEvent]:
        self._ended = True
        figures = self._figures(data)
        return [*([figures] if figures else []), _end(data)]

    def _figures(self, data: Mapping[str, Any]) -> CliFigures | None:
        """This call's own: `total_cost_usd` counts what was resumed, and what a fork inherited, again."""
        rows = [row for row in part(data, "model_usage_since_last_result").values() if isinstance(row, dict)]
        if not rows:
            return None
        usd: Decimal | None = Decimal(0)
        for row in rows:
            cost = dollars(row, "costUSD") if row.get("costBasis", "list") != "unknown" else None
            usd = usd + cost if usd is not None and cost is not None else None
        read = sum(number(row, "cacheReadInputTokens") for row in rows)
        written = sum(number(row, "cacheCreationInputTokens") for row in rows)
        usage = Usage(
            input_tokens=sum(number(row, "inputTokens") for row in rows) + read + written,
            output_tokens=sum(number(row, "outputTokens") for row in rows),
            cached_tokens=read,
            cache_write_tokens=written,
            requests=max(1, self._requests or number(data, "num_turns")),
        )
        return CliFigures(usage, usd)


def _sum(a: Usage, b: Usage) -> Usage:
    return Usage(
        a.input_tokens + b.input_tokens,
        a.output_tokens + b.output_tokens,
        a.cached_tokens + b.cached_tokens,
        a.cache_write_tokens + b.cache_write_tokens,
        a.requests + b.requests,
    )


def _end(data: Mapping[str, Any]) -> CliEnd:
    """The ending a result frame stands for: `success` says only that the CLI itself did not fail."""
    given = data.get("errors")
    errors = " ".join(error for error in given if isinstance(error, str)) if isinstance(given, list) else ""
    text = data.get("result") if isinstance(data.get("result"), str) else ""
    match data.get("subtype"):
        case "success" if not data.get("is_error"):
            return CliEnd("refused" if data.get("stop_reason") == "refusal" else "reply", text=text or "")
        case "success":
            return _failed(whole(data, "api_error_status"), text or "Claude Code failed.")
        case "error_max_budget_usd":
            return CliEnd("budget", message=errors)
        case "error_during_execution" if str(data.get("terminal_reason", "")).startswith("aborted"):
            return CliEnd("cancelled")
        case _ if UNKNOWN in errors:
            return CliEnd("unknown_session", message=errors)
        case subtype:
            return CliEnd("error", detail="server", message=f"Claude Code ended with {subtype}. {errors}".strip())


def _failed(status: int | None, message: str) -> CliEnd:
    detail = _detail(status, message, "server")
    hint = "Log in: claude auth login, or set a key and use claude_code:api." if detail == "auth" else ""
    return CliEnd("error", detail=detail, message=message, hint=hint, final=status in _FINAL)


def _detail(status: int | None, words: str, otherwise: str) -> str:
    if re.search(r"/login|not logged in|log in|api key|authenticat", words, re.I):
        return "auth"
    if re.search(r"usage limit|credit balance|quota|billing", words, re.I):
        return "quota"
    if re.search(r"prompt is too long|context window", words, re.I):
        return "context"
    return status_detail(status) if status is not None else otherwise


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
