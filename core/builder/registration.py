"""Registering a generated tool: a snapshot of its directory is checked, and its examples run on their record.

What is registered is a digest of exactly what was checked. Nothing later trusts it: a validation runs every check
again, and only compares.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from core.bundle.checks import check_tool
from core.bundle.manifest import (
    MANIFEST,
    TOOL_MANIFEST,
    Manifest,
    ManifestError,
    dump_manifest,
    parse_manifest,
    read_tool,
)
from core.bundle.problems import Problem, ProblemCode
from core.bundle.strict_yaml import MAX_BYTES
from core.bundle.tree import BUNDLE_CAPS, digest_entries, open_directory, read_regular, survey_tree, write_tree
from core.ports import StoreError, TreeEntry

TOOLS: Final = "tools"
CORPUS: Final = "corpus"
Check = Callable[[Path], Any]


@dataclass(slots=True)
class Registration:
    """What was found of one tool: its `digest` where it could be read whole, every problem, what ran, and what could
    not be looked at (`notes`)."""

    tool: str
    digest: str | None = None
    problems: list[Problem] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """`{"tool", "digest", "registered", "problems", "examples", "notes"}`."""
        return {
            "tool": self.tool,
            "digest": self.digest,
            "registered": not self.problems,
            "problems": [problem.to_json() for problem in self.problems],
            "examples": self.log,
            "notes": self.notes,
        }


def register(path: Path, checks: Sequence[Check]) -> Registration:
    """Check the tool in the directory `path`, whose draft bundle is the one it lies in, if any. `checks` are the
    gate's that run parts of a bundle; they run where nothing else is wrong. Raises NotADirectoryError."""
    found = Registration(path.name)
    with tempfile.TemporaryDirectory(prefix="artificer-register-") as scratch:
        bundle = Path(scratch, "bundle")
        kept = bundle / TOOLS / path.name
        found.problems += _snapshot(path, kept)
        if found.problems:
            return found
        found.digest = digest_entries(survey_tree(kept).entries)
        found.problems += check_tool(kept)
        draft = _draft(path, found)
        if not found.problems:
            _check_credentials(kept, draft, found)
        if not found.problems:
            _run(bundle, path, draft, checks, found)
    return found


def _snapshot(source: Path, target: Path) -> list[Problem]:
    """Copy a directory as it is now; what cannot be a bundle's is a problem and nothing is copied."""
    survey = survey_tree(source, BUNDLE_CAPS)
    if survey.problems:
        return survey.problems
    places = {entry.sha256: survey.disk.get(entry.path, entry.path) for entry in survey.entries}
    root = open_directory(source)
    try:
        write_tree(survey.entries, lambda sha256: read_regular(root, places[sha256], BUNDLE_CAPS.file), target)
    except (OSError, StoreError):
        return [Problem(ProblemCode.UNREADABLE, ".", "the directory changed while it was read", "Register it again.")]
    finally:
        os.close(root)
    target.mkdir(exist_ok=True)
    return []


def _draft(path: Path, found: Registration) -> Manifest | None:
    """The manifest of the bundle that the tool lies in, None where it lies in none, or in one that cannot be read."""
    if path.parent.name != TOOLS:
        found.notes.append("It lies in no bundle's tools/, so nothing was compared with an agent.yaml.")
        return None
    try:
        root = open_directory(path.parent.parent)
    except NotADirectoryError:
        return None
    try:
        data = read_regular(root, MANIFEST, MAX_BYTES + 1)
    except OSError:
        found.notes.append("There is no agent.yaml beside tools/ yet, so its credentials were not compared with any.")
        return None
    finally:
        os.close(root)
    manifest, _, _ = parse_manifest(data)
    if manifest is None:
        found.notes.append("agent.yaml has problems of its own, so nothing was compared with it.")
    elif path.name not in manifest.tools:
        found.notes.append(f"agent.yaml does not list {path.name} under tools yet.")
    return manifest


def _check_credentials(kept: Path, draft: Manifest | None, found: Registration) -> None:
    """Whether what the tool wants to send is declared, for a host that the tool calls."""
    if draft is None:
        return
    tool = read_tool(kept)
    declared = {credential.name: credential.hosts for credential in draft.credentials}
    for name in tool.credentials:
        if name not in declared:
            hint = "Declare it under credentials in agent.yaml with its hosts."
            problem = (ProblemCode.CREDENTIAL_UNDECLARED, f"agent.yaml does not declare the credential {name}", hint)
        elif not set(tool.hosts) & set(declared[name]):
            hint = "Give the tool the host it calls, and the credential the same host."
            problem = (ProblemCode.CREDENTIAL_HOSTS, f"the tool calls no host that {name} may be sent to", hint)
        else:
            continue
        found.problems.append(Problem(problem[0], TOOL_MANIFEST, problem[1], problem[2]))


def _run(bundle: Path, path: Path, draft: Manifest | None, checks: Sequence[Check], found: Registration) -> None:
    """Let the gate's checks run the tool, alone in a bundle with what the draft gives it."""
    try:
        tool = read_tool(bundle / TOOLS / path.name)
    except ManifestError as error:
        found.problems += error.problems
        return
    if draft is None and tool.credentials:
        found.notes.append("Its examples were not run: they need the credentials that an agent.yaml declares.")
        return
    base = draft or Manifest.model_validate({"schema": "artificer/v1", "name": "draft"})
    corpus = base.corpus and not _snapshot(path.parent.parent / CORPUS, bundle / CORPUS)
    alone = {"tools": (path.name,), "skills": (), "mcp": (), "corpus": corpus}
    (bundle / MANIFEST).write_text(dump_manifest(base.model_copy(update=alone)), "utf-8")
    within = f"{TOOLS}/{path.name}/"
    for check in checks:
        outcome = check(bundle)
        found.problems += (replace(p, path=p.path.removeprefix(within)) for p in outcome.problems)
        found.log += outcome.log.splitlines()


# --- comparing -----------------------------------------------------------------------------------------


def tool_digests(files: Iterable[TreeEntry]) -> dict[str, str]:
    """The digest of each tool of a revision, by name, as registering it gives."""
    tools: dict[str, list[TreeEntry]] = {}
    for entry in files:
        top, _, rest = entry.path.partition("/")
        name, _, inner = rest.partition("/")
        if top == TOOLS and inner:
            tools.setdefault(name, []).append(replace(entry, path=inner))
    return {name: digest_entries(entries) for name, entries in sorted(tools.items())}


def compare(files: Iterable[TreeEntry], registered: Mapping[str, set[str]]) -> dict[str, dict[str, Any]]:
    """Of each tool of a revision, its digest and whether exactly that was registered without a problem.
    `registered` are such digests by name."""
    return {
        name: {"digest": digest, "registered": digest in registered.get(name, set())}
        for name, digest in tool_digests(files).items()
    }
