"""What kill -9 leaves behind, at every event boundary and at any time: nothing lost, nothing done twice."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from impl.store.sqlite import SqliteStore
from tests.harness.checking import CheckingServer
from tests.harness.servers import Reply, openai_chunks, sse
from tests.harness.warm import Death, Warm

AGENT = """\
schema: artificer/v1
name: marker
description: Leaves marks.
skills: [mark]
corpus: true
policy:
  run_sandbox: allow
"""
SKILL = "---\nname: mark\ndescription: Leaves a mark.\n---\nRun scripts/mark.sh NAME.\n"


def mark(name: str, more: str = "true") -> dict[str, Any]:
    """A call whose side effect can be counted: a line in /work/marks."""
    return {"tool": "run_sandbox", "input": {"command": f"echo {name} >> marks; {more}"}, "id": name}


def do(name: str) -> Reply | Sequence[Any]:
    """What the model does in each step."""
    match name.partition("-")[2]:
        case "calls":
            return [f"{name}: I begin.", mark(f"{name}-a"), mark(f"{name}-b")]
        case "parallel":
            return [{"tool": "get_corpus", "input": {"path": "guide.md"}, "id": f"{name}-{n}"} for n in "abc"]
        case "stream":
            first, *rest = openai_chunks(f"{name}: a long answer begins", " and goes on", mark(name))
            drips = [piece for chunk in rest[:3] for piece in (sse(chunk), 0.055)]
            return Reply([sse(first), *drips, sse(*rest[3:])])
        case "question":
            question = {"message": f"{name}: which colour?", "options": [{"id": "red", "label": "Red"}]}
            return [{"tool": "ask_user", "input": question, "id": name}]
        case "approval":
            call = {"name": "mark", "script": "scripts/mark.sh", "args": [name]}
            return [mark(f"{name}-a"), {"tool": "run_skill", "input": call, "id": name}, mark(f"{name}-c")]
        case "long":
            return [mark(name, "seq 1 700")]
        case _:
            return [f"{name}: all done."]


SCENES = {
    "calls": ("calls", "parallel", "stream", "end"),
    "question": ("question", "end"),
    "approval": ("approval", "end"),
    "compaction": ("long", "long", "long", "end"),
    "damage": ("calls", "question", "end"),
}


def script(scene: Sequence[str]) -> Callable[[int, Any], Any]:
    """The next step after those the history knows of: a model whose run was killed goes on, it does not begin again."""
    return lambda turn, request: do(
        f"step{(n := reached(json.dumps(request['messages'])))}-{scene[min(n, len(scene) - 1)]}"
    )


def reached(text: str) -> int:
    """How many steps a history knows of."""
    return max((int(number) + 1 for number in re.findall(r"step(\d+)", text)), default=0)


class Home:
    """One home with one published agent, and the warm process that runs commands on it."""

    def __init__(self, home: Path, warm: Warm) -> None:
        self.home = home
        self.warm = warm

    def publish(self, bundle: Path) -> Home:
        """With the agent on it, written to the directory `bundle`."""
        for path, text in {
            "agent.yaml": AGENT,
            "persona.md": "You leave marks.\n",
            "skills/mark/SKILL.md": SKILL,
            "skills/mark/scripts/mark.sh": '#!/bin/sh\necho "$1" >> /work/marks\n',
            "corpus/guide.md": "# Guide\n\nLeave marks.\n",
        }.items():
            (bundle / path).parent.mkdir(parents=True, exist_ok=True)
            (bundle / path).write_text(text)
        (bundle / "skills/mark/scripts/mark.sh").chmod(0o755)
        for words in (("save", str(bundle)), ("validate", "marker"), ("publish", "marker")):
            self.run(*words)
        return self

    def copy(self, home: Path) -> Home:
        """The same once more, without workspaces."""
        shutil.copytree(self.home, home, ignore=shutil.ignore_patterns("run", "workspaces"))
        return Home(home, self.warm)

    def env(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ARTIFICER_", "OPENAI_", "ANTHROPIC_"))}
        return {**kept, "ARTIFICER_HOME": str(self.home), "ARTIFICER_PROVIDER": "openai_compatible", **more}

    def run(self, *words: str) -> list[Any]:
        """A command that reads or prepares; its lines."""
        command = self.warm.start([*words, "--json"], self.env())
        lines = command.read()
        assert command.code == 0, (lines, command.stderr.read())
        return lines

    def stop(self, session: str) -> str | None:
        """The stop it stands at, as `sessions` lists it; one that has gone on since is `interrupted`."""
        store = SqliteStore(self.home)
        try:
            info, events = store.session(session), list(store.events(session))
        finally:
            store.close()
        assert info is not None
        gone_on = [e.kind for e in itertools.takewhile(lambda e: e.kind != "stop", reversed(events))]
        stopped = len(gone_on) < len(events) and set(gone_on) <= {"notice", "settings"}
        assert (info.status, info.stop is not None) == (("stopped", True) if stopped else ("interrupted", False)), (
            gone_on
        )
        return info.stop

    def transcript(self, session: str) -> list[dict[str, Any]]:
        """Its events, and what still streamed when it was left."""
        rows: list[dict[str, Any]] = self.run("transcript", session, "--stream")[0]
        return rows

    def marks(self, session: str) -> Counter[str]:
        path = self.home / "workspaces" / session / "work" / "marks"
        return Counter(path.read_text().split() if path.exists() else ())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    scratch = tmp_path_factory.mktemp("kill")
    with Warm() as warm:
        yield Home(scratch / "home", warm).publish(scratch / "marker")


class Play:
    """One session played to its end by a person who answers, resumes, and sees every line that is printed."""

    def __init__(self, home: Home, scene: str, task: str = "go") -> None:
        self.home = home
        self.task = task
        self.shown: list[dict[str, Any]] = []
        self.drives: list[list[dict[str, Any]]] = []
        self.session = ""
        self.killed = 0
        self.result: dict[str, Any] | None = None
        summary = lambda text: f"Done: step{reached(text) - 1}."  # noqa: E731
        self.checking = CheckingServer("openai_compatible", script(SCENES[scene]), summary)
        self.env = home.env(**self.checking.environment, ARTIFICER_CONTEXT_WINDOW="3000")

    def drive(self, *words: str, death: Death | None = None, kill_after_s: float | None = None) -> int:
        """Run one command that drives; its exit code."""
        self.result = None
        command = self.home.warm.start([*words, "--json", "--stream"], self.env, death)
        timer = None if kill_after_s is None else threading.Timer(kill_after_s, command.kill)
        if timer is not None:
            timer.start()
        for line in command:
            if line["type"] == "event":
                self.session = line["session"]
                self.shown.append(line)
            elif line["type"] == "result":
                self.result = line
        self.drives.append(command.lines)
        code = command.code
        if timer is not None:
            timer.cancel()
        assert code != 1, (command.lines[-1:], command.stderr.read())
        return code

    def next_words(self) -> tuple[str, ...] | None:
        """What the person types next; None where there is nothing left to do."""
        if not self.session:
            return ("run", "marker", self.task)
        stop = self.result["stop"] if self.result is not None else self.home.stop(self.session)
        match stop:
            case "completed":
                return None
            case "awaiting_user":
                return ("answer", self.session, "red")
            case "needs_approval":
                return ("answer", self.session, "once")
            case None | "cancelled":
                return ("resume", self.session)
            case _:
                raise AssertionError(self.result or stop)

    def to_the_end(self, deaths: Mapping[int, Death] | None = None) -> None:
        """Drive until it is completed; the nth drive dies as `deaths` says."""
        for number in range(20):
            words = self.next_words()
            if words is None:
                return
            if self.drive(*words, death=(deaths or {}).get(number)) == -signal.SIGKILL:
                self.killed += 1
        raise AssertionError("it never ends")

    def check(self, what: str) -> list[dict[str, Any]]:
        """Nothing that was shown is lost, nothing was done twice, the history was valid all along; the events."""
        events = self.home.transcript(self.session)
        try:
            assert self.checking.violations == []
            seqs = [event["seq"] for event in events if event["kind"] != "draft"]
            assert seqs == list(range(1, len(seqs) + 1))
            self.check_shown(events)
            self.check_effects(events)
        except AssertionError as error:
            raise AssertionError(f"{what}, session {self.session}") from error
        return events

    def check_shown(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Every line that was printed is in the transcript; text that streamed, in a message or still a draft."""
        by_seq = {event["seq"]: event for event in events}
        said = [event["data"] for event in events if event["kind"] in ("message", "draft")]
        for line in self.shown:
            if line["kind"] == "draft":
                draft = line["data"]
                kept = [m for m in said if m.get("id") == draft["id"] and m["text"].startswith(draft["text"])]
                assert kept, (draft, said)
            else:
                assert by_seq[line["seq"]] == line

    def check_effects(self, events: Sequence[Mapping[str, Any]]) -> None:
        """No side effect happened twice; those of calls whose success is stored happened once."""
        marks = self.home.marks(self.session)
        assert [name for name, count in marks.items() if count > 1] == []
        calls = {e["data"]["call"]: e["data"]["tool"] for e in events if e["kind"] == "tool_call"}
        results = [e["data"] for e in events if e["kind"] == "tool_result"]
        assert len({r["call"] for r in results}) == len(results), "two results for one call"
        for result in results:
            if result["ok"] and calls.get(result["call"]) in ("run_sandbox", "run_skill"):
                assert marks[result["call"]] == 1, result


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
