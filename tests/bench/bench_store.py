"""What the store costs: appending, reading a long session, finding its end, searching."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.ports import SessionInfo
from impl.store.sqlite import SqliteStore

BODY = {"call": "call_0123456789", "tool": "run_sandbox", "args": {"command": "ls -la tools"}, "turn": 3}
EVENTS = 100_000


def _least(call: Callable[[], object], times: int) -> float:
    """The shortest of several runs, in seconds."""
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def _append(store: SqliteStore, session: str, count: int) -> None:
    for n in range(count):
        store.append(session, [("tool_call", BODY)], {"requests": n})


def _fill(store: SqliteStore) -> None:
    text = "The parser failed on the third line of the manifest. " * 4
    pairs: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "assistant", "text": text}),
        ("tool_call", BODY),
        ("tool_result", {"call": "call_0123456789", "ok": True, "output": text}),
        ("usage", {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 900, "requests": 1}),
    ]
    for _ in range(EVENTS // 400):
        store.append("long", pairs * 100)


def _cold(home: Path, count: int | None) -> Callable[[], object]:
    """Open the home anew, as a program that has just started does, and read."""

    def read() -> object:
        with SqliteStore(home) as store:
            if count is not None:
                return [e.data for e in store.tail("long", count)]
            return sum(len(e.data) for e in store.events("long"))

    return read


def run() -> dict[str, Any]:
    """The figures; `_us` are microseconds, `_ms` milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        opened = _least(lambda: SqliteStore(home).close(), 5)
        with SqliteStore(home) as store:
            for name in ("short", "long", "full"):
                store.create_session(SessionInfo(name, "run"), [("started", {})])
            append = _least(lambda: _append(store, "short", 2_000), 5) / 2_000
            _fill(store)
            late = _least(lambda: _append(store, "long", 2_000), 5) / 2_000
            lazily = _least(lambda: sum(1 for _ in store.events("long")), 3)
            begin = time.perf_counter()
            store.search("parser")
            first_search = time.perf_counter() - begin
            search = _least(lambda: store.search("manifest third"), 3)
        return {
            "open_ms": round(opened * 1e3, 2),
            "append_us": round(append * 1e6, 1),
            "append_to_100k_us": round(late * 1e6, 1),
            "events_100k_lazy_ms": round(lazily * 1e3, 1),
            "events_100k_decoded_cold_ms": round(_least(_cold(home, None), 3) * 1e3, 1),
            "tail_200_of_100k_cold_ms": round(_least(_cold(home, 200), 5) * 1e3, 2),
            "first_search_indexing_100k_ms": round(first_search * 1e3, 1),
            "search_ms": round(search * 1e3, 1),
        }


if __name__ == "__main__":
    import json

    print(json.dumps(run(), indent=2))  # noqa: T201 - a benchmark prints its figures
