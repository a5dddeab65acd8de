"""What the lines of `opencode run --format json` mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core import (
    CliCall,
    CliDelta,
    CliEnd,
    CliEvent,
    CliExit,
    CliFigures,
    CliResult,
    CliSession,
    CliText,
    Usage,
)
from impl.providers._cli_lines import FROM_OUTSIDE, dollars, last_line, line_object, number, part, status_detail, whole

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_GOES_ON: Final = frozenset({"tool-calls", "unknown", "other", ""})
"""Reasons of a step's end after which more may come: only its exit then says that the turn has ended."""
_FINAL: Final = frozenset({400, 401, 402, 403})
"""Statuses that trying again cannot heal."""


class OpencodeParser:
    """Reads one invocation. `prefix` marks calls of our tools."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._begun = False
        self._ended = False
        self._stepped = False

    def feed(self, line: str) -> Sequence[CliEvent]:
        """The events one line stands for."""
        data = line_object(line)
        if data is None:
            return ()
        begun = self._session(data)
        detail = part(data, "part")
        match data.get("type"):
            case "text":
                return [*begun, CliText(str(detail.get("text", "")))]
            case "reasoning":
                return [*begun, CliDelta(thinking=str(detail.get("text", "")))]
            case "tool_use":
                return [*begun, *self._tool(detail)]
            case "step_finish":
                return [*begun, *self._step(detail)]
            case "error":
                self._ended = True
                return [*begun, _failed(part(data, "error"))]
            case _:
                return begun

    def finish(self, exit: CliExit) -> Sequence[CliEvent]:
        """Where no step was the last, the exit and stderr say how it ended."""
        if self._ended:
            return ()
        words = _complaint(exit.stderr)
        if re.search(r"session not found", words, re.I):
            return [CliEnd("unknown_session", message=words)]
        if exit.code == 0 and self._stepped:
            return [CliEnd("reply")]
        if exit.code <= 0 or exit.code in FROM_OUTSIDE:
            message = f"opencode ended in the middle of its turn (exit code {exit.code})."
            return [CliEnd("error", detail="incomplete", message=message, hint="Resume the session to try again.")]
        message = words or f"opencode ended with exit code {exit.code}."
        return [CliEnd("error", detail=_detail(None, "", message), message=message)]

    # --- lines -------------------------------------------------------------------------------------

    def _session(self, data: Mapping[str, Any]) -> list[CliEvent]:
        """The first line that names it begins the session."""
        if self._begun or not data.get("sessionID"):
            return []
        self._begun = True
        return [CliSession(str(data["sessionID"]))]

    def _tool(self, detail: Mapping[str, Any]) -> list[CliEvent]:
        """A call and its result come as one line, once it has answered."""
        name, state = str(detail.get("tool", "")), part(detail, "state")
        id = str(detail.get("callID") or detail.get("id") or "")
        ours = name.startswith(self._prefix)
        ok = state.get("status") == "completed"
        output = state.get("output") if ok else state.get("error")
        call = CliCall(id, name.removeprefix(self._prefix), part(state, "input"), ours)
        return [call, CliResult(id, ok, str(output or ""))]

    def _step(self, detail: Mapping[str, Any]) -> list[CliEvent]:
        self._stepped = True
        out: list[CliEvent] = [_figures(detail)]
        match str(detail.get("reason") or ""):
            case reason if reason in _GOES_ON:
                return out
            case "length":
                message = "The answer was cut at the model's output limit."
                end = CliEnd("error", detail="incomplete", message=message, hint="Tell it to go on.")
            case "content-filter":
                end = CliEnd("refused", message="The model's answer was withheld by a content filter.")
            case _:
                end = CliEnd("reply")
        self._ended = True
        return [*out, end]


def _figures(detail: Mapping[str, Any]) -> CliFigures:
    """Of one step. What costs nothing has no price here that opencode knows: a subscription, a model of one's own."""
    tokens = part(detail, "tokens")
    read, wrote = number(part(tokens, "cache"), "read"), number(part(tokens, "cache"), "write")
    usage = Usage(
        input_tokens=number(tokens, "input") + read + wrote,
        output_tokens=number(tokens, "output") + number(tokens, "reasoning"),
        cached_tokens=read,
        cache_write_tokens=wrote,
        requests=1,
    )
    return CliFigures(usage, dollars(detail, "cost") or None)


def _failed(error: Mapping[str, Any]) -> CliEnd:
    data, name = part(error, "data"), str(error.get("name", ""))
    message = str(data.get("message") or name or "opencode failed.")
    status = whole(data, "statusCode")
    if name == "MessageAbortedError":
        return CliEnd("cancelled", message=message)
    if re.search(r"session not found", message, re.I):
        return CliEnd("unknown_session", message=message)
    detail = _detail(status, name, message)
    hint = "Log in: opencode auth login, or set a key and use opencode:api." if detail == "auth" else ""
    return CliEnd("error", detail=detail, message=message[:2000], hint=hint, final=status in _FINAL)


def _detail(status: int | None, name: str, words: str) -> str:
    if name == "ProviderAuthError":
        return "auth"
    if re.search(r"quota|billing|credit|usage limit", words, re.I):
        return "quota"
    if name == "ContextOverflowError" or re.search(r"context (window|length)|too long", words, re.I):
        return "context"
    if name == "MessageOutputLengthError":
        return "incomplete"
    if status is not None:
        return status_detail(status)
    if re.search(r"model not found|ModelNotFound", f"{name} {words}", re.I):
        return "not_found"
    if re.search(r"api key|unauthorized|not logged in", words, re.I):
        return "auth"
    if re.search(r"unable to connect|ECONN|ENOTFOUND|fetch failed|network", words, re.I):
        return "network"
    return "server"


def _complaint(stderr: str) -> str:
    """What it says went wrong: the error, with what follows where the error says nothing itself."""
    lines = [line for line in (raw.strip() for raw in _COLOUR.sub("", stderr).splitlines()) if line]
    at = next((n for n, line in enumerate(lines) if line.startswith("Error:")), None)
    return " ".join(lines[at : at + 2])[:500].removeprefix("Error: ") if at is not None else last_line(stderr)
