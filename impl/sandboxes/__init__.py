"""The kinds of sandbox by name, and the choice among them where nobody named one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core import Sandbox


def _bubblewrap() -> Sandbox:
    from impl.sandboxes.bubblewrap import BubblewrapSandbox

    return BubblewrapSandbox()


def _process() -> Sandbox:
    from impl.sandboxes.process import ProcessSandbox

    return ProcessSandbox()


SANDBOXES: dict[str, Callable[[], Sandbox]] = {"bubblewrap": _bubblewrap, "process": _process}
"""Each kind's factory; what it needs is imported when it is called."""

PREFERENCE = ("bubblewrap",)
"""The kinds that isolate, the first choice first."""


async def choose(requested: str | None = None) -> tuple[Sandbox, str]:
    """The sandbox to use and why it is that one, in words; the reason is empty for the first choice.

    A kind that was asked for is never replaced: SandboxUnavailable where it does not work here or is unknown.
    Without a request the first isolating kind that works is taken, else the unsafe `process`, and the reason says so.
    """
    from core import SandboxUnavailable

    if requested is not None:
        if requested not in SANDBOXES:
            raise SandboxUnavailable(f"There is no sandbox `{requested}`. Known: {', '.join(SANDBOXES)}.")
        sandbox = SANDBOXES[requested]()
        problem = await sandbox.probe()
        if problem is not None:
            raise SandboxUnavailable(f"The sandbox `{requested}` does not work here: {problem}")
        return sandbox, "as asked for"
    problems: list[str] = []
    for name in PREFERENCE:
        sandbox = SANDBOXES[name]()
        problem = await sandbox.probe()
        if problem is None:
            return sandbox, " ".join(problems)
        problems.append(f"{name}: {problem}")
    return SANDBOXES["process"](), " ".join(["Commands run unisolated (unsafe).", *problems])
