"""What a running agent does under fixed rules: spelled calls, quoted documents, quoted skills, else a plain no."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import Message, Text, ToolCall, ToolResult, ToolSpec
from impl.corpus import CorpusIndex
from impl.providers.offline import OfflineProvider
from tests.harness.conversation import Conversation, tool

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
PET_TOOLS = [
    tool("ask_user"),
    tool("get_pet", ["pet_id"], pet_id=INTEGER),
    tool("get_pet_photos", ["pet_id", "size"], pet_id=INTEGER, size=STRING),
    tool("add_pet", ["pet", "tags"], pet=STRING, tags={"type": "array", "items": STRING}, sold={"type": "boolean"}),
    tool("get_inventory"),
    tool("query", ["q"], q=STRING),
]
CORPUS_TOOLS = [tool(name) for name in ("ask_user", "search_corpus", "list_corpus", "get_corpus")]
SKILL_SYSTEM = """You are a helper.

## Skills

Read a skill with read_skill before you follow it.

- internal-comms: Writes internal communications: status reports, 3P updates, newsletters.
- brand-guidelines: Applies the official brand colors and typography to any artifact.
- theme-factory: Styles slides and pages with a theme.

## Workspace

- not-a-skill: commands run in a sandbox
"""
SKILL = """# Comms

## About

Talk about many other things.

## How to use this skill

1. **Identify** the kind
2. Follow `examples/3p-updates.md` for team updates

--- examples/3p-updates.md ---
# 3P updates

Progress, plans, problems of the week.

Files of this skill:
- examples/3p-updates.md
- examples/newsletter.md"""


def agent(tools: list[ToolSpec], system: str = "You are an agent.") -> Conversation:
    return Conversation(OfflineProvider(), tools, system)


# --- tools spelled out ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "name", "args"),
    [
        ("get_pet pet_id=42", "get_pet", {"pet_id": 42}),
        ("get_pet 42", "get_pet", {"pet_id": 42}),
        ("Please call get_pet with pet_id=42.", "get_pet", {"pet_id": 42}),
        ('get_pet {"pet_id": 42}', "get_pet", {"pet_id": 42}),
        ('{"tool": "get_pet", "args": {"pet_id": 42}}', "get_pet", {"pet_id": 42}),
        ("get_pet_photos pet_id=1, size=large", "get_pet_photos", {"pet_id": 1, "size": "large"}),
        (
            'add_pet pet="Rex the dog" tags=a,b sold=no',
            "add_pet",
            {"pet": "Rex the dog", "tags": ["a", "b"], "sold": False},
        ),
        ('add_pet pet=Rex tags=["a b", "c"]', "add_pet", {"pet": "Rex", "tags": ["a b", "c"]}),
        ("get inventory", "get_inventory", {}),
        ('{"q": "cats"}', "query", {"q": "cats"}),
        ("query q=cats", "query", {"q": "cats"}),
    ],
)
async def test_a_call_that_is_spelled_out_is_made(task: str, name: str, args: dict[str, Any]) -> None:
    assert (await agent(PET_TOOLS).say(task)).call == (name, args)


@pytest.mark.parametrize("task", ["get_pet_photos pet_id=1", "get_pet pet_id=Rex", "Use get_pet for Rex"])
async def test_a_call_that_is_not_clear_is_not_made(task: str) -> None:
    talk = await agent(PET_TOOLS).say(task)
    assert talk.call is None
    assert "Spell it out" in talk.reply
    assert "no model" in talk.reply


async def test_a_plain_word_that_is_also_a_tools_name_calls_nothing() -> None:
    talk = await agent(PET_TOOLS).say("How would one query the stars?")
    assert talk.call is None
    assert "needs a model" in talk.reply


async def test_a_tools_output_is_shown_as_it_came() -> None:
    talk = await agent(PET_TOOLS).say("get_inventory")
    await talk.result('{"sold": 3,\n "free": 1}')
    assert '{"sold": 3,\n "free": 1}' in talk.reply
    assert "no model" in talk.reply


async def test_a_tool_that_fails_is_reported_and_not_called_again() -> None:
    talk = await agent(PET_TOOLS).say("get_inventory")
    await talk.error("denied", "The host is not allowed.")
    assert talk.call is None
    assert "The host is not allowed." in talk.reply


# --- documents -----------------------------------------------------------------------------------------


def passage(text: str, heading: str = "", line: int = 7) -> dict[str, Any]:
    return {"path": "guide.md", "line": line, "heading": heading, "text": text}


async def test_an_answer_quotes_passages_with_the_place_they_stand() -> None:
    talk = await agent(CORPUS_TOOLS).say("How do I install the widget?")
    assert talk.call is not None
    assert talk.call[0] == "search_corpus"
    assert talk.call[1]["query"] == "How do I install the widget?"
    await talk.result({"passages": [passage("Install the widget:\n\n    make it", "Installing")]})
    assert "> Install the widget:\n>\n>     make it\n\n`guide.md:7` · Installing" in talk.reply
    assert "no model" in talk.reply


async def test_passages_that_do_not_fit_are_not_quoted() -> None:
    talk = await agent(CORPUS_TOOLS).say("How do I install Kubernetes on Windows?")
    await talk.result({"passages": [passage("Install the widget.", "Installing")]})
    assert talk.call == ("list_corpus", {})
    await talk.result({"documents": [{"path": "guide.md", "title": "Guide", "size": 10}]})
    assert "Nothing in the documents answers this" in talk.reply
    assert "`guide.md` · Guide" in talk.reply
    assert "widget" not in talk.reply


async def test_at_most_four_passages_are_quoted_and_words_none_of_them_has_are_named() -> None:
    talk = await agent(CORPUS_TOOLS).say("widget gadget gizmo export colours")
    found = [passage(f"The widget, gadget and gizmo export {n}.", line=n) for n in range(1, 8)]
    await talk.result({"passages": found})
    assert talk.reply.count("`guide.md:") == 4
    assert "None of them has: colours." in talk.reply


async def test_a_question_that_goes_on_keeps_the_words_before_it() -> None:
    talk = await agent(CORPUS_TOOLS).say("How do I import CSV?")
    await talk.result({"passages": [passage("Import CSV so.")]})
    await talk.say("and TSV?")
    assert talk.call is not None
    assert talk.call[1]["query"] == "How do I import CSV?\nand TSV?"


async def test_documents_are_listed_and_shown_when_asked_for() -> None:
    talk = await agent(CORPUS_TOOLS).say("What documents are there?")
    assert talk.call == ("list_corpus", {})
    await talk.result({"documents": [{"path": "guide.md", "title": "Guide", "size": 10}]})
    assert "guide.md" in talk.reply
    await talk.say("show guide.md")
    assert talk.call == ("get_corpus", {"path": "guide.md"})
    await talk.result("# Guide\n\nText.")
    assert "> # Guide\n>\n> Text." in talk.reply


async def test_a_document_that_is_not_there_is_searched_for_instead() -> None:
    talk = await agent(CORPUS_TOOLS).say("show guide.md")
    await talk.result("There is no document 'guide.md'.", ok=False)
    assert talk.call is not None
    assert talk.call[0] == "search_corpus"


async def test_a_search_that_fails_is_reported() -> None:
    talk = await agent(CORPUS_TOOLS).say("How do I install it?")
    await talk.error("damaged", "The corpus cannot be read.")
    assert "The corpus cannot be read." in talk.reply
    assert talk.call is None


QUESTIONS = {
    "How do I insert CSV?": "sqlite-utils insert dogs.db dogs dogs.csv --csv",
    "How can I convert a column?": "sqlite-utils convert",
    "create an index": "sqlite-utils create-index",
    "How do I rename a table?": "sqlite-utils rename-table",
    "How do I drop a view?": "sqlite-utils drop-view",
    "What is the delimiter option for TSV files?": "--delimiter",
    "How do I enable full-text search?": "sqlite-utils enable-fts",
    "add a foreign key": "sqlite-utils add-foreign-key",
    "What does analyze-tables do?": "sqlite-utils analyze-tables",
    "How do I upsert records?": "sqlite-utils upsert",
    "Can I query a CSV file in memory?": "sqlite-utils memory",
    "change the type of a column": "sqlite-utils transform",
    "How do I list all the tables?": "sqlite-utils tables",
    "pass parameters to a query": "-p ",
    "How can I see the schema of my database?": "sqlite-utils schema",
    "How do I write a plugin?": "pyproject.toml",
    "extract a column into a separate table": "sqlite-utils extract",
}


@pytest.fixture(scope="module")
def documentation() -> CorpusIndex:
    inputs = os.environ.get("ARTIFICER_TEST_INPUTS")
    if not inputs:
        pytest.skip("ARTIFICER_TEST_INPUTS does not name a directory of real inputs")
    return CorpusIndex(Path(inputs) / "docs-sqlite-utils" / "docs")


async def ask(documentation: CorpusIndex, question: str) -> Conversation:
    talk = await agent(CORPUS_TOOLS).say(question)
    while talk.call is not None:
        name, args = talk.call
        if name == "search_corpus":
            found = documentation.search(args["query"], args["limit"])
            rows = [{"path": p.path, "line": p.line, "heading": p.heading, "text": p.text} for p in found]
            await talk.result({"passages": rows})
        else:
            await talk.result({"documents": [{"path": d.path, "title": d.title} for d in documentation.documents()]})
    return talk


@pytest.mark.parametrize(("question", "command"), QUESTIONS.items())
async def test_real_questions_get_the_passage_that_answers_them(
    documentation: CorpusIndex, question: str, command: str
) -> None:
    quoted = "\n".join(x for x in (await ask(documentation, question)).reply.splitlines() if x.startswith(">"))
    assert command in quoted


@pytest.mark.parametrize(
    "question",
    ["What is the capital of France?", "install kubernetes", "Who won the cup in 1998?", "Write me a poem about rain"],
)
async def test_questions_the_documents_do_not_answer_get_no_passage(documentation: CorpusIndex, question: str) -> None:
    reply = (await ask(documentation, question)).reply
    assert "Nothing in the documents answers this" in reply
    assert "\n>" not in reply


# --- skills --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "skill"),
    [
        ("Write a 3P update for my team", "internal-comms"),
        ("Which brand colors should my poster use?", "brand-guidelines"),
        ("Style these slides", "theme-factory"),
        ("use theme factory, please", "theme-factory"),
    ],
)
async def test_the_skill_that_fits_is_read(task: str, skill: str) -> None:
    talk = await agent([tool("ask_user"), tool("read_skill")], SKILL_SYSTEM).say(task)
    assert talk.call == ("read_skill", {"name": skill})


async def test_a_skill_fits_a_task_in_a_script_without_spaces() -> None:
    system = "## Skills\n- proofread: 日本語の文章を校正する。\n- translate: 英語の手紙を書く。\n"
    talk = await agent([tool("read_skill")], system).say("この文章を校正して")
    assert talk.call == ("read_skill", {"name": "proofread"})


async def test_a_skills_steps_and_the_file_that_fits_are_quoted() -> None:
    talk = await agent([tool("read_skill")], SKILL_SYSTEM).say("Write a 3P update for my team")
    await talk.result(SKILL)
    assert talk.call is None
    assert "> 1. **Identify** the kind" in talk.reply
    assert "> Progress, plans, problems of the week." in talk.reply
    assert "examples/newsletter.md" in talk.reply
    assert "needs one" in talk.reply
    assert "no model" in talk.reply


async def test_a_skill_read_before_is_not_read_again() -> None:
    talk = await agent([tool("read_skill")], SKILL_SYSTEM).say("Write a 3P update for my team")
    await talk.result(SKILL)
    await talk.say("Another 3P update, please")
    assert talk.call is None
    assert "Identify" in talk.reply


async def test_a_task_that_no_skill_fits_says_so_and_lists_them() -> None:
    talk = await agent([tool("read_skill")], SKILL_SYSTEM).say("What is the weather in Paris?")
    assert talk.call is None
    assert "needs a model" in talk.reply
    assert "`internal-comms`" in talk.reply
    assert "not-a-skill" not in talk.reply


async def test_a_task_without_a_rule_says_that_it_needs_a_model_and_how_to_have_one() -> None:
    talk = await agent([tool("ask_user")]).say("Design an API for a zoo")
    assert talk.call is None
    for part in ("needs a model", "--provider anthropic", "ANTHROPIC_API_KEY"):
        assert part in talk.reply


ALL = [*PET_TOOLS, *CORPUS_TOOLS[1:], tool("read_skill"), tool("run_skill"), tool("run_sandbox")]
NAMES = [t.name for t in ALL]
TEXTS = st.text(max_size=80) | st.sampled_from(
    ["get_pet pet_id=", "add_pet tags=[", '{"tool": 1}', "get_pet {", "show a.md", "list documents", "internal-comms"]
)
BLOCKS = st.one_of(
    TEXTS.map(Text),
    st.builds(ToolCall, st.sampled_from("abc"), st.sampled_from(NAMES), st.none() | st.just({"name": "x"})),
    st.builds(
        ToolResult,
        st.sampled_from("abc"),
        st.booleans(),
        TEXTS | st.sampled_from(['{"passages": [1, {}]}', '{"documents": {}}', '{"passages": [{"text": null}]}', "{"]),
    ),
)
HISTORIES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=3).map(tuple))
)


@settings(max_examples=200, deadline=None)
@given(HISTORIES, st.sampled_from([ALL, [], CORPUS_TOOLS]), st.sampled_from([SKILL_SYSTEM, ""]) | st.text())
async def test_no_history_whatever_breaks_it(messages: list[Message], tools: list[ToolSpec], system: str) -> None:
    talk = agent(tools, system)
    talk.messages = messages
    await talk.turn()
    assert talk.reply or talk.call


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
async def test_no_task_whatever_breaks_it(task: str, more: str) -> None:
    await agent(ALL, SKILL_SYSTEM).say(task + more)
