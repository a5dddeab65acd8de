"""A key among a person's words: whether there is one, what it looks like, and the words without it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core import spot
from tui.view.text import Line, Tone, line, one_line

LARGEST = 200_000
"""Characters looked through for a key to offer."""
LIKELY = 20
"""Characters a single word has that is likely a value, where one is waited for."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """A key: its `value`, `kind` in words, and what was written `before` and `after` it."""

    value: str
    kind: str
    before: str
    after: str

    @property
    def words(self) -> bool:
        """Whether anything was written beside it."""
        return bool(self.before.strip() or self.after.strip())

    def without(self, name: str) -> str:
        """What was written, the credential's name in the place of its value."""
        return f"{self.before}[stored as {name}]{self.after}"


@dataclass(frozen=True, slots=True)
class Place:
    """What a value could be stored for: a credential an agent declares, and whether it has a value already."""

    agent: str
    name: str
    hosts: tuple[str, ...]
    injection: str
    taken: bool = False


def pasted_key(text: str, *, wanted: bool) -> Pasted | None:
    """The one key in `text`; `wanted` where a value is waited for, so that any long word may be it. None where there
    is none, or more than one, or so much text that looking for it would keep the screen waiting: it is left out of what
    is stored all the same."""
    if len(text) > LARGEST:
        return None
    found = spot(text)
    if len(found) == 1:
        (one,) = found
        return Pasted(text[one.start : one.end], one.kind, text[: one.start], text[one.end :])
    word = text.strip()
    if not found and wanted and len(word) >= LIKELY and len(word.split()) == 1:
        return Pasted(word, "value", "", "")
    return None


def keep_lines(pasted: Pasted, places: Sequence[Place], at: int) -> list[Line]:
    """What storing it will do: the value masked, for which agent, under which name, and where it may be sent."""
    place = places[at]
    facts = (
        ("value", f"•••••••• ({pasted.kind}, {len(pasted.value)} characters)"),
        ("agent", place.agent),
    )
    lines = [line((f"{name:9}", Tone.DIM), one_line(words)) for name, words in facts]
    if len(places) == 1:
        lines.append(line(("name     ", Tone.DIM), (place.name, Tone.STRONG), _taken(place)))
    else:
        for number, one in enumerate(places, 1):
            head = "name     " if number == 1 else "         "
            mark = "› " if number - 1 == at else "  "
            lines.append(line((head, Tone.DIM), mark, (f"{number} {one.name}", Tone.STRONG), _taken(one)))
    lines += [
        line(("sent to  ", Tone.DIM), f"{', '.join(place.hosts)}, as {place.injection}"),
        (),
        line("It goes to the key store; neither the session nor the model sees it."),
    ]
    return lines


def _taken(place: Place) -> tuple[str, Tone]:
    return (" · replaces the value it has", Tone.DIM) if place.taken else ("", Tone.PLAIN)
