"""What a turn costs here and in other agent loops: the same work side by side in one run.

The work: a model in this process that answers at once, one tool call a turn. Ours writes its durable log
meanwhile; the others run as they come, in memory. Those that are not installed are left out. To have them all:

    python -m venv peers && peers/bin/pip install -e . pytest pydantic-ai-slim openai-agents smolagents langgraph
    peers/bin/python -m tests.bench.bench_peers
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import itertools
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

TURNS = 250
EARLY = 25
WINDOW = 20
ROUNDS = 3
TASK = "Read the files."


def read(path: str, line: int) -> str:
    """Read a line of a file.

    Args:
        path: the file.
        line: the line's number, from 1.
    """
    return f"{path}: line {line} holds something of its own"


def arguments(turn: int) -> dict[str, Any]:
    """What the model calls `read` with."""
    return {"path": f"src/file_{turn}.py", "line": turn + 1}


class Stamps(list[float]):
    """When each turn began, in seconds; `next()` notes one more and gives its number."""

    def next(self) -> int:
        """The number of the turn that begins now."""
        self.append(time.perf_counter())
        return len(self) - 1


# --- the loops -----------------------------------------------------------------------------------------


def artificer(stamps: Stamps) -> None:
    """This project's loop on its durable store."""
    from core import LaunchInput, ModelProvider, ModelRequest, StreamItem, Text, ToolCall, TurnEnd, Usage, launch_agent
    from tests.harness.eval_driver import EvalDriver, make_host, tool

    class Instant(ModelProvider):
        name = "instant"

        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
            turn = stamps.next()
            if turn >= TURNS:
                yield TurnEnd((Text("done"),), "stop", Usage(100, 10))
            else:
                yield TurnEnd((ToolCall(f"call_{turn}", "read", arguments(turn)),), "tool_calls", Usage(100, 10))

    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
        "required": ["path", "line"],
    }
    driver = EvalDriver(tools=[tool("read", lambda args: read(**args), schema)])
    provider = Instant()
    with tempfile.TemporaryDirectory() as home:
        host = make_host(Path(home), driver=driver, provider=provider)
        outcome = asyncio.run(launch_agent(driver, LaunchInput(host=host, task=TASK, provider=provider)))
        host.store.close()
    assert outcome.record.output == "done"


def pydantic_ai(stamps: Stamps) -> None:
    """The package pydantic-ai-slim."""
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, info: Any) -> ModelResponse:
        turn = stamps.next()
        return ModelResponse(
            parts=[TextPart("done") if turn >= TURNS else ToolCallPart("read", arguments(turn), f"call_{turn}")]
        )

    agent = Agent(FunctionModel(answer), tools=[read])
    assert agent.run_sync(TASK, usage_limits=UsageLimits(request_limit=None)).output == "done"


def openai_agents(stamps: Stamps) -> None:
    """The package openai-agents."""
    from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Instant(Model):
        async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
            turn = stamps.next()
            if turn >= TURNS:
                text = ResponseOutputText(annotations=[], text="done", type="output_text")
                said = ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
                return ModelResponse(output=[said], usage=Usage(), response_id=None)
            call = ResponseFunctionToolCall(
                arguments=json.dumps(arguments(turn)), call_id=f"call_{turn}", name="read", type="function_call"
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

    set_tracing_disabled(True)
    agent = Agent(name="reader", model=Instant(), tools=[function_tool(read)])
    assert asyncio.run(Runner.run(agent, TASK, max_turns=TURNS + 2)).final_output == "done"


def smolagents(stamps: Stamps) -> None:
    """The package smolagents."""
    from smolagents import LogLevel, Model, ToolCallingAgent, tool
    from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

    class Instant(Model):
        def generate(self, messages: Any, **more: Any) -> ChatMessage:
            turn = stamps.next()
            name, given = ("final_answer", {"answer": "done"}) if turn >= TURNS else ("read", arguments(turn))
            function = ChatMessageToolCallFunction(name=name, arguments=given)
            call = ChatMessageToolCall(id=f"call_{turn}", type="function", function=function)
            return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])

    agent = ToolCallingAgent(tools=[tool(read)], model=Instant(), max_steps=TURNS + 2, verbosity_level=LogLevel.OFF)
    assert agent.run(TASK) == "done"


def langgraph(stamps: Stamps) -> None:
    """The package langgraph."""
    import warnings

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langgraph.prebuilt import create_react_agent

        class Instant(BaseChatModel):
            @property
            def _llm_type(self) -> str:
                return "instant"

            def bind_tools(self, tools: Any, **more: Any) -> Any:
                return self

            def _generate(self, messages: Any, *args: Any, **more: Any) -> ChatResult:
                turn = stamps.next()
                calls = [{"name": "read", "args": arguments(turn), "id": f"call_{turn}"}]
                said = AIMessage("done") if turn >= TURNS else AIMessage("", tool_calls=calls)
                return ChatResult(generations=[ChatGeneration(message=said)])

        agent = create_react_agent(Instant(), [read])
    made = agent.invoke({"messages": [("user", TASK)]}, {"recursion_limit": 10 * TURNS})
    assert made["messages"][-1].content == "done"


#: Module to be installed, and the loop; ours comes first.
LOOPS: dict[str, tuple[str, Callable[[Stamps], None]]] = {
    "artificer": ("core", artificer),
    "pydantic-ai": ("pydantic_ai", pydantic_ai),
    "openai-agents": ("agents", openai_agents),
    "smolagents": ("smolagents", smolagents),
    "langgraph": ("langgraph", langgraph),
}


# --- figures -------------------------------------------------------------------------------------------


def costs(loop: Callable[[Stamps], None]) -> tuple[float, float]:
    """Microseconds of a turn around the 25th, and of one at the end: medians of a window."""
    stamps = Stamps()
    gc.collect()
    loop(stamps)
    assert len(stamps) == TURNS + 1
    each = [(after - before) * 1e6 for before, after in itertools.pairwise(stamps)]
    half = WINDOW // 2
    return (sorted(each[EARLY - half : EARLY + half])[half], sorted(each[-WINDOW:])[half])


def run() -> dict[str, Any]:
    """The least of several interleaved rounds of every loop that is installed, and their ratios to ours."""
    there = {name: loop for name, (module, loop) in LOOPS.items() if importlib.util.find_spec(module)}
    best = dict.fromkeys(there, (float("inf"), float("inf")))
    for _ in range(ROUNDS):
        for name, loop in there.items():
            early, late = costs(loop)
            best[name] = (min(best[name][0], early), min(best[name][1], late))
    ours = best["artificer"]
    return {
        "name": "peers",
        "turns": TURNS,
        "us_a_turn": {
            name: {f"turn_{EARLY}": round(early, 1), f"turn_{TURNS}": round(late, 1)}
            for name, (early, late) in best.items()
        },
        "times_ours": {
            name: {f"turn_{EARLY}": round(early / ours[0], 2), f"turn_{TURNS}": round(late / ours[1], 2)}
            for name, (early, late) in best.items()
            if name != "artificer"
        },
        "missing": sorted(LOOPS.keys() - there.keys()),
    }


@pytest.mark.bench
def test_a_late_turn_of_the_loop_with_its_log_costs_less_than_one_of_others_without() -> None:
    if not any(importlib.util.find_spec(module) for module, _ in list(LOOPS.values())[1:]):
        pytest.skip("no other agent loop is installed")
    figures = run()
    assert all(ratios[f"turn_{TURNS}"] > 1 for ratios in figures["times_ours"].values()), figures


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run()) + "\n")
