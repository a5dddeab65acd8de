"""An event as one row of the transcript, and in full."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from core import Event
from tui.view.calls import gist
from tui.view.cards import card_of
from tui.view.notes import note_of
from tui.view.text import Line, Tone, clock, line, one_line, safe, short, tokens

WIDTH = 400


def event_line(event: Event) -> Line:
    """`    41  14:02:11  tool_call   $ ls source`"""
    tone, words = _words(event)
    return line(
        (f"{event.seq:>6}  {clock(event.at, seconds=True):8}  ", Tone.DIM),
        f"{event.kind:12} ",
        (words, tone),
    )


def _words(event: Event) -> tuple[Tone, str]:
    data = event.data
    if event.damaged:
        return Tone.FAIL, f"cannot be read: {one_line(str(data.get('damaged')), 200)}"
    match event.kind:
        case "started":
            return Tone.DIM, one_line(", ".join(f"{k} {v}" for k, v in data.items() if v not in (None, {}, "")), WIDTH)
        case "message":
            text = one_line(str(data.get("text", "")), WIDTH)
            if not text.strip():  # a turn of calls alone; they follow
                return Tone.DIM, f"{data.get('role')}: no words"
            return Tone.PLAIN, f"{data.get('role')}: {text}"
        case "tool_call":
            args = data.get("args")
            return Tone.PLAIN, gist(str(data.get("tool")), args if isinstance(args, Mapping) else {})
        case "tool_result":
            sign = "✓" if data.get("ok") else "✗"
            return (Tone.DIM if data.get("ok") else Tone.FAIL), f"{sign} {one_line(str(data.get('output', '')), WIDTH)}"
        case "usage":
            spent = f"{tokens(_int(data, 'input_tokens'))} in, {tokens(_int(data, 'output_tokens'))} out"
            return Tone.DIM, f"{spent}, {data.get('model') or data.get('provider') or ''}"
        case "stop":
            card = card_of(data)
            return Tone.STRONG, f"{data.get('stop')}{f': {card.title}' if card else ''}"
        case "answer":
            return Tone.PLAIN, one_line(str(data.get("text", "")), WIDTH)
        case "log":
            return Tone.DIM, one_line(str(data.get("text", "")), WIDTH)
        case "revision":
            return Tone.PLAIN, f"{short(data.get('digest'))} {one_line(str(data.get('message') or ''), WIDTH)}"
        case _:
            note = note_of(event)
            return (Tone.DIM, note.text) if note is not None else (Tone.DIM, one_line(str(dict(data)), WIDTH))


def _int(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0


def event_lines(event: Event, whole: str | None = None) -> tuple[Line, ...]:
    """An event in full: its fields, long texts as texts. `whole` is a result's output where it was kept apart."""
    lines: list[Line] = [line((f"event {event.seq}  {event.kind}", Tone.STRONG), (f"  {event.at}", Tone.DIM)), ()]
    for name, value in event.data.items():
        if name == "output" and whole is not None:
            value = whole
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        parts = safe(text).expandtabs(4).split("\n")
        if len(parts) == 1:
            lines.append(line((f"{name}: ", Tone.DIM), parts[0]))
        else:
            lines += [line((f"{name}:", Tone.DIM)), *(line("  " + part) for part in parts)]
    return tuple(lines)
