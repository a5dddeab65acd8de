"""The `artificer` command: the app where nothing is asked for, else one command; loads only what is used."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point of the console script; exits with the command's code."""
    _fill_closed_streams()
    try:
        if len(sys.argv) == 1:
            from tui.app import run_app

            sys.exit(run_app(None))
        from tui.commands import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        # While it was still loading: nothing had begun.
        sys.exit(130)


def _fill_closed_streams() -> None:
    """Where a standard stream was closed, let it lead nowhere: else the next file opened would take its number, and
    words meant for a person would end up in it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8"))


if __name__ == "__main__":
    main()
