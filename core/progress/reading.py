"""Reads a call and an answer into what the guard compares: keys that are equal where nothing of substance differs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from core.progress.normalise import clean, mask, mask_lines, skeleton

#: Weights of evidence, in twentieths of a certain repetition.
WHOLE, SALIENT, CAUSE, REFUSED, REASON = 20, 15, 15, 12, 8

_ENTIRE = 2_000  # characters up to which an output is read with care as a whole
_HEAD, _TAIL = 600, 1_000  # of a longer one; the rest only by its skeleton
_HEAD_KEPT, _TAIL_KEPT = 400, 650  # of the masked text, so that a drift in length does not move the edges
_JSON_MOST = 8_000
_SALIENT_LINES, _SALIENT_WIDTH = 14, 200

#: A line with one of these says what went wrong.
_SALIENT: Final = (
    "error", "fail", "fatal", "excep", "traceback", "panic", "denied", "refused", "not ", "n't", "no such", "cannot",
    "could", "unable", "invalid", "missing", "undefined", "unexpected", "unresolved", "expect", "assert", "timed out",
    "timeout", "abort", "segmentation", "killed", "reject", "unauthori", "forbidden", "unknown", "errno", "econn",
    "exit", "status", "http ", "actual", "received", "got ", "required", "conflict", "unreachable", "mismatch", "left:",
    "right:",
)  # fmt: skip
_WRAPPER = re.compile(
    r"^(?:[\W_]*(?:<time>|<pid>|<duration>|<id>|(?i:(?:npm )?err!?|(?:fatal |tool |internal )?error|fatal"
    r"|warn(?:ing)?|info|debug|failed|failure|stderr|stdout|exception|critical)(?=[\]:!)\s-]|$)))+[\W_]*"
)
_CAUSE: Final = re.compile(
    r"\b(E(?!RROR|XCEPTION|XPECT|XIT|MPTY|NDED)[A-Z]{4,}\b"
    r"|(?i:no module named|cannot find module|cannot import name|command not found"
    r"|no such file or directory|permission denied|connection refused|connection reset|could not resolve host"
    r"|name or service not known"
    r"|temporary failure in name resolution|network is unreachable|no route to host|no space left on device"
    r"|address already in use|certificate verify failed|externally-managed-environment|too many requests|rate limit"
    r"|service unavailable|bad gateway|gateway time-?out|max retries exceeded|deadline exceeded"
    r"|quota exceeded|invalid api key|authentication failed|read-only file system|out of memory))"
)
_CODES = {
    "econnrefused": "connection refused",
    "econnreset": "connection reset",
    "enoent": "no such file or directory",
    "eacces": "permission denied",
    "eaddrinuse": "address already in use",
    "enospc": "no space left on device",
    "erofs": "read-only file system",
    "name or service not known": "could not resolve host",
    "temporary failure in name resolution": "could not resolve host",
}
#: A line that only says with which status a command ended, if that was no signal: what it said is the failure.
_EXIT_ALONE: Final = re.compile(
    r"(?i)\W*(?:\w+ ){0,4}(?:exit|exited|returned)(?: (?:with|code|status|value|non-zero))*[^\w-]{0,3}"
    r"(?:\d{1,2}|1[01]\d|12[0-5])\W*"
)
#: Names that a refusal quotes: another made-up name is no other refusal.
_QUOTED: Final = re.compile(r"'[^'\n]{0,80}'|\"[^\"\n]{0,80}\"|`[^`\n]{0,80}`")
#: Reasons that say nothing without the thing they are about.
_OF_THINGS = frozenset({"permission denied", "no such file or directory", "command not found", "no module named"})
#: Reasons that lie in the surroundings: the same wherever they are met.
_OF_SURROUNDINGS = frozenset(
    {
        "could not resolve host",
        "network is unreachable",
        "no space left on device",
        "read-only file system",
        "externally-managed-environment",
        "out of memory",
        "quota exceeded",
        "rate limit",
        "too many requests",
        "invalid api key",
        "authentication failed",
    }
)
#: Numbers that say which error it was, not what it was about.
_ERROR_NUMBER = re.compile(r"\(\d{1,3}\)|(?i:\[?errno:? \d+\]?)")
_OBJECT = re.compile(
    r"[\w.-]+(?=: (?i:command )?not found)|[\w./:@%~+<>-]*[./\d][\w./:@%~+<>-]*|(?<=named )\W?[\w.]+"
    r"|(?<=module )\W?[\w@./-]+"
)
_COUNTS_TESTS = re.compile(r"(?i)\b\d+ (?:failed|failing|failures?|passed|passing|errors?)\b")
#: A tool that says ok and gives an error: only where the whole is short and begins or ends with the refusal.
_REFUSAL: Final = re.compile(
    r"(?i)^\W*(?:error|fatal|panic|traceback \(most recent|uncaught|exception|failed to|[\w.]*(?:error|exception):"
    r"|http(?:/[\d.]+)? [45]\d\d\b|exit (?:code|status):? [1-9])|command not found|no such file or directory"
    r"|permission denied|connection refused|could not resolve host|\bE(?:CONN[A-Z]+|NOENT|ACCES|TIMEDOUT)\b"
)
_REFUSAL_JSON: Final = re.compile(
    r"(?i)\"(?:status|result|state)\": ?\"(?:error|fail(?:ed|ure)?)\"|\"(?:ok|success)\": ?false"
    r"|\"errors?\": ?(?:\"[^\"]|\{\s*\"|\[\s*[^\]\s])"
)
_ACK: Final = re.compile(
    r"(?i)^\W*(?:ok(?:ay)?|done|success\w*|succeeded|saved|true|yes|null|none|valid|pass(?:ed)?|clean|sent|queued|accepted"
    r"|completed?|finished|\d+|(?:[\w./'\"-]+ ){0,4}(?:wrote|written|created|updated|deleted|removed|added|applied"
    r"|inserted|edited|saved|replaced|modified|copied|moved|uploaded|sent|closed|marked|logged|noted|recorded)\b.{0,60}"
    r"|no (?:issues?|errors?|problems?|warnings?|changes?)\b.{0,40}|all .{0,40}passed.{0,20}|\d+ passed.{0,40}"
    r"|0 .{0,40}|[\"']?(?:ok|success|status|result)[\"']? ?: ?[\"']?(?:true|ok|success|done)[\"']?)\W*$"
)
_NEGATIVE: Final = re.compile(
    r"(?i)^\W*(?:no (?:results?|match(?:es)?|files?|hits?|entries|documents?|records?|data|items?)\b.{0,80}"
    r"|\{[^][{}]*\"(?:results?|hits?|items?|matches|data|documents|records|rows|entries)\": ?\[\][^][]*\}"
    r"|nothing (?:was )?found.{0,40}|(?:0|zero) (?:results?|match(?:es)?|hits?|items?)\b.{0,40}|not found|\[\]|\{\}"
    r"|.{0,40}(?:returned|found) (?:no|0|zero)\b.{0,60}|exit(?:ed)? (?:code|status|with)\W{0,3}\d+)\W*$"
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call: equal keys where only what is cosmetic differs.

    `text` is a preview, `sleeps` are the seconds it waits, `target` is the tool and the file it names, or None.
    """

    key: int
    text: str
    sleeps: float
    target: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the world.

    `key` is equal for answers that say the same, `raw` for identical ones. `ack` says "done" and nothing more,
    `negative` says "nothing there", `long` is too much to be a coincidence. `bare` is little but times,
    ids and the like, so that they are what was asked for. `failures` are (key, weight) under
    which a failure is counted, the most exact first; `lines` tells failures apart that differ in line numbers;
    `shape` is equal for failures that differ in nothing but what was asked for, 0 where they do not repeat it.
    """

    key: int
    raw: int
    failed: bool
    ack: bool
    negative: bool
    long: bool
    text: str
    failures: tuple[tuple[int, int], ...] = ()
    lines: int = 0
    shape: int = 0
    bare: bool = False


# --- calls ---------------------------------------------------------------------------------------------

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
_FILES = ("path", "file_path", "filename", "file")
_COMMAND_MOST = 1_500  # longer ones are programs, and compared as they are
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
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_call(tool: str, args: Any) -> Call:
    """The call without comments, sleeps, `|| true`, nonces and the order of keys."""
    sleeps = 0.0
    target = None
    if isinstance(args, dict):
        named = next((args[name] for name in _FILES if isinstance(args.get(name), str)), None)
        target = None if named is None else (tool, named)
        kept = {name: value for name, value in args.items() if str(name).lower() not in _NONCES} or args
        if len(kept) > 1 and not _COMMANDS.isdisjoint(kept):
            kept = {name: value for name, value in kept.items() if name != "description"}
        for name, value in kept.items():
            if isinstance(value, str) and len(value) <= _COMMAND_MOST and str(name).lower() in _COMMANDS:
                sleeps += _slept(value)
                kept = {**kept, name: _cosmetic(value)}
        text = _canonical(kept)
    elif isinstance(args, str) and len(args) <= _COMMAND_MOST:
        sleeps = _slept(args)
        text = _cosmetic(args)
    else:
        text = _canonical(args)
    return Call(hash((tool, text)), f"{tool} {text[:150]}", sleeps, target)


def _cosmetic(command: str) -> str:
    text = command
    for words, pattern in _COSMETIC:
        if any(word in text for word in words):
            text = pattern.sub("", text)
    return " ".join(text.split()).strip(" ;&?") or command


def _slept(command: str) -> float:
    return sum(float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(command)) if "sleep" in command else 0.0


def _canonical(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


# --- answers -------------------------------------------------------------------------------------------


def as_text(output: Any) -> str:
    """An output as text: JSON where it is a structure, empty where there is none."""
    if isinstance(output, str):
        return output
    return "" if output is None else _canonical(output)


#: Arguments that hold a piece of text, not a name: a refusal that repeats it is the same refusal.
_TEXTS: Final = frozenset(
    {"old", "new", "search", "find", "pattern", "needle", "replace", "replacement", "content", "text", "diff", "patch"}
    | {"old_str", "old_string", "old_text", "new_str", "new_string", "new_text", "insert_text", "file_text", "anchor"}
    | {"snippet", "before", "after", "original", "updated", "target_text", "code", "input"}
)


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
    if args and isinstance(args, (dict, list)):
        found |= {text for text in (repr(args), json.dumps(args, default=repr), _canonical(args)) if len(text) <= 600}
    return tuple(sorted((text for text in found if len(text) >= 3), key=len, reverse=True)[:8])


_ASKED = re.compile(r"[\w.-]*[A-Za-z.][\w.-]*")
_DOTTED_QUAD = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}\Z")


def asked(args: Any) -> frozenset[str]:
    """The names and versions a call asks for, at most 80 words: plain numbers and addresses are none."""
    values = list(args.values()) if isinstance(args, dict) else args
    words = _ASKED.findall(as_text(values)[:1_500])[:80]
    return frozenset(word.strip(".-") for word in words if not _DOTTED_QUAD.match(word))


def unasked(text: str, words: frozenset[str]) -> str:
    """The text without the words that the call asked for."""
    return _ASKED.sub(lambda m: "<name>" if m.group().strip(".-") in words else m.group(), text)


def read_answer(output: str, ok: bool, tool: str = "", args: Any = None, *, rejected: bool = False) -> Answer:
    """What the world answered to a call. What a failure repeats of the call is masked in it; `rejected` is a call
    that never ran, so that nothing but the refusal was said."""
    text = _sorted_json(output)
    head, tail = _window(text)
    if not ok or (not tail and _refuses(head)):
        return _failure(output, text, head, tail, tool, args, rejected)
    shown = mask(head)
    if tail:
        shown = shown[:_HEAD_KEPT] + "\n…\n" + mask(tail)[-_TAIL_KEPT:]
    shown = _squeeze(shown)
    few = len(shown) <= 200
    negative = few and _NEGATIVE.match(shown) is not None
    masked = _MASKED.findall(shown)
    return Answer(
        key=hash(("nothing", unasked(shown, asked(args))) if negative else (shown, skeleton(text) if tail else 0)),
        raw=hash(output),
        failed=False,
        ack=not shown or (few and not negative and _ACK.match(shown) is not None),
        negative=negative,
        long=len(shown) > 200 or shown.count("\n") >= 3,
        text=shown[:500],
        bare=not negative and len(shown) - sum(map(len, masked)) < _BARE * len(masked),
    )


_MASKED = re.compile(r"<(?:time|id|duration|address|tmp|pid)>")
_BARE = 80  # characters about each thing masked: with more there is something else to an answer


def _failure(output: str, text: str, head: str, tail: str, tool: str, args: Any, rejected: bool) -> Answer:
    for phrase in echoes(args):
        head, tail = head.replace(phrase, "<arg>"), tail.replace(phrase, "<arg>")
    if len(tool) > 2 and (rejected or "tool" in head):
        head = re.sub(rf"\b{re.escape(tool)}\b", "<tool>", head)
    first, last = _salient(head), _salient(tail)
    if tail:
        first, last = first[:5], last[-8:]
    exact = mask("\n".join((*first, "", *last)))
    cores = [_core(line) for line in mask_lines(exact).split("\n")]
    everything = "\n".join(sorted({core for core in cores if core}))
    # of a long output the end says how it ended
    telling = "\n".join(sorted({core for core in cores[len(first) :] if core})) if last else everything
    whole = hash((1, everything, skeleton(text if tail else mask_lines(mask(head)))))
    failures = [(whole, WHOLE), (hash((2, telling)), SALIENT)]
    cause = None if _COUNTS_TESTS.search(everything) else _cause(cores)
    if cause is not None:
        failures.append((hash((3, cause)), CAUSE))
        if cause[0] in _OF_SURROUNDINGS:
            failures.append((hash((4, cause[0])), REASON))
    if rejected:
        failures.append((hash((5, _QUOTED.sub("<name>", telling))), REFUSED))
    empty = not telling or _NEGATIVE.match(telling) is not None
    said = telling[-_SHAPE_MOST:]
    shape = unasked(said, asked(args))
    return Answer(
        key=whole,
        raw=hash(output),
        failed=True,
        ack=False,
        negative=empty,
        long=False,
        text=telling[:500],
        failures=tuple(failures),
        lines=hash(exact),
        shape=0 if shape == said else hash((6, shape)),
    )


_SHAPE_MOST = 600


def _window(text: str) -> tuple[str, str]:
    if len(text) <= _ENTIRE:
        return clean(text), ""
    head, tail = text[:_HEAD], text[-_TAIL:]
    # whole lines where there are any: a line cut in the middle moves with the length of the text
    return clean(head.rpartition("\n")[0] or head), clean(tail.partition("\n")[2] or tail)


def _sorted_json(text: str) -> str:
    body = text.strip() if len(text) <= _JSON_MOST else ""
    if body[:1] not in ("{", "[") or body[-1:] not in ("}", "]"):
        return text
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return text
    # one member a line, so that what is salient in it can be told from the rest
    return _canonical(value).replace(',"', ',\n"')


def _refuses(text: str) -> bool:
    if text.lstrip()[:1] == "{":
        return _REFUSAL_JSON.search(text) is not None
    lines = [line for line in text.split("\n") if line.strip()]
    return bool(lines) and any(_REFUSAL.search(line[:300]) for line in (lines[0], lines[-1]))


def _salient(window: str) -> list[str]:
    """The lines that say what went wrong, else the last ones: at most 14, each cut around the word."""
    lowered = window.lower()
    words = [word for word in _SALIENT if word in lowered]
    found = []
    for line, low in zip(window.split("\n"), lowered.split("\n"), strict=False):
        if not line:
            continue
        hits = [at for word in words if (at := low.find(word)) >= 0]
        if hits or line.lstrip()[:3] in _MARKS:
            start = max(0, min(hits, default=0) - 60) if len(line) > _SALIENT_WIDTH else 0
            found.append(line[start : start + _SALIENT_WIDTH])
    if all(_EXIT_ALONE.fullmatch(line) for line in found):
        found = [line[-_SALIENT_WIDTH:] for line in window.split("\n") if line.strip()][-8:]
    return found if len(found) <= _SALIENT_LINES else found[:5] + found[5 - _SALIENT_LINES :]


#: How test runners begin a line that tells what was compared: pytest, and the two sides of a difference.
_MARKS = frozenset({"E  ", "+  ", "-  "})


def _core(line: str) -> str:
    return _squeeze(_WRAPPER.sub("", line, count=1)).strip(" \"',;{}[]")


def _cause(cores: list[str]) -> tuple[str, ...] | None:
    """The last reason the system gave with the things it names, whatever words the tool put around it."""
    for line in reversed(cores):
        hit = _CAUSE.search(line)
        if hit:
            reason = hit.group(1).lower()
            reason = _CODES.get(reason, reason)
            things = _OBJECT.findall(_ERROR_NUMBER.sub("", line))
            named = sorted({word.strip("\"'.,:;()[]<>") for word in things})
            return (reason, *named) if named or reason not in _OF_THINGS else None
    return None


def _squeeze(text: str) -> str:
    return "\n".join(line for part in text.split("\n") if (line := " ".join(part.split())))
