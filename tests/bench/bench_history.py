"""A session of 100,000 events from cold: its first screen, its whole projection, and going on with it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from core import SessionInfo
from impl.store.sqlite import SqliteStore

EVENTS = 100_000
FIRST_SCREEN = 200
LIMIT_FIRST_S = 0.3
LIMIT_WHOLE_S = 1.0

FIRST = """
import sys, time
began = time.perf_counter()
from pathlib import Path
from impl.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
rows = store.sessions(limit=50)
screen = [event.data for event in store.tail("long", int(sys.argv[2]))]
assert len(screen) == int(sys.argv[2]) and rows
print(time.perf_counter() - began)
"""

WHOLE = """
import sys, time
began = time.perf_counter()
from pathlib import Path
from core.history import project
from impl.store.sqlite import SqliteStore
history = project(SqliteStore(Path(sys.argv[1])).events("long"))
assert len(history.messages) > 30_000, len(history.messages)
print(time.perf_counter() - began)
"""

GO_ON = """
import sys, time
began = time.perf_counter()
from pathlib import Path
from core.session import Bus, SessionLog
from core.standing import Standing
from core.watching import Watching
from impl.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
watching = Watching()
log = SessionLog(store, store.session("long"), Bus(), None, (Standing().apply, watching.apply))
log.load()
watching.live()
print(time.perf_counter() - began)
"""


def _fill(home: Path) -> None:
    text = "The parser failed on the third line of the manifest. " * 4
    with SqliteStore(home) as store:
        store.create_session(SessionInfo("long", "run"), [("started", {}), ("message", {"role": "user", "text": "Go"})])
        for start in range(0, EVENTS // 4, 250):
            pairs: list[tuple[str, dict[str, Any]]] = []
            for turn in range(start, start + 250):
                args = {"path": f"src/file_{turn}.py", "line": turn}
                blocks = [
                    {"t": "text", "text": "Let me look at the next one."},
                    {"t": "call", "id": f"call_{turn}", "name": "read", "args": args},
                ]
                usage = {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 900, "requests": 1}
                pairs += [
                    ("message", {"role": "assistant", "text": "Let me", "blocks": blocks, "finish": "tool_calls"}),
                    ("usage", {**usage, "cost": {"usd": "0.001"}}),
                    ("tool_call", {"call": f"call_{turn}", "tool": "read", "args": args, "turn": turn}),
                    ("tool_result", {"call": f"call_{turn}", "ok": True, "output": f"{turn}: {text}"}),
                ]
            store.append("long", pairs)


def _least(code: str, home: Path, times: int = 3) -> float:
    """Seconds of the fastest of several fresh processes, its imports included."""
    took = []
    for _ in range(times):
        line = [sys.executable, "-P", "-c", code, str(home), str(FIRST_SCREEN)]
        took.append(float(subprocess.run(line, capture_output=True, text=True, check=True).stdout))
    return min(took)


def run() -> dict[str, Any]:
    """Seconds from cold, imports included."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        _fill(home)
        first, whole, going_on = (_least(code, home) for code in (FIRST, WHOLE, GO_ON))
    return {
        "name": "history_100k",
        "events": EVENTS,
        "first_screen_s": round(first, 3),
        "whole_projection_s": round(whole, 3),
        "load_to_go_on_s": round(going_on, 3),
        "limit_first_s": LIMIT_FIRST_S,
        "limit_whole_s": LIMIT_WHOLE_S,
        "passed": first <= LIMIT_FIRST_S and whole <= LIMIT_WHOLE_S,
    }


@pytest.mark.bench
def test_a_long_session_opens_fast_enough() -> None:
    figures = run()
    assert figures["passed"], figures


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run()) + "\n")
