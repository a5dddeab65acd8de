"""What a person's words ask of the Builder, by fixed patterns: a source, a choice, publishing, a name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_OPENING: Final = re.compile(r"\s*build (?:me )?an agent from[ \t]+(?P<rest>[^\n]+)", re.IGNORECASE)
_URL: Final = re.compile(r"(?:https?|file|git|ssh)://[^\s<>\"'`]+|git@[\w.-]+:[^\s<>\"'`]+", re.IGNORECASE)
_QUOTED: Final = re.compile(r"[\"'`“”‘’]([^\"'`“”‘’\n]+)[\"'`“”‘’]")
# A word that is a path whatever stands around it: /x, ./x, ../x, ~/x, C:\x.
_PATH: Final = re.compile(r"(?<![\w/.])(?:\.{1,2}/|~/|/(?=[\w.])|[A-Za-z]:[\\/])[^\s<>\"'`]*")
# `owner/name` and `docs/guide` only where the words around say that they name a place.
_PLACE: Final = re.compile(
    r"(?:^|\b(?:from|at|in|use|import|try|source|repo|repository|path|folder|directory)[ :]+)"
    r"([\w.-]+(?:/[\w.-]+)+/?)(?=[\s,;!?]|\.?$)",
    re.IGNORECASE | re.MULTILINE,
)
_NO_SOURCE: Final = frozenset({"scratch", "nothing", "it", "this", "that", "these", "those", "here", "source", "me"})


def sources(text: str) -> list[str]:
    """What the words name as a source, the likeliest first; at most three, [] for none.

    The command line writes `Build an agent from SOURCE` and what the person said after a blank line: there the
    rest of the line is the source, unless it reads as a sentence.
    """
    found: list[str] = []
    opening = _OPENING.match(text)
    whole = opening["rest"].strip() if opening else text.strip()
    quoted = whole[1:-1] if _QUOTED.fullmatch(whole) else whole
    if "\n" not in quoted and _stands_alone(quoted, opened=opening is not None):
        found.append(quoted)
    found += [m.group().rstrip(".,;:!?)]}") for m in _URL.finditer(text)]
    rest = _URL.sub(" ", text)
    found += [m[1].strip() for m in _QUOTED.finditer(rest) if re.match(r"[./~]|\w+[\\/]", m[1])]
    found += [m.group().rstrip(",;:!?)]}") for m in _PATH.finditer(rest)]
    found += [m[1].rstrip(".") for m in _PLACE.finditer(rest)]
    return [s for s in dict.fromkeys(found) if s][:3]


def _stands_alone(text: str, *, opened: bool) -> bool:
    """Whether all of `text` can be one source."""
    if not text or len(text) > 500 or _URL.match(text):
        return bool(text) and len(text) <= 500 and " " not in text
    if text.startswith(("./", "../", "/", "~/")) or re.match(r"[A-Za-z]:[\\/]", text):
        return len(text) > 1
    if text in (".", ".."):
        return True
    return opened and " " not in text and text.rstrip(".!?").casefold() not in _NO_SOURCE


def without_sources(text: str) -> str:
    """The person's own words: what is left when the source is taken out."""
    for source in sources(text):
        text = text.replace(source, " ")
    opening = re.match(r"\s*build (?:me )?an agent from\b", text, re.IGNORECASE)
    return text[opening.end() :].strip() if opening else text.strip()


_PUBLISH: Final = re.compile(
    r"(?<![\w-])publish(?=\s*(?:$|[.,;!?\n]|(?:it|this|them|the agent|that agent|now|when|once|after|if|as soon|"
    r"straight|right|please|to live|live|everything|anyway|too|as well)\b))",
    re.IGNORECASE,
)
_NOT: Final = re.compile(
    r"(?:\bnot|n[o']t|\bnever|\bwithout|\bbefore you|\bbefore|\bcan|\bthat|\bhow (?:do|can) (?:i|you)|\bdon’t)\s+"
    r"(?:\w+\s+){0,2}$",
    re.IGNORECASE,
)


def wants_publish(text: str) -> bool:
    """Whether the words tell the Builder to publish; what an agent should do, or a no, is none."""
    words = without_sources(text)
    return any(not _NOT.search(words[max(0, m.start() - 40) : m.start()]) for m in _PUBLISH.finditer(words))


_NAME: Final = re.compile(
    r"\b(?:(?:call|name) (?:it|the agent|this agent)|agent (?:named|called))[ :]+"
    r"[\"'`“]?([a-z0-9][a-z0-9-]{0,62})[\"'`”]?[ \t]*(?=[.,;!\n]|$|\band\b)",
    re.IGNORECASE,
)


def name_wanted(text: str) -> str | None:
    """The name the person gives the agent, if they do."""
    match = _NAME.search(without_sources(text))
    return match[1].lower() if match else None


_AGAIN: Final = re.compile(r"\b(again|retry|once more|re-?import|re-?build)\b", re.IGNORECASE)
_CHECK: Final = re.compile(r"^\W*(?:please\s+)?(?:validate|check)\b.{0,40}$", re.IGNORECASE)


_BEFORE_REPAIR: Final = re.compile(
    r"(?:\W|\b(?:please|now|then|try|to|can|could|you|validate|check|and|it)\b)*", re.IGNORECASE
)
_REPAIR: Final = re.compile(
    r"(?:repair|fix|mend)(?:\s+(?:it|this|that|them|everything|all|what\b.*|problems?|errors?"
    r"|(?:the|its|that|this|all|every)\s+(?:agent|bundle|problems?|errors?|rest|skills?|manifest|revision))\b.{0,60})?\W*",
    re.IGNORECASE,
)


def wants_repair(text: str) -> bool:
    """Whether the words ask to mend what a check found, and not for a change that somebody has to think of."""
    own = without_sources(text).strip()
    before = _BEFORE_REPAIR.match(own)
    return len(own) < 120 and _REPAIR.fullmatch(own[before.end() if before else 0 :]) is not None


def wants_again(text: str) -> bool:
    """Whether the words ask for the last source once more."""
    return len(text) < 80 and bool(_AGAIN.search(text))


def wants_validation(text: str) -> bool:
    """Whether the words ask for nothing but a check."""
    return bool(_CHECK.match(text.strip()))


_ALL: Final = re.compile(
    r"\b(?:all|both|each|every ?(?:one|thing)?)\b(?!\s+(?:kinds?|sorts?|types?|about|about it|over|the time)\b)",
    re.IGNORECASE,
)
_EXCEPT: Final = re.compile(
    r"\b(?:not|no|without|except|but|excluding|other than|don['’]?t|skip|leave out|never)\b", re.IGNORECASE
)


def choice_in(text: str, options: Sequence[Mapping[str, Any]], *, multiple: bool) -> list[str]:
    """The option ids the person has already chosen in so many words; [] where that is not certain.

    An option is chosen by its number alone, its id or the first words of its label; `all` takes each of
    several. Words that take something away are left to a question.
    """
    ids = [str(o.get("id", "")) for o in options]
    own = without_sources(text)
    bare = own.strip().rstrip(".").casefold()
    if re.fullmatch(r"[0-9]{1,4}", bare) and 1 <= int(bare) <= len(ids):
        return [ids[int(bare) - 1]]
    if _EXCEPT.search(own):
        return []
    flat = f" {_flat(own)} "
    named = [i for i, o in zip(ids, options, strict=True) if any(f" {n} " in flat for n in _names(i, o))]
    # A longer name that holds a shorter one is meant alone: `api` is not chosen by `rest-api`.
    named = [i for i in named if not any(i != j and _flat(i) in _flat(j) for j in named)]
    if named:
        return named if multiple or len(named) == 1 else []
    if _ALL.search(own):
        return [i for i in ids if i == "all"] or (ids if multiple else [])
    return []


def _names(identifier: str, option: Mapping[str, Any]) -> list[str]:
    label = re.split(r"[:(,;]| [-–—] ", str(option.get("label", "")), maxsplit=1)[0]
    return [n for n in (_flat(identifier), _flat(label)) if len(n) >= 3 and not n.isdigit() and n != "all"]


def _flat(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.replace("_", " ").casefold()))
