"""Big pastes as chips: what the composer shows stays short, what is sent is whole. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

BIG_LINES: Final = 12
BIG_CHARACTERS: Final = 2_000
_CHIP: Final = re.compile(r"\[pasted [\d,]+ (?:lines?|characters)(?: · \d+)?\]")


@dataclass(slots=True)
class Pastes:
    """The texts behind the chips of one composer."""

    texts: dict[str, str] = field(default_factory=dict)

    def take(self, text: str) -> str:
        """What to insert for a pasted text: itself where it is small, else a chip that stands for it."""
        lines = text.count("\n") + 1
        if lines <= BIG_LINES and len(text) <= BIG_CHARACTERS:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        chip, number = f"[pasted {size}]", 2
        while self.texts.get(chip, text) != text:
            chip, number = f"[pasted {size} · {number}]", number + 1
        self.texts[chip] = text
        return chip

    def whole(self, shown: str) -> str:
        """The text with every chip replaced by what it stands for."""
        return _CHIP.sub(lambda found: self.texts.get(found[0], found[0]), shown)

    def forget_absent(self, shown: str) -> None:
        """Drop the texts whose chip is gone."""
        present = set(_CHIP.findall(shown))
        for chip in [chip for chip in self.texts if chip not in present]:
            del self.texts[chip]
