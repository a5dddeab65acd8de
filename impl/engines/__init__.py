"""Where the cells of experiments and evaluations run: on this machine, or where a URL says."""

from __future__ import annotations

from collections.abc import Callable

from core import Engine


class NoEngine(LookupError):
    """There is no such engine here."""


def open_engine(url: str | None, slots: int | None = None, say: Callable[[str], None] = lambda words: None) -> Engine:
    """The engine at `url` (None: this machine), running at most `slots` cells at once (None: as many as suit it).

    `say` is told what a person should know while cells run. Raises NoEngine, and EngineError for an address it cannot
    use or what it lacks here.
    """
    if url in (None, "", "local"):
        from impl.engines.local import SLOTS, LocalEngine

        return LocalEngine(SLOTS if slots is None else slots)
    scheme, _, place = str(url).partition("://")
    if scheme in ("dask", "dask+tls"):
        from impl.engines.dask.engine import DaskEngine

        return DaskEngine(place, slots, say, tls=scheme == "dask+tls")
    raise NoEngine(f"There is no engine for {url!r}. There are: local, dask://HOST:PORT, dask+tls://HOST:PORT.")
