"""What the importer passes around: errors, candidates, questions, losses, drafts and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

SourceErrorCode = Literal[
    "not_found", "not_readable", "empty", "blobs_missing", "too_large", "clone_failed", "unsupported_url"
]
Mode = Literal["strict", "lenient"]
Place = Literal["usual", "helper", "stray"]
BlockerCode = Literal["empty", "binaries", "desktop_control", "windows_only", "gpu", "mcp_server", "unknown"]
LicenceStatus = Literal["found", "missing", "source_available"]
Decision = Literal["allow", "ask", "deny"]


class SourceError(Exception):
    """A source could not be brought in. `code` is one of `SourceErrorCode`, `hint` the next step."""

    def __init__(self, code: SourceErrorCode, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code: SourceErrorCode = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing of the source that the bundle does not have as it was: where, what became of it, why."""

    path: str
    change: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """The three fields."""
        return {"path": self.path, "change": self.change, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Option:
    """An answer a person may give; `label` says what it stands for."""

    id: str
    label: str

    def to_json(self) -> dict[str, str]:
        """Both fields."""
        return {"id": self.id, "label": self.label}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that can be converted. `path` is relative to the source's root: a directory ("." for the
    root) or a file. `place` tells whether it lies where its format expects it (`usual`), among a project's
    developer helpers (`helper`) or elsewhere (`stray`). `files` counts what it brings. `words` replace the
    label; `aliases` are further names it answers to, where no other has them. One that is not `listed` may be
    named all the same; a `recommended` one is, before the fullest."""

    kind: str
    id: str
    path: str
    description: str = ""
    place: Place = "usual"
    files: int = 1
    words: str = ""
    aliases: tuple[str, ...] = ()
    listed: bool = True
    recommended: bool = False

    @property
    def label(self) -> str:
        """Its words, else the id and the beginning of its description, as one line."""
        if self.words:
            return self.words
        return f"{self.id} — {shorten(self.description, 100)}" if self.description else self.id


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why nothing can be converted safely. `capability` is in people's words; `evidence` are lines such as
    `path:line: text`."""

    code: BlockerCode
    capability: str
    reason: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Survey:
    """What a source holds.

    `found` maps each kind to its candidates. `kinds` are those that come into question: one is taken without
    asking, several are asked about (`recommended` first), none means that `blockers` say why not.
    """

    found: Mapping[str, tuple[Candidate, ...]]
    kinds: tuple[str, ...]
    recommended: str | None
    blockers: tuple[Blocker, ...] = ()
    notes: tuple[str, ...] = ()

    def candidates(self, kind: str) -> tuple[Candidate, ...]:
        """The candidates of a kind, best-known place first."""
        return self.found.get(kind, ())


@dataclass(frozen=True, slots=True)
class Licence:
    """The licence that covers what was chosen. `spdx` is None where its text is not a known one; `path` is
    relative to the source's root."""

    spdx: str | None
    status: LicenceStatus
    path: str | None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """`{"spdx", "status", "path"}`, as kept beside a revision."""
        return {"spdx": self.spdx, "status": self.status, "path": self.path}


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A file of the bundle to be: `source` (relative to the source's root, copied byte for byte) or `data`."""

    path: str
    source: str | None = None
    data: bytes = b""
    x: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A converted bundle before it is written. `licensed` are the chosen paths the licence is looked up for,
    `credentials` declarations as a manifest holds them, `tool_policy` the decision for each tool,
    `example` a task worth typing first ("" where the source names none)."""

    description: str
    persona: str
    files: tuple[BundleFile, ...] = ()
    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    credentials: tuple[Mapping[str, Any], ...] = ()
    tool_policy: Mapping[str, Decision] = field(default_factory=dict)
    corpus: bool = False
    run_sandbox: Decision = "deny"
    run_skill: Decision = "deny"
    losses: tuple[Loss, ...] = ()
    licensed: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    example: str = ""


class Refusal(Exception):
    """A converter will not convert what was chosen. Carries what `cannot_convert` reports."""

    def __init__(self, capability: str, reason: str, evidence: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.capability = capability
        self.reason = reason
        self.evidence = evidence


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What came of an import; which fields count depends on `outcome`.

    `imported`: `bundle` (the directory written), `kind`, `description`, `losses`, `licence`, `counts`,
    `credentials` (names that want a value before the agent can do all), `example` (a task worth typing first, or "").
    `question`: `asks` (`kind` or `choice`), `question` (its text), `options`, `recommended` (an id), `multiple`,
    `unlisted` (more may be named than the options list).
    `refused`: `capability`, `reason`, `evidence`; nothing was written.
    """

    outcome: Literal["imported", "question", "refused"]
    name: str
    kind: str | None = None
    bundle: Path | None = None
    description: str = ""
    losses: tuple[Loss, ...] = ()
    licence: Mapping[str, Any] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    credentials: tuple[str, ...] = ()
    example: str = ""
    notes: tuple[str, ...] = ()
    asks: Literal["kind", "choice"] | None = None
    question: str = ""
    options: tuple[Option, ...] = ()
    recommended: str | None = None
    multiple: bool = False
    unlisted: bool = False
    capability: str = ""
    reason: str = ""
    evidence: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with every field; `bundle` is the directory's name alone, not where it lies on this host."""
        return {
            "outcome": self.outcome,
            "name": self.name,
            "kind": self.kind,
            "bundle": self.bundle.name if self.bundle else None,
            "description": self.description,
            "losses": [loss.to_json() for loss in self.losses],
            "licence": dict(self.licence) if self.licence is not None else None,
            "counts": dict(self.counts),
            "credentials": list(self.credentials),
            "example": self.example,
            "notes": list(self.notes),
            "asks": self.asks,
            "question": self.question,
            "options": [option.to_json() for option in self.options],
            "recommended": self.recommended,
            "multiple": self.multiple,
            "unlisted": self.unlisted,
            "capability": self.capability,
            "reason": self.reason,
            "evidence": list(self.evidence),
        }


def shorten(text: str, length: int) -> str:
    """`text` on one line, cut at a word to at most `length` characters with an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    head, _, _ = cut.rpartition(" ")
    return (head if len(head) > length // 2 else cut).rstrip(" ,;:.") + "…"
