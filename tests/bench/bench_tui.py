"""What the app costs: its start beside a bare Textual app, one more event, a move of the focus, a busy log.

Neighbours that are on the PATH start beside it, each from an environment of its own:

    python -m venv p && p/bin/pip install posting 'tree-sitter<0.26'   # later ones end it before its first paint
    python -m venv h && h/bin/pip install harlequin
    PATH="$PATH:$PWD/p/bin:$PWD/h/bin" python -m tests.bench.bench_tui
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.harness.stage import Stage, said, stage
from tests.harness.terminal import ROOT, Terminal

ROUNDS = 5
LINES_A_SECOND = 50_000
SECONDS = 10

HELLO = """
from textual.app import App
from textual.widgets import Static
class Hello(App):
    def compose(self):
        yield Static("hello there", id="text")
    def on_key(self, event):
        self.query_one("#text").update("typed " + (event.character or ""))
Hello().run()
"""


def run() -> dict[str, Any]:
    """The figures: seconds, milliseconds and megabytes, and the ratios the design asks for."""
    figures = start()
    figures.update(asyncio.run(events()))
    figures.update(asyncio.run(busy_log()))
    return figures


# --- start -------------------------------------------------------------------------------------------------


def start() -> dict[str, Any]:
    """From fork to the first paint, to a typed letter on screen, and the memory then: interleaved, minima."""
    programs: dict[str, tuple[Sequence[str], str, str]] = {
        "hello": ([sys.executable, "-c", HELLO], "hello there", "typed "),
        "artificer": ([sys.executable, "-P", "-m", "tui.cli"], "Artificer builds agents.", "z"),
    }
    for name, text in (("posting", "Collection"), ("harlequin", "Data Catalog")):
        found = shutil.which(name)
        if found is not None and _paints(found, text):
            programs[name] = ([found], text, "")
    best: dict[str, list[float]] = {name: [float("inf")] * 3 for name in programs}
    for _ in range(ROUNDS):
        for name, (argv, text, echo) in programs.items():
            best[name] = [min(pair) for pair in zip(best[name], _start_once(argv, text, echo), strict=True)]
    figures: dict[str, Any] = {"missing": sorted({"posting", "harlequin"} - programs.keys())}
    for name, (paint, usable, memory) in best.items():
        figures[f"{name}_first_paint_s"] = round(paint, 3)
        figures[f"{name}_usable_s"] = round(usable, 3)
        figures[f"{name}_memory_mb"] = round(memory, 1)
    for number, what in enumerate(("first_paint", "usable", "memory")):
        figures[f"{what}_ratio"] = round(best["artificer"][number] / best["hello"][number], 2)
    return figures


def _paints(program: str, text: str) -> bool:
    """Whether a neighbour that is installed starts here at all."""
    try:
        _start_once([program], text, "")
    except AssertionError:
        return False
    return True


def _start_once(argv: Sequence[str], text: str, echo: str) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as directory:
        env = {"ARTIFICER_HOME": str(Path(directory, "home")), "HOME": directory, "TEXTUAL_ANIMATIONS": "none"}
        begin = time.perf_counter()
        with Terminal(argv, env=env, cwd=ROOT) as terminal:
            at = terminal.wait_for(text)
            paint = time.perf_counter() - begin
            usable = paint
            if echo:
                terminal.send("z")
                terminal.wait_for(echo, after=at)
                usable = time.perf_counter() - begin
            time.sleep(0.5)
            return paint, usable, _resident(terminal.process.pid)


def _resident(pid: int) -> float:
    """Resident memory in megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


# --- events ------------------------------------------------------------------------------------------------


async def events() -> dict[str, Any]:
    """One more event, and a move of the focus, in a session of 100 and in one of 10,000 events."""
    figures: dict[str, Any] = {}
    medians: dict[int, list[float]] = {100: [], 10_000: []}
    moves: dict[int, list[float]] = {100: [], 10_000: []}
    with tempfile.TemporaryDirectory() as directory:
        on = stage(Path(directory, "home"))
        names = {count: _long(on, count) for count in medians}
        for _ in range(3):
            for count, name in names.items():
                one, move = await _one_more(on, name)
                medians[count].append(one)
                moves[count].append(move)
        on.host.store.close()
    for count, values in medians.items():
        figures[f"one_more_event_at_{count}_ms"] = round(min(values) * 1000, 2)
        figures[f"focus_move_at_{count}_ms"] = round(min(moves[count]) * 1000, 2)
    figures["one_more_event_ratio"] = round(min(medians[10_000]) / min(medians[100]), 2)
    return figures


def _long(on: Stage, count: int) -> str:
    name = on.session("Build it", agent="long")
    pairs: list[tuple[str, Any]] = []
    for number in range(count // 2):
        pairs += [("message", {"role": "user", "text": f"Question {number}"}), said(f"Answer **{number}**.", number)]
    on.host.store.append(name, pairs)
    return name


async def _one_more(on: Stage, session: str) -> tuple[float, float]:
    from tui.application import ArtificerApp
    from tui.panes.chat import ChatPane
    from tui.screens.session import SessionScreen
    from tui.widgets.composer import Composer

    app = ArtificerApp(on.host, session=session)
    app.animation_level = "none"
    async with app.run_test(size=(120, 40)):
        await _until(lambda: app.opened)
        screen = app.screen
        assert isinstance(screen, SessionScreen)
        await asyncio.sleep(0.5)
        costs, moves = [], []
        for number in range(60):
            # The follower of the screen finds it in the store; here its cost alone is measured.
            (event,) = on.host.store.append(session, [said(f"One *more* of {number}", 100_000 + number)])
            begin = time.perf_counter()
            await screen.take([event])
            await _painted(app)
            costs.append(time.perf_counter() - begin)
        for number in range(20):
            target = screen.query_one(ChatPane) if number % 2 == 0 else screen.query_one(Composer)
            begin = time.perf_counter()
            target.focus()
            await _painted(app)
            moves.append(time.perf_counter() - begin)
    return statistics.median(costs), statistics.median(moves)


async def _until(condition: Callable[[], bool]) -> None:
    """Let others work until it holds."""
    while not condition():  # noqa: ASYNC110 - the app has no event for it, and the loop is to be kept busy
        await asyncio.sleep(0)


async def _painted(app: Any) -> None:
    """Until the next refresh of the screen is done."""
    done = asyncio.Event()
    app.screen.call_after_refresh(done.set)
    await done.wait()


# --- log ---------------------------------------------------------------------------------------------------


async def busy_log() -> dict[str, Any]:
    """50,000 lines a second for ten seconds: how long a keystroke takes to the screen, and what memory does."""
    from textual import events as textual_events

    from core import Event
    from tui.application import ArtificerApp
    from tui.screens.session import SessionScreen
    from tui.widgets.composer import Composer

    with tempfile.TemporaryDirectory() as directory:
        on = stage(Path(directory, "home"))
        name = on.session("Build it", agent="busy")
        app = ArtificerApp(on.host, session=name)
        app.animation_level = "none"
        waits: list[float] = []
        memory: list[float] = []
        async with app.run_test(size=(120, 40)):
            await _until(lambda: app.opened)
            screen = app.screen
            assert isinstance(screen, SessionScreen)
            composer = screen.query_one(Composer)
            chunk = "".join(f"line {n} of a command that prints much\n" for n in range(LINES_A_SECOND // 20))
            begin, sent = time.perf_counter(), 0

            async def pour() -> None:
                nonlocal sent
                while time.perf_counter() - begin < SECONDS:
                    due = int((time.perf_counter() - begin) * 20) + 1
                    for _ in range(due - sent):
                        await screen.take([Event(name, 0, "", "log", data={"call": "c", "text": chunk})])
                        sent += 1
                    await asyncio.sleep(0.005)

            task = asyncio.create_task(pour())
            while not task.done():
                at = time.perf_counter()
                app.post_message(textual_events.Key("a", "a"))
                await _until(lambda: bool(composer.text))
                await _painted(app)
                waits.append(time.perf_counter() - at)
                composer.text = ""
                memory.append(_resident_self())
                await asyncio.sleep(0.1)
            await task
            rate = sent * (LINES_A_SECOND // 20) / (time.perf_counter() - begin)
        on.host.store.close()
    waits.sort()
    half = len(memory) // 2
    return {
        "log_lines_a_second": round(rate),
        "log_keystroke_p50_ms": round(waits[len(waits) // 2] * 1000, 1),
        "log_keystroke_p99_ms": round(waits[int(len(waits) * 0.99)] * 1000, 1),
        "log_memory_growth_mb": round(max(memory[half:]) - max(memory[:half]), 1),
    }


def _resident_self() -> float:
    import os

    return _resident(os.getpid())


if __name__ == "__main__":
    import json

    print(json.dumps(run(), indent=2))  # noqa: T201 - the figures are what it is for
