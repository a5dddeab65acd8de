"""The register of kinds of sessions: each makes any number of siblings from a dice, all with one verdict."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from core.progress import Step

Expect = Literal["stop", "clear"]
Make = Callable[[random.Random], Iterable[Step]]


@dataclass(frozen=True, slots=True)
class Kind:
    """`stop`: a nudge, then a stop by the last step. `clear`: no verdict at all."""

    name: str
    expect: Expect
    make: Make

    def sibling(self, seed: int) -> list[Step]:
        """The same steps for the same seed."""
        return list(self.make(random.Random(f"{self.name} {seed}")))


KINDS: list[Kind] = []

SHELLS = (("shell", "cmd"), ("bash", "command"), ("run_sandbox", "command"), ("terminal", "input"), ("exec", "script"))
EDITORS = ("edit", "str_replace", "write_file", "apply_patch", "edit_file")
READERS = ("read", "read_file", "view", "open", "cat_file")
WORDS = (
    *("alpha", "bravo", "cedar", "delta", "ember", "fjord", "grove", "harbour", "indigo", "juniper", "kestrel"),
    *("lantern", "meadow", "nectar", "orchid", "pebble", "quarry", "raven", "saffron", "thistle", "umber", "velvet"),
    *("willow", "xenon", "yarrow", "zephyr", "anchor", "bramble", "cobalt", "drift", "eagle", "falcon", "garnet"),
    *("hollow", "ivory", "jasper", "knoll", "linden", "marble", "nimbus"),
)


def kind(expect: Expect) -> Callable[[Make], Make]:
    """Register the kind that the decorated function makes siblings of, under its name."""

    def add(make: Make) -> Make:
        KINDS.append(Kind(make.__name__, expect, make))
        return make

    return add


def words(dice: random.Random, count: int) -> list[str]:
    """Different words in some order."""
    return dice.sample(WORDS, count)


class Bench:
    """A session's tools by names of its own, and whether the workspace is known."""

    def __init__(self, dice: random.Random) -> None:
        self.shell, self.key = dice.choice(SHELLS)
        self.editor = dice.choice(EDITORS)
        self.reader = dice.choice(READERS)
        self.idle: str | None = dice.choice(("d0", "d0", None))

    def sh(self, cmd: str, output: Any = "", ok: bool = True, workspace: str | None = "", **rest: Any) -> Step:
        """A command; the workspace stays as it is where none is given."""
        digest = self.idle if workspace == "" else workspace
        return Step("tool", self.shell, {self.key: cmd}, output, ok, digest, **rest)

    def bad(self, cmd: str, output: Any, workspace: str | None = "", **rest: Any) -> Step:
        """A command that fails."""
        return self.sh(cmd, output, False, workspace, **rest)

    def tool(self, name: str, args: Any, output: Any, ok: bool = True, **rest: Any) -> Step:
        """A call of any tool."""
        return Step("tool", name, args, output, ok, rest.pop("workspace", self.idle), **rest)

    def edit(self, path: str, old: str, new: str, workspace: str | None, output: Any = "ok") -> Step:
        """An edit after which the workspace is `workspace`."""
        return Step("tool", self.editor, {"path": path, "old": old, "new": new}, output, True, workspace)

    def read(self, path: str, output: str, **rest: Any) -> Step:
        """A file that is read."""
        return Step("tool", self.reader, {"path": path}, output, True, self.idle, **rest)
