"""Running the app: from a terminal that can show it, back to one that is as it was, with an exit code."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path


def run_app(home: Path | None, *, session: str | None = None) -> int:
    """Run the app on `home` (None: where all state lies by default); the exit code. `session` opens at once."""
    dumb = os.environ.get("TERM", "") == "dumb"
    if dumb or not (sys.stdin.isatty() and sys.stderr.isatty()):
        what = (
            "The app needs a terminal that can draw; TERM=dumb says this one cannot."
            if dumb
            else "The app needs a terminal."
        )
        print(f"{what} Every command works without one: artificer --help", file=sys.stderr)  # noqa: T201 - no screen
        return 2
    # Nothing becomes garbage while all that starts an app is loaded; looking for it would be a tenth of the start.
    gc.disable()
    from core import StoreError
    from impl.compose import build_host, keep_tidy
    from impl.settings import SettingsError
    from tui.application import ArtificerApp
    from tui.terminal import guarded_stderr

    try:
        host = build_host(home)
    except (StoreError, SettingsError) as error:
        hint = getattr(error, "hint", "")
        print(f"{error}{f' {hint}' if hint else ''}", file=sys.stderr)  # noqa: T201
        return 1
    keep_tidy(host)
    with guarded_stderr(host.home):
        app = ArtificerApp(host, session=session)
        code = app.run()
    return app.return_code if code is None and app.return_code is not None else code or 0
