"""Stops as cards: each says what happened, what is next, and the keys that do it."""

from __future__ import annotations

from typing import Any

import pytest

from core import Option, Stop, Waiting
from tests.harness.stage import question, stopped
from tui.view.cards import Card, card_of
from tui.view.text import plain_text


def card(stop: str, **record: Any) -> Card:
    found = card_of(stopped(stop, **record)[1])
    assert found is not None
    return found


def words(of: Card) -> str:
    return "\n".join((of.title, *(plain_text(spans) for spans in of.body), of.footer))


def test_a_question_numbers_its_options_and_marks_the_recommended_one() -> None:
    found = card("awaiting_user", waiting=question("Which?", "Alpha", "Beta", recommended=2))
    assert [(c.number, c.label, c.recommended) for c in found.choices] == [(1, "Alpha", False), (2, "Beta", True)]
    assert [(key.key, key.send) for key in found.keys] == [("1", "o1"), ("2", "o2")]


def test_a_long_question_is_a_body_under_a_short_title() -> None:
    found = card("awaiting_user", waiting=question("Why " * 40))
    assert found.title == "Your answer, please"
    assert plain_text(found.body[0]).startswith("Why Why")


@pytest.mark.parametrize("stop", ["completed", "cancelled", "awaiting_user", "no stop at all"])
def test_what_needs_no_card_has_none(stop: str) -> None:
    assert card_of(stopped(stop)[1]) is None


def test_an_approval_shows_exactly_what_runs() -> None:
    options = (Option("once", "once"), Option("deny", "deny"))
    detail = {"tool": "run_sandbox", "args": {"command": "rm -rf build\nmake"}}
    found = card("needs_approval", waiting=Waiting("approval", "c", "Run?", options, detail=detail))
    assert [plain_text(spans) for spans in found.body] == ["$ rm -rf build", "  make"]
    assert {key.key: key.send for key in found.keys} == {"y": "once", "n": "deny"}


def test_an_approval_of_other_arguments_leaves_nothing_out() -> None:
    detail = {"tool": "publish_agent", "args": {"agent": "a", "note": "x" * 5000}, "digest": "sha256:1"}
    found = card("needs_approval", waiting=Waiting("approval", "c", "Run?", detail=detail))
    assert "x" * 5000 in words(found)
    assert "sha256:1" in words(found)


def test_a_credential_names_itself_its_hosts_and_the_command() -> None:
    waits = Waiting("credentials", "c", "A key.", names=("KEY",), detail={"agent": "bot", "hosts": ["api.example"]})
    found = card("needs_credentials", waiting=waits)
    assert found.names == ("KEY",)
    assert "api.example" in words(found)
    assert "artificer credentials set bot KEY" in words(found)


def test_a_doom_loop_shows_the_failure_how_often_and_where() -> None:
    evidence = {"count": 4, "failure": "No module named 'yaml'", "first": 41, "last": 77}
    found = card("doom_loop", waiting=Waiting("doom_loop", "r", "…"), evidence=evidence)
    assert found.title == "The same failure 4 times, nothing new"
    assert "No module named 'yaml'" in words(found)
    assert "first event 41 · last event 77" in words(found)
    keys = {key.key: key.send or key.fill or key.act for key in found.keys}
    assert keys == {"h": "hint ", "r": "retry", "m": "switch ", "e": "end", "enter": "evidence"}


@pytest.mark.parametrize(
    ("stop", "detail", "evidence", "step"),
    [
        ("provider_error", "auth", {"message": "No."}, "give the provider its key"),
        ("provider_error", "odd", {"message": "No.", "hint": "Do this."}, "Do this."),
        ("platform_error", "sandbox_unavailable", {"text": "No."}, "artificer doctor"),
        ("platform_error", None, None, "artificer doctor"),
        ("cannot_convert", "x", {"capability": "c", "reason": "r", "evidence": ["a", "b"]}, "name another source"),
        ("refused", "refusal", None, "say it in other words"),
        ("budget", "output_limit", None, "smaller parts"),
    ],
)
def test_every_failure_names_the_next_step(stop: str, detail: str | None, evidence: Any, step: str) -> None:
    found = card(stop, detail=detail, evidence=evidence)
    assert step in words(found)
    assert "Next: " in words(found)


@pytest.mark.parametrize("stop", [stop.value for stop in Stop])
@pytest.mark.parametrize("evidence", [None, "a text", ["a", "list"], {"count": "many", "first": None}])
def test_odd_evidence_never_breaks_a_card(stop: str, evidence: Any) -> None:
    card_of(stopped(stop, evidence=evidence)[1])
