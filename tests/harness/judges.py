"""A judge that plays a script."""

from __future__ import annotations

from dataclasses import dataclass, field

from core import Opinion, Rubric


@dataclass
class Scripted:
    """Gives these words in turn."""

    words: list[str | None]
    name: str = "scripted"
    families: frozenset[str] = frozenset({"tests"})
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def prefer(self, rubric: Rubric, task: str, first: str, second: str) -> Opinion:
        """The next word; what it was asked is kept."""
        self.asked.append((first, second))
        return Opinion(self.words.pop(0), "because", f"s{len(self.asked)}", "0.01", 15)

    async def grade(self, rubric: Rubric, task: str, output: str) -> Opinion:
        """The next word."""
        return Opinion(self.words.pop(0), "because")
