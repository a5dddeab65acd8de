"""The `artificer` command: the app where nothing is asked for, else one command; loads only what is used."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script; exits with the command's code."""
    try:
        if len(sys.argv) == 1:
            from tui.app import run_app

            sys.exit(run_app(None))
        from tui.commands import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        # While it was still loading: nothing had begun.
        sys.exit(130)


if __name__ == "__main__":
    main()
