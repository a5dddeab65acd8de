"""A suite as an environment: what it brings stands in place of the agent's own, and nothing leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import LaunchInput, UnknownResource, launch_agent
from core.lab.suite import load_suite
from impl.drivers.suite import SuiteDriver, in_suite
from tests.harness.eval_driver import EvalDriver, make_host, tool
from tests.harness.scripted import ScriptedProvider, call


def suite_in(root: Path, text: str = "persona: You are canned.\n", **files: str) -> SuiteDriver:
    return SuiteDriver(load_suite(write(root, text, **files)), agent())


def write(root: Path, text: str, **files: str) -> Path:
    for name, content in {"suite.yaml": "schema: artificer/suite/v1\nname: small\n" + text, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def agent() -> EvalDriver:
    return EvalDriver(
        text="You are real.",
        skills={"real": "Really."},
        corpus={"real.md": "The tide is real."},
        tools=[tool("lookup", lambda args: "live"), tool("add", lambda args: "added")],
        mcp={"tides": "https://tides.example.com"},
        has={"KEY": True},
    )


SKILL = "---\nname: canned\ndescription: How it is canned.\n---\nFrom the tin.\n"
CANNED = {"corpus/a.md": "# Tides\n\nThe tide is canned.\n", "skills/canned/SKILL.md": SKILL}


async def test_what_the_suite_does_not_bring_is_the_agents(tmp_path: Path) -> None:
    driver = suite_in(tmp_path)
    persona = await driver.persona()
    assert (persona.text, [skill.name for skill in persona.skills]) == ("You are real.", ["real"])
    assert [found.text for found in await driver.search_corpus("tide")] == ["The tide is real."]
    assert (await driver.skill("real")).text == "Really."
    assert [tool.spec.name for tool in await driver.plugins()] == ["lookup", "add"]


async def test_its_corpus_and_skills_stand_in_place_of_the_agents(tmp_path: Path) -> None:
    driver = suite_in(tmp_path, **CANNED)
    persona = await driver.persona()
    assert (persona.text, [skill.name for skill in persona.skills]) == ("You are real.", ["canned"])
    (passage,) = await driver.search_corpus("tide")
    assert "canned" in passage.text
    assert [document.path for document in await driver.list_corpus()] == ["a.md"]
    assert (await driver.skill("canned")).text == "From the tin."
    with pytest.raises(UnknownResource):
        await driver.skill("real")


async def test_its_answers_stand_in_place_of_the_tools(tmp_path: Path) -> None:
    text = (
        "persona: x\ntools:\n  lookup:\n    answers:\n    - {when: {id: 1}, output: [one]}\n"
        "    - {when: {id: 2}, output: gone, ok: false}\n"
        "  extra: {description: One of its own., answers: [{output: always}]}\n"
    )
    turn = [call("lookup", id=1), call("lookup", id=2), call("lookup", id=3), call("add"), call("extra", x=1)]
    driver = suite_in(tmp_path / "suite", text)
    host = make_host(tmp_path / "home", driver=driver, provider=ScriptedProvider([turn, "done"]))
    outcome = await launch_agent(driver, LaunchInput(host=host, task="Go.", provider="scripted"))
    results = [(e.data["ok"], e.data["output"]) for e in host.store.events(outcome.info.id, kinds=("tool_result",))]
    assert results[0] == (True, '[\n "one"\n]')
    assert results[1] == (False, "gone")
    assert results[2] == (False, 'replay_miss: the suite has no answer of lookup to {"id": 3}')
    assert results[3:] == [(True, "added"), (True, "always")]


async def test_no_credential_has_a_value_and_no_server_an_address_but_as_it_says(tmp_path: Path) -> None:
    driver = suite_in(tmp_path, "persona: x\ncredentials: {OTHER: true}\nmcp: {canned: 'http://127.0.0.1:1'}\n")
    assert (await driver.resolve("KEY"), await driver.resolve("OTHER")) == (False, True)
    assert await driver.ext_mcp_url("canned") == "http://127.0.0.1:1"
    with pytest.raises(UnknownResource):
        await driver.ext_mcp_url("tides")


async def test_a_suite_alone_is_an_environment_too(tmp_path: Path) -> None:
    suite = load_suite(write(tmp_path / "suite", "persona: You are canned.\n", **CANNED))
    driver = SuiteDriver(suite)
    provider = ScriptedProvider(["done"])
    host = make_host(tmp_path / "home", driver=driver, provider=provider)
    await launch_agent(driver, LaunchInput(host=host, task="Go.", provider="scripted"))
    (asked,) = provider.requests
    assert asked.system.startswith("You are canned.")
    assert asked.tools == ("ask_user", "read_skill", "search_corpus", "list_corpus", "get_corpus")


def test_a_session_names_the_very_suite_it_stands_in(tmp_path: Path) -> None:
    suite = load_suite(write(tmp_path / "suite", "persona: x\n"))
    assert in_suite(agent(), suite.to_json()).suite == suite
    with pytest.raises(UnknownResource, match="changed"):
        in_suite(agent(), {**suite.to_json(), "digest": "sha256:other"})
    with pytest.raises(UnknownResource, match="gone"):
        in_suite(agent(), {"path": str(tmp_path / "nowhere"), "digest": suite.digest})
