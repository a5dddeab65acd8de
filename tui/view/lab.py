"""What the lab keeps, as lists show it: one record as it grows, its rows, its state and its figures. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from core import Event, SessionInfo, Stop
from tui.view.fleet import CELLS
from tui.view.rows import Row
from tui.view.state import State, state_of
from tui.view.text import Line, Span, Tone, column, line, money, one_line, plural, short, tokens, took, when

Kind = Literal["comparison", "experiment", "evaluation"]
KINDS: tuple[Kind, ...] = ("comparison", "experiment", "evaluation")
ARMS = ("baseline", "candidate")
PAIR = "pair"
"""What a label of a comparison stands on."""
WORK = (*CELLS, "builder")
"""Kinds of sessions that are a record's cells: where the Builder is evaluated they build."""

TODO = State("·", "to do", Tone.DIM)
PASSED = State("✓", "passed", Tone.PLAIN)
FAILED = State("✗", "failed", Tone.FAIL)
UNJUDGED = State("?", "unjudged", Tone.DIM)

_COMMANDS: Mapping[Kind, tuple[str, str]] = {
    "comparison": (
        "artificer compare AGENT@A AGENT@B TASK",
        "runs one task on two revisions side by side: evidence, not a judgement.",
    ),
    "experiment": (
        "artificer experiment FILE",
        "runs revisions × prompts × tasks × repeats; the matrix fills here while it runs.",
    ),
    "evaluation": (
        "artificer eval SUITE AGENT",
        "runs a suite's cases on an agent and judges each by its checks; you label them here by key.",
    ),
}


def nothing_yet(kind: Kind) -> tuple[Line, ...]:
    """What an empty lab says: which command fills it."""
    command, words = _COMMANDS[kind]
    return ((), line(f"No {kind} yet."), (), line(("  " + command, Tone.STRONG)), line(("  " + words, Tone.DIM)))


#: Stops in the few letters a cell of the matrix has.
_WORDS = {
    Stop.COMPLETED: "done",
    Stop.AWAITING_USER: "question",
    Stop.NEEDS_CREDENTIALS: "needs key",
    Stop.NEEDS_APPROVAL: "approval",
    Stop.DOOM_LOOP: "stuck",
    Stop.BUDGET: "budget",
    Stop.CANNOT_CONVERT: "cannot",
    Stop.REFUSED: "refused",
    Stop.CANCELLED: "stopped",
    Stop.PROVIDER_ERROR: "provider",
    Stop.PLATFORM_ERROR: "failed",
}


@dataclass(slots=True)
class Kept:
    """One comparison, experiment or evaluation as read so far: `take` adds what came since, and nothing is read twice.

    `rows` are its cells or cases by id; `plan` what is known of cells before they have run, by id; `live` the
    columns of sessions that work for it and have no row yet, by session.
    """

    info: SessionInfo
    about: Mapping[str, Any] = field(default_factory=dict)
    plan: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    rows: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    labels: list[Mapping[str, Any]] = field(default_factory=list)
    preference: Mapping[str, Any] | None = None
    live: dict[str, SessionInfo] = field(default_factory=dict)
    case_of: dict[str, str] = field(default_factory=dict)
    """Which case a session of `live` runs, by session."""
    seen: int = 0
    changes: int = 0
    """Grows with everything that is taken, so that a view knows whether it has shown it."""
    _spent: Decimal = Decimal(0)
    _unpriced: int = 0
    _sessions: set[str] = field(default_factory=set)

    @property
    def planned(self) -> Sequence[str]:
        """The ids of all cells or cases, those that have not run included."""
        if self.info.kind == "comparison":
            return ARMS
        named = self.about.get("cases" if self.info.kind == "evaluation" else "cells")
        return [str(one) for one in named] if isinstance(named, list) else list(self.rows)

    @property
    def running(self) -> bool:
        """Whether a process is at it now."""
        return self.info.status == "running"

    def take(self, events: Iterable[Event]) -> None:
        """Take what was recorded since."""
        for event in events:
            self.seen, self.changes = event.seq, self.changes + 1
            if event.damaged:
                continue
            data = event.data
            match event.kind:
                case "started" | "notice" if event.kind == "started" or "cells" in data:
                    self.about = {**self.about, **data}
                    self._take_plan(data)
                case "cell":
                    self._take_row(str(data.get("cell")), data)
                case "case":
                    self._take_row(str(data.get("id")), data)
                case "label":
                    self.labels.append(data)
                case "preference":
                    self.preference = data

    def _take_plan(self, data: Mapping[str, Any]) -> None:
        plan = data.get("plan")
        for one in plan if isinstance(plan, list) else []:
            if isinstance(one, Mapping):
                self.plan[str(one.get("cell"))] = one

    def _take_row(self, key: str, data: Mapping[str, Any]) -> None:
        self.rows[key] = data
        self._sessions.add(str(data.get("session")))
        self.live.pop(str(data.get("session")), None)
        usd = _decimal(usd_of(data))
        if usd is None:
            self._unpriced += 1
        else:
            self._spent += usd

    def watch(self, infos: Iterable[SessionInfo]) -> None:
        """Take the columns of sessions that work for it now, in the order they began."""
        live = {info.id: info for info in infos if info.id not in self._sessions and info.kind in WORK}
        if live != self.live:
            self.live, self.changes = live, self.changes + 1

    @property
    def cost(self) -> str:
        """What all of it cost so far, in words."""
        total, unknown = self._spent, self._unpriced > 0
        for info in self.live.values():
            usd = _decimal(info.usd)
            total, unknown = total + (usd or 0), unknown or usd is None
        return f"{money(str(total))}{' + unknown' if unknown else ''}"


def _decimal(text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


# --- one row of it -------------------------------------------------------------------------------------


def usd_of(row: Mapping[str, Any]) -> str | None:
    """What a cell or case cost; None while unknown."""
    cost = row.get("cost")
    usd = cost.get("usd") if isinstance(cost, Mapping) else None
    return None if usd is None else str(usd)


def seconds_of(row: Mapping[str, Any]) -> float | None:
    """How long it took: a diagnostic."""
    value = row.get("duration_s")
    return float(value) if isinstance(value, int | float) else None


def tokens_of(row: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens in and out."""
    usage = row.get("usage")
    found = usage if isinstance(usage, Mapping) else {}
    return int(found.get("input_tokens") or 0), int(found.get("output_tokens") or 0)


def short_state(stop: str | None, status: str = "stopped") -> State:
    """A stop's sign, in a word short enough for a cell."""
    full = state_of(SessionInfo("", "arm", stop=stop, status=status))
    if status == "running":
        return full
    if stop is None:
        return State("‖", "cut short", Tone.DIM)
    word = _WORDS.get(Stop(stop), stop) if stop in set(Stop) else stop
    return State(full.sign, word, full.tone)


def figures(row: Mapping[str, Any]) -> Line:
    """`12 s  8.1k  $0.01`, of a cell or case that has run."""
    seconds = seconds_of(row)
    time = took(seconds) if seconds is not None else "-"
    return line((f"{time:>8} {tokens(sum(tokens_of(row))):>6} {money(usd_of(row)):>8}", Tone.DIM))


def live_figures(info: SessionInfo) -> Line:
    """The same, of one that is running."""
    return line((f"{'':8} {tokens(info.input_tokens + info.output_tokens):>6} {money(info.usd):>8}", Tone.DIM))


def preset_words(preset: str, digest: str | None = None) -> str:
    """A preset as lists name it: a digest in eight digits, and beside a channel the one it meant."""
    agent, at, ref = preset.partition("@")
    hexadecimal = ref.removeprefix("sha256:")
    if at and len(hexadecimal) >= 6 and all(c in "0123456789abcdef" for c in hexadecimal):
        return f"{agent}@{short(hexadecimal)}"
    return f"{preset if at else f'{agent}@latest'} {short(digest)}" if digest else preset


# --- the lists of records ------------------------------------------------------------------------------


def record_state(info: SessionInfo) -> State:
    """Whether a record is being written, whole, or was cut short."""
    if info.status == "running":
        return state_of(info)
    if info.stop == Stop.COMPLETED.value:
        return state_of(info)
    word = "cut short" if info.kind != "experiment" else "cut short: run its file again to go on"
    return State("■", word, Tone.DIM)


_RATE = re.compile(r"(\d+) of (\d+) passed")


def record_row(info: SessionInfo, now: str, kept: Kept | None = None) -> Row:
    """One record of the list: its sign, how it went, what it is, when."""
    state = record_state(info)
    words = ""
    rate = _RATE.match(info.summary)
    if kept is not None and kept.running:
        words = f"{len(kept.rows)}/{len(kept.planned)}"
    elif state.sign == "■":
        words = state.word
    elif rate is not None:
        state = PASSED if rate[1] == rate[2] else FAILED
        words = f"{rate[1]}/{rate[2]}"
    title = one_line(info.title, 60)
    left = line((f"{state.sign} ", state.tone), *([(f"{words}  ", Tone.STRONG)] if words else []), title)
    at = when(info.started, now)
    return Row(info.id, left, line((f"{short(info.digest)}  " if rate else "", Tone.DIM), (at[:5], Tone.DIM)))


def headline(infos: Sequence[SessionInfo]) -> Line:
    """How many there are, and how many run."""
    running = sum(info.status == "running" for info in infos)
    parts = [plural(sum(info.kind == kind for info in infos), kind) for kind in KINDS]
    busy: list[str | tuple[str, Tone]] = [(f"▸ {running} running", Tone.STRONG), (" · ", Tone.DIM)] if running else []
    return line(*busy, (" · ".join(parts), Tone.DIM))


def progress(kept: Kept) -> Line:
    """`▸ working · 12 of 40 · 3 running · $0.41 so far`."""
    state = record_state(kept.info)
    done, whole = len(kept.rows), len(kept.planned)
    parts = [f"{done} of {whole}"] if done < whole or kept.running else []
    if kept.live and kept.running:
        parts.append(f"{len(kept.live)} running")
    if kept.info.kind == "evaluation" and done:
        passed = sum(bool(row.get("passed")) for row in kept.rows.values())
        parts.append(f"{passed} of {done} passed")
    parts.append(f"{kept.cost}{' so far' if kept.running else ''}")
    return (Span(f"{state.sign} {state.word}", state.tone), Span(" · " + " · ".join(parts), Tone.DIM))


def lab_tabs(kind: Kind, view: str, *, plots: bool) -> Line:
    """The kinds with their keys, the current one bold; on narrow screens (`view` is not empty) also what of a record
    shows."""
    tabs = [
        (f"F{number}", f"{one.capitalize()}s", one == kind and view in ("", "list"), f"kind('{one}')")
        for number, one in enumerate(KINDS, 2)
    ]
    if view:
        name = {"comparison": "Pair", "experiment": "Matrix", "evaluation": "Cases"}[kind]
        tabs.append(("F5", name, view == "detail", "detail"))
    if plots:
        tabs.append(("F6", "Plots", view == "plots", "plots"))
    parts: list[Span] = []
    for key, name, bold, act in tabs:
        parts += [Span(f"{key} ", Tone.DIM), Span(name, Tone.STRONG if bold else Tone.DIM, act), Span("   ")]
    return tuple(parts)


# --- a comparison --------------------------------------------------------------------------------------

LABEL_WIDTH = 10


def comparison_lines(kept: Kept, labels: Sequence[Mapping[str, Any]], width: int) -> tuple[Line, ...]:
    """The evidence pair, side by side, in `width` cells; the digests, stops, figures and sessions of both arms."""
    room = max(12, (width - LABEL_WIDTH) // 2)
    arms = [_arm(kept, number) for number in range(2)]
    lines: list[Line] = [
        line(
            ("task      ", Tone.DIM), one_line(str(kept.about.get("task") or kept.info.title), width - LABEL_WIDTH - 2)
        ),
        line((" " * LABEL_WIDTH, Tone.DIM), *((_fit(name, room), Tone.STRONG) for name in ARMS)),
    ]
    for name in ("preset", "digest", "stop", "tokens", "cost", "duration", "session"):
        cells = [arm[name] for arm in arms]
        tones = [cell[1] for cell in cells]
        lines.append(
            line(
                (f"{name:{LABEL_WIDTH}}", Tone.DIM),
                *((_fit(cell[0], room), tone) for cell, tone in zip(cells, tones, strict=True)),
            )
        )
    if kept.preference is not None:
        lines.append(_preference(kept.preference))
    return (*lines, *(label_line(label, LABEL_WIDTH) for label in labels))


def label_line(label: Mapping[str, Any], width: int) -> Line:
    """`label     candidate  it names the harbour  by person`."""
    note = one_line(str(label.get("note") or ""), 300)
    words = (str(label.get("verdict")), Tone.STRONG)
    return line((f"{'label':{width}}", Tone.DIM), words, f"  {note}" if note else "", (_by(label), Tone.DIM))


def _by(label: Mapping[str, Any]) -> str:
    return f"  by {label.get('by') or 'person'}"


def _fit(text: str, room: int) -> str:
    return column(text if len(text) < room else text[: room - 2] + "…", room)


def _arm(kept: Kept, number: int) -> Mapping[str, tuple[str, Tone]]:
    name = ARMS[number]
    row = kept.rows.get(name)
    if row is not None:
        state = state_of(SessionInfo("", "arm", stop=str(row.get("stop"))))
        seconds, (sent, said) = seconds_of(row), tokens_of(row)
        detail = f" · {row['detail']}" if row.get("detail") else ""
        return {
            "preset": (preset_words(str(row.get("preset"))), Tone.PLAIN),
            "digest": (short(row.get("digest")), Tone.PLAIN),
            "stop": (f"{state}{detail}", state.tone),
            "tokens": (f"{tokens(sent)} in · {tokens(said)} out", Tone.PLAIN),
            "cost": (money(usd_of(row)), Tone.PLAIN),
            "duration": (f"{took(seconds)} (diagnostic)" if seconds is not None else "-", Tone.DIM),
            "session": (str(row.get("session")), Tone.DIM),
        }
    info = arm_session(kept, number)
    arms = kept.about.get("arms")
    preset = str(arms[number]) if isinstance(arms, list) and number < len(arms) else ""
    state = TODO if info is None else short_state(info.stop, info.status)
    dash = ("-", Tone.DIM)
    return {
        "preset": (preset_words(preset) or (info.agent or "-" if info else "-"), Tone.PLAIN),
        "digest": (short(info.digest) if info else "-", Tone.PLAIN),
        "stop": (str(state), state.tone),
        "tokens": (f"{tokens(info.input_tokens)} in · {tokens(info.output_tokens)} out", Tone.PLAIN) if info else dash,
        "cost": (money(info.usd) if info else "-", Tone.PLAIN),
        "duration": dash,
        "session": (info.id if info else "-", Tone.DIM),
    }


def arm_session(kept: Kept, number: int) -> SessionInfo | None:
    """The session of an arm that has no row yet; the baseline's begins first."""
    live = list(kept.live.values())
    missing = [n for n, name in enumerate(ARMS) if name not in kept.rows]
    place = missing.index(number) if number in missing else -1
    return live[place] if 0 <= place < len(live) else None


def arm_key(kept: Kept, number: int) -> str | None:
    """The id of an arm's session; None while there is none."""
    row = kept.rows.get(ARMS[number])
    if row is not None:
        return str(row["session"]) if row.get("session") else None
    info = arm_session(kept, number)
    return info.id if info is not None else None


def arm_output(kept: Kept, number: int) -> str:
    """The last reply of an arm; empty while there is none."""
    row = kept.rows.get(ARMS[number])
    return str(row.get("output") or "") if row is not None else ""


def _preference(found: Mapping[str, Any]) -> Line:
    winner = str(found.get("winner") or found.get("state") or "none")
    why = one_line(str(found.get("why") or found.get("state") or ""), 200)
    consistent = "" if found.get("consistent", True) else " · the two orders disagree"
    judge = f"  {found.get('judge')}" if found.get("judge") else ""
    return line(
        (f"{'judge':{LABEL_WIDTH}}", Tone.DIM), (winner, Tone.STRONG), (f"{judge}{consistent}  {why}", Tone.DIM)
    )
