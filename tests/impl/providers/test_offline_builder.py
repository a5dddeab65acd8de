"""How the offline provider builds: each branch from a source in words to a published agent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import Message, Text, TextDelta, ToolCall, ToolResult
from impl.providers.offline import OfflineProvider
from tests.harness.conversation import Conversation, tool

TOOLS = [
    tool("import_source", ["path"], path={"type": "string"}, kind={"type": "string"}, choice={"type": "array"}),
    tool(
        "ask_user",
        ["message"],
        message={"type": "string"},
        options={"type": "array"},
        recommended={"type": "string"},
        multiple={"type": "boolean"},
        free_text={"type": "boolean"},
    ),
    tool("cannot_convert"),
    tool("save_agent", ["path"], path={"type": "string"}, name={"type": "string"}, onto_existing={"type": "boolean"}),
    tool("validate_agent"),
    tool("publish_agent"),
    tool("get_agent_bundle"),
    tool("run_sandbox"),
]
DIGEST = "sha256:" + "4f1c2ab09d7e" + "0" * 52
WHICH = {
    "outcome": "question",
    "kind": "agent_skills",
    "question": "Which skills should it have?",
    "options": [
        {"id": "internal-comms", "label": "internal-comms: write all kinds of messages"},
        {"id": "brand-guidelines", "label": "brand-guidelines: colours and type"},
        {"id": "theme-factory", "label": "theme-factory: themes for slides"},
    ],
    "recommended": "theme-factory",
    "multiple": True,
}
IMPORTED = {
    "outcome": "imported",
    "bundle": "agent",
    "kind": "agent_skills",
    "description": "Writes messages.",
    "counts": {"skills": 1, "files": 6, "tools": 0},
    "loss": [{"path": "a/SKILL.md", "change": "the tool Task is not taken over", "reason": "no counterpart"}],
    "licence": {"spdx": "Apache-2.0", "status": "found", "path": "LICENSE.txt"},
}
SAVED = {"agent": "skills", "digest": DIGEST, "created": True, "problems": []}
PASSED = {"id": "v1", "digest": DIGEST, "passed": True, "problems": []}
PUBLISHED = {"published": True, "channel": "live", "digest": DIGEST}
TAKEN = {"error": {"code": "name_taken", "message": "skills is taken.", "existing": "skills", "suggested": "skills-2"}}


def builder(system: str = "You are the Builder.") -> Conversation:
    return Conversation(OfflineProvider(), TOOLS, system)


async def built(words: str = "Build an agent from ./skills") -> Conversation:
    talk = builder()
    await talk.say(words)
    await talk.result(IMPORTED)
    await talk.result(SAVED)
    return await talk.result(PASSED)


@pytest.mark.parametrize("words", ["Build an agent.", "hello", "I want an agent that answers from our handbook"])
async def test_without_a_source_it_asks_for_one_and_calls_nothing(words: str) -> None:
    talk = await builder().say(words)
    assert talk.call is None
    assert "URL" in talk.reply
    assert "path" in talk.reply
    assert "no model" in talk.reply


async def test_a_source_goes_through_import_save_and_validation_to_a_report() -> None:
    talk = builder()
    await talk.say("Build an agent from https://example.org/x/skills.git")
    assert talk.call == ("import_source", {"path": "https://example.org/x/skills.git"})
    await talk.result(IMPORTED)
    assert talk.call == ("save_agent", {"path": "agent"})
    await talk.result(SAVED)
    assert talk.call == ("validate_agent", {})
    await talk.result(PASSED)
    assert talk.call is None
    for part in (
        "skills",
        "1 skill, 6 files",
        "Apache-2.0 (LICENSE.txt)",
        "a/SKILL.md: the tool Task is not taken over (no counterpart)",
        "4f1c2ab09d7e",
        "publishing it was not asked for",
        'artificer run skills "…"',
        "no model",
    ):
        assert part in talk.reply
    assert "tool," not in talk.reply.split("\n")[0]


@pytest.mark.parametrize(
    ("example", "typed"),
    [
        ("how do I roll back?", '"how do I roll back?"'),
        ("it's late", '"it\'s late"'),
        ("what costs $5!", "'what costs $5!'"),
    ],
)
async def test_the_task_to_try_is_the_sources_own_quoted_for_a_shell(example: str, typed: str) -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills")
    await talk.result({**IMPORTED, "example": example})
    await talk.result(SAVED)
    await talk.result(PASSED)
    assert f"`artificer run skills {typed}`" in talk.reply
    await talk.say("publish")
    await talk.result(PASSED)
    await talk.result(PUBLISHED)
    assert f"Next: `artificer run skills {typed}`, or" in talk.reply


async def test_it_costs_nothing_and_streams_its_reply_in_pieces() -> None:
    talk = await built()
    assert (talk.end.usd, talk.end.usage and talk.end.usage.input_tokens) == (0, 0)
    pieces = [item.text for item in talk.items if isinstance(item, TextDelta)]
    assert len(pieces) > 1
    assert "".join(pieces) == talk.reply


async def test_a_question_is_put_to_the_person_with_its_options_and_the_answer_imports() -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills")
    await talk.result(WHICH)
    assert talk.call is not None
    name, args = talk.call
    assert name == "ask_user"
    assert args["options"] == WHICH["options"]
    assert (args["recommended"], args["multiple"], args["free_text"]) == ("theme-factory", True, False)
    await talk.result({"choice": ["theme-factory"], "text": "3"})
    expected = {"path": "./skills", "kind": "agent_skills", "choice": ["theme-factory"]}
    assert talk.call == ("import_source", expected)


async def test_a_question_for_the_kind_is_answered_by_the_kind() -> None:
    talk = builder()
    await talk.say("Build an agent from ./repo")
    options = [{"id": "agent_skills", "label": "Agent Skills"}, {"id": "documentation", "label": "Documentation"}]
    await talk.result({"outcome": "question", "asks": "kind", "kind": None, "message": "What?", "options": options})
    assert talk.call is not None
    assert talk.call[1]["message"] == "What?"
    await talk.result({"choice": ["documentation"], "text": "2"})
    assert talk.call == ("import_source", {"path": "./repo", "kind": "documentation"})


async def test_what_the_person_has_already_said_is_not_asked() -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills\n\nall three as skills of one agent")
    await talk.result(WHICH)
    assert talk.call is not None
    assert talk.call[0] == "import_source"
    assert talk.call[1]["choice"] == ["internal-comms", "brand-guidelines", "theme-factory"]


async def test_the_same_question_coming_back_is_not_asked_for_ever() -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills")
    for _ in range(2):
        await talk.result(WHICH)
        await talk.result({"choice": ["theme-factory"], "text": "3"})
    await talk.result(WHICH)
    assert talk.call is None
    assert "Which skills" in talk.reply


async def test_more_options_than_a_question_holds_can_still_be_named() -> None:
    options = [{"id": f"skill-{n}", "label": f"skill-{n} " + "words " * 30} for n in range(150)]
    talk = builder()
    await talk.say("Build an agent from ./skills")
    await talk.result({**WHICH, "options": options, "recommended": "skill-0"})
    assert talk.call is not None
    assert len(talk.call[1]["options"]) == 100
    assert talk.call[1]["free_text"] is True
    await talk.result({"choice": [], "text": "skill-120, skill-7"})
    assert talk.call[1]["choice"] == ["skill-120", "skill-7"]


async def test_a_result_that_was_cut_in_the_middle_is_still_read() -> None:
    options = [{"id": f"skill-{n}", "label": "words " * 30} for n in range(150)]
    whole = json.dumps({**WHICH, "options": options}, indent=1)
    talk = builder()
    await talk.say("Build an agent from ./skills")
    await talk.result(f"{whole[:15_000]}\n[… left out …]\n{whole[-15_000:]}")
    assert talk.call is not None
    name, args = talk.call
    assert (name, args["message"].split("?")[0]) == ("ask_user", "Which skills should it have")
    assert (args["recommended"], args["multiple"]) == ("theme-factory", True)
    assert len(args["options"]) > 50


async def test_a_refusal_becomes_cannot_convert_with_its_evidence() -> None:
    talk = builder()
    await talk.say("Build an agent from ./clicker")
    refusal = {
        "outcome": "refused",
        "capability": "desktop control",
        "reason": "It moves the mouse.",
        "evidence": ["a:1"],
    }
    await talk.result(refusal)
    expected = {"capability": "desktop control", "reason": "It moves the mouse.", "evidence": ["a:1"]}
    assert talk.call == ("cannot_convert", expected)


@pytest.mark.parametrize("code", ["empty", "blobs_missing"])
async def test_a_source_that_no_other_path_heals_is_refused_with_evidence(code: str) -> None:
    talk = builder()
    await talk.say("Build an agent from ./x")
    await talk.error(code, "Nothing to read.", hint="Clone it whole.")
    assert talk.call is not None
    assert talk.call[0] == "cannot_convert"
    assert talk.call[1]["evidence"] == [f"{code}: Nothing to read.", "Clone it whole."]


@pytest.mark.parametrize("code", ["not_found", "unsupported_url", "not_readable", "clone_failed", "a_new_code"])
async def test_a_source_the_person_can_correct_is_asked_for_again(code: str) -> None:
    talk = builder()
    await talk.say("Build an agent from ./x")
    await talk.error(code, "No such folder", hint="Look at its name.")
    assert talk.call is None
    assert "./x" in talk.reply
    assert "No such folder. " not in talk.reply.replace("\n", "")
    assert "Look at its name." in talk.reply
    await talk.say("./y")
    assert talk.call == ("import_source", {"path": "./y"})


async def test_the_same_source_is_read_again_when_the_person_says_so() -> None:
    talk = builder()
    await talk.say("Build an agent from ./x")
    await talk.error("not_found", "No such folder")
    await talk.say("It is there now, try again")
    assert talk.call == ("import_source", {"path": "./x"})


async def test_a_path_with_spaces_is_tried_whole_then_by_its_first_word() -> None:
    talk = builder()
    await talk.say("Build an agent from ./my docs please")
    assert talk.call == ("import_source", {"path": "./my docs please"})
    await talk.error("not_found", "No such folder")
    assert talk.call == ("import_source", {"path": "./my"})
    await talk.error("not_found", "No such folder")
    assert talk.call is None


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("new", {"path": "agent", "name": "skills-2"}),
        ("existing", {"path": "agent", "onto_existing": True}),
    ],
)
async def test_a_name_that_is_taken_is_the_persons_decision(choice: str, expected: dict[str, Any]) -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills")
    await talk.result(IMPORTED)
    await talk.result(TAKEN, ok=False)
    assert talk.call is not None
    assert talk.call[0] == "ask_user"
    assert talk.call[1]["recommended"] == "new"
    await talk.result({"choice": [choice], "text": choice})
    assert talk.call == ("save_agent", expected)


async def test_a_name_in_the_persons_words_is_used() -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills\n\nCall it scribe.")
    await talk.result(IMPORTED)
    assert talk.call == ("save_agent", {"path": "agent", "name": "scribe"})


async def test_problems_of_the_gate_are_told_and_not_papered_over() -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills")
    await talk.result(IMPORTED)
    await talk.result(SAVED)
    problem = {"code": "private_key", "path": "skills/a/key.pem", "message": "It holds a key", "hint": "Remove it."}
    await talk.result({**PASSED, "passed": False, "problems": [problem]}, ok=False)
    assert talk.call is None
    assert "private_key in skills/a/key.pem: It holds a key. Remove it." in talk.reply
    assert "artificer checkout skills DIR" in talk.reply


async def test_it_publishes_only_when_told() -> None:
    asked = builder("You are the Builder.\n\nPublishing was requested by the person.")
    await asked.say("Build an agent from ./skills")
    for output in (IMPORTED, SAVED, PASSED):
        await asked.result(output)
    assert asked.call == ("publish_agent", {})
    await asked.result(PUBLISHED)
    assert "live" in asked.reply
    assert (await built()).call is None
    assert (await built("Build an agent from ./skills\n\nand publish it")).call == ("publish_agent", {})


async def test_publish_said_afterwards_validates_again_and_publishes() -> None:
    talk = await built()
    await talk.say("publish")
    assert talk.call == ("validate_agent", {})
    await talk.result(PASSED)
    assert talk.call == ("publish_agent", {})
    await talk.result(PUBLISHED)
    assert "Published: skills" in talk.reply


async def test_a_publication_that_is_refused_or_denied_is_reported() -> None:
    talk = await built("Build an agent from ./skills\n\npublish it")
    await talk.error("stale_head", "Someone published in between.")
    assert "not published: Someone published in between." in talk.reply
    denied = await built("Build an agent from ./skills\n\npublish it")
    await denied.result("The person did not allow it.", ok=False)
    assert "The person did not allow it." in denied.reply
    assert denied.call is None


async def test_an_edit_in_words_says_that_it_needs_a_model_and_calls_nothing() -> None:
    talk = await built()
    await talk.say("Make the persona friendlier")
    assert talk.call is None
    for part in ("needs a model", "--provider anthropic", "ANTHROPIC_API_KEY", "artificer checkout skills DIR"):
        assert part in talk.reply


async def test_an_agent_being_edited_is_known_by_name() -> None:
    talk = builder("You are the Builder.\n\nEditing agent petstore-clerk. It is in /work/agent.")
    await talk.say("make it shorter")
    assert "artificer checkout petstore-clerk DIR" in talk.reply
    await talk.say("publish it")
    assert talk.call == ("validate_agent", {})


async def test_another_source_in_a_later_message_is_imported() -> None:
    talk = await built()
    await talk.say("Now take https://example.org/x/docs instead, please.")
    assert talk.call == ("import_source", {"path": "https://example.org/x/docs"})


@pytest.mark.parametrize(
    ("licence", "words"),
    [
        ({"spdx": None, "status": "missing", "path": None}, "private use only"),
        ({"spdx": None, "status": "source_available", "path": "LICENSE"}, "private use only"),
        (None, "none found"),
    ],
)
async def test_a_source_without_a_licence_is_flagged(licence: Any, words: str) -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills")
    await talk.result({**IMPORTED, "licence": licence})
    await talk.result(SAVED)
    await talk.result(PASSED)
    assert words in talk.reply


async def test_a_call_that_a_stop_overtook_is_made_once_more_and_not_a_third_time() -> None:
    talk = builder()
    unknown = "The outcome of this call is unknown: Artificer stopped while it ran."
    await talk.say("Build an agent from ./skills")
    await talk.result(unknown, ok=False)
    assert talk.call == ("import_source", {"path": "./skills"})
    await talk.result(unknown, ok=False)
    assert talk.call is None


async def test_words_instead_of_an_answer_are_read_as_one_where_they_name_an_option() -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills")
    await talk.result(WHICH)
    said = "the brand guidelines, please"
    results = tuple(ToolResult(c.id, False, f"The person did not answer this, but wrote: {said}") for c in talk.calls)
    talk.messages.append(Message("user", results))
    await talk.say(said)
    assert talk.call is not None
    assert talk.call[1]["choice"] == ["brand-guidelines"]


async def test_a_nudge_of_the_loop_is_no_word_of_the_person() -> None:
    talk = builder()
    await talk.say("Build an agent from ./skills")
    talk.messages.append(Message("user", tuple(ToolResult(c.id, True, json.dumps(IMPORTED)) for c in talk.calls)))
    await talk.say("You are repeating yourself without anything new. See /tmp/x.")
    assert talk.call == ("save_agent", {"path": "agent"})


BLOCKS = st.one_of(
    st.text(max_size=60).map(Text),
    st.builds(ToolCall, st.sampled_from("abc"), st.sampled_from([t.name for t in TOOLS]), st.none() | st.just({})),
    st.builds(
        ToolResult,
        st.sampled_from("abc"),
        st.booleans(),
        st.text(max_size=40)
        | st.dictionaries(
            st.sampled_from(
                ["outcome", "error", "choice", "options", "passed", "problems", "loss", "licence", "counts"]
            ),
            st.recursive(st.none() | st.booleans() | st.text(max_size=5), lambda s: st.lists(s, max_size=2)),
        ).map(json.dumps),
    ),
)
HISTORIES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=3).map(tuple))
)


@settings(max_examples=200, deadline=None)
@given(HISTORIES)
async def test_no_history_whatever_breaks_it(messages: list[Message]) -> None:
    talk = builder()
    talk.messages = messages
    await talk.turn()
    assert talk.reply.strip() or talk.call
