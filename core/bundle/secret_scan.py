"""Finds private keys and access tokens in files, by the shapes their issuers gave them."""

from __future__ import annotations

import codecs
import re

from core.bundle.problems import Problem, ProblemCode

_PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    rb"|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
    rb"|PuTTY-User-Key-File-[0-9]: "
    rb"|AGE-SECRET-KEY-1[0-9A-Z]{50,}"
)
_KEY_WORDS = (b"PRIVATE KEY", b"PuTTY-User-Key-File-", b"AGE-SECRET-KEY-")
# (what it is, literals of which a file with one holds at least one, the pattern whose group is its body).
# The literals keep megabytes of ordinary text out of the patterns.
_TOKENS = (
    ("an AWS access key", (b"AKIA", b"ASIA"), rb"(?<![A-Za-z0-9])(?:AKIA|ASIA)([A-Z0-9]{16})(?![A-Za-z0-9])"),
    (
        "an AWS secret key",
        (b"aws", b"AWS", b"Aws"),
        rb"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    ("a GitHub token", (b"gh",), rb"(?<![A-Za-z0-9])gh[pousr]_([A-Za-z0-9]{30,255})"),
    ("a GitHub token", (b"github_pat_",), rb"(?<![A-Za-z0-9])github_pat_([A-Za-z0-9_]{22,255})"),
    ("a GitLab token", (b"glpat-",), rb"(?<![A-Za-z0-9])glpat-([A-Za-z0-9_-]{20,255})"),
    ("an Anthropic key", (b"sk-ant-",), rb"(?<![A-Za-z0-9])sk-ant-([A-Za-z0-9_-]{16,255})"),
    (
        "an API key",
        (b"sk-",),
        rb"(?<![A-Za-z0-9_-])sk-(?:(?:proj|svcacct|admin|or-v1)-([A-Za-z0-9_-]{20,255})|(?!ant-)([A-Za-z0-9]{20,255}))",
    ),
    ("a Stripe key", (b"k_live_",), rb"(?<![A-Za-z0-9])[sr]k_live_([A-Za-z0-9]{20,255})"),
    ("a Slack token", (b"xox",), rb"(?<![A-Za-z0-9])xox[abeprs]-([A-Za-z0-9-]{10,255})"),
    ("a Google key", (b"AIza",), rb"(?<![A-Za-z0-9])AIza([A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])"),
    ("a Hugging Face token", (b"hf_",), rb"(?<![A-Za-z0-9])hf_([A-Za-z0-9]{34,255})"),
    ("a PyPI token", (b"pypi-AgE",), rb"(?<![A-Za-z0-9])pypi-AgE([A-Za-z0-9_-]{50,255})"),
)
_PLACEHOLDER = re.compile(rb"[xX0._*-]*")
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def scan_for_secrets(data: bytes, path: str) -> list[Problem]:
    """A problem for the first private key in `data` and one for the first token of each kind.

    Never quotes what it found. Documented samples (`…EXAMPLE`, runs of x) are passed over.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            data = data[2:].decode(encoding, "replace").encode()
    problems: list[Problem] = []
    key = _PRIVATE_KEY.search(data) if any(word in data for word in _KEY_WORDS) else None
    if key is not None:
        problems.append(
            Problem(
                ProblemCode.PRIVATE_KEY,
                path,
                f"line {_line(data, key.start())}: holds a private key",
                "Remove the file and replace the key: whoever had the file has it.",
            )
        )
    for name, words, pattern in _TOKENS:
        if not any(word in data for word in words):
            continue
        matches = re.finditer(pattern, data)
        start = next((match.start() for match in matches if not _is_sample(match[match.lastindex or 0])), None)
        if start is not None:
            problems.append(
                Problem(
                    ProblemCode.SECRET_IN_FILE,
                    path,
                    f"line {_line(data, start)}: holds what looks like {name}",
                    "Remove it, declare a credential, and set its value with `artificer credentials set`.",
                )
            )
    return problems


def _is_sample(body: bytes) -> bool:
    return body.endswith((b"EXAMPLE", b"EXAMPLEKEY")) or _PLACEHOLDER.fullmatch(body) is not None


def _line(data: bytes, start: int) -> int:
    return data.count(b"\n", 0, start) + 1
