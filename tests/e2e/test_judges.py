"""Judges from the command line, their model on loopback: what they may say, what it costs, and whom they may judge."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.commands import Running, artificer, expecting
from tests.harness.servers import HOLD, Asked, FakeServer, Reply, openai_stream

QUESTION = "How is a harbour described?"
JUDGED = ("--judge", "openai_compatible", "--judge-model", "gpt-5-mini")
SUITE = """\
schema: artificer/suite/v1
name: judged
rubrics:
  sourced: {text: It says where it stands., criteria: [names a file]}
cases:
- {id: good, task: "How is a harbour described?", checks: [contains: datum, judge: sourced]}
- {id: wrong, task: "How is a harbour described?", checks: [contains: never said, judge: sourced]}
- {id: rude, task: "How is a harbour described?", checks: [judge: {rubric: It is rude.}]}
"""


def verdict(asked: Asked) -> str:
    """Whether what is asked for can be found in the reply; of two replies the shorter is better."""
    question = asked.json["messages"][-1]["content"]
    given: dict[str, Any] = json.loads(question[: question.rindex("}\n\n") + 1])
    if "first" in given:
        sizes = len(given["first"]), len(given["second"])
        word = "tie" if sizes[0] == sizes[1] else "first" if sizes[0] < sizes[1] else "second"
        return json.dumps({"better": word, "why": "It is shorter."})
    good = given["rubric"].startswith("It says where") and ".md" in given["reply"]
    return json.dumps({"verdict": "pass" if good else "fail", "why": "I looked."})


@pytest.fixture
def court(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Asked], str]], FakeServer]]:
    """Lets what a function says be what the judge's model says."""
    servers: list[FakeServer] = []

    def sit(say: Callable[[Asked], str]) -> FakeServer:
        server = FakeServer(lambda asked: Reply(openai_stream(say(asked), model="gpt-5-mini")))
        servers.append(server.__enter__())
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "test-key-of-nobody")
        return server

    yield sit
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    root = tmp_path / "suite"
    root.mkdir()
    (root / "suite.yaml").write_text(SUITE)
    return root


@pytest.fixture
def rubric(tmp_path: Path) -> Path:
    path = tmp_path / "rubric.md"
    path.write_text("The shorter answer is better.\n")
    return path


def checks(line: dict[str, Any]) -> dict[str, Any]:
    """The judge's row of a case."""
    (row,) = [row for row in line["checks"] if row["kind"] == "judge"]
    return dict(row)


def test_a_judge_decides_where_the_checks_leave_it_to_it(docs: str, suite: Path, court: Any) -> None:
    server = court(verdict)
    lines = expecting(1, "eval", suite, docs, *JUDGED).lines
    cases = {line["id"]: line for line in lines[:-1]}
    assert {name: line["passed"] for name, line in cases.items()} == {"good": True, "wrong": False, "rude": False}
    assert {name: checks(line)["state"] for name, line in cases.items()} == {
        "good": "judged",
        "wrong": "vetoed",
        "rude": "judged",
    }
    assert len(server.requests) == 2
    row = checks(cases["good"])
    assert row["rubric"].startswith("sha256:")
    assert row["judge"] == "openai_compatible/gpt-5-mini"
    assert (row["attempts"], row["tokens"], row["same_family"]) == (1, 19, False)
    assert lines[-1]["judge"]["asked"] == 2
    assert (lines[-1]["failed"], lines[-1]["unjudged"]) == (["wrong", "rude"], [])
    judges = [s for s in expecting(0, "sessions").value if s["kind"] == "judge"]
    assert {s["id"] for s in judges} == {checks(cases[name])["sessions"][0] for name in ("good", "rude")}
    assert {s["parent"] for s in judges} == {lines[-1]["eval"]}


def test_without_a_verdict_a_case_is_unjudged_and_does_not_pass(docs: str, suite: Path, court: Any) -> None:
    words = ["eval", suite, docs, "--case", "good"]
    nobody = expecting(1, *words).lines
    assert (checks(nobody[0])["state"], nobody[-1]["unjudged"], nobody[-1]["judge"]) == ("unjudged", ["good"], None)
    court(lambda asked: "It is fine, I think.")
    vague = expecting(1, *words, *JUDGED).lines
    assert (checks(vague[0])["state"], checks(vague[0])["attempts"]) == ("unjudged", 2)
    assert vague[-1]["unjudged"] == ["good"]


def test_a_suite_may_name_its_judge(docs: str, suite: Path, court: Any) -> None:
    court(verdict)
    text = (suite / "suite.yaml").read_text()
    named = text.replace("rubrics:", "judge: {provider: openai_compatible, model: gpt-5-mini}\nrubrics:")
    (suite / "suite.yaml").write_text(named)
    assert expecting(0, "eval", suite, docs, "--case", "good").lines[-1]["judge"]["asked"] == 1


def test_a_judge_of_the_candidates_family_is_refused_unless_forced(
    docs: str, suite: Path, rubric: Path, court: Any
) -> None:
    server = court(lambda asked: verdict(asked) if "judge" in asked.json["messages"][0]["content"] else "datum in a.md")
    same = ["--provider", "openai_compatible", "--model", "gpt-5", *JUDGED]
    before = expecting(0, "sessions").value
    for words in (["eval", suite, docs], ["compare", docs, docs, QUESTION, "--rubric", rubric]):
        refused = expecting(1, *words, *same).error
        assert (refused["code"], "openai" in refused["message"]) == ("same_family", True)
    assert (expecting(0, "sessions").value, server.requests) == (before, [])
    lines = expecting(0, "eval", suite, docs, *same, "--force-judge", "--case", "good").lines
    assert checks(lines[0])["same_family"]
    assert lines[-1]["judge"]["same_family"]


def test_people_and_judge_are_compared_case_by_case(docs: str, suite: Path, court: Any) -> None:
    court(verdict)
    evaluation = expecting(1, "eval", suite, docs, *JUDGED).lines[-1]["eval"]
    words = ["label", evaluation, "--verdict"]
    expecting(0, *words, "pass", "--case", "good")
    expecting(0, *words, "pass", "--case", "wrong")  # the judge was not asked about it
    found = {row["rubric"]: row for row in expecting(0, *words, "pass", "--case", "rude").value["judges"]}
    assert sorted((row["pairs"], row["same"], row["kappa"]) for row in found.values()) == [(1, 0, 0.0), (1, 1, None)]
    text = artificer("label", evaluation, "--case", "good", "--verdict", "pass", json=False).out
    assert "judge openai_compatible/gpt-5-mini" in text
    assert "1 of 1 (100 %, kappa has no value)" in text


def test_a_pair_is_judged_in_both_orders_beside_the_evidence(docs: str, rubric: Path, court: Any) -> None:
    server = court(lambda asked: json.dumps({"better": "first", "why": "It came first."}))
    words = ["compare", docs, f"{docs}@live", QUESTION, *JUDGED, "--rubric", rubric]
    pair = expecting(0, *words).value
    found = pair["preference"]
    assert (found["winner"], found["consistent"], found["state"]) == ("tie", False, "judged")
    assert (len(found["sessions"]), len(server.requests)) == (2, 2)
    for word, agrees in (("tie", 1), ("candidate", 0)):
        (row,) = expecting(0, "label", pair["comparison"], "--verdict", word).value["judges"]
        assert (row["pairs"], row["same"]) == (1, agrees)
    assert artificer("label", pair["comparison"], "--verdict", "pass").code == 2


def test_a_judge_is_asked_for_only_with_what_it_goes_by(docs: str, rubric: Path, tmp_path: Path) -> None:
    words = ["compare", docs, docs, QUESTION]
    assert artificer(*words, "--judge", "anthropic").code == 2
    assert artificer(*words, "--rubric", rubric).code == 2
    assert expecting(1, *words, "--judge", "offline", "--rubric", rubric).error["code"] == "not_found"
    assert expecting(1, *words, "--judge", "no-such", "--rubric", rubric).error["code"] == "not_found"
    assert expecting(1, *words, *JUDGED, "--rubric", tmp_path / "none").error["code"] == "not_found"


@pytest.mark.slow
def test_an_evaluation_is_interrupted_from_elsewhere(docs: str, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def hold(_: Asked) -> Reply:
        asked.set()
        return Reply([HOLD])

    with FakeServer(hold) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "test-key-of-nobody")
        with Running("eval", suite, docs, "--provider", "openai_compatible", "--model", "gpt-5") as running:
            assert asked.wait(60)
            (record,) = [s["id"] for s in expecting(0, "sessions").value if s["kind"] == "evaluation"]
            found = expecting(0, "interrupt", record).value
            assert running.end().code == 130
        assert found["session"] == record
    stops = {s["stop"] for s in expecting(0, "sessions").value if record in (s["id"], s["parent"])}
    assert stops == {"cancelled"}


def test_a_rubric_nobody_wrote_is_said(docs: str, suite: Path) -> None:
    text = (suite / "suite.yaml").read_text().replace("judge: sourced]}", "judge: sorted]}", 1)
    (suite / "suite.yaml").write_text(text)
    refused = expecting(1, "eval", suite, docs).error
    assert "there is no rubric 'sorted'. There are: sourced." in refused["message"]
