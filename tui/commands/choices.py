"""What every command that drives a session lets a person choose, written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, words for people on stderr.")]
ProviderName = Annotated[
    str | None, typer.Option("--provider", metavar="NAME", help="What thinks: a name from `artificer providers`.")
]
ModelName = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model, in the provider's words.")]
EffortName = Annotated[
    str | None, typer.Option("--effort", metavar="LEVEL", help="How hard it thinks, in the provider's words.")
]
SandboxName = Annotated[
    str | None, typer.Option("--sandbox", metavar="KIND", help="docker, bubblewrap, or process (unsafe).")
]
Answers = Annotated[
    list[str] | None, typer.Option("--answer", metavar="TEXT", help="Answers, in the order of questions; repeatable.")
]
LimitWords = Annotated[
    list[str] | None, typer.Option("--limit", metavar="WHAT=N", help="steps|tokens|usd|seconds=N; may be repeated.")
]
Stream = Annotated[bool, typer.Option("--stream", help="Also print text while it streams (kind draft).")]


@dataclass(frozen=True, slots=True)
class Choices:
    """What thinks and where, the answers given beforehand, what may be spent, and how it is told."""

    provider: ProviderName = None
    model: ModelName = None
    effort: EffortName = None
    sandbox: SandboxName = None
    answers: Answers = None
    limit: LimitWords = None
    as_json: Json = False
    stream: Stream = False

    def thinking(self) -> dict[str, Any]:
        """What thinks and where, as a launch names it."""
        return {"provider": self.provider, "model": self.model, "effort": self.effort, "sandbox": self.sandbox}


def choosing(command: Callable[..., int]) -> Callable[..., int]:
    """The command with an option for each of its `choices`, after its own."""
    hints = get_type_hints(Choices, include_extras=True)
    own = [each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != "choices"]
    options = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(Choices)
    ]

    @functools.wraps(command)
    def called(**given: Any) -> int:
        chosen = Choices(**{option.name: given.pop(option.name) for option in options})
        return command(**given, choices=chosen)

    called.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in (*own, *options)}
    return called
