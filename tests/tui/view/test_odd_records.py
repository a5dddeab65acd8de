"""Records that read as JSON but hold something odd: whoever reads a session shows what is left of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from core import Event
from core.agent_cli.memory import CliMemory
from core.builder.state import BuildState
from core.history import History
from core.standing import Standing
from core.watching import Watching
from tui.commands.driving import describe
from tui.commands.sessions import _event_line
from tui.view.chat import Chat
from tui.view.events import event_line, event_lines
from tui.view.worklog import WorkLog

ODD: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, "", "x", [], {}, [None], [[]], [{}], {"a": 1})
PROBLEM = {"code": "c", "path": "p", "message": "m", "hint": "h"}
CALL = {"t": "call", "id": "c", "name": "t", "args": {"a": 1}, "raw": "{", "problem": "p"}
THOUGHT = {"t": "thinking", "text": "hm", "provider": "p", "model": "m", "data": {"signature": "s"}}
WAITING = {
    "kind": "question",
    "id": "c",
    "message": "Which?",
    "options": [{"id": "a", "label": "A"}],
    "recommended": "a",
    "names": ["KEY"],
    "multiple": False,
    "free_text": True,
    "detail": {"tool": "t", "args": {"a": 1}},
}
EVIDENCE = {"failure": "f", "count": 3, "first": 1, "last": 2, "progress_would_be": "w", "message": "m", "hint": "h"}
BODIES: dict[str, dict[str, Any]] = {
    "started": {"kind": "builder", "agent": "a", "digest": "sha256:1", "limits": {"steps": 3}, "publish": True},
    "message": {"role": "assistant", "id": "m1", "text": "t", "finish": "stop", "turn": 1, "blocks": [CALL, THOUGHT]},
    "tool_call": {"call": "c", "tool": "t", "args": {"a": 1}, "turn": 1},
    "tool_result": {"call": "c", "ok": False, "output": "o", "status": "s", "duration_s": 1.0, "data": {"error": "e"}},
    "usage": {"input_tokens": 1, "output_tokens": 2, "requests": 1, "cost": {"usd": "0.1"}, "provider": "p"},
    "nudge": {"text": "t", "rule": "r", "evidence": EVIDENCE},
    "stop": {"stop": "awaiting_user", "detail": "d", "output": "o", "waiting": WAITING, "evidence": EVIDENCE},
    "answer": {"waiting": "c", "kind": "question", "text": "a", "choice": ["a"]},
    "settings": {"provider": "p", "model": "m", "limits": {"steps": 3}, "effort": "high"},
    "log": {"call": "c", "text": "t"},
    "source": {"url": "u", "commit": "c", "licence": {"spdx": "MIT", "status": "found"}, "files": 1, "bytes": 2},
    "tool_check": {"path": "p", "tool": "t", "registered": False, "problems": [PROBLEM]},
    "revision": {"agent": "a", "digest": "sha256:1", "parents": ["sha256:0"], "message": "m", "by": "builder"},
    "validation": {"id": "v", "digest": "sha256:1", "passed": False, "problems": [PROBLEM]},
    "published": {"agent": "a", "channel": "live", "digest": "sha256:1", "previous": "sha256:0", "refused": None},
    "approval": {"tool": "t", "decision": "allow", "scope": "once", "call": "c", "detail": {"args": {}}},
    "rewind": {"messages": 1, "before": 2},
    "effect_intent": {"call": "c", "tool": "t", "index": 0, "method": "GET", "url": "https://x/", "credential": "K"},
    "effect": {"call": "c", "tool": "t", "index": 0, "method": "GET", "url": "u", "outcome": {"denied": "host"}},
    "compaction": {"summary": "s", "upto": 2, "messages": 3, "before_tokens": 5, "after_tokens": 2},
    "repair": {"calls": ["c"], "draft": "m1"},
    "permission": {"id": "1", "tool": "Bash", "args": {"a": 1}, "allowed": False},
    "provider_session": {"provider": "codex", "native": "n", "mode": "new", "total": {"usd": "1"}, "told": 3},
    "forked": {"session": "s", "seq": 3, "events": 3},
    "child": {"call": "c", "preset": "p", "agent": "a", "digest": "sha256:1", "session": "s2", "depth": 1},
    "notice": {"text": "t"},
}


def odd_ones(kind: str) -> Iterator[dict[str, Any]]:
    """The body of a kind with something odd in each of its places, and with each of its fields missing."""
    body = BODIES[kind]
    for path in places(body):
        for odd in ODD:
            copied = json.loads(json.dumps(body))
            holder = copied
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = odd
            yield copied
    for name in body:
        yield {key: value for key, value in body.items() if key != name}


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The keys on the way to each place in a JSON value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (key,)
        yield from ((key, *rest) for rest in places(item))


def follower(make: Callable[[], Any]) -> Callable[[Event], object]:
    """What follows a session, given a call before and words after the odd one."""

    def follow(event: Event) -> None:
        reader = make()
        for kind in ("message", "tool_call"):
            reader.apply(Event("s", 1, "2026-01-01T00:00:00.000Z", kind, data=BODIES[kind]))
        reader.apply(event)
        reader.apply(Event("s", 9, "2026-01-01T00:00:00.000Z", "message", data={"role": "user", "text": "More."}))

    return follow


READERS: dict[str, Callable[[Event], object]] = {
    **{make.__name__: follower(make) for make in (Chat, WorkLog, History, Standing, Watching, BuildState, CliMemory)},
    "line": event_line,
    "lines": event_lines,
    "described": describe,
    "transcript": lambda event: _event_line(event.to_json()),
}


@pytest.mark.parametrize("kind", BODIES)
def test_an_odd_record_is_read_by_all_who_follow_a_session(kind: str) -> None:
    for body in odd_ones(kind):
        event = Event("s", 5, "2026-01-01T00:00:00.000Z", kind, json.dumps(body))
        for name, read in READERS.items():
            try:
                read(event)
            except Exception as error:
                raise AssertionError(f"{name} of {kind} {body}") from error
