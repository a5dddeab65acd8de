"""Two arms of a comparison: the same start, and neither sees what the other did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core import EffectRequest, SessionInfo
from core.effects.ledger import fingerprint
from core.lab.comparison import compare, preferred, side_by_side
from core.lab.evaluator import Bench
from core.lab.handover import BadStart, Start
from core.lab.judging import Preference, Rubric
from core.lab.records import Reading, Record
from core.lab.runner import Runner, Setting, resolve_preset
from tests.harness.eval_driver import eventually
from tests.harness.judges import Scripted
from tests.harness.laboratory import Lab
from tests.harness.scripted import Gate, call

TOOL = {
    "tools/note/tool.yaml": (
        "name: note\ndescription: Notes it.\ninput_schema: {type: object}\nhosts: [notes.example.com]\n"
    ),
    "tools/note/tool.py": (
        "def run(ctx, input):\n"
        "    for method in ('POST', 'GET', 'DELETE'):\n"
        "        answer = ctx.http.request(method, 'https://notes.example.com/').text\n"
        "    return answer\n"
    ),
}
WRITE = [call("run_sandbox", command="ls; echo mine >> shared.txt; cat shared.txt")]
SCRIPT = [WRITE, [call("note")], lambda request: request.messages[-1].blocks[0].output]


def on_record(lab: Lab) -> str:
    """A session that once posted a note and then read two, in this order."""
    lab.store.create_session(SessionInfo("recorded", "run"), [("started", {})])
    for method, text in (("POST", "noted"), ("GET", "one note"), ("GET", "two notes")):
        asked = {"tool": "note", "fingerprint": fingerprint(EffectRequest(method, "https://notes.example.com/"))}
        outcome = {"status": 200, "headers": [], "body": text, "encoding": "utf-8"}
        lab.store.append("recorded", [("effect", {**asked, "outcome": outcome})])
    return "recorded"


async def compared(lab: Lab, *presets: str, **job: Any) -> dict[str, Any]:
    record = Record.open(lab.host, lab.host.new_id(), "comparison", "test", {})
    jobs = [Setting("cast").job(resolve_preset(lab.store, preset), "Note it.", **job) for preset in presets]
    return await compare("Note it.", jobs, Runner(lab.host, lab.supervisor), record)


async def test_an_arm_that_writes_and_calls_a_recorded_service_is_invisible_to_the_other(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"old": SCRIPT, "new": SCRIPT})
    for name in ("old", "new"):
        lab.agent(name, tools=["note"], policy={"run_sandbox": "allow"}, files=TOOL)
    start = tmp_path / "start"
    start.mkdir()
    (start / "shared.txt").write_text("start\n")
    pair = await compared(lab, "old", "new", replay=on_record(lab), start=Start(start), network=False)
    for arm in ("baseline", "candidate"):
        wrote, noted = lab.results(pair[arm]["session"])
        assert wrote["output"] == "shared.txt\nstart\nmine"
        assert noted["output"].startswith("replay_miss: DELETE ")
        outcomes = [event.data["outcome"] for event in lab.events(pair[arm]["session"], "effect")]
        assert [outcome.get("body") for outcome in outcomes] == ["noted", "one note", None]
    assert (start / "shared.txt").read_text() == "start\n"


async def test_the_arms_run_at_the_same_time(tmp_path: Path) -> None:
    gates = {name: Gate() for name in ("old", "new")}
    lab = Lab(tmp_path, {name: [[gate, "done"]] for name, gate in gates.items()})
    lab.agent("old")
    lab.agent("new")

    async def release(request: Any) -> str:
        await eventually(lambda: all(gate.reached.is_set() for gate in gates.values()))
        for gate in gates.values():
            gate.release()
        return "done"

    lab.provider.cast["new"] = [[gates["new"], "done"]]
    lab.agent("starter")
    lab.provider.cast["starter"] = [release]
    starter = lab.begin("starter")
    pair = await compared(lab, "old", "new")
    await lab.supervisor.wait(starter)
    assert [pair[arm]["stop"] for arm in ("baseline", "candidate")] == ["completed", "completed"]


async def test_an_arm_that_cannot_begin_ends_the_other(tmp_path: Path) -> None:
    gate = Gate()
    lab = Lab(tmp_path, {"old": [[gate, "done"]]})
    lab.agent("old")
    preset = resolve_preset(lab.store, "old")
    good = Setting("cast").job(preset, "Go.", session="good")
    bad = Setting("cast").job(preset, "Go.", session="bad", start=Start(tmp_path / "nowhere"))
    with pytest.raises(BadStart, match="nowhere"):
        await side_by_side([good, bad], Runner(lab.host, lab.supervisor).run)
    assert lab.store.session("bad") is None
    assert lab.supervisor.running() == frozenset()


async def preference(lab: Lab, judge: Scripted, **bench: Any) -> Preference:
    """What `judge` finds of the arms `old` and `new`."""
    jobs = [Setting("cast").job(resolve_preset(lab.store, preset), "Say it.") for preset in ("old", "new")]
    pair = await side_by_side(jobs, Runner(lab.host, lab.supervisor).run)
    return await preferred(Bench(judge, **bench), Rubric("Short."), "Say it.", *pair, Reading(lab.host))


def two(tmp_path: Path, new: Any) -> Lab:
    lab = Lab(tmp_path, {"old": ["one"], "new": [new]})
    lab.agent("old")
    lab.agent("new")
    return lab


async def test_an_arm_that_did_not_complete_loses_whatever_a_judge_would_say(tmp_path: Path) -> None:
    judge = Scripted(["second", "first"])
    found = await preference(two(tmp_path, [call("ask_user", message="Which?")]), judge)
    assert (found.winner, found.state, judge.asked) == ("baseline", "vetoed", [])
    assert "awaiting_user" in found.why


async def test_a_judge_prefers_between_arms_that_completed(tmp_path: Path) -> None:
    judge = Scripted(["second", "first"])
    found = await preference(two(tmp_path, "two"), judge)
    assert (found.winner, found.state) == ("candidate", "judged")
    assert judge.asked == [("one", "two"), ("two", "one")]


async def test_a_judge_of_the_family_that_ran_an_arm_is_not_asked(tmp_path: Path) -> None:
    judge = Scripted(["second", "first"], families=frozenset({"cast"}))
    found = await preference(two(tmp_path, "two"), judge)
    assert (found.winner, found.state, judge.asked) == (None, "unjudged", [])
    forced = await preference(two(tmp_path / "again", "two"), judge, forced=True)
    assert (forced.winner, forced.kin) == ("candidate", True)
