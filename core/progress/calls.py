"""Reads a call: keys that are equal where only what is cosmetic differs, and what its answer may repeat of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

JSON_MOST: Final = 8_000  # characters up to which JSON is read as such


@dataclass(frozen=True, slots=True)
class Call:
    """A call: equal keys where only what is cosmetic differs.

    `text` is a preview of that and `shown` one of what was called, `sleeps` are the seconds it waits, `manner` is
    the tool and its command without the things it is about, `target` the tool and the file it names, or None;
    `query` are the words it asks in.
    """

    key: int
    text: str
    shown: str
    sleeps: float
    manner: str = ""
    target: tuple[str, str] | None = None
    query: str = ""


_COMMANDS = frozenset({"command", "cmd", "script", "bash", "shell", "query", "q", "url", "uri", "code"})
_NONCES = frozenset(
    {
        "nonce",
        "attempt",
        "attempts",
        "retry",
        "retries",
        "try",
        "request_id",
        "requestid",
        "idempotency_key",
        "timestamp",
    }
    | {"ts", "_", "cache_bust", "cachebust", "explanation", "thought", "thoughts", "reasoning", "rationale"}
)
_QUERIES = frozenset({"q", "query", "queries", "question", "keywords", "search_term", "search_query"})
_FILES = ("path", "file_path", "filename", "file")
_COMMAND_MOST = 1_500  # longer ones are programs, and compared as they are
_VALUE_MOST = 4_000
_COSMETIC: Final = tuple(
    (words.split(), re.compile(pattern))
    for words, pattern in (
        ("#", r"(?m)(?:^|(?<=\s))#[^\n]*"),
        ("echo", r"(?:^|(?<=[;&|\n]))\s*echo\s[^;&|><\n]*(?=[;&|\n]|$)"),
        ("||", r"\|\|\s*(?:true|:|exit \d+)(?=\s|;|$)"),
        (">", r"\d?>&\d|[12&]?>\s?/dev/null"),
        ("sleep timeout", r"\b(?:sleep|timeout(?: -\S+)?)\s+[\d.]+[smh]?\b"),
        ("? &", r"(?<=[?&])(?:_|nonce|cb|cache_?bust\w*|rand\w*|ts|timestamp)=[^&\s'\"]*&?"),
        ("; &", r"(?<=[;&]) ?[;&]+"),
    )
)
_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)([smh]?)\b")
_THING = re.compile(
    r"(?<!\S)(?!-)[^\s./\d@:=_]*[./\d@:=_]\S*"
)  # a word of a command that names a file, a place or the like
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_call(tool: str, args: Any) -> Call:
    """The call without comments, sleeps, `|| true`, nonces and the order of keys."""
    sleeps = 0.0
    target = None
    query = ""
    commands: dict[str, str] = {}
    if isinstance(args, dict):
        query = "\n".join(as_text(args[name]) for name in sorted(_QUERIES & args.keys()))[:_ARGS_MOST]
        named = next((args[name] for name in _FILES if isinstance(args.get(name), str)), None)
        target = None if named is None else (tool, named)
        kept = {name: value for name, value in args.items() if str(name).lower() not in _NONCES} or args
        if len(kept) > 1 and not _COMMANDS.isdisjoint(kept):
            kept = {name: value for name, value in kept.items() if name != "description"}
        for name, value in kept.items():
            if not isinstance(value, str):
                continue
            if len(value) > _VALUE_MOST:
                kept = {**kept, name: f"{value[:150]}…{hash(value)}"}
            elif len(value) <= _COMMAND_MOST and str(name).lower() in _COMMANDS:
                sleeps += _slept(value)
                commands[name] = value
                kept = {**kept, name: _cosmetic(value)}
        text = canonical(kept)
    elif isinstance(args, str) and len(args) <= _COMMAND_MOST:
        sleeps = _slept(args)
        text = _cosmetic(args)
    else:
        text = canonical(args)
    shown = canonical({**kept, **commands}) if commands else args if isinstance(args, str) else text
    command = next(iter(commands.values()), args if isinstance(args, str) else "")
    manner = f"{tool} {_THING.sub('*', command[:200])}"
    return Call(hash((tool, text)), f"{tool} {text[:150]}", f"{tool} {shown[:150]}", sleeps, manner, target, query)


def _cosmetic(command: str) -> str:
    text = command
    for words, pattern in _COSMETIC:
        if any(word in text for word in words):
            text = pattern.sub("", text)
    return " ".join(text.split()).strip(" ;&?") or command


def _slept(command: str) -> float:
    return sum(float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(command)) if "sleep" in command else 0.0


def as_args(args: Any) -> Any:
    """What a tool was given, where it may have been given as JSON."""
    return parsed(args, JSON_MOST) if isinstance(args, str) and args[:1] == "{" else args


def as_text(output: Any) -> str:
    """An output as text: JSON where it is a structure, empty where there is none."""
    if isinstance(output, str):
        return output
    return "" if output is None else canonical(output)


_IN_ORDER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=repr).encode


def canonical(value: Any) -> str:
    """JSON in one spelling, whatever the order of keys; `repr` of what is none."""
    try:
        return _IN_ORDER(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def parsed(text: str, most: int) -> Any:
    """The value that a text of at most `most` characters is the JSON of, else the text."""
    if len(text) > most:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


#: Arguments that hold a piece of text, not a name: a refusal that repeats it is the same refusal.
_TEXTS: Final = frozenset(
    {"old", "new", "search", "find", "pattern", "needle", "replace", "replacement", "content", "text", "diff", "patch"}
    | {"old_str", "old_string", "old_text", "new_str", "new_string", "new_text", "insert_text", "file_text", "anchor"}
    | {"snippet", "before", "after", "original", "updated", "target_text", "code", "input"}
)


_ARGS_MOST = 500


def echoes(args: Any) -> tuple[str, ...]:
    """Phrases of the call that its failure may repeat, longest first: at most 8, never a bare name, path or address."""
    named = args.items() if isinstance(args, dict) else (("", args),)
    found: set[str] = set()
    for name, value in named:
        if not isinstance(value, str) or len(value) > 2_000:
            continue
        word = value.strip()
        if (len(word) >= 12 and (" " in word or "\n" in word)) or (len(word) >= 3 and name in _TEXTS):
            found |= {value, word, repr(value)[1:-1], json.dumps(value)[1:-1]}
    if args and isinstance(args, dict) and sum(len(v) for v in args.values() if isinstance(v, str)) <= _ARGS_MOST:
        found |= {text for text in (repr(args), canonical(args), _spaced(args)) if len(text) <= 2 * _ARGS_MOST}
    return tuple(sorted((text for text in found if len(text) >= 3), key=len, reverse=True)[:8])


def _spaced(args: Any) -> str:
    try:
        return json.dumps(args, default=repr)
    except (TypeError, ValueError, RecursionError):
        return ""


_TOKEN = re.compile(r"[\w.-]+")
_NUMBER = re.compile(r"[\d-]+\Z|\d{1,3}(?:\.\d{1,3}){3}\Z")


def asked(args: Any, *, numbers: bool = False) -> frozenset[str]:
    """The names and versions a call asks for, at most 80 words: plain numbers and addresses are none, unless said."""
    values = args.values() if isinstance(args, dict) else (args,)
    text = " ".join(as_text(value)[:400] for value in values)
    words = (word.strip(".-") for word in _TOKEN.findall(text[:1_500])[:80])
    return frozenset(word for word in words if word and (numbers or not _NUMBER.match(word)))


_NAMES = re.compile(r"<name>(?:[/=: ]<name>)+")  # a path of other depth, an option and its value


def unasked(text: str, words: frozenset[str]) -> str:
    """The text without the words that the call asked for."""
    named = _TOKEN.sub(lambda m: "<name>" if m.group().strip(".-") in words else m.group(), text)
    return _NAMES.sub("<name>", named)
