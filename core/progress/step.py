"""What the guard against doom loops is shown (`Step`) and what it says (`Verdict`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["tool", "text", "empty", "user", "credential", "compact", "nudge"]
Level = Literal["nudge", "stop"]
Rule = Literal[
    "same_failure",  # the world refused in the same way, whatever was asked
    "identical",  # one call, one answer, again
    "cycle",  # the same few calls and answers in the same order
    "workspace_return",  # edits that undo one another
    "same_answer",  # other calls, but the answer known already
    "nothing_new",  # a mixture of things all seen before
    "waiting",  # waiting for something that does not move
    "empty",  # replies without content
    "same_text",  # the same words without a deed
    "monologue",  # many words without a deed
]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened in a session, in the order it happened.

    `args` is what the tool was given (JSON types), `output` what it gave back; a text step has its words in
    `output`. `workspace` is the digest after the step, None where it was not taken. `rejected`: the tool never
    ran. `polls` or a positive `waited_s` (seconds): the step waited on something outside. Calls made in parallel
    share one `turn`. `thought` is ignored. `ref`, where given, stands in evidence in place of the step's index.
    """

    kind: Kind
    tool: str = ""
    args: Any = None
    output: Any = ""
    ok: bool = True
    workspace: str | None = None
    rejected: bool = False
    polls: bool = False
    waited_s: float | None = None
    turn: int | str | None = None
    thought: str | None = None
    ref: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do: `nudge` the model, or `stop`, which only ever follows a nudge.

    `evidence` holds JSON types only: `rule`; `failure`, the failure or answer that came again, at most 500
    characters with what drifts masked; `count`, how often; `first` and `last`, the steps (`ref`, else the 0-based
    index) it came in; `calls`, a few of the calls; `progress_would_be`, one sentence.
    """

    level: Level
    rule: Rule
    evidence: dict[str, Any] = field(default_factory=dict)
