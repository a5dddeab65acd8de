"""What the loop costs beside the model: a turn early and late in a session, and many sessions at once.

The model answers at once in this process, with one tool call a turn; the log is the durable store.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core import Host, LaunchInput, ModelProvider, ModelRequest, StreamItem, Supervisor, Text, ToolCall, TurnEnd, Usage
from core import launch_agent as drive
from tests.harness.eval_driver import EvalDriver, make_host, tool

LATE = 4_000
WINDOW = 20
SESSIONS = 500
TURNS = 20
PAUSE_S = 0.001
LIMIT_US = 500
LIMIT_GROWTH = 1.2
LIMIT_TOGETHER = 1.0
LIMIT_KB = 200

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "minLength": 1}, "line": {"type": "integer", "minimum": 1}},
    "required": ["path"],
    "additionalProperties": False,
}


class Instant(ModelProvider):
    """Answers at once: one tool call a turn, then a reply. `began` is when each request came, in nanoseconds."""

    name = "instant"

    def __init__(self, turns: int, *, clock: bool = False, pause: float = 0.0) -> None:
        self.turns = turns
        self._pause = pause
        self.began: list[int] = []
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """The next turn, by how long the history is."""
        if self._clock:
            self.began.append(time.perf_counter_ns())
        await asyncio.sleep(self._pause)  # as any model does, it lets others run
        turn = len(request.messages) // 2
        if turn >= self.turns:
            yield TurnEnd((Text("done"),), "stop", Usage(100, 10))
        else:
            call = ToolCall(f"call_{turn}", "read", {"path": f"src/file_{turn}.py", "line": turn + 1})
            yield TurnEnd((call,), "tool_calls", Usage(100, 10))


def _driver() -> EvalDriver:
    read = tool("read", lambda args: f"{args['path']}: line {args['line']} holds something of its own", SCHEMA)
    return EvalDriver(tools=[read])


def _host(home: Path, provider: Instant) -> Host:
    return make_host(home, driver=_driver(), provider=provider)


def _one_session(turns: int) -> list[float]:
    """Microseconds of each turn of one session."""
    with tempfile.TemporaryDirectory() as home:
        provider = Instant(turns, clock=True)
        host = _host(Path(home), provider)
        gc.collect()
        asyncio.run(drive(_driver(), LaunchInput(host=host, task="Read.", provider=provider)))
        host.store.close()
    began = provider.began
    return [(after - before) / 1_000 for before, after in pairwise(began)]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def turns(rounds: int = 3) -> dict[str, Any]:
    """A turn at 25 and at 4,000, the least of several runs of the median of a window around it."""
    early, late = float("inf"), float("inf")
    for _ in range(rounds):
        costs = _one_session(LATE + WINDOW)
        for start in range(25, 25 + 5 * WINDOW, WINDOW):
            early = min(early, _median(costs[start : start + WINDOW]))
        for start in range(LATE - 5 * WINDOW, LATE, WINDOW):
            late = min(late, _median(costs[start : start + WINDOW]))
    return {
        "name": "loop_turn",
        "turn_25_us": round(early, 1),
        "turn_4000_us": round(late, 1),
        "growth": round(late / early, 3),
        "limit_us": LIMIT_US,
        "limit_growth": LIMIT_GROWTH,
        "passed": max(early, late) <= LIMIT_US and late / early <= LIMIT_GROWTH,
    }


async def _many(host: Host, count: int, *, together: bool) -> None:
    supervisor = Supervisor(host)
    if together:
        ids = [supervisor.start(LaunchInput(host=host, task="Read.", provider="instant")) for _ in range(count)]
        await asyncio.gather(*(supervisor.wait(id) for id in ids))
    else:
        for _ in range(count):
            await supervisor.wait(supervisor.start(LaunchInput(host=host, task="Read.", provider="instant")))
    await supervisor.close()


def _timed(count: int, *, together: bool, pause: float = 0.0) -> float:
    with tempfile.TemporaryDirectory() as home:
        host = _host(Path(home), Instant(TURNS - 1, pause=pause))
        gc.collect()
        began = time.perf_counter()
        asyncio.run(_many(host, count, together=together))
        took = time.perf_counter() - began
        host.store.close()
    return took


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def sessions(rounds: int = 3) -> dict[str, Any]:
    """500 sessions of 20 turns at once against one after the other, interleaved; and what one holds while it runs.

    The model takes a millisecond, a thousandth of what real ones take: what being at once is for. `instant_ratio`
    is the same with one that takes no time, where being at once wins only by commits that are shared.
    """
    _timed(20, together=True)
    before = _peak_kb()
    _timed(SESSIONS, together=True)
    grown = (_peak_kb() - before) / SESSIONS
    best = {(pause, at_once): float("inf") for pause in (0.0, PAUSE_S) for at_once in (True, False)}
    for _ in range(rounds):
        for pause, at_once in best:
            best[pause, at_once] = min(best[pause, at_once], _timed(SESSIONS, together=at_once, pause=pause))
    ratio, instant = (best[pause, True] / best[pause, False] for pause in (PAUSE_S, 0.0))
    return {
        "name": "sessions_at_once",
        "sessions": SESSIONS,
        "turns_each": TURNS,
        "at_once_s": round(best[PAUSE_S, True], 3),
        "one_after_the_other_s": round(best[PAUSE_S, False], 3),
        "ratio": round(ratio, 3),
        "instant_at_once_s": round(best[0.0, True], 3),
        "instant_one_after_the_other_s": round(best[0.0, False], 3),
        "instant_ratio": round(instant, 3),
        "kb_a_session": round(grown, 1),
        "limit_ratio": LIMIT_TOGETHER,
        "limit_kb": LIMIT_KB,
        "passed": max(ratio, instant) <= LIMIT_TOGETHER and grown <= LIMIT_KB,
    }


def run() -> dict[str, Any]:
    """All figures; `passed` where every one is within its limit."""
    figures = [sessions(), turns()]
    return {"name": "loop", "passed": all(f["passed"] for f in figures), "figures": figures}


@pytest.mark.bench
def test_the_loop_is_fast_enough() -> None:
    figures = run()
    assert figures["passed"], figures


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run()) + "\n")
