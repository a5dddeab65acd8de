"""The conversation projected from events, one fact at a time: damage, compaction, going back, nudges amid calls."""

from __future__ import annotations

from typing import Any

from core import Event, Message, Text, ToolCall, ToolResult
from core.history import LOST_MESSAGE, UNREADABLE, History, blocks_from_json, blocks_to_json, project, repairs
from core.provider import Opaque, Thinking


class Log:
    """Events with running numbers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, kind: str, /, **data: Any) -> Log:
        self.events.append(Event("s", len(self.events) + 1, "", kind, data=data))
        return self

    def broken(self, kind: str) -> Log:
        self.events.append(Event("s", len(self.events) + 1, "", kind, "{half"))
        return self

    def said(self, text: str) -> Log:
        return self.add("message", role="user", text=text)

    def replied(self, *blocks: Any, finish: str = "stop") -> Log:
        return self.add("message", role="assistant", blocks=blocks_to_json(blocks), finish=finish)

    def called(self, *ids: str) -> Log:
        return self.replied(*(ToolCall(id, "t", {}) for id in ids), finish="tool_calls")

    def result(self, id: str, output: str = "ok") -> Log:
        return self.add("tool_call", call=id, tool="t", args={}).add("tool_result", call=id, ok=True, output=output)

    def project(self) -> History:
        return project(self.events)


def texts(history: History) -> list[str]:
    return [m.text or "/".join(b.output for b in m.blocks if isinstance(b, ToolResult)) for m in history.messages]


def test_blocks_are_read_as_they_were_stored() -> None:
    blocks = (
        Text("hello"),
        Thinking("hm", "p", "m", {"signature": "s"}),
        Opaque("p", {"type": "server_tool_use"}),
        ToolCall("c", "t", {"a": 1}),
        ToolCall("d", "t", None, "{", "cut"),
        ToolResult("c", False, "no"),
    )
    assert blocks_from_json(blocks_to_json(blocks)[:5]) == blocks[:5]
    assert blocks_from_json([{"t": "new kind"}, "x", None]) == ()


def test_a_damaged_result_is_said_to_be_unreadable_once_the_conversation_goes_on() -> None:
    log = Log().said("go").called("a", "b").result("a").add("tool_call", call="b").broken("tool_result").said("on")
    assert texts(log.project()) == ["go", "", f"ok/{UNREADABLE}", "on"]


def test_a_damaged_message_of_the_persons_leaves_a_place_for_it() -> None:
    assert texts(Log().broken("message").project()) == [LOST_MESSAGE]
    assert texts(Log().said("a").replied(Text("b")).broken("message").project()) == ["a", "b", LOST_MESSAGE]


def test_a_damaged_answer_takes_its_results_with_it() -> None:
    log = Log().said("go").broken("message").result("a").replied(Text("done"))
    assert texts(log.project()) == ["go", "done"]


def test_a_damaged_intent_makes_every_open_call_unknown_after_a_crash() -> None:
    history = Log().said("go").called("a").broken("tool_call").project()
    assert [body["call"] for kind, body in repairs(history, None) if kind == "tool_result"] == ["a"]


def test_mending_is_done_once() -> None:
    log = Log().said("go").called("a", "b").add("tool_call", call="a")
    for kind, body in repairs(log.project(), None):
        log.add(kind, **body)
    history = log.project()
    assert list(history.pending) == ["b"]
    assert repairs(history, None) == []


def test_the_call_a_stop_waits_on_is_not_unknown_until_it_was_answered() -> None:
    log = Log().said("go").called("a").add("tool_call", call="a").add("stop", stop="awaiting_user", waiting={"id": "a"})
    assert repairs(log.project(), None) == []
    log.add("stop", stop="provider_error", waiting=None)
    assert repairs(log.project(), None) == []
    log.add("answer", kind="approval")
    assert repairs(log.project(), None) != []


def test_a_draft_becomes_an_incomplete_message_and_a_blank_one_nothing() -> None:
    history = Log().said("go").project()
    kinds = [kind for kind, _ in repairs(history, ("m1", "I was", ""))]
    assert kinds == ["message", "repair"]
    assert repairs(history, ("m1", " ", "thinking")) == []


def test_a_nudge_amid_open_calls_follows_their_results() -> None:
    log = Log().said("go").called("a", "b").result("a").add("nudge", text="try else").result("b")
    assert texts(log.project()) == ["go", "", "ok/ok", "try else"]


def test_a_compaction_replaces_what_it_summarised() -> None:
    log = Log().said("go").called("a").result("a").called("b").result("b")
    log.add("compaction", summary="so far", upto=4)
    assert texts(log.project()) == ["so far", "", "ok"]


def test_results_whose_calls_went_with_a_summary_go_too() -> None:
    log = Log().said("go").called("a").add("tool_call", call="a").broken("tool_result").called("b").result("b")
    log.add("compaction", summary="so far", upto=4)
    history = log.project()
    assert texts(history) == ["so far", "", "ok"]
    assert history.messages[1] == Message("assistant", (ToolCall("b", "t", {}),))


def test_going_back_keeps_what_ends_with_the_person_or_a_result() -> None:
    log = Log().said("go").called("a").result("a").called("b").result("b")
    history = log.project()
    assert history.before(7) == 3
    log.add("rewind", messages=3, before=7)
    assert (texts(log.project()), log.project().turn) == (["go", "", "ok"], "model")


def test_a_rewind_that_would_leave_nothing_changes_nothing() -> None:
    log = Log().said("go").called("a").add("rewind", messages=0, before=1)
    assert list(log.project().pending) == ["a"]


def test_pieces_of_a_cut_reply_are_joined_and_words_end_them() -> None:
    log = Log().said("go").replied(Text("one "), finish="length").add("nudge", text="go on")
    log.replied(Text("two"), finish="length")
    assert (log.project().reply, log.project().cuts) == ("one two", 2)
    log.said("stop").replied(Text("three"))
    assert (log.project().reply, log.project().cuts) == ("three", 0)


def test_whose_turn_it_is() -> None:
    log = Log()
    assert log.project().turn == "person"
    assert log.said("go").project().turn == "model"
    assert log.called("a").project().turn == "tools"
    assert log.result("a").project().turn == "model"
    assert log.replied(Text("wait"), finish="pause").project().turn == "model"
    assert log.replied(Text("done")).project().turn == "person"


def test_kinds_of_a_newer_version_change_nothing() -> None:
    log = Log().said("go").add("hologram", x=1).replied(Text("done"))
    assert texts(log.project()) == ["go", "done"]
