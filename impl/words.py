"""The words of a question: which carry meaning, and when two forms are the same word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_STOP = """
a about above after again all also am an and any anybody anyone anything are as at be because been before
being below between both but by can cannot could did do does doing done down during each either else every
few for from further get gets getting give gives go going got had has have having he hello help her here
hers hey hi him his how i if in into is it its itself just know let lets like many may me might mine more
most much must my need needs no nor not now of off ok okay on once one ones only or other our ours out over
own please possible same see shall she should show so some someone something such sure tell than thank thanks
that the their theirs them then there these they thing things this those through to too under until up us
very via want wants was way ways we were what whats when where which while who whom whose why will with
within without would yes you your yours explain describe mean means work works
don doesn didn isn aren wasn won couldn shouldn t s re ve ll m d
"""
#: Words that say nothing about the subject: function words, question words, politeness.
STOP_WORDS: Final = frozenset(_STOP.split())

_GENERIC = """
add build call change command configure create data default delete deploy different document example file
find install list make name new number open option remove run save set setup start stop type update use
used user using value write read
"""
#: Words of doing and of computing at large: most documents have them, so alone they make nothing relevant.
GENERIC_WORDS: Final = frozenset(_GENERIC.split())

# Scripts written without spaces between words: CJK ideographs, kana, Hangul, Thai, Lao, Khmer, Myanmar.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_WORD = re.compile(rf"[^\W_{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """Every word, lower case, in order; underscores and hyphens part words, unspaced scripts are left out."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def unspaced(text: str) -> list[str]:
    """Overlapping pairs of characters of scripts that put no spaces between words; lone ones as they are."""
    pairs: list[str] = []
    for run in _RUN.findall(unicodedata.normalize("NFKC", text)):
        pairs.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
    return pairs


def content_words(text: str) -> list[str]:
    """The distinct words that carry meaning, in order. All words where every one of them is a stop word."""
    every = words(text)
    return list(dict.fromkeys(w for w in every if w not in STOP_WORDS)) or list(dict.fromkeys(every))


def stem(word: str) -> str:
    """A light English stem: plural, -ing, -ed and a final e fall away. Only for comparing two words."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems(text: str) -> frozenset[str]:
    """The stems of every word of `text`, pairs of unspaced scripts among them."""
    return frozenset(stem(w) for w in words(text)) | frozenset(unspaced(text))


def weight(word: str) -> float:
    """How much a word says about the subject: 1, or 0.4 for one that most documents have."""
    return 0.4 if word in GENERIC_WORDS or stem(word) in _GENERIC_STEMS else 1.0


def coverage(query: Iterable[str], text: str) -> float:
    """The weighted share of the query's words that stand in `text`, 0 to 1; 0 for no words."""
    present = stems(text)
    total = found = 0.0
    for word in query:
        total += weight(word)
        if stem(word) in present:
            found += weight(word)
    return found / total if total else 0.0


_GENERIC_STEMS: Final = frozenset(stem(w) for w in GENERIC_WORDS)
