"""Whatever happens to a session, and wherever its process dies, its history stays one that every model API takes."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import (
    Event,
    Message,
    ModelProvider,
    ModelRequest,
    ProviderError,
    SessionInfo,
    Stop,
    StreamItem,
    Text,
    TextDelta,
    ToolCall,
    ToolContext,
    ToolResult,
    TurnEnd,
    Usage,
)
from core.compaction import ASK
from core.history import project
from tests.harness.eval_driver import EvalDriver, Stage, tool, tool_with_context

GOES_BACK = ("compaction", "rewind", "settings")
CALLS = [
    "one",
    "two",
    "parallel",
    "mixed",
    "fails",
    "unknown",
    "ask",
    "asks",
    "guarded",
    "hang",
    "cut_call",
    "same_ids",
    "long",
]
REPLIES = ["text", "cut", "empty", "refusal", "pause", "breaks", "broken_off", "raises", "busy", "thinking_only"]
TURNS = CALLS + REPLIES
ACTIONS = [
    "resume",
    "words",
    "1",
    "all",
    "once",
    "deny",
    "session",
    "hint look",
    "retry",
    "switch m2",
    "extend 3",
    "end",
]


def acceptable(messages: Sequence[Message]) -> None:
    """Every call is followed at once by its result, in order; no result stands anywhere else."""
    for position, message in enumerate(messages):
        calls = [b.id for b in message.blocks if isinstance(b, ToolCall)]
        results = [b.id for b in message.blocks if isinstance(b, ToolResult)]
        assert message.blocks
        assert len(set(calls)) == len(calls)
        if calls:
            after = messages[position + 1]
            assert after.role == "user"
            assert [b.id for b in after.blocks if isinstance(b, ToolResult)] == calls
            assert all(isinstance(b, ToolResult) for b in after.blocks[: len(calls)])
        if results:
            before = messages[position - 1] if position else None
            assert before is not None
            assert [b.id for b in before.blocks if isinstance(b, ToolCall)] == results
    seen = [b.id for m in messages for b in m.blocks if isinstance(b, ToolCall)]
    assert len(set(seen)) == len(seen)


class Improvised(ModelProvider):
    """Plays kinds of turns; keeps what it was asked, and how far the log was then."""

    name = "scripted"

    def __init__(self, turns: Sequence[str], window: int | None = None) -> None:
        self.turns = list(turns)
        self.window = window
        self.requests: list[tuple[int, str | None, tuple[Message, ...]]] = []
        self.stage: Stage | None = None
        self.count = 0

    def context_window(self, model: str | None) -> int | None:
        """Small enough, where given, that compaction happens."""
        return self.window

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """The next turn."""
        if request.system == ASK:
            yield TurnEnd((Text("It went on."),), "stop", Usage(5, 5))
            return
        assert self.stage is not None
        self.requests.append((self.stage.info.last_seq, request.model, tuple(request.messages)))
        self.count += 1
        kind = self.turns.pop(0) if self.turns else "text"
        if kind == "raises":
            raise RuntimeError("a bug in the provider")
        if kind == "busy":
            raise ProviderError("overloaded", "busy", transient=True, retry_after=0)
        if kind in ("breaks", "broken_off"):
            yield TextDelta("I was about to")
            if kind == "breaks":
                raise ProviderError("network", "gone", transient=True)
            return
        yield self._end(kind)

    def _end(self, kind: str) -> TurnEnd:
        def one(name: str, id: str = "c", **args: Any) -> ToolCall:
            return ToolCall(f"{id}{self.count}", name, args)

        guarded = one("guarded", "g", n=self.count)
        match kind:
            case "one":
                blocks: tuple[Any, ...] = (Text("Let me."), one("ok", n=self.count))
            case "two":
                blocks = (one("ok", "a", n=self.count), one("ok", "b", n=-self.count))
            case "parallel":
                blocks = (one("quick", "a"), one("quick", "b"), one("ok", n=self.count), one("quick", "d"))
            case "mixed":
                blocks = (one("ok", "a"), one("ask_user", "b", message="Which?"), one("ok", "d"))
            case "fails":
                blocks = (one("fails"),)
            case "unknown":
                blocks = (one("nothing"), ToolCall(f"x{self.count}", "ok", None, raw="{", problem="not JSON"))
            case "ask":
                options = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
                blocks = (one("ask_user", message="Which?", options=options, free_text=False),)
            case "asks":
                blocks = (one("ask_user", "a", message="One?"), one("ask_user", "b", message="Two?"))
            case "guarded":
                blocks = (one("ok", "a"), guarded, one("ok", "b"))
            case "hang":
                blocks = (one("ok", "a"), one("hang"), one("ok", "b"))
            case "cut":
                return TurnEnd((Text("and "),), "length", Usage(1, 1))
            case "cut_call":
                return TurnEnd((ToolCall(f"c{self.count}", "ok", None, "{", "it was cut"),), "length", Usage(1, 1))
            case "empty":
                return TurnEnd((Text(" "),), "stop", Usage(1, 0))
            case "thinking_only":
                return TurnEnd((), "stop", None)
            case "refusal":
                return TurnEnd((Text("No."), one("ok")), "refusal", Usage(1, 1))
            case "pause":
                return TurnEnd((Text("pausing"),), "pause", Usage(1, 1))
            case "same_ids":
                blocks = (ToolCall("same", "ok", {}), ToolCall("same", "ok", {}), ToolCall("", "ok", {}))
            case "long":
                blocks = (Text("words " * 300), one("ok", n=self.count))
            case _:
                return TurnEnd((Text(f"Reply {self.count}."),), "stop", Usage(1, 1))
        return TurnEnd(blocks, "tool_calls", Usage(1, 1))


def the_driver(ran: list[str]) -> EvalDriver:
    """Its tools: one that works, fails, may run beside others, asks first, or has its session cancelled."""

    async def hang(args: dict[str, Any]) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(30)
        return ""

    async def quick(args: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return "quick"

    async def ok(args: dict[str, Any], context: ToolContext) -> str:
        ran.append(context.call)
        return f"fine {args}"

    return EvalDriver(
        tools=[
            tool_with_context("ok", ok),
            tool("fails", lambda args: [][1]),
            tool("quick", quick, parallel=True),
            tool_with_context("guarded", ok, default="ask"),
            tool("hang", hang),
        ]
    )


async def play(home: Path, turns: Sequence[str], actions: Sequence[str], window: int | None) -> Stage:
    """A session from its start through all the person does."""
    provider = Improvised(turns, window)
    stage = Stage(home, provider, the_driver([]))
    provider.stage = stage
    await stage.run("Begin.")
    for action in actions:
        match action:
            case "resume":
                await stage.run()
            case "words":
                await stage.run("More.")
            case _:
                await stage.answer(action)
    return stage


def all_acceptable(provider: Improvised) -> None:
    """Every request was one that an API takes; only a paused turn is sent back as the last message."""
    for _, _, messages in provider.requests:
        acceptable(messages)
        assert messages[-1].role == "user" or messages[-1].text == "pausing"


def prefixes_hold(stage: Stage) -> None:
    """Each request begins with the one before, unless the history went back or the model changed between."""
    provider = stage.provider
    back = [event.seq for event in stage.events(*GOES_BACK)]
    for (at, model, first), (then, other, second) in zip(provider.requests, provider.requests[1:], strict=False):
        if model == other and not any(at < seq <= then for seq in back):
            assert second[: len(first)] == first


def one_result_each(events: Sequence[Event]) -> None:
    """No call of the log has two results."""
    results = [event.data["call"] for event in events if event.kind == "tool_result"]
    assert len(set(results)) == len(results)


async def dies_at(home: Path, events: Sequence[Event], stage: Stage) -> None:
    """The process dies once the last of `events` is stored; another one goes on."""
    provider = Improvised((), stage.provider.window)
    ran: list[str] = []
    other = Stage(home, provider, the_driver(ran), session=f"s-{len(events)}", store=stage.store)
    provider.stage = other
    other.store.create_session(stage.info.__class__(id=other.session, kind="run", provider="scripted"), [])
    other.store.append(other.session, [(event.kind, event.data) for event in events])
    before = project(other.events())
    intents = before.intents - {before.parked}
    await other.run("Where were we?" if len(events) % 2 else None)
    one_result_each(other.events())
    all_acceptable(provider)
    assert not intents & set(ran)
    last_back = max((e.seq for e in events if e.kind in GOES_BACK), default=0)
    compacted = any(e.kind == "compaction" and e.seq > len(events) for e in other.events())
    if provider.requests and not compacted:
        for at, _, messages in stage.provider.requests:
            if last_back < at <= len(events):
                assert provider.requests[0][2][: len(messages)] == messages
    history = project(other.events())
    acceptable(history.messages[:-1] if history.pending else history.messages)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    turns=st.lists(st.sampled_from(TURNS), min_size=1, max_size=8),
    actions=st.lists(st.sampled_from(ACTIONS), max_size=4),
    window=st.sampled_from([None, None, 300]),
)
def test_any_conversation_may_die_anywhere_and_go_on(turns: list[str], actions: list[str], window: int | None) -> None:
    async def both() -> None:
        with tempfile.TemporaryDirectory() as home:
            stage = await play(Path(home), turns, actions, window)
            events = stage.events()
            one_result_each(events)
            all_acceptable(stage.provider)
            prefixes_hold(stage)
            for end in range(2, len(events) + 1, max(1, len(events) // 12)):
                await dies_at(Path(home), events[:end], stage)
            stage.store.close()

    asyncio.run(both())


ODD = (None, True, -1, 10**30, "", "x", [], {}, [[]], {"a": 1}, "completed", {"kind": "question", "id": []})


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a JSON value: the keys on the way to each place in it."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*path, key) for key, _ in inside] + [p for key, item in inside for p in places(item, (*path, key))]


def odd_at(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """A copy of a JSON value with something odd in one place."""
    copied = json.loads(json.dumps(value))
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = odd
    return copied


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("stop", {"stop": "awaiting_user", "waiting": {"kind": "question", "id": [], "message": {"a": 1}}}),
        ("message", {"role": "assistant", "text": "I", "finish": {}}),
        ("tool_result", {"call": "c", "ok": True, "output": "o", "status": []}),
    ],
)
async def test_a_record_with_something_odd_in_it_does_not_end_its_session(
    tmp_path: Path, kind: str, body: dict[str, Any]
) -> None:
    call = {"role": "assistant", "text": "", "blocks": [{"t": "call", "id": "c", "name": "ok", "args": {}, "raw": {}}]}
    events = [("started", {}), ("message", {"role": "user", "text": "Go."}), ("message", call), (kind, body)]
    stage = Stage(tmp_path, Improvised(()), the_driver([]))
    stage.provider.stage = stage
    stage.store.create_session(SessionInfo("s1", "run", provider="scripted", stop=body.get("stop")), events)
    outcome = await stage.run("And now?")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Reply 1.")
    all_acceptable(stage.provider)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_stands_in_a_place_of_a_record_the_session_goes_on(data: st.DataObject) -> None:
    turns = data.draw(st.lists(st.sampled_from(TURNS), min_size=1, max_size=6))
    actions = data.draw(st.lists(st.sampled_from(ACTIONS), max_size=3))

    async def damaged() -> None:
        with tempfile.TemporaryDirectory() as home:
            stage = await play(Path(home), turns, actions, None)
            events = [(event.kind, dict(event.data)) for event in stage.events()]
            hit = data.draw(st.sampled_from([n for n, (_, body) in enumerate(events) if body]))
            kind, body = events[hit]
            path = data.draw(st.sampled_from(places(body)))
            events[hit] = (kind, odd_at(body, path, data.draw(st.sampled_from(ODD))))
            provider = Improvised(("one",))
            other = Stage(Path(home), provider, the_driver([]), session="odd", store=stage.store)
            provider.stage = other
            info = stage.info.__class__(id="odd", kind="run", provider="scripted", stop=stage.info.stop)
            other.store.create_session(info, events)
            for outcome in (await other.run(), await other.run("More."), await other.answer("1")):
                assert outcome.stop is not Stop.PLATFORM_ERROR, outcome.record.evidence
            all_acceptable(provider)
            stage.store.close()

    asyncio.run(damaged())


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_damaged_record_leaves_a_history_that_every_api_takes(data: st.DataObject) -> None:
    turns = data.draw(st.lists(st.sampled_from(TURNS), min_size=1, max_size=8))
    actions = data.draw(st.lists(st.sampled_from(ACTIONS), max_size=3))

    async def damaged() -> None:
        with tempfile.TemporaryDirectory() as home:
            stage = await play(Path(home), turns, actions, data.draw(st.sampled_from([None, 300])))
            events = stage.events()
            all_acceptable(stage.provider)
            hit = data.draw(st.integers(0, len(events) - 1))
            broken = Event(stage.session, hit + 1, "", events[hit].kind, "{broken")
            history = project([*events[:hit], broken, *events[hit + 1 :]])
            acceptable(history.messages[:-1] if history.pending else history.messages)
            stage.store.close()

    asyncio.run(damaged())
