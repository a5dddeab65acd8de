"""The command line as tests use it: one command in this process or in one of its own, its output read back."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What one command came to. `lines` are its JSON lines."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Every line of stdout, as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def value(self) -> Any:
        """The one JSON value a command printed."""
        (value,) = self.lines
        return value

    @property
    def events(self) -> list[dict[str, Any]]:
        """The event lines."""
        return [line for line in self.lines if line["type"] == "event"]

    @property
    def result(self) -> dict[str, Any]:
        """The result line, which must be the last."""
        last: dict[str, Any] = self.lines[-1]
        assert last["type"] == "result", last
        return last

    @property
    def error(self) -> dict[str, Any]:
        """The error line, which must be the only one."""
        value: dict[str, Any] = self.value
        assert value["type"] == "error", value
        return value

    def kinds(self) -> list[str]:
        """The kinds of the events, in order."""
        return [event["kind"] for event in self.events]


def artificer(*words: str | Path, json: bool = True) -> Ran:
    """Run a command in this process, with --json unless told otherwise."""
    from tui.commands import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*map(str, words), *(["--json"] if json else [])])
    return Ran(code, out.getvalue(), err.getvalue())


def expecting(code: int, *words: str | Path) -> Ran:
    """Run a command in this process that must exit with `code`."""
    ran = artificer(*words)
    assert ran.code == code, (words, ran)
    return ran


def argv(*words: str | Path) -> list[str]:
    """The argument vector of a command in a process of its own."""
    return [sys.executable, "-P", "-m", "tui.cli", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    """This process's environment with `more`."""
    return {**os.environ, **more}


def process(*words: str | Path, env: Mapping[str, str] | None = None) -> Ran:
    """Run a command in a process of its own, with --json."""
    done = subprocess.run(
        argv(*words, "--json"), env=env or environment(), capture_output=True, text=True, timeout=DEADLINE_S
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class Running:
    """A command that is still running in a process of its own; a context manager that kills it at the end."""

    def __init__(self, *words: str | Path, env: Mapping[str, str] | None = None) -> None:
        self.read: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            argv(*words, "--json"),
            env=env or environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read lines until one is wanted, and return that one."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            line: dict[str, Any] = json.loads(text)
            self.read.append(line)
            if wanted(line):
                return line
        raise AssertionError(f"it ended ({self.process.wait()}) before that came: {self.read[-3:]}")

    def event(self, kind: str, **data: Any) -> dict[str, Any]:
        """Read until an event of `kind` with this data."""

        def wanted(line: dict[str, Any]) -> bool:
            return line.get("kind") == kind and all(line["data"].get(k) == v for k, v in data.items())

        return self.until(wanted)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self) -> Ran:
        """Wait for its end; all its lines, those read before included."""
        rest, _ = self.process.communicate(timeout=DEADLINE_S)
        lines = [*self.read, *map(json.loads, rest.splitlines())]
        return Ran(self.process.returncode, "\n".join(map(json.dumps, lines)), "")
