"""Where the cells of experiments and evaluations run: on this machine, or where a URL says."""

from __future__ import annotations

from core import Engine


class NoEngine(LookupError):
    """There is no such engine here."""


def open_engine(url: str | None, slots: int) -> Engine:
    """The engine at `url` (None: this machine), running at most `slots` cells at once. Raises NoEngine."""
    if url in (None, "", "local"):
        from impl.engines.local import LocalEngine

        return LocalEngine(slots)
    raise NoEngine(f"There is no engine for {url!r}. There is: local.")
