"""Events that are no part of the conversation as the lines that stand for them in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core import Event
from tui.view.text import Tone, one_line, plural, short

SILENT: Final = frozenset(
    {"started", "usage", "log", "answer", "message", "draft", "tool_call", "tool_result", "stop"}
    | {"effect_intent", "provider_session", "cell", "case", "label", "preference"}
)
"""Kinds that other lines, panes or the lab show."""


@dataclass(frozen=True, slots=True)
class Note:
    """A line that is no part of the conversation: a notice, a revision, a verdict, a stop without a card."""

    sign: str
    text: str
    tone: Tone = Tone.DIM


def note_of(event: Event) -> Note | None:
    """The line of an event that is no part of the conversation; None where it needs none here."""
    data = event.data
    match event.kind:
        case "nudge":
            return Note("↻", f"told the model: {one_line(str(data.get('text', '')))}")
        case "notice":
            text = one_line(str(data.get("text", "")), 600)
            return Note("!", text, Tone.FAIL if text.startswith("Unsafe") else Tone.DIM)
        case "source":
            where = data.get("url") or data.get("path") or ""
            commit = f" at {str(data['commit'])[:8]}" if data.get("commit") else ""
            return Note("↓", f"source {one_line(str(where))}{commit}")
        case "revision":
            message = one_line(str(data.get("message") or ""), 120)
            return Note("○", f"revision {short(data.get('digest'))} of {data.get('agent')}  {message}".rstrip())
        case "validation":
            return _verdict(data)
        case "published":
            return _published(data)
        case "settings":
            changed = ", ".join(f"{name} {_shown(value)}" for name, value in data.items())
            return Note("∗", f"changed: {changed}")
        case "rewind":
            return Note("↶", "went back to before the failure")
        case "compaction":
            return Note("≡", "the conversation so far was summarised for the model; the log keeps everything")
        case "repair":
            calls = data.get("calls")
            unknown = (
                f": what became of {plural(len(calls), 'call')} is not known"
                if isinstance(calls, list) and calls
                else ""
            )
            return Note("∗", f"mended after an interruption{unknown}")
        case "approval":
            return Note("!", f"{data.get('tool')}: {data.get('scope') or data.get('decision')}")
        case "permission":
            return Note("!", f"{data.get('tool')}: {'allowed' if data.get('allowed') else 'not allowed'}")
        case "tool_check":
            return _tool_check(data)
        case "effect":
            return _effect(data)
        case "forked":
            return Note("↳", f"a fork of {data.get('session')}: what stands above was said there")
        case "child":
            return Note("└", f"gave a task to {data.get('preset')} · {data.get('session')}")
        case _ if event.kind in SILENT:
            return None
        case _:
            return Note("?", f"{event.kind}: {one_line(str(dict(data)), 200)}")


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={one}" for name, one in value.items())
    return "default" if value is None else str(value)


def _problems(data: Mapping[str, Any]) -> Sequence[Any]:
    problems = data.get("problems")
    return problems if isinstance(problems, list) else ()


def _verdict(data: Mapping[str, Any]) -> Note:
    if data.get("passed"):
        return Note("✓", f"{short(data.get('digest'))} passed validation", Tone.PLAIN)
    problems = _problems(data)
    first = problems[0] if problems and isinstance(problems[0], Mapping) else {}
    words = f"{short(data.get('digest'))} failed validation, {len(problems)} found: {first.get('message', '')}"
    return Note("✗", one_line(words), Tone.FAIL)


def _published(data: Mapping[str, Any]) -> Note:
    what = f"{data.get('agent')} {short(data.get('digest'))}"
    if data.get("refused"):
        return Note("✗", f"publishing {what} was refused: {data['refused']}", Tone.FAIL)
    return Note("●", f"{what} is {data.get('channel')}", Tone.PLAIN)


def _tool_check(data: Mapping[str, Any]) -> Note:
    name = str(data.get("tool") or data.get("path"))
    if data.get("registered"):
        return Note("⚙", f"tool {name} is registered", Tone.PLAIN)
    problems = _problems(data)
    first = problems[0] if problems and isinstance(problems[0], Mapping) else {}
    return Note("✗", one_line(f"tool {name} is not registered: {first.get('message', '')}"), Tone.FAIL)


def _effect(data: Mapping[str, Any]) -> Note | None:
    """What a tool asked the world for: only what it was not given is for the conversation."""
    outcome = data.get("outcome")
    if not isinstance(outcome, Mapping) or "denied" not in outcome:
        return None
    return Note("⊘", one_line(f"{request_words(data)} was denied: {outcome.get('detail') or outcome['denied']}"))


def request_words(data: Mapping[str, Any]) -> str:
    """`GET https://api.rates.example/latest`."""
    return f"{data.get('method')} {one_line(str(data.get('url')), 160)}"
