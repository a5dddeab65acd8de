"""What commands print: JSON for programs on stdout, words for people on stderr, errors with their next step."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import core
from core import Event
from impl.settings import SettingsError


class Refused(Exception):
    """A command cannot or must not do what was asked: a code, what happened, the next step."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def line(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of stdout, at once. A reader that has gone is no error."""
    _write(json.dumps(value, ensure_ascii=False))


def rows(values: Sequence[Mapping[str, Any]], *, as_json: bool, table: Callable[[Mapping[str, Any]], str]) -> None:
    """Print a listing: one JSON array, or one line of words a row."""
    if as_json:
        _write(json.dumps(list(values), ensure_ascii=False))
        return
    for value in values:
        _write(table(value))


def text(value: str) -> None:
    """Print words that are the command's result."""
    _write(value)


def say(value: str) -> None:
    """Tell a person something that is not the result."""
    print(value, file=sys.stderr, flush=True)  # noqa: T201


def progress(value: str) -> None:
    """Tell a person how it goes; quiet where stderr is not a terminal."""
    if sys.stderr.isatty():
        say(value)


def _write(value: str) -> None:
    try:
        sys.stdout.write(value + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115


def said_no(code: str, message: str, hint: str, *, as_json: bool, exit_code: int = 1) -> int:
    """Report an error and return the exit code."""
    if as_json:
        line({"type": "error", "code": code, "message": message, "hint": hint})
    say(f"{message}\n{hint}" if hint else message)
    return exit_code


def fail(error: Exception, *, json: bool) -> int:
    """Report any exception as a person or program needs it; returns the exit code."""
    import typer

    match error:
        case typer.Exit():
            return int(error.exit_code)
        case typer.Abort():
            return said_no("failed", "Aborted.", "", as_json=json)
        case typer.TyperException():
            hint = f"See: artificer {_command(error)}--help"
            return said_no("usage", error.format_message(), hint, as_json=json, exit_code=error.exit_code)
        case Refused():
            return said_no(error.code, error.message, error.hint, as_json=json)
        case core.StoreError():
            return said_no(error.code, error.message, error.hint, as_json=json)
        case core.UnknownRef():
            return said_no("not_found", error.message, error.hint, as_json=json)
        case core.UnknownResource():
            return said_no("not_found", str(error), "", as_json=json)
        case SettingsError():
            return said_no("settings", str(error), "Mend the file or variable named here.", as_json=json)
        case _:
            hint = "Nothing stored is lost. If it happens again, please report it with this text."
            return said_no("internal", f"{type(error).__name__}: {error}", hint, as_json=json)


def _command(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.info_name} " if context is not None and context.parent is not None else ""


def describe(event: Event) -> str | None:
    """One line on a running session for a person, or None where there is nothing to say."""
    data = event.data
    match event.kind:
        case "tool_call":
            args = json.dumps(data.get("args"), ensure_ascii=False)
            return f"  {data.get('tool')} {args if len(args) < 100 else args[:99] + '…'}"
        case "tool_result" if not data.get("ok"):
            return f"  ✗ {' '.join(str(data.get('output', '')).split())[:160]}"
        case "source":
            return f"  source: {data.get('url') or data.get('path')} ({data.get('files', '?')} files)"
        case "revision":
            return f"  saved {data.get('agent')} {short(data.get('digest'))}"
        case "validation":
            return f"  validation {'passed' if data.get('passed') else 'failed'} ({data.get('id')})"
        case "published" if not data.get("refused"):
            return f"  published {data.get('agent')} {short(data.get('digest'))} to {data.get('channel')}"
        case "notice" | "nudge":
            return f"  note: {data.get('text')}"
        case _:
            return None


def short(digest: Any) -> str:
    """A digest as people read it: its first twelve hex digits."""
    return str(digest or "").removeprefix("sha256:")[:12]
