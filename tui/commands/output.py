"""What commands print: JSON for programs on stdout, words for people on stderr, errors with their next step."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import core


class Refused(Exception):
    """A command cannot or must not do what was asked: a code, what happened, the next step."""

    exit_code = 1

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class Unfollowed(Refused):
    """A person ended following a session that another process drives; that goes on."""

    exit_code = 130

    def __init__(self, session: str) -> None:
        hint = f"Follow it with: artificer transcript {session} --follow\nStop it with: artificer interrupt {session}"
        super().__init__("interrupted", f"No longer following {session}; it goes on in another process.", hint)


def line(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of stdout, at once. A reader that has gone is no error."""
    _write_json(value)


def rows(
    values: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
    table: Callable[[Mapping[str, Any]], str],
    empty: str = "There is nothing to list yet.",
) -> None:
    """Print a listing: one JSON array, or one line of words a row; `empty` says on stderr that there is none."""
    if as_json:
        _write_json(list(values))
        return
    if not values:
        say(empty)
    for value in values:
        _write(sys.stdout, plain(table(value)))


def text(value: str) -> None:
    """Print words that are the command's result."""
    _write(sys.stdout, plain(value))


def say(value: str) -> None:
    """Tell a person something that is not the result."""
    _write(sys.stderr, plain(value))


def progress(value: str) -> None:
    """Tell a person how it goes; quiet where stderr is not a terminal."""
    if sys.stderr.isatty():
        say(value)


def meanwhile(line: str) -> None:
    """Tell a person what takes long: that it began everywhere, how far it is only where stderr is a terminal."""
    words = line.strip()
    (progress if _HOW_FAR.match(words) else say)(words)


_HOW_FAR = re.compile(r"\[(?:\d|The )")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(value: str) -> str:
    """Words with what a terminal would obey written out: names and texts come from anywhere."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], value)


def _write_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    _write(sys.stdout, text)


def _write(stream: Any, value: str) -> None:
    """Write a line and flush it. What the stream's encoding lacks is escaped; a reader that left is let go."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(value.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        unplug(stream)
    except OSError as error:
        # A full disk behind a redirection must not end a session halfway: it is said once, at the end.
        unplug(stream)
        if stream is sys.stdout:
            _unwritten.append(error)


_unwritten: list[OSError] = []


def unwritten() -> OSError | None:
    """Why stdout could not take all that was printed, once; None where it could."""
    error = _unwritten[0] if _unwritten else None
    _unwritten.clear()
    return error


def unplug(stream: Any) -> None:
    """Let what is still written to `stream` go nowhere, so that neither we nor the interpreter's end fail over it."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def said_no(code: str, message: str, hint: str, *, as_json: bool, exit_code: int = 1) -> int:
    """Report an error and return the exit code."""
    if as_json:
        line({"type": "error", "code": code, "message": message, "hint": hint})
    say(f"{message}\n{hint}" if hint else message)
    return exit_code


def fail(error: Exception, *, json: bool) -> int:
    """Report any exception as a person or program needs it; returns the exit code."""
    import typer

    from impl.settings import SettingsError

    match error:
        case typer.Exit():
            return int(error.exit_code)
        case typer.Abort():
            return said_no("failed", "Aborted.", "", as_json=json)
        case typer.TyperException():
            hint = f"See: artificer {_command(error)}--help"
            return said_no("usage", error.format_message(), hint, as_json=json, exit_code=error.exit_code)
        case Refused() | core.StoreError() | core.CannotFork():
            wrong = 2 if error.code == "usage" else error.exit_code if isinstance(error, Refused) else 1
            return said_no(error.code, _sentence(error.message), error.hint, as_json=json, exit_code=wrong)
        case core.UnknownRef():
            return said_no("not_found", _sentence(error.message), error.hint, as_json=json)
        case core.NoSuchSession():
            hint = "List them with: artificer sessions"
            return said_no("not_found", f"There is no session {error}.", hint, as_json=json)
        case core.UnknownResource():
            return said_no("not_found", str(error), "List what there is with: artificer agents", as_json=json)
        case core.BadStart():
            return said_no("bad_start", str(error), "Mend the folder, or name another with --files.", as_json=json)
        case core.SandboxUnavailable():
            hint = "See what works here with: artificer doctor"
            return said_no("sandbox_unavailable", str(error), hint, as_json=json)
        case SettingsError():
            return said_no("settings", str(error), error.hint, as_json=json)
        case FileNotFoundError(filename=None):
            hint = "Change to one that is there, and try again."
            return said_no("not_found", "The directory you are in is gone.", hint, as_json=json)
        case OSError():
            words = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror or error}."
            hint = "Check that it is there, that you may use it, and that there is room."
            return said_no("failed", words, hint, as_json=json)
        case _:
            hint = "Nothing stored is lost. If it happens again, please report it with this text."
            return said_no("internal", f"{type(error).__name__}: {error}", hint, as_json=json)


def _sentence(words: str) -> str:
    """A sentence, unless it begins with what is no word: an id, a path or an address stays as it is typed."""
    if words.partition(" ")[0].isalpha():
        words = words[:1].upper() + words[1:]
    return words if words.endswith((".", "!", "?", ":")) else words + "."


def _command(error: Any) -> str:
    """The words of the command it is about, each with a blank after it; none for `artificer` itself."""
    context, words = getattr(error, "ctx", None), ""
    while context is not None and context.parent is not None:
        context, words = context.parent, f"{context.info_name} {words}"
    return words


def short(digest: Any) -> str:
    """A digest as people read it: its first twelve hex digits."""
    return str(digest or "").removeprefix("sha256:")[:12]
