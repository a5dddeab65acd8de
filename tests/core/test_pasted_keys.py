"""A key that a person pastes reaches neither the log nor the model, whichever way their words come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core import Option, Stop, ToolOutput, Waiting
from tests.harness.eval_driver import EvalDriver, Stage, tool, tool_with_context
from tests.harness.scripted import Gate, call

KEY = "sk-" + "ant-api03-Ab12Cd34Ef56Gh78Ij90-Kl_mN"
MASKED = "[redacted: anthropic key]"


def clean(stage: Stage) -> list[str]:
    """The notices of a session in which the key stands nowhere: not in events, columns, requests or files."""
    for event in stage.events():
        assert KEY not in str(event.to_json()), event
    assert KEY not in str(stage.info)
    assert KEY not in str(stage.provider.requests)  # type: ignore[attr-defined]
    notices = [event.data["text"] for event in stage.events("notice")]
    stage.store.close()
    for path in stage.home.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    return [text for text in notices if "kept out of the session" in text]


async def test_in_the_first_message(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Hello."])
    await stage.run(f"{KEY} is my key, use it", agent="clerk")
    assert stage.events("message")[0].data["text"] == f"{MASKED} is my key, use it"
    assert stage.info.title == f"{MASKED} is my key, use it"
    (notice,) = clean(stage)
    assert "artificer credentials set clerk NAME" in notice


async def test_in_a_later_message(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Hello.", "I see."])
    await stage.run("Hello")
    await stage.run(f"use {KEY}")
    assert len(clean(stage)) == 1


async def test_in_words_said_while_it_runs(tmp_path: Path) -> None:
    gate = Gate()
    stage = Stage(tmp_path, [[gate, call("look")], "I see."], EvalDriver(tools=[tool("look", lambda _: "seen")]))
    running = stage.begin("Hello")
    await gate.reached.wait()
    stage.mailbox.inbox.append(f"use {KEY}")
    gate.release()
    assert (await running).stop is Stop.COMPLETED
    assert any(event.data["text"] == f"use {MASKED}" for event in stage.events("message"))
    assert len(clean(stage)) == 1


def asking(**fields: Any) -> EvalDriver:
    async def ask(args: dict[str, Any], context: Any) -> ToolOutput:
        waiting = Waiting("question", context.call, "Which?", **fields)
        return ToolOutput("", stop=Stop.AWAITING_USER, waiting=waiting)

    return EvalDriver(tools=[tool_with_context("inquire", ask)])


async def test_in_an_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[inquire := call("inquire")], "I see."], asking())
    await stage.run("Hello")
    await stage.answer(f"with {KEY}")
    assert MASKED in stage.results()[inquire.id]
    assert len(clean(stage)) == 1


async def test_in_an_answer_that_fits_no_option(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[call("inquire")]], asking(options=(Option("a", "A"),), free_text=False))
    await stage.run("Hello")
    assert (await stage.answer(KEY)).stop is Stop.AWAITING_USER
    assert len(clean(stage)) == 1


async def test_whatever_is_typed_where_a_value_is_waited_for_is_kept_nowhere(tmp_path: Path) -> None:
    """A value need not look like a key."""
    value, values = "no key by its looks", iter([False, True])

    async def fetch(args: dict[str, Any], context: Any) -> ToolOutput:
        if next(values):
            return ToolOutput("fetched")
        offers = (Option("retry", "it is set"), Option("end", "end here"))
        waiting = Waiting("credentials", context.call, "A value?", offers)
        return ToolOutput("", ok=False, stop=Stop.NEEDS_CREDENTIALS, waiting=waiting)

    driver = EvalDriver(tools=[tool_with_context("fetch", fetch)])
    stage = Stage(tmp_path, [[call("fetch")], "Done."], driver)
    await stage.run("Hello")
    assert (await stage.answer(value)).stop is Stop.COMPLETED
    assert all(value not in str(event.to_json()) for event in stage.events())
    (notice,) = stage.events("notice")
    assert "artificer credentials set" in notice.data["text"]


async def test_in_words_instead_of_an_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[inquire := call("inquire")], "I see."], asking())
    await stage.run("Hello")
    await stage.run(f"no, take {KEY}")
    assert MASKED in stage.results()[inquire.id]
    assert len(clean(stage)) == 1


async def test_in_a_source(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Hello."])
    await stage.run("Build it", source=f"https://{KEY}@example.com/x")
    clean(stage)


async def test_what_a_tool_prints_is_left_as_it_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[look := call("look")]], EvalDriver(tools=[tool("look", lambda _: f"found {KEY}")]))
    await stage.run("Look")
    assert stage.results()[look.id] == f"found {KEY}"
