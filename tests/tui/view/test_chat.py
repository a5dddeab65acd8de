"""The conversation as blocks, and that one more event changes only what it must."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from core import Event
from tests.harness.stage import question, ran, said, stopped
from tui.view.chat import Asked, Change, Chat, Noted, Said, Worked


class Talk:
    """A chat that is fed bodies, numbered as a log numbers them."""

    def __init__(self) -> None:
        self.chat = Chat()
        self._seq = count(1)

    def __call__(self, *bodies: tuple[str, Mapping[str, Any]]) -> list[Change]:
        changes: list[Change] = []
        for kind, data in bodies:
            seq = 0 if kind == "draft" else next(self._seq)
            changes += self.chat.apply(Event("s", seq, "", kind, data=data))
        return changes

    @property
    def blocks(self) -> list[Any]:
        return list(self.chat.blocks.values())


def draft(text: str, number: int = 1) -> tuple[str, dict[str, Any]]:
    return "draft", {"id": f"m{number}", "text": text, "thinking": ""}


def you(text: str) -> tuple[str, dict[str, Any]]:
    return "message", {"role": "user", "text": text}


def test_a_reply_takes_the_place_of_its_draft() -> None:
    talk = Talk()
    talk(you("hi"), draft("Hel"), draft("Hello th"))
    (change,) = talk(said("Hello there."))
    assert change.what == "replace"
    assert [type(block) for block in talk.blocks] == [Said, Said]
    assert talk.blocks[1] == Said("draft:m1", "agent", "Hello there.", seq=2)


def test_an_empty_reply_leaves_no_block_behind() -> None:
    talk = Talk()
    talk(draft("thinking …"))
    assert [change.what for change in talk(said(""))] == ["remove"]
    assert talk.blocks == []


def test_calls_that_follow_each_other_share_a_block_that_shows_the_last_few() -> None:
    talk = Talk()
    for number in range(10):
        talk(*ran(f"echo {number}", call=f"c{number}", code=number % 2))
    (block,) = talk.blocks
    assert isinstance(block, Worked)
    assert (block.count, block.failed) == (10, 5)
    assert [line.gist for line in block.shown] == ["$ echo 6", "$ echo 7", "$ echo 8", "$ echo 9"]


def test_a_card_closes_with_the_label_of_what_was_answered() -> None:
    talk = Talk()
    talk(stopped("awaiting_user", waiting=question("Which?", "Alpha", "Beta")))
    assert talk.chat.asked is not None
    talk(("answer", {"text": "2", "kind": "question", "choice": ["o2"]}))
    (block,) = talk.blocks
    assert isinstance(block, Asked)
    assert not block.active
    assert block.answer == "2 Beta"
    assert talk.chat.asked is None


def test_a_card_stays_open_while_only_notices_come() -> None:
    talk = Talk()
    talk(stopped("awaiting_user", waiting=question("Which?", "Alpha")), ("notice", {"text": "no answer"}))
    assert talk.chat.asked is not None


def test_a_second_stop_closes_the_card_of_the_first() -> None:
    talk = Talk()
    waits = question("Which?", "Alpha")
    talk(stopped("awaiting_user", waiting=waits), stopped("awaiting_user", waiting=waits))
    assert [block.active for block in talk.blocks] == [False, True]


def test_unknown_kinds_and_damage_are_shown() -> None:
    talk = Talk()
    talk(("hologram", {"of": "a cat"}))
    talk.chat.apply(Event("s", 9, "", "message", raw="{broken"))
    (block,) = talk.blocks
    assert isinstance(block, Noted)
    assert "hologram" in block.notes[0].text
    assert "cannot be read" in block.notes[1].text


def test_a_slice_from_the_middle_leaves_out_results_of_calls_it_has_not_seen() -> None:
    talk = Talk()
    assert talk(("tool_result", {"call": "c", "ok": True, "output": "x"})) == []


def test_one_more_event_costs_the_same_number_of_changes_after_a_thousand() -> None:
    talk = Talk()
    for number in range(1000):
        talk(you(f"q{number}"), said(f"a{number}", number))
    assert len(talk(you("one more"))) == 1


def notes(*bodies: tuple[str, dict[str, Any]]) -> list[str]:
    """What the notes of these events say."""
    talk = Talk()
    talk(*bodies)
    return [f"{note.sign} {note.text}" for block in talk.blocks if isinstance(block, Noted) for note in block.notes]


def test_what_was_asked_of_the_world_is_for_the_log_and_what_was_denied_for_the_conversation_too() -> None:
    facts = {"call": "c", "tool": "rates", "index": 0, "method": "GET", "url": "https://rates.example/now"}
    answered = ("effect", {**facts, "outcome": {"status": 200, "body": "1.09"}})
    denied = ("effect", {**facts, "outcome": {"denied": "host_not_allowed", "detail": "rates.example is not allowed"}})
    assert notes(("effect_intent", facts), answered) == []
    assert notes(denied) == ["⊘ GET https://rates.example/now was denied: rates.example is not allowed"]


def test_tools_forks_and_children_are_named_in_words() -> None:
    problem = {"code": "bad_schema", "path": "x", "message": "it has no schema", "hint": ""}
    assert notes(
        ("tool_check", {"tool": "fee", "registered": True, "problems": []}),
        ("tool_check", {"tool": "tide", "registered": False, "problems": [problem]}),
        ("forked", {"session": "s1", "seq": 9, "events": 8}),
        ("child", {"preset": "helper@live", "session": "s3"}),
        ("provider_session", {"provider": "codex", "native": "n"}),
    ) == [
        "⚙ tool fee is registered",
        "✗ tool tide is not registered: it has no schema",
        "↳ a fork of s1: what stands above was said there",
        "└ gave a task to helper@live · s3",
    ]
