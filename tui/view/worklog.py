"""The live workspace log: commands, what they print as they run, how they ended. Lines out of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core import Event
from tui.view.calls import call_line, finished
from tui.view.chat import HIDDEN_TOOLS
from tui.view.notes import note_of, request_words
from tui.view.text import Line, Tone, clock, line, plural, safe

INDENT = " " * 9
#: Of a result nobody saw while it ran, so many lines are shown; all of it stands in the transcript.
SHOWN_LINES = 12
#: What other tools answer is for the model to read; its beginning is enough here.
SHOWN_ANSWER_LINES = 3


LONGEST: Final = 4_000
"""Characters shown of one printed line."""

LogLine = Line | str
"""A line of the log; what commands print comes as it is, because there may be tens of thousands a second."""


def as_line(shown: LogLine) -> Line:
    """The line that a log line is drawn as."""
    return line(INDENT, shown) if isinstance(shown, str) else shown


class WorkLog:
    """Events in, log lines out. Remembers only the calls that are running."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[Event, bool]] = {}  # call -> its event, whether it has printed
        self._open = ""  # text of a line that has no end yet

    def apply(self, event: Event) -> Sequence[LogLine]:
        """The lines that `event` adds."""
        if event.damaged:
            return []
        data = event.data
        match event.kind:
            case "tool_call":
                return self._called(event)
            case "log":
                return self._printed(data)
            case "tool_result":
                return self._result(event)
            case "effect":
                return [_effect(event)]
            case "source" | "revision" | "validation" | "published" | "notice" | "settings" | "tool_check":
                note = note_of(event)
                return [] if note is None else [_stamped(event, (f"{note.sign} {note.text}", note.tone))]
            case _:
                return []

    def _called(self, event: Event) -> list[Line]:
        call = call_line(event)
        if call.tool in HIDDEN_TOOLS:
            return []
        self._running[call.call] = (event, False)
        args = event.data.get("args")
        command = args.get("command") if isinstance(args, Mapping) else None
        if call.tool == "run_sandbox" and isinstance(command, str):
            first, *rest = safe(command).expandtabs(4).split("\n")
            return [
                _stamped(event, ("$ ", Tone.DIM), (first, Tone.STRONG)),
                *(line(INDENT + "  ", (text, Tone.STRONG)) for text in rest),
            ]
        return [_stamped(event, ("⚙ ", Tone.DIM), (call.gist, Tone.STRONG))]

    def _printed(self, data: Mapping[str, Any]) -> Sequence[LogLine]:
        call = str(data.get("call"))
        if call in self._running:
            self._running[call] = (self._running[call][0], True)
        *whole, self._open = (self._open + safe(str(data.get("text", ""))).expandtabs(4)).split("\n")
        return [text if len(text) <= LONGEST else text[:LONGEST] + "…" for text in whole]

    def _result(self, event: Event) -> list[Line]:
        data = event.data
        found = self._running.pop(str(data.get("call")), None)
        lines = [line(INDENT, self._open)] if self._open else []
        self._open = ""
        if found is None:
            return lines
        started, printed = found
        if not printed:
            output = str(data.get("output", ""))
            command = started.data.get("tool") == "run_sandbox"
            # Records are for the model: what they mean for a person stands in lines of its own.
            record = not command and bool(data.get("ok")) and output.lstrip().startswith(("{", "["))
            lines += [] if record else _output(output, SHOWN_LINES if command else SHOWN_ANSWER_LINES)
        done = finished(call_line(started), data)
        ending = done.result if printed or done.state == "ok" else done.result.split(" · ")[0]
        if done.state == "failed":
            return [*lines, _stamped(event, (f"✗ {ending or 'failed'}", Tone.FAIL))]
        return [*lines, _stamped(event, (f"✓ {ending}", Tone.DIM))] if ending else lines


def _output(text: str, shown: int) -> list[Line]:
    texts = safe(text).expandtabs(4).rstrip("\n").split("\n")
    if texts == [""]:
        return []
    lines = [line(INDENT, (one[:2000], Tone.DIM)) for one in texts[:shown]]
    if len(texts) > shown:
        lines.append(line(INDENT, (f"… {plural(len(texts) - shown, 'more line')} in the transcript", Tone.DIM)))
    return lines


def _effect(event: Event) -> Line:
    """What a tool asked the world for, and what came of it."""
    outcome = event.data.get("outcome")
    found: Mapping[str, Any] = outcome if isinstance(outcome, Mapping) else {}
    if "denied" in found:
        return _stamped(event, (f"⊘ {request_words(event.data)}  denied: {found['denied']}", Tone.FAIL))
    return _stamped(
        event, ("⇄ ", Tone.DIM), (request_words(event.data), Tone.PLAIN), (f"  {found.get('status')}", Tone.DIM)
    )


def _stamped(event: Event, *parts: tuple[str, Tone]) -> Line:
    return line((f"{clock(event.at, seconds=True):8} ", Tone.DIM), *parts)
