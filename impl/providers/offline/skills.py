"""Which of an agent's skills a task is for, and what of its instructions to quote."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from impl.passages import Piece, split
from impl.words import content_words, coverage, stem, stems, unspaced, weight, words

#: Characters quoted of one skill.
_QUOTE: Final = 3_000
_STEPS: Final = re.compile(r"^\s*(?:\d+[.)]|- \[ \]|[-*] \*\*)\s", re.MULTILINE)
_FILES: Final = "\n\nFiles of this skill:"


@dataclass(frozen=True, slots=True)
class Listed:
    """A skill as the system prompt lists it."""

    name: str
    description: str


def listed(system: str) -> list[Listed]:
    """The `- name: description` lines under a heading (or a line) that says Skills."""
    found: list[Listed] = []
    inside = False
    for line in system.splitlines():
        if re.match(r"\s*(?:#{1,6}\s*|\*\*)?(?:your |available |the )?skills\b[^.]*$", line, re.IGNORECASE):
            inside = True
        elif line.startswith("#"):
            inside = False
        elif inside and (match := re.match(r"\s*[-*]\s+[`*\"]{0,2}([\w.-]+)[`*\"]{0,2}\s*[:—–-]\s*(.*)", line)):
            found.append(Listed(match[1], match[2]))
    return found


def choose(task: str, skills: Sequence[Listed]) -> Listed | None:
    """The skill whose name and description share most with the task; None where none shares enough.

    A word counts for more the fewer skills have it; a skill named in so many words is taken.
    """
    flat = f" {' '.join(words(task))} "
    named = [s for s in skills if f" {' '.join(words(s.name))} " in flat]
    if named:
        return max(named, key=lambda s: len(s.name))
    asked = [*content_words(task), *unspaced(task)]
    texts = [(s, stems(s.name), stems(s.description)) for s in skills]
    best, best_score = None, 0.0
    for skill, name, description in texts:
        score = 0.0
        for word in asked:
            holders = sum(stem(word) in n or stem(word) in d for _, n, d in texts)
            rarity = math.log(1 + (len(skills) + 1) / (holders or 1)) * weight(word)
            score += rarity * (3.0 if stem(word) in name else 1.0 if stem(word) in description else 0.0)
        if score > best_score:
            best, best_score = skill, score
    if best is None:
        return None
    # One chance word of a long task is no fit: it must be a word of the name, or a fair share of the task.
    share = coverage(asked, f"{best.name} {best.description}")
    return best if share >= 0.25 or any(stem(w) in stems(best.name) and weight(w) == 1 for w in asked) else None


@dataclass(frozen=True, slots=True)
class Read:
    """What `read_skill` gave: the instructions, its files, and the content of those that came with it."""

    text: str
    files: tuple[str, ...] = ()
    contents: Mapping[str, str] = field(default_factory=dict)


def parts(output: str) -> Read:
    """Take apart what `read_skill` gave."""
    text, _, listing = output.rpartition(_FILES) if _FILES in output else (output, "", "")
    files = tuple(re.findall(r"^- (.+)$", listing, re.MULTILINE))
    pieces = re.split(r"^--- (\S.*) ---$", text, flags=re.MULTILINE)
    contents = {name: body.strip() for name, body in zip(pieces[1::2], pieces[2::2], strict=False)}
    return Read(pieces[0].strip(), files or tuple(contents), contents)


def quote(instructions: str, task: str) -> str:
    """The sections that have steps or fit the task, in their order, as they stand; the head where none does."""
    pieces = split(instructions, "md")[1]
    if not pieces:
        return ""
    asked = content_words(task)
    ranked = sorted(range(len(pieces)), key=lambda i: (-_worth(pieces[i], asked), i))
    kept: list[int] = []
    size = 0
    for index in ranked:
        if _worth(pieces[index], asked) <= 0 and kept:
            break
        if kept and size + len(pieces[index].text) > _QUOTE:
            continue
        kept.append(index)
        size += len(pieces[index].text)
    shown: list[str] = []
    heading = ""
    for piece in (pieces[i] for i in sorted(kept)):
        if piece.heading and piece.heading != heading:
            shown.append(f"**{piece.heading}**")
        shown.append(piece.text)
        heading = piece.heading
    return "\n\n".join(shown)


def _worth(piece: Piece, asked: Sequence[str]) -> float:
    steps = 1.0 if _STEPS.search(piece.text) else 0.0
    how = (
        0.5
        if re.search(r"\b(how|usage|steps?|instructions?|process|workflow)\b", piece.heading, re.IGNORECASE)
        else 0.0
    )
    return steps * 0.6 + how + coverage(asked, f"{piece.heading}\n{piece.text}")


def fitting_files(read: Read, task: str) -> list[str]:
    """The files the task points to, by their name or by the line of the instructions that names them."""
    asked = [w for w in content_words(task) if weight(w) == 1]
    scored: list[tuple[float, str]] = []
    for file in read.files:
        last = file.rpartition("/")[2]
        lines = [line for line in read.text.splitlines() if file in line or last in line]
        score = 2 * coverage(asked, last.replace("-", " ")) + coverage(asked, " ".join(lines))
        if score > 0:
            scored.append((score, file))
    return [file for _, file in sorted(scored, key=lambda s: (-s[0], s[1]))[:3]]
