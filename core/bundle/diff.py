"""What changed between two revisions: files with text diffs, and the manifest's fields."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.bundle.manifest import MANIFEST, parse_manifest
from core.bundle.strict_yaml import MAX_BYTES
from core.ports import Revision, Store, TreeEntry

MAX_TEXT = 256_000
_KINDS = ("added", "removed", "changed")


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that differs. `text` is its unified diff; empty where `binary` (or too large to show) or where
    only the executable bit changed (`x` is the new bit then, else None)."""

    path: str
    kind: Literal["added", "removed", "changed"]
    text: str = ""
    binary: bool = False
    x: bool | None = None
    plus: int = 0
    minus: int = 0


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value of agent.yaml that differs: its dotted `field`, and JSON values, None where absent."""

    field: str
    before: Any
    after: Any

    def words(self) -> str:
        """`field: before → after`, or what was added (+) to and removed (−) from a list."""
        before, after = self.before, self.after
        if isinstance(before, list | None) and isinstance(after, list | None):
            old, new = _items(before), _items(after)
            signs = [f"+{item}" for item in new if item not in old] + [f"−{item}" for item in old if item not in new]
            return f"{self.field} {' '.join(signs) or 'in another order'}"
        return f"{self.field}: {_word(before)} → {_word(after)}"


@dataclass(frozen=True, slots=True)
class BundleDiff:
    """From one revision (None: from nothing) to another; files by path, fields in the manifest's order."""

    before: str | None
    after: str
    files: tuple[FileChange, ...] = ()
    fields: tuple[FieldChange, ...] = ()

    def summary(self) -> list[str]:
        """Up to three lines: what the agent may do differently, what else its manifest says, which files."""
        powers = [change.words() for change in self.fields if change.field.split(".")[0] in _POWERS]
        others = [change.words() for change in self.fields if change.field.split(".")[0] not in _POWERS]
        lines = ["; ".join(words) for words in (powers, others) if words]
        if self.files:
            counts = [(kind, sum(change.kind == kind for change in self.files)) for kind in _KINDS]
            files = ", ".join(f"{count} {kind}" for kind, count in counts if count)
            plus, minus = sum(c.plus for c in self.files), sum(c.minus for c in self.files)
            lines.append(f"files: {files} (+{plus} −{minus} lines)")
        return lines or ["no change"]

    def text(self) -> str:
        """All the files' diffs, one after another."""
        return "".join(_shown(change) for change in self.files)

    def to_json(self) -> dict[str, Any]:
        """`{"before", "after", "summary", "fields", "files"}`."""
        return {
            "before": self.before,
            "after": self.after,
            "summary": self.summary(),
            "fields": [{"field": c.field, "before": c.before, "after": c.after} for c in self.fields],
            "files": [
                {"path": c.path, "kind": c.kind, "binary": c.binary, "x": c.x, "text": c.text} for c in self.files
            ],
        }


_POWERS = ("tools", "mcp", "credentials", "policy", "delegates", "limits", "corpus", "skills")


def diff_revisions(store: Store, a: Revision | None, b: Revision) -> BundleDiff:
    """What `b` has that `a` has not, and the other way round; None is the empty revision.

    Raises StoreError where content is gone.
    """
    old = {entry.path: entry for entry in a.files} if a is not None else {}
    new = {entry.path: entry for entry in b.files}
    changes = [
        _file(store, path, old.get(path), new.get(path))
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    ]
    before, after = _manifest(store, old.get(MANIFEST)), _manifest(store, new.get(MANIFEST))
    return BundleDiff(a.digest if a is not None else None, b.digest, tuple(changes), tuple(_fields(before, after)))


def _file(store: Store, path: str, old: TreeEntry | None, new: TreeEntry | None) -> FileChange:
    kind: Literal["added", "removed", "changed"] = "added" if old is None else "removed" if new is None else "changed"
    flipped = new.x if old is not None and new is not None and old.x != new.x else None
    if old is not None and new is not None and old.sha256 == new.sha256:
        return FileChange(path, kind, x=flipped)
    before, after = _lines(store, old), _lines(store, new)
    if before is None or after is None:
        return FileChange(path, kind, binary=True, x=flipped)
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    rows = list(difflib.unified_diff(before, after, *names))
    text = "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)
    plus = sum(row.startswith("+") for row in rows[2:])
    minus = sum(row.startswith("-") for row in rows[2:])
    return FileChange(path, kind, text, x=flipped, plus=plus, minus=minus)


def _lines(store: Store, entry: TreeEntry | None) -> list[str] | None:
    """The lines of a text file; None for what is not text, or too long to compare."""
    if entry is None:
        return []
    if entry.size > MAX_TEXT:
        return None
    data = store.blob(entry.sha256)
    if b"\0" in data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    # Only \n ends a line here: other separators are content.
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [text.rpartition("\n")[2]] if text[-1:] not in ("", "\n") else []
    )


def _manifest(store: Store, entry: TreeEntry | None) -> Mapping[str, Any]:
    """What agent.yaml says, whether or not it is valid."""
    if entry is None or entry.size > MAX_BYTES:
        return {}
    value = parse_manifest(store.blob(entry.sha256))[2].value
    return value if isinstance(value, dict) else {}


def _fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    changes: list[FieldChange] = []
    for key in dict.fromkeys([*after, *before]):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if isinstance(old, dict | None) and isinstance(new, dict | None):
            inner = _fields(old or {}, new or {})
            changes += [FieldChange(f"{key}.{change.field}", change.before, change.after) for change in inner]
        else:
            changes.append(FieldChange(key, old, new))
    return changes


def _items(value: list[Any] | None) -> list[str]:
    return [_word(item) for item in value or ()]


def _word(value: Any) -> str:
    """A value in a few words: an entry with a name by its name and hosts."""
    if value is None:
        return "unset"
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        rest = {k: v for k, v in value.items() if k != "name"}
        hosts = rest.get("hosts")
        where = ", ".join(map(str, hosts)) if isinstance(hosts, list) else rest.get("url") or rest.get("command")
        return f"{value['name']} ({where})" if where else str(value["name"])
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def _shown(change: FileChange) -> str:
    head = f"{change.kind} {change.path}"
    if change.x is not None:
        head += " (now executable)" if change.x else " (no longer executable)"
    if change.binary:
        head += " (binary)"
    return f"{head}\n{change.text}"
