"""What an agent CLI has been told of a session, projected from its events, and the next prompt it needs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.agent_cli.events import CliTotal
from core.calls import cap
from core.events import Event
from core.history import History
from core.provider import Message, Opaque, Text, Thinking, ToolCall, ToolResult

LONGEST_RETELLING: Final = 200_000
"""Characters of a conversation that a CLI which was not there is told; its head and tail where it is longer."""
PERMISSION: Final = "permission:"
_NOT_TOLD: Final = frozenset({"skipped", "cancelled", "unknown"})
"""Results that no running CLI was given."""


@dataclass(frozen=True, slots=True)
class Known:
    """A CLI's own session, as the last `provider_session` event says."""

    native: str
    directory: str
    route: str
    model: str | None
    total: CliTotal

    @staticmethod
    def of(data: Mapping[str, Any]) -> Known:
        """Read the event's body."""
        model = data.get("model")
        return Known(
            str(data.get("native", "")),
            str(data.get("directory", "")),
            str(data.get("route", "")),
            model if isinstance(model, str) else None,
            CliTotal.from_json(data.get("total")),
        )


class CliMemory:
    """A reducer over a session's events. `unsaid` is what came since a CLI was last told something: the person's
    words, nudges, results of calls it no longer waited for. `forked` is the session this one is a fork of, and the last
    of its events that is here. `permits` and `refusals` count what a person has said to permissions, by
    `permission_id`, and was not used yet."""

    KINDS: Final = (
        *("forked", "message", "nudge", "tool_result", "stop", "approval", "permission", "provider_session"),
        *("rewind", "compaction"),
    )
    """The kinds of events that matter to it."""

    def __init__(self) -> None:
        self.unsaid: list[str] = []
        self.forked: tuple[str, int] | None = None
        self.permits: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._known: dict[str, Known] = {}
        self._stale: set[str] = set()
        self._origins: dict[str, Known] = {}
        self._open: dict[str, str] = {}
        self._waited: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        """Take one more event."""
        data = event.data
        match event.kind:
            case "forked":
                self._forked(data)
            case "message" if data.get("role") == "user":
                self.unsaid.append(str(data.get("text", "")))
            case "message":
                self._answered(data)
            case "nudge" if not data.get("delivered"):
                self.unsaid.append(str(data.get("text", "")))
            case "tool_result":
                self._result(data)
            case "stop":
                self._waited.update(self._open)
            case "approval" if str(data.get("call", "")).startswith(PERMISSION):
                self._decided(data)
            case "permission":
                self.permits[str(data.get("id"))] -= 1
                self.refusals[str(data.get("id"))] -= 1
            case "provider_session" if data.get("native"):
                self._session(data)
            case "rewind" | "compaction":
                self._stale.update(self._known)
                self._origins.clear()
            case _:
                pass

    def known(self, provider: str, route: str) -> Known | None:
        """The CLI's session to go on with; None where there is none, or it missed something of this one."""
        found = self._known.get(provider)
        return found if found is not None and found.route == route and provider not in self._stale else None

    def origin(self, provider: str, route: str) -> Known | None:
        """The CLI's session to fork: that of the session this one is a fork of, where it knows all that was said."""
        found = self._origins.get(provider)
        return found if found is not None and found.route == route else None

    def forget(self, provider: str) -> None:
        """The CLI does not know its session any more."""
        self._known.pop(provider, None)
        self._origins.pop(provider, None)

    def _forked(self, data: Mapping[str, Any]) -> None:
        """All before was another session: its CLIs' sessions are not ours to go on with, but to fork."""
        seq = data.get("seq")
        self.forked = str(data.get("session")), seq if isinstance(seq, int) else 0
        self._origins = {name: known for name, known in self._known.items() if name not in self._stale}
        self._known, self._stale = {}, set()

    def _decided(self, data: Mapping[str, Any]) -> None:
        """A person's word on a permission: the CLI, which was ended meanwhile, is told."""
        id, allowed = str(data.get("call")), data.get("scope") != "deny"
        (self.permits if allowed else self.refusals)[id] = 1
        word = "allowed" if allowed else "did not allow"
        self.unsaid.append(f"The person {word} what you asked for ({data.get('tool')}). Go on from there.")

    def _session(self, data: Mapping[str, Any]) -> None:
        provider = str(data.get("provider"))
        self._known[provider] = Known.of(data)
        self._origins.pop(provider, None)
        if data.get("told"):
            self._stale.discard(provider)
            self.unsaid.clear()

    def _answered(self, data: Mapping[str, Any]) -> None:
        by = data.get("provider")
        if by is not None:
            self._stale.update(name for name in self._known if name != by)
            self._origins = {name: known for name, known in self._origins.items() if name == by}
        rows = data.get("blocks")
        self._open = {
            str(row.get("id")): str(row.get("name"))
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, dict) and row.get("t") == "call"
        }

    def _result(self, data: Mapping[str, Any]) -> None:
        call = str(data.get("call"))
        name = self._waited.pop(call, None)
        known = self._open.pop(call, None)
        if data.get("told") or (name is None and str(data.get("status")) not in _NOT_TOLD):
            return
        self.unsaid.append(f"The result of your call of {name or known or 'a tool'}:\n{data.get('output', '')}")


def permission_id(tool: str, args: Mapping[str, Any]) -> str:
    """What names a permission over the ends of turns: the tool and exactly these arguments."""
    text = json.dumps([tool, args], sort_keys=True, default=str)
    return PERMISSION + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def prompt_for(memory: CliMemory, history: History, *, fresh: bool) -> str | None:
    """What to tell the CLI now; None where there is nothing. A fresh session of a conversation that has gone on
    without it is told all of it."""
    said = "\n\n".join(text for text in memory.unsaid if text.strip())
    if not fresh or not any(message.role == "assistant" for message in history.messages):
        return said or None
    last = max(n for n, message in enumerate(history.messages) if message.role == "assistant")
    earlier = cap(retell(history.messages[: last + 1]), LONGEST_RETELLING)
    now = retell(history.messages[last + 1 :]) or "Go on."
    return (
        "You take over a conversation in the middle. What was said and done so far, oldest first:\n\n"
        f"<conversation>\n{earlier}\n</conversation>\n\nGo on from here. Now:\n\n{now}"
    )


def retell(messages: Sequence[Message]) -> str:
    """Messages as plain text."""
    return "\n\n".join(part for message in messages for part in _parts(message))


def _parts(message: Message) -> Iterable[str]:
    for block in message.blocks:
        match block:
            case Text():
                yield block.text if message.role == "user" else f"[you] {block.text}"
            case ToolCall():
                yield f"[you called {block.name} with {dict(block.args or {})!r}]"
            case ToolResult():
                yield f"[its result{'' if block.ok else ', a failure'}] {block.output}"
            case Thinking() | Opaque():
                pass
