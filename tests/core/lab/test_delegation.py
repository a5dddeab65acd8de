"""An agent's children: what they are given, and that nothing widens it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core import Limits, Stop
from core.lab.delegation import DEEPEST
from tests.harness.eval_driver import eventually
from tests.harness.laboratory import Lab
from tests.harness.scripted import Gate, call

HELPER = {"helper": ["I helped."]}


def ask(preset: str = "helper", task: str = "Help.", **more: Any) -> list[Any]:
    return [call("agent", preset=preset, task=task, **more)]


async def test_a_child_gives_back_its_final_reply_and_the_digest_it_resolved_to(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"lead": [ask(), "Thanks."], **HELPER})
    digest = lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    outcome = await lab.run("lead")
    (result,) = lab.results(outcome.info.id)
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Thanks.")
    assert (result["ok"], result["output"]) == (True, "I helped.")
    data = result["data"]
    assert (data["preset"], data["agent"], data["digest"], data["channel"]) == ("helper", "helper", digest, "live")
    assert data["stop"] == "completed"


async def test_a_childs_session_stays_with_its_lineage(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"lead": [ask(), "Thanks."], **HELPER})
    digest = lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    lead = (await lab.run("lead")).info
    (row,) = lab.children(lead.id)
    child = lab.store.session(row["session"])
    assert (child.kind, child.parent, child.depth, child.digest) == ("child", lead.id, 1, digest)
    assert (child.status, child.stop) == ("stopped", "completed")
    kinds = [event.kind for event in lab.events(lead.id)]
    assert kinds.index("tool_call") < kinds.index("child") < kinds.index("tool_result")


async def test_a_child_sees_the_task_alone(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"lead": [ask(task="Count to three."), "Thanks."], **HELPER})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    await lab.run("lead", "A secret plan.")
    (request,) = lab.provider.asked("helper")
    assert [message.text for message in request.messages] == ["Count to three."]
    assert request.system == "helper plays along."


async def test_without_delegates_there_is_no_tool_for_children(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"lead": ["Alone."]})
    lab.agent("lead")
    await lab.run("lead")
    assert [tool.name for tool in lab.provider.requests[0].tools] == ["ask_user"]


@pytest.mark.parametrize(
    ("preset", "code"),
    [
        ("stranger", "not_listed"),
        ("nobody", "not_listed"),
        ("/etc/passwd", "not_a_preset"),
        ("../helper", "not_a_preset"),
        ("helper@../../x", "not_a_preset"),
        ("pip:helper==1.0", "not_a_preset"),
        ("https://example.com/agent", "not_a_preset"),
        ("delegates.presets[0]", "not_a_preset"),
        ("helper@latest", "not_listed"),
        ("ghost", "not_found"),
        ("draft", "not_found"),
        ("draft@latest", "not_found"),
        ("../listed/path", "not_a_preset"),
    ],
)
async def test_only_listed_presets_that_are_published_are_run(tmp_path: Path, preset: str, code: str) -> None:
    lab = Lab(tmp_path, {"lead": [ask(preset), "Then without."], **HELPER})
    lab.agent("helper")
    lab.agent("stranger")
    lab.agent("draft", live=False)
    lab.agent("lead", delegates=["helper", "ghost", "draft", "draft@latest", "../listed/path"])
    outcome = await lab.run("lead")
    (result,) = lab.results(outcome.info.id)
    assert (result["ok"], result["data"]["error"]) == (False, code)
    assert result["output"].startswith(f"{code}: ")
    assert outcome.stop is Stop.COMPLETED
    assert [info.id for info in lab.store.sessions()] == [outcome.info.id]


async def test_a_preset_may_name_a_digest_or_a_channel(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {})
    old, new = lab.agent("helper", "is old."), lab.agent("helper", "is new.")
    lab.publish("helper", old, "stable")
    by_digest = f"helper@{new.removeprefix('sha256:')[:12]}"
    lab.provider.cast = {"lead": [ask("helper@stable"), ask(by_digest), "Thanks."], **HELPER}
    lab.agent("lead", delegates=["helper@stable", by_digest])
    outcome = await lab.run("lead")
    assert [(r["data"]["digest"], r["data"]["channel"]) for r in lab.results(outcome.info.id)] == [
        (old, "stable"),
        (new, None),
    ]


async def test_twenty_levels_asked_for_end_at_the_cap(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"self": [ask("self"), "Enough."]})
    lab.agent("self", delegates=["self"], max_depth=16)
    outcome = await lab.run("self")
    depths = [info.depth for info in lab.store.sessions()]
    assert depths == list(range(DEEPEST + 1))
    last = lab.results(lab.store.sessions()[-1].id)
    assert last[0]["data"]["error"] == "too_deep"
    assert outcome.stop is Stop.COMPLETED


async def test_a_childs_own_max_depth_does_not_lift_its_parents(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"lead": [ask("middle"), "x"], "middle": [ask("helper"), "y"], **HELPER})
    lab.agent("helper")
    lab.agent("middle", delegates=["helper"], max_depth=16)
    lab.agent("lead", delegates=["middle"], max_depth=1)
    outcome = await lab.run("lead")
    (row,) = lab.children(outcome.info.id)
    assert lab.results(row["session"])[0]["data"]["error"] == "too_deep"


async def test_what_the_parent_may_not_do_its_child_may_not(tmp_path: Path) -> None:
    run = [call("run_sandbox", command="touch here")]
    lab = Lab(tmp_path, {"lead": [ask(), "x"], "helper": [run, "y"]})
    lab.agent("helper", policy={"run_sandbox": "allow"})
    lab.agent("lead", delegates=["helper"])
    outcome = await lab.run("lead")
    (row,) = lab.children(outcome.info.id)
    assert "There is no tool 'run_sandbox'" in lab.results(row["session"])[0]["output"]


async def test_the_parents_yes_is_no_yes_of_the_childs(tmp_path: Path) -> None:
    run = [call("run_sandbox", command="touch here")]
    lab = Lab(tmp_path, {"lead": [ask(), "x"], "helper": [run, "y"]})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"], policy={"run_sandbox": "allow"})
    outcome = await lab.run("lead")
    (row,) = lab.children(outcome.info.id)
    assert "There is no tool 'run_sandbox'" in lab.results(row["session"])[0]["output"]


async def test_ask_with_nobody_there_is_a_stop_of_the_child(tmp_path: Path) -> None:
    run = [call("run_sandbox", command="touch here")]
    lab = Lab(tmp_path, {"lead": [ask(), "Then without."], "helper": [run, "y"]})
    lab.agent("helper", policy={"run_sandbox": "allow"})
    lab.agent("lead", delegates=["helper"], policy={"run_sandbox": "ask"})
    outcome = await lab.run("lead")
    (result,) = lab.results(outcome.info.id)
    assert (result["ok"], result["data"]["stop"]) == (False, "needs_approval")
    assert outcome.stop is Stop.COMPLETED


async def test_a_standing_yes_to_the_child_does_not_answer_its_parents_ask(tmp_path: Path) -> None:
    run = [call("run_sandbox", command="touch here")]
    lab = Lab(tmp_path, {"lead": [ask(), "Then without."], "helper": [run, "y"]})
    lab.agent("helper", policy={"run_sandbox": "ask"})
    lab.agent("lead", delegates=["helper"], policy={"run_sandbox": "ask"})
    lab.store.set_value("grant:agent:helper:run_sandbox", True)
    outcome = await lab.run("lead")
    assert lab.results(outcome.info.id)[0]["data"]["stop"] == "needs_approval"


async def test_a_resumed_child_is_still_under_its_parents_policy(tmp_path: Path) -> None:
    run = [call("run_sandbox", command="touch here")]
    lab = Lab(tmp_path, {"lead": [ask(), "x"], "helper": ["First.", run, "y"]})
    lab.agent("helper", policy={"run_sandbox": "allow"})
    lab.agent("lead", delegates=["helper"])
    (row,) = lab.children((await lab.run("lead")).info.id)
    await lab.answer(row["session"], "Go on.")
    assert "There is no tool 'run_sandbox'" in lab.results(row["session"])[0]["output"]


async def test_a_childs_usage_counts_against_the_parents_limits(tmp_path: Path) -> None:
    spending = [call("ask_nobody")]
    lab = Lab(tmp_path, {"lead": [ask(), [call("more")], "Done."], "helper": [spending, spending, "y"]})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    outcome = await lab.run("lead", limits=Limits(steps=3))
    (row,) = lab.children(outcome.info.id)
    assert (outcome.stop, outcome.record.detail) == (Stop.BUDGET, "steps")
    assert lab.store.session(row["session"]).requests + outcome.info.requests == 3


async def test_extending_starts_from_what_the_whole_tree_has_spent(tmp_path: Path) -> None:
    spending = [call("ask_nobody")]
    lab = Lab(tmp_path, {"lead": [ask(), [call("more")], "Done."], "helper": [spending, spending, "y"]})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    outcome = await lab.run("lead", limits=Limits(steps=3))
    assert outcome.record.detail == "steps"
    assert (await lab.answer(outcome.info.id, "extend 2")).stop is Stop.COMPLETED


async def test_a_child_gets_a_share_of_what_is_left(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"lead": [ask(), "x"], **HELPER})
    lab.agent("helper", limits={"tokens": 1_000_000})
    lab.agent("lead", delegates=["helper"])
    outcome = await lab.run("lead", limits=Limits(steps=9, tokens=1015, usd="1.00", seconds=600))
    (row,) = lab.children(outcome.info.id)
    (started,) = lab.events(row["session"], "started")
    limits = dict(started.data["limits"])
    assert 250 < limits.pop("seconds") <= 300
    assert limits == {"steps": 4, "tokens": 500, "usd": "0.4999125"}  # half of what is left, by tokens


async def test_children_side_by_side_share_one_budget(tmp_path: Path) -> None:
    many = [call("agent", preset="helper", task=f"Help {n}.") for n in range(6)]
    lab = Lab(tmp_path, {"lead": [many, "x"], **HELPER})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    outcome = await lab.run("lead", limits=Limits(steps=9))
    shares = [lab.events(r["session"], "started")[0].data["limits"]["steps"] for r in lab.children(outcome.info.id)]
    refusals = [r["data"]["error"] for r in lab.results(outcome.info.id) if not r["ok"]]
    assert shares == [4, 2, 1]
    assert refusals == ["no_budget"] * 3


async def test_children_of_one_turn_run_side_by_side(tmp_path: Path) -> None:
    gates = [Gate(), Gate()]
    waiting = iter(gates)
    both = [call("agent", preset="helper", task="One."), call("agent", preset="helper", task="Two.")]
    lab = Lab(tmp_path, {"lead": [both, "x"], "helper": [lambda request: [next(waiting), request.messages[-1].text]]})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    session = lab.begin("lead")
    await asyncio.gather(*(gate.reached.wait() for gate in gates))
    for gate in reversed(gates):
        gate.release()
    await lab.supervisor.wait(session)
    assert [r["output"] for r in sorted(lab.results(session), key=lambda r: r["call"])] == ["One.", "Two."]


async def test_cancelling_the_parent_ends_its_children_resumably(tmp_path: Path) -> None:
    gate = Gate()
    lab = Lab(tmp_path, {"lead": [ask(), "x"], "helper": [[gate, "y"]]})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    session = lab.begin("lead")
    await gate.reached.wait()
    lab.supervisor.interrupt(session)
    outcome = await lab.supervisor.wait(session)
    (row,) = lab.children(session)
    child = lab.store.session(row["session"])
    assert outcome.stop is Stop.CANCELLED
    assert (child.status, child.stop) == ("stopped", "cancelled")
    assert lab.results(session)[0]["status"] == "cancelled"


async def test_an_interrupted_child_is_a_result_for_its_parent(tmp_path: Path) -> None:
    gate = Gate()
    lab = Lab(tmp_path, {"lead": [ask(), "Then without."], "helper": [[gate, "y"]]})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    session = lab.begin("lead")
    await gate.reached.wait()
    (row,) = lab.children(session)
    assert lab.supervisor.interrupt(row["session"])
    outcome = await lab.supervisor.wait(session)
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Then without.")
    assert lab.results(session)[0]["data"]["stop"] == "cancelled"
    await eventually(lambda: not lab.supervisor.running())


async def test_a_child_works_on_a_copy_of_what_it_is_handed(tmp_path: Path) -> None:
    make = [call("run_sandbox", command="mkdir -p notes && echo mine > notes/a.txt && echo other > b.txt")]
    change = [call("run_sandbox", command="cat notes/a.txt; ls; echo changed > notes/a.txt")]
    lab = Lab(tmp_path, {"lead": [make, ask(files=["notes", "/work/notes/a.txt"]), "x"], "helper": [change, "y"]})
    lab.agent("helper", policy={"run_sandbox": "allow"})
    lab.agent("lead", delegates=["helper"], policy={"run_sandbox": "allow"})
    outcome = await lab.run("lead")
    (row,) = lab.children(outcome.info.id)
    assert lab.results(row["session"])[0]["output"] == "mine\nnotes"
    own = lab.host.workspace_path(outcome.info.id)
    assert (own / "notes" / "a.txt").read_text() == "mine\n"
    assert (lab.host.workspace_path(row["session"]) / "notes" / "a.txt").read_text() == "changed\n"


DEEP = "d/" * 150


@pytest.mark.parametrize("path", ["link", "/etc/passwd", "../../agent.yaml", "missing", "dir/link", ".", "d", DEEP])
async def test_nothing_outside_the_workspace_can_be_handed_over(tmp_path: Path, path: str) -> None:
    """Nor directories without end inside of it."""
    links = "ln -s /etc/passwd link; mkdir dir; ln -s /etc/passwd dir/link"
    make = [call("run_sandbox", command=f"{links}; mkdir -p {DEEP}")]
    lab = Lab(tmp_path, {"lead": [make, ask(files=[path]), "x"], **HELPER})
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"], policy={"run_sandbox": "allow"})
    outcome = await lab.run("lead")
    result = lab.results(outcome.info.id)[1]
    assert (result["ok"], result["data"]["error"]) == (False, "bad_files")
    assert lab.children(outcome.info.id) == []


async def test_two_agents_are_compared_on_the_same_task(tmp_path: Path) -> None:
    compare = [call("agent_compare", baseline="old", candidate="new", task="Which year?")]
    lab = Lab(tmp_path, {"lead": [compare, "New it is."], "old": ["1999"], "new": ["2026"]})
    old, new = lab.agent("old"), lab.agent("new")
    lab.agent("lead", delegates=["old", "new"])
    outcome = await lab.run("lead")
    data = lab.results(outcome.info.id)[0]["data"]
    assert (data["baseline"]["output"], data["candidate"]["output"]) == ("1999", "2026")
    assert (data["baseline"]["digest"], data["candidate"]["digest"]) == (old, new)
    assert [row["preset"] for row in lab.children(outcome.info.id)] == ["old", "new"]


async def test_a_comparison_with_an_unlisted_preset_starts_nothing(tmp_path: Path) -> None:
    compare = [call("agent_compare", baseline="old", candidate="../new", task="Which year?")]
    lab = Lab(tmp_path, {"lead": [compare, "Well."]})
    lab.agent("old")
    lab.agent("lead", delegates=["old", "new"])
    outcome = await lab.run("lead")
    assert lab.results(outcome.info.id)[0]["data"]["error"] == "not_a_preset"
    assert lab.children(outcome.info.id) == []
