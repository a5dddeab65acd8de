"""Rows of the lists: a line on the left, a line on the right, and a key to act on."""

from __future__ import annotations

from dataclasses import dataclass

from tui.view.text import Line, Tone, line


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `key` names what it stands for; a heading has none and cannot be chosen. `more` is a second,
    dimmer line that only wide or tall lists show. `text` is what a filter searches."""

    key: str
    left: Line
    right: Line = ()
    heading: bool = False

    @property
    def text(self) -> str:
        """All its words, for filters and screen readers."""
        return " ".join(span.text for span in (*self.left, *self.right))


def heading(text: str) -> Row:
    """A heading above a group of rows."""
    return Row("", line((text, Tone.DIM)), heading=True)


def matching(rows: tuple[Row, ...], words: str) -> tuple[Row, ...]:
    """The rows that hold every word of a filter, with the headings that still have rows."""
    wanted = words.casefold().split()
    if not wanted:
        return rows
    kept: list[Row] = []
    for row in rows:
        if row.heading:
            while kept and kept[-1].heading:
                kept.pop()
            kept.append(row)
        elif all(word in row.text.casefold() for word in wanted):
            kept.append(row)
    while kept and kept[-1].heading:
        kept.pop()
    return tuple(kept)
