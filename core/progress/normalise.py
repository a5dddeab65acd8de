"""Masks what drifts between two tellings of the same thing: times, ids, temporary paths, colours, line numbers.

Errno, HTTP status, ports, exit codes and counts are what a failure *is* and are never masked. The patterns run on
every step, so each begins with a literal or a class of characters (which the engine finds fast), or stands behind a
word that must be there; what precedes is checked by looking behind. None nests repetition: the cost is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_DIGIT = re.compile(r"[0-9]")
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d{1,2}:[0-5]\d(?::[0-6]\d)?(?:[.,]\d{1,9})?"
_ZONE = r"(?: ?(?:Z|UTC|GMT)\b| ?[+-]\d\d:?\d\d\b|[+-]\d\d\b(?!:))?"
_SOURCE = (
    r"(?i:pyx?|[jt]sx?|[cm]js|cc?|[ch]pp|h|rs|go|java|kts?|rb|php|cs|swift|scala|sh|sql|ya?ml|json|toml|md|txt|html?"
    r"|s?css|lua|pl|exs?|hs|ml|vue|svelte|log|cfg|ini|xml|gradle|zig|ipynb|tf|proto)"
)

#: What a test compares is the failure itself, be it a time.
_COMPARING = ("got", "want", "expected", "received", "actual", "but was", "== ", "!= ", "assert", " <", " >")
_COMPARED = re.compile(r"(?:got|want|expected|received|actual|but was|[=!]=|assert| [<>]=?):? ?['\"(<\[]?\Z")
_COMPARES = re.compile(r" ?(?:[<>]=?|[=!]=) ?[0-9]")

_TIME_SHAPES = (
    # the first digit of a number, then one of the shapes of a time
    r"(?:"
    rf"\d{{3}}[-/]\d\d[-/]\d\d(?:[T _](?:{_CLOCK}|\d\d_\d\d_\d\d(?:_\d+)?Z?\b))?{_ZONE}"
    r"|(?<=[12])\d{3}(?:0\d|1[0-2])[0-3]\d[T_-]?[0-2]\d[0-5]\d[0-6]\dZ?\b"
    rf"|\d?[/ -]{_MONTH}[a-z]{{0,6}}[/ -]\d{{4}}(?:[: ]{{1,2}}{_CLOCK})?{_ZONE}"
    rf"|(?<![.:/-].)\d?[/.]\d{{1,2}}[/.]\d{{4}}\b(?![.:])(?:,? {_CLOCK})?"
    rf"|(?<![.:/-].)\d?/\d{{1,2}}/\d\d[ ,]{{1,2}}{_CLOCK}"
    # hours and minutes alone may be a mapping of ports (22:22): seconds, am or pm, brackets make them a time
    r"|(?<![.:/-].)\d?:[0-5]\d(?::[0-6]\d(?:[.,]\d{1,9})?(?: ?[AaPp][Mm]\b)?| ?[AaPp][Mm]\b)(?!\w|:\w)"
    r"|(?<=[\[<].)\d{0,2}:[0-5]\d\b"
    r"|(?:(?<![.:].)|(?<=\":.))(?<=1)\d{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b(?![.:]\d)"
    r")"
)
_TIME = re.compile(r"[0-9](?<!\w.)" + _TIME_SHAPES)
_MONTH_FIRST = re.compile(
    rf"{_MONTH}(?<![A-Za-z]...)[a-z]{{0,6}} +\d{{1,2}}\b(?:,? \d{{4}})?(?:,? (?:{_CLOCK}|<time>))?{_ZONE}"
    r"(?: [A-Z]{3,4}T\b)?(?: \d{4}\b)?"
)
_TIME_MORE: Final = (
    (re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? (?=<time>)"), ""),
    (re.compile(r"<time>[T ,]{1,2}(?=<time>)"), ""),
    (re.compile(r"[IWEF]\d{4} (?=<time>)"), ""),
    (re.compile(r"<time>([\]\s|,-]{0,3})(?:\[\d{3,7}\]| +\d+(?= [\w.]+:\d+\]))"), r"<time>\1<pid>"),
)
_DURATION_SHAPES = (
    r"\d*+(?:[.,]\d++)?(?= ?[A-Za-zµμс])"  # a unit follows: with no look back into the number
    r"(?:h ?\d+m(?: ?\d+s)?\b|h[0-5]\d\b|m ?\d+(?:\.\d+)?s\b|[mhd]\b(?!-\w)"
    r"| ?(?:[muµμn]?s(?:ecs?|econds?)?|min(?:ute)?s?|hours?|hrs?|days?|milliseconds?|microseconds?"
    r"|[sS]ek(?:unden?)?|secondes?|segundos?|сек(?:унд\w?)?"
    r"|[kKMGT]?i?B(?:ytes)?/s(?:ec)?|it/s|s/it|req/s|ops/s)\b)"
)
_DURATION = re.compile(r"[0-9](?<![\w.].)" + _DURATION_SHAPES)
_BRACKETS: Final = (
    (re.compile(r"\[ *\d+\.\d{3,}\]"), "<time>"),
    (re.compile(r"\[(?<!STATE.)(?<!r[nr][oO].)(?<!code.)\d{2,}\](?=:)"), "<pid>"),
)
_BAR = re.compile(r"[#=>\-.█▉▊▋▌▍▎▏▓▒░━╸╺•*~_]{4,}")

_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")

#: Masked only where one of the words stands in the text.
_BY_WORD: Final = tuple(
    (tuple(words.split()), re.compile(pattern), to)
    for words, pattern, to in (
        # Windows keeps its error numbers in 0x8… and 0xC0…: those and short codes stay
        ("0x", r"0x(?!(?:80[02][0-9a-fA-F]|[cC]000)[0-9a-fA-F]{4}\b)[0-9a-fA-F]{5,}\b", "<address>"),
        ("/var/folders", r"(?:/private)?/var/folders/[\w+-]+/[\w+-]+/T/[\w.+-]*", "<tmp>"),
        (
            "/tmp/ /var/tmp/ /shm/ /run/user/",
            r"/(?:var/tmp|tmp|dev/shm|run/user)/(?:tmp[\w.-]+|[\w-]+\.[A-Za-z0-9]{6,}|[\w.-]*\d[\w.-]*"
            r"|(?:cc|rustc)[A-Za-z]{6}\b[\w.]*|[\w.-]*-[A-Za-z]{6,8}\b)",
            "<tmp>",
        ),
        ("pytest-", r"pytest-\d+\b", "pytest-<id>"),
        (
            r"\Temp\ \temp\ \TEMP %TEMP% %TMP%",
            r"(?i:(?:\\Temp|%TE?MP%)\\)[^\\\s\"']+",
            r"\\Temp\\<tmp>",
        ),
        ("tmp", r"tmp(?<!\w...)[A-Za-z0-9_]{6,10}\b", "<tmp>"),
        ("pid PID Pid", r"[pP](?<![A-OQ-Za-oq-z].)[iIpP]{1,2}[dD][ =:#\"]{0,3}\d+\b", "<pid>"),
        ("process Process", r"[pP]rocess(?: ID| id)?[ =:#-]{1,2}\d+\b", "<pid>"),
        ("tid", r"\btid[ =:]{1,2}\d+\b", "<pid>"),
        ("ETA", r"ETA:? \d+:\d\d\b", "<duration>"),
        ("thread Thread", r"[tT]hread[ =:#-]{1,2}\d+\b", "<pid>"),
        ("goroutine", r"goroutine \d+\b", "<pid>"),
        (
            "id= id: id\" id' id# _id Id ID eference race",
            r"((?:[iI][dD]|eference|race)(?:(?<=I.)|(?<=e)|(?<![A-Za-z]..))[\"']?[ :=#]{1,3}[\"']?)"
            r"(?:<time>|\d{3,}\b|(?=[A-Za-z-]*[0-9])[A-Za-z0-9-]{10,}\b"
            r"|(?=[\w-]*[0-9])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{16,})={0,2}",
            r"\1<id>",
        ),
        ("==", r"==\d+==", "<pid>"),
        ("=", r"(?<![\w+/])[A-Za-z0-9+/]{15,}={1,2}(?![=\w])", "<id>"),
        ("#", r"\d+#\d+:(?: \*\d+)?", "<pid>"),
        ("<0.", r"(?:#PID)?<0\.\d+\.\d+>", "<pid>"),
        ("PT", r"\bPT(?:\d+H)?(?:\d+M)?[\d.]+S\b", "<duration>"),
        (" over ", r"\(x\d+ over ", "(over "),
        (" +", r"(?m)^\d\d:\d\d(?= \+\d)", "<time>"),
        (") :", r"\(\d{2,7}\) :", "<pid> :"),
        (" --- [", r"[0-9](?<!\w.)\d{0,6} --- \[", "<pid> --- ["),
        (
            "年 月 日 時 时 分 秒",
            r"[0-9](?<![A-Za-z0-9_.].)\d*(?:\.\d+)?[年月日時时分秒](?:\d{1,2}[月日時时分秒])*",
            "<time>",
        ),
        ("panicked", r"\(\d+\)(?= panicked)", "<pid>"),
        (
            "Segm Kill Abort Termin Bus Illeg Float Trace",
            r"[0-9](?<!\w.)\d{0,6} (?=Segmentation f|Killed|Aborted|Terminated|Bus e|Illegal i|Floating p|Trace/)",
            "<pid> ",
        ),
        (
            "lapsed uration took atency untime ptime esponse",
            r"[eEdDtTlLrRuU](?<![A-Za-z].)(?i:lapsed|uration|ook|atency|untime|ptime|esponse_?time)"
            r"(?i:_?(?:ms|secs?|seconds|millis|s|ns|us|time))?\"?\s?[:=]\s?\"?\d[\d.]*(?![\w.])",
            "<duration>",
        ),
        ("Id>", r"Id>(?:<time>|[^<>\s]{6,80})</", "Id><id></"),
        ("->", r"[0-9](?<![\w.-].)[\w.-]*:\d+(?= ?-> ?\S{1,60}:\d)", "<source>"),
    )
)
#: Letters between digits: the mark of a made-up name.
_MIXED = re.compile(r"[0-9][A-Za-z]|[0-9]-[0-9a-z]|[a-f][0-9]")
_IDS: Final = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        (r"1-[0-9a-f]{8}-[0-9a-f]{24}\b", "<id>"),
        (r"-(?=[a-z]*[0-9])[a-z0-9]{8,10}-[a-z0-9]{5}\b", "-<id>"),
        (
            r"[0-9A-Za-z](?<!\w.)(?=[\w-]{6})(?!(?<=0)x)(?:"
            r"(?<=[0-9a-fA-F])(?:(?<=[0-9])[0-9]*[a-fA-F]|(?<=[a-fA-F])[a-fA-F]*[0-9])[0-9a-fA-F]*\b(?<=[0-9a-fA-F]{7})"
            r"|(?=[0-9]*[A-Za-z]+[0-9]+[A-Za-z]+[0-9]|[0-9]+[A-Za-z]+[0-9]+[A-Za-z]|[A-Za-z]+[0-9]+[A-Za-z]+[0-9])[0-9A-Za-z]{9,}\b"
            r"|(?<=[rmctjse])(?:eq|sg|all|oolu|hatcmpl|un|ob|ask|ess|race|vt|xn)[_-](?=[A-Za-z]*\d)[A-Za-z0-9]{8,}\b)",
            "<id>",
        ),
        (r"_[0-9a-f]{12,}\b", "_<id>"),
        # letters of both sizes and digits in between, as no one names things
        (
            r"[A-Za-z0-9](?<![\w-].)(?=[\w-]{15})(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?=(?:[\w-]*?[0-9][A-Za-z_-]){2})[\w-]{15,}",
            "<id>",
        ),
        (r"<id>-[0-9a-fA-F]{4,12}\b", "<id>"),
    )
)

#: What drifts in a failure alone: in an answer that was asked for, a line number is the answer.
_LINES: Final = tuple(
    (tuple(words.split()), re.compile(pattern), to)
    for words, pattern, to in (
        (
            "attempt Attempt retry Retry retries Retries try Try tries",
            r"[aArRtT](?<![A-Za-z].)(?i:ttempt|etry(?:ing)?|etries|ries|ry)[ #:=]{0,2}\d+(?: ?(?:/|of) ?\d+)?",
            "",
        ),
        ("failed to solve", r"(?m)^(?:#\d+ )?\d+\.\d{1,3} ", ""),  # image builds put their seconds before each line
        (".", rf"\.({_SOURCE})(?::\d+(?::\d+)?\b|[(\[]\d+(?:[,:]\d+)?[)\]])", r".\1:<line>"),
        ("akefile Dockerfile", r"(akefile|Dockerfile):\d+(?::\d+)?\b", r"\1:<line>"),
        ("<anonymous> <stdin>", r"<(anonymous|stdin)>:\d+(?::\d+)?\b", r"<\1>:<line>"),
        (
            "line Line LINE col Col char offset Offset pos Pos byte ln",
            r"[lLcCoOpPbB](?<![A-Za-z].)(?i:ines?|n|olumns?|ol|har(?:acter)?|ffset|osition|os|yte)"
            r"(?: |: ?| ?= ?|#)\d+(?:-\d+)?\b",
            "<line>",
        ),
        (
            "error warning",  # a linter's places, under the name of the file
            r"(?m)^ *\d+:\d+(?= +(?:error|warning))",
            "<line>",
        ),
        ("lines of output", r"\[\d+ lines of output\]", ""),
        ("-rss: -vm:", r"-(?:vm|rss):\d+kB", ""),
        ("job build run", r"\b(?:[jJ]ob|[bB]uild|[rR]un)(?: #\d+|[ =:#]{1,2}\d{4,})\b", "<id>"),
        (
            "req conn tx session",
            r"\b(?:req(?:uest)?|conn(?:ection)?|txn?|session)[-_#]\d+\b|\btxid[ =:]{1,2}\d+\b",
            "<id>",
        ),
        (
            "heap rss mem goroutines load",  # what a machine happened to be busy with
            r"\b(?:heap|rss|mem(?:ory)?|goroutines)=\d[\w.]*|\bload average: [\d., ]+",
            "<load>",
        ),
        ("exec- orker- gw pool-", r"(?:exec-|[wW]orker-|gw|pool-)(?<![a-z]gw)\d+\b", "<pid>"),
        ("etry etry-after", r"[rR]etry[-_ ]?[aA]fter\W{1,3}\d+", "retry after"),
        (
            "remote client peer from src source",
            r"(?:remote|client|peer|from|source|src)[\w-]*\W{1,3}[\d.]{7,15}(?::| port )(?:3[2-9]|[456]\d)\d{3}\b",
            "<source>",
        ),
        ("0 1 2 3 4 5 6 7 8 9", r"[0-9](?<![\w.].)[0-9]{10,}\b(?!\.)", "<id>"),
        ("node:internal", r"node:internal([\w/]*):\d+(?::\d+)?", r"node:internal\1:<line>"),
        ("M S C X", r"(?m)^\d+:[MSCX] (?=<time>)", ""),
        ("$", r"\$(?<=[A-Za-z$]\$)\d+", "$<n>"),
        ("#", r"#\d{5,}\b", "#<id>"),
        # processes of a sandbox have small numbers
        ("<time>", r"(<time>(?:[\]\s|,-]{0,3}|[^\n\[]{1,40}(?=\[\d\]:)))\[\d{1,2}\]", r"\1<pid>"),
        ("/proc/", r"/proc/\d+\b", "/proc/<pid>"),
        ("Hunk", r"Hunk #\d+ FAILED at \d+", "Hunk FAILED"),
        ("@@", r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", "@@"),
        ("|", r"(?m)^ *\d+ ?\|", "|"),
    )
)


def clean(text: str) -> str:
    """The text as a terminal would leave it: no colours, of a redrawn line its last state."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return undrawn(text).replace("\b", "")


def undrawn(text: str) -> str:
    """Of every line that was drawn again and again, what stands last."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def mask(text: str) -> str:
    """A few lines with times, durations, ids, addresses, pids, temporary paths and bars masked."""
    text = _BAR.sub(" ", text)
    if _DIGIT.search(text) is None:
        return _by_word(text, _BY_WORD)
    compares = any(word in text for word in _COMPARING)
    if "-" in text:
        text = _UUID.sub("<id>", text)
    text = _TIME.sub(_unless_compared("<time>") if compares else "<time>", text)
    text = _MONTH_FIRST.sub("<time>", text)
    if "<time>" in text:
        for pattern, to in _TIME_MORE:
            text = pattern.sub(to, text)
    for pattern, to in _BRACKETS:
        text = pattern.sub(to, text)
    text = _by_word(text, _BY_WORD)
    text = _DURATION.sub(_unless_compared("<duration>") if compares else "<duration>", text)
    if _MIXED.search(text) is not None:
        for pattern, to in _IDS:
            text = pattern.sub(to, text)
    return text


def _unless_compared(to: str) -> Callable[[re.Match[str]], str]:
    def put(match: re.Match[str]) -> str:
        text, start, end = match.string, match.start(), match.end()
        compared = _COMPARED.search(text[max(0, start - 12) : start]) or _COMPARES.match(text, end)
        return match.group() if compared else to

    return put


def mask_lines(text: str) -> str:
    """`mask`ed text of a failure with line numbers, columns, offsets and the number of the attempt masked too."""
    return _by_word(text, _LINES)


def _by_word(text: str, patterns: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]) -> str:
    for words, pattern, to in patterns:
        for word in words:
            if word in text:
                text = pattern.sub(to, text)
                break
    return text


# letters that are neither hex digits nor the last one of a colour code
_SKELETON_DROPS = bytes(b for b in range(128) if chr(b).lower() not in "ginopqrstuvwxyz")


def skeleton(text: str) -> int:
    """A hash of most letters of the whole text: what is left when numbers, ids, colours and layout drift."""
    return hash(undrawn(text).encode("utf-8", "surrogatepass").translate(None, _SKELETON_DROPS))
