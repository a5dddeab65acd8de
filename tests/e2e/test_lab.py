"""The lab from the command line: comparisons, evaluations, labels, experiments, and one run through every door."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from core import Event, Host, register_provider, save_revision
from impl.compose import build_host
from tests.harness.commands import artificer, expecting
from tests.harness.home import INPUTS
from tests.harness.laboratory import CastProvider, ObedientProvider
from tests.harness.scripted import call
from tests.tui.conftest import calm, until
from tui.application import ArtificerApp
from tui.panes.bundles import RevisionsPane
from tui.screens.agent import AgentScreen
from tui.widgets.composer import Composer
from tui.widgets.rowlist import RowList

QUESTION = "How is a harbour described?"
EXPERIMENT = """\
schema: artificer/experiment/v1
name: harbours
revisions: [documentation@live]
tasks:
- {{id: one, task: "{task}"}}
repeats: {repeats}
"""
SUITE = """\
schema: artificer/suite/v1
name: harbours
network: true
cases:
- id: one
  task: "{task}"
  checks:
  - contains: datum
"""


def suite_of(root: Path, task: str = QUESTION, more: str = "") -> Path:
    root.mkdir()
    (root / "suite.yaml").write_text(SUITE.format(task=task) + more)
    return root


def experiment_of(path: Path, repeats: int = 1) -> Path:
    path.write_text(EXPERIMENT.format(task=QUESTION, repeats=repeats))
    return path


def stored(bundle: Path) -> str:
    """Save a bundle as a person does; its digest."""
    host = build_host()
    saved = save_revision(host.store, bundle, by="person", message="for a test", now=host.now)
    host.store.close()
    assert saved.revision is not None, saved.problems
    return saved.revision.digest


def bundle(root: Path, name: str, persona: str = "You help.\n", manifest: str = "") -> Path:
    root.mkdir()
    (root / "agent.yaml").write_text(f"schema: artificer/v1\nname: {name}\n{manifest}")
    (root / "persona.md").write_text(persona)
    return root


def tide_on_record(clerk: str) -> str:
    """A session that has the tide at Norrby on record."""
    words = ["--provider", "obedient", "--case", "tide-norrby-1"]
    ran = expecting(1, "eval", INPUTS / "lab" / "suite", clerk, *words)  # the persona has the wrong unit
    return str(ran.lines[0]["session"])


@pytest.fixture
def clerk(home: Path) -> str:
    """The clerk of the lab's own suite, played by a model that does what its persona says."""
    register_provider("obedient", ObedientProvider)
    stored(INPUTS / "lab" / "clerk")
    return "harbour-clerk"


# --- one run through every door ----------------------------------------------------------------------------

FIXED_BY_LINEAGE = ("kind", "parent", "depth", "inherited", "suite", "sandbox")


def told(session: str) -> list[tuple[str, Any]]:
    """A session's events without ids, times and lineage; calls are numbered as they come."""
    host = build_host()
    info, events = host.store.session(session), list(host.store.events(session))
    host.store.close()
    assert info is not None
    calls = [event.data["call"] for event in events if event.kind == "tool_call"]
    return [("digest", info.digest), *((event.kind, _plain(event, calls)) for event in events)]


def _plain(event: Event, calls: list[str]) -> Any:
    data = dict(event.data)
    for name in (*(FIXED_BY_LINEAGE if event.kind == "started" else ()), "driven_s", "duration_s"):
        data.pop(name, None)
    text = json.dumps(data, sort_keys=True)
    for number, made in enumerate(calls):
        text = text.replace(made, f"call {number}")
    return json.loads(text)


def _stopped(host: Host, session: str) -> bool:
    info = host.store.session(session)
    return info is not None and info.stop is not None


def from_the_app(agent: str) -> str:
    """Home, down to the agent, enter, to its composer, the task, enter: as a person does; the session it began."""

    async def act() -> str:
        host = build_host()
        app = ArtificerApp(host)
        before = {info.id for info in host.store.sessions()}
        async with app.run_test(size=(120, 40)) as pilot:
            await calm(pilot)
            for _ in app.screen.query_one(RowList).rows:
                if app.screen.query_one(RowList).key == f"agent:{agent}":
                    break
                await pilot.press("down")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, AgentScreen), "the agent's screen")
            await until(pilot, lambda: isinstance(app.focused, RevisionsPane), "its revisions")
            for _ in range(9):
                if isinstance(app.focused, Composer):
                    break
                await pilot.press("tab")
            await pilot.press(*("space" if letter == " " else letter for letter in QUESTION), "enter")
            await until(pilot, lambda: len(host.store.sessions()) > len(before), "a session")
            (began,) = [info.id for info in host.store.sessions() if info.id not in before]
            await until(pilot, lambda: _stopped(host, began), "its stop")
        host.store.close()
        return began

    return asyncio.run(act())


def from_a_parent(agent: str, tmp_path: Path) -> str:
    stored(bundle(tmp_path / "lead", "lead", manifest=f"delegates:\n  presets: [{agent}@live]\n"))
    task = json.dumps({"tool": "agent", "args": {"preset": f"{agent}@live", "task": QUESTION}})
    ran = expecting(0, "run", "lead@latest", task)
    (child,) = [event["data"]["session"] for event in ran.events if event["kind"] == "child"]
    return str(child)


def test_a_run_is_the_same_through_every_door(docs: str, tmp_path: Path) -> None:
    reference = f"{docs}@live"
    through = {
        "app": from_the_app(docs),
        "command": expecting(0, "run", reference, QUESTION).result["session"],
        "agent": from_a_parent(docs, tmp_path),
        "suite": expecting(0, "eval", suite_of(tmp_path / "suite"), reference).lines[0]["session"],
        "experiment": expecting(0, "experiment", experiment_of(tmp_path / "x.yaml")).lines[0]["session"],
    }
    assert len(set(through.values())) == 5
    told_by = {door: told(session) for door, session in through.items()}
    assert [kind for kind, _ in told_by["app"]].count("tool_result") == 1
    for door in ("command", "agent", "suite", "experiment"):
        assert told_by[door] == told_by["app"], door


def test_a_run_that_works_in_its_sandbox_is_the_same_too(home: Path, tmp_path: Path) -> None:
    """What a command answers, what is said of the sandbox and the digest of the workspace are nobody's door's."""
    policy = "policy: {run_sandbox: allow}\n"
    reference = f"hand@{stored(bundle(tmp_path / 'hand', 'hand', 'hand', policy))}"
    stored(bundle(tmp_path / "lead", "lead", "lead", f'{policy}delegates: {{presets: ["{reference}"]}}\n'))
    cast = {
        "hand": [[call("run_sandbox", command="mkdir d; echo 4 > d/n; cat d/n")], "It is 4."],
        "lead": [[call("agent", preset=reference, task=QUESTION)], "It has said so."],
    }
    register_provider("cast", lambda: CastProvider(cast))
    played = ("--provider", "cast")
    file = experiment_of(tmp_path / "x.yaml")
    file.write_text(file.read_text().replace("documentation@live", reference))
    suite = suite_of(tmp_path / "suite")
    (suite / "suite.yaml").write_text(
        (suite / "suite.yaml").read_text().replace("contains: datum", "file: {path: d/n, equals: 4}")
    )
    lead = expecting(0, "run", "lead@latest", QUESTION, *played)
    (child,) = [event["data"]["session"] for event in lead.events if event["kind"] == "child"]
    through = {
        "command": expecting(0, "run", reference, QUESTION, *played).result["session"],
        "agent": child,
        "suite": expecting(0, "eval", suite, reference, *played).lines[0]["session"],
        "experiment": expecting(0, "experiment", file, *played).lines[0]["session"],
    }
    told_by = {door: told(session) for door, session in through.items()}
    assert any(kind == "tool_result" and body["workspace"] for kind, body in told_by["command"][1:])
    for door in ("agent", "suite", "experiment"):
        assert told_by[door] == told_by["command"], door


# --- compare -----------------------------------------------------------------------------------------------


def test_two_revisions_are_compared_on_one_task(docs: str) -> None:
    pair = expecting(0, "compare", f"{docs}@live", f"{docs}@latest", QUESTION).value
    assert (pair["type"], pair["task"]) == ("comparison", QUESTION)
    for arm in ("baseline", "candidate"):
        assert pair[arm]["stop"] == "completed"
        assert "datum" in pair[arm]["output"]
        assert pair[arm]["usage"]["requests"] == 2
        assert pair[arm]["cost"] == {"usd": "0.00"}
        assert pair[arm]["duration_s"] > 0
    kinds = {row["id"]: (row["kind"], row["parent"]) for row in expecting(0, "sessions").value}
    assert kinds[pair["comparison"]] == ("comparison", None)
    assert kinds[pair["baseline"]["session"]] == kinds[pair["candidate"]["session"]] == ("arm", pair["comparison"])


def test_a_comparison_says_the_command_that_labels_it(docs: str) -> None:
    said = artificer("compare", f"{docs}@live", f"{docs}@latest", QUESTION, json=False).err
    (command,) = re.findall(r"artificer (label \S+ --verdict) ", said)
    assert expecting(0, *command.split(), "tie").value["verdict"] == "tie"


def test_a_key_among_the_words_is_kept_by_no_comparison_label_or_revision(docs: str, tmp_path: Path) -> None:
    key = "sk-ant-api03-abcdEFGH1234canary5678ijkl"
    pair = expecting(0, "compare", f"{docs}@live", f"{docs}@latest", f"{QUESTION} {key}").value
    expecting(0, "label", pair["comparison"], "--verdict", "tie", "-m", f"both knew {key}")
    expecting(0, "checkout", docs, tmp_path / "edited")
    expecting(0, "save", tmp_path / "edited", "--agent", docs, "-m", f"for {key}")
    store = build_host().store
    events = [event.to_json() for info in store.sessions() for event in store.events(info.id)]
    kept = [store.sessions(), events, store.revisions(docs)]
    assert "canary" not in repr(kept)
    assert "[redacted: anthropic key]" in repr(kept)


def test_arms_see_neither_each_others_files_nor_each_others_effects(clerk: str, tmp_path: Path) -> None:
    """Each works on its own copy, and the recorded answers that one has used are still there for the other."""
    home = build_host().home
    recorded = tide_on_record(clerk)
    start = tmp_path / "start"
    start.mkdir()
    (start / "given.txt").write_text("given")
    words = ["compare", clerk, clerk, "How high is the tide at norrby?", "--provider", "obedient", "--files", start]
    pair = expecting(0, *words, "--replay", recorded).value
    assert [pair[arm]["output"] for arm in ("baseline", "candidate")] == ["0.4 feet", "0.4 feet"]
    work = [home / "workspaces" / pair[arm]["session"] / "work" for arm in ("baseline", "candidate")]
    (work[0] / "given.txt").write_text("changed")
    assert (work[1] / "given.txt").read_text() == (start / "given.txt").read_text() == "given"


def test_an_effect_that_is_not_on_record_is_a_replay_miss(clerk: str) -> None:
    words, recorded = ["--provider", "obedient"], tide_on_record(clerk)
    pair = expecting(0, "compare", clerk, clerk, "How high is the tide at ekholm?", *words, "--replay", recorded).value
    for arm in ("baseline", "candidate"):
        events = expecting(0, "transcript", pair[arm]["session"]).value
        (result,) = [event["data"] for event in events if event["kind"] == "tool_result"]
        assert not result["ok"]
        assert "replay_miss" in result["output"]


def test_a_comparison_of_what_is_not_there_leaves_nothing(docs: str) -> None:
    before = expecting(0, "sessions").value
    assert expecting(1, "compare", f"{docs}@live", f"{docs}@nowhere", "x").error["code"] == "not_found"
    assert expecting(1, "compare", f"{docs}@live", "../../etc", "x").error["code"] == "not_found"
    assert expecting(0, "sessions").value == before


# --- eval and label ----------------------------------------------------------------------------------------


def test_eval_is_zero_only_when_every_case_passes(docs: str, tmp_path: Path) -> None:
    good = expecting(0, "eval", suite_of(tmp_path / "good"), docs).lines
    assert [(line["type"], line.get("passed")) for line in good] == [("case", True), ("eval", 1)]
    failing = '- {id: two, task: x, checks: [contains: "never said"]}\n'
    bad = expecting(1, "eval", suite_of(tmp_path / "bad", more=failing), docs).lines
    assert bad[-1]["failed"] == ["two"]
    assert bad[-1]["passed"] == 1


def test_the_suite_finds_the_faults_of_persona_and_tool(clerk: str) -> None:
    chosen = ["fee-40", "fee-41", "fee-51", "depth-ekholm-3", "tide-norrby-2"]
    cases = [word for name in chosen for word in ("--case", name)]
    lines = expecting(1, "eval", INPUTS / "lab" / "suite", clerk, "--provider", "obedient", *cases).lines
    assert lines[-1]["failed"] == ["fee-41", "tide-norrby-2"]


def test_a_suite_that_cannot_be_used_is_said_and_nothing_runs(docs: str, tmp_path: Path) -> None:
    before = expecting(0, "sessions").value
    broken = suite_of(tmp_path / "broken", more="- {id: two, task: x, checks: [nonsense: 1]}\n")
    assert expecting(1, "eval", broken, docs).error["code"] == "bad_file"
    assert expecting(1, "eval", tmp_path / "nowhere", docs).error["code"] == "not_found"
    assert expecting(1, "eval", suite_of(tmp_path / "s"), docs, "--case", "three").error["code"] == "not_found"
    assert expecting(0, "sessions").value == before


def test_an_evaluation_of_nothing_is_no_pass(docs: str, tmp_path: Path) -> None:
    suite = tmp_path / "empty"
    suite.mkdir()
    (suite / "suite.yaml").write_text("schema: artificer/suite/v1\nname: empty\npersona: x\n")
    assert expecting(1, "eval", suite, docs).error["code"] == "bad_file"


def test_labels_are_stored_and_compared_with_the_checks(docs: str, tmp_path: Path) -> None:
    evaluation = expecting(0, "eval", suite_of(tmp_path / "suite"), docs).lines[-1]["eval"]
    words = ["label", evaluation, "--case", "one", "--verdict"]
    assert expecting(0, *words, "pass").value["agreement"]["rate"] == 1.0
    found = expecting(0, *words, "fail", "-m", "It quotes too much.").value
    assert [(row["case"], row["verdict"], row["note"]) for row in found["labels"]] == [
        ("one", "fail", "It quotes too much.")
    ]
    assert found["agreement"] == {"labels": 1, "same": 0, "rate": 0.0, "kappa": 0.0, "differ": ["one"]}
    assert expecting(1, "label", evaluation, "--case", "no", "--verdict", "pass").error["code"] == "not_found"
    assert artificer("label", evaluation, "--case", "one").code == 2


def test_labels_come_as_lines_too(docs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    evaluation = expecting(0, "eval", suite_of(tmp_path / "suite"), docs).lines[-1]["eval"]
    monkeypatch.setattr("sys.stdin", io.StringIO('{"case": "one", "verdict": "unsure"}\n'))
    (row,) = expecting(0, "label", evaluation).value["labels"]
    assert (row["case"], row["verdict"]) == ("one", "unsure")


def test_a_record_is_read_and_not_resumed(docs: str, tmp_path: Path) -> None:
    evaluation = expecting(0, "eval", suite_of(tmp_path / "suite"), docs).lines[-1]["eval"]
    before = expecting(0, "transcript", evaluation).lines
    assert expecting(1, "resume", evaluation, "-m", "Go on").error["code"] == "not_found"
    assert expecting(0, "transcript", evaluation).lines == before


# --- experiment --------------------------------------------------------------------------------------------


def test_an_experiment_prints_its_cells_and_goes_on_where_it_was(docs: str, tmp_path: Path) -> None:
    first = expecting(0, "experiment", experiment_of(tmp_path / "x.yaml", repeats=2)).lines
    assert [line["type"] for line in first] == ["cell", "cell", "experiment"]
    assert first[-1]["stops"] == {"completed": 2}
    again = expecting(0, "experiment", experiment_of(tmp_path / "x.yaml", repeats=3)).lines
    assert [line.get("recorded", False) for line in again[:-1]] == [True, True, False]
    arms = [row for row in expecting(0, "sessions").value if row["kind"] == "arm"]
    assert len(arms) == 3


def test_what_a_provider_fails_is_no_success_and_is_said(
    docs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    keyless = ("--provider", "anthropic")
    ran = expecting(1, "experiment", experiment_of(tmp_path / "x.yaml"), *keyless)
    assert ran.lines[-1]["stops"] == {"provider_error": 1}
    assert "1 of 1 cells failed: provider_error (auth)." in ran.err
    assert f"artificer transcript {ran.lines[0]['session']}" in ran.err
    assert expecting(1, "experiment", experiment_of(tmp_path / "x.yaml"), *keyless).lines[0]["recorded"]
    pair = expecting(1, "compare", docs, docs, QUESTION, *keyless).value
    assert pair["baseline"]["stop"] == "provider_error"


def test_what_a_comparison_cannot_begin_with_is_said(docs: str, tmp_path: Path) -> None:
    words = ("compare", docs, docs, QUESTION, "--files")
    assert expecting(1, *words, tmp_path / "no").error["code"] == "not_found"
    assert expecting(0, "sessions").value[-1]["kind"] == "builder"
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "link").symlink_to("/etc/passwd")
    assert expecting(1, *words, tmp_path / "start").error["code"] == "bad_start"


def test_a_judge_that_is_not_there_is_refused_though_nothing_asks_it(docs: str, tmp_path: Path) -> None:
    error = expecting(1, "eval", suite_of(tmp_path / "s"), docs, "--judge", "nobody").error
    assert (error["code"], error["hint"]) == ("not_found", "List providers with: artificer providers")


def test_an_experiment_that_cannot_be_used_is_said(docs: str, tmp_path: Path) -> None:
    file = experiment_of(tmp_path / "x.yaml")
    assert expecting(1, "experiment", tmp_path / "no.yaml").error["code"] == "bad_file"
    assert expecting(1, "experiment", file, "--engine", "nowhere://x").error["code"] == "not_found"
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "link").symlink_to("/etc/passwd")
    file.write_text(file.read_text().replace("id: one,", "id: one, start: start,"))
    error = expecting(1, "experiment", file).error
    assert error["code"] == "bad_file"
    assert "start/link" in error["message"]
    file.write_text(file.read_text().replace("documentation@live", "../documentation"))
    assert expecting(1, "experiment", file).error["code"] == "bad_file"
