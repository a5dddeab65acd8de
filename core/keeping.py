"""What a compaction keeps word for word beside the model's summary: what was decided, what fails, which digests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from core.events import Event

KINDS: Final = ("message", "tool_call", "tool_result", "validation")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\b")
_DIGESTS, _PROBLEMS = 12, 6
_WORDS, _PROBLEM = 1_500, 300


def kept(events: Iterable[Event], upto: int, room: int) -> str:
    """The person's words, questions with their answers, failures not mended since and digests of the events up to
    `upto`, in at most `room` characters; empty where there is nothing or no room."""
    said: list[str] = []
    questions: dict[str, str] = {}
    calls: dict[str, str] = {}
    failing: dict[str, str] = {}
    digests: dict[str, None] = {}
    for event in events:
        if event.seq > upto:
            break
        data = event.data
        for text in _texts(data):
            for digest in _DIGEST.findall(text):
                digests.pop(digest, None)
                digests[digest] = None
        match event.kind:
            case "message" if data.get("role") == "user":
                said.append(f"The person: {_cut(data.get('text'), _WORDS)}")
            case "tool_call":
                call = str(data.get("call"))
                calls[call] = f"{data.get('tool')} {_cut(data.get('args'), 120)}"
                if data.get("tool") == "ask_user" and isinstance(data.get("args"), dict):
                    questions[call] = _cut(data["args"].get("message"), _WORDS)
            case "tool_result":
                call = str(data.get("call"))
                if call in questions:
                    said.append(f"Asked: {questions.pop(call)} Answered: {_cut(data.get('output'), _WORDS)}")
                _judge(failing, calls.pop(call, "a call"), data)
            case "validation":
                _validated(failing, data)
            case _:
                pass
    open_questions = [f"Asked and not answered: {question}" for question in questions.values()]
    return _fitted(said + open_questions, list(failing.values())[-_PROBLEMS:], list(digests)[-_DIGESTS:], room)


def _texts(data: Mapping[str, Any]) -> Iterator[str]:
    for name in ("text", "output", "digest"):
        if isinstance(value := data.get(name), str):
            yield value


def _judge(failing: dict[str, str], call: str, data: Mapping[str, Any]) -> None:
    """A failure stands until the same call works; the newest come last."""
    failing.pop(call, None)
    if data.get("ok") is False:
        failing[call] = f"{call}: {_cut(data.get('output'), _PROBLEM)}"


def _validated(failing: dict[str, str], data: Mapping[str, Any]) -> None:
    """The problems of the newest validation, none where it passed."""
    failing.pop("validation", None)
    problems = data.get("problems")
    if data.get("passed") is False and isinstance(problems, list):
        told = "; ".join(" ".join(str(p.get(k) or "") for k in ("code", "path", "message")) for p in problems[:8] if p)
        failing["validation"] = f"validation did not pass: {_cut(told, 3 * _PROBLEM)}"


def _cut(value: object, most: int) -> str:
    """Head and tail of a text on one line."""
    text = " ".join((value if isinstance(value, str) else str(value or "")).split())
    return text if len(text) <= most else f"{text[: most // 2]} […] {text[-most // 2 :]}"


def _fitted(said: list[str], failing: list[str], digests: list[str], room: int) -> str:
    """What fits, the first words and then the newest of each before older ones."""
    chosen: list[tuple[int, int, str]] = []
    lines = [(0, n, f"- {line}") for n, line in enumerate(said)]
    order = lines[:1] + lines[:0:-1]
    order[2:2] = [(1, n, f"- Not mended: {line}") for n, line in reversed(list(enumerate(failing)))]
    order[2:2] = [(2, n, f"- {digest}") for n, digest in reversed(list(enumerate(digests)))]
    for line in order:
        if len(line[2]) + 1 <= room:
            chosen.append(line)
            room -= len(line[2]) + 1
    return "\n".join(text for *_, text in sorted(chosen))
