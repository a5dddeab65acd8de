"""What both loops, ours and that of an agent CLI, tell a model that goes nowhere, and the stops they end with."""

from __future__ import annotations

from core.policy import LimitHit
from core.progress import Verdict
from core.provider import ProviderError
from core.stops import Option, Stop, StopRecord, Waiting, sentences

CONTINUE = "Your reply was cut at the output limit. Continue exactly where it stopped, without repeating anything."
INTERRUPTED = "You were interrupted. Go on from there."
EMPTY = "Your reply was empty. Answer in words, or call a tool."


class Stopped(Exception):
    """Raised inside the loop to end it with a record."""

    def __init__(self, record: StopRecord) -> None:
        super().__init__(record.stop.value)
        self.record = record


def nudge_text(verdict: Verdict) -> str:
    """What the model is told where it repeats itself."""
    failure = str(verdict.evidence.get("failure", "")).strip()
    quoted = f" What came back each time: {failure[:300]}" if failure else ""
    better = verdict.evidence.get("progress_would_be", "Another error, a changed file, or another result.")
    return (
        f"You are repeating yourself without anything new ({verdict.rule}, {verdict.evidence.get('count')} times)."
        f"{quoted} Progress would be: {better} Try something different, or ask the person."
    )


def doom_loop(verdict: Verdict, output: str | None) -> StopRecord:
    """The stop for a loop that nudging did not end, with its evidence and what a person can do."""
    failure = str(verdict.evidence.get("failure", ""))[:300]
    waiting = Waiting(
        kind="doom_loop",
        id=verdict.rule,
        message=f"The same thing {verdict.evidence.get('count')} times, nothing new: {failure}",
        options=(
            Option("hint", "hint TEXT: say what to try"),
            Option("retry", "retry from before it"),
            Option("switch", "switch MODEL"),
            Option("end", "end here"),
        ),
        recommended="hint",
    )
    return StopRecord(Stop.DOOM_LOOP, verdict.rule, output or None, waiting, dict(verdict.evidence))


def budget_stop(hit: LimitHit, output: str | None) -> StopRecord:
    """The stop for a spent limit, which a person may extend. `output` is the last reply's text."""
    how = f" {hit.how}" if hit.how else ""
    waiting = Waiting(
        kind="budget",
        id=hit.name,
        message=f"The limit of {hit.limit} {hit.name} is spent ({hit.spent}).{how} Extend it by a number, or end here.",
        options=(Option("extend", "extend N: allow N more"), Option("end", "end here")),
        recommended="end",
    )
    evidence = {"limit": hit.name, "allowed": hit.limit, "spent": hit.spent}
    if hit.how:
        evidence["counted"] = hit.how
    return StopRecord(Stop.BUDGET, hit.name, output, waiting, evidence)


def provider_stop(error: ProviderError) -> StopRecord:
    """The stop for a provider that failed."""
    evidence = {"message": error.message, "hint": error.hint, "text": sentences(error.message, error.hint)}
    return StopRecord(Stop.PROVIDER_ERROR, error.detail, None, None, evidence)
