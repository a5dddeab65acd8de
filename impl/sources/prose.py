"""What a page says it is about: its title and first paragraphs, as plain text."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from impl.sources.frontmatter import split_front_matter
from impl.sources.values import shorten

_INTRO = 1200
_BEGINNING = 20_000  # characters that are looked at: no page takes long, whatever is in it
_UNDERLINE = re.compile(r"^([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_NO_TITLES = frozenset({"home", "index", "introduction", "overview", "readme", "welcome", "documentation"})
_BETWEEN_LINKS = re.compile(r"\s[|·•]\s")
_DEFINITION = re.compile(r"^ {0,3}\[([^\]\n]+)\]:", re.MULTILINE)
_SHORT_LINK = re.compile(r"(?<![!\]])\[([^\[\]\n]+)\](?![(\[:])")
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
    """Read the beginning of a page in Markdown, reStructuredText, AsciiDoc or plain text.

    Its title is what its front matter says, else its first heading of the first level, else a heading it begins
    with: one of a section further down is none, nor is one that any page could have.
    """
    title, text = "", text[:_BEGINNING]
    if PurePosixPath(path).suffix.lower() == ".rst":
        lines = _without_directives(text.splitlines())
    else:
        matter = split_front_matter(text)
        title = " ".join(matter.word("title").split())
        lines = _without_markup(matter.body).splitlines()
    first = _first_underline(lines)
    paragraphs: list[str] = []
    current: list[str] = []
    length = 0
    for index, line in enumerate([*lines, ""]):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        heading, top = _heading(line, following, first)
        if line.strip() and heading is None and not _UNDERLINE.match(line):
            current.append(line.strip())
            continue
        paragraph = plain(" ".join(current))
        current = []
        if _says_something(paragraph):
            paragraphs.append(paragraph)
            length += len(paragraph)
        if length > _INTRO or (heading and paragraphs and (title or not top)):
            break
        if heading and not title:
            title = plain(heading) or _pictured(heading)
    return Summary("" if title.lower() in _NO_TITLES else title, _fitting(paragraphs))


def _fitting(paragraphs: list[str]) -> tuple[str, ...]:
    kept: list[str] = []
    left = _INTRO
    for paragraph in paragraphs:
        if left < 80:
            break
        kept.append(shorten(paragraph, left))
        left -= len(kept[-1])
    return tuple(kept)


def _first_underline(lines: list[str]) -> str:
    """The sign that underlines the page's first underlined heading: that of its title."""
    return next((match[1] for line in lines if (match := _UNDERLINE.match(line))), "")


def _heading(line: str, following: str, first: str) -> tuple[str | None, bool]:
    """The heading that begins on a line, None where none does, and whether it is of the first level."""
    match = _HEADING.match(line)
    if match:
        return match[2], len(match[1]) == 1
    under = _UNDERLINE.match(following)
    if line.strip() and not _UNDERLINE.match(line) and under and len(following.strip()) > 2:
        return (line.strip(), under[1] == first) if len(following.strip()) + 2 >= len(line.strip()) else (None, False)
    return None, False


def _says_something(paragraph: str) -> bool:
    if len(_BETWEEN_LINKS.findall(paragraph)) > 1 and not re.search(r"[.!?。](?:\s|$)", paragraph):
        return False
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
    text = re.sub(r"<!--.{0,10000}?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<h([1-6])\b[^>]{0,500}>(.{0,2000}?)</h\1>", _as_heading, text, flags=re.DOTALL | re.IGNORECASE)
    defined = {name.lower() for name in _DEFINITION.findall(text)}
    text = _SHORT_LINK.sub(lambda link: link[1] if link[1].lower() in defined else link[0], text)
    text = re.sub(r"</?(?:p|div|br|center|picture|table|details|summary)\b[^>]*>", "\n", text, flags=re.IGNORECASE)
    lines = []
    for line in text.splitlines():
        dropped = re.match(r"^\s*(?:[|>]|[-*+]\s|\d+[.)]\s|:[\w-]+:|\[[^\]]+\]:|import |export )", line)
        lines.append("" if dropped else line)
    return "\n".join(lines)


def _as_heading(match: re.Match[str]) -> str:
    """A heading of HTML as one of Markdown; of a picture alone its words."""
    words = plain(re.sub(r"<br\b[^>]*>", " ", match[2], flags=re.IGNORECASE))
    return f"\n\n{'#' * int(match[1])} {words or _pictured(match[2])}\n\n"


def _pictured(heading: str) -> str:
    """What the first picture in a heading is called, "" where it says nothing."""
    match = re.search(r"""!\[([^\]]+)\]|<img\b[^>]*\balt=["']([^"'>]+)""", heading, re.IGNORECASE)
    return " ".join((match[1] or match[2]).split()) if match else ""


def plain(text: str) -> str:
    """One line without the marks of Markdown or reStructuredText: images, links, roles, emphasis, HTML."""
    text = re.sub(r"!\[[^\]]{0,500}\](?:\([^)]{0,2000}\)|\[[^\]]{0,500}\])?", "", text)
    text = re.sub(r"\[\s*\](?:\([^)]*\)|\[[^\]]*\])", "", text)
    text = re.sub(r"\[([^\]]{1,500})\](?:\([^)]{0,2000}\)|\[[^\]]{0,500}\])", r"\1", text)
    text = re.sub(r":[\w:+-]+:`([^`<]+?)(?:\s*<[^>]*>)?`", r"\1", text)
    text = re.sub(r"`([^`<]+?)\s*<[^>`]+>`_{1,2}", r"\1", text)
    text = re.sub(r"\|[\w -]+\|", "", text)
    text = re.sub(r"</?[A-Za-z][^>]*>", "", text)
    text = re.sub(r"`{1,2}([^`]+)`{1,2}_?", r"\1", text)
    text = re.sub(r"(?<![\w\\])(\*{1,3}|_{1,3})(?=\S)(.+?)(?<=[^\s\\])\1(?!\w)", r"\2", text)
    text = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", html.unescape(text))
    return " ".join(text.split())
