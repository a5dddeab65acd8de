"""A fork begins as another session stands, and neither of the two touches the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import CannotFork, Limits, Stop, fork_session
from core.history import project
from tests.harness.eval_driver import EvalDriver, Stage, tool
from tests.harness.scripted import call

TEA_OR_COFFEE = [{"id": "tea", "label": "Tea"}, {"id": "coffee", "label": "Coffee"}]


def other(stage: Stage, *script: object, session: str = "s2") -> Stage:
    """Another session of the same home."""
    return Stage(stage.home, list(script), stage.driver, session=session)


async def test_it_knows_what_was_said_and_costs_nothing_of_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Hello Ann."])
    await stage.run("I am Ann.")
    before = [event.to_json() for event in stage.events()]
    forked = other(stage, "You are Ann.")
    made = await fork_session(stage.host, "s1", new="s2")
    assert (made.parent, made.status, made.stop) == ("s1", "stopped", "completed")
    assert (made.requests, made.input_tokens, made.usd) == (0, 0, "0.00")
    outcome = await forked.run("Who am I?")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "You are Ann.")
    said = [message.text for message in forked.provider.requests[0].messages]
    assert said == ["I am Ann.", "Hello Ann.", "Who am I?"]
    assert forked.info.requests == 1
    assert [event.to_json() for event in stage.events()] == before


async def test_its_workspace_is_a_copy(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Done."])
    await stage.run("Begin")
    work = stage.host.workspace_path("s1")
    work.mkdir(parents=True, exist_ok=True)
    (work / "notes.md").write_text("first")
    (work / "out").symlink_to("/etc")
    await fork_session(stage.host, "s1", new="s2")
    copy = stage.host.workspace_path("s2")
    (copy / "notes.md").write_text("second")
    assert (work / "notes.md").read_text() == "first"
    assert (copy / "out").is_symlink()


async def test_a_question_is_asked_in_both_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[call("ask_user", message="Tea or coffee?", options=TEA_OR_COFFEE)], "Here is tea."])
    assert (await stage.run("Serve me")).stop is Stop.AWAITING_USER
    forked = other(stage, "Here is coffee.")
    await fork_session(stage.host, "s1", new="s2")
    assert (await forked.answer("coffee")).record.output == "Here is coffee."
    assert (await stage.answer("tea")).record.output == "Here is tea."
    assert "coffee" in next(iter(forked.results().values()))
    assert "tea" in next(iter(stage.results().values()))


async def test_what_was_allowed_there_is_asked_again_here(tmp_path: Path) -> None:
    driver = EvalDriver(policy={"send": "ask"}, tools=[tool("send", lambda args: "sent")])
    stage = Stage(tmp_path, [[call("send")], "Sent.", [call("send")]], driver)
    assert (await stage.run("Send it")).stop is Stop.NEEDS_APPROVAL
    assert (await stage.answer("session")).stop is Stop.COMPLETED
    forked = other(stage, [call("send")])
    await fork_session(stage.host, "s1", new="s2")
    assert (await forked.run("Again")).stop is Stop.NEEDS_APPROVAL


async def test_limits_count_what_is_spent_here(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["One.", "Two."])
    await stage.run("First", limits=Limits(steps=2))
    await stage.run("Second")
    assert (await stage.run("Third")).stop is Stop.BUDGET
    forked = other(stage, "Three.", "Four.")
    await fork_session(stage.host, "s1", new="s2")
    assert (await forked.run("Third")).record.output == "Three."
    assert (await forked.run("Fourth")).record.output == "Four."
    assert (await forked.run("Fifth")).stop is Stop.BUDGET


async def test_events_that_name_others_name_those_of_the_fork(tmp_path: Path) -> None:
    """`usage` stays behind, so every later event has another number here."""
    stage = Stage(tmp_path, [f"Answer {n}." for n in range(4)])
    for n in range(4):
        await stage.run(f"Question {n}")
    upto = stage.events("message")[3].seq
    stage.store.append("s1", [("compaction", {"summary": "Two questions.", "upto": upto})])
    await fork_session(stage.host, "s1", new="s2")
    here, there = project(stage.events()), project(other(stage).events())
    assert here.messages == there.messages
    assert len(here.messages) == 5


async def test_a_running_session_is_not_forked(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Done."])
    await stage.run("Begin")
    stage.store.append("s1", [("message", {"role": "user", "text": "More"})], {"stop": None, "ended": None})
    stage.store.claim("s1")
    with pytest.raises(CannotFork) as refused:
        await fork_session(stage.host, "s1")
    assert (refused.value.code, "artificer interrupt s1" in refused.value.hint) == ("running", True)


async def test_a_session_there_is_none_of_is_not_forked(tmp_path: Path) -> None:
    with pytest.raises(CannotFork, match="no session s9"):
        await fork_session(Stage(tmp_path).host, "s9")


async def test_a_fork_of_a_fork_goes_back_to_where_it_began(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["One."])
    await stage.run("First")
    second, third = other(stage, "Two."), other(stage, "Three.", session="s3")
    await fork_session(stage.host, "s1", new="s2")
    await second.run("Second")
    made = await fork_session(stage.host, "s2", new="s3")
    await third.run("Third")
    assert made.parent == "s2"
    said = [message.text for message in third.provider.requests[0].messages]
    assert said == ["First", "One.", "Second", "Two.", "Third"]
