"""What an Agent Client Protocol agent says in one turn: the objects that `_acp_run` makes of its messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from core import (
    OUR_SERVER,
    CliCall,
    CliDelta,
    CliEnd,
    CliEvent,
    CliExit,
    CliFigures,
    CliNotice,
    CliPermission,
    CliResult,
    CliSession,
    CliText,
    Usage,
)
from impl.providers._cli_lines import dollars, last_line, line_object, number, part, status_detail, text_of, whole
from impl.providers._gemini_pump import restored

AUTH_REQUIRED: Final = -32000
_OURS: Final = re.compile(rf"^(?:mcp_+)?{OUR_SERVER}[_:./ -]+([\w-]+)|^([\w-]+) \({OUR_SERVER}\b")
"""How agents title a call of one of our tools, or begin its id: by its name with the server's before it, or in brackets
after it."""
_LONGEST_DIFF: Final = 4000


def our_tool(call: Mapping[str, Any]) -> str | None:
    """The name of our tool that a call is of; None for one of the agent's own."""
    for text in (call.get("title"), call.get("toolCallId")):
        found = _OURS.match(str(text or ""))
        if found is not None:
            return restored(str(found[1] or found[2]).partition("__")[0])
    return None


class AcpParser:
    """Reads one turn. `spent` is what the session had cost before it in US dollars, `keep` notes what it has now."""

    def __init__(self, title: str, spent: Decimal, keep: Callable[[Decimal], None]) -> None:
        self._title = title
        self._spent = spent
        self._keep = keep
        self._text: list[str] = []
        self._message: object = None
        self._calls: dict[str, dict[str, Any]] = {}
        self._usd: Decimal | None = None
        self._ended = False

    def feed(self, line: str) -> Sequence[CliEvent]:
        """The events one object stands for."""
        data = line_object(line)
        if data is None:
            return ()
        match data.get("acp"):
            case "session" if data.get("id"):
                model = data.get("model")
                return [CliSession(str(data["id"]), model if isinstance(model, str) else None)]
            case "update":
                return self._update(part(data, "update"))
            case "permission":
                return [*self._whole(), self._permission(str(data.get("key")), part(data, "call"))]
            case "notice":
                return [CliNotice(str(data.get("text")))]
            case "end":
                self._ended = True
                return [*self._whole(), *self._figures(part(data, "result")), self._end(part(data, "result"))]
            case "failed":
                self._ended = True
                return [*self._whole(), *self._figures({}), self._failed(data)]
            case _:
                return ()

    def finish(self, exit: CliExit) -> Sequence[CliEvent]:
        """Where it went away before its answer, the exit and stderr say how it ended."""
        if self._ended:
            return ()
        words = last_line(exit.stderr)
        message = f"{self._title} ended in the middle of its turn (exit code {exit.code}). {words}".strip()
        hint = "Resume the session to try again."
        return [*self._whole(), *self._figures({}), CliEnd("error", detail="incomplete", message=message, hint=hint)]

    # --- updates -----------------------------------------------------------------------------------

    def _update(self, update: Mapping[str, Any]) -> list[CliEvent]:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                return self._said(update)
            case "agent_thought_chunk":
                return [CliDelta(thinking=str(part(update, "content").get("text", "")))]
            case "tool_call" | "tool_call_update":
                return [*self._whole(), *self._tool(update)]
            case "usage_update":
                return self._cost(part(update, "cost"))
            case _:
                return []

    def _said(self, update: Mapping[str, Any]) -> list[CliEvent]:
        """A piece of what it says; another message id begins another text."""
        before = self._whole() if update.get("messageId") != self._message else []
        self._message = update.get("messageId")
        text = str(part(update, "content").get("text", ""))
        if not text:
            return before
        self._text.append(text)
        return [*before, CliDelta(text)]

    def _whole(self) -> list[CliEvent]:
        text, self._text = "".join(self._text), []
        return [CliText(text)] if text else []

    def _tool(self, update: Mapping[str, Any]) -> list[CliEvent]:
        """A call grows over several updates, each of which may leave out what it does not change."""
        id = str(update.get("toolCallId", ""))
        call = self._calls.setdefault(id, {})
        call.update({key: value for key, value in update.items() if value is not None})
        ours = our_tool(call)
        out: list[CliEvent] = [CliCall(id, ours or _name(call), _args(call), ours is not None)]
        if call.get("status") in ("completed", "failed"):
            out.append(CliResult(id, call["status"] == "completed", _output(call)))
            del self._calls[id]
        return out

    def _permission(self, key: str, call: Mapping[str, Any]) -> CliPermission:
        known = {**self._calls.get(str(call.get("toolCallId", "")), {}), **call}
        return CliPermission(key, _name(known), _args(known), str(known.get("title", "")))

    # --- figures -----------------------------------------------------------------------------------

    def _cost(self, cost: Mapping[str, Any]) -> list[CliEvent]:
        """Of the whole session so far: this turn's is what it has grown by. Nothing at all is said by agents that know
        no price."""
        amount = dollars(cost, "amount") if str(cost.get("currency", "USD")).upper() == "USD" else None
        if not amount:
            return []
        self._usd = max(Decimal(0), amount - self._spent)
        self._keep(amount)
        return [CliFigures(Usage(), self._usd, interim=True)]

    def _figures(self, result: Mapping[str, Any]) -> list[CliEvent]:
        usage = _usage(part(result, "usage")) or _usage(_quota(result))
        if usage is None and self._usd is None:
            return []
        return [CliFigures(usage or Usage(), self._usd)]

    # --- ends --------------------------------------------------------------------------------------

    def _end(self, result: Mapping[str, Any]) -> CliEnd:
        match result.get("stopReason"):
            case "end_turn":
                return CliEnd("reply")
            case "max_turn_requests":
                return CliEnd("budget", message=f"{self._title} has used up its requests of one turn.")
            case "refusal":
                return CliEnd("refused")
            case "cancelled":
                return CliEnd("cancelled")
            case "max_tokens":
                message = f"The answer of {self._title} was cut at its output limit."
                return CliEnd("error", detail="incomplete", message=message, hint="Tell it to go on.")
            case reason:
                return CliEnd("error", detail="protocol", message=f"{self._title} stopped with {reason!r}.")

    def _failed(self, data: Mapping[str, Any]) -> CliEnd:
        code, message = whole(data, "code"), str(data.get("message") or f"{self._title} failed.")[:2000]
        if data.get("step") == "unknown_session":
            return CliEnd("unknown_session", message=message)
        if code == AUTH_REQUIRED or re.search(r"api[- ]key|log ?in|authenticat|unauthorized", message, re.I):
            hint = "Log in with the agent itself, then try again."
            return CliEnd("error", detail="auth", message=message, hint=hint, final=True)
        detail = status_detail(code) if code is not None and 400 <= code < 600 else str(data.get("detail") or "server")
        return CliEnd("error", detail=detail, message=message)


def _name(call: Mapping[str, Any]) -> str:
    """What kind of tool of its own it is: ids and titles differ from call to call."""
    return str(call.get("kind") or "other")


def _args(call: Mapping[str, Any]) -> dict[str, Any]:
    """What a person and the guard see of a call: its input, else its title and what it would change."""
    given = part(call, "rawInput")
    if given:
        return given
    content = call.get("content")
    rows = [row for row in content if isinstance(row, dict)] if isinstance(content, list) else []
    changes = [
        {"path": row.get("path"), "text": str(row.get("newText", ""))[:_LONGEST_DIFF]}
        for row in rows
        if row.get("type") == "diff"
    ]
    return {"title": str(call.get("title", "")), **({"changes": changes} if changes else {})}


def _output(call: Mapping[str, Any]) -> str:
    content = call.get("content")
    rows = [row for row in content if isinstance(row, dict)] if isinstance(content, list) else []
    text = text_of([part(row, "content") for row in rows if row.get("type") == "content"])
    return text or text_of(call.get("rawOutput"))


def _quota(result: Mapping[str, Any]) -> dict[str, Any]:
    """Where agents that came before `usage` say what they used."""
    counts = part(part(part(result, "_meta"), "quota"), "token_count")
    return {"inputTokens": counts.get("input_tokens"), "outputTokens": counts.get("output_tokens")} if counts else {}


def _usage(counts: Mapping[str, Any]) -> Usage | None:
    """Of this turn. Whether the input has the cached tokens in it, and the output the thoughts, is told by the
    total."""
    if not counts:
        return None
    read, wrote = number(counts, "inputTokens"), number(counts, "outputTokens")
    hit, stored = number(counts, "cachedReadTokens"), number(counts, "cachedWriteTokens")
    thought = number(counts, "thoughtTokens")
    beyond = number(counts, "totalTokens") - read - wrote
    if hit + stored and beyond in (hit + stored, hit + stored + thought):
        read += hit + stored
    if thought and beyond in (thought, hit + stored + thought):
        wrote += thought
    return Usage(read, wrote, min(hit, read), min(stored, read))
