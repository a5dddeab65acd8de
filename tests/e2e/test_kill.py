"""What kill -9 leaves behind, at every event boundary and at any time: nothing lost, nothing done twice."""

from __future__ import annotations

import itertools
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.marker import Home, Play
from tests.harness.warm import Death, Warm


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    scratch = tmp_path_factory.mktemp("kill")
    with Warm() as warm:
        yield Home(scratch / "home", warm).publish(scratch / "marker")


def played(home: Home, scene: str, deaths: Mapping[int, Death] | None = None) -> Play:
    """A session from its task to its end, with everything checked."""
    play = Play(home, scene)
    with play.checking.server:
        play.to_the_end(deaths)
    play.check(f"{scene} {deaths}")
    return play


def at_once(work: Iterable[Callable[[], None]]) -> None:
    """Do it all, two at a time; every failure is told."""
    with ThreadPoolExecutor(2) as pool:
        failures = [f.exception() for f in [pool.submit(job) for job in work]]
    found = [f"{error}: {error.__cause__ or ''}" for error in failures if error is not None]
    assert not found, f"{len(found)} of {len(failures)}:\n" + "\n".join(found[:20])


# --- at every event boundary ---------------------------------------------------------------------------


def cut_up(home: Home, scene: str, drive: int, when: str, kind: str | None, killed: list[Play]) -> None:
    """Play the scene again and again, its nth drive dying one moment later each time, until it outlives that."""
    for count in range(1, 100):
        play = played(home, scene, {drive: Death(when, count, kind)})
        if not play.killed:
            return
        killed.append(play)
    raise AssertionError("it always dies")


@pytest.mark.parametrize(
    ("scene", "kind", "drives", "marks"),
    [
        ("calls", "draft", 1, 3),
        ("question", "answer", 2, 0),
        ("approval", "approval", 2, 3),
        ("compaction",) * 2 + (1, 3),
    ],
)
def test_an_uncut_session_meets_what_the_cut_ones_are_cut_in(
    home: Home, scene: str, kind: str, drives: int, marks: int
) -> None:
    play = played(home, scene)
    assert play.result is not None
    assert play.result["output"].endswith("-end: all done.")
    assert kind in {line["kind"] for line in play.shown}
    assert (len(play.drives), sum(home.marks(play.session).values())) == (drives, marks)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scene", ["calls", "question", "approval", "compaction"])
def test_killed_at_every_event_boundary_it_goes_on_with_nothing_lost_or_done_twice(home: Home, scene: str) -> None:
    drives = len(played(home, scene).drives)
    killed: list[Play] = []
    chains = itertools.product(range(drives), ("unsaved", "stored", "shown"), (None, "draft"))
    at_once(lambda chain=chain: cut_up(home, scene, *chain, killed) for chain in chains)
    assert len(killed) >= 20


# --- at any time ---------------------------------------------------------------------------------------


def killed_at_random(home: Home, number: int, longest_s: float) -> Play:
    """A session whose run was killed at some time or other, once it was there."""
    chance = random.Random(number)
    play = Play(home, "calls", f"go {number}")
    play.checking.server.__enter__()
    while not play.session:
        play.drive("run", "marker", play.task, kill_after_s=chance.uniform(0, longest_s))
    return play


def gone_on_with(home: Home, number: int, play: Play, longest_s: float) -> None:
    """Its transcript holds what was shown; it goes on, through another death for every third, to its end."""
    before = home.transcript(play.session)
    play.check_shown(before)
    if number % 3 == 0 and play.next_words() is not None:
        play.drive(*play.next_words() or (), kill_after_s=random.Random(-number).uniform(0, longest_s))
    play.to_the_end()
    play.checking.server.__exit__(None, None, None)
    after = play.check(f"number {number}")
    assert after[: len(of_log(before))] == of_log(before)


def of_log(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Without what was still streaming."""
    return [row for row in rows if row["kind"] != "draft"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_at_200_times_it_leaves_200_readable_sessions_with_nothing_lost_or_done_twice(home: Home) -> None:
    began = time.monotonic()
    played(home, "calls")
    longest = time.monotonic() - began
    plays: dict[int, Play] = {}

    def kill(number: int) -> None:
        plays[number] = killed_at_random(home, number, longest)

    at_once((lambda n=n: kill(n)) for n in range(200))
    rows = {row["id"]: row for row in home.run("sessions")[0]}
    states = Counter(rows[play.session]["status"] for play in plays.values())
    assert set(states) <= {"interrupted", "stopped"}
    assert states["interrupted"] >= 100, states
    at_once((lambda n=n, play=play: gone_on_with(home, n, play, longest)) for n, play in plays.items())


# --- damaged by hand -----------------------------------------------------------------------------------

DAMAGES: dict[str, str] = {
    "garbage": "UPDATE event SET body = 'no JSON at all' WHERE id & 4294967295 = ?",
    "bytes": "UPDATE event SET body = x'00ff8041' WHERE id & 4294967295 = ?",
    "cut": "UPDATE event SET body = substr(body, 1, length(body) / 2) WHERE id & 4294967295 = ?",
    "deleted": "DELETE FROM event WHERE id & 4294967295 = ?",
}


class Damaged:
    """Copies of a home with one session in it, each with one record damaged."""

    def __init__(self, home: Home, scratch: Path, ends: Death | None) -> None:
        self.scratch = scratch
        self.play = Play(Home(scratch / "whole", home.warm).publish(scratch / "marker"), "damage")
        with self.play.checking.server:
            self.play.drive("run", "marker", "go", death=ends)
        self.events = of_log(self.play.home.transcript(self.play.session))

    def goes_on(self, damage: str, seq: int, *words: str) -> None:
        """Damage the record, read the session, and go on with it to its end."""
        play = Play(self.play.home.copy(self.scratch / f"{damage}-{seq}"), "damage")
        play.session = self.play.session
        with closing(sqlite3.connect(play.home.home / "artificer.db")) as db, db:
            db.execute(DAMAGES[damage], (seq,))
        assert [row["id"] for row in play.home.run("sessions")[0]] == [play.session]
        rows = of_log(play.home.transcript(play.session))
        if damage != "deleted" or seq < len(self.events):  # whether the last one is missing nobody can tell
            assert "damaged" in rows[seq - 1]["data"], rows[seq - 1]
        assert [row for row in rows if row["seq"] != seq] == [row for row in self.events if row["seq"] != seq]
        with play.checking.server:
            play.drive("resume", play.session, *words)
            play.to_the_end()
        assert play.checking.violations == []


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("ends", "words"),
    [(None, ("-m", "go on")), (Death("shown", 1, "tool_result"), ())],
    ids=["asked", "killed"],
)
def test_a_record_damaged_by_hand_is_shown_in_its_place_and_the_session_goes_on(
    home: Home, tmp_path: Path, ends: Death | None, words: tuple[str, ...]
) -> None:
    damaged = Damaged(home, tmp_path, ends)
    places = itertools.product(DAMAGES, range(1, len(damaged.events) + 1))
    at_once(lambda place=place: damaged.goes_on(*place, *words) for place in places)


def test_a_damaged_question_is_shown_in_its_place_and_the_session_goes_on(home: Home, tmp_path: Path) -> None:
    damaged = Damaged(home, tmp_path, None)
    asked = next(event["seq"] for event in damaged.events if event["data"].get("tool") == "ask_user")
    damaged.goes_on("cut", asked, "-m", "go on")
