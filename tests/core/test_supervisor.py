"""Many sessions in one process: started, interrupted, answered, followed; none in another's way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core import Event, LaunchInput, Stop, Supervisor, UnknownResource
from core.launch import Busy, NoSuchSession
from impl.store.sqlite import SqliteStore
from tests.harness.eval_driver import EvalDriver, Stage, eventually, make_host, tool
from tests.harness.scripted import Gate, ScriptedProvider, call


def supervised(home: Path, script: Any = (), driver: Any = None) -> tuple[Supervisor, ScriptedProvider, Any]:
    provider = ScriptedProvider(script)
    host = make_host(home, driver=driver or EvalDriver(), provider=provider)
    return Supervisor(host), provider, host


def launch(host: Any, task: str | None = "Go", **fields: Any) -> LaunchInput:
    return LaunchInput(host=host, task=task, provider="scripted", **fields)


async def test_a_session_is_started_and_waited_for(tmp_path: Path) -> None:
    supervisor, _, host = supervised(tmp_path, ["done"])
    session = supervisor.start(launch(host))
    assert supervisor.running() == {session}
    assert (await supervisor.wait(session)).record.output == "done"
    await eventually(lambda: not supervisor.running())
    assert (await supervisor.wait(session)).record.output == "done"


async def test_words_said_while_it_runs_arrive_at_its_next_turn(tmp_path: Path) -> None:
    gate = Gate()

    async def work(args: dict[str, Any]) -> str:
        await gate.wait()
        return "worked"

    driver = EvalDriver(tools=[tool("work", work)])
    supervisor, provider, host = supervised(tmp_path, [[call("work")], "done"], driver)
    session = supervisor.start(launch(host))
    await gate.reached.wait()
    supervisor.answer(session, "Be quick.")
    gate.release()
    await supervisor.wait(session)
    assert [m.text for m in provider.requests[1].messages[-1:]] == ["Be quick."]
    assert provider.requests[1].messages[-2].blocks[0].output == "worked"


async def test_words_said_during_the_last_turn_get_a_turn_of_their_own(tmp_path: Path) -> None:
    supervisor, provider, host = supervised(tmp_path, [["Almost", gate := Gate(), " done."], "Really done."])
    session = supervisor.start(launch(host))
    await gate.reached.wait()
    supervisor.answer(session, "One more thing.")
    gate.release()
    assert (await supervisor.wait(session)).record.output == "Really done."
    assert provider.requests[1].messages[-1].text == "One more thing."


async def test_words_said_while_a_question_is_on_its_way_stand_for_its_answer(tmp_path: Path) -> None:
    turns = [["Well", gate := Gate(), question := call("ask_user", message="Which?")], "Fine."]
    supervisor, _, host = supervised(tmp_path, turns)
    session = supervisor.start(launch(host))
    await gate.reached.wait()
    supervisor.answer(session, "The first one.")
    gate.release()
    assert (await supervisor.wait(session)).record.output == "Fine."
    results = {e.data["call"]: e.data["output"] for e in host.store.events(session, kinds=["tool_result"])}
    assert "but wrote: The first one." in results[question.id]


class SlowToClose(EvalDriver):
    """A driver that takes a while to let go after its stop."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    async def close(self) -> None:
        await self.gate.wait()


async def test_an_answer_given_as_soon_as_the_question_shows_is_taken_as_one(tmp_path: Path) -> None:
    gate = Gate()
    turns = [[question := call("ask_user", message="Which?", options=[{"id": "a", "label": "A"}])], "Fine."]
    supervisor, _, host = supervised(tmp_path, turns, SlowToClose(gate))
    session = supervisor.start(launch(host))
    await gate.reached.wait()
    waiting = asyncio.create_task(supervisor.wait(session))
    await asyncio.sleep(0)
    supervisor.answer(session, "1")
    gate.release()
    assert (await waiting).record.output == "Fine."
    results = {e.data["call"]: e.data["output"] for e in host.store.events(session, kinds=["tool_result"])}
    assert results[question.id] == '{"choice": ["a"], "text": "1"}'


async def test_interrupt_stops_it_and_it_can_go_on(tmp_path: Path) -> None:
    supervisor, _, host = supervised(tmp_path, [["Hm", gate := Gate()], "done"])
    session = supervisor.start(launch(host))
    await gate.reached.wait()
    assert supervisor.interrupt(session)
    assert (await supervisor.wait(session)).stop is Stop.CANCELLED
    await eventually(lambda: not supervisor.running())
    assert not supervisor.interrupt(session)
    supervisor.resume(launch(host, None, session=session))
    assert (await supervisor.wait(session)).record.output == "done"


async def test_an_interrupt_at_the_very_start_still_leaves_a_session(tmp_path: Path) -> None:
    supervisor, _, host = supervised(tmp_path, [[Gate()]])
    session = supervisor.start(launch(host))
    assert supervisor.interrupt(session)
    assert (await supervisor.wait(session)).stop is Stop.CANCELLED
    assert host.store.session(session).stop == "cancelled"


async def test_an_interrupt_while_a_question_waits_changes_nothing(tmp_path: Path) -> None:
    supervisor, _, host = supervised(tmp_path, [[call("ask_user", message="Which?")]])
    session = supervisor.start(launch(host))
    await supervisor.wait(session)
    await eventually(lambda: not supervisor.running())
    assert not supervisor.interrupt(session)
    assert host.store.session(session).stop == "awaiting_user"


async def test_an_interrupt_while_it_closes_does_not_undo_its_stop(tmp_path: Path) -> None:
    gate = Gate()
    supervisor, _, host = supervised(tmp_path, ["done"], SlowToClose(gate))
    session = supervisor.start(launch(host))
    await gate.reached.wait()
    assert not supervisor.interrupt(session)
    gate.release()
    assert (await supervisor.wait(session)).stop is Stop.COMPLETED


async def test_a_follower_gets_every_event_once_in_order_and_drafts_between(tmp_path: Path) -> None:
    supervisor, _, host = supervised(tmp_path, [["Slowly", gate := Gate(), " done."]])
    session = supervisor.start(launch(host))
    seen: list[Event] = []

    async def follow() -> None:
        async for event in supervisor.subscribe(session):
            seen.append(event)
            if event.kind == "stop":
                return

    follower = asyncio.create_task(follow())
    await gate.reached.wait()
    await eventually(lambda: any(e.kind == "draft" and e.data["text"] == "Slowly" for e in seen))
    gate.release()
    await supervisor.wait(session)
    await follower
    stored = [e.seq for e in seen if e.kind != "draft"]
    assert stored == list(range(1, len(stored) + 1)) == [e.seq for e in host.store.events(session)]


async def test_a_follower_that_does_not_read_slows_nobody_and_misses_nothing(tmp_path: Path) -> None:
    driver = EvalDriver(tools=[tool("work", lambda args: str(args["n"]))])
    supervisor, _, host = supervised(tmp_path, [*([call("work", n=n)] for n in range(50)), "done"], driver)
    session = supervisor.start(launch(host))
    slow = supervisor.subscribe(session)
    first = await anext(slow)
    assert (await supervisor.wait(session)).stop is Stop.COMPLETED
    rest = [first]
    async for event in slow:
        rest.append(event)
        if event.kind == "stop":
            break
    assert [e.seq for e in rest] == [e.seq for e in host.store.events(session)]


async def test_followers_leave_nothing_behind(tmp_path: Path) -> None:
    supervisor, _, host = supervised(tmp_path, ["done"])
    session = supervisor.start(launch(host))
    follower = supervisor.subscribe(session)
    await anext(follower)
    await follower.aclose()
    await supervisor.wait(session)
    assert supervisor.bus._waiters == {}


async def test_five_hundred_sessions_at_once_each_keep_their_own(tmp_path: Path) -> None:
    driver = EvalDriver(tools=[tool("echo", lambda args: args["text"])])

    def turn(request: Any) -> Any:
        first = request.messages[0].text
        return [call("echo", text=first)] if len(request.messages) == 1 else f"it was {first}"

    supervisor, _, host = supervised(tmp_path, [turn for _ in range(1000)], driver)
    sessions = [supervisor.start(launch(host, f"task {n}")) for n in range(500)]
    outcomes = await asyncio.gather(*(supervisor.wait(session) for session in sessions))
    assert [outcome.record.output for outcome in outcomes] == [f"it was task {n}" for n in range(500)]
    for number, session in enumerate(sessions[:20]):
        results = [e.data["output"] for e in host.store.events(session, kinds=["tool_result"])]
        assert results == [f"task {number}"]


async def test_a_broken_bundle_stops_its_session_in_words(tmp_path: Path) -> None:
    def broken(host: Any, info: Any) -> Any:
        raise UnknownResource("There is no revision sha256:0 of clerk.")

    supervisor, _, host = supervised(tmp_path, [], broken)
    session = supervisor.start(launch(host, agent="clerk"))
    outcome = await supervisor.wait(session)
    assert (outcome.stop, outcome.record.detail) == (Stop.PLATFORM_ERROR, "unknown_resource")
    assert outcome.record.evidence["text"] == "There is no revision sha256:0 of clerk."
    assert host.store.session(session).status == "stopped"


async def test_a_driver_is_made_for_the_provider_that_was_given_itself(tmp_path: Path) -> None:
    made: list[Any] = []

    def note(host: Any, info: Any) -> Any:
        made.append(info)
        return EvalDriver()

    supervisor, provider, host = supervised(tmp_path, ["done"], note)
    session = supervisor.start(LaunchInput(host=host, task="Go", provider=provider))
    await supervisor.wait(session)
    assert made[0].provider == "scripted"


async def test_a_session_that_another_process_drives_is_busy(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [["Hm", gate := Gate()]])
    task = stage.begin("Go")
    await gate.reached.wait()
    other = Stage(tmp_path, [], store=SqliteStore(tmp_path))
    with pytest.raises(Busy):
        await other.run()
    gate.release()
    assert (await task).stop is Stop.COMPLETED


async def test_resuming_what_there_is_none_of_says_so(tmp_path: Path) -> None:
    supervisor, _, host = supervised(tmp_path)
    with pytest.raises(NoSuchSession):
        supervisor.resume(launch(host, session="none"))
    with pytest.raises(NoSuchSession):
        await supervisor.wait("none")


async def test_closing_settles_every_session(tmp_path: Path) -> None:
    gates = [Gate() for _ in range(5)]
    supervisor, _, host = supervised(tmp_path, [[gate] for gate in gates])
    sessions = [supervisor.start(launch(host)) for _ in gates]
    await asyncio.gather(*(gate.reached.wait() for gate in gates))
    await supervisor.close()
    assert [host.store.session(session).stop for session in sessions] == ["cancelled"] * 5
    assert supervisor.running() == frozenset()


async def test_a_process_that_is_closing_takes_nothing_on_any_more(tmp_path: Path) -> None:
    supervisor, provider, host = supervised(tmp_path, ["done", "never"])
    session = supervisor.start(launch(host))
    await supervisor.wait(session)
    await supervisor.close()
    with pytest.raises(NoSuchSession, match="closing"):
        supervisor.answer(session, "One more thing.")
    with pytest.raises(NoSuchSession, match="closing"):
        supervisor.start(launch(host))
    assert (supervisor.running(), len(provider.requests)) == (frozenset(), 1)


async def test_interrupting_a_record_ends_what_works_on_it_and_all_it_runs(tmp_path: Path) -> None:
    gate = Gate()
    supervisor, _, host = supervised(tmp_path, [[gate, "done"]])

    async def work() -> None:
        session = supervisor.start(launch(host))
        try:
            await supervisor.wait(session)
        except asyncio.CancelledError:
            supervisor.interrupt(session)
            await supervisor.wait(session)
            raise

    task = asyncio.create_task(work())
    supervisor.adopt("record", task)
    await gate.reached.wait()
    assert [supervisor.interrupt("record"), supervisor.interrupt("record")] == [True, True]
    with pytest.raises(asyncio.CancelledError):
        await task
    assert supervisor.interrupt("record") is False
    assert [info.stop for info in host.store.sessions()] == ["cancelled"]
