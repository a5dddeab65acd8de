"""The record of one tool call's effects: what was asked, in order, and what came back; a replay of another run's."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.effects.requests import Denied, EffectRequest, EffectResponse
from core.events import Event

Outcome = EffectResponse | Denied
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that only read, and so may be sent again where it is not known whether they were (RFC 9110, 9.2.1)."""


def fingerprint(request: EffectRequest) -> str:
    """Hex SHA-256 of what was asked for, with the credential's name; two equal requests have the same one."""
    canonical = [
        str(request.method).upper(),
        request.url,
        [[name.lower(), value] for name, value in request.headers],
        hashlib.sha256(request.body).hexdigest(),
        request.credential,
    ]
    return hashlib.sha256(json.dumps(canonical, ensure_ascii=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Asked:
    """One effect on record: `outcome` is None where only the intent to perform it is."""

    fingerprint: str
    outcome: Mapping[str, Any] | None


class Ledger:
    """The effects of one call so far, by index from 0, read from the session's events."""

    def __init__(self, events: Iterable[Event], call: str) -> None:
        self._asked: dict[int, Asked] = {}
        for event in events:
            data = event.data
            if event.kind in ("effect_intent", "effect") and data.get("call") == call:
                outcome = data.get("outcome") if event.kind == "effect" else None
                self._asked[int(data.get("index", -1))] = Asked(str(data.get("fingerprint")), outcome)

    def at(self, index: int) -> Asked | None:
        """What the call asked for as its effect `index`, None where it has not come so far."""
        return self._asked.get(index)

    def reaches(self, index: int) -> bool:
        """Whether effect `index` or a later one is on record."""
        return any(asked >= index for asked in self._asked)


class ReplayBook:
    """The effects of another run, to answer from instead of the network: by tool and request, in order.

    The last answer to a request that only reads stays for further ones of its kind; what changes something was done
    as often as it is on record, and no more.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._answers: dict[tuple[str, str], deque[Mapping[str, Any]]] = defaultdict(deque)
        for event in events:
            outcome = event.data.get("outcome")
            if event.kind == "effect" and isinstance(outcome, dict):
                key = (str(event.data.get("tool")), str(event.data.get("fingerprint")))
                self._answers[key].append(outcome)

    def answer(self, tool: str, request: EffectRequest) -> Mapping[str, Any] | None:
        """The next recorded outcome of this request by this tool, None where there is none."""
        found = self._answers.get((tool, fingerprint(request)))
        if not found:
            return None
        stays = len(found) == 1 and str(request.method).upper() in SAFE_METHODS
        return found[0] if stays else found.popleft()


def recorded_example(rows: Iterable[Mapping[str, Any]], tool: str) -> ReplayBook:
    """A book of an example's effects: `{"request": {"method", "url", …}, "response": {"status", …}}`. They are those
    of `tool` where a row names no tool of its own."""
    events = []
    for number, row in enumerate(rows):
        asked, given = row.get("request") or {}, row.get("response") or {}
        body = given.get("body", "")
        text = body if isinstance(body, str) else json.dumps(body)
        outcome = {
            "status": int(given.get("status", 200)),
            "headers": _pairs(given.get("headers") or {}),
            "body": text,
            "encoding": "utf-8",
        }
        data = {"tool": row.get("tool") or tool, "fingerprint": fingerprint(_request(asked)), "outcome": outcome}
        events.append(Event("", number + 1, "", "effect", data=data))
    return ReplayBook(events)


def _pairs(headers: Any) -> list[list[str]]:
    rows = headers.items() if isinstance(headers, Mapping) else headers
    return [[str(name).lower(), str(value)] for name, value in rows]


def _request(asked: Mapping[str, Any]) -> EffectRequest:
    body = asked.get("body", "")
    data = body if isinstance(body, str) else json.dumps(body)
    headers = asked.get("headers") or {}
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return EffectRequest(
        method=str(asked.get("method", "GET")),
        url=str(asked.get("url", "")),
        headers=tuple((str(name), str(value)) for name, value in pairs),
        body=data.encode(),
        credential=asked.get("credential"),
    )


def outcome_from(data: Mapping[str, Any]) -> Outcome:
    """Read a recorded outcome. Raises KeyError or ValueError for a damaged one."""
    if "denied" in data:
        return Denied.from_json(data)
    return EffectResponse.from_json(data)
