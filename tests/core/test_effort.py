"""What thinks, and how hard, is a session's own, may change between turns, and is stamped on every turn."""

from __future__ import annotations

from pathlib import Path

from core import LaunchInput, launch_agent
from tests.harness.eval_driver import EvalDriver, Stage
from tests.harness.scripted import ScriptedProvider


def stamps(stage: Stage) -> list[tuple[str | None, str | None]]:
    """Model and effort of each of the assistant's messages."""
    said = [event.data for event in stage.events("message") if event.data["role"] == "assistant"]
    return [(data["model"], data.get("effort")) for data in said]


async def test_it_is_asked_for_in_every_request_until_it_is_changed_and_stamped_on_every_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["One.", "Two.", "Three."])
    await stage.run("First", model="small", effort="low")
    await stage.run("Second")
    await stage.run("Third", model="large", effort="high")
    assert [request.effort for request in stage.provider.requests] == ["low", "low", "high"]
    assert stamps(stage) == [("small", "low"), ("small", "low"), ("large", "high")]


async def test_another_provider_has_other_words_for_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["One."])
    await stage.run("First", effort="low")
    other = ScriptedProvider(["Two.", "Three."])
    other.name = "other"
    stage.host.provider = lambda name: other
    for task in ("Second", "Third"):
        await launch_agent(stage.driver, LaunchInput(host=stage.host, session="s1", task=task, provider="other"))
    assert [request.effort for request in other.requests] == [None, None]


async def test_an_agents_own_wish_holds_where_nobody_says_otherwise(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["One.", "Two."], EvalDriver(more={"effort": "medium"}))
    await stage.run("First")
    await stage.run("Second", effort="high")
    assert [request.effort for request in stage.provider.requests] == ["medium", "high"]
