"""Whose turn it is, as a sign and a word, for every stop there is."""

from __future__ import annotations

import pytest

from core import SessionInfo, Stop
from tui.view.state import Other, state, state_of


@pytest.mark.parametrize("of", [*Stop, *Other])
def test_every_state_has_a_sign_and_a_word(of: Stop | Other) -> None:
    assert len(state(of).sign) == 1
    assert state(of).word


def test_no_two_stops_say_the_same() -> None:
    assert len({state(stop).word for stop in Stop}) == len(Stop)


@pytest.mark.parametrize(
    "stop",
    [
        Stop.AWAITING_USER,
        Stop.NEEDS_CREDENTIALS,
        Stop.NEEDS_APPROVAL,
        Stop.DOOM_LOOP,
        Stop.BUDGET,
        Stop.PROVIDER_ERROR,
        Stop.PLATFORM_ERROR,
    ],
)
def test_what_waits_for_the_person_says_so(stop: Stop) -> None:
    assert state(stop).yours
    assert state(stop).word.startswith("your turn")


@pytest.mark.parametrize(
    ("info", "word"),
    [
        (None, "new"),
        (SessionInfo("s", "run", status="running"), "working"),
        (SessionInfo("s", "run", status="interrupted"), "your turn · interrupted"),
        (SessionInfo("s", "run", stop="completed"), "done"),
        (SessionInfo("s", "run", stop="a stop of another version"), "a stop of another version"),
    ],
)
def test_a_session_goes_by_its_columns(info: SessionInfo | None, word: str) -> None:
    assert state_of(info).word == word
