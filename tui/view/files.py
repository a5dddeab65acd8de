"""The workspace's names as rows of a tree, and a file of it as lines."""

from __future__ import annotations

from collections.abc import Sequence

from tui.view.rows import Row
from tui.view.text import Line, Tone, line, one_line, plural, safe
from tui.workspace import Entry


def file_rows(entries: Sequence[Entry], opened: frozenset[str]) -> tuple[Row, ...]:
    """One row a name, indented by its depth. Links are named as such and lead nowhere."""
    rows = []
    for entry in entries:
        name = one_line(entry.name, 200)
        match entry.kind:
            case "directory":
                left = line(("▾ " if entry.path in opened else "▸ ", Tone.DIM), (f"{name}/", Tone.STRONG))
                right = ""
            case "file":
                left, right = line("  ", name), f"{entry.size:,}"
            case "link":
                left, right = line("  ", (f"{name}  a link, not followed", Tone.DIM)), ""
            case "other":
                left, right = line("  ", (f"{name}  no file", Tone.DIM)), ""
        rows.append(Row(entry.path, (*line("  " * entry.depth), *left), line((right, Tone.DIM))))
    return tuple(rows)


def file_lines(body: bytes, size: int) -> tuple[Line, ...]:
    """A file's text, or that it is none; the end says where it was cut."""
    if b"\0" in body[:8_000]:
        return (line((f"{plural(size, 'byte')}, no text", Tone.DIM)),)
    texts = safe(body.decode("utf-8", "replace")).expandtabs(4).split("\n")
    lines = [line((f"{number:>5}  ", Tone.DIM), text) for number, text in enumerate(texts, 1)]
    if size > len(body):
        lines.append(line((f"… the first {len(body):,} of {plural(size, 'byte')}", Tone.DIM)))
    return tuple(lines)
