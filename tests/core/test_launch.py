"""What an agent is assembled into, and what a launch drives it with: one driver, one loop."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from core import LaunchInput, Stop, Text, ToolOutput, ToolResult, ToolSpec, UnknownResource, launch_agent
from core.launch import NoSuchSession
from tests.harness.eval_driver import EvalDriver, OneSandbox, Stage, tool
from tests.harness.scripted import ScriptedProvider, call


async def test_the_request_of_an_agent_is_exactly_this(tmp_path: Path) -> None:
    asked: list[object] = []

    def look(request: object) -> str:
        asked.append(request)
        return "done"

    driver = EvalDriver(
        text="You keep the books.\n",
        skills={"audit": "Check every line."},
        corpus={"guide.md": "# Guide"},
        policy={"run_sandbox": "ask"},
        tools=[tool("add", lambda args: "3", {"type": "object", "required": ["a"]}, "Adds.")],
    )
    await Stage(tmp_path, [look], driver).run("Close the year.")
    (request,) = asked
    assert request.system == (
        "You keep the books.\n\n"
        "## Skills\n\nRead a skill with read_skill before you follow it.\n\n- audit: How to audit.\n\n"
        "## Documentation\n\nAnswer from the documentation: search it, quote the passages you use, "
        "and say where each stands (path and line). Say so where it does not answer.\n\n"
        "## Workspace\n\nCommands run in a sandbox. They start in /work, which persists for this session."
    )
    assert [spec.name for spec in request.tools] == [
        "ask_user",
        "read_skill",
        "search_corpus",
        "list_corpus",
        "get_corpus",
        "run_sandbox",
        "add",
    ]
    assert request.tools[-1] == ToolSpec("add", "Adds.", {"type": "object", "required": ["a"]})
    assert request.session == "s1"
    assert request.model == "scripted-1"


async def test_an_agent_without_corpus_skills_or_shell_gets_only_ask_user(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["hi"])
    await stage.run("Hello")
    assert stage.provider.requests[0].tools == ("ask_user",)
    assert stage.provider.requests[0].system == "You are a test agent."


async def test_a_skill_with_scripts_brings_run_skill_which_asks_by_default(tmp_path: Path) -> None:
    driver = EvalDriver(skills={"count": "Count."}, scripts={"count": {"scripts/n.sh": "echo"}})
    stage = Stage(tmp_path, [[call("run_skill", name="count", script="scripts/n.sh")]], driver)
    outcome = await stage.run("Count")
    assert "run_skill" in stage.provider.requests[0].tools
    assert outcome.stop is Stop.NEEDS_APPROVAL


async def test_a_denied_tool_is_not_offered_and_calling_it_says_there_is_none(tmp_path: Path) -> None:
    ran: list[object] = []
    driver = EvalDriver(tools=[tool("wipe", lambda args: ran.append(args) or "")], policy={"wipe": "deny"})
    stage = Stage(tmp_path, [[gone := call("wipe")], "ok"], driver)
    await stage.run("Wipe")
    assert stage.provider.requests[0].tools == ("ask_user",)
    assert "There is no tool 'wipe'" in stage.results()[gone.id]
    assert ran == []


async def test_plugin_tools_are_run_with_their_arguments(tmp_path: Path) -> None:
    driver = EvalDriver(tools=[tool("add", lambda args: str(args["a"] + args["b"]))])
    stage = Stage(tmp_path, [[add := call("add", a=1, b=2)], "3"], driver)
    outcome = await stage.run("Add")
    assert stage.results() == {add.id: "3"}
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "3")


async def test_retrieval_gives_passages_with_their_place(tmp_path: Path) -> None:
    driver = EvalDriver(corpus={"a.md": "# Cats\n\ncats purr\n\n# Dogs\n\ndogs bark\n", "b.md": "birds sing"})
    turns = [
        [
            found := call("search_corpus", query="dogs"),
            listed := call("list_corpus"),
            part := call("get_corpus", path="a.md", start=7, lines=1),
            missing := call("get_corpus", path="c.md"),
        ],
        "done",
    ]
    stage = Stage(tmp_path, turns, driver)
    await stage.run("What do dogs do?")
    results = stage.results()
    assert '"path": "a.md"' in results[found.id]
    assert '"line": 7' in results[found.id]
    assert '"path": "b.md"' in results[listed.id]
    assert results[part.id] == "dogs bark"
    assert results[missing.id].startswith("There is no document 'c.md'.")


async def test_a_skill_is_read_with_its_files_and_an_unknown_one_names_what_there_is(tmp_path: Path) -> None:
    driver = EvalDriver(skills={"audit": "Check."}, scripts={"audit": {"scripts/x.sh": "true"}})
    turns = [[known := call("read_skill", name="audit"), unknown := call("read_skill", name="audits")], "done"]
    stage = Stage(tmp_path, turns, driver)
    await stage.run("Audit")
    assert stage.results()[known.id] == "Check.\n\nFiles of this skill:\n- scripts/x.sh"
    assert "The skills are: audit." in stage.results()[unknown.id]


async def test_commands_run_in_the_sessions_own_sandbox_and_its_files_persist(tmp_path: Path) -> None:
    driver = EvalDriver(policy={"run_sandbox": "allow"})
    turns = [[call("run_sandbox", command="echo kept > a; pwd")], "one", [cat := call("run_sandbox", command="cat a")]]
    stage = Stage(tmp_path, turns, driver)
    await stage.run("Write")
    await stage.run("Read")
    assert stage.results()[cat.id] == "kept"
    assert "/work" in stage.results().values()


async def test_a_tool_named_like_a_standard_one_stops_the_run_in_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [], EvalDriver(tools=[tool("ask_user", lambda args: "")]))
    outcome = await stage.run("Hello")
    assert (outcome.stop, outcome.record.detail) == (Stop.PLATFORM_ERROR, "name_clash")
    assert "ask_user" in outcome.record.evidence["text"]
    assert stage.info.status == "stopped"


class BrokenDriver(EvalDriver):
    """A driver whose bundle is gone."""

    async def persona(self) -> object:
        raise UnknownResource("There is no revision sha256:0 of x.")


async def test_a_persona_on_trial_stands_in_place_of_the_agents_and_on_record(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["hi", "again"], EvalDriver(text="You are you.", policy={"run_sandbox": "allow"}))
    await stage.run("Hello", persona="You are another.", digest="sha256:0")
    await stage.answer("Go on")
    first, second = stage.provider.requests
    assert first.system == second.system
    assert first.system.startswith("You are another.\n\n## Workspace")
    (started,) = stage.events("started")
    assert started.data["digest"] == "sha256:0"
    assert started.data["persona"] == {
        "digest": f"sha256:{hashlib.sha256(b'You are another.').hexdigest()}",
        "text": "You are another.",
    }
    assert ["on trial" in event.data["text"] for event in stage.events("notice")] == [True]


async def test_a_driver_that_fails_stops_the_run_in_words_and_can_be_resumed_once_mended(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["fine"], BrokenDriver())
    outcome = await stage.run("Hello")
    assert (outcome.stop, outcome.record.evidence["text"]) == (
        Stop.PLATFORM_ERROR,
        "There is no revision sha256:0 of x.",
    )
    stage.driver = EvalDriver()
    assert (await stage.run()).record.output == "fine"


async def test_no_sandbox_is_a_stop_that_says_what_to_do(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [], sandboxes=OneSandbox(unavailable="Install bubblewrap."))
    outcome = await stage.run("Hello")
    assert (outcome.stop, outcome.record.detail) == (Stop.PLATFORM_ERROR, "sandbox_unavailable")
    assert "Install bubblewrap." in outcome.record.evidence["text"]


async def test_an_unknown_provider_is_a_stop_in_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.host.provider = lambda name: {}[name]
    outcome = await stage.run("Hello")
    assert outcome.stop is Stop.PLATFORM_ERROR
    assert stage.info.status == "stopped"


async def test_a_provider_may_be_given_itself(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    given = LaunchInput(host=stage.host, session="own", task="Hi", provider=ScriptedProvider(["mine"]))
    outcome = await launch_agent(stage.driver, given)
    assert (outcome.record.output, outcome.info.provider) == ("mine", "scripted")


async def test_going_on_with_a_session_there_is_none_of_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoSuchSession):
        await Stage(tmp_path).run(answer="x")


async def test_the_result_line_has_every_field(tmp_path: Path) -> None:
    outcome = await Stage(tmp_path, ["hi"]).run("Hello")
    assert outcome.to_json() == {
        "type": "result",
        "stop": "completed",
        "session": "s1",
        "agent": None,
        "revision": None,
        "channel": None,
        "output": "hi",
        "waiting": None,
        "evidence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cached_tokens": 0, "requests": 1},
        "cost": {"usd": None},
        "detail": None,
    }


async def test_a_tool_that_fails_is_a_result_and_the_loop_goes_on(tmp_path: Path) -> None:
    driver = EvalDriver(
        tools=[tool("boom", lambda args: {}["x"]), tool("no", lambda args: ToolOutput("nope", ok=False))]
    )
    stage = Stage(tmp_path, [[boom := call("boom"), no := call("no")], "so be it"], driver)
    outcome = await stage.run("Try")
    assert outcome.record.output == "so be it"
    results = stage.provider.requests[1].messages[-1].blocks
    assert results == (
        ToolResult(boom.id, False, "The tool failed inside Artificer: KeyError: 'x'"),
        ToolResult(no.id, False, "nope"),
    )


async def test_the_models_first_message_is_the_task(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["hi"])
    await stage.run("Count to three.")
    (message,) = stage.provider.requests[0].messages
    assert (message.role, message.blocks) == ("user", (Text("Count to three."),))
