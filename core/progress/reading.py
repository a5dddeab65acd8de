"""Reads an answer into what the guard compares: keys that are equal where nothing of substance differs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from core.progress.calls import JSON_MOST, as_text, asked, canonical, echoes, parsed, unasked
from core.progress.normalise import clean, mask, mask_lines, skeleton

#: Weights of evidence, in twentieths of a certain repetition.
WHOLE, SALIENT, CAUSE, REFUSED, REASON = 20, 15, 15, 8, 8

_ENTIRE = 2_000  # characters up to which an output is read with care as a whole
_HEAD, _TAIL = 600, 1_000  # of a longer one; the rest only by its skeleton
_HEAD_KEPT, _TAIL_KEPT = 400, 650  # of the masked text, so that a drift in length does not move the edges
_SALIENT_LINES, _SALIENT_WIDTH = 14, 200

#: A line with one of these says what went wrong.
_SALIENT: Final = (
    "error", "fail", "fatal", "excep", "traceback", "panic", "denied", "refused", "not ", "n't", "no such", "cannot",
    "could", "unable", "invalid", "missing", "undefined", "unexpected", "unresolved", "expect", "assert", "timed out",
    "timeout", "abort", "segmentation", "killed", "reject", "unauthori", "forbidden", "unknown", "errno", "econn",
    "exit", "status", "http ", "actual", "received", "got ", "required", "conflict", "unreachable", "mismatch", "left:",
    "right:", "symbol:",
)  # fmt: skip
_WRAPPER = re.compile(
    r"^(?:[\W_]*(?:<time>|<pid>|<duration>|<id>|(?i:(?:npm )?err!?|(?:fatal |tool |internal )?error|fatal"
    r"|warn(?:ing)?|info|debug|failed|failure|stderr|stdout|exception|critical)(?=[\]:!)\s-]|$)))+(?:(?!<[a-z]+>)[\W_])*"
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
_EXIT_BAD: Final = re.compile(
    r"(?i)\W*(?:exit(?:ed)?(?: with)? (?:code|status)|exit_code|returncode)[^\w-]{0,3}-?[1-9]\d*\W*"
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
_TOKEN = re.compile(r"[\w./:@%~+<>-]+")
_PLAIN = re.compile(r"[^./\d]+")  # a word, and no name of a file, a place or a number
_NAMED = re.compile(
    r"\b[\w.-]{1,80}(?=: (?i:command )?not found)|(?<=named )\W?[\w.]{1,80}|(?<=module )\W?[\w@./-]{1,80}"
)
_COUNTS_TESTS = re.compile(r"(?i)(?<!port )\b\d+ (?:failed|failing|failures?|passed|passing|errors?)\b")
#: A tool that says ok and gives an error: only where the whole is short and begins or ends with the refusal.
_REFUSAL: Final = re.compile(
    r"(?i)^\W{0,20}(?:error|fatal|panic|traceback \(most recent|uncaught|exception|failed to"
    r"|[\w.]{0,60}(?:error|exception):"
    r"|http(?:/[\d.]+)? [45]\d\d\b|exit (?:code|status):? [1-9])|command not found|no such file or directory"
    r"|permission denied|connection refused|could not resolve host|\bE(?:CONN[A-Z]+|NOENT|ACCES|TIMEDOUT)\b"
)
_REFUSAL_JSON: Final = re.compile(
    r"(?i)\"(?:status|result|state)\": ?\"(?:error|fail(?:ed|ure)?)\"|\"(?:ok|success)\": ?false"
    r"|\"status_?(?:code)?\": ?[45]\d\d\b"
    r"|\"errors?\": ?(?:\"[^\"]|\{\s*\"|\[\s*[^\]\s])"
)
_ACK: Final = re.compile(
    r"(?i)^\W*(?:ok(?:ay)?|done|success\w*|succeeded|saved|true|yes|null|none|valid|pass(?:ed)?|clean|sent|queued|accepted"
    r"|completed?|finished|\d+|(?:[\w./'\"-]+ ){0,4}(?:wrote|written|created|updated|deleted|removed|added|applied"
    r"|inserted|edited|saved|replaced|modified|copied|moved|uploaded|sent|closed|marked|logged|noted|recorded"
    r"|delivered|posted|merged|published|registered|committed|installed|enabled|disabled|started|stopped|assigned"
    r"|scheduled|submitted|synced|renamed|formatted|converted|processed|validated|verified|pushed|tagged|archived"
    r"|linked|stored|indexed|acknowledged|received|set|cleared|patched|imported|exported|deployed|approved)\b.{0,60}"
    r"|no (?:issues?|errors?|problems?|warnings?|changes?)\b.{0,40}|all .{0,40}passed.{0,20}|\d+ passed.{0,40}"
    r"|0 .{0,40}|[\"']?(?:ok|success|status|result|valid|passed)[\"']? ?: ?[\"']?(?:true|ok|success|done)[\"']?)\W*$"
)
_NEGATIVE: Final = re.compile(
    r"(?i)^\W*(?:no (?:results?|match(?:es)?|files?|hits?|entries|documents?|records?|data|items?|tests?|more)\b.{0,80}"
    r"|\{[^][{}]*\"(?:results?|hits?|items?|matches|data|documents|records|rows|entries)\": ?\[\][^][]*\}"
    r"|nothing (?:was )?found.{0,40}|(?:0|zero) (?:results?|match(?:es)?|hits?|items?)\b.{0,40}|not found|\[\]|\{\}"
    r"|eof|unknown|end of (?:file|input|list|results|output|page)\b.{0,40}"
    r"|http(?:/[\d.]+)? 404(?: not found)?"
    r"|.{0,40}(?:returned|found) (?:no|0|zero)\b.{0,60}|exit(?:ed)? (?:code|status|with)\W{0,3}\d+)\W*$"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the world.

    `key` is equal for answers that say the same, `raw` for identical ones. `ack` says "done" and nothing more,
    `negative` says "nothing there", `brief` is what many things have in common ("MIT"), `long` is too much to be a
    coincidence. `bare` is little but times, ids and the like, so that they are what was asked for, and `measures` where
    that is how long something took. `failures` are (key, weight) under which a failure is counted, the most exact
    first; `lines` tells failures apart that differ in line numbers; `shape` is equal for failures that differ in
    nothing but what was asked for, 0 where they do not repeat it.
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
    brief: bool = False
    measures: bool = False


_ENVELOPE_MOST = 100_000
_STREAMS = ("stdout", "stderr", "output", "content")
_STATUS = ("exit_code", "exitCode", "exit_status", "exitStatus", "returncode", "return_code", "code", "status")


def outcome(output: Any, ok: bool) -> tuple[str, bool]:
    """The text of an output, and whether all was well: what a command said is read alike from an object."""
    value = output
    if isinstance(output, str) and output[:1] == "{" and any(f'"{name}"' in output[:400] for name in _STREAMS):
        value = parsed(output, _ENVELOPE_MOST)
    if not isinstance(value, dict):
        return as_text(output), ok
    content = value.get("content")
    if isinstance(content, list) and content and all(isinstance(c, dict) and "text" in c for c in content):
        return "\n".join(str(c["text"]) for c in content), ok and not value.get("isError")
    said = [value[name] for name in _STREAMS if isinstance(value.get(name), str)]
    status = next((value[name] for name in _STATUS if isinstance(value.get(name), int)), None)
    if not said or (status is None and not {"stdout", "stderr"} & value.keys()):
        return as_text(output), ok
    text = "\n".join(part.rstrip("\n") for part in said if part.strip())
    return (f"{text}\n[exit code {status}]", False) if status else (text, ok)


def read_answer(output: str, ok: bool, tool: str = "", args: Any = None, *, rejected: bool = False) -> Answer:
    """What the world answered to a call. What a failure repeats of the call is masked in it; `rejected` is a call
    that never ran, so that nothing but the refusal was said."""
    text = _sorted_json(output)
    head, tail = _window(text)
    if not ok or (_ended_badly(head, tail) if tail else _refuses(head)):
        return _failure(output, text, head, tail, tool, args, rejected)
    shown = mask(head)
    if tail:
        shown = shown[:_HEAD_KEPT] + "\n…\n" + mask(tail)[-_TAIL_KEPT:]
    shown = _squeeze(shown)
    few = len(shown) <= 200
    negative = few and _NEGATIVE.match(shown) is not None
    masked = _MASKED.findall(shown)
    bare = not negative and len(shown) - sum(map(len, masked)) < _BARE * len(masked)
    return Answer(
        key=hash(("nothing", unasked(shown, asked(args))) if negative else (shown, skeleton(text) if tail else 0)),
        raw=hash(output),
        failed=False,
        ack=not shown or (few and not negative and _ACK.match(shown) is not None),
        negative=negative,
        long=len(shown) > 200 or shown.count("\n") >= 3,
        text=shown[:500],
        brief=not negative and len(shown) <= 40 and shown.count("\n") <= 1,
        bare=bare,
        measures=bare and "<duration>" in masked,
    )


_MASKED = re.compile(r"<(?:time|id|duration|address|tmp|pid)>")
_BARE = 80  # characters about each thing masked: with more there is something else to an answer


def _failure(output: str, text: str, head: str, tail: str, tool: str, args: Any, rejected: bool) -> Answer:
    for phrase in echoes(args):
        head, tail = head.replace(phrase, "<arg>"), tail.replace(phrase, "<arg>")
    if len(tool) > 2 and (rejected or "tool" in head):
        head = re.sub(rf"\b{re.escape(tool)}\b", "<tool>", head)
    if tail:
        first, last, rest = _salient(head)[:5], _salient(tail)[-8:], skeleton(text)
        exact = mask("\n".join((*first, "", *last)))
    else:
        masked = mask(head)
        first, last, rest = _salient(masked), [], skeleton(_MASKED.sub("", masked))
        exact = "\n".join(first)
    cores = [_core(line) for line in mask_lines(exact).split("\n")]
    everything = "\n".join(sorted({core for core in cores if core}))
    # of a long output the end says how it ended
    telling = "\n".join(sorted({core for core in cores[len(first) :] if core})) if last else everything
    whole = hash((1, everything, rest))
    failures = [(whole, WHOLE), (hash((2, telling)), SALIENT)]
    cause = None if _COUNTS_TESTS.search(everything) else _cause(cores)
    if cause is not None:
        failures.append((hash((3, cause)), CAUSE))
        if cause[0] in _OF_SURROUNDINGS:
            failures.append((hash((4, cause[0])), REASON))
    if rejected:
        failures.append((hash((5, _QUOTED.sub("<name>", telling))), REFUSED))
    empty = all(not line.strip("0") or _NEGATIVE.match(line) for line in telling.split("\n"))
    said = telling[-_SHAPE_MOST:]
    shape = unasked(said, asked(args, numbers=rejected))
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
    body = text.strip() if len(text) <= JSON_MOST else ""
    if body[:1] not in ("{", "[") or body[-1:] not in ("}", "]"):
        return text
    value = parsed(body, JSON_MOST)
    if isinstance(value, str):
        return text
    # one member a line, so that what is salient in it can be told from the rest
    return canonical(value).replace(',"', ',\n"')


def _ended_badly(head: str, tail: str) -> bool:
    """Of a long output only a line about the exit status, first or last, says that the command failed."""
    lines = head[:200].lstrip().split("\n", 1)[0], tail[-200:].rstrip().rpartition("\n")[2]
    return any(_EXIT_BAD.fullmatch(line) for line in lines)


def _refuses(text: str) -> bool:
    if text.lstrip()[:1] == "{":
        return _REFUSAL_JSON.search(text) is not None
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return False
    if any(_REFUSAL.search(line[:300]) for line in (lines[0], lines[-1])):
        return True
    # of a log only what is no more than a line or two is an answer to the call
    return len(lines) <= 2 and any(_REFUSAL.search(_WHEN.sub("", mask(line[:300]))) for line in lines)


_WHEN = re.compile(r"^(?:[\W_]*<(?:time|pid|duration|id)>)+")


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


_AROUND = " \"',;{}[]"
_CLOSES = {"'": "'", '"': '"', "]": "[", "}": "{"}
_QUOTES = ("'", '"')


def _core(line: str) -> str:
    """A line without what tools put around it; a quote or bracket that belongs to what is left of it stays."""
    whole = _squeeze(_WRAPPER.sub("", line, count=1))
    core = whole.strip(_AROUND)
    before, _, after = whole.partition(core) if core else ("", "", "")
    while after[:1] in _CLOSES and _open(core, after[0]):
        core, after = core + after[0], after[1:]
    if before[-1:] in _QUOTES and _open(core, before[-1]):
        core = before[-1] + core
    return core


def _open(text: str, close: str) -> bool:
    opener = _CLOSES[close]
    return text.count(opener) % 2 == 1 if opener == close else text.count(opener) > text.count(close)


def _cause(cores: list[str]) -> tuple[str, ...] | None:
    """The last reason the system gave with the things it names, whatever words the tool put around it."""
    bare = None
    for line in reversed(cores):
        hit = _CAUSE.search(line)
        if hit:
            reason = hit.group(1).lower()
            reason = _CODES.get(reason, reason)
            if named := _things(line):
                return (reason, *named)
            if bare is None and reason not in _OF_THINGS:
                bare = (reason,)
    return bare


def _things(line: str) -> list[str]:
    """Files, hosts, ports and modules that a line names; the name of the exception is none of them."""
    said = _ERROR_NUMBER.sub("", line)
    words = [word for word in _TOKEN.findall(said) if not _PLAIN.fullmatch(word)] + _NAMED.findall(said)
    parts = {part for word in words for part in (word.split(":") if _PLACE.search(word) else (word,))}
    named = {part.strip("\"'.,:;()[]<>") for part in parts}
    return sorted(part for part in named if part and not part.endswith(("Error", "Exception")))


_PLACE = re.compile(r"[\w\]]:\d+\W*\Z")  # a host and its port


def _squeeze(text: str) -> str:
    return "\n".join(line for part in text.split("\n") if (line := " ".join(part.split())))
