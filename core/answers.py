"""What a person's answer means to a stopped session: options by id, number or label, verbs, else their words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from core.stops import Option, Waiting


@dataclass(frozen=True, slots=True)
class Answer:
    """A valid answer. `choice` are option ids (empty for words of the person's own); `text` what they typed;
    `verb` is what to do for a doom loop, budget or credential (`hint`, `retry`, `switch`, `extend`, `end`) with
    `value`; `note` is what the person is told of how it was taken."""

    kind: str
    text: str
    choice: tuple[str, ...] = ()
    verb: str | None = None
    value: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The text does not answer what was asked; `why` says what would."""

    why: str


def read_answer(waiting: Waiting, text: str) -> Answer | NoAnswer:
    """Read `text` as the answer to `waiting`."""
    text = text.strip()
    match waiting.kind:
        case "question":
            return _question(waiting, text)
        case "approval":
            return _approval(waiting, text)
        case "doom_loop":
            return _doom_loop(_one(waiting.options, text) or text)
        case "budget":
            return _budget(_one(waiting.options, text) or text)
        case "credentials":
            return _credentials(_one(waiting.options, text) or text)
        case _:
            return Answer(waiting.kind, text)


def _question(waiting: Waiting, text: str) -> Answer | NoAnswer:
    choice = choose(waiting.options, text, multiple=waiting.multiple)
    if choice:
        return Answer("question", text, choice)
    if not text:
        return NoAnswer("An empty answer is none.")
    if waiting.free_text or not waiting.options:
        return Answer("question", text)
    return NoAnswer(f"{text!r} is none of the options: {_listed(waiting)}.")


def _listed(waiting: Waiting) -> str:
    listed = ", ".join(f"{n} {option.id}" for n, option in enumerate(waiting.options, 1))
    return f"{listed}, or all" if waiting.multiple else listed


def choose(options: Sequence[Option], text: str, *, multiple: bool) -> tuple[str, ...]:
    """The option ids `text` names, in the options' order; empty where it names none, or several of a single choice."""
    one = _one(options, text) or _headed(options, text)
    if one is not None:
        return (one,)
    if not multiple:
        return ()
    if text.casefold() in ("all", "*", "everything"):
        return tuple(option.id for option in options)
    for parts in (re.split(r"[,;]", text), re.split(r"[,;]|\band\b", text), text.split()):
        named = [_range(options, part.strip()) for part in parts if part.strip()]
        if named and all(named):
            picked = {id for ids in named for id in ids}
            return tuple(option.id for option in options if option.id in picked)
    return ()


def _range(options: Sequence[Option], part: str) -> tuple[str, ...]:
    one = _one(options, part) or _headed(options, part)
    if one is not None:
        return (one,)
    span = re.fullmatch(r"(\d{1,4})\s*-\s*(\d{1,4})", part)
    if span and 1 <= int(span[1]) <= int(span[2]) <= len(options):
        return tuple(option.id for option in options[int(span[1]) - 1 : int(span[2])])
    return ()


def _one(options: Sequence[Option], text: str) -> str | None:
    """An option by exact id, then number, then label, then id without regard to case."""
    for option in options:
        if option.id == text:
            return option.id
    if re.fullmatch(r"\d{1,4}\.?", text) and 1 <= int(text.rstrip(".")) <= len(options):
        return options[int(text.rstrip(".")) - 1].id
    folded = text.casefold()
    for option in options:
        if folded and folded in (option.id.casefold(), option.label.casefold()):
            return option.id
    return None


def _headed(options: Sequence[Option], text: str) -> str | None:
    """The one option whose label begins with `text` as its name: `addPet` of `addPet — POST /pet: …`."""
    if not text:
        return None
    folded = text.casefold()
    named = [option.id for option in options if re.split(" — |: ", option.label.casefold(), maxsplit=1)[0] == folded]
    return named[0] if len(named) == 1 else None


_APPROVALS = {"y": "once", "yes": "once", "allow": "once", "ok": "once", "n": "deny", "no": "deny"}


def _approval(waiting: Waiting, text: str) -> Answer | NoAnswer:
    choice = choose(waiting.options, _APPROVALS.get(text.casefold(), text), multiple=False)
    if choice:
        return Answer("approval", text, choice)
    allowed = ", ".join(option.id for option in waiting.options)
    return NoAnswer(f"{text!r} is no decision: {allowed}.")


_GOING_ON = ("retry", "", "y", "yes", "ok", "set", "done", "go on", "continue", "again")


def _credentials(text: str) -> Answer:
    """Going on or ending. Whatever else is typed may be the value itself, and is kept nowhere."""
    word = text.casefold()
    if word in ("end", "deny", "no"):
        return Answer("credentials", text, verb="end")
    if word in _GOING_ON:
        return Answer("credentials", text, verb="retry")
    note = "What was typed was taken as `retry` and not kept: a value is set with `artificer credentials set` alone."
    return Answer("credentials", "", verb="retry", note=note)


def _doom_loop(text: str) -> Answer | NoAnswer:
    verb, _, rest = text.partition(" ")
    rest = rest.strip()
    match verb.casefold():
        case "retry" | "end" if not rest:
            return Answer("doom_loop", text, verb=verb.casefold())
        case "hint":
            return (
                Answer("doom_loop", text, verb="hint", value=rest) if rest else NoAnswer("hint what? Say: hint TEXT.")
            )
        case "switch":
            return Answer("doom_loop", text, verb="switch", value=rest) if rest else NoAnswer("Say: switch MODEL.")
        case "":
            return NoAnswer("Say: hint TEXT, retry, switch MODEL or end.")
        case _:
            return Answer("doom_loop", text, verb="hint", value=text)


def _budget(text: str) -> Answer | NoAnswer:
    verb, _, rest = text.partition(" ")
    if verb.casefold() == "end" and not rest.strip():
        return Answer("budget", text, verb="end")
    if verb.casefold() == "extend":
        try:
            amount = Decimal(rest.strip().replace(",", ""))
        except InvalidOperation:
            amount = Decimal(0)
        if amount.is_finite() and amount > 0:
            return Answer("budget", text, verb="extend", value=format(amount, "f"))
    return NoAnswer("Say: extend N (a positive number), or end.")
