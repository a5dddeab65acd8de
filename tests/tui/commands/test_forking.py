"""`artificer fork`: a session like another, to go on with."""

from __future__ import annotations

from pathlib import Path

from tests.harness.commands import expecting


def test_a_fork_is_driven_with_the_next_message_and_the_other_session_stays(docs: str, home: Path) -> None:
    first = expecting(0, "run", docs, "what has a harbour?").result["session"]
    before = expecting(0, "transcript", first).value
    result = expecting(0, "fork", first, "-m", "how deep is it?").result
    assert result["session"] != first
    rows = expecting(0, "transcript", result["session"]).value
    said = [row["data"]["text"] for row in rows if row["kind"] == "message"]
    assert said[0] == "what has a harbour?"
    assert "how deep is it?" in said
    assert expecting(0, "transcript", first).value == before
    rows = {row["id"]: row for row in expecting(0, "sessions").value}
    assert rows[result["session"]]["parent"] == first


def test_without_words_it_rests_where_the_other_session_does(docs: str, home: Path) -> None:
    first = expecting(0, "run", docs, "what has a harbour?").result
    forked = expecting(0, "fork", first["session"]).result
    assert (forked["stop"], forked["output"]) == ("completed", first["output"])
    assert forked["usage"]["requests"] == 0


def test_what_cannot_be_forked_is_said_with_the_next_step(home: Path) -> None:
    assert expecting(1, "fork", "nothing").error["code"] == "not_found"
