"""Finds private keys and access tokens in files, by the shapes their issuers gave them."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Iterator

from core.bundle.problems import Problem, ProblemCode

_ARMOUR = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
)
_PROSE = (".md", ".mdx", ".markdown", ".rst", ".txt", ".adoc", ".asciidoc")
_BODY_BYTES = 600
_BODY = re.compile(rb"[A-Za-z0-9+/]{16}")
# A marker on a line of its own, however indented or quoted, and a line of text after it. Dots and brackets there
# stand for a key that is not shown.
_OWN_LINE = re.compile(rb"(?:^|[\n\\\"'`])[ \t>#*|n]*$")
_NEXT_LINE = re.compile(rb"[ \t]*(?:\r?\n|\\r?\\?n)(?:[\s>#*|\"'\\]|\\n)*(?:[A-Za-z0-9+/]|$)")
_MENTIONS = 1_000
# "-----BEGIN " in Base64 at each alignment, from where four characters stand for three bytes.
_ENCODED = re.compile(rb"(?:LS0tLS1CRUdJTi|LS0tQkVHSU4g|LS0tLUJFR0lO)[A-Za-z0-9+/\s]{20,120}")
_ENCODED_ARMOUR = re.compile(rb"---BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY")
# What a whole file begins with: PKCS #1, SEC 1, PKCS #12, a Java keystore whose first entry is a key.
_BINARY = re.compile(
    rb"\x30\x82..\x02\x01\x00\x02(?:\x81.|\x82..)\x00|\x30(?:[\x2c-\x7f]|\x81.)\x02\x01\x01\x04[\x1c-\x42]"
    rb"|\x30\x82..\x02\x01\x03\x30|\xfe\xed\xfe\xed....\0\0..\0\0\0\x01",
    re.DOTALL,
)
# (a literal without which the pattern cannot match, the pattern).
_KEYS = (
    (b"PuTTY-User-Key-File-", re.compile(rb"PuTTY-User-Key-File-[0-9]: ")),
    (b"AGE-SECRET-KEY-", re.compile(rb"AGE-SECRET-KEY-1[0-9A-Z]{50,}")),
    # OpenSSH without its armour, signify and minisign, WireGuard.
    (b"b3BlbnNzaC1rZXktdj", re.compile(rb"(?:^|\n)b3BlbnNzaC1rZXktdjEAAAA[A-Za-z0-9+/=]")),
    (b" secret key", re.compile(rb"untrusted comment: [^\n]{0,200} secret key\s")),
    (b"PrivateKey", re.compile(rb"(?m)^\s{0,9}PrivateKey\s{0,9}=\s{0,9}[A-Za-z0-9+/]{42}[A-Za-z0-9+/=]=(?!\S)")),
    # JSON Web Keys: `d` is the private part.
    (b'"kty"', re.compile(rb"\"d\"\s{0,9}:\s{0,9}\"[A-Za-z0-9_-]{32,}=*\"")),
    # PKCS #8 without armour: version 0, then RSA, elliptic curves or Ed25519.
    (
        b"\x02\x01\x00\x30",
        re.compile(
            rb"\x02\x01\x00\x30(?:\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"
            rb"|\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01|\x05\x06\x03\x2b\x65\x70)"
        ),
    ),
)
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
    ("an npm token", (b"npm_",), rb"(?<![A-Za-z0-9])npm_([A-Za-z0-9]{36})(?![A-Za-z0-9])"),
    (
        "a registry's password",
        (b":_",),
        rb":_(?:authToken|auth|password)\s{0,4}=\s{0,4}[\"']?(?=\S*[0-9])([A-Za-z0-9+/=_-]{8,})",
    ),
    ("a registry's password", (b'"auths"',), rb"\"auth\"\s{0,9}:\s{0,9}\"([A-Za-z0-9+/]{8,}={0,2})\""),
    ("a PyPI token", (b"pypi-AgE",), rb"(?<![A-Za-z0-9])pypi-AgE([A-Za-z0-9_-]{50,255})"),
)
# Files that programs look up passwords in, by name.
_LOGINS = {
    ".netrc": re.compile(rb"(?:^|\s)password\s+[^\s<$]"),
    "_netrc": re.compile(rb"(?:^|\s)password\s+[^\s<$]"),
    ".git-credentials": re.compile(rb"://[^\s:@/]+:[^\s:@/<$]+@"),
    ".pgpass": re.compile(rb"(?m)^[^#\s:]+:[^:\s]*:[^:\s]*:[^:\s]*:[^\s<$]"),
}
_DECLARE = "Remove it, declare a credential, and set its value with `artificer credentials set`."
_PLACEHOLDER = re.compile(rb"[xX0._*-]*")
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def scan_for_secrets(data: bytes, path: str) -> list[Problem]:
    """A problem for the first private key in `data` and one for the first token of each kind.

    Never quotes what it found. Documented samples (`…EXAMPLE`, runs of x, in prose a key's marker alone) are
    passed over.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            data = data[2:].decode(encoding, "replace").encode()
    problems: list[Problem] = []
    key = min(_private_keys(data, path.lower().endswith(_PROSE)), default=None)
    if key is not None:
        problems.append(
            Problem(
                ProblemCode.PRIVATE_KEY,
                path,
                f"line {_line(data, key)}: holds a private key",
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
                    _DECLARE,
                )
            )
    login = _LOGINS.get(path.rpartition("/")[2].lower())
    if login is not None and (match := login.search(data)):
        message = f"line {_line(data, match.start())}: holds a password"
        problems.append(Problem(ProblemCode.SECRET_IN_FILE, path, message, _DECLARE))
    return problems


def _private_keys(data: bytes, prose: bool) -> Iterator[int]:
    """Where private keys begin: the first of each form."""
    if b"PRIVATE KEY" in data:
        for count, marker in enumerate(_ARMOUR.finditer(data)):
            if not prose or count == _MENTIONS or _is_key(data, marker.start(), marker.end()):
                yield marker.start()
                break
    if b"LS0tLS1CRUdJTi" in data or b"LS0tQkVHSU4g" in data or b"LS0tLUJFR0lO" in data:
        for found in _ENCODED.finditer(data):
            text = b"".join(found[0].split())
            if _ENCODED_ARMOUR.search(base64.b64decode(text[: len(text) // 4 * 4])):
                yield found.start()
                break
    if _BINARY.match(data):
        yield 0
    for literal, pattern in _KEYS:
        if literal in data and (key := pattern.search(data)):
            yield key.start()


def _is_key(data: bytes, start: int, end: int) -> bool:
    """Whether a key follows a marker in prose, which may also only speak of markers."""
    body, ended, _ = data[end : end + _BODY_BYTES].partition(b"-----END ")
    if _BODY.search(body):
        return True
    below = _NEXT_LINE.match(body)
    if below is None or (ended and below.end() == len(body)):
        return False
    return _OWN_LINE.search(data[max(0, start - 100) : start]) is not None


def _is_sample(body: bytes) -> bool:
    return body.endswith((b"EXAMPLE", b"EXAMPLEKEY")) or _PLACEHOLDER.fullmatch(body) is not None


def _line(data: bytes, start: int) -> int:
    return data.count(b"\n", 0, start) + 1
