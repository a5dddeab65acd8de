"""The port of sandboxes: where commands and generated code run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class SandboxUnavailable(Exception):
    """The sandbox cannot run anything (typed `sandbox_unavailable`); the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One finished command. `output` is stdout and stderr as they came, head and tail kept where
    `truncated`; `exit_code` is None where it was killed at its deadline (`timed_out`) or by a signal
    (then -signal). `duration_s` in seconds; `size` is the bytes it printed in all."""

    exit_code: int | None
    output: str
    duration_s: float
    timed_out: bool = False
    truncated: bool = False
    size: int = 0


class Workspace(Protocol):
    """The persistent `/work` of one session and the process kept in its sandbox."""

    kind: str
    path: Path
    unsafe: bool

    async def run(
        self,
        command: str,
        *,
        timeout: float = 120.0,
        on_output: Callable[[str], None] | None = None,
        cap: int = 1_000_000,
    ) -> CommandResult:
        """Run `command` with `sh -c` in `/work`, stdin at EOF. Cancelling kills its whole process tree.

        Raises SandboxUnavailable where nothing can run.
        """

    async def close(self) -> None:
        """End the process; the directory stays."""


class Sandbox(Protocol):
    """A kind of sandbox."""

    name: str
    unsafe: bool

    async def probe(self) -> str | None:
        """None where it works here, else the reason in words. Bounded to 500 ms, cached."""

    async def no_network(self) -> str | None:
        """Why workspaces that ask for the network get none here, in words; None where they get the filtered one.

        For a kind that has been probed. Takes seconds at most, once.
        """

    async def base(self) -> str:
        """What programs inside stand on (processor, C library, Python, image), in words that are the same for the same.

        For a kind that has been probed. Raises SandboxUnavailable.
        """

    async def open(self, path: Path, *, network: bool = False, shown: Mapping[str, Path] | None = None) -> Workspace:
        """A workspace on the host directory `path`, made where absent: with no network, or with the filtered one
        (public addresses and what the settings allow) where `network` and it can be had. Raises SandboxUnavailable.

        `shown` are directories and files of the host, by the absolute path at which they stand inside, read-only;
        a kind that isolates nothing leaves them where they are.
        """


class Sandboxes(Protocol):
    """The kinds of sandbox there are here."""

    async def choose(self, requested: str | None) -> tuple[Sandbox, str]:
        """The one asked for, or the best that works here, and why in words. Raises SandboxUnavailable."""
