"""Stops as cards: what happened, what can be done, and the keys that do it; data, so that it survives a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core import Stop, Waiting
from tui.view.state import state
from tui.view.text import Line, Tone, line, one_line, plural, safe


@dataclass(frozen=True, slots=True)
class Key:
    """A key that works while the card has the focus: it sends `send` as the answer, puts `fill` into the
    composer, or asks the screen for `act` (`resume`, `evidence`, `model`, `provider`)."""

    key: str
    label: str
    send: str | None = None
    fill: str | None = None
    act: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One numbered option of a question."""

    number: int
    id: str
    label: str
    recommended: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """A stop in the flow. `body` are lines below the title; `footer` says how to answer in words;
    `names` are the credentials it asks for; `prompt` what the composer says while it waits."""

    stop: Stop
    sign: str
    title: str
    tone: Tone
    body: tuple[Line, ...] = ()
    choices: tuple[Choice, ...] = ()
    keys: tuple[Key, ...] = ()
    footer: str = ""
    names: tuple[str, ...] = ()
    multiple: bool = False
    prompt: str = ""
    waiting: Waiting | None = None


LONGEST_TITLE = 48

RESUME = Key("r", "try again", act="resume")
MODEL = Key("m", "another model", act="model")
PROVIDER = Key("p", "another provider", act="provider")


def card_of(data: Mapping[str, Any]) -> Card | None:
    """The card of a `stop` event's body. None where the stop needs none (done, a plain reply, cancelled)."""
    try:
        stop = Stop(data.get("stop", ""))
    except ValueError:
        return None
    raw = data.get("waiting")
    waiting = Waiting.from_json(raw) if isinstance(raw, Mapping) else None
    evidence = data.get("evidence")
    facts: Mapping[str, Any] = evidence if isinstance(evidence, Mapping) else {}
    match stop:
        case Stop.AWAITING_USER:
            return None if waiting is None else _question(stop, waiting)
        case Stop.NEEDS_APPROVAL:
            return None if waiting is None else _approval(waiting)
        case Stop.NEEDS_CREDENTIALS:
            return None if waiting is None else _credentials(waiting)
        case Stop.DOOM_LOOP:
            return _doom_loop(waiting, facts)
        case Stop.BUDGET:
            return _budget(waiting, data)
        case Stop.CANNOT_CONVERT:
            return _cannot_convert(data, facts)
        case Stop.REFUSED:
            return _refused(data)
        case Stop.PROVIDER_ERROR:
            return _provider_error(data, facts)
        case Stop.PLATFORM_ERROR:
            return _platform_error(data, facts)
        case Stop.COMPLETED | Stop.CANCELLED:
            return None


def _question(stop: Stop, waiting: Waiting) -> Card:
    title, rest = _title(waiting.message)
    choices = tuple(
        Choice(number, option.id, one_line(option.label, 400), option.id == waiting.recommended)
        for number, option in enumerate(waiting.options, 1)
    )
    count = len(choices)
    parts = []
    if count:
        parts.append("1 answers" if count == 1 else f"1-{count} answers")
    if waiting.multiple:
        parts.append("several as 1,3 or all")
    if waiting.free_text or not count:
        parts.append("or type" if count else "type your answer")
    return Card(
        stop,
        "?",
        title,
        Tone.YOU,
        _lines(rest),
        choices,
        tuple(Key(str(c.number), c.label, send=c.id) for c in choices[:9]),
        " · ".join(parts),
        multiple=waiting.multiple,
        prompt=_prompt(waiting, count),
        waiting=waiting,
    )


def _prompt(waiting: Waiting, count: int) -> str:
    """What the composer says: the whole of how to answer, as the card's own foot may be out of view."""
    if not count:
        return "Your answer"
    several = " · several as 1,3 or all" if waiting.multiple else ""
    return f"Answer by number{several}{', or in your own words' if waiting.free_text else ''}"


_APPROVAL_KEYS = {"once": "y", "session": "s", "always": "a", "deny": "n"}


def _approval(waiting: Waiting) -> Card:
    detail = waiting.detail
    tool = str(detail.get("tool") or "")
    args = detail.get("args")
    body = _what_runs(tool, args) if isinstance(args, Mapping) else _lines(waiting.message)
    title = f"Allow {tool}?" if isinstance(args, Mapping) else "Allow this?"
    known = {"tool", "args"}
    body += tuple(line((f"{name}: ", Tone.DIM), one_line(_text(detail[name]))) for name in detail if name not in known)
    choices = tuple(
        Choice(number, option.id, option.label, option.id == waiting.recommended)
        for number, option in enumerate(waiting.options, 1)
    )
    keys = tuple(Key(_APPROVAL_KEYS[o.id], o.label, send=o.id) for o in waiting.options if o.id in _APPROVAL_KEYS)
    words = ", ".join(o.id for o in waiting.options)
    return Card(
        Stop.NEEDS_APPROVAL,
        "!",
        title,
        Tone.YOU,
        body,
        choices,
        keys,
        f"or type: {words}",
        prompt=f"Allow it? {words}",
        waiting=waiting,
    )


def _what_runs(tool: str, args: Mapping[str, Any]) -> tuple[Line, ...]:
    """Exactly what will run: a command as it is, other arguments one a line; nothing is left out."""
    if set(args) == {"command"} and isinstance(args["command"], str):
        return tuple(line(("$ " if n == 0 else "  ", Tone.DIM), text) for n, text in enumerate(_split(args["command"])))
    lines: list[Line] = []
    for name, value in args.items():
        texts = _split(_text(value))
        lines.append(line((f"{one_line(name)}: ", Tone.DIM), texts[0]))
        lines += [line("  ", text) for text in texts[1:]]
    return tuple(lines) or (line((f"{tool} takes no arguments", Tone.DIM)),)


def _credentials(waiting: Waiting) -> Card:
    names = waiting.names
    body = _lines(waiting.message)
    hosts = waiting.detail.get("hosts")
    if isinstance(hosts, list | tuple) and hosts:
        body += (line(("sent only to: ", Tone.DIM), ", ".join(str(host) for host in hosts)),)
    agent = waiting.detail.get("agent")
    for name in names:
        body += (line(("or in another terminal: ", Tone.DIM), f"artificer credentials set {agent or 'AGENT'} {name}"),)
    return Card(
        Stop.NEEDS_CREDENTIALS,
        "⚿",
        f"It needs {', '.join(names) or 'a key'}",
        Tone.YOU,
        body,
        keys=(Key("r", "it is set, go on", send="retry"), Key("e", "end here", send="end")),
        footer="the value goes to the key store, never into the session",
        names=names,
        prompt="retry once the key is set, or end",
        waiting=waiting,
    )


def _doom_loop(waiting: Waiting | None, facts: Mapping[str, Any]) -> Card:
    count = facts.get("count")
    body: list[Line] = []
    failure = str(facts.get("failure") or (waiting.message if waiting else "")).strip()
    body += [line((text, Tone.FAIL)) for text in _split(failure)[:6] if text.strip()]
    first, last = facts.get("first"), facts.get("last")
    places = [f"{word} event {seq}" for word, seq in (("first", first), ("last", last)) if isinstance(seq, int)]
    if places:
        body.append(line((" · ".join(places), Tone.DIM)))
    better = facts.get("progress_would_be") or "another error, a changed file, or another result"
    body.append(line(("Progress would be: ", Tone.DIM), one_line(str(better))))
    before = f"retry from before event {first}" if isinstance(first, int) else "retry from before it"
    return Card(
        Stop.DOOM_LOOP,
        "⟳",
        f"The same failure {plural(count, 'time')}, nothing new"
        if isinstance(count, int)
        else "It is going in circles",
        Tone.YOU,
        tuple(body),
        keys=(
            Key("h", "give a hint", fill="hint "),
            Key("r", before, send="retry"),
            Key("m", "another model", fill="switch "),
            Key("e", "end", send="end"),
            Key("enter", "evidence", act="evidence"),
        ),
        footer="or type a hint",
        prompt="Give a hint, or: retry, switch MODEL, end",
        waiting=waiting,
    )


def _budget(waiting: Waiting | None, data: Mapping[str, Any]) -> Card:
    sign = state(Stop.BUDGET).sign
    if waiting is None:
        words = "The reply was cut at the output limit three times." if data.get("detail") == "output_limit" else ""
        body = _lines(words or str(data.get("detail") or "A limit is reached."))
        body += (line(("Next: ", Tone.DIM), "write what to do, or ask for it in smaller parts"),)
        return Card(Stop.BUDGET, sign, "The budget is spent", Tone.YOU, body, prompt="Say how to go on")
    return Card(
        Stop.BUDGET,
        sign,
        "The budget is spent",
        Tone.YOU,
        _lines(waiting.message),
        keys=(Key("x", "extend by …", fill="extend "), Key("e", "end here", send="end")),
        footer="or type: extend N, end",
        prompt="extend N, or end",
        waiting=waiting,
    )


def _cannot_convert(data: Mapping[str, Any], facts: Mapping[str, Any]) -> Card:
    body: list[Line] = []
    for name in ("capability", "reason"):
        if facts.get(name):
            body.append(line((f"{name}: ", Tone.DIM), one_line(str(facts[name]), 500)))
    proof = facts.get("evidence")
    for one in proof if isinstance(proof, list | tuple) else [proof] if proof else []:
        body.append(line(("evidence: ", Tone.DIM), one_line(_text(one), 500)))
    if not body:
        body += _lines(str(data.get("detail") or data.get("output") or ""))
    body.append(line(("Next: ", Tone.DIM), "name another source, or say what to leave out; no reduced agent was made"))
    return Card(
        Stop.CANNOT_CONVERT,
        "⊘",
        "There is no safe conversion",
        Tone.FAIL,
        tuple(body),
        keys=(MODEL, PROVIDER),
        prompt="Another source, or what to leave out",
    )


def _refused(data: Mapping[str, Any]) -> Card:
    body = _lines(one_line(str(data.get("output") or data.get("detail") or ""), 500))
    body += (line(("Next: ", Tone.DIM), "say it in other words, or choose another model"),)
    return Card(
        Stop.REFUSED, "⊘", "The model refused", Tone.FAIL, body, keys=(MODEL, PROVIDER), prompt="Say it in other words"
    )


_PROVIDER_NEXT = {
    "auth": "give the provider its key (its usual variable), or choose another provider",
    "quota": "top up the account, or choose another provider",
    "rate_limit": "wait a little, then try again",
    "overloaded": "wait a little, then try again",
    "network": "check the connection, then try again",
    "context": "start a new session, or choose a model with a larger window",
    "capability": "choose another provider",
    "not_found": "choose another model",
}


def _provider_error(data: Mapping[str, Any], facts: Mapping[str, Any]) -> Card:
    detail = str(data.get("detail") or "")
    body = _lines(str(facts.get("message") or facts.get("text") or detail))
    hint = str(facts.get("hint") or "") or _PROVIDER_NEXT.get(detail, "try again, or choose another provider")
    body += (line(("Next: ", Tone.DIM), one_line(hint)),)
    return Card(
        Stop.PROVIDER_ERROR,
        "✗",
        f"The provider failed{f' · {detail}' if detail else ''}",
        Tone.FAIL,
        body,
        keys=(RESUME, MODEL, PROVIDER),
        footer="or write, to go on",
        prompt="Try again by writing, or choose another model",
    )


_PLATFORM_NEXT = {
    "sandbox_unavailable": "`artificer doctor` says which sandboxes work here and what the others need",
    "disk_full": "free some space, then try again",
    "read_only": "make ARTIFICER_HOME writable, then try again",
}


def _platform_error(data: Mapping[str, Any], facts: Mapping[str, Any]) -> Card:
    detail = str(data.get("detail") or "")
    body = _lines(str(facts.get("message") or facts.get("text") or detail))
    hint = str(facts.get("hint") or "") or _PLATFORM_NEXT.get(detail, "try again; if it stays, `artificer doctor`")
    body += (line(("Next: ", Tone.DIM), one_line(hint)),)
    return Card(
        Stop.PLATFORM_ERROR,
        "✗",
        f"Artificer failed{f' · {detail}' if detail else ''}",
        Tone.FAIL,
        body,
        keys=(RESUME,),
        footer="nothing of the session is lost",
        prompt="Try again by writing",
    )


def _title(message: str) -> tuple[str, str]:
    """The first line as a title, and the rest."""
    first, _, rest = safe(message).strip().partition("\n")
    if len(first) <= LONGEST_TITLE:
        return first.strip(), rest.strip()
    return "Your answer, please", safe(message).strip()


def _split(text: str) -> list[str]:
    return safe(text).expandtabs(4).split("\n")


def _lines(text: str) -> tuple[Line, ...]:
    return tuple(line(part) for part in _split(text.strip())) if text.strip() else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
