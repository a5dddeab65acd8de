"""What sessions have cost, added up by day, agent, session or tree. What is not known stays unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, get_args

from core.ports import SessionInfo, Store
from core.session import format_usd

CostKey = Literal["day", "agent", "session", "tree"]
COST_KEYS: Final[tuple[CostKey, ...]] = get_args(CostKey)


@dataclass(slots=True)
class _Part:
    """What was spent somewhere: in one session, or on one day of it. `usd` is None where it is not known."""

    info: SessionInfo
    day: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    usd: Decimal | None = Decimal(0)


def costs_by(store: Store, by: Sequence[CostKey]) -> list[dict[str, Any]]:
    """Rows in the order of their keys, oldest or first by name: the keys of `by` (`day`, `agent`, `session`, or
    `tree`, the session that began it), then `sessions`, `input_tokens`, `output_tokens`, `cached_tokens`, `requests`,
    `usd` (a decimal string, None where the price of any part is not known), `known_usd` (what is known of it) and
    `unknown`, the number of sessions with an unknown part. With `session` or `tree` also `started` and `summary`."""
    infos = store.sessions()
    roots = _roots(infos)
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    counted: dict[tuple[str, ...], tuple[set[str], set[str]]] = {}
    known: dict[tuple[str, ...], Decimal] = {}
    named = {info.id: info for info in infos}
    for info in infos:
        for part in _parts(store, info, by):
            found = {"day": part.day, "agent": info.agent or info.kind, "session": info.id, "tree": roots[info.id]}
            key = tuple(found[way] for way in by)
            row = rows.setdefault(key, _new(dict(zip(by, key, strict=True)), named))
            seen, unknown = counted.setdefault(key, (set(), set()))
            seen.add(info.id)
            for name in ("input_tokens", "output_tokens", "cached_tokens", "requests"):
                row[name] += getattr(part, name)
            if part.usd is None:
                unknown.add(info.id)
            known[key] = known.get(key, Decimal(0)) + (part.usd or 0)
    for key, row in rows.items():
        seen, unknown = counted[key]
        usd = format_usd(known[key])
        row |= {"sessions": len(seen), "usd": None if unknown else usd, "known_usd": usd, "unknown": len(unknown)}
    inorder = sorted(rows) if set(by) <= {"day", "agent"} else rows
    return [rows[key] for key in inorder]


def _new(keys: Mapping[str, str], named: Mapping[str, SessionInfo]) -> dict[str, Any]:
    row: dict[str, Any] = dict(keys)
    which = keys.get("session") or keys.get("tree")
    if which is not None:
        info = named[which]
        row |= {"agent": info.agent or info.kind, "started": info.started, "summary": info.title or info.summary}
    return row | {"sessions": 0, **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "requests"), 0)}


def _roots(infos: Iterable[SessionInfo]) -> dict[str, str]:
    """The session at the root of each one's tree."""
    parents = {info.id: info.parent for info in infos}
    roots: dict[str, str] = {}
    for session in parents:
        path = [session]
        while path[-1] not in roots:
            parent = parents[path[-1]]
            if parent is None or parent not in parents or parent in path:
                roots[path[-1]] = path[-1]
                break
            path.append(parent)
        roots.update(dict.fromkeys(path, roots[path[-1]]))
    return roots


def _parts(store: Store, info: SessionInfo, by: Sequence[CostKey]) -> Iterator[_Part]:
    """A session as one part, or a part a day where days are asked for and it may have gone over midnight."""
    began = info.started[:10]
    if "day" not in by or (info.ended is not None and info.ended[:10] == began):
        counts = (info.input_tokens, info.output_tokens, info.cached_tokens, info.requests)
        yield _Part(info, began, *counts, usd=_decimal(info.usd))
        return
    days = {began: _Part(info, began)}
    for event in store.events(info.id, kinds=("usage",)):
        part = days.setdefault(event.at[:10], _Part(info, event.at[:10]))
        for name in ("input_tokens", "output_tokens", "cached_tokens", "requests"):
            count = event.data.get(name)
            setattr(part, name, getattr(part, name) + (count if isinstance(count, int) else 0))
        cost = event.data.get("cost")
        usd = _decimal(cost.get("usd") if isinstance(cost, dict) else None)
        part.usd = None if usd is None or part.usd is None else part.usd + usd
    yield from days.values()


def _decimal(text: object) -> Decimal | None:
    try:
        return Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        return None
