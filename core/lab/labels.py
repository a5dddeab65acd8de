"""Human labels on the cases of an evaluation, and how far the checks agree with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from core.lab.records import Record

Word = Literal["pass", "fail", "unsure"]
LABEL_WORDS: Final[tuple[Word, ...]] = get_args(Word)


@dataclass(frozen=True, slots=True)
class Label:
    """What a person says of one case."""

    case: str
    verdict: Word
    note: str = ""
    by: str = "person"


class UnknownCase(LookupError):
    """The evaluation has no such case; the message names those it has."""


def add_label(record: Record, label: Label) -> None:
    """Record a label; a later one by the same person on the same case stands in its place. Raises UnknownCase."""
    cases = {str(row.get("id")): row for row in record.rows("case")}
    if label.case not in cases:
        raise UnknownCase(f"There is no case {label.case!r}. There are: {', '.join(cases) or 'none'}.")
    session = cases[label.case].get("session")
    body = {"case": label.case, "session": session, "verdict": label.verdict, "note": label.note, "by": label.by}
    record.add("label", body)


def labels_now(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The labels that stand: the last of each person on each case."""
    last = {(row.get("case"), row.get("by")): row for row in rows}
    return list(last.values())


def agreement(cases: Sequence[Mapping[str, Any]], labels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How often checks and people say the same of the cases that people are sure of; `rate` is None without any."""
    passed = {row.get("id"): bool(row.get("passed")) for row in cases}
    sure = [row for row in labels_now(labels) if row.get("verdict") in ("pass", "fail") and row.get("case") in passed]
    differ = sorted({str(r["case"]) for r in sure if passed[r["case"]] != (r["verdict"] == "pass")})
    same = sum(passed[row["case"]] == (row["verdict"] == "pass") for row in sure)
    return {"labels": len(sure), "same": same, "rate": round(same / len(sure), 4) if sure else None, "differ": differ}
