"""The home list: who waits for the person (oldest first), what runs, what was done; and the agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from core import SessionInfo
from tui.view.rows import Row, heading
from tui.view.state import State, state_of
from tui.view.text import (
    Line,
    Tone,
    age,
    column,
    line,
    midnight,
    money,
    one_line,
    parse_time,
    plural,
    safe,
    short,
    tokens,
)

NAME_WIDTH = 18
EARLIER_SHOWN = 200
RECORDS = ("comparison", "experiment", "evaluation")
"""Kinds of sessions that the lab shows, and of those that work for them."""
CELLS = ("arm", "case")


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent as the list shows it: what is live, what was saved last."""

    name: str
    live: str | None
    latest: str | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """`rows` for the list, `headline` for the top of the screen."""

    rows: tuple[Row, ...]
    headline: Line
    waiting: int = 0
    running: int = 0


def fleet(sessions: Sequence[SessionInfo], agents: Sequence[AgentInfo], now: str) -> Fleet:
    """The home screen's list. `sessions` are oldest first, as the store gives them."""
    everything, sessions = sessions, _without_cells(sessions)
    children: dict[str, list[SessionInfo]] = {}
    known = {info.id for info in sessions}
    tops: list[SessionInfo] = []
    for info in sessions:
        if info.parent is not None and info.parent in known:
            children.setdefault(info.parent, []).append(info)
        else:
            tops.append(info)
    groups: dict[str, list[SessionInfo]] = {"WAITING FOR YOU": [], "RUNNING": [], "DONE TODAY": [], "EARLIER": []}
    morning = midnight(now)
    for info in tops:
        groups[_group(info, state_of(info), morning)].append(info)
    groups["WAITING FOR YOU"].sort(key=_since)
    for name in ("DONE TODAY", "EARLIER"):
        groups[name].reverse()
    rows: list[Row] = []
    for name in ("WAITING FOR YOU", "RUNNING", "DONE TODAY"):
        rows += _group_rows(name, groups[name], children, now)
    if agents:
        rows += [heading("AGENTS"), *(agent_row(agent) for agent in agents)]
    earlier = groups["EARLIER"]
    rows += _group_rows("EARLIER", earlier[:EARLIER_SHOWN], children, now)
    if len(earlier) > EARLIER_SHOWN:
        rows.append(heading(f"and {plural(len(earlier) - EARLIER_SHOWN, 'older session')}: artificer sessions"))
    waiting, running = len(groups["WAITING FOR YOU"]), sum(info.status == "running" for info in sessions)
    return Fleet(tuple(rows), _headline(waiting, running, everything, morning), waiting, running)


def _without_cells(sessions: Sequence[SessionInfo]) -> list[SessionInfo]:
    """Without the arms and cases of the lab's records, which the lab shows; those of an agent's own stay with it."""
    kinds = {info.id: info.kind for info in sessions}
    return [
        info
        for info in sessions
        if info.parent is None or kinds.get(info.parent, "evaluation" if info.kind in CELLS else "") not in RECORDS
    ]


def _today(at: str, morning: datetime | None) -> bool:
    then = parse_time(at)
    return then is not None and morning is not None and then >= morning


def _group(info: SessionInfo, state: State, morning: datetime | None) -> str:
    if info.status == "running":
        return "RUNNING"
    if state.yours:
        return "WAITING FOR YOU"
    return "DONE TODAY" if _today(_since(info), morning) else "EARLIER"


def _since(info: SessionInfo) -> str:
    return info.ended or info.started


def _group_rows(
    name: str, infos: Iterable[SessionInfo], children: Mapping[str, Sequence[SessionInfo]], now: str
) -> list[Row]:
    rows = [row for info in infos for row in _family(info, children, now, 0)]
    return [heading(name), *rows] if rows else []


def _family(info: SessionInfo, children: Mapping[str, Sequence[SessionInfo]], now: str, depth: int) -> list[Row]:
    rows = [session_row(info, now, depth)]
    for child in children.get(info.id, ()) if depth < 8 else ():
        rows += _family(child, children, now, depth + 1)
    return rows


def session_row(info: SessionInfo, now: str, depth: int = 0) -> Row:
    """`● petstore-clerk  which operations …            2 m  51k  $0.04`"""
    return Row(f"session:{info.id}", _words(info, depth), _figures(info, now))


@lru_cache(maxsize=8192)
def _words(info: SessionInfo, depth: int) -> Line:
    """What does not change as time goes by: of thousands of sessions, most stay as they are."""
    state = state_of(info)
    indent = "  " * depth + "└ " if depth else ""
    name = session_name(info)
    width = max(4, NAME_WIDTH - len(indent))
    summary = one_line(info.summary or info.title, 160)
    kind = "" if info.kind == "builder" else f"{info.kind} "
    if info.parent is not None and info.depth == 0 and info.kind in ("builder", "run"):
        kind = "fork "
    words = summary if info.status != "interrupted" else f"interrupted: {summary}"
    return line(
        (indent, Tone.DIM),
        (f"{state.sign} ", state.tone),
        (column(name, width) + " ", Tone.STRONG if state.yours else Tone.PLAIN),
        (kind, Tone.DIM),
        (words, Tone.PLAIN if state.yours else Tone.DIM),
    )


def _figures(info: SessionInfo, now: str) -> Line:
    spent = tokens(info.input_tokens + info.output_tokens)
    return line((f"{age(_since(info), now):>5} {spent:>6} {money(info.usd):>8}", Tone.DIM))


def session_name(info: SessionInfo) -> str:
    """The agent's name; a Builder that has none yet goes by what it was asked."""
    return info.agent or one_line(info.title, 40) or info.id


def agent_row(agent: AgentInfo) -> Row:
    """`◆ petstore-clerk     live 4f1c0a2b · latest 9ab2c001`"""
    live = f"live {short(agent.live)}" if agent.live else "nothing live"
    newer = agent.latest is not None and agent.latest != agent.live
    more = f" · latest {short(agent.latest)}" if newer else ""
    left = line(("◆ ", Tone.DIM), column(agent.name, NAME_WIDTH) + " ", (live + more, Tone.DIM))
    return Row(f"agent:{agent.name}", left)


def _headline(waiting: int, running: int, sessions: Sequence[SessionInfo], morning: datetime | None) -> Line:
    today = [info for info in sessions if _today(info.started, morning)]
    total, unknown = Decimal(0), False
    for info in today:
        try:
            total += Decimal(info.usd) if info.usd is not None else 0
        except InvalidOperation:
            unknown = True
        unknown = unknown or info.usd is None
    spent = f"{money(str(total))}{' + unknown' if unknown else ''} today"
    tone = Tone.YOU if waiting else Tone.DIM
    return line((f"{waiting} waiting", tone), (f" · {running} running · {spent}", Tone.DIM))


def peek(info: SessionInfo, said: Sequence[tuple[str, str]], now: str) -> tuple[Line, ...]:
    """A session at a glance: its state, its figures, and the last words in it (role, text)."""
    state = state_of(info)
    lines = [
        line((session_name(info), Tone.STRONG)),
        line((str(state), state.tone)),
        line((f"{info.provider} {one_line(info.model or '')} · {info.sandbox or 'default sandbox'}", Tone.DIM)),
        line((f"started {age(info.started, now)} ago · {info.id}", Tone.DIM)),
        (),
    ]
    for role, text in said:
        lines += [
            line((role, Tone.DIM)),
            *(line("  " + part) for part in safe(text).expandtabs(4).split("\n")[:12]),
            (),
        ]
    return tuple(lines)
