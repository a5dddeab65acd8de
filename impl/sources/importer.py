"""One import: survey, ask what must be asked, convert what was chosen, write the bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from impl.sources.formats import DOCUMENTATION, asking, load_format
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
    chosen = _pick_candidates(tree, surveyed, name, picked, choice)
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
        credentials=tuple(str(declared["name"]) for declared in draft.credentials),
        example=draft.example,
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
    if (own := asking(kind)) is not None:
        return Option(kind, f"{label} — {own.describe(candidates)}")
    return Option(
        kind, f"{label} — {len(candidates)}: {shorten(', '.join(candidate.id for candidate in candidates), 100)}"
    )


def _pick_candidates(
    tree: SourceTree, surveyed: Survey, name: str, kind: str, choice: Sequence[str] | None
) -> tuple[Candidate, ...] | ImportResult:
    """The candidates to convert, or the question which."""
    candidates = surveyed.candidates(kind)
    if len(candidates) == 1 and not choice:
        return candidates
    multiple = load_format(kind).MULTIPLE
    wanted = list(dict.fromkeys(item.strip() for item in choice or () if item.strip()))
    if multiple and [item.lower() for item in wanted] == ["all"]:
        return candidates
    by_id = _names(candidates)
    unknown = [item for item in wanted if item not in by_id and item.lower() not in by_id]
    if wanted and not unknown and (multiple or len(wanted) == 1):
        taken = {by_id.get(item, by_id.get(item.lower())) for item in wanted}
        return tuple(candidate for candidate in candidates if candidate in taken)
    return _which(tree, surveyed, name, kind, unknown)


def _names(candidates: Sequence[Candidate]) -> dict[str, Candidate]:
    """Every name a candidate answers to; ids go before paths and aliases, and what two share names neither."""
    names: dict[str, Candidate | None] = {}
    for candidate in candidates:
        for name in {candidate.path, *candidate.aliases}:
            names[name] = candidate if name not in names else None
    by_id = {candidate.id: candidate for candidate in candidates}
    return {name: candidate for name, candidate in names.items() if candidate is not None} | by_id


def _which(tree: SourceTree, surveyed: Survey, name: str, kind: str, unknown: Sequence[str]) -> ImportResult:
    candidates = surveyed.candidates(kind)
    best, why = _recommended(candidates)
    listed = [candidate for candidate in candidates if candidate.listed]
    multiple = load_format(kind).MULTIPLE
    wrong = f"There is no {', '.join(unknown)} here. " if unknown else ""
    own = asking(kind)
    return ImportResult(
        "question",
        name,
        kind=kind,
        asks="choice",
        question=wrong + (own.question(tree, name) if own is not None else _question(kind, candidates, name)),
        options=tuple(Option(c.id, f"{c.label} ({why})" if c is best and why else c.label) for c in listed),
        recommended=best.id,
        multiple=multiple,
        unlisted=len(listed) < len(candidates),
        notes=surveyed.notes,
    )


def _recommended(candidates: Sequence[Candidate]) -> tuple[Candidate, str]:
    """The candidate to recommend, and why in words ("" where its format says so)."""
    named = next((candidate for candidate in candidates if candidate.recommended), None)
    if named is not None:
        return named, ""
    fullest = min(candidates, key=lambda candidate: (-candidate.files, candidate.path))
    alike = all(candidate.files == fullest.files for candidate in candidates)
    return fullest, "recommended: the first" if alike else f"recommended: the most complete, {fullest.files} files"


def _question(kind: str, candidates: Sequence[Candidate], name: str) -> str:
    ask = f"Which one should {name} be?"
    if load_format(kind).MULTIPLE:
        ask = f"Which should {name} have? Several may be named, or all."
    return f"{load_format(kind).LABEL}: this source has {len(candidates)}. {ask}"
