"""How long the guard takes to observe a step with 64 KB of output: one JSON object, microseconds of CPU."""

from __future__ import annotations

import dataclasses
import gc
import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

from core.progress import ProgressGuard, Step

SIZE = 64 * 1024
KINDS = ("log", "listing", "json", "one_line", "colours", "progress_bar", "tests", "hex", "digits", "unicode")
LIMIT_US = 1_000
WORST_US = 5_000
#: What a pattern may run away on: one piece, repeated without a break to the length of an output.
HOSTILE = (
    *("a", "E", "_", " ", "-", ".", ":", "/", "\\", "=", "#", "[", "{", "'", '"', "\x1b", "\b", "\r", "\0", "1", "1 "),
    *(
        "٣",
        "４",
        "🔥",
        "失敗",
        "e\u0301",
        "\ud800",
        "a_",
        "a-",
        "a1",
        "Aa1_",
        "aB1-",
        "1.1",
        "1:1:",
        "1h2m",
        "1-a",
        "Jan ",
        "Jan   ",
    ),
    *("id=", "Id>", "<time>", "/tmp/a-", "/tmp/tmp", "/var/folders/", "error", "error ", "not ", "exit ", "exit code "),
    *("3f2504e0-4f89-11d3-", "2026-08-03T10:00:00Z", "10:00:00", "1.1:1->", "from 1.1.1.1:", "retry after ", "elapsed"),
    *(
        "thread-",
        "EADDR ",
        "connection refused ",
        "failed 1 passed ",
        "\x1b[",
        "\x1b[3",
        '{"a":',
        '[{"stdout": "',
        "|1|",
        "@@ -1 ",
    ),
)


def outputs(kind: str, count: int, seed: int = 1) -> Iterator[str]:
    """`count` different outputs of one kind, each of 64 Ki characters."""
    dice = random.Random(f"{kind}{seed}")
    for number in range(count):
        text = "".join(_piece(kind, dice, number) for _ in range(40))
        yield (text * (SIZE // len(text) + 1))[: SIZE - 32] + f"\nError: run {number} failed"


def _piece(kind: str, dice: random.Random, number: int) -> str:
    n = dice.randrange(1_000_000)
    match kind:
        case "log":
            at = f"2026-08-03T10:{n % 60:02}:{n % 59:02}.{n % 999:03}Z"
            return f"{at} app[{n}]: error at /tmp/tmp{n:x}ab/x.py:{n} in 0.{n}s\n"
        case "listing":
            return f"-rw-r--r-- 1 root root {n} Aug  3 10:{n % 60:02} file_{n}.txt\n"
        case "json":
            return f'{{"id": "{n:032x}", "name": "item {n}", "at": 17{n:08}, "ok": false}},'
        case "one_line":
            return f"word{n} and another expected thing {number} "
        case "colours":
            return f"\x1b[31mFAILED\x1b[0m tests/test_{n}.py::test_x - \x1b[1massert {n} == 2\x1b[0m\n"
        case "progress_bar":
            return f"\rdownloading {n % 100}% [{'#' * (n % 40)}{'.' * (40 - n % 40)}] {n}kB/s"
        case "tests":
            return f"tests/test_{n}.py:{n % 500}: AssertionError: expected {n}, got {n + 1}\nE   assert {n} == 3\n"
        case "hex":
            return f"0x{n:012x}: {n:08x} {n * 7:08x} {n * 13:08x} |................|\n"
        case "digits":
            return f"{n} {n}.{n} {n}:{n}, "
        case _:
            return f"ошибка: файл не найден № {n} — 失敗 {n}\n"


def hostile() -> Iterator[Step]:
    """Outputs and arguments made to be slow to read: long, of a few lines' length, and repeated by a failure."""
    for piece in HOSTILE:
        long = (piece * (SIZE // len(piece) + 1))[:SIZE]
        for ok in (True, False):
            yield Step("tool", "run_sandbox", {"command": "make"}, long, ok)
            yield Step("tool", "run_sandbox", {"command": "make"}, f"error 1: {long[:1_980]}", ok)
            yield Step("tool", "run_sandbox", {"command": "make"}, f"start\nerror 1: {long[:-90]}\nfailed 2", ok)
        yield Step("tool", long[:60], {"command": long[:1_400], "old": long}, f"error: {long[:1_400]}", False)
        yield Step("tool", long[:60], {"old": long[:490]}, long[:900], False, rejected=True)


def cpu_us(step: Step) -> float:
    """CPU time of a guard's first sight of a step, microseconds: the least of five."""
    best = float("inf")
    for _ in range(5):
        guard = ProgressGuard()
        fresh = dataclasses.replace(step, output="".join((step.output[:9], step.output[9:])))
        start = time.thread_time_ns()
        guard.observe(fresh)
        best = min(best, (time.thread_time_ns() - start) / 1_000)
    return best


def run(rounds: int = 60) -> dict[str, Any]:
    """Observe `rounds` outputs of every kind, failing and not, several times over; per step the minimum of three."""
    steps = [
        Step(
            "tool",
            tool="run_sandbox",
            args={"command": f"make {kind} {number}"},
            output=text,
            ok=bool(number % 2),
            turn=number,
        )
        for kind in KINDS
        for number, text in enumerate(outputs(kind, rounds))
    ]
    random.Random(7).shuffle(steps)
    best = [float("inf")] * len(steps)
    for _ in range(3):
        guard = ProgressGuard()
        gc.collect()
        for index, step in enumerate(steps):
            # a fresh string each time: str keeps its hash, and a real output has not been hashed before
            fresh = Step(
                "tool", step.tool, step.args, "".join((step.output[:9], step.output[9:])), step.ok, turn=step.turn
            )
            start = time.thread_time_ns()
            guard.observe(fresh)
            best[index] = min(best[index], (time.thread_time_ns() - start) / 1_000)
    ordered = sorted(best)
    slowest: dict[str, float] = {}
    for step, cost in zip(steps, best, strict=True):
        kind = step.args["command"].split()[1]
        slowest[kind] = max(slowest.get(kind, 0.0), round(cost, 1))
    p99 = ordered[int(len(ordered) * 0.99)]
    against = sorted(cpu_us(step) for step in hostile())
    hostile_p99 = against[int(len(against) * 0.99)]
    return {
        "name": "progress_observe",
        "output_chars": SIZE,
        "steps": len(steps),
        "p50_us": round(ordered[len(ordered) // 2], 1),
        "p99_us": round(p99, 1),
        "max_us": round(ordered[-1], 1),
        "slowest_us": slowest,
        "hostile_p99_us": round(hostile_p99, 1),
        "hostile_max_us": round(against[-1], 1),
        "limit_us": LIMIT_US,
        "worst_us": WORST_US,
        "passed": p99 <= LIMIT_US and hostile_p99 <= LIMIT_US and max(ordered[-1], against[-1]) <= WORST_US,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run()) + "\n")
