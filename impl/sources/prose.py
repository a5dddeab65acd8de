"""What a page says it is about: its title and first paragraphs, as plain text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from impl.sources.frontmatter import split_front_matter
from impl.sources.values import shorten

_INTRO = 1200
_UNDERLINE = re.compile(r"^([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_HEADING = re.compile(r"^(#{1,6}|={1,6})\s+(.+?)\s*#*$")


@dataclass(frozen=True, slots=True)
class Summary:
    """A page's `title` ("" where it has none) and its introduction's paragraphs, at most 1,200 characters."""

    title: str
    paragraphs: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The introduction's first sentence, at most 240 characters."""
        first = self.paragraphs[0] if self.paragraphs else ""
        match = re.match(r"(.{20,}?[.!?])(?:\s|$)", first)
        return shorten(match[1] if match else first, 240)


def summarise(text: str, path: str) -> Summary:
    """Read the beginning of a page in Markdown, reStructuredText, AsciiDoc or plain text."""
    if PurePosixPath(path).suffix.lower() == ".rst":
        lines = _without_directives(text.splitlines())
    else:
        lines = _without_markup(split_front_matter(text).body).splitlines()
    title = ""
    paragraphs: list[str] = []
    current: list[str] = []
    length = 0
    for index, line in enumerate([*lines, ""]):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        heading = _heading(line, following)
        if line.strip() and heading is None and not _UNDERLINE.match(line):
            current.append(line.strip())
            continue
        paragraph = plain(" ".join(current))
        current = []
        if _says_something(paragraph):
            paragraphs.append(paragraph)
            length += len(paragraph)
        if length > _INTRO or (heading and paragraphs and title):
            break
        if heading and not title:
            title = plain(heading)
    return Summary(title, _fitting(paragraphs))


def _fitting(paragraphs: list[str]) -> tuple[str, ...]:
    kept: list[str] = []
    left = _INTRO
    for paragraph in paragraphs:
        if left < 80:
            break
        kept.append(shorten(paragraph, left))
        left -= len(kept[-1])
    return tuple(kept)


def _heading(line: str, following: str) -> str | None:
    match = _HEADING.match(line)
    if match:
        return match[2]
    if line.strip() and not _UNDERLINE.match(line) and _UNDERLINE.match(following) and len(following.strip()) > 2:
        return line.strip() if len(following.strip()) + 2 >= len(line.strip()) else None
    return None


def _says_something(paragraph: str) -> bool:
    words = re.findall(r"[^\W\d_]{2,}", paragraph)
    return len(words) >= 4 or (len(paragraph) >= 12 and any(ord(char) > 0x2E80 for char in paragraph))


def _without_directives(lines: list[str]) -> list[str]:
    """reStructuredText without directives, comments, targets, field lists and their indented blocks."""
    kept: list[str] = []
    skipping = False
    for line in lines:
        if skipping and (not line.strip() or line[:1].isspace()):
            continue
        skipping = line.startswith("..") and (len(line) == 2 or line[2] == " ")
        if not skipping and not re.match(r"^:[\w -]+:", line):
            kept.append(line)
    return kept


def _without_markup(text: str) -> str:
    """Markdown or AsciiDoc without code, comments, tables, quotes, lists and HTML."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<h1[^>]*>(.*?)</h1>", r"\n# \1\n", text, flags=re.DOTALL | re.IGNORECASE)
    text = re.sub(r"</?(?:p|div|br|center|picture|table|details|summary)\b[^>]*>", "\n", text, flags=re.IGNORECASE)
    lines = []
    for line in text.splitlines():
        dropped = re.match(r"^\s*(?:[|>]|[-*+]\s|\d+[.)]\s|:[\w-]+:|\[[^\]]+\]:|import |export )", line)
        lines.append("" if dropped else line)
    return "\n".join(lines)


def plain(text: str) -> str:
    """One line without the marks of Markdown or reStructuredText: images, links, roles, emphasis, HTML."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[!?\[[^\]]*\]\([^)]*\)\]\([^)]*\)", "", text)
    text = re.sub(r"\[\s*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)
    text = re.sub(r":[\w:+-]+:`([^`<]+?)(?:\s*<[^>]*>)?`", r"\1", text)
    text = re.sub(r"`([^`<]+?)\s*<[^>`]+>`_{1,2}", r"\1", text)
    text = re.sub(r"\|[\w -]+\|", "", text)
    text = re.sub(r"</?[A-Za-z][^>]*>", "", text)
    text = re.sub(r"`{1,2}([^`]+)`{1,2}_?", r"\1", text)
    text = re.sub(r"(?<!\w)(\*{1,3}|_{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)
    return " ".join(text.split())
