"""build, run, answer and resume: stops, exit codes, and what they print for programs."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from core import register_provider
from tests.harness.commands import artificer, expecting
from tests.harness.home import INPUTS
from tests.harness.scripted import Gate, ScriptedProvider

RESULT = {
    "type",
    "stop",
    "session",
    "agent",
    "revision",
    "channel",
    "output",
    "waiting",
    "evidence",
    "usage",
    "cost",
    "detail",
}
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


def test_a_build_prints_events_then_its_result_with_every_field(home: Path) -> None:
    ran = expecting(0, "build", INPUTS / "documentation", "--publish")
    events, result = ran.events, ran.result
    assert [line["type"] for line in ran.lines] == ["event"] * len(events) + ["result"]
    for number, event in enumerate(events, 1):
        assert set(event) == {"type", "v", "session", "seq", "at", "kind", "data"}
        assert (event["v"], event["session"], event["seq"]) == (1, result["session"], number)
        assert re.fullmatch(MOMENT, event["at"])
    assert set(result) == RESULT
    assert (result["stop"], result["agent"], result["channel"]) == ("completed", "documentation", "live")
    assert re.fullmatch("sha256:[0-9a-f]{64}", result["revision"])
    assert result["waiting"] is result["evidence"] is result["detail"] is None
    assert set(result["usage"]) == {"input_tokens", "output_tokens", "cached_tokens", "requests"}
    assert set(result["cost"]) == {"usd"}
    assert ran.kinds()[-1] == "stop"


def test_the_output_is_exactly_the_last_reply(docs: str) -> None:
    ran = expecting(0, "run", docs, "how is a harbour measured?")
    replies = [e["data"]["text"] for e in ran.events if e["kind"] == "message" and e["data"]["role"] == "assistant"]
    assert ran.result["output"] == replies[-1]
    assert "docs/measurements.md" in replies[-1]


def test_calls_and_results_say_what_they_are(home: Path) -> None:
    ran = expecting(0, "build", INPUTS / "documentation")
    calls = [e["data"] for e in ran.events if e["kind"] == "tool_call"]
    results = [e["data"] for e in ran.events if e["kind"] == "tool_result"]
    assert [c["tool"] for c in calls] == ["import_source", "save_agent", "validate_agent"]
    assert [c["call"] for c in calls] == [r["call"] for r in results]
    assert all(isinstance(c["args"], dict) for c in calls)
    assert all(r["ok"] is True and isinstance(r["output"], str) for r in results)


def test_no_source_asks_and_calls_no_tool(home: Path) -> None:
    ran = expecting(10, "build")
    assert "tool_call" not in ran.kinds()
    assert ran.result["stop"] == "awaiting_user"
    assert ran.result["waiting"]["kind"] == "question"
    assert "URL" in ran.result["waiting"]["message"]
    ran = expecting(0, "answer", ran.result["session"], str(INPUTS / "documentation"))
    assert ran.result["agent"] == "documentation"


def test_a_question_waits_with_options_and_an_answer_goes_on_to_the_end(home: Path) -> None:
    asked = expecting(10, "build", INPUTS / "subagents").result
    waiting = asked["waiting"]
    assert set(waiting) == {"kind", "id", "message", "options", "recommended", "names"}
    assert waiting["kind"] == "question"
    assert [set(option) for option in waiting["options"]] == [{"id", "label"}] * 3
    assert waiting["recommended"] in {option["id"] for option in waiting["options"]}
    assert expecting(0, "answer", asked["session"], "2").result["stop"] == "completed"


@pytest.mark.parametrize("way", ["id", "number", "label", "case"])
def test_an_answer_is_an_id_a_number_or_a_label(home: Path, way: str) -> None:
    asked = expecting(10, "build", INPUTS / "subagents").result
    option = asked["waiting"]["options"][1]
    words = {"id": option["id"], "number": "2", "label": option["label"], "case": option["id"].upper()}[way]
    ran = expecting(0, "answer", asked["session"], words)
    answer = next(e["data"] for e in ran.events if e["kind"] == "answer")
    assert answer["choice"] == [option["id"]]


def test_all_takes_every_option_where_several_may_be_taken(home: Path) -> None:
    asked = expecting(10, "build", INPUTS / "skills").result
    ran = expecting(0, "answer", asked["session"], "all")
    manifest = expecting(0, "show", ran.result["agent"]).value["manifest"]
    assert len(manifest["skills"]) == len(asked["waiting"]["options"])


def test_an_answer_that_fits_no_option_asks_again(home: Path) -> None:
    asked = expecting(10, "build", INPUTS / "subagents").result
    again = expecting(10, "answer", asked["session"], "the fourth").result
    assert again["waiting"] == asked["waiting"]
    assert expecting(0, "answer", asked["session"], "1").result["stop"] == "completed"


def test_all_is_no_answer_where_one_is_to_be_chosen(home: Path) -> None:
    asked = expecting(10, "build", INPUTS / "subagents").result
    assert expecting(10, "answer", asked["session"], "all").result["waiting"] == asked["waiting"]


def test_answers_given_ahead_are_used_in_order_and_surplus_ones_noted(home: Path) -> None:
    ran = expecting(0, "build", INPUTS / "subagents", "--answer", "nonsense", "--answer", "2", "--answer", "later")
    answered = [e["data"]["choice"] for e in ran.events if e["kind"] == "answer"]
    assert [len(choice) for choice in answered] == [1]
    assert "1 answer was not needed" in ran.err


def test_the_transcript_is_exactly_what_was_printed(home: Path) -> None:
    first = expecting(10, "build", INPUTS / "subagents")
    second = expecting(10, "answer", first.result["session"], "none of them")
    third = expecting(0, "answer", first.result["session"], "3")
    printed = [*first.events, *second.events, *third.events]
    assert expecting(0, "transcript", first.result["session"]).value == printed


class Pause(Gate):
    """A point in a scripted turn that lasts longer than a batch of streamed text."""

    async def wait(self) -> None:
        await asyncio.sleep(0.2)


def test_drafts_are_printed_only_when_asked_for(docs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedProvider([["Slowly", Pause(), " said."], ["Slowly", Pause(), " said."]])
    register_provider("slow", lambda: model)
    monkeypatch.setattr("impl.providers._instances", {})
    quiet = expecting(0, "run", docs, "x", "--provider", "slow")
    assert "draft" not in quiet.kinds()
    ran = expecting(0, "run", docs, "x", "--provider", "slow", "--stream")
    drafts = [e for e in ran.events if e["kind"] == "draft"]
    assert drafts
    assert all(re.fullmatch(MOMENT, e["at"]) and "Slowly".startswith(e["data"]["text"][:6]) for e in drafts)
    stored = expecting(0, "transcript", ran.result["session"]).value
    assert stored == [e for e in ran.events if e["kind"] != "draft"]


def test_usage_and_cost_are_totals_of_the_session(docs: str) -> None:
    ran = expecting(0, "run", docs, "how is a harbour measured?")
    usages = [e["data"] for e in ran.events if e["kind"] == "usage"]
    for name in ("input_tokens", "output_tokens", "cached_tokens", "requests"):
        assert ran.result["usage"][name] == sum(usage[name] for usage in usages)
    assert ran.result["cost"] == {"usd": "0.00"}


# --- limits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["steps=0", "steps=1", "seconds=0", "usd=0"])
def test_a_spent_limit_stops_with_what_can_be_done(docs: str, limit: str) -> None:
    ran = expecting(15, "run", docs, "how is a harbour measured?", "--limit", limit)
    waiting = ran.result["waiting"]
    assert (ran.result["stop"], ran.result["detail"]) == ("budget", limit.partition("=")[0])
    assert (waiting["kind"], waiting["id"]) == ("budget", limit.partition("=")[0])
    assert [option["id"] for option in waiting["options"]] == ["extend", "end"]


def test_extending_a_budget_goes_on_and_wrong_words_ask_again(docs: str) -> None:
    session = expecting(15, "run", docs, "how is a harbour measured?", "--limit", "steps=1").result["session"]
    assert expecting(15, "answer", session, "more please").result["waiting"]["kind"] == "budget"
    assert expecting(0, "answer", session, "extend 5").result["stop"] == "completed"


def test_ending_at_a_budget_cancels(docs: str) -> None:
    session = expecting(15, "run", docs, "how is a harbour measured?", "--limit", "steps=1").result["session"]
    assert expecting(17, "answer", session, "end").result["stop"] == "cancelled"


def test_a_limit_that_is_none_is_a_usage_error(docs: str) -> None:
    for wrong in ("steps", "steps=x", "steps=1.5", "tokens=-1", "hours=1", "usd=nan"):
        assert expecting(2, "run", docs, "x", "--limit", wrong).error["code"] == "usage"


# --- which revision ------------------------------------------------------------------------------------


def test_a_run_takes_live_and_says_which_digest(docs: str) -> None:
    live = expecting(0, "agents").value[0]["live"]
    result = expecting(0, "run", docs, "how is a harbour measured?").result
    assert (result["revision"], result["channel"]) == (live, "live")


def test_a_run_of_an_agent_with_nothing_live_says_what_to_do(home: Path) -> None:
    expecting(0, "build", INPUTS / "documentation")
    error = expecting(1, "run", "documentation", "x").error
    assert error["code"] == "not_found"
    assert "Publish" in error["hint"]


def test_any_stored_revision_runs_by_digest_or_its_beginning(home: Path) -> None:
    digest = expecting(0, "build", INPUTS / "documentation").result["revision"]
    for ref in (digest, digest.removeprefix("sha256:")[:12]):
        result = expecting(0, "run", f"documentation@{ref}", "how is a harbour measured?").result
        assert (result["revision"], result["channel"]) == (digest, None)


def test_a_run_takes_a_channel_by_name(home: Path) -> None:
    expecting(0, "build", INPUTS / "documentation")
    expecting(0, "publish", "documentation", "--channel", "beta")
    result = expecting(0, "run", "documentation@beta", "how is a harbour measured?").result
    assert result["channel"] == "beta"


# --- names ---------------------------------------------------------------------------------------------


def test_what_stands_behind_an_address_is_recorded_nowhere(home: Path) -> None:
    ran = expecting(10, "build", "https://127.0.0.1:1/owner/name.git?token=aSecretOfMine77")
    assert "https://127.0.0.1:1/owner/name.git" in ran.out
    assert "aSecretOfMine77" not in ran.out + ran.err


def test_the_same_source_again_adds_to_the_agent_and_unchanged_gives_the_same_digest(
    home: Path, tmp_path: Path
) -> None:
    source = tmp_path / "My Notes"
    shutil.copytree(INPUTS / "documentation", source)
    first = expecting(0, "build", source).result
    again = expecting(0, "build", source).result
    assert (first["agent"], again["revision"]) == ("my-notes", first["revision"])
    (source / "docs" / "more.md").write_text("# More\n\nA buoy floats.\n")
    changed = expecting(0, "build", source).result
    assert changed["agent"] == "my-notes"
    rows = expecting(0, "revisions", "my-notes").value
    assert [row["digest"] for row in rows] == [first["revision"], changed["revision"]]
    assert rows[1]["parents"] == [first["revision"]]


def test_a_name_taken_by_another_source_is_asked_about(home: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "a" / "notes", tmp_path / "b" / "notes"
    shutil.copytree(INPUTS / "documentation", one)
    shutil.copytree(INPUTS / "documentation", other)
    (other / "docs" / "more.md").write_text("# More\n\nA buoy floats.\n")
    first = expecting(0, "build", one).result
    asked = expecting(10, "build", other).result
    assert expecting(0, "revisions", "notes").value[-1]["digest"] == first["revision"]
    assert [option["id"] for option in asked["waiting"]["options"]] == ["new", "existing"]
    assert expecting(0, "answer", asked["session"], "new").result["agent"] == "notes-2"
    assert len(expecting(0, "revisions", "notes").value) == 1
    onto = expecting(0, "build", other, "--answer", "existing").result
    assert onto["agent"] == "notes"
    assert len(expecting(0, "revisions", "notes").value) == 2


def test_the_very_same_tree_from_another_place_is_the_agent_that_is_there(home: Path, tmp_path: Path) -> None:
    for place in ("a", "b"):
        shutil.copytree(INPUTS / "documentation", tmp_path / place / "notes")
    first = expecting(0, "build", tmp_path / "a" / "notes").result
    assert expecting(0, "build", tmp_path / "b" / "notes").result["revision"] == first["revision"]


def test_build_with_agent_edits_that_agent_from_any_source(docs: str, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(INPUTS / "documentation", other)
    (other / "docs" / "more.md").write_text("# More\n\nA buoy floats.\n")
    result = expecting(0, "build", other, "--agent", docs).result
    assert result["agent"] == docs
    assert expecting(0, "agents").value[0]["latest"] == result["revision"]


def test_build_with_an_agent_that_is_not_there_is_refused(home: Path) -> None:
    assert expecting(1, "build", "--agent", "nobody").error["code"] == "not_found"
    assert expecting(0, "sessions").value == []


# --- going on ------------------------------------------------------------------------------------------


def test_resume_of_a_session_that_waits_gives_the_same_stop(home: Path) -> None:
    asked = expecting(10, "build", INPUTS / "subagents").result
    assert expecting(10, "resume", asked["session"]).result["waiting"] == asked["waiting"]


def test_resume_with_words_goes_on(docs: str) -> None:
    session = expecting(0, "run", docs, "how is a harbour measured?").result["session"]
    ran = expecting(0, "resume", session, "-m", "does it read feet?")
    assert "feet" in ran.result["output"]


def test_resume_with_answers_uses_them(home: Path) -> None:
    asked = expecting(10, "build", INPUTS / "subagents").result
    assert expecting(0, "resume", asked["session"], "--answer", "2").result["stop"] == "completed"


def test_a_session_is_named_by_the_beginning_of_its_id(home: Path) -> None:
    session = expecting(10, "build").result["session"]
    assert expecting(0, "transcript", session[:8]).value[0]["session"] == session
    error = expecting(1, "transcript", "zzzz").error
    assert (error["code"], "artificer sessions" in error["hint"]) == ("not_found", True)


def test_a_build_says_what_to_try_next(home: Path) -> None:
    ran = artificer("build", INPUTS / "documentation", "--publish", json=False)
    assert ran.code == 0
    assert "artificer run documentation" in ran.out
    assert ran.err == ""
