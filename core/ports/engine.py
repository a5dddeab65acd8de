"""The port of engines: where the cells of experiments and evaluations run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from core.lab.runner import Runner
    from core.ports.host import Host


C = TypeVar("C")
R = TypeVar("R")


class EngineError(Exception):
    """Cells cannot run where they were to; `hint` is the next step. `code` is `not_installed`, `bad_address`,
    `unreachable`, `no_workers`, `unfit` (a worker without Artificer, or with another one) or `gone`."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class Engine(Protocol):
    """Where the cells of an experiment or evaluation run."""

    def opened(self, host: Host, here: Runner) -> AbstractAsyncContextManager[Runner]:
        """What runs a cell's job there, for as long as the context lasts: `here`, or one that has other machines do
        what `here` would. Either way the job's session is in `host`'s store, and this process alone writes there.
        Raises EngineError."""

    def run(self, cells: Iterable[C], work: Callable[[C], Awaitable[R]]) -> AsyncGenerator[tuple[C, R], None]:
        """Do `work` for every cell, several at once; each comes with its result when it has one. Closing it cancels
        what runs, and waits until that is settled; so does `work` that raises, which is raised here."""
