"""An agent that leaves marks, its loopback model, and a person who drives it: everything in it can be counted.

with Warm() as warm:
    home = Home(tmp_path / "home", warm).publish(tmp_path / "marker")
    play = Play(home, "question")            # a scene of SCENES
    with play.checking.server:
        play.to_the_end()
    play.check("the question")
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from impl.store.sqlite import SqliteStore
from tests.harness.checking import CheckingServer
from tests.harness.servers import Reply, openai_chunks, sse
from tests.harness.warm import Command, Death, Warm

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


def play_script(scene: Sequence[str]) -> Callable[[int, Any], Any]:
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
        assert command.code == 0, (command.code, words, command.stderr.read(), lines[-1:])
        return lines

    def stop(self, session: str) -> str | None:
        """The stop it stands at, as `sessions` lists it; one that has gone on since is `interrupted`."""
        store = SqliteStore(self.home)
        until = time.monotonic() + 10
        try:
            info = store.session(session)
            while info is not None and info.status == "running" and time.monotonic() < until:
                time.sleep(0.02)  # a child that was being forked when it was killed has its lock for a moment longer
                info = store.session(session)
            events = list(store.events(session))
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


class Play:
    """One session played to its end by a person who answers, resumes, and sees every line that is printed."""

    def __init__(
        self, home: Home, scene: str, task: str = "go", script: Callable[[int, Any], Any] | None = None
    ) -> None:
        self.home = home
        self.task = task
        self.shown: list[dict[str, Any]] = []
        self.drives: list[list[dict[str, Any]]] = []
        self.session = ""
        self.killed = 0
        self.result: dict[str, Any] | None = None
        summary = lambda text: f"Done: step{reached(text) - 1}."  # noqa: E731
        self.checking = CheckingServer("openai_compatible", script or play_script(SCENES[scene]), summary)
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

    def race(self, *commands: Sequence[str], apart_s: Sequence[float] = ()) -> list[Command]:
        """Run several commands at once, each so many seconds after the one before, to their ends."""
        started: list[Command] = []
        for words, pause in itertools.zip_longest(commands, apart_s, fillvalue=0.0):
            time.sleep(float(pause or 0))
            started.append(self.home.warm.start([*words, "--json"], self.env))
        readers = [threading.Thread(target=command.read) for command in started]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.shown += [line for command in started for line in command.lines if line.get("type") == "event"]
        return started

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
