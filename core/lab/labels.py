"""Human labels on the cases of an evaluation, and how far the checks agree with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from core.effects.keyspotting import screen
from core.lab.judging import judge_agreement
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
    note, _ = screen(label.note)
    body = {"case": label.case, "session": session, "verdict": label.verdict, "note": note, "by": label.by}
    record.add("label", body)


PAIR: Final = "pair"
"""What a label of a comparison stands on: its two arms."""
PAIR_WORDS: Final = ("baseline", "candidate", "tie", "unsure")


def add_pair_label(record: Record, verdict: str, note: str = "", by: str = "person") -> None:
    """Record which arm of a comparison a person prefers."""
    record.add("label", {"case": PAIR, "session": None, "verdict": verdict, "note": screen(note)[0], "by": by})


def pairs_agreement(
    comparisons: Iterable[tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]],
) -> list[dict[str, Any]]:
    """How far each judge, by each rubric, and people agree, over comparisons given as their preferences and labels:
    `judge_agreement` with `judge` and `rubric`."""
    said: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for preferences, labels in comparisons:
        people = [str(row["verdict"]) for row in labels_now(labels) if row.get("verdict") in PAIR_WORDS[:3]]
        for row in preferences:
            if row.get("state") == "judged":
                pairs = said.setdefault((str(row.get("judge")), str(row.get("rubric"))), [])
                pairs += [(str(row["winner"]), word) for word in people]
    return [{"judge": who, "rubric": rubric, **judge_agreement(pairs)} for (who, rubric), pairs in said.items()]


def labels_now(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The labels that stand: the last of each person on each case."""
    last = {(row.get("case"), row.get("by")): row for row in rows}
    return list(last.values())


def agreement(cases: Sequence[Mapping[str, Any]], labels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How far checks and people agree on the cases that people are sure of: as `judge_agreement`, with those that
    differ."""
    passed = {row.get("id"): bool(row.get("passed")) for row in cases}
    sure = [row for row in labels_now(labels) if row.get("verdict") in ("pass", "fail") and row.get("case") in passed]
    differ = sorted({str(r["case"]) for r in sure if passed[r["case"]] != (r["verdict"] == "pass")})
    found = judge_agreement([("pass" if passed[row["case"]] else "fail", str(row["verdict"])) for row in sure])
    return {"labels": found.pop("pairs"), **found, "differ": differ}


def judges_agreement(cases: Sequence[Mapping[str, Any]], labels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How far each judge, by each rubric, and people agree on the cases both are sure of: `judge_agreement` with
    `judge` and `rubric`."""
    said: dict[tuple[str, str], dict[Any, str]] = {}
    for row in cases:
        for check in row.get("checks", ()):
            if check.get("kind") == "judge" and check.get("state") == "judged":
                who = (str(check.get("judge")), str(check.get("rubric")))
                said.setdefault(who, {})[row.get("id")] = "pass" if check.get("passed") else "fail"
    people = [row for row in labels_now(labels) if row.get("verdict") in ("pass", "fail")]
    found = []
    for (judge, rubric), words in said.items():
        pairs = [(words[row["case"]], str(row["verdict"])) for row in people if row.get("case") in words]
        found.append({"judge": judge, "rubric": rubric, **judge_agreement(pairs)})
    return found
