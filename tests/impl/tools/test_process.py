"""One run of a generated tool: results, effects, and every way it can end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from core import Allowed, Binding, Broker, EffectPolicy, EffectResponse, Event, Ledger, Workspace, recorded_example
from impl.sandboxes.bubblewrap import BubblewrapSandbox
from impl.tools.process import RUNNER, ToolRun, run_tool


class Answering:
    """A transport that answers every request with what it was asked for, and counts."""

    def __init__(self) -> None:
        self.sent: list[Allowed] = []

    async def perform(self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]) -> EffectResponse:
        """Echo."""
        self.sent.append(request)
        return EffectResponse(200, (("content-type", "text/plain"),), f"{request.method} {request.target}".encode())


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Workspace]:
    """A bubblewrap sandbox laid out as a tool shop's."""
    sandbox = BubblewrapSandbox()
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"bubblewrap: {problem}")
    (tmp_path / "scratch").mkdir()
    (tmp_path / RUNNER).write_bytes(files("impl.tools").joinpath(RUNNER).read_bytes())
    workspace = await sandbox.open(tmp_path)
    yield workspace
    await workspace.close()


Run = Callable[..., Any]


@pytest.fixture
def run(place: Workspace) -> Run:
    """Run a body of `run(ctx, input)`; keyword arguments go to the broker."""
    events: list[tuple[str, dict[str, Any]]] = []

    async def go(body: str, input: Mapping[str, Any] | None = None, timeout: float = 20, **broker: Any) -> ToolRun:
        lines = "\n".join("    " + line for line in body.splitlines())
        (place.path / "tool.py").write_text(f"import json, os, sys, time\n\ndef run(ctx, input):\n{lines}\n")
        given: dict[str, Any] = {
            "call": "c1",
            "tool": "t",
            "policy": EffectPolicy(["api.example.com"], {}),
            "transport": Answering(),
            "credential": lambda name: None,
            "emit": lambda kind, data: events.append((kind, dict(data))),
            "ledger": Ledger((), "c1"),
            "put_blob": lambda data: "b" * 64,
            "blob": lambda name: b"",
            **broker,
        }
        go.events = events  # type: ignore[attr-defined]
        log: list[str] = []
        return await run_tool(
            place, entrypoint="tool.py", input=input or {}, broker=Broker(**given), log=log.append, timeout=timeout
        )

    return go


async def test_a_result_comes_back_and_what_is_printed_is_a_log_not_a_frame(run: Run) -> None:
    ran = await run('print("{\\"kind\\": \\"result\\"}")\nsys.stdout.flush()\nreturn {"n": input["n"] + 1}', {"n": 1})
    assert (ran.value, ran.error) == ({"n": 2}, None)
    assert "result" in ran.printed


async def test_an_effect_is_answered_by_the_host_and_stored_before_and_after(run: Run) -> None:
    ran = await run('return ctx.http.request("get", "https://api.example.com/a?b=1").text')
    assert ran.value == "GET /a?b=1"
    kinds = [kind for kind, _ in run.events]  # type: ignore[attr-defined]
    assert kinds == ["effect_intent", "effect"]


async def test_a_denied_effect_is_an_exception_with_its_typed_reason(run: Run) -> None:
    ran = await run('return ctx.http.request("GET", "https://evil.example/").text')
    assert (ran.error, ran.reason) == ("effect_denied", "host_not_allowed")


async def test_a_tool_may_handle_a_denial(run: Run) -> None:
    tried = 'ctx.http.request("GET", "http://api.example.com/")'
    body = f'try:\n    {tried}\nexcept ctx.EffectDenied as e:\n    return e.reason'
    assert (await run(body)).value == "scheme"


async def test_a_needed_credential_suspends_even_a_tool_that_swallows_everything(run: Run) -> None:
    policy = EffectPolicy(["api.example.com"], {"KEY": Binding(["api.example.com"], header="X-Key")})
    body = (
        "while True:\n    try:\n"
        '        return ctx.http.request("GET", "https://api.example.com/", credential="KEY").text\n'
        "    except BaseException:\n        pass"
    )
    ran = await run(body, policy=policy)
    assert ran.needs == "KEY"


async def test_a_resumed_call_is_fed_from_the_record_and_sends_nothing_again(run: Run) -> None:
    body = 'return ctx.http.request("POST", "https://api.example.com/x", body=b"1").text'
    await run(body)
    events = [Event("s", n, "", kind, data=data) for n, (kind, data) in enumerate(run.events, 1)]  # type: ignore[attr-defined]
    second = Answering()
    ran = await run(body, transport=second, ledger=Ledger(events, "c1"))
    assert (ran.value, second.sent) == ("POST /x", [])
    other = await run(body.replace("/x", "/y"), transport=second, ledger=Ledger(events, "c1"))
    assert (other.reason, second.sent) == ("nondeterministic_tool", [])


async def test_a_post_of_unknown_outcome_is_never_sent_again_and_a_get_is(run: Run) -> None:
    for method, sent in (("POST", 0), ("GET", 1)):
        body = f'return ctx.http.request("{method}", "https://api.example.com/x").text'
        run_events: list[tuple[str, Any]] = []
        await run(body, emit=lambda kind, data, to=run_events: to.append((kind, data)))
        intents = [Event("s", 1, "", kind, data=data) for kind, data in run_events if kind == "effect_intent"]
        transport = Answering()
        ran = await run(body, transport=transport, ledger=Ledger(intents, "c1"))
        assert len(transport.sent) == sent
        assert ran.reason == (None if sent else "outcome_unknown")


async def test_a_replay_answers_from_the_record_and_never_the_network(run: Run) -> None:
    rows = [{"request": {"method": "GET", "url": "https://api.example.com/a"}, "response": {"body": "recorded"}}]
    transport = Answering()
    book = recorded_example(rows, "t")
    ran = await run(
        'return ctx.http.request("GET", "https://api.example.com/a").text', transport=transport, replay=book
    )
    assert ran.value == "recorded"
    ran = await run(
        'return ctx.http.request("GET", "https://api.example.com/b").text', transport=transport, replay=book
    )
    assert (ran.reason, transport.sent) == ("replay_miss", [])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise ValueError('no')", "tool_error"),
        ("raise SystemExit(3)", "tool_error"),
        ("return {1, 2}", "bad_result"),
        ("return float('nan')", "bad_result"),
        ("os._exit(0)", "tool_crashed"),
        ("os.kill(os.getpid(), 9)", "tool_crashed"),
        ("x = []\nx.append(x)\nreturn x", "bad_result"),
        ("import socket\nsocket.create_connection(('192.0.2.1', 80), 2)", "tool_error"),
        ("return open('/etc/shadow').read()", "tool_error"),
    ],
)
async def test_every_bad_ending_is_typed(run: Run, body: str, error: str) -> None:
    assert (await run(body)).error == error


async def test_a_tool_that_does_not_end_is_stopped_with_all_it_started(run: Run) -> None:
    ran = await run(
        "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nwhile True: pass", timeout=1
    )
    assert ran.error == "tool_timeout"


async def test_huge_and_binary_bodies_arrive_whole_or_are_denied(run: Run) -> None:
    ran = await run(
        'r = ctx.http.request("POST", "https://api.example.com/", body=bytes(range(256)) * 4000)\nreturn r.status'
    )
    assert ran.value == 200
    ran = await run('ctx.http.request("POST", "https://api.example.com/", body=b"x" * (11 * 1024 * 1024))')
    assert ran.reason == "body_too_large"
