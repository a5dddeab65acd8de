"""A model as the Builder, through commands: it writes, saves, validates, repairs, publishes; and is never believed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from core import ModelRequest, ToolResult, check_bundle, check_tool, register_provider
from tests.harness.commands import Ran, expecting
from tests.harness.home import INPUTS
from tests.harness.scripted import ScriptedProvider, call

MANIFEST = "schema: artificer/v1\nname: greeter\ndescription: Greets people.\n"


def shell(command: str) -> Any:
    return call("run_sandbox", command=command)


def writing(**contents: str) -> Any:
    """A command that writes the files of /work/agent; `__` stands for a slash, `_` for a dot."""
    lines = ["mkdir -p agent"]
    for key, text in contents.items():
        path = key.replace("__", "/").replace("_", ".")
        lines += [f"mkdir -p agent/{Path(path).parent}", f"cat > agent/{path} <<'END'\n{text}END"]
    return shell("\n".join(lines))


GREETER = writing(agent_yaml=MANIFEST, persona_md="You greet people.\n")


@pytest.fixture
def model(home: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProvider:
    """A scripted model that commands think with."""
    provider = ScriptedProvider()
    register_provider("scripted", lambda: provider)
    monkeypatch.setenv("ARTIFICER_PROVIDER", "scripted")
    monkeypatch.setattr("impl.providers._instances", {})
    return provider


def play(model: ScriptedProvider, *turns: Any) -> None:
    model.script = [turn if isinstance(turn, str | list) or callable(turn) else [turn] for turn in turns]


def outputs(ran: Ran) -> list[Any]:
    """What the tools gave, as JSON where it is."""
    found = []
    for event in ran.events:
        if event["kind"] == "tool_result":
            text = event["data"]["output"]
            found.append(json.loads(text) if text.startswith("{") else text)
    return found


def last_result(request: ModelRequest) -> str:
    """The newest tool result a model was shown."""
    results = [b.output for m in request.messages for b in m.blocks if isinstance(b, ToolResult)]
    return results[-1]


# --- building ------------------------------------------------------------------------------------------


def test_a_model_writes_saves_repairs_what_the_gate_says_and_publishes(home: Path, model: ScriptedProvider) -> None:
    def repair(request: ModelRequest) -> Sequence[Any]:
        (problem,) = json.loads(last_result(request))["problems"]
        assert (problem["code"], problem["path"]) == ("persona_missing", "persona.md")
        return [shell(f"echo 'You greet people.' > agent/{problem['path']}")]

    play(
        model,
        writing(agent_yaml=MANIFEST),
        call("save_agent", path="agent"),
        call("validate_agent"),
        repair,
        call("save_agent", path="/work/agent"),
        call("publish_agent"),
        "The greeter is ready.",
    )
    ran = expecting(0, "build", "-m", "An agent that greets people", "--publish")
    result = ran.result
    assert (result["stop"], result["agent"], result["channel"]) == ("completed", "greeter", "live")
    (row,) = expecting(0, "agents").value
    assert (row["name"], row["live"], row["latest"]) == ("greeter", result["revision"], result["revision"])
    rows = expecting(0, "revisions", "greeter").value
    assert [(row["by"], row["validated"]) for row in rows] == [("builder", "failed"), ("builder", "passed")]
    assert rows[0]["message"] == "An agent that greets people"


def test_a_model_gets_the_platform_tools_and_no_import_by_rules(model: ScriptedProvider) -> None:
    expecting(10, "build", "-m", "An agent")
    assert set(model.requests[0].tools) == {
        *("ask_user", "run_sandbox", "cannot_convert", "save_agent", "register_agent_tool", "get_agent_bundle"),
        *("request_agent_credentials", "validate_agent", "publish_agent"),
    }


def test_a_reply_before_anything_passed_is_a_question(model: ScriptedProvider) -> None:
    play(model, GREETER, call("save_agent", path="agent"), "It is done and works, trust me.")
    assert expecting(10, "build", "-m", "x").result["stop"] == "awaiting_user"


def test_words_of_the_person_ask_for_a_fresh_validation(model: ScriptedProvider) -> None:
    play(model, GREETER, call("save_agent", path="agent"), call("validate_agent"), "Done.", "Nothing to change.")
    session = expecting(0, "build", "-m", "x").result["session"]
    assert expecting(10, "resume", session, "-m", "make it polite").result["stop"] == "awaiting_user"


# --- the source ----------------------------------------------------------------------------------------


def test_a_local_source_lies_in_the_workspace_before_the_first_turn_and_the_model_is_told(
    home: Path, model: ScriptedProvider, tmp_path: Path
) -> None:
    source = tmp_path / "notes"
    shutil.copytree(INPUTS / "documentation", source)
    play(model, shell("cat source/README.md | head -3; ls source"), "What should it do?")
    ran = expecting(10, "build", source)
    first = model.requests[0].messages
    told = "\n".join(message.text for message in first)
    assert f"Build an agent from {source}" in told
    assert "copied to /work/source" in told
    assert "# Tidepool" in outputs(ran)[0]
    assert model.requests[1].messages[: len(first)] == first


def test_a_source_that_cannot_be_brought_in_is_said_to_the_model(model: ScriptedProvider, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    play(model, "That folder is empty. Which one did you mean?")
    expecting(10, "build", tmp_path / "empty")
    told = "\n".join(message.text for message in model.requests[0].messages)
    assert "could not be brought in (empty)" in told


def test_the_source_and_its_licence_stand_beside_the_revision(model: ScriptedProvider, tmp_path: Path) -> None:
    play(model, GREETER, call("save_agent", path="agent"), call("validate_agent"), "Done.")
    expecting(0, "build", INPUTS / "documentation")
    value = expecting(0, "show", "greeter").value
    assert value["source"]["path"] == str(INPUTS / "documentation")
    assert value["licence"] == {"spdx": "MIT", "status": "found", "path": "LICENSE"}


def test_an_agent_that_is_edited_lies_in_the_workspace(model: ScriptedProvider) -> None:
    play(model, GREETER, call("save_agent", path="agent"), call("validate_agent"), "Done.")
    first = expecting(0, "build", "-m", "x").result
    play(
        model,
        shell("cat agent/persona.md; echo 'Be brief.' >> agent/persona.md"),
        call("save_agent", path="agent"),
        call("validate_agent"),
        "Brief now.",
    )
    second = expecting(0, "build", "--agent", "greeter", "-m", "briefer")
    assert outputs(second)[0] == "You greet people."
    assert second.result["revision"] != first["revision"]
    assert expecting(0, "revisions", "greeter").value[1]["parents"] == [first["revision"]]


def test_no_safe_conversion_exits_13_with_the_evidence(model: ScriptedProvider) -> None:
    evidence = ["main.py:3: import pyautogui"]
    play(model, call("cannot_convert", capability="desktop control", reason="It clicks.", evidence=evidence))
    result = expecting(13, "build", "-m", "x").result
    assert result["evidence"] == {"capability": "desktop control", "reason": "It clicks.", "evidence": evidence}


# --- publishing is the person's act --------------------------------------------------------------------

PUBLISHING = (GREETER, call("save_agent", path="agent"), call("validate_agent"), call("publish_agent"))


def asked_to_publish(model: ScriptedProvider, *after: Any) -> dict[str, Any]:
    play(model, *PUBLISHING, *after)
    result = expecting(12, "build", "-m", "x").result
    assert (result["stop"], result["waiting"]["kind"]) == ("needs_approval", "approval")
    assert result["revision"] in result["waiting"]["message"]
    assert [option["id"] for option in result["waiting"]["options"]] == ["once", "deny"]
    assert expecting(0, "agents").value[0]["live"] is None
    return result


def test_publishing_unasked_waits_for_a_yes_to_exactly_this_digest(model: ScriptedProvider) -> None:
    asked = asked_to_publish(model, "Published.")
    done = expecting(0, "answer", asked["session"], "once").result
    assert (done["channel"], done["revision"]) == ("live", asked["revision"])
    assert expecting(0, "agents").value[0]["live"] == asked["revision"]
    assert expecting(0, "log", "greeter").value[0]["by"] == "person"


@pytest.mark.parametrize("words", ["session", "always", "sure, why not"])
def test_only_once_and_deny_answer_a_publication(model: ScriptedProvider, words: str) -> None:
    asked = asked_to_publish(model)
    assert expecting(12, "answer", asked["session"], words).result["waiting"] == asked["waiting"]
    assert expecting(0, "agents").value[0]["live"] is None


def test_a_no_goes_on_and_publishes_nothing(model: ScriptedProvider) -> None:
    asked = asked_to_publish(model, "Then it stays unpublished.")
    done = expecting(0, "answer", asked["session"], "deny").result
    assert (done["stop"], done["output"]) == ("completed", "Then it stays unpublished.")
    assert expecting(0, "log", "greeter").value == []


def test_a_yes_is_for_one_revision_and_the_next_one_asks_again(model: ScriptedProvider) -> None:
    asked = asked_to_publish(
        model,
        shell("echo 'Be brief.' >> agent/persona.md"),
        call("save_agent", path="agent"),
        call("publish_agent"),
        "Published.",
    )
    again = expecting(12, "answer", asked["session"], "once").result
    assert again["revision"] != asked["revision"]
    assert expecting(0, "agents").value[0]["live"] == asked["revision"]
    expecting(0, "answer", asked["session"], "once")
    assert expecting(0, "agents").value[0]["live"] == again["revision"]


def test_a_channel_that_moved_meanwhile_asks_again(model: ScriptedProvider, tmp_path: Path) -> None:
    asked = asked_to_publish(model, "Published.")
    expecting(0, "checkout", "greeter", tmp_path / "edit")
    (tmp_path / "edit" / "persona.md").write_text("You wave.\n")
    other = expecting(0, "save", tmp_path / "edit").value["digest"]
    expecting(0, "validate", "greeter")
    expecting(0, "publish", "greeter")
    again = expecting(12, "answer", asked["session"], "once").result
    assert other in again["waiting"]["message"]
    assert expecting(0, "agents").value[0]["live"] == other
    expecting(0, "answer", asked["session"], "once")
    assert expecting(0, "agents").value[0]["live"] == asked["revision"]


def test_what_fails_the_gate_is_not_even_asked_about(model: ScriptedProvider) -> None:
    play(model, writing(agent_yaml=MANIFEST), call("save_agent", path="agent"), call("publish_agent"), "I cannot.")
    ran = expecting(10, "build", "-m", "x", "--publish")
    assert outputs(ran)[-1]["published"] is False
    assert [problem["code"] for problem in outputs(ran)[-1]["problems"]] == ["persona_missing"]
    assert expecting(0, "log", "greeter").value == []


# --- what a model must not reach -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/etc", "/", "..", "../..", "agent/../../..", "/work/../etc", "link", "link/inner", "nothing", "a\x00b"]
)
@pytest.mark.parametrize("tool", ["save_agent", "register_agent_tool"])
def test_a_path_that_is_not_plainly_inside_the_workspace_is_refused(
    model: ScriptedProvider, tmp_path: Path, tool: str, path: str
) -> None:
    outside = tmp_path / "outside" / "inner"
    outside.mkdir(parents=True)
    (outside / "agent.yaml").write_text(MANIFEST)
    play(model, shell(f"ln -s {outside.parent} link"), call(tool, path=path), "I see.")
    ran = expecting(10, "build", "-m", "x")
    assert outputs(ran)[1]["error"]["code"] == "outside"
    assert expecting(0, "agents").value == []


def test_a_manifest_that_is_a_link_is_neither_read_nor_written_through(model: ScriptedProvider, tmp_path: Path) -> None:
    secret = tmp_path / "agent.yaml"
    secret.write_text(MANIFEST)
    play(
        model,
        shell(f"mkdir agent; ln -s {secret} agent/agent.yaml; echo hi > agent/persona.md"),
        call("save_agent", path="agent", name="taken-over"),
        "I see.",
    )
    ran = expecting(10, "build", "-m", "x")
    assert [problem["code"] for problem in outputs(ran)[1]["problems"]] == ["symlink"]
    assert secret.read_text() == MANIFEST
    assert expecting(0, "agents").value == []


def test_a_huge_file_is_a_problem_and_not_an_agent(model: ScriptedProvider) -> None:
    play(model, GREETER, shell("truncate -s 3G agent/huge.bin"), call("save_agent", path="agent"), "I see.")
    ran = expecting(10, "build", "-m", "x")
    assert [problem["code"] for problem in outputs(ran)[2]["problems"]] == ["file_too_large"]


def test_another_agents_name_needs_the_persons_yes(model: ScriptedProvider, docs: str) -> None:
    bundle = writing(agent_yaml=MANIFEST.replace("greeter", docs), persona_md="You took over.\n")
    before = expecting(0, "agents").value
    play(
        model,
        bundle,
        call("save_agent", path="agent"),
        call("save_agent", path="agent", onto_existing=True),
        call("validate_agent"),
        "Added.",
    )
    ran = expecting(12, "build", "-m", "x")
    assert outputs(ran)[1]["error"]["code"] == "name_taken"
    assert docs in ran.result["waiting"]["message"]
    assert expecting(0, "agents").value == before
    done = expecting(0, "answer", ran.result["session"], "once").result
    assert (done["agent"], len(expecting(0, "revisions", docs).value)) == (docs, 2)


def test_a_no_leaves_the_other_agent_alone(model: ScriptedProvider, docs: str) -> None:
    bundle = writing(agent_yaml=MANIFEST.replace("greeter", docs), persona_md="You took over.\n")
    before = expecting(0, "agents").value
    play(model, bundle, call("save_agent", path="agent", onto_existing=True), "Under which name, then?")
    session = expecting(12, "build", "-m", "x").result["session"]
    assert expecting(10, "answer", session, "deny").result["stop"] == "awaiting_user"
    assert expecting(0, "agents").value == before


def test_a_name_that_is_none_is_refused(model: ScriptedProvider) -> None:
    play(model, GREETER, call("save_agent", path="agent", name="../x"), "I see.")
    assert outputs(expecting(10, "build", "-m", "x"))[1]["error"]["code"] == "bad_name"


# --- what the Builder is told --------------------------------------------------------------------------


def test_the_examples_of_the_builders_persona_pass_the_gate(tmp_path: Path) -> None:
    """What a model is shown as valid must be valid."""
    text = files("core.builder").joinpath("bundle/persona.md").read_text("utf-8")
    blocks = [re.sub(r"^    ", "", block, flags=re.M) for block in re.findall(r"(?:^(?:    .*)?\n)+", text, flags=re.M)]
    manifest = next(b for b in blocks if b.lstrip().startswith("schema: artificer/v1"))
    tool = next(b for b in blocks if b.lstrip().startswith("name: find_berth"))
    code = next(b for b in blocks if "def run(ctx, input)" in b)
    bundle = tmp_path / "bundle"
    for name in ("skills/booking", "tools/find_berth", "corpus"):
        (bundle / name).mkdir(parents=True)
    (bundle / "agent.yaml").write_text(manifest.lstrip("\n"))
    (bundle / "persona.md").write_text("You know the tides.\n")
    (bundle / "corpus" / "tides.md").write_text("# Tides\n")
    (bundle / "skills" / "booking" / "SKILL.md").write_text("---\nname: booking\ndescription: Books.\n---\nBook.\n")
    (bundle / "tools" / "find_berth" / "tool.yaml").write_text(tool.lstrip("\n"))
    (bundle / "tools" / "find_berth" / "tool.py").write_text(code.lstrip("\n"))
    assert check_tool(bundle / "tools" / "find_berth") == []
    assert check_bundle(bundle) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARTIFICER_HOME", str(tmp_path / "home"))
        expecting(0, "save", bundle)
        ran = expecting(0, "validate", "tide-clerk").value
    assert [check["name"] for check in ran["checks"]][-1] == "examples"
