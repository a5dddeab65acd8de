"""What a person may type first: a question that documentation answers, or a task that a description names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from impl.passages import split
from impl.words import STOP_WORDS, stem, weight, words

_LONGEST: Final = 90
_READ: Final = 4_000_000
"""Characters of pages that are looked through at the most."""
_NUMBERED: Final = re.compile(
    r"^\W*?(?:Q(?:uestion)?\s*\d*\s*[:.)]\s*|\d+(?:\.\d+)*[.):]?\s+)?(?=[\w¿\"'‘“(])", re.IGNORECASE
)
_EMOJI: Final = re.compile(r"(?<!\w):[a-z0-9_+-]{2,40}:(?!\w)")
_ASKS: Final = re.compile(
    r"(?:how|what|why|where|when|which|who|whose|can|could|do|does|is|are|should|will|may|must)\b", re.IGNORECASE
)
_FAQ: Final = re.compile(
    r"^\s*(?:[-*+]\s+|\d+[.)]\s+)?(?:(?:\*\*|__)([^*_\n]+\?)(?:\*\*|__)|Q\d*[:.)]\s+([^\n]+\?)|<summary>([^<\n]+\?)</summary>)",
    re.MULTILINE | re.IGNORECASE,
)


def _stems(listed: str) -> frozenset[str]:
    return frozenset(map(stem, listed.split()))


# A question of the project's own keeping, and what every project has: asked only where there is nothing else.
_CHORES: Final = _stems(
    """
    install installation installing licence license licensing contribute contributing contribution contributor
    contributors sponsor sponsors donate cite citation bug bugs question questions support feedback
    changelog history discussion changes credits acknowledgements authors requirements prerequisites
    """
)
_FILLERS: Final = _stems(
    """
    overview introduction intro about feature features started quick quickstart usage faq frequently asked links
    resource resources reference references summary description conclusion community documentation docs guide
    note notes development building testing tests status roadmap background motivation table next step steps
    basics general miscellaneous other appendix index readme todo advanced tutorial tutorials
    """
)


def from_pages(pages: Iterable[tuple[str, str]]) -> str:
    """A question, or a heading in its own words, that the pages (path and text, the index first) answer; "" where
    they have none. The first real question wins, then the first section, then a page's title, then chores."""
    best: tuple[int, str] = (9, "")
    read = 0
    for number, (path, text) in enumerate(pages):
        for rank, found in _asked(path, text, index=number == 0):
            if found and rank < best[0]:
                best = (rank, found)
        read += len(text)
        if best[0] == 0 or read > _READ:
            break
    return best[1]


def _asked(path: str, text: str, *, index: bool) -> Iterator[tuple[int, str]]:
    """What could be typed about one page, each with its rank, lower is better."""
    title, pieces = split(text, path.rpartition(".")[2].lower())
    for piece in pieces:
        if piece.first and (said := _plain(piece.heading)):
            asked = _question(said)
            chore = _is_chore(said)
            if asked:
                yield (3 if chore else 0), asked
            elif re.search(r"[(){}<>=\[\]|$\"`\\]", said):
                pass  # code, or a signature: nobody would type it as a task
            elif piece.heading == title:
                yield (6 if index else 2), "" if chore and not index else said
            elif len(piece.trail) <= 1:
                yield (4 if chore else 1), said
        for match in _FAQ.finditer(piece.text):
            said = _plain(next(group for group in match.groups() if group))
            yield (3 if _is_chore(said) else 0), _question(said)


def _plain(heading: str) -> str:
    """A heading without its number and closing marks; "" where it is too long or holds what no one types."""
    said = _NUMBERED.sub("", " ".join(_EMOJI.sub(" ", heading).split()), count=1).rstrip(" :.#*_")
    if "contents" in words(said)[-1:] and len(words(said)) <= 3:  # the table of them says nothing itself
        return ""
    return said if len(said) <= _LONGEST and said.isprintable() and "`" not in said else ""


def _question(said: str) -> str:
    """The words as a person types a question; "" where they are none."""
    how = re.fullmatch(r"how to (.+?)\??", said, re.IGNORECASE)
    if how:
        return f"how do I {how[1]}?"
    if not said.endswith(("?", "？")) and not re.match(r"how (?:do|can|should) (?:i|we|you)\b", said, re.IGNORECASE):
        return ""
    said = said if said.endswith(("?", "？")) else said + "?"
    return said[:1].lower() + said[1:] if _ASKS.match(said) else said


def _is_chore(said: str) -> bool:
    """Whether it is of the kind every project has, or says nothing by itself."""
    every = words(said)
    telling = [w for w in every if w not in STOP_WORDS and weight(w) == 1 and stem(w) not in _FILLERS and len(w) > 1]
    return bool(said.isascii() and not telling) or any(stem(w) in _CHORES for w in every)


_TO_DO: Final = re.compile(
    r"\b(?:when|whenever|if|for)\b(?:[^.;:()]{0,40}?\b(?:asks?|asked|wants?|needs?|needed|required?|tasked))"
    r"(?: (?:you|claude|me|it|this agent|help))? to ([a-z][^.;:,()\n]+)",
    re.IGNORECASE,
)
_DOING: Final = re.compile(r"\b(?:when|for|whenever|while) (?:you are )?([a-z]{3,}ing [^.;:,()\n]+)", re.IGNORECASE)


def from_descriptions(descriptions: Iterable[str]) -> str:
    """The first task that a skill's or subagent's description says it is for; "" where none says so in such words."""
    for description in descriptions:
        said = " ".join(description.split())
        if found := _TO_DO.search(said):
            task = found[1]
        elif found := _DOING.search(said):
            task = f"help with {found[1]}"
        else:
            continue
        task = task.strip(" \"'“”‘’")
        if len(task.split()) >= 2 and len(task) <= _LONGEST and task.isprintable() and "`" not in task:
            return task
    return ""
