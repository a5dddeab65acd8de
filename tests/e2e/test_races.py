"""Several processes that reach for one session at the same moment: one drives, the others hand over or follow."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.marker import Home, Play
from tests.harness.servers import HOLD, Reply, openai_chunks, sse
from tests.harness.warm import Death, Warm

TIMES = [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 25))]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    scratch = tmp_path_factory.mktemp("races")
    with Warm() as warm:
        yield Home(scratch / "home", warm).publish(scratch / "marker")


def stops(play: Play) -> list[str]:
    """The session's stops, in order."""
    return [e["data"]["stop"] for e in play.home.transcript(play.session) if e["kind"] == "stop"]


def user_words(play: Play) -> list[str]:
    """What the person said, by message or by answer."""
    events = play.home.transcript(play.session)
    return [
        e["data"]["text"]
        for e in events
        if e["kind"] == "answer" or (e["kind"] == "message" and e["data"]["role"] == "user")
    ]


@pytest.mark.parametrize("number", TIMES)
def test_of_two_that_resume_an_interrupted_session_at_once_both_end_with_its_result(home: Home, number: int) -> None:
    play = Play(home, "calls")
    with play.checking.server:
        play.drive("run", "marker", "go", death=Death("shown", 1, "tool_call"))
        asked = play.checking.turns
        words = ("resume", play.session)
        both = play.race(words, words, apart_s=[0, random.Random(number).uniform(0, 0.2)])
    assert [command.code for command in both] == [0, 0], [c.stderr.read() for c in both]
    assert both[0].lines[-1] == both[1].lines[-1]
    assert play.checking.turns == asked + 3, "every step was asked for once"
    play.check("two that resume")


@pytest.mark.parametrize("number", TIMES)
def test_of_two_answers_at_once_one_is_the_answer_and_neither_is_lost(home: Home, number: int) -> None:
    play = Play(home, "question")
    with play.checking.server:
        play.drive("run", "marker", "go")
        apart = random.Random(number).uniform(0, 0.2)
        both = play.race(("answer", play.session, "red"), ("answer", play.session, "dark blue"), apart_s=[0, apart])
        assert [command.code for command in both] == [0, 0], [(c.lines, c.stderr.read()) for c in both]
        play.result = None
        play.to_the_end()
    events = play.check("two answers")
    assert sorted(user_words(play)) == ["dark blue", "go", "red"]
    assert len([e for e in events if e["kind"] == "answer"]) == 1
    assert stops(play)[-1] == "completed"


@pytest.mark.parametrize("number", TIMES)
def test_an_interrupt_from_a_third_process_ends_the_one_that_drives_and_the_one_that_follows(
    home: Home, number: int
) -> None:
    def script(turn: int, request: Any) -> Any:
        return Reply([sse(*openai_chunks("A long answer")[:2]), HOLD]) if turn == 0 else "Done."

    play = Play(home, "calls", script=script)
    with play.checking.server:
        driver = home.warm.start(["run", "marker", "go", "--json", "--stream"], play.env)
        play.session = next(line["session"] for line in driver if line.get("kind") == "draft")
        chance = random.Random(number)
        follower, interrupter = play.race(
            ("resume", play.session), ("interrupt", play.session), apart_s=[0, chance.uniform(0, 0.3)]
        )
        driver.read()
        assert (driver.code, interrupter.code) == (17, 0)
        assert driver.lines[-1]["stop"] == "cancelled"
        if follower.code == 17:
            assert follower.lines[-1] == driver.lines[-1]
        else:  # it came when all was over, and went on
            assert follower.lines[-1]["output"] == "Done."
    assert play.checking.violations == []


@pytest.mark.parametrize("words", [(), ("-m", "Stop after this.")], ids=["silent", "with words"])
def test_one_who_kills_the_driver_leaves_the_follower_with_the_next_step(home: Home, words: tuple[str, ...]) -> None:
    play = Play(home, "calls", script=lambda turn, request: Reply([sse(*openai_chunks("Long")[:2]), HOLD]))
    with play.checking.server:
        driver = home.warm.start(["run", "marker", "go", "--json", "--stream"], play.env)
        play.session = next(line["session"] for line in driver if line.get("kind") == "draft")
        follower = home.warm.start(["resume", play.session, *words, "--json", "--stream"], play.env)
        next(line for line in follower if line.get("kind") == "draft")
        driver.kill(signal.SIGKILL)
        follower.read()
    assert follower.code == 1
    assert follower.lines[-1]["code"] == "interrupted"
    assert play.session in follower.lines[-1]["hint"]
    assert ("what you said was not heard" in follower.lines[-1]["hint"]) == bool(words)
