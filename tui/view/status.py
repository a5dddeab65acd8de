"""The two status lines of a session: whose turn it is and on what; what it has cost."""

from __future__ import annotations

from dataclasses import dataclass

from core import SessionInfo
from tui.view.fleet import session_name
from tui.view.state import State, state_of
from tui.view.text import Line, Tone, line, money, plural, tokens


@dataclass(frozen=True, slots=True)
class Status:
    """`top` is name, state and surroundings in three parts, `bottom` the figures."""

    name: Line
    state: State
    around: Line
    figures: Line


def status(
    info: SessionInfo | None,
    waiting: str | None = None,
    *,
    sandbox: str = "",
    unsafe: bool = False,
    model: str = "",
    foreign: bool = False,
    queued: int = 0,
    narrow: bool = False,
) -> Status:
    """The status of a session.

    `sandbox` is the kind it really has, `model` what the provider takes where none was named; `foreign` ones are
    driven by another process and only followed here; `queued` are words it has not read yet.
    """
    state = state_of(info, waiting)
    if info is None:
        return Status(line(("new", Tone.STRONG)), state, (), ())
    name = line((session_name(info), Tone.STRONG), ("" if info.kind == "builder" else f" · {info.kind}", Tone.DIM))
    kind = sandbox or info.sandbox or ""
    thinks = [part for part in (info.provider, info.model or model) if part]
    isolates = line((kind, Tone.DIM), (" unsafe" if unsafe else "", Tone.FAIL))
    notes = []
    if foreign:
        notes.append("followed, another process drives it")
    if queued:
        notes.append(f"{plural(queued, 'message')} not read yet")
    before = line((" · ".join(thinks), Tone.DIM))
    after = line((" · ".join(notes), Tone.DIM))
    # Where the room is short the end is cut: there, what is out of the ordinary comes first.
    short = (isolates, after, before) if unsafe else (after, before, isolates)
    parts = short if narrow else (before, isolates, after)
    words: Line = ()
    for part in parts:
        if any(span.text for span in part):
            words = (*words, *line((" · " if words else "", Tone.DIM)), *part)
    return Status(name, state, words, line((figures(info, narrow=narrow), Tone.DIM)))


def figures(info: SessionInfo, *, narrow: bool = False) -> str:
    """`12 turns · 48.1k in (91 % cached) · 3.2k out · $0.04`, or `48.1k in 3.2k out $0.04`"""
    if narrow:
        return f"{tokens(info.input_tokens)} in {tokens(info.output_tokens)} out {money(info.usd)}"
    cached = ""
    if info.input_tokens and info.cached_tokens:
        cached = f" ({100 * info.cached_tokens // info.input_tokens} % cached)"
    return " · ".join(
        (
            plural(info.requests, "turn"),
            f"{tokens(info.input_tokens)} in{cached}",
            f"{tokens(info.output_tokens)} out",
            money(info.usd),
        )
    )
