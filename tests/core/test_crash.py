"""What survives: events before anyone sees them, intents before what they intend, and everything after kill -9."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core import Event, Stop, StoreError, ToolContext
from impl.store.schema import SEQ_MASK
from tests.harness.eval_driver import EvalDriver, Stage, eventually, tool, tool_with_context
from tests.harness.scripted import Gate, call


async def test_every_event_is_in_the_store_before_it_is_shown(tmp_path: Path) -> None:
    missing: list[Event] = []

    def watch(event: Event) -> None:
        with sqlite3.connect(tmp_path / "artificer.db") as other:
            found = other.execute("SELECT count(*) FROM event").fetchone()[0]
            draft = other.execute("SELECT count(*) FROM draft").fetchone()[0]
        if (event.kind == "draft" and not draft) or (event.kind != "draft" and found < event.seq):
            missing.append(event)

    driver = EvalDriver(tools=[tool("add", lambda args: "3")])
    stage = Stage(tmp_path, [["Let me see", call("add")], "done"], driver)
    await stage.run("Add", watch=watch)
    assert missing == []


async def test_the_intent_is_stored_before_the_tool_runs(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def look(args: dict[str, Any], context: ToolContext) -> str:
        with sqlite3.connect(tmp_path / "artificer.db") as other:
            rows = other.execute("SELECT body FROM event WHERE kind = 'tool_call'").fetchall()
        seen.append((context.call, [body for (body,) in rows]))
        return "ok"

    driver = EvalDriver(tools=[tool_with_context("look", look)])
    await Stage(tmp_path, [[look_call := call("look", n=1)], "done"], driver).run("Look")
    ((called, rows),) = seen
    assert called == look_call.id
    assert f'"call":"{look_call.id}"' in rows[0]


async def test_streamed_text_is_stored_though_no_more_of_it_comes(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["Slowly but ", gate := Gate(), "surely"]])
    task = stage.begin("Speak")
    await gate.reached.wait()
    await eventually(lambda: stage.store.draft("s1") is not None)
    assert stage.store.draft("s1") == ("m1", "Slowly but ", "")
    gate.release()
    await task
    assert stage.store.draft("s1") is None


DIES = """
import asyncio, os, sys
from pathlib import Path
from tests.harness.eval_driver import EvalDriver, Stage, tool
from tests.harness.scripted import Gate, call

home, where = Path(sys.argv[1]), sys.argv[2]

async def die(args):
    (home / "ran").write_text((home / "ran").read_text() + "x" if (home / "ran").exists() else "x")
    print("ready", flush=True)
    await asyncio.sleep(1000)

async def main():
    gate = Gate()
    turn = ["I was about to", gate] if where == "stream" else [call("ok"), call("die"), call("ok")]
    stage = Stage(home, [turn], EvalDriver(tools=[tool("ok", lambda args: "fine"), tool("die", die)]))
    task = stage.begin("Go")
    if where == "stream":
        await gate.reached.wait()
        while stage.store.draft("s1") is None:
            await asyncio.sleep(0.005)
        print("ready", flush=True)
    await task

asyncio.run(main())
"""


def killed(home: Path, where: str) -> None:
    """A process that is killed while its session is in a tool or a stream."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", DIES, str(home), where], stdout=subprocess.PIPE, cwd=root)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()


async def test_a_call_that_was_running_at_kill_9_is_unknown_and_never_runs_again(tmp_path: Path) -> None:
    killed(tmp_path, "tool")
    ran: list[str] = []
    driver = EvalDriver(tools=[tool("ok", lambda args: ran.append("ok") or "fine"), tool("die", lambda args: "again")])
    stage = Stage(tmp_path, ["I see."], driver)
    assert stage.info.status == "interrupted"
    outcome = await stage.run()
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "I see.")
    first, second, third = stage.provider.requests[0].messages[-1].blocks
    assert first.output == "fine"
    assert (second.ok, second.output.startswith("The outcome of this call is unknown")) == (False, True)
    assert third.output == "fine"
    assert ran == ["ok"]
    assert (tmp_path / "ran").read_text() == "x"
    assert stage.kinds().count("repair") == 1


async def test_text_shown_before_kill_9_becomes_an_incomplete_message(tmp_path: Path) -> None:
    killed(tmp_path, "stream")
    stage = Stage(tmp_path, ["go on."])
    assert (await stage.run()).record.output == "go on."
    shown = [e.data for e in stage.events("message") if e.data.get("incomplete")]
    assert [row["text"] for row in shown] == ["I was about to"]
    assert stage.provider.requests[0].messages[1].text == "I was about to"


async def test_an_approved_call_that_was_running_at_a_crash_never_runs_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[call("ask_user", message="Sure?")]])
    await stage.run("Go")
    question = stage.events("stop")[-1].data["waiting"]["id"]
    # Its answer is stored, and the process dies before its result is.
    stage.store.append("s1", [("answer", {"waiting": question, "kind": "question", "text": "yes", "choice": []})])
    later = stage.again(["done"])
    await later.run()
    assert later.results()[question].startswith("The outcome of this call is unknown")


@pytest.mark.parametrize("seq", range(1, 10))
async def test_one_damaged_record_leaves_the_session_readable_and_able_to_go_on(tmp_path: Path, seq: int) -> None:
    driver = EvalDriver(tools=[tool("add", lambda args: "3")])
    stage = Stage(tmp_path, [["Let me", call("add")], "done"], driver)
    await stage.run("Add")
    assert len(stage.events()) == 9
    stage.store.close()
    with sqlite3.connect(tmp_path / "artificer.db") as other:
        other.execute("UPDATE event SET body = '{\"half\": ' WHERE id & ? = ?", (SEQ_MASK, seq))
        assert other.total_changes == 1
    later = Stage(tmp_path, ["and on"], driver)
    assert len(later.events()) == 9
    outcome = await later.run("Go on.")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "and on")


class Full:
    """A store whose disk is full from some append on."""

    def __init__(self, store: Any, kind: str, forever: bool) -> None:
        self._store = store
        self._kind = kind
        self._forever = forever
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, session: str, events: Any, columns: Any = None) -> Any:
        if any(kind == self._kind for kind, _ in events) or (self._forever and self.failed):
            self.failed = True
            raise StoreError("disk_full", "The disk is full.", "Free some space.")
        return self._store.append(session, events, columns)


@pytest.mark.parametrize("kind", ["message", "tool_call", "tool_result"])
async def test_a_full_disk_ends_the_drive_with_a_clear_error_and_gives_the_session_up(
    tmp_path: Path, kind: str
) -> None:
    ran: list[str] = []
    driver = EvalDriver(tools=[tool("add", lambda args: ran.append("add") or "3")])
    stage = Stage(tmp_path, [[call("add")], "done"], driver)
    real = stage.store
    stage.host.store = Full(real, kind, forever=True)
    with pytest.raises(StoreError, match="disk is full"):
        await stage.run("Add")
    assert real.owner_socket("s1") is None
    assert real.session("s1").status == "interrupted"
    stage.host.store = real
    assert (await stage.run()).stop is Stop.COMPLETED
    assert ran.count("add") <= 1 + (kind == "message")


async def test_a_full_disk_that_has_room_for_the_stop_again_says_so_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[call("add")]], EvalDriver(tools=[tool("add", lambda args: "3")]))
    stage.host.store = Full(stage.store, "tool_result", forever=False)
    outcome = await stage.run("Add")
    assert (outcome.stop, outcome.record.detail) == (Stop.PLATFORM_ERROR, "disk_full")
    assert outcome.record.evidence["text"] == "The disk is full. Free some space."


async def test_an_answer_that_cannot_be_stored_leaves_the_session_waiting_for_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[call("add")], "done"], EvalDriver(tools=[tool("add", lambda args: "3", default="ask")]))
    real = stage.store
    assert (await stage.run("Add")).stop is Stop.NEEDS_APPROVAL
    stage.host.store = Full(real, "answer", forever=False)
    with pytest.raises(StoreError, match="disk is full"):
        await stage.answer("once")
    assert real.session("s1").stop == "needs_approval"
    stage.host.store = real
    assert (await stage.answer("once")).stop is Stop.COMPLETED
    assert [event.data["output"] for event in stage.events("tool_result")] == ["3"]


async def test_text_that_cannot_be_stored_while_it_streams_ends_the_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["One", gate := Gate(), "two", "three"]])
    real = stage.store
    tried = asyncio.Event()

    def set_draft(*args: Any) -> None:
        tried.set()
        raise StoreError("disk_full", "The disk is full.")

    full = Full(real, "never", forever=False)
    full.set_draft = set_draft  # type: ignore[attr-defined]
    stage.host.store = full
    task = stage.begin("Speak")
    await gate.reached.wait()
    await tried.wait()
    gate.release()
    outcome = await task
    assert (outcome.stop, outcome.record.detail) == (Stop.PLATFORM_ERROR, "disk_full")
