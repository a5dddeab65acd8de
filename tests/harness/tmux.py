"""A real terminal for whole stories: tmux, which keeps the screen, so that a test reads what a person would."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import pytest

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A tmux server of its own for each run, with one window. Use as a context manager."""

    def __init__(self, *, env: Mapping[str, str], cwd: Path, size: tuple[int, int] = (120, 36)) -> None:
        self._name = ""
        self.env, self.cwd, self.size = dict(env), cwd, size

    def run(self, command: str) -> None:
        """Start a shell command in the window; the window stays when it ends, with `left N` for its exit code."""
        columns, rows = self.size
        assignments = [part for name, value in self.env.items() for part in ("-e", f"{name}={value}")]
        self._end()
        self._name = f"artificer-{uuid.uuid4().hex[:8]}"  # another: a server that ends still holds its socket
        line = f"{command}; echo left $?; exec sleep 1000"
        where = ("-x", str(columns), "-y", str(rows), "-c", str(self.cwd))
        self._tmux("-f", "/dev/null", "new-session", "-d", *where, *assignments, line)

    def keys(self, *keys: str) -> None:
        """Press keys by tmux's names."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type text."""
        self._tmux("send-keys", "-l", text)

    def resize(self, columns: int, rows: int) -> None:
        """Another size of the window."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> str:
        """What stands on the screen."""
        return self._tmux("capture-pane", "-p").stdout.replace("\u00a0", " ")

    def wait(self, *texts: str, gone: str | None = None, seconds: float = 40) -> str:
        """Wait until all texts are on the screen (and `gone` is not); the screen."""
        end = time.monotonic() + seconds
        while True:
            screen = self.screen()
            if all(text in screen for text in texts) and (gone is None or gone not in screen):
                return screen
            if time.monotonic() > end:
                raise AssertionError(f"never {texts} without {gone!r} on:\n{screen}")
            time.sleep(0.05)

    def _tmux(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        # COLUMNS and LINES of whoever runs the tests would win over the window's size.
        env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "TMUX")}
        return subprocess.run(["tmux", "-L", self._name, *args], capture_output=True, text=True, check=check, env=env)

    def _end(self) -> None:
        if self._name:
            self._tmux("kill-server", check=False)

    def __enter__(self) -> Tmux:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
