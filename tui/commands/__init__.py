"""The command line: one Typer application, its commands grouped by what they are about."""

from __future__ import annotations

import sys

import typer

from tui.commands import bundles, credentials, house, lab, labels, mcp, output, sessions
from tui.commands.hosting import close_hosts

INTERRUPTED = 130
"""The exit code of what an interrupt ended before it could say a result."""
app = typer.Typer(
    name="artificer",
    help="Builds and supervises agents, in a terminal. Without a command it opens the app.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
sessions.add_to(app)
bundles.add_to(app)
house.add_to(app)
credentials.add_to(app)
mcp.add_to(app)
lab.add_to(app)
labels.add_to(app)


def run(argv: list[str]) -> int:
    """Run one command line; returns its exit code: the command's own, 1 for what failed, 2 for usage."""
    command = typer.main.get_command(app)
    as_json = "--json" in argv
    try:
        code = command.main(args=argv, prog_name="artificer", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the outermost edge: every failure becomes words and a code
        return output.fail(error, json=as_json)
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        close_hosts()
        _flush()
    code = code if isinstance(code, int) else 0
    if code == INTERRUPTED:  # Typer turns the exception into this code
        hint = "What it had begun is settled; it stands in: artificer sessions"
        return output.said_no("interrupted", "Interrupted.", hint, as_json=as_json, exit_code=INTERRUPTED)
    if (lost := output.unwritten()) is not None:
        output.say(f"Not all of the output could be written: {lost.strerror or lost}.")
        return code or 1
    return code


def _flush() -> None:
    """Say the last words now: the interpreter's end would fail loudly over a reader that has gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            output.unplug(stream)
