"""What the pictures of the lab show: records put into a store by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core import Label, Record, SessionInfo, add_label
from tests.harness.stage import Stage

TIDY = "sha256:" + "4f1c0a2b" * 8
BRISK = "sha256:" + "9ab2c001" * 8
TASK = "How deep is the water at Norrby, and when is the next high tide?"
ANSWERS = {
    "baseline": "The depth at Norrby is 4.2 metres below chart datum.\n\n- high tide: 14:10\n- low tide: 20:25",
    "candidate": "4.2 metres. High tide comes at 14:10.",
}


def ran(
    cell: str,
    stop: str = "completed",
    *,
    session: str | None = None,
    digest: str = TIDY,
    output: str = "",
    seconds: float = 12.4,
    usd: str | None = "0.01",
) -> dict[str, Any]:
    """The row of a run."""
    return {
        "preset": f"harbour-clerk@{digest[7:15]}",
        "agent": "harbour-clerk",
        "digest": digest,
        "channel": None,
        "stop": stop,
        "session": session or f"run-{cell}",
        "output": output,
        "usage": {"input_tokens": 8_100, "output_tokens": 210, "cached_tokens": 7_000, "requests": 3},
        "cost": {"usd": usd},
        "detail": None,
        "waiting": None,
        "duration_s": seconds,
    }


def begun(
    scene: Stage, kind: Any, name: str, title: str, about: Mapping[str, Any], minutes: float, **columns: Any
) -> Record:
    """A record that was begun `minutes` before noon."""
    scene.clock.ago(minutes)
    record = Record.open(scene.host, name, kind, title, about, **columns)
    scene.clock.noon()
    return record


def ended(record: Record, summary: str) -> str:
    """It came to its end."""
    record.end("completed", summary)
    record.close()
    return record.session


def running(scene: Stage, record: Record, session: str, minutes: float, kind: str = "arm", **started: Any) -> None:
    """A session that works for a record now."""
    scene.clock.ago(minutes)
    info = SessionInfo(
        session,
        kind,
        agent="harbour-clerk",
        digest=TIDY,
        parent=record.session,
        started=scene.clock(),
        title=TASK,
        usd="0.00",
    )
    scene.host.store.create_session(info, [("started", {"kind": kind, **started})])
    scene.host.store.append(session, [], {"input_tokens": 2_300, "output_tokens": 40, "usd": "0.003"})
    scene.clock.noon()


def comparison(scene: Stage, name: str = "cmp-1", minutes: float = 30) -> str:
    """A pair, both arms done."""
    about = {"task": TASK, "replay": None, "arms": [f"harbour-clerk@{TIDY}", f"harbour-clerk@{BRISK}"]}
    record = begun(scene, "comparison", name, TASK, about, minutes)
    for arm, digest, seconds, usd in (("baseline", TIDY, 12.4, "0.014"), ("candidate", BRISK, 8.1, None)):
        row = ran(arm, digest=digest, output=ANSWERS[arm], seconds=seconds, usd=usd)
        record.add("cell", {"cell": arm, **row})
    return ended(record, "harbour-clerk@4f1c0a2b: completed · harbour-clerk@9ab2c001: completed")


def comparisons(scene: Stage) -> None:
    """Two that are whole, the newest first, and one in the middle."""
    comparison(scene, "cmp-0", 60 * 26)
    comparison(scene)
    about = {"task": "Name the harbours.", "arms": ["harbour-clerk@live", f"harbour-clerk@{BRISK}"]}
    record = begun(scene, "comparison", "cmp-2", "Name the harbours.", about, 40)
    running(scene, record, "arm-b", 39)
    record.add("cell", {"cell": "candidate", **ran("candidate", "provider_error", digest=BRISK)})
    open_lab(scene, "cmp-1")


def pair_running(scene: Stage) -> None:
    """One arm done, one at work."""
    comparisons(scene)
    open_lab(scene, "cmp-2")


TASKS = ("depth-norrby", "fee-20-metres", "tide-sundvik")
VARIANTS = ((f"harbour-clerk@{TIDY}", "plain"), (f"harbour-clerk@{TIDY}", "terse"), (f"harbour-clerk@{BRISK}", "plain"))


def planned(repeats: int) -> list[dict[str, Any]]:
    """The cells in the order they run."""
    return [
        {"type": "cell", "cell": f"c{r}{t}{v}", "prompt": prompt, "task": task, "repeat": r, "preset": preset}
        for r in range(1, repeats + 1)
        for t, task in enumerate(TASKS)
        for v, (preset, prompt) in enumerate(VARIANTS)
    ]


def experiment(scene: Stage, repeats: int = 1) -> Record:
    """One in the middle: six of its cells have a result, two work, the rest wait."""
    plan = planned(repeats)
    about = {"name": "harbours", "cells": [cell["cell"] for cell in plan], "plan": plan}
    record = begun(scene, "experiment", "x-harbours", "harbours", about, 5)
    stops = ["completed", "completed", "needs_approval", "completed", "doom_loop", "completed"]
    for cell, stop in zip(plan, stops, strict=False):
        record.add("cell", {**cell, **ran(cell["cell"], stop, output="4.2 metres below chart datum")})
    for cell in plan[len(stops) : len(stops) + 2]:
        running(scene, record, f"{cell['cell']}-1", 1)
    open_lab(scene, record.session)
    return record


def matrix(scene: Stage) -> None:
    """An experiment that fills."""
    experiment(scene)


def matrix_repeats(scene: Stage) -> None:
    """One with repeats, more tasks done than not."""
    plan = planned(3)
    about = {"name": "harbours", "cells": [cell["cell"] for cell in plan], "plan": plan}
    record = begun(scene, "experiment", "x-harbours", "harbours", about, 5)
    for number, cell in enumerate(plan):
        stop = "completed" if number % 7 else "budget"
        record.add("cell", {**cell, **ran(cell["cell"], stop, output=f"answer {number}", seconds=3 + number / 10)})
    open_lab(scene, ended(record, f"{len(plan)} cells"))


def checked(passed: bool, why: str = "") -> dict[str, Any]:
    """One check of a case."""
    return {"check": 'number: {"value": 4.2, "tolerance": 0.05}', "kind": "number", "passed": passed, "why": why}


CASES = ("depth-norrby-1", "depth-sundvik-1", "fee-20", "tide-norrby-1", "tide-ekholm-1")


def evaluation(scene: Stage, name: str, minutes: float, failing: int, digest: str = TIDY) -> Record:
    """One whose first `failing` cases failed."""
    suite = {"path": "suite", "digest": "sha256:" + "5" * 64, "name": "harbours"}
    about = {"suite": suite, "agent": "harbour-clerk", "digest": digest, "cases": list(CASES)}
    columns = {"agent": "harbour-clerk", "digest": digest}
    record = begun(scene, "evaluation", name, "harbours: harbour-clerk", about, minutes, **columns)
    for number, case in enumerate(CASES):
        passed = number >= failing
        checks = [{"check": 'stop: "completed"', "kind": "stop", "passed": True, "why": ""}]
        checks.append(checked(passed, "" if passed else "found 13.8, wanted 4.2 (in feet?)"))
        row = ran(case, digest=digest, output="4.2 metres" if passed else "13.8 feet", seconds=2 + number + failing)
        record.add("case", {"type": "case", "id": case, "passed": passed, **row, "why": "", "checks": checks})
    return record


def evaluations(scene: Stage) -> None:
    """A series of them, getting better, and labels on the newest."""
    for number, failing in enumerate((4, 3, 3, 1)):
        digest = TIDY if number < 2 else BRISK
        ended(
            evaluation(scene, f"eval-{number}", 60 * 24 * (5 - number), failing, digest), f"{5 - failing} of 5 passed"
        )
    record = evaluation(scene, "eval-9", 20, 2, BRISK)
    add_label(record, Label("depth-norrby-1", "pass", "feet are what the pilot asked for"))
    add_label(record, Label("fee-20", "pass"))
    open_lab(scene, ended(record, "3 of 5 passed"))


def evaluation_running(scene: Stage) -> None:
    """The first one there is, with two cases done and one at work."""
    suite = {"path": "suite", "digest": "sha256:" + "5" * 64, "name": "harbours"}
    about = {"suite": suite, "agent": "harbour-clerk", "digest": TIDY, "cases": list(CASES)}
    columns = {"agent": "harbour-clerk", "digest": TIDY}
    record = begun(scene, "evaluation", "eval-1", "harbours: harbour-clerk", about, 2, **columns)
    for case in CASES[:2]:
        checks = [checked(case != CASES[0], "found 13.8")]
        row = {"type": "case", "id": case, "passed": case != CASES[0], **ran(case, output="4.2 metres"), "why": ""}
        record.add("case", {**row, "checks": checks})
    running(scene, record, "case-3", 1, "case", suite={**suite, "case": CASES[2]})
    open_lab(scene, "eval-1")


def empty(scene: Stage) -> None:
    """Nothing yet."""
    open_lab(scene, "")


def open_lab(scene: Stage, record: str) -> None:
    """The app comes back to it."""
    scene.host.store.set_value("app:left", f"lab:{record}")
