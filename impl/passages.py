"""Splits a document into passages: pieces small enough to quote, each under its heading, code kept whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

#: Characters a passage may have, but for a short end of its section (under `MIN_PASSAGE`) kept with it;
#: one code block alone may have up to `MAX_CODE`.
MAX_PASSAGE: Final = 1_200
MIN_PASSAGE: Final = 300
MAX_CODE: Final = 4_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage of one document. `line` is 1-based; `trail` is the headings above `heading`, outermost first;
    `first` is true for the one that opens its section."""

    line: int
    heading: str
    trail: tuple[str, ...]
    text: str
    first: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """A run of lines of one kind. `line` is 1-based; `level` counts for headings, 1 the outermost."""

    kind: Literal["heading", "text", "code"]
    line: int
    text: str
    level: int = 0


def split(text: str, extension: str) -> tuple[str, list[Piece]]:
    """A document's title ("" where it has none) and its passages, in order.

    `extension` without the dot, lower case, chooses the reader; one that is not known reads as plain text.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    blocks = list(_READERS.get(extension, _plain)(lines))
    title = next((b.text for b in blocks if b.kind == "heading"), "")
    return title, list(_pieces(blocks, lines))


def _pieces(blocks: Sequence[Block], lines: Sequence[str]) -> Iterator[Piece]:
    headings: list[tuple[int, str]] = []
    section: list[Block] = []
    for block in blocks:
        if block.kind != "heading":
            section.append(block)
            continue
        yield from _pack(section, [h for _, h in headings], lines)
        section = []
        while headings and headings[-1][0] >= block.level:
            headings.pop()
        headings.append((block.level, block.text))
    yield from _pack(section, [h for _, h in headings], lines)


def _pack(section: Sequence[Block], headings: Sequence[str], lines: Sequence[str]) -> Iterator[Piece]:
    """Fill passages greedily; a code block stays with the words that introduce it."""
    heading, trail = (headings[-1], tuple(headings[:-1])) if headings else ("", ())
    groups: list[list[Block]] = []
    for unit in _units(section):
        if groups and _size(groups[-1]) + _size(unit) <= MAX_PASSAGE:
            groups[-1].extend(unit)
        else:
            groups.append(unit)
    if len(groups) > 1 and _size(groups[-1]) < MIN_PASSAGE and _size(groups[-2]) <= MAX_PASSAGE:
        groups[-2].extend(groups.pop())  # a last line or two by itself would say nothing
    for number, group in enumerate(groups):
        yield Piece(group[0].line, heading, trail, _joined(group, lines), number == 0)


def _joined(group: Sequence[Block], lines: Sequence[str]) -> str:
    """The blocks parted as they are in the document, so that a quote is its very lines; what no reader is meant to
    see between two of them (comments, labels) becomes one blank line."""
    text = group[0].text
    for before, block in pairwise(group):
        after = before.line + before.text.count("\n")  # the index of the line that follows
        between = lines[after : block.line - 1]
        if block.line <= after:  # one long line, cut
            text += " " + block.text
        elif any(line.strip() for line in between):
            text += "\n\n" + block.text
        else:
            text += "\n" * (len(between) + 1) + block.text
    return text


def _size(blocks: Sequence[Block]) -> int:
    return sum(len(b.text) + 2 for b in blocks)


def _units(section: Sequence[Block]) -> Iterator[list[Block]]:
    unit: list[Block] = []
    for block in section:
        for part in _fit(block):
            joined = block.kind == "code" and unit and sum(len(b.text) for b in unit) + len(part.text) <= MAX_PASSAGE
            if unit and not joined:
                yield unit
                unit = []
            unit.append(part)
    if unit:
        yield unit


def _fit(block: Block) -> Iterator[Block]:
    """The block itself, or its parts where it is too long: between lines, then sentences, then words."""
    cap = MAX_CODE if block.kind == "code" else MAX_PASSAGE
    if len(block.text) <= cap:
        yield block
        return
    held: list[str] = []
    start = block.line
    for number, line in enumerate(block.text.split("\n"), block.line):
        for part in _cut(line, cap):
            if held and sum(len(h) + 1 for h in held) + len(part) > cap:
                yield Block(block.kind, start, "\n".join(held))
                held = []
            if not held:
                start = number
            held.append(part)
    yield Block(block.kind, start, "\n".join(held))


def _cut(line: str, cap: int) -> Iterator[str]:
    while len(line) > cap:
        at = max(line.rfind(mark, cap // 2, cap) for mark in (". ", "? ", "! ", "。"))
        at = at + 1 if at >= 0 else line.rfind(" ", cap // 2, cap)
        at = at if at > 0 else cap
        yield line[:at]
        line = line[at:].lstrip()
    yield line


# --- Markdown ------------------------------------------------------------------------------------------

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"( {0,12})(`{3,}|~{3,})")
_SETEXT = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_TITLE = re.compile(r"title:[ \t]*(.+)")


def _markdown(lines: Sequence[str]) -> Iterator[Block]:
    at = 0
    if lines and lines[0].rstrip() == "---":
        end = next((i for i in range(1, len(lines)) if lines[i].rstrip() in ("---", "...")), 0)
        for i in range(1, end):
            if match := _TITLE.match(lines[i]):
                yield Block("heading", i + 1, _bare(match[1].strip("\"' ")), 0)
        at = end + 1 if end else 0
    held: list[str] = []
    start = at

    def paragraph() -> Iterator[Block]:
        nonlocal held
        if held:
            yield Block("text", start + 1, "\n".join(held))
        held = []

    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.match(line):
            yield from paragraph()
            end = _fence_end(lines, at, fence[2])
            yield Block("code", at + 1, "\n".join(lines[at:end]).rstrip())
            at = end
            continue
        heading = _ATX.match(line)
        under = _SETEXT.match(line) if len(held) == 1 else None
        if heading:
            yield from paragraph()
            if name := _bare(heading[2] or ""):
                yield Block("heading", at + 1, name, len(heading[1]))
        elif under and not held[0].lstrip().startswith(("|", "-", "*", ">")):
            yield Block("heading", start + 1, _bare(held[0]), 1 if under[1][0] == "=" else 2)
            held = []
        elif line.lstrip().startswith("<!--"):
            yield from paragraph()
            at = next((i for i in range(at, len(lines)) if "-->" in lines[i]), at)
        elif line.strip():
            start = at if not held else start
            held.append(line.rstrip())
        else:
            yield from paragraph()
        at += 1
    yield from paragraph()


def _fence_end(lines: Sequence[str], at: int, fence: str) -> int:
    for i in range(at + 1, len(lines)):
        bare = lines[i].strip()
        if bare.startswith(fence) and not bare.strip(fence[0]):
            return i + 1
    return len(lines)


# --- reStructuredText ----------------------------------------------------------------------------------

_ADORNED = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|]*\|[ \t]+)?([\w:.+-]+?)::(?:[ \t]|$)")
_CODE_DIRECTIVES = frozenset({"code-block", "code", "sourcecode", "parsed-literal", "literalinclude", "prompt"})
_SILENT_DIRECTIVES = frozenset(
    {"toctree", "contents", "index", "image", "meta", "raw", "currentmodule", "module", "highlight", "sectnum"}
)


def _rst(lines: Sequence[str]) -> Iterator[Block]:
    levels: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif found := _rst_heading(lines, at):
            style, name, end = found
            if style not in levels:
                levels.append(style)
            yield Block("heading", at + 1, name, levels.index(style) + 1)
            at = end
        elif line.startswith("..") and line[2:3] in ("", " ", "\t"):
            end = _indented_end(lines, at + 1)
            directive = _DIRECTIVE.match(line)
            if directive and directive[1] not in _SILENT_DIRECTIVES:
                kind: Literal["text", "code"] = "code" if directive[1] in _CODE_DIRECTIVES else "text"
                yield Block(kind, at + 1, "\n".join(lines[at:end]).rstrip())
            at = end  # labels, comments and what only steers the typesetting are no text
        else:
            end = at + 1
            while end < len(lines) and lines[end].strip():
                end += 1
            yield Block("text", at + 1, "\n".join(lines[at:end]).rstrip())
            literal = lines[end - 1].rstrip().endswith("::")
            at = end
            if literal and (after := _indented_end(lines, at)) > at:
                first = next((i for i in range(at, after) if lines[i].strip()), after)
                if first < after:
                    yield Block("code", first + 1, "\n".join(lines[first:after]).rstrip())
                at = after


def _rst_heading(lines: Sequence[str], at: int) -> tuple[str, str, int] | None:
    """(adornment style, title, index after it) where a section title starts at `at`."""
    below = lines[at + 1] if at + 1 < len(lines) else ""
    if over := _ADORNED.match(lines[at]):
        under = _ADORNED.match(lines[at + 2]) if at + 2 < len(lines) else None
        if below.strip() and under and under[1] == over[1] and not _ADORNED.match(below):
            return over[1] * 2, _bare(below), at + 3
        return None
    under = _ADORNED.match(below)
    if under and not lines[at].startswith((" ", "\t", "..")) and len(below.strip()) >= len(lines[at].strip()) // 2:
        return under[1], _bare(lines[at]), at + 2
    return None


def _indented_end(lines: Sequence[str], at: int) -> int:
    """The index after the indented lines (and blank ones among them) from `at` on."""
    end = at
    for i in range(at, len(lines)):
        if lines[i].strip():
            if not lines[i].startswith((" ", "\t")):
                break
            end = i + 1
    return end


# --- AsciiDoc, Org, plain text -------------------------------------------------------------------------

_ADOC_HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)$")
_ORG_HEADING = re.compile(r"(\*{1,8})[ \t]+(\S.*)$")
_ADOC_FENCE = re.compile(r"(-{4,}|\.{4,}|`{3,})[ \t]*$")
_ORG_FENCE = re.compile(r"#\+begin_(\w+)", re.IGNORECASE)


def _asciidoc(lines: Sequence[str]) -> Iterator[Block]:
    return _lines(lines, _ADOC_HEADING, _adoc_fence)


def _org(lines: Sequence[str]) -> Iterator[Block]:
    return _lines(lines, _ORG_HEADING, _org_fence)


def _plain(lines: Sequence[str]) -> Iterator[Block]:
    return _lines(lines, None, lambda lines, at: None)


def _adoc_fence(lines: Sequence[str], at: int) -> int | None:
    match = _ADOC_FENCE.match(lines[at])
    if match is None:
        return None
    return next((i + 1 for i in range(at + 1, len(lines)) if lines[i].rstrip() == match[1]), len(lines))


def _org_fence(lines: Sequence[str], at: int) -> int | None:
    match = _ORG_FENCE.match(lines[at].lstrip())
    if match is None:
        return None
    end = f"#+end_{match[1]}".lower()
    return next((i + 1 for i in range(at + 1, len(lines)) if lines[i].strip().lower() == end), len(lines))


def _lines(
    lines: Sequence[str],
    heading: re.Pattern[str] | None,
    fence: Callable[[Sequence[str], int], int | None],
) -> Iterator[Block]:
    """Paragraphs parted by blank lines; a short line with a rule of = or - under it is a heading too."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
            continue
        if end := fence(lines, at):
            yield Block("code", at + 1, "\n".join(lines[at:end]).rstrip())
            at = end
            continue
        if heading and (match := heading.match(line)):
            yield Block("heading", at + 1, _bare(match[2]), len(match[1]))
            at += 1
            continue
        under = _SETEXT.match(lines[at + 1]) if at + 1 < len(lines) else None
        if under and len(under[1]) >= 3 and len(line) <= 120 and not line.startswith((" ", "\t", "-", "=")):
            yield Block("heading", at + 1, _bare(line), 1 if under[1][0] == "=" else 2)
            at += 2
            continue
        end = at + 1
        while end < len(lines) and lines[end].strip():
            if fence(lines, end) or (heading and heading.match(lines[end])):
                break
            end += 1
        yield Block("text", at + 1, "\n".join(lines[at:end]).rstrip())
        at = end


_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_ROLE = re.compile(r":[\w:.-]+:`([^`<]*?)(?:\s*<[^>]*>)?`")
_ANCHOR = re.compile(r"\s*\{#[^}]*\}\s*$")


def _bare(heading: str) -> str:
    """A heading's words without the marks of links, roles, code and emphasis."""
    text = _ANCHOR.sub("", _ROLE.sub(r"\1", _LINK.sub(r"\1", heading[:300])))  # nobody reads a longer one
    return re.sub(r"`+|\*{1,3}|(?<!\w)_{1,2}(?=\w)|(?<=\w)_{1,2}(?!\w)", "", text).strip()


_READERS: Final[dict[str, Callable[[Sequence[str]], Iterator[Block]]]] = {
    "md": _markdown,
    "markdown": _markdown,
    "mdx": _markdown,
    "mdown": _markdown,
    "rst": _rst,
    "rest": _rst,
    "adoc": _asciidoc,
    "asciidoc": _asciidoc,
    "org": _org,
}
