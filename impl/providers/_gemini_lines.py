"""What the lines of `gemini -o stream-json` mean, and what its chat files count."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
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
from impl.providers._cli_lines import FROM_OUTSIDE, last_line, line_object, number, part, status_detail
from impl.providers._gemini_pump import restored

Price = Callable[[str, Usage], Decimal | None]

_STATUS: Final = re.compile(r'"?(?:code|status)"?:? ?(\d{3})\b')
_BLOCKED: Final = re.compile(r"response was blocked", re.I)
_NOISE: Final = re.compile(r"^(Warning:|YOLO mode|Ripgrep is|Loaded cached|\[WARNING\])")
_FINAL: Final = frozenset({400, 401, 402, 403})
"""Statuses that trying again cannot heal."""
_LOGIN_HINT: Final = "Log in: gemini, or set a key and use gemini_cli:api."


class GeminiParser:
    """Reads one invocation. `prefix` marks calls of our tools; `price` knows what a model's tokens cost."""

    def __init__(self, prefix: str, price: Price) -> None:
        self._prefix = prefix
        self._price = price
        self._text: list[str] = []
        self._model: str | None = None
        self._requests = 1
        self._answered = False
        self._trouble = ""
        self._ended = False

    def feed(self, line: str) -> Sequence[CliEvent]:
        """The events one line stands for."""
        data = line_object(line)
        if data is None:
            return ()
        match data.get("type"):
            case "init" if data.get("session_id"):
                self._model = model if isinstance(model := data.get("model"), str) else None
                return [CliSession(str(data["session_id"]), self._model)]
            case "message" if data.get("role") == "assistant":
                return self._said(data)
            case "tool_use":
                return [*self._whole(), self._call(data)]
            case "tool_result":
                self._answered = True
                return [_result(data)]
            case "error":
                self._trouble = str(data.get("message", ""))
                return [CliNotice(f"Gemini CLI: {self._trouble}")]
            case "result":
                return [*self._whole(), *self._result(data)]
            case _:
                return ()

    def finish(self, exit: CliExit) -> Sequence[CliEvent]:
        """Where no result came, the exit and stderr say how it ended."""
        if self._ended:
            return ()
        return [*self._whole(), _ended(exit, self._trouble)]

    # --- lines -------------------------------------------------------------------------------------

    def _said(self, data: Mapping[str, Any]) -> list[CliEvent]:
        self._again()
        text = str(data.get("content", ""))
        self._text.append(text)
        return [CliDelta(text)] if data.get("delta") else self._whole()

    def _again(self) -> None:
        """What follows results is one more request's."""
        self._requests += self._answered
        self._answered = False

    def _whole(self) -> list[CliEvent]:
        """The text that came in pieces."""
        text, self._text = "".join(self._text), []
        return [CliText(text)] if text else []

    def _call(self, data: Mapping[str, Any]) -> CliCall:
        self._again()
        name = str(data.get("tool_name", ""))
        ours = name.startswith(self._prefix)
        name = restored(name.removeprefix(self._prefix)) if ours else name
        return CliCall(str(data.get("tool_id", "")), name, part(data, "parameters"), ours)

    def _result(self, data: Mapping[str, Any]) -> Iterator[CliEvent]:
        self._ended = True
        stats = part(data, "stats")
        # Where it does not say which model used what, all is of the one it began with.
        models = part(stats, "models") or {self._model or "": stats}
        counted = {name: _usage(row) for name, row in models.items() if isinstance(row, dict)}
        counted = {name: usage for name, usage in counted.items() if usage.input_tokens or usage.output_tokens}
        if counted:
            yield charged(counted, max(self._requests, len(counted)), self._price)
        if data.get("status") == "success":
            yield CliEnd("reply")
            return
        message = str(part(data, "error").get("message") or self._trouble or "Gemini CLI failed.")
        yield _failed(message)


def _result(data: Mapping[str, Any]) -> CliResult:
    ok = data.get("status") == "success"
    output = data.get("output") or part(data, "error").get("message") or ""
    return CliResult(str(data.get("tool_id", "")), ok, str(output))


def _usage(row: Mapping[str, Any]) -> Usage:
    """Of one model. `output_tokens` leaves out thoughts, which cost as much: the total has them."""
    read = number(row, "input_tokens")
    wrote = max(number(row, "output_tokens"), number(row, "total_tokens") - read)
    return Usage(read, wrote, number(row, "cached"), 0, 0)


def charged(counted: Mapping[str, Usage], requests: int, price: Price) -> CliFigures:
    """What the models of one turn used and cost together. Prices may depend on how long a request is, so each is
    priced as `requests` of the same length."""
    usd: Decimal | None = Decimal(0)
    for name, usage in counted.items():
        cost = _priced(name, usage, requests, price)
        usd = None if usd is None or cost is None else usd + cost
    rows = counted.values()
    usage = Usage(
        sum(row.input_tokens for row in rows),
        sum(row.output_tokens for row in rows),
        sum(row.cached_tokens for row in rows),
        0,
        requests,
    )
    most = max(counted, key=lambda name: counted[name].input_tokens)
    return CliFigures(usage, usd, most or None)


def _priced(model: str, usage: Usage, requests: int, price: Price) -> Decimal | None:
    each = Usage(usage.input_tokens // requests, usage.output_tokens // requests, usage.cached_tokens // requests)
    rest = Usage(
        usage.input_tokens - each.input_tokens * (requests - 1),
        usage.output_tokens - each.output_tokens * (requests - 1),
        usage.cached_tokens - each.cached_tokens * (requests - 1),
    )
    one, last = price(model, each), price(model, rest)
    return None if one is None or last is None else one * (requests - 1) + last


# --- ends ----------------------------------------------------------------------------------------------


def _ended(exit: CliExit, trouble: str) -> CliEnd:
    """The ending that an exit without a result stands for."""
    lines = [line for line in exit.stderr.splitlines() if line.strip() and not _NOISE.match(line.strip())]
    words = next((line.strip()[:500] for line in lines if line.startswith("Error")), "") or last_line("\n".join(lines))
    match exit.code:
        case 42 if re.search(r"resuming session|session identifier|no previous sessions", exit.stderr, re.I):
            return CliEnd("unknown_session", message=words)
        case 41:
            return CliEnd("error", detail="auth", message=words or "Gemini CLI has no login.", hint=_LOGIN_HINT)
        case 42 | 52:
            return CliEnd("error", detail="bad_request", message=words or "Gemini CLI refused its input.")
        case 53:
            return CliEnd("budget", message=words)
        case 55:
            hint = "Trust the folder: gemini asks for it when started there."
            message = words or "Gemini CLI does not trust the folder it was started in."
            return CliEnd("error", detail="bad_request", message=message, hint=hint)
        case code if code in FROM_OUTSIDE:
            pass
        case code if code > 0:
            return _failed(trouble or words or f"Gemini CLI ended with exit code {code}.")
        case _:
            pass
    message = f"Gemini CLI ended in the middle of its turn (exit code {exit.code})."
    return CliEnd("error", detail="incomplete", message=message, hint="Resume the session to try again.")


def _failed(message: str) -> CliEnd:
    if _BLOCKED.search(message):
        return CliEnd("refused", message=message)
    found = _STATUS.search(message)
    status = int(found[1]) if found else None
    detail = _detail(status, message)
    hint = _LOGIN_HINT if detail == "auth" else ""
    return CliEnd("error", detail=detail, message=message[:2000], hint=hint, final=status in _FINAL)


def _detail(status: int | None, words: str) -> str:
    if re.search(r"quota|billing|credits", words, re.I):
        return "quota"
    if re.search(r"exceeds the maximum number of tokens|context window|token limit", words, re.I):
        return "context"
    if re.search(r"api key|unauthenticated|log ?in|credentials", words, re.I):
        return "auth"
    if status is not None:
        return status_detail(status)
    if re.search(r"fetch failed|ECONN|ENOTFOUND|network|socket", words):
        return "network"
    return "incomplete" if re.search(r"empty (text )?response|no final response", words, re.I) else "server"


# --- chat files ----------------------------------------------------------------------------------------


def counted_since(path: Path, began: str) -> tuple[dict[str, Usage], int]:
    """Tokens by model, and requests, that a chat file counts since `began` (ISO time, UTC)."""
    rows: dict[str, tuple[str, Usage]] = {}
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return {}, 0
    for line in lines:
        data = line_object(line) if '"tokens"' in line else None
        if data is None or str(data.get("timestamp", "")) < began or not isinstance(data.get("tokens"), dict):
            continue
        tokens = data["tokens"]
        named = {"input_tokens": "input", "output_tokens": "output", "total_tokens": "total", "cached": "cached"}
        row = {name: tokens.get(key) for name, key in named.items()}
        rows[str(data.get("id", json.dumps(tokens)))] = (str(data.get("model", "")), _usage(row))
    counted: dict[str, Usage] = {}
    for model, usage in rows.values():
        had = counted.get(model, Usage(requests=0))
        counted[model] = Usage(
            had.input_tokens + usage.input_tokens,
            had.output_tokens + usage.output_tokens,
            had.cached_tokens + usage.cached_tokens,
            0,
            0,
        )
    return counted, len(rows)
