"""Recognises keys that a person pasted among their words, and masks them before anything is stored. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final


@dataclass(frozen=True, slots=True)
class Spotted:
    """A key in a text: what it looks like (`anthropic key`) and where it stands, `text[start:end]`."""

    kind: str
    start: int
    end: int


# --- keys by the shape their issuers gave them ---------------------------------------------------------

_BEFORE = r"(?<![A-Za-z0-9_+-])"
# (what it is, a literal without which the pattern cannot match, the pattern; its last group is the key).
# Each run of key characters is entered at one place only, so that a megabyte of them costs one pass.
_SHAPES: Final = tuple(
    (kind, literal, re.compile(_BEFORE + pattern))
    for kind, literal, pattern in (
        ("anthropic key", "sk-ant-", r"(sk-ant-[A-Za-z0-9_-]{16,})"),
        ("openrouter key", "sk-or-", r"(sk-or-[A-Za-z0-9_-]{20,})"),
        ("openai key", "sk-", r"(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,})"),
        ("api key", "sk-", r"(sk-(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{20,})(?![A-Za-z0-9_-])"),
        ("github token", "gh", r"(gh[pousr]_[A-Za-z0-9]{30,})"),
        ("github token", "github_pat_", r"(github_pat_[A-Za-z0-9_]{22,})"),
        ("gitlab token", "glpat-", r"(glpat-[A-Za-z0-9_.-]{20,})"),
        ("aws access key", "AKIA", r"(AKIA[A-Z0-9]{16})(?![A-Za-z0-9_+/-])"),
        ("aws access key", "ASIA", r"(ASIA[A-Z0-9]{16})(?![A-Za-z0-9_+/-])"),
        ("slack token", "xox", r"(xox[abeprs]-[A-Za-z0-9-]{10,})"),
        ("slack token", "xapp-", r"(xapp-[0-9]-[A-Za-z0-9-]{20,})"),
        ("google key", "AIza", r"(AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])"),
        ("google token", "ya29.", r"(ya29\.[A-Za-z0-9_-]{20,})"),
        ("stripe key", "k_", r"([sr]k_(?:live|test)_[A-Za-z0-9]{20,})"),
        ("hugging face token", "hf_", r"(hf_[A-Za-z0-9]{34,})(?![A-Za-z0-9_])"),
        ("npm token", "npm_", r"(npm_[A-Za-z0-9]{36})(?![A-Za-z0-9_])"),
        ("pypi token", "pypi-", r"(pypi-AgE[A-Za-z0-9_-]{50,})"),
        ("sendgrid key", "SG.", r"(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"),
        ("json web token", "eyJ", r"(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"),
    )
)
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_END = re.compile(r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_BODY = re.compile(
    r"(?:[ \t\r\n]|\\[nr]|[A-Za-z-]{1,40}: [^\n]{0,200}\n)*(?:[A-Za-z0-9+/=]{16,}(?:[ \t\r\n]|\\[nr])*)+"
)
_AGE_KEY = re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{50,}")
# An access key of AWS is of no use without its secret, which has no shape but its length.
_FORTY = re.compile(r"(?<![A-Za-z0-9/+=_-])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=_-])")
_SCHEME = re.compile(r"(?i)\b(bearer|basic)[ \t]{1,4}([A-Za-z0-9._~+/=-]{16,})")
_URL_PASSWORD = re.compile(r"(?<=://)([^\s/@:?#\"'<>]{0,256}):([^\s/@?#\"'<>]{6,256})@(?=[A-Za-z0-9\[])")

# --- values that stand after words ---------------------------------------------------------------------

_WORD = re.compile(
    r"(?i)(api[ _-]?key|access[ _-]?key|secret[ _-]?key|private[ _-]?key|account[ _-]?key|auth[ _-]?key"
    r"|api[ _-]?secret|client[ _-]?secret|api[ _-]?token|access[ _-]?token|auth[ _-]?token|refresh[ _-]?token"
    r"|personal[ _-]?access[ _-]?token|bot[ _-]?token|secret|token|passphrase|password|passwd|credential|\bkey)s?"
    r"(?![A-Za-z0-9])"
)
_WEAK: Final = frozenset(("key", "token", "credential"))
"""What much else is called too: after these a digest or a UUID is most likely just that."""
_PASSWORDS: Final = frozenset(("passphrase", "password", "passwd"))
"""What people choose themselves, so that it need not look random."""
_ASSIGNED = re.compile(r"[\"'`]?[ \t]{0,3}(?::=|=>|[=:])[ \t]{0,3}[\"'`]?([^\s\"'`,;<>(){}\[\]]{8,256})(.?)")
_SAID = re.compile(
    r"(?i)[\"'`]?(?:[ \t]{1,3}(?:is|was|of mine is|to use is|here))?:?[ \t\n]{1,3}"
    r"[\"'`]?([A-Za-z0-9_.~+/=-]{16,256})(.?)"
)
_DIGEST = re.compile(r"(?i)(?:sha(?:1|224|256|384|512)|md5|blake2[bs]?)?[:-]?(?:[0-9a-f]{32,})")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NOT_A_VALUE = re.compile(r"[/~$%.@]|\\|https?:|data:|file:|env:|os\.|process\.|self\.|sha(?:1|256|384|512)[:-]")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_PLACEHOLDER = re.compile(
    r"(?i)[x0._*#+-]*|(?:your|my|the|some|test|dummy|fake|example|sample|placeholder|change_?me|insert|replace|redacted)"
    r"(?:[_.-].*)?|(.)\1*"
)
_SAMPLE = re.compile(r"(?i)example(?:key)?$|placeholder|redacted|changeme")
_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_HARMLESS = (
    *("page", "next", "prev", "continuation", "cursor", "max", "min", "num", "total", "input", "output", "prompt"),
    *("completion", "csrf", "stop", "pad", "special", "primary", "foreign", "public", "cache", "sort", "partition"),
    *("hash", "object", "row"),
)
"""What stands before words for counts, cursors and names that are called tokens and keys."""
_REST = re.compile(r"[^\s\"'`,;<>(){}\[\]]*")
_NEARBY = 4_000
"""Characters around an AWS access key in which its secret is looked for."""


def spot(text: str) -> list[Spotted]:
    """The keys in `text`, in order, none overlapping. Digests, UUIDs, URLs and encoded images are none.

    It is meant to be right nearly always where it speaks; a secret without shape or words about it is missed.
    """
    found = [*_private_keys(text), *_shaped(text), *_schemes(text), *_url_passwords(text), *_named(text)]
    found += _aws_secrets(text, found)
    found.sort(key=lambda s: (s.start, -s.end))
    kept: list[Spotted] = []
    for one in found:
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
        elif one.end > kept[-1].end:
            kept[-1] = Spotted(kept[-1].kind, kept[-1].start, one.end)
    return kept


def mask(text: str, spotted: Sequence[Spotted]) -> str:
    """`text` with each key replaced by what it was: `[redacted: anthropic key]`."""
    parts: list[str] = []
    at = 0
    for one in spotted:
        parts += [text[at : one.start], f"[redacted: {one.kind}]"]
        at = one.end
    return "".join([*parts, text[at:]])


def screen(text: str, agent: str | None = None) -> tuple[str, tuple[str, ...]]:
    """A person's words as they may be stored, and what to tell them about the keys that were taken out.

    `agent` is named in the next step.
    """
    spotted = spot(text)
    if not spotted:
        return text, ()
    kinds = list(dict.fromkeys(one.kind for one in spotted))
    what = (
        f"What looks like {_listed(kinds)} was" if len(spotted) == 1 else f"{len(spotted)} keys ({_listed(kinds)}) were"
    )
    notice = (
        f"{what} kept out of the session and not shown to the model. To let an agent use a key, store it: "
        f"artificer credentials set {agent or 'AGENT'} NAME. If it was seen by others, replace it."
    )
    return mask(text, spotted), (notice,)


def heard(words: Sequence[str], agent: str | None = None) -> tuple[tuple[str, ...], list[tuple[str, dict[str, str]]]]:
    """A person's words as they may be stored, and the `notice` events that say what was kept out of them.

    Whatever a person says passes here before it becomes part of a session.
    """
    screened = [screen(text, agent) for text in words]
    notices = [("notice", {"text": notice}) for _, found in screened for notice in found]
    return tuple(clean for clean, _ in screened), notices


def _listed(kinds: Sequence[str]) -> str:
    named = [f"{'an' if kind[0] in 'AEIOaeio' else 'a'} {kind}" for kind in kinds]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


# --- each way of recognising ---------------------------------------------------------------------------


def _private_keys(text: str) -> Iterator[Spotted]:
    """From BEGIN to END, or as far as the key goes where its end was cut off; the bare words alone are none."""
    at = 0
    while "PRIVATE KEY" in text and (begin := _PRIVATE_KEY.search(text, at)):
        at = begin.end()
        body = _PRIVATE_KEY_BODY.match(text, at)
        if body is not None:
            end = _PRIVATE_KEY_END.search(text, body.end(), body.end() + 200)
            at = end.end() if end else body.end()
            yield Spotted("private key", begin.start(), at)
    for found in _AGE_KEY.finditer(text):
        yield Spotted("private key", *found.span())


def _shaped(text: str) -> Iterator[Spotted]:
    for kind, literal, pattern in _SHAPES:
        if literal in text:
            for found in pattern.finditer(text):
                if not _is_sample(found[1]):
                    yield Spotted(kind, *found.span(1))


def _is_sample(key: str) -> bool:
    """Whether it is one that documentation shows: `…EXAMPLE`, or a run of the same character."""
    return key.endswith(("EXAMPLE", "EXAMPLEKEY")) or len(set(key[-12:])) <= 2


def _schemes(text: str) -> Iterator[Spotted]:
    """What stands after `Bearer` or `Basic`, where it is no word."""
    for found in _SCHEME.finditer(text):
        if _mixed(found[2]) and not _is_placeholder(found[2]):
            yield Spotted(f"{found[1].lower()} authorization", *found.span(2))


def _url_passwords(text: str) -> Iterator[Spotted]:
    if "://" in text:
        for found in _URL_PASSWORD.finditer(text):
            if not _is_placeholder(found[2]) and found[2].lower() not in _PASSWORDS and found[2][0] not in "$%{[":
                yield Spotted("password in a url", *found.span(2))


def _named(text: str) -> Iterator[Spotted]:
    """Values after words that announce one: `NAME_API_KEY=…`, `"password": "…"`, `my token is …`."""
    at = 0
    while word := _WORD.search(text, at):
        at = word.end()
        if text[max(0, word.start() - 16) : word.start()].rstrip(" _-").lower().endswith(_HARMLESS):
            continue
        name = word[1].lower().replace(" ", "").replace("_", "").replace("-", "")
        value = _ASSIGNED.match(text, at)
        if value is None or not _is_assigned_value(name, value[1], value[2]):
            value = _SAID.match(text, at)
            if value is None or not _is_said_value(name, value[1], value[2]):
                continue
        rest = _REST.match(text, value.end(1))
        at = rest.end() if rest else value.end(1)
        while text[at - 1] in ".?!":
            at -= 1
        yield Spotted(_called(name), value.start(1), at)


def _called(name: str) -> str:
    match name:
        case "passphrase" | "password" | "passwd":
            return "password"
        case "secret" | "clientsecret" | "apisecret" | "secretkey":
            return "secret"
        case _ if name.endswith("token"):
            return "token"
        case _:
            return "api key"


def _is_assigned_value(name: str, value: str, after: str) -> bool:
    """Whether what is assigned to `name` is a value: not code, a path, a reference, a number or a plain word."""
    if not _mixed(value) and name not in _PASSWORDS:
        return False
    if after in ("(", "[", "{") or _NOT_A_VALUE.match(value) or _is_placeholder(value):
        return False
    if _DOTTED.fullmatch(value) and not _random(value):
        return False
    if name in _PASSWORDS:
        return _classes(value) >= 3 or (_classes(value) >= 2 and any(c.isdigit() for c in value))
    if name in _WEAK:
        return _random(value) and not _is_digest(value)
    return len(value) >= 12


def _is_said_value(name: str, value: str, after: str) -> bool:
    """Whether words in prose are followed by a value; here it must look random, for anything may stand there."""
    if not _mixed(value) or after in ("(", "[", "{") or _NOT_A_VALUE.match(value) or _is_placeholder(value):
        return False
    return _random(value) and not (name in _WEAK and _is_digest(value))


def _aws_secrets(text: str, found: Sequence[Spotted]) -> list[Spotted]:
    """Runs of exactly forty base64 characters near an AWS access key; forty hex digits are a commit."""
    ids = [one.start for one in found if one.kind == "aws access key"]
    if not ids:
        return []
    spans = {
        match.span(1)
        for at in ids[:100]
        for match in _FORTY.finditer(text, max(0, at - _NEARBY), at + _NEARBY)
        if _mixed(match[1]) and not match[1].islower() and not _is_digest(match[1])
    }
    return [Spotted("aws secret key", *span) for span in spans]


# --- what a value looks like ---------------------------------------------------------------------------


def _is_placeholder(value: str) -> bool:
    return _PLACEHOLDER.fullmatch(value) is not None or _SAMPLE.search(value) is not None


def _is_digest(value: str) -> bool:
    return _DIGEST.fullmatch(value) is not None or _UUID.fullmatch(value) is not None


def _mixed(value: str) -> bool:
    """Letters and digits both."""
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None


def _random(value: str) -> bool:
    """Whether it looks made by a machine: long, letters and digits mixed through, many different characters."""
    if len(value) < 16 or not _mixed(value):
        return False
    switches = sum(a.isalnum() and b.isalnum() and a.isdigit() != b.isdigit() for a, b in pairwise(value))
    longest_word = max(len(run) for run in re.split(r"[^A-Za-z]+", value))
    return switches >= 3 and len(set(value)) >= 10 and longest_word <= 12 + len(value) // 8


def _classes(value: str) -> int:
    """How many of lower case, upper case, digits and signs it has."""
    signs = set("-_./:")
    return (
        any(c.islower() for c in value)
        + any(c.isupper() for c in value)
        + any(c.isdigit() for c in value)
        + any(not c.isalnum() and c not in signs for c in value)
    )
