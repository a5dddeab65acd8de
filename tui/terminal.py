"""Keeps what libraries and child processes write to file descriptor 2 off the screen, and in a file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def guarded_stderr(home: Path) -> Iterator[None]:
    """While inside, the app draws on the terminal through `sys.__stderr__`, and descriptor 2 is `app.log`.

    Where the file cannot be written, nothing is guarded.
    """
    original, current = sys.__stderr__, sys.stderr
    try:
        log = os.open(home / "app.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    terminal = os.dup(2)
    screen = open(terminal, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    os.dup2(log, 2)
    os.close(log)
    sys.__stderr__ = screen  # type: ignore[misc]
    sys.stderr = screen  # what Python itself says once the app is over, a crash's traceback above all
    try:
        yield
    finally:
        sys.__stderr__, sys.stderr = original, current  # type: ignore[misc]
        with contextlib.suppress(OSError):
            screen.flush()
        os.dup2(terminal, 2)
        os.close(terminal)
