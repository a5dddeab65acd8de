"""The seam itself, with a CLI of the test's own in one class: native tools, ways to count, switching, death."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from core import (
    CliCall,
    CliEnd,
    CliEvent,
    CliExit,
    CliFigures,
    CliPermission,
    CliProcess,
    CliProvider,
    CliResult,
    CliSession,
    CliText,
    CliTotal,
    CliTurn,
    Deadlines,
    Invocation,
    LaunchInput,
    Stop,
    Usage,
    launch_agent,
)
from core.calls import grants_from
from tests.harness.clis import CliStage, StandIn, add_tool, alive
from tests.harness.eval_driver import eventually, tool
from tests.harness.scripted import ScriptedProvider


class ToyParser:
    """One object a line: `{"session"}`, `{"text"}`, `{"call", "args", "output"}`, `{"tokens", "usd"}`, `{"end"}`."""

    def __init__(self) -> None:
        self._ended = False

    def feed(self, line: str) -> Sequence[CliEvent]:
        """What the line says."""
        try:
            data = json.loads(line)
        except ValueError:
            return ()
        match data:
            case {"session": native}:
                return [CliSession(native)]
            case {"text": text}:
                return [CliText(text)]
            case {"call": name, "output": output, **more}:
                id = f"n{more.get('id', 0)}"
                return [CliCall(id, name, more.get("args", {})), CliResult(id, more.get("ok", True), output)]
            case {"permission": key, "tool": name}:
                return [CliPermission(key, name, data.get("args", {}))]
            case {"tokens": tokens, **more}:
                usd = more.get("usd")
                return [CliFigures(Usage(tokens, 0), None if usd is None else Decimal(str(usd)))]
            case {"end": ending}:
                self._ended = True
                return [CliEnd(ending)]
            case _:
                return ()

    def finish(self, exit: CliExit) -> Sequence[CliEvent]:
        """An exit without a word is a failure."""
        return (
            ()
            if self._ended
            else [CliEnd("error", detail="incomplete", message=exit.stderr.strip() or "It went away.")]
        )


class AskingRun(CliProcess):
    """A toy that reads answers to its permissions."""

    @classmethod
    async def begin(cls, invocation: Invocation, env: Mapping[str, str], deadlines: Deadlines) -> CliProcess:
        """Start it with a file to answer in."""
        made = await cls.start(invocation, env, deadlines)
        made.file = invocation.cwd / "permits"  # type: ignore[attr-defined]
        return made

    def permit(self, key: str, allowed: bool) -> None:
        """Write it down."""
        with self.file.open("a") as file:  # type: ignore[attr-defined]
            file.write(f"{key} {allowed}\n")


class Toy(CliProvider):
    """A CLI called `toy`."""

    name: ClassVar[str] = "toy"
    executable: ClassVar[str] = "toy"
    deadlines: ClassVar[Deadlines] = Deadlines(silent=5.0, linger=0.3, interrupt=0.5)

    def _invoke(self, turn: CliTurn) -> tuple[list[str], dict[str, str | None]]:
        mcp = json.dumps([list(turn.mcp), dict(turn.mcp_env)]) if turn.mcp else "null"
        return ["toy", turn.mode, turn.native or "-", mcp], {"TOY": "1"}

    def _parser(self, turn: CliTurn) -> ToyParser:
        return ToyParser()


class AskingToy(Toy):
    """One that asks before it uses a tool of its own."""

    async def _spawn(self, invocation: Invocation, env: Mapping[str, str]) -> CliProcess:
        return await AskingRun.begin(invocation, env, self.deadlines)


class UnsafeToy(Toy):
    """One whose own tools cannot be switched off."""

    native_tools: ClassVar[Literal["off", "on"]] = "on"


class StepToy(Toy):
    """One that counts each step."""

    figures: ClassVar[Literal["call", "step", "session"]] = "step"


class SessionToy(Toy):
    """One that counts its session."""

    figures: ClassVar[Literal["call", "step", "session"]] = "session"


SHAPES = """
mode, native, mcp, prompt = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[-1]
def connect():
    server = Server()
    server.start(mcp[0][0], mcp[0][1:], mcp[1])
    return server
"""
Make = Callable[..., tuple[CliStage, StandIn]]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A session driven by a toy whose turns are this script."""

    def make(body: str, kind: type[CliProvider] = Toy, *tools: Any, **driver: Any) -> tuple[CliStage, StandIn]:
        stand_in = StandIn(tmp_path / "bin", "toy", SHAPES + body)
        monkeypatch.setenv("PATH", f"{stand_in.folder}:/usr/bin:/bin")
        return CliStage(tmp_path / "home", kind(), *tools, **driver), stand_in

    return make


HELLO = 'out({"session": "t1"}); out({"text": "Hello " + str(turn)}); out({"tokens": 5}); out({"end": "reply"})'


async def test_tools_of_its_own_that_stay_on_need_a_yes_before_anything_starts(toy: Make) -> None:
    stage, stand_in = toy(HELLO, UnsafeToy)
    outcome = await stage.run("Hi")
    assert (outcome.stop, outcome.record.detail) == (Stop.NEEDS_APPROVAL, "provider:native-tools")
    assert "Unsafe" in stage.events("notice")[0].data["text"]
    assert stand_in.started == []
    outcome = await stage.answer("session")
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Hello 1")
    assert not grants_from([e.data for e in stage.events("approval")], lambda tool: False).session - {
        "provider:native-tools"
    }
    outcome = await stage.run("Again")
    assert outcome.stop is Stop.COMPLETED


async def test_a_no_to_its_tools_ends_it(toy: Make) -> None:
    stage, stand_in = toy(HELLO, UnsafeToy)
    await stage.run("Hi")
    outcome = await stage.answer("deny")
    assert (outcome.stop, outcome.record.detail) == (Stop.PROVIDER_ERROR, "capability")
    assert stand_in.started == []


async def test_a_yes_once_lasts_until_the_next_message(toy: Make) -> None:
    stage, _ = toy(HELLO, UnsafeToy)
    await stage.run("Hi")
    assert (await stage.answer("once")).stop is Stop.COMPLETED
    assert (await stage.run("Again")).stop is Stop.NEEDS_APPROVAL


ASKS = """
def permitted(key):
    out({"permission": key, "tool": "shell", "args": {"command": "make"}})
    for _ in range(500):
        if os.path.exists("permits"):
            answers = dict(line.split() for line in open("permits"))
            if key in answers: return answers[key]
        time.sleep(0.01)
out({"session": "t1"}); out({"text": permitted("k" + str(turn)) + " after " + prompt}); out({"end": "reply"})
"""


async def test_a_permission_it_asks_for_is_an_approval_and_its_answer_holds_once(toy: Make) -> None:
    stage, stand_in = toy(ASKS, AskingToy)
    outcome = await stage.run("Make it")
    assert (outcome.stop, outcome.record.detail) == (Stop.NEEDS_APPROVAL, "toy:shell")
    assert outcome.record.waiting is not None
    assert outcome.record.waiting.detail["args"] == {"command": "make"}
    assert not alive(stand_in.started[0]["pid"])
    outcome = await stage.answer("once")
    assert (outcome.stop, outcome.record.output) == (
        Stop.COMPLETED,
        "True after The person allowed what you asked for (toy:shell). Go on from there.",
    )
    assert (await stage.run("Again")).stop is Stop.NEEDS_APPROVAL
    outcome = await stage.answer("deny")
    assert (outcome.record.output or "").startswith("False after The person did not allow")
    assert (await stage.run("Again")).stop is Stop.NEEDS_APPROVAL
    await stage.answer("session")
    outcome = await stage.run("And again")
    assert outcome.record.output == "True after And again"


async def test_steps_are_summed(toy: Make) -> None:
    body = """
out({"session": "t1"})
for n in range(3): out({"tokens": 5, "usd": 0.1})
out({"text": "Done"}); out({"end": "reply"})
"""
    stage, _ = toy(body, StepToy)
    await stage.run("Hi")
    assert (stage.info.input_tokens, stage.info.usd, stage.info.requests) == (15, "0.30", 3)


async def test_a_session_whose_count_began_anew_is_not_charged_less_than_nothing(toy: Make) -> None:
    body = """
out({"session": "t1"}); out({"tokens": 100 if turn == 1 else 7, "usd": 1 if turn == 1 else 0.07})
out({"text": "Done"}); out({"end": "reply"})
"""
    stage, _ = toy(body, SessionToy)
    await stage.run("Hi")
    await stage.run("Hi")
    assert (stage.info.input_tokens, stage.info.usd) == (107, "1.07")


def test_a_total_that_cannot_be_read_leaves_no_money_out() -> None:
    assert CliTotal.from_json({"input_tokens": "many", "usd": None}) == CliTotal(usd=None)
    assert CliTotal.from_json(None) == CliTotal()
    total = CliTotal(1, 2, 3, 4, 5, Decimal("0.1"))
    assert CliTotal.from_json(total.to_json()) == total


async def test_switching_providers_tells_the_next_one_what_it_missed(toy: Make) -> None:
    stage, stand_in = toy(HELLO)
    await stage.run("One")
    seen: list[str] = []

    def answer(request: Any) -> str:
        seen.extend(m.text for m in request.messages if m.role == "assistant")
        return "From the model."

    model = ScriptedProvider([answer])
    launch = LaunchInput(host=stage.host, session="s1", task="Two", provider=model)
    await launch_agent(stage.driver, launch)
    assert seen == ["Hello 1"]
    await stage.run("Three")
    argv = stand_in.started[-1]["argv"]
    assert argv[0] == "fresh"
    assert "[you] From the model." in argv[-1]
    assert argv[-1].endswith("Three")
    await stage.run("Four")
    assert stand_in.started[-1]["argv"][0] == "resume"
    assert stand_in.started[-1]["argv"][-1] == "Four"


async def test_calls_made_at_once_run_one_after_the_other_and_each_has_its_result(toy: Make) -> None:
    running: list[int] = []
    most: list[int] = []

    async def look(args: Any) -> str:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.02)
        running.pop()
        return f"saw {args['n']}"

    body = """
out({"session": "t1"}); server = connect()
for n in range(4): server.send("tools/call", name="look", arguments={"n": n})
answers = sorted(server.read()["result"]["content"][0]["text"] for n in range(4))
out({"text": " ".join(answers)}); out({"end": "reply"})
"""
    stage, _ = toy(body, Toy, tool("look", look))
    outcome = await stage.run("Look")
    assert outcome.record.output == "saw 0 saw 1 saw 2 saw 3"
    assert most == [1, 1, 1, 1]
    assert sorted(stage.results().values()) == ["saw 0", "saw 1", "saw 2", "saw 3"]


async def test_unknown_tools_and_bad_arguments_are_answers_it_can_act_on(toy: Make) -> None:
    body = """
out({"session": "t1"}); server = connect()
answers = [server.call("nothing"), server.call("add", a="one"), server.call("add", a=1, b=1)]
out({"text": json.dumps([[a["isError"], a["content"][0]["text"]] for a in answers])}); out({"end": "reply"})
"""
    stage, _ = toy(body, Toy, add_tool())
    outcome = await stage.run("Add")
    (unknown, bad, good) = json.loads(outcome.record.output or "")
    assert (unknown[0], bad[0], good) == (True, True, [False, "2"])
    assert "There is no tool 'nothing'" in unknown[1]
    assert "do not fit the schema" in bad[1]


async def test_the_list_of_tools_is_the_agents(toy: Make) -> None:
    body = """
out({"session": "t1"}); server = connect()
tools = server.ask("tools/list")["result"]["tools"]
out({"text": " ".join(t["name"] for t in tools)}); out({"end": "reply"})
"""
    stage, _ = toy(body, Toy, add_tool(), corpus={"a.md": "text"}, policy={"get_corpus": "deny"})
    outcome = await stage.run("List")
    assert outcome.record.output == "ask_user search_corpus list_corpus add"


async def test_a_call_it_gives_up_on_is_cancelled_and_has_its_result(toy: Make) -> None:
    cancelled = asyncio.Event()

    async def wait(args: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    body = """
out({"session": "t1"}); server = connect()
server.send("tools/call", name="wait", arguments={})
time.sleep(0.2)
line = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": server.id}})
server.process.stdin.write(line.encode() + b"\\n"); server.process.stdin.flush()
server.read()
out({"text": server.call("add", a=1, b=1)["content"][0]["text"]}); out({"end": "reply"})
"""
    stage, _ = toy(body, Toy, tool("wait", wait), add_tool())
    outcome = await stage.run("Wait")
    assert cancelled.is_set()
    assert outcome.record.output == "2"
    assert [e.data.get("status") for e in stage.events("tool_result")] == ["cancelled", None]


async def test_a_line_beyond_all_measure_is_left_out_and_said_so(toy: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.agent_cli.process.LONGEST_LINE", 1_000_000)
    body = """
out({"session": "t1"}); out({"text": "y" * 3_000_000}); out({"text": "Short"}); out({"end": "reply"})
"""
    stage, _ = toy(body)
    outcome = await stage.run("One")
    assert outcome.record.output == "Short"
    assert "left out" in stage.events("notice")[0].data["text"]


async def test_a_key_it_was_started_with_is_nowhere_in_what_it_says(toy: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_API_KEY", "any-shape.of=CANARY+key")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pwCANARY@proxy.example.com:3128")
    body = """
import os
key = os.environ["TOY_API_KEY"]
out({"session": "t1"}); out({"text": "I have " + key}); out({"call": "look", "args": {"at": key}, "output": key})
print("refused: " + key + " by " + os.environ["HTTPS_PROXY"], file=sys.stderr)
"""
    stage, _ = toy(body)
    outcome = await stage.run("Hi")
    assert outcome.record.evidence["message"] == "refused: [key] by http://[key]@proxy.example.com:3128"
    events = list(stage.host.store.events(outcome.info.id))
    assert "I have [key]" in json.dumps([dict(event.data) for event in events])
    assert "CANARY" not in json.dumps([dict(event.data) for event in events])


async def test_words_said_meanwhile_are_its_next_prompt(toy: Make) -> None:
    body = """
out({"session": "t1"}); out({"text": "Hm"})
while turn == 1 and not os.path.exists("go"): time.sleep(0.01)
out({"text": "Answer to " + prompt}); out({"end": "reply"})
"""
    stage, stand_in = toy(body)
    task = stage.begin("One")
    await eventually(lambda: bool(stand_in.started))
    stage.mailbox.inbox.append("Two")
    (Path(stand_in.started[0]["cwd"]) / "go").touch()
    outcome = await task
    assert outcome.record.output == "Hm\n\nAnswer to Two"
    assert stand_in.started[-1]["argv"][-1] == "Two"


async def test_a_session_whose_process_died_goes_on_and_says_what_is_unknown(toy: Make) -> None:
    body = """
out({"session": "t1"})
if turn == 1:
    server = connect(); server.call("wait")
out({"text": "I was told: " + prompt}); out({"end": "reply"})
"""
    stage, _ = toy(body, Toy, tool("wait", lambda args: asyncio.Event().wait()))
    task = stage.begin("One")
    await eventually(lambda: bool(stage.store.session("s1") and stage.events("tool_call")))
    events = [(e.kind, dict(e.data)) for e in stage.events()]
    task.cancel()
    await task
    later = CliStage(stage.home / "later", Toy(), tool("wait", lambda args: ""))
    info = stage.info
    later.store.create_session(type(info)(id="s1", kind="run", started=info.started, usd="0.00"), events)
    later.store.release("s1")
    outcome = await later.run("Two")
    assert "The outcome of this call is unknown" in (outcome.record.output or "")
    assert (outcome.record.output or "").endswith("Two")


async def test_an_empty_reply_is_nudged_and_not_for_ever(toy: Make) -> None:
    stage, stand_in = toy('out({"session": "t1"}); out({"end": "reply"})')
    outcome = await stage.run("Hi")
    assert outcome.stop is Stop.DOOM_LOOP
    assert "Your reply was empty" in stand_in.started[1]["argv"][-1]
