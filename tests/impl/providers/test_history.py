"""The neutral conversation, mended and turned into what each API takes."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import Block, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from impl.providers import _anthropic_history as anthropic_history
from impl.providers import _openai_history as openai_history
from impl.providers._history import CONTINUE, mend
from impl.providers._openai_profiles import GENERIC, profile_for
from tests.harness.asking import TOOL, asking, assistant, user

A, B = ToolCall("a", "look", {"at": "1"}), ToolCall("b", "look", {"at": "2"})


def claude(*messages: Message, model: str = "m") -> list[dict[str, Any]]:
    return anthropic_history.to_api(messages, model)


def chat(*messages: Message, model: str = "m", profile: str = "") -> list[dict[str, Any]]:
    return openai_history.to_api(messages, model, profile_for("", profile))


def mended(*messages: Message) -> list[Message]:
    return mend(messages, lambda block, last: True)


# --- results of calls ----------------------------------------------------------------------------------


def test_results_stand_first_and_in_call_order() -> None:
    results = user("and", ToolResult("b", True, "2"), ToolResult("a", True, "1"))
    _, _, last = mended(user("x"), assistant(A, B), results)
    assert last == user(ToolResult("a", True, "1"), ToolResult("b", True, "2"), "and")


def test_a_missing_result_is_made_up_as_an_error() -> None:
    last = mended(user("x"), assistant(A, B), user(ToolResult("a", True, "1"), "go on"))[-1]
    assert [b.ok for b in last.blocks if isinstance(b, ToolResult)] == [True, False]


def test_calls_at_the_end_get_results() -> None:
    last = mended(user("x"), assistant(A))[-1]
    assert last.role == "user"
    assert [b.id for b in last.blocks if isinstance(b, ToolResult)] == ["a"]


def test_calls_that_another_answer_follows_get_results_between() -> None:
    roles = [m.role for m in mended(user("x"), assistant(A), assistant("y"), user("z"))]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


def test_a_second_result_and_results_of_no_call_are_dropped() -> None:
    first, second, stray = ToolResult("a", True, "1"), ToolResult("a", True, "2"), ToolResult("zz", True, "3")
    assert mended(user("x"), assistant(A), user(first, second, stray))[-1] == user(first)


def test_results_in_two_messages_are_brought_together() -> None:
    one, two = ToolResult("a", True, "1"), ToolResult("b", True, "2")
    assert mended(user("x"), assistant(A, B), user(one), user(two, "t"))[-2:] == [user(one, two), user("t")]


# --- texts and turns -----------------------------------------------------------------------------------


def test_blank_texts_and_empty_messages_are_dropped() -> None:
    assert mended(user("x", " \n"), assistant("", "y"), user(""), user("z")) == [user("x"), assistant("y"), user("z")]


def test_an_answer_at_the_end_is_asked_to_continue() -> None:
    assert mended(user("x"), assistant("half"))[-1] == CONTINUE


def test_continue_stays_where_it_was_when_the_conversation_grows() -> None:
    short = mended(user("x"), assistant("half"))
    assert mended(user("x"), assistant("half"), assistant("rest"), user("y"))[: len(short)] == short


def test_continue_stays_where_it_was_when_the_answer_to_it_was_empty() -> None:
    short = mended(user("x"), assistant("half"))
    assert mended(user("x"), assistant("half"), assistant(), user("y"))[: len(short)] == short


def test_a_conversation_begins_with_the_user() -> None:
    assert mended(assistant("hello"), user("x"))[0] == CONTINUE
    assert mended() == [CONTINUE]


def test_calls_end_their_message() -> None:
    assert mended(user("x"), assistant(A, "after"), user(ToolResult("a", True, "")))[1] == assistant("after", A)


# --- Anthropic -----------------------------------------------------------------------------------------

SIGNED = {"type": "thinking", "thinking": "hm", "signature": "S=="}


def test_thinking_goes_back_byte_exact_to_the_same_model() -> None:
    thought = Thinking("hm", "anthropic", "m", SIGNED)
    assert claude(user("x"), assistant(thought, "y"), user("z"))[1]["content"][0] == SIGNED


@pytest.mark.parametrize(
    "thought",
    [
        Thinking("hm", "anthropic", "other", SIGNED),
        Thinking("hm", "openai_compatible", "m", SIGNED),
        Thinking("hm", "anthropic", "m", {"type": "thinking", "thinking": "hm", "signature": ""}),
        Thinking("hm", "anthropic", "m", {"type": "thinking", "thinking": "hm"}),
        Thinking("hm", "anthropic", "m"),
    ],
    ids=["other model", "other provider", "never signed", "no signature", "no data"],
)
def test_thinking_that_may_not_return_is_dropped_and_the_rest_kept(thought: Thinking) -> None:
    assert claude(user("x"), assistant(thought, "y"), user("z"))[1]["content"] == [{"type": "text", "text": "y"}]


def test_redacted_thinking_returns() -> None:
    data = {"type": "redacted_thinking", "data": "xyz"}
    assert claude(user("x"), assistant(Thinking("", "anthropic", "m", data), "y"))[1]["content"][0] == data


def test_an_answer_of_thinking_alone_is_dropped() -> None:
    assert len(claude(user("x"), assistant(Thinking("hm", "anthropic", "m", SIGNED)), user("y"))) == 2


def test_broken_arguments_go_back_as_an_empty_object() -> None:
    broken = ToolCall("a", "look", None, '{"at": ', "cut")
    sent = json.dumps(claude(user("x"), assistant(broken), user(ToolResult("a", False, "bad"))))
    assert '"input": {}' in sent
    assert '{\\"at' not in sent


def test_an_error_result_is_marked() -> None:
    content = claude(user("x"), assistant(A), user(ToolResult("a", False, "no")))[2]["content"]
    assert content == [{"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}]


def test_an_id_or_name_the_api_refuses_gets_a_stand_in_on_both_sides() -> None:
    call = ToolCall("functions.look:0", "näme", {})
    _, answer, results = claude(user("x"), assistant(call), user(ToolResult(call.id, True, "1")))
    sent = answer["content"][0]
    assert sent["id"].isalnum()
    assert sent["name"].isalnum()
    assert results["content"][0]["tool_use_id"] == sent["id"]


USE = Opaque("anthropic", {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})
RESULT = Opaque("anthropic", {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []})


def test_a_paused_turn_stays_last() -> None:
    assert claude(user("x"), assistant("looking", USE))[-1]["content"][-1]["type"] == "server_tool_use"


def test_server_tools_return_in_pairs_alone() -> None:
    kept = claude(user("x"), assistant(USE, RESULT, "y"), user("z"))[1]["content"]
    assert [block["type"] for block in kept] == ["server_tool_use", "web_search_tool_result", "text"]
    for lonely in (USE, RESULT):
        assert [b["type"] for b in claude(user("x"), assistant(lonely, "y"), user("z"))[1]["content"]] == ["text"]


def test_a_resumed_pause_keeps_its_pair_whole() -> None:
    sent = claude(user("x"), assistant("looking", USE), assistant(RESULT, "found"), user("z"))
    assert [m["role"] for m in sent] == ["user", "assistant", "assistant", "user"]


def test_blocks_of_another_provider_are_dropped() -> None:
    foreign = Opaque("elsewhere", {"type": "thing"})
    assert claude(user("x"), assistant(foreign, "y"), user("z"))[1]["content"] == [{"type": "text", "text": "y"}]


def test_at_most_four_cache_markers_and_none_from_history() -> None:
    marked = Opaque("anthropic", {"type": "thing", "cache_control": {"type": "ephemeral"}})
    history = [m for n in range(9) for m in (user(f"q{n}"), assistant(marked, f"a{n}"))]
    request = asking(*history, user("last"), tools=[TOOL, TOOL])
    assert json.dumps(anthropic_history.body(request, "m", 100)).count("cache_control") == 4


def test_thinking_never_carries_a_cache_marker() -> None:
    thought = Thinking("hm", "anthropic", "m", SIGNED)
    sent = anthropic_history.body(asking("x", assistant(thought, A)), "m", 100)
    assert "cache_control" not in json.dumps(sent["messages"][1])


# --- chat completions ----------------------------------------------------------------------------------


def test_content_is_an_empty_string_beside_calls_never_null() -> None:
    assert chat(user("x"), assistant(A), user(ToolResult("a", True, "1")))[1]["content"] == ""


def test_calls_and_results_are_paired_by_id() -> None:
    _, answer, first, second, text = chat(
        user("x"), assistant("y", A, B), user(ToolResult("a", True, "1"), ToolResult("b", True, "2"), "z")
    )
    assert [c["id"] for c in answer["tool_calls"]] == ["a", "b"]
    assert (first["role"], first["tool_call_id"], second["tool_call_id"]) == ("tool", "a", "b")
    assert text == {"role": "user", "content": "z"}


def test_reasoning_is_echoed_where_the_profile_wants_it_alone() -> None:
    thought = Thinking("hm", "openai_compatible", "m", {"field": "reasoning_content"})
    history = (user("x"), assistant(thought, "y"), user("z"))
    assert "reasoning_content" not in chat(*history)[1]
    assert chat(*history, profile="deepseek")[1]["reasoning_content"] == "hm"
    assert "reasoning_content" not in chat(*history, profile="deepseek", model="other")[1]


def test_mistral_gets_ids_of_nine_letters() -> None:
    sent = chat(user("x"), assistant(A), user(ToolResult("a", True, "1")), profile="mistral")
    assert len(sent[1]["tool_calls"][0]["id"]) == 9
    assert sent[2]["tool_call_id"] == sent[1]["tool_calls"][0]["id"]


@pytest.mark.parametrize(("profile", "field"), [("openai", "max_completion_tokens"), ("vllm", "max_tokens")])
def test_exactly_one_output_limit_is_sent(profile: str, field: str) -> None:
    sent = openai_history.body(asking("x", max_output_tokens=50), "m", profile_for("", profile))
    assert [key for key in sent if key.startswith("max_")] == [field]


def test_no_output_limit_is_sent_unless_asked_for() -> None:
    assert not [key for key in openai_history.body(asking("x"), "m", GENERIC) if key.startswith("max_")]


# --- both ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [None, "look"])
def test_a_tool_that_must_be_called_is_named_in_the_request_and_only_then(chosen: str | None) -> None:
    request = asking("x", tools=[TOOL], tool_choice=chosen)
    chat = openai_history.body(request, "m", profile_for("", "generic")).get("tool_choice")
    claude = anthropic_history.body(request, "claude-haiku-5-5", 100).get("tool_choice")
    assert chat == (chosen and {"type": "function", "function": {"name": "look"}})
    assert claude == (chosen and {"type": "tool", "name": "look"})


@pytest.mark.parametrize("to_api", [claude, chat])
def test_lone_surrogates_do_not_stop_a_request(to_api: Any) -> None:
    bad = "\ud800x"
    call = ToolCall("a", "look", {bad: [bad]})
    json.dumps(to_api(user(bad), assistant(bad, call), user(ToolResult("a", True, bad))), ensure_ascii=False).encode()


def _conversations() -> st.SearchStrategy[list[Message]]:
    """Conversations a loop could build: each answer with its results, sometimes cut off between."""

    def build(turns: list[tuple[list[str], str, bool]]) -> list[Message]:
        ids = count()
        out = [user("begin")]
        for kinds, words, answered in turns:
            blocks: list[Block] = [_BLOCKS[kind](f"{kind}{next(ids)}") for kind in kinds]
            out.append(Message("assistant", tuple(blocks)))
            results = [ToolResult(b.id, True, words) for b in blocks if isinstance(b, ToolCall)]
            if results or answered:
                out.append(user(*results, *([words] if answered else [])))
        return out

    kinds = st.lists(st.sampled_from(sorted(_BLOCKS)), max_size=4)
    return st.lists(st.tuples(kinds, st.text(max_size=5), st.booleans()), min_size=1, max_size=6).map(build)


_BLOCKS: dict[str, Any] = {
    "text": Text,
    "blank": lambda name: Text(" "),
    "thinking": lambda name: Thinking(name, "anthropic", "m", SIGNED),
    "aborted": lambda name: Thinking(name, "anthropic", "m", {"type": "thinking", "thinking": name}),
    "foreign": lambda name: Opaque("elsewhere", {"type": "x"}),
    "call": lambda name: ToolCall(name, "look", {"at": name}),
    "broken": lambda name: ToolCall(name, "look", None, "{", "cut"),
}


@given(_conversations(), st.data())
@pytest.mark.parametrize("to_api", [claude, chat])
def test_a_longer_conversation_begins_with_the_same_bytes(
    to_api: Any, messages: list[Message], data: st.DataObject
) -> None:
    asked_at = [n for n in range(1, len(messages) + 1) if n == len(messages) or messages[n].role == "assistant"]
    shorter = to_api(*messages[: data.draw(st.sampled_from(asked_at))])
    longer = to_api(*messages)
    assert json.dumps(longer).startswith(json.dumps(shorter)[:-1])


@given(_conversations())
def test_every_claude_request_is_well_formed(messages: list[Message]) -> None:
    sent = claude(*messages)
    assert sent[0]["role"] == sent[-1]["role"] == "user"
    for before, after in zip(sent, [*sent[1:], None], strict=True):
        calls = [b["id"] for b in before["content"] if b["type"] == "tool_use"]
        results = [b["tool_use_id"] for b in after["content"] if b["type"] == "tool_result"] if after else []
        assert calls == results if before["role"] == "assistant" else not calls
        assert before["content"]
