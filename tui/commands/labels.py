"""The command label: what people say of cases and comparisons, and how far checks and judges agree with them."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import core
from tui.commands import output
from tui.commands.choices import Json
from tui.commands.hosting import build_host
from tui.commands.sessions import find

if TYPE_CHECKING:
    from core import Host, Record, SessionInfo


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(label)


def label(
    evaluation: Annotated[str, typer.Argument(metavar="EVAL", help="An evaluation, or a comparison.")],
    case: Annotated[
        str | None, typer.Option("--case", help="The case to label; without it, one after another.")
    ] = None,
    verdict: Annotated[
        str | None,
        typer.Option("--verdict", help="pass, fail or unsure; of a comparison baseline, candidate, tie or unsure."),
    ] = None,
    note: Annotated[str, typer.Option("-m", "--note", help="Why.")] = "",
    by: Annotated[str, typer.Option("--by", help="Who says so.")] = "person",
    as_json: Json = False,
) -> int:
    """Say of an evaluation's cases whether they are good. How far checks and judges agree is printed."""
    from core import LABEL_WORDS, Record, agreement, judges_agreement, labels_now

    host = build_host()
    info = find(host, evaluation)
    if info.kind == "comparison":
        return _label_pair(host, info, verdict, note, by, as_json)
    if info.kind != "evaluation":
        raise output.Refused("not_found", f"{info.id} is no evaluation.", "List them with: artificer sessions")
    if (case is None) != (verdict is None) or (verdict is not None and verdict not in LABEL_WORDS):
        raise typer.BadParameter("give --case ID and --verdict pass|fail|unsure together, or neither")
    try:
        record = Record.append_to(host, info.id)
    except core.Busy as busy:
        raise output.Refused("busy", f"Another process writes {info.id}.", "Try again when it is done.") from busy
    with contextlib.closing(record):
        given = [(case, verdict, note)] if case is not None and verdict is not None else _asked(record, by)
        for name, word, why in given:
            _label(record, name, word, why, by)
        found = agreement(record.rows("case"), record.rows("label"))
        judges = judges_agreement(record.rows("case"), record.rows("label"))
        rows = labels_now(record.rows("label"))
    if as_json:
        last = {"type": "labels", "eval": info.id, "labels": [dict(row) for row in rows]}
        output.line({**last, "agreement": found, "judges": judges})
    else:
        output.text(
            f"{info.id}: checks and labels agree on {_agreed(found, 'labels')} {', '.join(found['differ'])}".rstrip()
        )
        _show_judges(judges)
    return 0


def _agreed(found: Mapping[str, Any], count: str = "pairs") -> str:
    """`9 of 10 (90 %, kappa 0.78)`."""
    if found["rate"] is None:
        return "none yet."
    kappa = f"kappa {found['kappa']:.2f}" if found["kappa"] is not None else "kappa has no value"
    return f"{found['same']} of {found[count]} ({100 * found['rate']:.0f} %, {kappa})."


def _show_judges(judges: Sequence[Mapping[str, Any]]) -> None:
    for row in judges:
        output.text(f"judge {row['judge']} by {output.short(row['rubric'])} and labels agree on {_agreed(row)}")


def _label_pair(host: Host, info: SessionInfo, verdict: str | None, note: str, by: str, as_json: bool) -> int:
    """Say which arm of a comparison is better; how far judges agree is counted over all comparisons."""
    from core import PAIR_WORDS, Record, add_pair_label, pairs_agreement

    if verdict not in PAIR_WORDS:
        raise typer.BadParameter(f"of a comparison --verdict is {', '.join(PAIR_WORDS)}")
    try:
        record = Record.append_to(host, info.id)
    except core.Busy as busy:
        raise output.Refused("busy", f"Another process writes {info.id}.", "Try again when it is done.") from busy
    with contextlib.closing(record):
        add_pair_label(record, verdict, note, by)
    records = [Record(host.store, host.now, row.id) for row in host.store.sessions() if row.kind == "comparison"]
    judges = pairs_agreement((one.rows("preference"), one.rows("label")) for one in records)
    if as_json:
        output.line({"type": "labels", "comparison": info.id, "verdict": verdict, "judges": judges})
    else:
        output.text(f"{info.id}: {verdict}")
        _show_judges(judges)
    return 0


def _label(record: Record, case: str, word: str, note: str, by: str) -> None:
    from core import LABEL_WORDS, Label, UnknownCase, add_label

    verdict = next((known for known in LABEL_WORDS if known == word), None)
    if verdict is None:
        raise output.Refused("usage", f"{word!r} is no verdict.", f"Say one of {', '.join(LABEL_WORDS)}.")
    try:
        add_label(record, Label(case, verdict, note, by))
    except UnknownCase as error:
        raise output.Refused("not_found", str(error.args[0]), "") from error


def _asked(record: Record, by: str) -> Iterator[tuple[str, str, str]]:
    """From a terminal, one case after another; else JSON lines `{"case", "verdict", "note"}` from standard input."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                yield str(row["case"]), str(row["verdict"]), str(row.get("note", ""))
            except (ValueError, KeyError, TypeError) as error:
                hint = 'Lines are {"case": ID, "verdict": "pass", "note": TEXT}.'
                raise output.Refused("usage", f"This line is no label: {line.strip()[:100]}", hint) from error
        return
    labelled = {row.get("case") for row in record.rows("label") if row.get("by") == by}
    words = {"p": "pass", "f": "fail", "u": "unsure"}
    for row in record.rows("case"):
        if row.get("id") in labelled:
            continue
        output.say(f"\n{row.get('id')}  {row.get('session')}\n{row.get('output') or row.get('why')}")
        key = typer.prompt("p pass, f fail, u unsure, s skip, q end", default="s", err=True).strip().lower()[:1]
        if key == "q":
            return
        if key in words:
            yield str(row.get("id")), words[key], typer.prompt("note", default="", show_default=False, err=True)
