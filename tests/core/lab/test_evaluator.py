"""A suite of sixty cases finds exactly what is wrong with an agent, without a network."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from core.lab.evaluator import Judged, evaluate, totals
from core.lab.labels import Label, UnknownCase, add_label, agreement, labels_now
from core.lab.records import Reading, Record
from core.lab.runner import Preset, Runner, Setting, resolve_preset
from core.lab.suite import BadSuite, load_suite
from impl.drivers.suite import in_suite
from impl.engines import open_engine
from tests.harness.laboratory import Lab, ObedientProvider

FAULTY_TOOL = [f"fee-{length}" for length in (41, 44, 47, 50)]
FAULTY_PERSONA = [f"tide-{harbour}-{n}" for n in range(1, 5) for harbour in ("norrby", "sundvik", "ekholm")]


def lab_with(tmp_path: Path, provider: Any = None) -> Lab:
    return Lab(tmp_path, provider or ObedientProvider(), environment=in_suite)


async def judged(lab: Lab, suite: Path, agent: str, only: tuple[str, ...] = ()) -> list[Judged]:
    loaded = load_suite(suite)
    preset: Preset = resolve_preset(lab.store, agent)
    record = Record.open(lab.host, lab.host.new_id(), "evaluation", "test", {"suite": loaded.to_json()})
    return await evaluate(
        loaded,
        preset,
        runner=Runner(lab.host, lab.supervisor),
        reading=Reading(lab.host),
        record=record,
        engine=open_engine(None, 4),
        setting=Setting(provider="scripted"),
        cases=[case for case in loaded.cases if not only or case.id in only],
    )


async def test_exactly_the_cases_of_the_two_faults_fail(tmp_path: Path, clerk: Path, suite: Path) -> None:
    lab = lab_with(tmp_path)
    lab.bundle(clerk)
    done = await judged(lab, suite, "harbour-clerk")
    assert totals(done) == {
        "cases": 60,
        "passed": 44,
        "failed": [*FAULTY_TOOL, *FAULTY_PERSONA],
        "unjudged": [],
    }
    why = {one.case.id: [v.check.kind for v in one.verdicts if not v.passed] for one in done if not one.passed}
    assert {name: why[name] for name in FAULTY_TOOL} == {name: ["number"] for name in FAULTY_TOOL}
    assert {name: why[name] for name in FAULTY_PERSONA} == {name: ["equals"] for name in FAULTY_PERSONA}


async def test_each_case_is_a_session_of_the_evaluation_and_recorded_once(
    tmp_path: Path, clerk: Path, suite: Path
) -> None:
    lab = lab_with(tmp_path)
    digest = lab.bundle(clerk)
    wanted = ("depth-norrby-1", "fee-41")
    await judged(lab, suite, "harbour-clerk", wanted)
    record, *cases = lab.store.sessions()
    assert (record.kind, {(c.kind, c.parent, c.digest) for c in cases}) == ("evaluation", {("case", record.id, digest)})
    rows = [event.data for event in lab.events(record.id, "case")]
    assert {(row["id"], row["passed"]) for row in rows} == {("depth-norrby-1", True), ("fee-41", False)}
    assert {row["session"] for row in rows} == {case.id for case in cases}


async def test_a_case_that_goes_on_later_is_still_in_its_suite(tmp_path: Path, clerk: Path, suite: Path) -> None:
    lab = lab_with(tmp_path)
    lab.bundle(clerk)
    (one,) = await judged(lab, suite, "harbour-clerk", ("depth-ekholm-1",))
    assert one.ran is not None
    outcome = await lab.answer(one.ran.session, "And again?")
    assert outcome.record.output == "12 metres"


async def test_a_case_does_not_go_on_in_a_suite_that_has_changed(tmp_path: Path, clerk: Path, suite: Path) -> None:
    copy = tmp_path / "suite"
    shutil.copytree(suite, copy)
    lab = lab_with(tmp_path)
    lab.bundle(clerk)
    (one,) = await judged(lab, copy, "harbour-clerk", ("depth-ekholm-1",))
    assert one.ran is not None
    (copy / "corpus" / "depths.md").write_text("The depth at Ekholm is 3 metres.\n")
    in_suite.__globals__["_loaded"].cache_clear()
    outcome = await lab.answer(one.ran.session, "And again?")
    assert outcome.stop == "platform_error"


def write(root: Path, text: str) -> Path:
    root.mkdir(exist_ok=True)
    (root / "suite.yaml").write_text("schema: artificer/suite/v1\nname: small\n" + text)
    return root


async def test_files_commands_and_answers_belong_to_a_case(tmp_path: Path) -> None:
    from tests.harness.scripted import call

    ask = [call("ask_user", message="Which name?")]
    work = [call("run_sandbox", command="cat given.txt > out.txt; echo $(wc -c < given.txt)")]
    lab = lab_with(tmp_path, Lab(tmp_path / "x", {"writer": [ask, work, "done"]}).provider)
    lab.agent("writer", policy={"run_sandbox": "allow"})
    suite = write(
        tmp_path / "suite",
        "cases:\n"
        "- id: good\n  task: Write.\n  files: {given.txt: hello}\n  answers: [Anna]\n  checks:\n"
        "  - file: {path: out.txt, equals: hello}\n  - command: {run: test -s out.txt}\n"
        "  - command: {run: cat out.txt, contains: hello}\n  - calls: {in_order: [ask_user, run_sandbox]}\n"
        "- id: unanswered\n  task: Write.\n"
        "- id: asks\n  task: Write.\n  checks: [stop: awaiting_user]\n"
        "- id: bad\n  task: Write.\n  answers: [Anna]\n  checks:\n"
        "  - file: {path: out.txt, contains: bye}\n  - command: {run: exit 3}\n  - limits: {tokens: 3}\n",
    )
    done = await judged(lab, suite, "writer")
    assert [one.passed for one in done] == [True, False, True, False]
    assert [v.passed for v in done[3].verdicts] == [True, False, False, False]
    assert "it stopped as awaiting_user" in done[1].verdicts[0].why


async def test_commands_of_checks_run_when_all_else_is_judged_and_each_once(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, Lab(tmp_path / "x", {"writer": ["done"]}).provider)
    lab.agent("writer")
    suite = write(
        tmp_path / "suite",
        "cases:\n- id: one\n  task: Write.\n  files: {a.txt: a}\n  checks:\n"
        "  - command: {run: rm a.txt}\n  - file: {path: a.txt}\n  - command: {run: rm a.txt, exit: 1}\n"
        "  - command: test ! -e a.txt\n",
    )
    (one,) = await judged(lab, suite, "writer")
    assert [verdict.passed for verdict in one.verdicts] == [True, True, True, False, True]


async def test_limits_count_what_the_children_of_a_run_took(tmp_path: Path) -> None:
    from tests.harness.scripted import call

    cast = {"lead": [[call("agent", preset="helper", task="Help.")], "done"], "helper": ["helped"]}
    lab = lab_with(tmp_path, Lab(tmp_path / "x", cast).provider)
    lab.agent("helper")
    lab.agent("lead", delegates=["helper"])
    text = "cases:\n- {id: within, task: x, checks: [limits: {tokens: 45, steps: 3}]}\n"
    more = "- {id: over, task: x, checks: [limits: {tokens: 44}, limits: {steps: 2}, limits: {usd: 1}]}\n"
    within, over = await judged(lab, write(tmp_path / "suite", text + more), "lead")
    assert within.passed, within.verdicts
    assert [verdict.why for verdict in over.verdicts[1:]] == [
        "45 tokens, more than 44",
        "3 steps, more than 2",
        "what it cost is not known",
    ]


async def test_a_tool_answers_from_the_suite_and_never_from_the_world(tmp_path: Path) -> None:
    from tests.harness.scripted import call

    cast = {"asker": [[call("lookup", id=7)], [call("lookup", id=8)], lambda r: r.messages[2].blocks[0].output]}
    lab = lab_with(tmp_path, Lab(tmp_path / "x", cast).provider)
    lab.agent("asker")
    suite = write(
        tmp_path / "suite",
        "tools:\n  lookup:\n    answers:\n    - {when: {id: 7}, output: {name: Anna}}\n"
        "cases:\n- {id: one, task: Look., checks: [json: {name: Anna}]}\n",
    )
    (one,) = await judged(lab, suite, "asker")
    assert one.passed, one.verdicts
    assert one.ran is not None
    assert lab.results(one.ran.session)[1]["output"].startswith("replay_miss: ")


@pytest.mark.parametrize("own", [True, False])
async def test_a_generated_tool_reads_the_corpus_of_the_suite(tmp_path: Path, own: bool) -> None:
    from tests.harness.scripted import call

    lab = lab_with(tmp_path, Lab(tmp_path / "x", {"reader": [[call("read")], "done"]}).provider)
    tool = {
        "tools/read/tool.yaml": "name: read\ndescription: Reads it.\ninput_schema: {type: object}\n",
        "tools/read/tool.py": "def run(ctx, input):\n    return open(ctx.corpus + '/a.md').read()\n",
    }
    corpus = {"corpus": True} if own else {}
    lab.agent("reader", tools=["read"], files={**tool, **({"corpus/a.md": "The agent's."} if own else {})}, **corpus)
    suite = write(tmp_path / "suite", "cases:\n- {id: one, task: Read.}\n")
    (suite / "corpus").mkdir()
    (suite / "corpus" / "a.md").write_text("The suite's.")
    (one,) = await judged(lab, suite, "reader")
    assert one.ran is not None
    assert lab.results(one.ran.session)[0]["output"] == "The suite's."


async def test_an_effect_that_is_not_on_record_is_a_replay_miss(tmp_path: Path, clerk: Path, suite: Path) -> None:
    copy = tmp_path / "suite"
    shutil.copytree(suite, copy)
    text = (copy / "suite.yaml").read_text()
    (copy / "suite.yaml").write_text(text.replace("now/norrby", "now/elsewhere"))
    lab = lab_with(tmp_path)
    lab.bundle(clerk)
    (one,) = await judged(lab, copy, "harbour-clerk", ("tide-norrby-1",))
    assert one.ran is not None
    assert "replay_miss" in lab.results(one.ran.session)[0]["output"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cases: []\n", "no cases"),
        ("cases:\n- {id: a, task: x, checks: [nonsense: 1]}\n", "no check 'nonsense'"),
        ("cases:\n- {id: a, task: x, checks: [regex: '(']}\n", "regex"),
        ("cases:\n- {id: a, task: x}\n- {id: a, task: y}\n", "stands twice"),
        ("cases:\n- {id: a, task: x, chekcs: []}\n", "line 4: cases.0.chekcs: this key is not known"),
        ("cases:\n- {id: a, task: x, start: ../..}\n", "leads out"),
        ("mcp: {tides: 'https://tides.example.com/mcp'}\ncases: [{id: a, task: x}]\n", "address of this machine"),
        ("mcp: {tides: 'http://10.0.0.1:80/mcp'}\ncases: [{id: a, task: x}]\n", "address of this machine"),
        ("cases:\n- {id: a}\n", "no task"),
        ("cases:\n- {id: a, task: x, start: gone}\n", "start: gone is no folder"),
        ("cases:\n- {id: a, source: gone}\n", "source: gone is no folder"),
        ("effects: [{tool: tide}]\ncases: [{id: a, task: x}]\n", "effects.0.request: is required"),
        ("effects: [{tool: t, request: {url: u}, response: {status: ok}}]\ncases: [{id: a, task: x}]\n", "status"),
        ("tools: {t: {input_schema: {type: objekt}}}\ncases: [{id: a, task: x}]\n", "no JSON Schema"),
    ],
)
def test_a_suite_that_cannot_be_used_says_where(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadSuite, match=words):
        load_suite(write(tmp_path / "suite", text))


@pytest.mark.parametrize(("text", "words"), [("no front matter", "no front matter"), (None, "cannot be read")])
def test_a_skill_of_a_suite_that_cannot_be_read_is_said_before_anything_runs(
    tmp_path: Path, text: str | None, words: str
) -> None:
    suite = write(tmp_path / "suite", "cases: [{id: a, task: x}]\n")
    (suite / "skills" / "knots").mkdir(parents=True)
    (suite / "skills" / "knots" / ("notes.md" if text is None else "SKILL.md")).write_text(text or "")
    with pytest.raises(BadSuite, match=f"skills/knots/SKILL.md: .*{words}"):
        load_suite(suite)


async def test_labels_stand_beside_the_checks(tmp_path: Path, clerk: Path, suite: Path) -> None:
    lab = lab_with(tmp_path)
    lab.bundle(clerk)
    await judged(lab, suite, "harbour-clerk", ("depth-norrby-1", "fee-41", "fee-5"))
    record = Record.append_to(lab.host, lab.store.sessions()[0].id)
    for label in (
        Label("depth-norrby-1", "fail", "It should say where it stands."),
        Label("depth-norrby-1", "pass", "On second thoughts."),
        Label("fee-41", "pass"),
        Label("fee-5", "unsure"),
    ):
        add_label(record, label)
    rows = record.rows("label")
    assert [(row["case"], row["verdict"]) for row in labels_now(rows)] == [
        ("depth-norrby-1", "pass"),
        ("fee-41", "pass"),
        ("fee-5", "unsure"),
    ]
    assert agreement(record.rows("case"), rows) == {
        "labels": 2,
        "same": 1,
        "rate": 0.5,
        "kappa": 0.0,
        "differ": ["fee-41"],
    }
    with pytest.raises(UnknownCase, match="fee-41"):
        add_label(record, Label("nothing", "pass"))


def test_a_handle_that_reads_can_change_nothing(tmp_path: Path) -> None:
    reading = Reading(Lab(tmp_path, {}).host)
    for verb in ("append", "move_channel", "add_revision", "add_validation", "set_value", "create_session", "claim"):
        assert not hasattr(reading, verb)
    with pytest.raises(AttributeError):
        reading.store = None  # type: ignore[attr-defined]
