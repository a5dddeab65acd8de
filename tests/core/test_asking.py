"""What waits for a person: approvals, questions, and how an answer goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core import Option, Stop, Waiting, read_answer
from core.answers import Answer, NoAnswer
from tests.harness.eval_driver import EvalDriver, OneSandbox, Stage, tool
from tests.harness.scripted import call


def guarded(ran: list[Any], **policy: str) -> EvalDriver:
    """An agent whose tool `send` asks first."""
    return EvalDriver(
        tools=[
            tool("send", lambda args: ran.append(args) or "sent", default="ask"),
            tool("note", lambda args: ran.append("note") or "noted"),
        ],
        policy=dict(policy),
    )


# --- approvals -------------------------------------------------------------------------------------------------


async def test_a_tool_that_asks_waits_and_shows_exactly_what_it_would_do(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [[send := call("send", to="Ann")]], guarded(ran))
    outcome = await stage.run("Send it")
    waiting = outcome.record.waiting
    assert outcome.stop is Stop.NEEDS_APPROVAL
    assert waiting is not None
    assert (waiting.kind, waiting.id, waiting.recommended) == ("approval", send.id, "once")
    assert [option.id for option in waiting.options] == ["once", "session", "always", "deny"]
    assert waiting.detail["args"] == {"to": "Ann"}
    assert ran == []
    assert stage.events("tool_call") == []


@pytest.mark.parametrize(("policy", "stop"), [("allow", Stop.COMPLETED), ("ask", Stop.NEEDS_APPROVAL)])
async def test_the_policy_wins_over_a_tools_default(tmp_path: Path, policy: str, stop: Stop) -> None:
    stage = Stage(tmp_path, [[call("send")], "done"], guarded([], send=policy))
    assert (await stage.run("Send")).stop is stop


async def test_once_allows_this_call_and_no_other(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [[call("send", n=1)], [call("send", n=2)]], guarded(ran))
    await stage.run("Send")
    assert (await stage.answer("once")).stop is Stop.NEEDS_APPROVAL
    assert ran == [{"n": 1}]


async def test_session_allows_the_tool_for_this_session_alone(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [[call("send", n=1)], [call("send", n=2)], "done", [call("send", n=3)]], guarded(ran))
    await stage.run("Send")
    assert (await stage.answer("session")).stop is Stop.COMPLETED
    assert ran == [{"n": 1}, {"n": 2}]
    stage.session = "another"
    assert (await stage.run("Send")).stop is Stop.NEEDS_APPROVAL


async def test_always_allows_the_tool_to_this_agent_and_no_other(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [[call("send")], "done", [call("send")], "done", [call("send")]], guarded(ran))
    await stage.run("Send", agent="clerk")
    await stage.answer("always")
    stage.session = "second"
    assert (await stage.run("Send", agent="clerk")).stop is Stop.COMPLETED
    stage.session = "third"
    assert (await stage.run("Send", agent="other")).stop is Stop.NEEDS_APPROVAL


async def test_what_the_builder_may_always_do_an_agent_of_the_name_may_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[call("send")], "done", [call("send")]], guarded([]))
    await stage.run("Send", kind="builder", agent="clerk")
    await stage.answer("always")
    stage.session = "second"
    assert (await stage.run("Send", agent="clerk")).stop is Stop.NEEDS_APPROVAL


async def test_deny_is_a_result_and_the_loop_goes_on(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [[send := call("send"), call("note")], "Then not."], guarded(ran))
    await stage.run("Send")
    outcome = await stage.answer("no")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Then not.")
    assert "The person did not allow this call of send" in stage.results()[send.id]
    assert ran == ["note"]


async def test_a_word_that_is_no_decision_asks_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[call("send")]], guarded([]))
    first = await stage.run("Send")
    again = await stage.answer("perhaps")
    assert (again.stop, again.record.waiting) == (first.stop, first.record.waiting)
    assert "is no decision" in stage.events("notice")[-1].data["text"]


async def test_a_pending_approval_survives_a_restart(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [[call("note"), call("send", n=1), call("note")]], guarded(ran))
    await stage.run("Send")
    later = stage.again(["done"])
    assert (await later.run()).stop is Stop.NEEDS_APPROVAL
    assert (await later.answer("once")).record.output == "done"
    assert ran == ["note", {"n": 1}, "note"]


async def test_words_instead_of_a_decision_give_the_call_its_result_and_go_on(tmp_path: Path) -> None:
    ran: list[Any] = []
    stage = Stage(tmp_path, [[send := call("send")], "done"], guarded(ran))
    await stage.run("Send")
    assert (await stage.run("Wait, to Bob instead.")).stop is Stop.COMPLETED
    assert "did not answer this, but wrote: Wait, to Bob" in stage.results()[send.id]
    assert ran == []


async def test_saying_nothing_leaves_what_is_waited_for_standing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[send := call("send")], "done"], guarded([]))
    await stage.run("Send")
    again = (await stage.run("  ")).record.waiting
    assert again is not None
    assert (again.kind, again.id) == ("approval", send.id)
    assert (await stage.answer("once")).stop is Stop.COMPLETED


async def test_a_session_that_goes_on_reads_as_running_and_then_as_stopped(tmp_path: Path) -> None:
    seen: list[Any] = []
    driver = EvalDriver(tools=[tool("look", lambda args: seen.append(stage.info) or "ok")])
    stage = Stage(tmp_path, ["first", [call("look")], "second"], driver)
    await stage.run("One")
    assert (stage.info.status, stage.info.stop) == ("stopped", "completed")
    await stage.run("Two")
    assert (seen[0].status, seen[0].stop, seen[0].ended) == ("running", None, None)
    assert stage.info.status == "stopped"


# --- the unsafe mode -----------------------------------------------------------------------------------------


def unsafe() -> OneSandbox:
    from impl.sandboxes.process import ProcessSandbox

    return OneSandbox(make=ProcessSandbox, why="bwrap is not installed")


async def test_without_a_sandbox_an_allowed_command_asks_and_says_that_it_is_unsafe(tmp_path: Path) -> None:
    turns = [[run := call("run_sandbox", command="echo hello")], "done"]
    stage = Stage(tmp_path, turns, EvalDriver(policy={"run_sandbox": "allow"}), sandboxes=unsafe())
    outcome = await stage.run("Go")
    assert outcome.stop is Stop.NEEDS_APPROVAL
    assert outcome.record.waiting is not None
    assert outcome.record.waiting.message.startswith("No sandbox: this would run directly on this machine")
    assert (await stage.answer("once")).stop is Stop.COMPLETED
    assert stage.results()[run.id] == "hello"


async def test_one_yes_for_the_session_covers_later_commands_without_a_sandbox(tmp_path: Path) -> None:
    command = call("run_sandbox", command="true")
    turns = [[command], [command], "done", [command], "done"]
    stage = Stage(tmp_path, turns, EvalDriver(policy={"run_sandbox": "allow"}), sandboxes=unsafe())
    await stage.run("Go")
    assert (await stage.answer("session")).stop is Stop.COMPLETED
    assert (await stage.run("Once more")).stop is Stop.COMPLETED


# --- questions -------------------------------------------------------------------------------------------------

OPTIONS = [
    {"id": "red", "label": "Red wine"},
    {"id": "white", "label": "White wine"},
    {"id": "water", "label": "Water"},
]


def ask(**args: Any) -> Any:
    return call("ask_user", **{"message": "What to drink?", "options": OPTIONS, **args})


async def test_a_question_waits_with_its_options_and_recommendation(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[question := ask(recommended="water")]])
    outcome = await stage.run("Serve")
    assert outcome.stop is Stop.AWAITING_USER
    assert outcome.to_json()["waiting"] == {
        "kind": "question",
        "id": question.id,
        "message": "What to drink?",
        "options": OPTIONS,
        "recommended": "water",
        "names": [],
    }


@pytest.mark.parametrize("text", ["white", "2", "2.", "White wine", "WHITE"])
async def test_an_option_is_named_by_id_number_or_label(tmp_path: Path, text: str) -> None:
    stage = Stage(tmp_path, [[question := ask()], "done"])
    await stage.run("Serve")
    assert (await stage.answer(text)).stop is Stop.COMPLETED
    assert json.loads(stage.results()[question.id]) == {"choice": ["white"], "text": text}


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("all", ["red", "white", "water"]),
        ("1,3", ["red", "water"]),
        ("3 1", ["red", "water"]),
        ("2-3", ["white", "water"]),
        ("red and water", ["red", "water"]),
        ("Red wine, Water", ["red", "water"]),
    ],
)
async def test_several_options_may_be_taken_where_the_question_says_so(
    tmp_path: Path, text: str, choice: list[str]
) -> None:
    stage = Stage(tmp_path, [[question := ask(multiple=True, free_text=False)], "done"])
    await stage.run("Serve")
    await stage.answer(text)
    assert json.loads(stage.results()[question.id])["choice"] == choice


async def test_options_that_are_plain_words_are_their_own_ids(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[question := ask(options=["red wine", "water"], recommended="water")], "done"])
    first = await stage.run("Serve")
    assert first.record.waiting is not None
    assert [(o.id, o.label) for o in first.record.waiting.options] == [("red wine", "red wine"), ("water", "water")]
    assert first.record.waiting.recommended == "water"
    await stage.answer("2")
    assert json.loads(stage.results()[question.id])["choice"] == ["water"]


async def test_an_answer_that_fits_no_option_asks_again_where_no_words_are_taken(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[ask(free_text=False)], "done"])
    first = await stage.run("Serve")
    again = await stage.answer("beer")
    assert (again.stop, again.record.waiting) == (first.stop, first.record.waiting)
    assert len(stage.provider.requests) == 1
    assert (await stage.answer("3")).stop is Stop.COMPLETED


async def test_words_of_the_persons_own_are_an_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[question := ask()], "done"])
    await stage.run("Serve")
    await stage.answer("Beer, cold")
    assert json.loads(stage.results()[question.id]) == {"choice": [], "text": "Beer, cold"}


async def test_several_questions_of_one_turn_are_asked_one_after_the_other(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[ask(message="Drink?"), ask(message="Food?")], "done"])
    first = await stage.run("Serve")
    second = await stage.answer("1")
    assert first.record.waiting is not None
    assert second.record.waiting is not None
    assert (first.record.waiting.message, second.record.waiting.message) == ("Drink?", "Food?")
    assert (await stage.answer("2")).stop is Stop.COMPLETED


async def test_calls_beside_a_question_run_once_each_in_call_order(tmp_path: Path) -> None:
    ran: list[Any] = []
    driver = EvalDriver(tools=[tool("note", lambda args: ran.append(args["n"]) or "ok")])
    turn = [before := call("note", n=1), question := ask(), after := call("note", n=2)]
    stage = Stage(tmp_path, [turn, "done"], driver)
    await stage.run("Serve")
    assert ran == [1]
    await stage.again().answer("1")
    assert ran == [1, 2]
    later = Stage(tmp_path, [], driver)
    assert list(later.results()) == [before.id, question.id, after.id]


async def test_a_question_waits_again_after_a_plain_resume(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[ask()]])
    first = await stage.run("Serve")
    again = await stage.again().run()
    assert (again.stop, again.record.waiting) == (first.stop, first.record.waiting)


async def test_a_reply_of_a_run_completes_it_and_a_resume_says_so_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Forty-two."])
    first = await stage.run("Ask")
    again = await stage.run()
    assert (again.stop, again.record.output) == (first.stop, first.record.output) == (Stop.COMPLETED, "Forty-two.")
    assert len(stage.provider.requests) == 1


async def test_a_plain_reply_of_the_builder_asks_and_an_answer_is_the_next_message(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Where is it?", "And which branch?"])
    assert (await stage.run("Build", kind="builder")).stop is Stop.AWAITING_USER
    assert (await stage.answer("At /src")).record.output == "And which branch?"
    assert stage.provider.requests[1].messages[-1].text == "At /src"


async def test_a_question_with_two_options_of_one_id_is_a_result_not_a_stop(tmp_path: Path) -> None:
    twice = [{"id": "a", "label": "A"}, {"id": "a", "label": "B"}]
    stage = Stage(tmp_path, [[bad := ask(options=twice)], "done"])
    assert (await stage.run("Serve")).stop is Stop.COMPLETED
    assert "same id" in stage.results()[bad.id]


def test_all_is_no_option_of_a_question_that_takes_one() -> None:
    options = (Option("a", "A"), Option("b", "B"))
    assert isinstance(read_answer(Waiting("question", "c", "?", options, free_text=False), "all"), NoAnswer)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("addpet", ("op:add",)),
        ("tag store", ("tag:store",)),
        ("addPet, tag store", ("op:add", "tag:store")),
        ("getPet", ()),
        ("add", ()),
    ],
)
def test_an_option_is_named_by_what_its_label_begins_with_where_that_is_one(text: str, choice: tuple[str, ...]) -> None:
    labels = {"op:add": "addPet — POST /pet", "tag:store": "tag store: 4", "a": "getPet — one", "b": "getPet — all"}
    options = tuple(Option(id, label) for id, label in labels.items())
    read = read_answer(Waiting("question", "c", "?", options, multiple=True, free_text=False), text)
    assert (read.choice if isinstance(read, Answer) else ()) == choice


OFFERS = {
    "credentials": ("retry", "end"),
    "doom_loop": ("hint", "retry", "switch", "end"),
    "budget": ("extend", "end"),
}


@pytest.mark.parametrize(
    ("kind", "text", "verb"),
    [
        ("credentials", "1", "retry"),
        ("credentials", "2", "end"),
        ("credentials", "say end", "end"),
        ("doom_loop", "2", "retry"),
        ("doom_loop", "say end", "end"),
        ("budget", "2", "end"),
    ],
)
def test_what_is_offered_is_taken_by_number_or_label_whatever_is_waited_for(kind: str, text: str, verb: str) -> None:
    options = tuple(Option(id, f"say {id}") for id in OFFERS[kind])
    read = read_answer(Waiting(kind, "w", "?", options), text)  # type: ignore[arg-type]
    assert isinstance(read, Answer)
    assert read.verb == verb


@pytest.mark.parametrize(("kind", "text"), [("doom_loop", "1"), ("doom_loop", "3"), ("budget", "1")])
def test_an_option_that_needs_more_says_so_where_it_is_named_alone(kind: str, text: str) -> None:
    options = tuple(Option(id, f"say {id}") for id in OFFERS[kind])
    read = read_answer(Waiting(kind, "w", "?", options), text)  # type: ignore[arg-type]
    assert isinstance(read, NoAnswer)


def test_an_empty_answer_is_none() -> None:
    assert isinstance(read_answer(Waiting("question", "c", "?"), "  "), NoAnswer)


@pytest.mark.parametrize(
    "text", ["extend", "extend 0", "extend -3", "extend x", "more", "extend NaN", "extend Infinity"]
)
def test_a_budget_is_extended_by_a_positive_number_or_not_at_all(text: str) -> None:
    assert isinstance(read_answer(Waiting("budget", "steps", "?"), text), NoAnswer)
