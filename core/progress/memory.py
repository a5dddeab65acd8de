"""What the guard remembers of a session: bounded, and forgotten when a person speaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from core.progress.calls import Call
from core.progress.reading import Answer

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LONGEST_CYCLE: Final = 12
_CYCLE_MEMORY: Final = 5 * LONGEST_CYCLE


class Recent(Generic[K, V]):
    """A mapping that forgets what was touched longest ago."""

    __slots__ = ("_items", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._items: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        items = self._items
        items.pop(key, None)
        items[key] = value
        if len(items) > self.most:
            del items[next(iter(items))]

    def drop(self, key: K) -> None:
        self._items.pop(key, None)

    def clear(self) -> None:
        self._items.clear()

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[tuple[K, V]]:
        return list(self._items.items())


@dataclass(slots=True)
class Tally:
    """How often one thing came again."""

    first: int
    last: int
    count: int = 0
    score: float = 0
    turn: int = -1
    raw: int = 0
    workspace: str | None = None
    lines: int = 0
    drifts: bool = False
    progress: int = 0
    waits: int = 0
    waited: bool = False
    moving: bool = False
    call: Call | None = None
    callers: list[int] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def met(self, where: int, turn: int, call: Call | None) -> bool:
        """Note one more meeting; False where this turn has been counted already."""
        self.last = where
        if call is not None and len(self.calls) < 4 and call.shown not in self.calls:
            self.calls.append(call.shown)
        if turn == self.turn:
            return False
        self.turn = turn
        self.count += 1
        return True


class Cycles:
    """Runs of equal elements at each distance: the trailing cycle of every period in constant time a step."""

    __slots__ = ("_before", "elements", "labels", "places", "raws", "runs")

    def __init__(self) -> None:
        size = _CYCLE_MEMORY
        self.elements: deque[int] = deque(maxlen=size)
        self.raws: deque[int] = deque(maxlen=size)
        self.labels: deque[str] = deque(maxlen=size)
        self.places: deque[int] = deque(maxlen=size)
        self.runs = [0] * (LONGEST_CYCLE + 1)
        self._before = self.runs

    def clear(self) -> None:
        self.elements.clear()
        self.raws.clear()
        self.labels.clear()
        self.places.clear()
        self.runs = self._before = [0] * (LONGEST_CYCLE + 1)

    def push(self, element: int, raw: int, label: str, place: int) -> None:
        """A new turn."""
        self._before = self.runs
        self.elements.append(element)
        self.raws.append(raw)
        self.labels.append(label)
        self.places.append(place)
        self._match(element)

    def replace(self, element: int, raw: int) -> None:
        """The turn has one more call than was known."""
        self.elements[-1] = element
        self.raws[-1] ^= raw
        self._match(element)

    def _match(self, element: int) -> None:
        known, length = self.elements, len(self.elements)
        self.runs = [
            before + 1 if 0 < period < length and known[length - 1 - period] == element else 0
            for period, before in enumerate(self._before)
        ]

    def drifts(self, period: int) -> bool:
        """Whether the last round measured something else than the one before."""
        raws = list(self.raws)
        return raws[-period:] != raws[-2 * period : -period]

    def repeated(self) -> tuple[int, int] | None:
        """(period ≥ 2, how many times it stands at the end) of the shortest cycle that came thrice or more."""
        for period in range(2, LONGEST_CYCLE + 1):
            run = self.runs[period]
            # a run at distance one inside it is one thing again and again: not a cycle
            if run >= 2 * period and self.runs[1] < period - 1:
                return period, (run + period) // period
        return None


class State:
    """What is remembered since a person last spoke."""

    __slots__ = (
        "answers", "before", "compacted", "compacted_first", "cycles", "epoch", "failed_calls", "failures",
        "last_target", "last_turn", "live",
        "moved_turn", "moves", "nudged", "pairs", "progress", "repeats", "resaid", "results", "returns",
        "returns_first", "speech", "stale", "stale_first", "stale_turn", "talk", "talk_first",
        "turn_pairs", "turns", "waiting", "waits", "worked", "workspace", "workspaces",
    )  # fmt: skip

    def __init__(self, workspace: str | None = None) -> None:
        self.workspace = workspace
        self.workspaces: Recent[str, bool] = Recent(1024)
        if workspace is not None:
            self.workspaces.put(workspace, True)
        self.results: Recent[int, bool] = Recent(1024)
        self.pairs: Recent[int, tuple[int, int]] = Recent(1024)  # (times, epoch)
        self.failures: Recent[int, Tally] = Recent(256)
        self.failed_calls: Recent[int, bool] = Recent(512)
        self.worked: Recent[str, int] = Recent(64)  # the turn in which a manner of call last worked
        self.repeats: Recent[int, Tally] = Recent(256)
        self.answers: Recent[int, Tally] = Recent(64)
        self.waiting: Recent[int, Tally] = Recent(64)
        self.speech: Recent[int, Tally] = Recent(32)
        self.nudged: Recent[tuple[str, int], bool] = Recent(256)
        self.cycles = Cycles()
        self.live = False  # a nudge was given and nothing has moved since
        self.progress = self.waits = self.epoch = 0
        self.turns, self.moved_turn = 0, -1
        self.last_turn: int | str | None = None
        self.before: int | None = None  # the call of the step before
        self.moves: Recent[int, int] = Recent(64)  # how often a call, made again at once, was answered anew
        self.turn_pairs: set[int] = set()
        self.last_target: tuple[str, str] | None = None
        self.returns, self.returns_first = 0, 0
        self.stale, self.stale_first, self.stale_turn = 0, 0, -1
        self.talk = self.talk_first = self.resaid = 0
        self.compacted = self.compacted_first = 0


class Seen:
    """What of a tool step was known before it."""

    __slots__ = (
        "answer", "call", "fresh", "moving", "new_workspace", "pair", "reread", "result_known", "times", "told",
    )  # fmt: skip

    def __init__(self, state: State, call: Call, answer: Answer) -> None:
        self.call = call
        self.answer = answer
        self.pair = hash((call.key, answer.key))
        times, epoch = state.pairs.get(self.pair) or (0, state.epoch)
        # times and ids drift between two tellings of one thing, but to another call they may be the answer
        self.told = answer.raw if answer.bare and not times else answer.key
        self.result_known = self.told in state.results
        self.times = times
        self.reread = times > 0 and epoch != state.epoch  # the model's memory of it was compacted away
        self.new_workspace = False
        self.fresh = False
        moves = state.moves.get(call.key) or 0
        if state.before == call.key and not self.result_known:
            moves += 1
            state.moves.put(call.key, moves)
        state.before = call.key
        # the same call, and again the world says what it never said: it moves by itself, and may be waited for
        self.moving = moves >= 2 and not self.result_known

    def settle(self, state: State, waits: bool, digest: str | None) -> None:
        """Remember the step; where it was fresh, forget the tallies of repetition."""
        quiet_work = self.answer.ack and self.times == 0 and digest is None
        moved = self.new_workspace or (not self.answer.failed and (not self.result_known or quiet_work))
        self.fresh = moved or not self.result_known
        state.results.put(self.answer.key, True)
        state.results.put(self.told, True)
        state.pairs.put(self.pair, (self.times + 1, state.epoch))
        if moved:
            state.live = False
            if state.moved_turn != state.turns:
                state.moved_turn = state.turns
                state.progress += 1
        if self.fresh:
            state.repeats.clear()
            state.answers.clear()
            state.stale = 0
            if not waits:
                state.waiting.clear()
        if self.new_workspace:
            state.cycles.clear()
            state.waiting.clear()
