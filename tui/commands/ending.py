"""How a driven session ended, for a program as a line of JSON and for a person with what to type next."""

from __future__ import annotations

from typing import Any

from core import Outcome, Stop, Waiting, outside
from tui.commands import output


def finish(outcome: Outcome, *, json: bool) -> int:
    """Print the result: a JSON line, or the reply and what a person may do next. Returns the exit code."""
    if json:
        output.line(result(outcome))
    else:
        if outcome.record.output:
            output.text(outcome.record.output)
        for words in next_steps(outcome):
            output.say(words)
    return outcome.stop.exit_code


def result(outcome: Outcome) -> dict[str, Any]:
    """The result line. A Builder that asked in its reply waits for an answer like one that asked by a tool."""
    value = outcome.to_json()
    if outcome.stop is Stop.AWAITING_USER and value["waiting"] is None:
        asked = Waiting("question", "reply", outcome.record.output or "")
        value["waiting"] = outside(asked)
    return value


def next_steps(outcome: Outcome) -> list[str]:
    """Whose turn it is, and what to type."""
    session, record = outcome.info.id, outcome.record
    waiting = record.waiting
    lines: list[str] = []
    if waiting is not None:
        if waiting.message not in (record.output or ""):
            lines.append(f"\n{waiting.message}")
        for number, option in enumerate(outside(waiting)["options"], 1):
            said = "recommended" in str(option["label"])
            mark = "  (recommended)" if option["id"] == waiting.recommended and not said else ""
            lines.append(f"  {number}  {option['label']}{mark}")
    match outcome.stop:
        case Stop.COMPLETED:
            pass
        case Stop.BUDGET if waiting is None:
            lines.append(f"\nThe reply was cut ({record.detail}). Go on with: artificer resume {session} -m TEXT")
        case Stop.AWAITING_USER | Stop.NEEDS_APPROVAL | Stop.DOOM_LOOP | Stop.BUDGET:
            lines.append(f"\nYour turn ({outcome.stop}). Answer with: artificer answer {session} TEXT")
        case Stop.NEEDS_CREDENTIALS:
            how = waiting.detail.get("set") if waiting else None
            lines.append("\nYour turn. Set it with:")
            lines += [f"  {words}" for words in how or [f"artificer credentials set {outcome.agent or 'AGENT'} NAME"]]
            lines.append(f"Then go on with: artificer resume {session}")
        case Stop.CANNOT_CONVERT:
            lines += _evidence(record.evidence)
            lines.append(f"Name another source with: artificer resume {session} -m SOURCE")
        case Stop.CANCELLED:
            lines.append(f"Cancelled. Go on with: artificer resume {session}")
        case Stop.REFUSED:
            lines.append(f"The model refused. Say it differently with: artificer resume {session} -m TEXT")
        case Stop.PROVIDER_ERROR | Stop.PLATFORM_ERROR:
            words = record.evidence.get("text") if isinstance(record.evidence, dict) else None
            lines.append(f"{outcome.stop} ({record.detail}): {words or ''}".rstrip(": "))
            lines.append(f"Go on, once it is mended, with: artificer resume {session}")
    return lines


def _evidence(evidence: Any) -> list[str]:
    if not isinstance(evidence, dict):
        return ["This source cannot be converted."]
    lines = [f"Cannot convert: {evidence.get('capability')}. {evidence.get('reason')}"]
    lines += [f"  {row}" for row in evidence.get("evidence", ())]
    return lines
