"""The workspace log: what commands print, while they print it."""

from __future__ import annotations

from typing import Any

from core import Event
from tui.view.text import plain_text
from tui.view.worklog import WorkLog, as_line

AT = "2026-03-04T12:00:00.000Z"


def lines(*bodies: tuple[str, dict[str, Any]]) -> list[str]:
    log = WorkLog()
    return [
        plain_text(as_line(shown)).rstrip()
        for seq, (kind, data) in enumerate(bodies, 1)
        for shown in log.apply(Event("s", seq, AT, kind, data=data))
    ]


def command(text: str) -> tuple[str, dict[str, Any]]:
    return "tool_call", {"call": "c", "tool": "run_sandbox", "args": {"command": text}}


def ended(output: str = "", code: int = 0) -> tuple[str, dict[str, Any]]:
    data = {"exit_code": code}
    return "tool_result", {"call": "c", "ok": code == 0, "output": output, "duration_s": 0.2, "data": data}


def test_what_was_printed_live_is_not_printed_again_at_the_end() -> None:
    found = lines(
        command("make"),
        ("log", {"call": "c", "text": "one\ntw"}),
        ("log", {"call": "c", "text": "o\n"}),
        ended("one\ntwo"),
    )
    assert found == ["12:00:00 $ make", "         one", "         two", "12:00:00 ✓ 0.2 s"]


def test_a_line_without_an_end_is_shown_when_the_command_ends() -> None:
    assert "         half" in lines(command("printf half"), ("log", {"call": "c", "text": "half"}), ended("half"))


def test_a_failed_command_says_its_exit_code() -> None:
    assert lines(command("false"), ended("no", 3))[-1] == "12:00:00 ✗ exit 3"


def test_of_an_output_nobody_saw_only_the_beginning_is_shown() -> None:
    found = lines(command("seq 40"), ended("\n".join(map(str, range(40)))))
    assert found[-2] == "         … 28 more lines in the transcript"


def test_escape_sequences_of_commands_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in "".join(lines(command("x"), ("log", {"call": "c", "text": "\x1b[2Jgone\n"}), ended()))


def test_what_a_tool_asked_the_world_for_stands_with_what_came_of_it() -> None:
    facts = {"call": "c", "tool": "rates", "index": 0, "method": "GET", "url": "https://rates.example/now"}
    found = lines(
        ("effect_intent", facts),
        ("effect", {**facts, "outcome": {"status": 200, "body": ""}}),
        ("effect", {**facts, "outcome": {"denied": "host_not_allowed", "detail": "no"}}),
    )
    assert found == [
        "12:00:00 ⇄ GET https://rates.example/now  200",
        "12:00:00 ⊘ GET https://rates.example/now  denied: host_not_allowed",
    ]
