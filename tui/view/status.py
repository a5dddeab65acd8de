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
    thinks = line((info.provider or "", Tone.DIM))
    named = line((info.model or model, Tone.DIM))
    isolates = line((sandbox or info.sandbox or "", Tone.DIM), (" unsafe" if unsafe else "", Tone.FAIL))
    notes = ["followed, another process drives it"] if foreign else []
    notes += [f"{plural(queued, 'message')} not read yet"] if queued else []
    said = line((" · ".join(notes), Tone.DIM))
    if not narrow:
        parts = (thinks, named, isolates, said)
    else:  # the end is cut, so what is out of the ordinary comes first and what may be long comes last
        parts = (isolates, said, thinks, named) if unsafe else (said, thinks, isolates, named)
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
