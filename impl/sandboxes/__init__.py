"""The kinds of sandbox by name, and the choice among them where nobody named one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from core import Sandbox
    from impl.sandboxes.options import Options


def _kind(target: str) -> Callable[..., Sandbox]:
    """The factory of the kind that `module:Class` of this package is, which is imported when one is made."""
    module, _, name = target.partition(":")

    def make(options: Options | None = None) -> Sandbox:
        return cast("Sandbox", getattr(import_module(f"impl.sandboxes.{module}"), name)(options=options))

    return make


SANDBOXES: dict[str, Callable[..., Sandbox]] = {
    "docker": _kind("docker:DockerSandbox"),
    "bubblewrap": _kind("bubblewrap:BubblewrapSandbox"),
    "process": _kind("process:ProcessSandbox"),
}
"""Each kind's factory, which takes Options or nothing."""

PREFERENCE = ("docker", "bubblewrap")
"""The kinds that isolate, the first choice first."""


async def choose(requested: str | None = None, options: Options | None = None) -> tuple[Sandbox, str]:
    """The sandbox to use and why it is that one, in words; the reason is empty for the first choice.

    A kind that was asked for is never replaced: SandboxUnavailable where it does not work here or is unknown.
    Without a request the first isolating kind that works is taken, else the unsafe `process`, and the reason says so
    (and why workspaces get no network, where that is known already). Where it is not Docker though a daemon answers,
    the person who waits for the first command is told. Nothing is pulled or started by choosing.
    """
    from core import SandboxUnavailable

    if requested is not None:
        if requested not in SANDBOXES:
            raise SandboxUnavailable(f"There is no sandbox `{requested}`. Known: {', '.join(SANDBOXES)}.")
        sandbox = SANDBOXES[requested](options)
        problem = await sandbox.probe()
        if problem is not None:
            raise SandboxUnavailable(f"The sandbox `{requested}` does not work here: {problem}")
        return sandbox, "as asked for"
    problems: list[str] = []
    passed_over = ""
    for name in PREFERENCE:
        sandbox = SANDBOXES[name](options)
        problem = await sandbox.probe()
        if problem is None:
            if passed_over:
                setattr(sandbox, "instead_of", passed_over)  # noqa: B010 - not every kind can be a second choice
            note = getattr(sandbox, "note", "")
            return sandbox, " ".join([*problems, *([f"No network: {note}"] if note else [])])
        problems.append(f"{name}: {problem}")
        if getattr(sandbox, "answers", False):
            passed_over = problems[-1]
    return SANDBOXES["process"](options), " ".join(["Commands run unisolated (unsafe).", *problems])
