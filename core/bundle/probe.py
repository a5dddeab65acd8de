"""Runs the untrusted parts of the static checks in child processes, and says which content killed one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

CPU_SECONDS = 5
WALL_SECONDS = 15.0
ALL_SECONDS = 60.0
ADDRESS_SPACE = 1 << 30
KEEP = 512

_KEPT: dict[str, dict[str, Any] | None] = {}

_CHILD = str(Path(__file__).with_name("probe_child.py"))


def probe(mode: Literal["python", "schema"], jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any] | None]:
    """An answer for each job, in order; None where the job alone takes the child down, or time ran out.

    All jobs share a child; where it dies, halves of them are tried until the culprits stand alone. An answer
    depends on its job alone, so the latest are kept: a bundle is checked many times while it is built.
    """
    keys = [f"{mode}:{hashlib.sha256(json.dumps(job).encode()).hexdigest()}" for job in jobs]
    answers = {key: _KEPT[key] for key in keys if key in _KEPT}
    fresh = {key: job for key, job in zip(keys, jobs, strict=True) if key not in answers}
    deadline = time.monotonic() + ALL_SECONDS
    for key, answer in zip(fresh, _divide(mode, list(fresh.values()), deadline), strict=True):
        answers[key] = answer
        if answer is not None:
            _KEPT[key] = answer
    # Insertion order; other threads may be at it too, so what is gone is gone.
    for key in list(_KEPT)[:-KEEP]:
        _KEPT.pop(key, None)
    return [answers[key] for key in keys]


def _divide(mode: str, jobs: list[dict[str, Any]], deadline: float) -> list[dict[str, Any] | None]:
    if not jobs:
        return []
    answers = _run(mode, jobs, deadline)
    if answers is not None:
        return list(answers)
    if len(jobs) == 1:
        return [None]
    middle = len(jobs) // 2
    return _divide(mode, jobs[:middle], deadline) + _divide(mode, jobs[middle:], deadline)


def _run(mode: str, jobs: list[dict[str, Any]], deadline: float) -> list[dict[str, Any]] | None:
    """The child's answers, or None where it died, was killed or said nothing that can be read."""
    left = min(WALL_SECONDS, deadline - time.monotonic())
    if left <= 0:
        return None
    # Nothing but the standard library is needed to parse Python, so site-packages is not searched.
    flags = ["-I", "-S"] if mode == "python" else ["-I"]
    command = [sys.executable, *flags, "-B", _CHILD, mode, str(CPU_SECONDS), str(ADDRESS_SPACE)]
    try:
        child = subprocess.run(
            command,
            input=json.dumps(jobs).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=left,
            cwd=tempfile.gettempdir(),
            env={"PATH": os.defpath},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if child.returncode != 0:
        return None
    try:
        answers = json.loads(child.stdout)
    except ValueError:
        return None
    return answers if isinstance(answers, list) and len(answers) == len(jobs) else None
