"""A real model that no one scripted: its stream, its usage, a cancel in the middle, a forced tool call.

Runs with `pytest -m live` where tests/harness/live.py finds the model, else is skipped.
"""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import LaunchInput, ModelProvider, ModelRequest, Stop, StreamItem, launch_agent
from impl.providers.openai_compatible import OpenAICompatibleProvider
from tests.harness.eval_driver import EvalDriver, make_host, tool
from tests.harness.live import MODEL, PYTHON, URL, Live, live
from tests.harness.marker import Home
from tests.harness.warm import Warm

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SHORT = "Say hello to the world, in one short sentence."
LONG = "Write a long story about a lighthouse keeper and a storm, with many details."
MOST_TOKENS = 60
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model() -> Iterator[Live]:
    with live() as found:
        if found is None:
            pytest.skip(f"no live model: set {URL}, or {PYTHON} as tests/harness/live.py says")
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    scratch = tmp_path_factory.mktemp("live")
    with Warm() as warm:
        yield Home(scratch / "home", warm).publish(scratch / "marker")


def environment(home: Home, url: str) -> dict[str, str]:
    return home.env(OPENAI_BASE_URL=url, OPENAI_API_KEY="", ARTIFICER_MODEL=MODEL)


def test_text_streams_in_pieces_and_what_it_used_is_counted(model: Live, home: Home, capsys: Any) -> None:
    began = time.monotonic()
    command = home.warm.start(["run", "marker", SHORT, "--json", "--stream"], environment(home, model.url))
    first = next(time.monotonic() - began for line in command if line.get("kind") == "draft")
    *_, result = command.read()
    took = time.monotonic() - began
    assert (command.code, result["stop"]) == (0, "completed")
    drafts = [line["data"]["text"] for line in command.lines if line.get("kind") == "draft"]
    assert len(drafts) >= 3
    assert all(result["output"].startswith(draft) for draft in drafts)
    usage = result["usage"]
    assert usage["requests"] == 1
    assert usage["input_tokens"] > 100
    assert usage["output_tokens"] >= 3
    with capsys.disabled():
        print(f"\n{len(drafts)} drafts, the first after {first:.2f} s, all in {took:.2f} s; {usage}")  # noqa: T201


def test_a_cancel_in_mid_stream_reaches_the_server_and_the_session_goes_on(model: Live, home: Home) -> None:
    relay = model.relay()
    command = home.warm.start(["run", "marker", LONG, "--json", "--stream"], environment(home, relay.url))
    drafts = (line for line in command if line.get("kind") == "draft")
    session = next(drafts)["session"]
    next(drafts)
    cancelled = time.monotonic()
    command.kill(signal.SIGINT)
    assert relay.gone.wait(2), "the server never learns that nobody listens"
    assert time.monotonic() - cancelled < 2
    *_, result = command.read()
    assert (command.code, result["stop"]) == (17, "cancelled")
    relay.close()
    wait_until_idle(model)
    (kept,) = [e["data"] for e in home.transcript(session) if e["data"].get("role") == "assistant"]
    assert kept["incomplete"]
    assert kept["text"].strip()
    again = home.warm.start(["resume", session, "-m", SHORT, "--json"], environment(home, model.url)).read()
    assert again[-1]["stop"] == "completed"


def wait_until_idle(model: Live) -> None:
    """Until the server works no more, where its process can be watched."""
    before = model.cpu_s()
    deadline = time.monotonic() + 20
    while before is not None:
        time.sleep(0.5)
        now = model.cpu_s()
        assert now is not None
        if now - before < 0.1:
            return
        assert time.monotonic() < deadline, "the server works on for nobody"
        before = now


class Forcing(ModelProvider):
    """The real provider, whose first turn must call one tool and whose answers are short."""

    name = OpenAICompatibleProvider.name

    def __init__(self, must: str) -> None:
        self.inner = OpenAICompatibleProvider()
        self.must: str | None = must

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """The turn, asked for with `tool_choice` once; afterwards without tools, which it has no use for."""
        must, self.must = self.must, None
        tools = request.tools if must else ()
        async for item in self.inner.stream(
            replace(request, model=MODEL, tool_choice=must, tools=tools, max_output_tokens=MOST_TOKENS)
        ):
            yield item

    async def aclose(self) -> None:
        """Close it."""
        await self.inner.aclose()


async def test_a_forced_tool_call_is_valid_and_executed_and_its_result_answered(
    model: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", "")
    ran: list[dict[str, Any]] = []

    def weather(args: dict[str, Any]) -> str:
        ran.append(args)
        return "Sunny, 21 degrees."

    driver = EvalDriver(
        text="You tell the weather.", tools=[tool("weather", weather, SCHEMA, "The weather of a city.")]
    )
    provider = Forcing("weather")
    host = make_host(tmp_path, driver=driver, provider=provider)
    outcome = await launch_agent(
        driver, LaunchInput(host=host, task="What is the weather in Paris?", provider=provider)
    )
    await provider.aclose()
    assert len(ran) == 1
    assert isinstance(ran[0]["city"], str)
    events = list(host.store.events(outcome.info.id, kinds=("tool_call", "tool_result")))
    assert [e.kind for e in events] == ["tool_call", "tool_result"]
    assert events[1].data["ok"]
    assert outcome.stop in (Stop.COMPLETED, Stop.BUDGET)  # a small model may ramble on to the output limit
    assert outcome.record.output
