"""One import: survey, ask what must be asked, convert what was chosen, write the bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from impl.sources.formats import DOCUMENTATION, load_format
from impl.sources.licence import licence_of
from impl.sources.survey import survey_tree
from impl.sources.tree import SourceTree
from impl.sources.values import (
    Blocker,
    Candidate,
    ImportResult,
    Loss,
    Mode,
    Option,
    Refusal,
    Survey,
    shorten,
)
from impl.sources.writing import write_checked


def import_source(
    root: Path,
    *,
    name: str,
    kind: str | None = None,
    choice: list[str] | None = None,
    out: Path,
    mode: Mode = "lenient",
) -> ImportResult:
    """Convert the source in the directory `root` into a bundle of the agent `name` at `out`.

    `kind` and `choice` (candidate ids) are the answers to earlier questions; without them a question comes
    back where there is more than one possibility, and nothing is written. A `kind` that was named holds
    although something speaks against the whole (the person chose it knowingly); the losses then say what.
    `out` must be absent or empty. Runs nothing of the source. The same arguments give the same bytes.
    Raises OSError where files cannot be read or written.
    """
    tree = SourceTree(root)
    surveyed = survey_tree(tree)
    if kind is None and choice and len(surveyed.kinds) > 1 and choice[0] in surveyed.kinds:
        # The answer to "what from?" may come back as a choice; which candidates is then asked next.
        kind, choice = choice[0], choice[1:]
    picked = _pick_kind(surveyed, name, kind)
    if isinstance(picked, ImportResult):
        return picked
    chosen = _pick_candidates(surveyed, name, picked, choice)
    if isinstance(chosen, ImportResult):
        return chosen
    try:
        draft = write_checked(tree, load_format(picked).convert(tree, chosen, name, mode), name, out)
    except Refusal as refusal:
        return ImportResult(
            "refused",
            name,
            kind=picked,
            capability=refusal.capability,
            reason=refusal.reason,
            evidence=refusal.evidence,
            notes=surveyed.notes,
        )
    licence = licence_of(root, draft.licensed)
    against = [_as_loss(blocker) for blocker in surveyed.blockers if picked == DOCUMENTATION]
    return ImportResult(
        "imported",
        name,
        kind=picked,
        bundle=out,
        description=draft.description,
        losses=(*against, *draft.losses),
        licence=licence.to_json(),
        counts=draft.counts,
        notes=(*surveyed.notes, *licence.notes),
    )


def _as_loss(blocker: Blocker) -> Loss:
    return Loss(".", f"{blocker.capability}: not converted", blocker.reason)


def _pick_kind(surveyed: Survey, name: str, kind: str | None) -> str | ImportResult:
    """The kind to convert, or the question or refusal that comes first."""
    if kind is not None and surveyed.candidates(kind):
        return kind
    if not surveyed.kinds:
        first = surveyed.blockers[0]
        return ImportResult(
            "refused",
            name,
            capability=first.capability,
            reason=" ".join(blocker.reason for blocker in surveyed.blockers),
            evidence=tuple(line for blocker in surveyed.blockers for line in blocker.evidence),
            notes=surveyed.notes,
        )
    if len(surveyed.kinds) == 1 and kind is None:
        return surveyed.kinds[0]
    wrong = "" if kind is None else f"There is no {kind} in this source. "
    return ImportResult(
        "question",
        name,
        asks="kind",
        question=f"{wrong}This source can become an agent in more than one way. What should {name} be made from?"
        if len(surveyed.kinds) > 1
        else f"{wrong}What should {name} be made from?",
        options=tuple(_kind_option(surveyed, each) for each in surveyed.kinds),
        recommended=surveyed.recommended,
        notes=surveyed.notes,
    )


def _kind_option(surveyed: Survey, kind: str) -> Option:
    candidates = surveyed.candidates(kind)
    label = load_format(kind).LABEL
    if kind == DOCUMENTATION:
        return Option(kind, f"{label} — answers from {candidates[0].files} page(s)")
    return Option(
        kind, f"{label} — {len(candidates)}: {shorten(', '.join(candidate.id for candidate in candidates), 100)}"
    )


def _pick_candidates(
    surveyed: Survey, name: str, kind: str, choice: Sequence[str] | None
) -> tuple[Candidate, ...] | ImportResult:
    """The candidates to convert, or the question which."""
    candidates = surveyed.candidates(kind)
    if len(candidates) == 1 and not choice:
        return candidates
    multiple = load_format(kind).MULTIPLE
    wanted = list(dict.fromkeys(item.strip() for item in choice or () if item.strip()))
    if multiple and [item.lower() for item in wanted] == ["all"]:
        return candidates
    by_id = {candidate.id: candidate for candidate in candidates}
    by_id |= {candidate.path: candidate for candidate in candidates}
    unknown = [item for item in wanted if item not in by_id and item.lower() not in by_id]
    if wanted and not unknown and (multiple or len(wanted) == 1):
        taken = {by_id.get(item, by_id.get(item.lower())) for item in wanted}
        return tuple(candidate for candidate in candidates if candidate in taken)
    return _which(surveyed, name, kind, unknown)


def _which(surveyed: Survey, name: str, kind: str, unknown: Sequence[str]) -> ImportResult:
    candidates = surveyed.candidates(kind)
    fullest = min(candidates, key=lambda candidate: (-candidate.files, candidate.path))
    alike = all(candidate.files == fullest.files for candidate in candidates)
    why = "recommended: the first" if alike else f"recommended: the most complete, {fullest.files} files"
    label = load_format(kind).LABEL
    multiple = load_format(kind).MULTIPLE
    ask = f"Which should {name} have? Several may be named, or all." if multiple else f"Which one should {name} be?"
    wrong = f"There is no {', '.join(unknown)} here. " if unknown else ""
    return ImportResult(
        "question",
        name,
        kind=kind,
        asks="choice",
        question=f"{wrong}{label}: this source has {len(candidates)}. {ask}",
        options=tuple(Option(c.id, c.label if c is not fullest else f"{c.label} ({why})") for c in candidates),
        recommended=fullest.id,
        multiple=multiple,
        notes=surveyed.notes,
    )
