"""Front matter of a Markdown file: its YAML, read leniently, and the text after it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_LIMIT = 65_536
_KEY = re.compile(r"^([A-Za-z][\w-]*):(?:\s+(.*))?$")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`data` is what the front matter says, `body` the text after it, `problems` what was wrong with it (in
    words; empty where it is well-formed). `present` is False where the file has none."""

    present: bool
    body: str
    data: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def word(self, key: str) -> str:
        """The value as one string, "" where absent, empty or not a scalar."""
        value = self.data.get(key)
        return "" if value is None or isinstance(value, list | dict) else str(value).strip()


def split_front_matter(text: str) -> FrontMatter:
    """Split a file's text. Broken YAML is read line by line as `key: rest of the line`, with a problem noted."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].rstrip() != "---":
        return FrontMatter(False, text)
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        # What looks like keys up to the first line that does not is what was meant.
        end = next((i for i, line in enumerate(lines[1:], 1) if not _KEY.match(line.rstrip("\r\n"))), len(lines))
        problem = "the front matter is not closed by a line `---`"
        return FrontMatter(False, "".join(lines[end:]) or text, _by_line("".join(lines[1:end])), (problem,))
    block, body = "".join(lines[1:end]), "".join(lines[end + 1 :])
    if len(block) > _LIMIT:
        return FrontMatter(True, body, problems=(f"the front matter is longer than {_LIMIT} characters",))
    return _parse(block, body)


def _parse(block: str, body: str) -> FrontMatter:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = list(yaml.parse(block, Loader=loader))
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            # Never written out: a few lines of them stand for more than any memory holds.
            return FrontMatter(True, body, _by_line(block), ("the front matter uses a YAML anchor or alias",))
        data = yaml.load(block, Loader=loader)
        str(data)  # what cannot be written (numbers of thousands of digits) is not kept
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(getattr(error, "problem", None) or error).splitlines()[0]
        return FrontMatter(True, body, _by_line(block), (f"the front matter is not valid YAML ({reason})",))
    if data is None:
        return FrontMatter(True, body, problems=("the front matter is empty",))
    if not isinstance(data, dict):
        return FrontMatter(True, body, problems=("the front matter is not a mapping",))
    return FrontMatter(True, body, {str(key): value for key, value in data.items()}, _irregular(block, events))


def _irregular(block: str, events: Sequence[Any]) -> tuple[str, ...]:
    """What valid YAML may hold and a bundle may not: anchors, tags, a key given twice."""
    found = []
    if any(getattr(event, "anchor", None) for event in events):
        found.append("the front matter uses a YAML anchor or alias")
    if any(getattr(event, "tag", None) for event in events):
        found.append("the front matter uses a YAML tag")
    keys = [match[1] for line in block.splitlines() if (match := _KEY.match(line))]
    if len(keys) != len(set(keys)):
        found.append("the front matter gives a key twice")
    return tuple(found)


def _by_line(block: str) -> dict[str, str]:
    """What people meant by YAML that does not parse: mostly a colon in an unquoted description."""
    data: dict[str, str] = {}
    last = ""
    for line in block.splitlines():
        match = _KEY.match(line)
        if match:
            last = match[1]
            data[last] = (match[2] or "").strip().strip("\"'")
        elif last and line[:1].isspace() and line.strip():
            data[last] = f"{data[last].strip('|>-+ ')} {line.strip()}".strip()
    return data


def dump_front_matter(data: Mapping[str, Any], body: str) -> str:
    """A file's text with this front matter, keys in the order given."""
    import yaml

    block = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{block}---\n{body}"
