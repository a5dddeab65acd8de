"""A pseudo-terminal with a program in it: keys in, bytes out, and what state the terminal was left in."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]


class Terminal:
    """Runs `argv` on a pseudo-terminal of `size` (columns, rows). Use as a context manager."""

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], size: tuple[int, int] = (80, 24), cwd: Path = ROOT
    ) -> None:
        self._leader, self._follower = pty.openpty()
        self.resize(*size)
        self._before = self._after = termios.tcgetattr(self._follower)
        self.output = bytearray()
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            argv,
            stdin=self._follower,
            stdout=self._follower,
            stderr=self._follower,
            env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", "TZ": "UTC", "LANG": "C.UTF-8", **env},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=self._own_terminal,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @staticmethod
    def _own_terminal() -> None:
        """Make the terminal the child's own, so that closing it hangs the child up."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._leader, 65536)
            except OSError:
                return
            if not data:
                return
            with self._changed:
                self.output += data
                self._changed.notify_all()

    def send(self, keys: str | bytes) -> None:
        """Type."""
        os.write(self._leader, keys.encode() if isinstance(keys, str) else keys)

    def wait_for(self, text: str, *, after: int = 0, seconds: float = 30) -> int:
        """Wait until `text` was written after byte `after`; where it ends. Fails with the end of the output."""
        wanted, end = text.encode(), time.monotonic() + seconds
        with self._changed:
            while (at := self.output.find(wanted, after)) < 0:
                if self.process.poll() is not None or not self._changed.wait(max(0.0, end - time.monotonic())):
                    raise AssertionError(f"{text!r} never came; the end was {bytes(self.output[-2000:])!r}")
        return at + len(wanted)

    def resize(self, columns: int, rows: int) -> None:
        """Another size; the program is told."""
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        self.process.send_signal(number)

    def exit_code(self, seconds: float = 30) -> int:
        """Wait for the end, its last byte included; its code, negative where a signal ended it."""
        code = self.process.wait(seconds)
        if self._follower >= 0:
            self._after = termios.tcgetattr(self._follower)  # with its last holder the terminal forgets them
            os.close(self._follower)
            self._follower = -1
            self._reader.join(seconds)
        return code

    def hang_up(self) -> None:
        """Close the terminal under the program."""
        os.close(self._follower)
        self._follower = -1
        os.close(self._leader)
        self._leader = -1

    @property
    def restored(self) -> dict[str, bool]:
        """Whether what a full-screen program changes was put back, once it has ended."""
        out = bytes(self.output)

        def last(on: bytes, off: bytes) -> bool:
            return out.rfind(off) > out.rfind(on)

        after = self._after
        return {
            "screen": last(b"\x1b[?1049h", b"\x1b[?1049l"),
            "cursor": last(b"\x1b[?25l", b"\x1b[?25h"),
            "mouse": last(b"\x1b[?1003h", b"\x1b[?1003l"),
            "paste": last(b"\x1b[?2004h", b"\x1b[?2004l"),
            "line": after[3] == self._before[3] and after[0] == self._before[0],
        }

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for fd in (self._leader, self._follower):
            if fd >= 0:
                os.close(fd)


def artificer(home: Path, *args: str, **env: Any) -> Terminal:
    """The app (or a command) in a terminal, on `home`."""
    size = env.pop("size", (80, 24))
    variables = {"ARTIFICER_HOME": str(home), "HOME": str(home.parent), "TEXTUAL_ANIMATIONS": "none", **env}
    return Terminal([sys.executable, "-P", "-m", "tui.cli", *args], env=variables, size=size)
