"""One run of a generated tool: results, effects, and how it goes on from a record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from core import Allowed, Binding, EffectPolicy, EffectResponse, Ledger, recorded_example
from tests.impl.tools.conftest import HOST, Answering, Bench

ASK = f'return ctx.http.request("GET", "https://{HOST}/a").text'


async def test_a_result_comes_back_and_what_is_printed_is_a_log_not_a_frame(bench: Bench) -> None:
    ran = await bench.run(
        'print("{\\"kind\\": \\"result\\"}")\nsys.stdout.flush()\nreturn {"n": input["n"] + 1}', {"n": 1}
    )
    assert (ran.value, ran.error) == ({"n": 2}, None)
    assert "result" in ran.printed


async def test_a_tool_has_a_corpus_to_read_and_scratch_to_write(bench: Bench) -> None:
    body = "open(ctx.scratch + '/x', 'w').write('1')\nctx.log('a', 1)\nreturn open(ctx.corpus + '/a.md').read()"
    assert (await bench.run(body)).value == "# A\n"
    assert bench.log == ["a 1"]
    assert (bench.place.workspace.path / "x").read_text() == "1"


async def test_a_coroutine_is_awaited(bench: Bench) -> None:
    ran = await bench.run("import asyncio\nasync def go():\n    await asyncio.sleep(0)\n    return 7\nreturn go()")
    assert ran.value == 7


THREADS = f"""
from concurrent.futures import ThreadPoolExecutor

def ask(n):
    ctx.log(n)
    return ctx.http.request("POST", f"https://{HOST}/{{n}}").text

with ThreadPoolExecutor(8) as pool:
    return list(pool.map(ask, range(40)))
"""


async def test_requests_of_several_threads_are_answered_each_with_its_own(bench: Bench) -> None:
    ran = await bench.run(THREADS)
    assert ran.value == [f"POST /{n}" for n in range(40)]
    assert sorted(bench.log, key=int) == [str(n) for n in range(40)]


async def test_an_effect_is_answered_by_the_host_and_stored_before_and_after(bench: Bench) -> None:
    ran = await bench.run(f'return ctx.http.request("get", "https://{HOST}/a?b=1").text')
    assert ran.value == "GET /a?b=1"
    assert [kind for kind, _ in bench.events] == ["effect_intent", "effect"]


async def test_bodies_go_and_come_as_bytes(bench: Bench) -> None:
    class Echo(Answering):
        async def perform(self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]) -> EffectResponse:
            return EffectResponse(200, (), request.body)

    body = f'b = bytes(range(256)) * 4000\nr = ctx.http.request("POST", "https://{HOST}/", body=b)\nreturn r.body == b'
    assert (await bench.run(body, transport=Echo())).value is True
    ran = await bench.run(f'ctx.http.request("POST", "https://{HOST}/", body=b"x" * (11 * 1024 * 1024))')
    assert ran.reason == "body_too_large"


async def test_a_denied_effect_is_an_exception_with_its_typed_reason(bench: Bench) -> None:
    ran = await bench.run('return ctx.http.request("GET", "https://evil.example/").text')
    assert (ran.error, ran.reason) == ("effect_denied", "host_not_allowed")


async def test_a_tool_may_handle_a_denial(bench: Bench) -> None:
    tried = f'ctx.http.request("GET", "http://{HOST}/")'
    body = f"try:\n    {tried}\nexcept ctx.EffectDenied as e:\n    return e.reason"
    assert (await bench.run(body)).value == "scheme"


async def test_a_needed_credential_suspends_even_a_tool_that_swallows_everything(bench: Bench) -> None:
    policy = EffectPolicy([HOST], {"KEY": Binding([HOST], header="X-Key")})
    body = (
        "while True:\n    try:\n"
        f'        return ctx.http.request("GET", "https://{HOST}/", credential="KEY").text\n'
        "    except BaseException:\n        pass"
    )
    ran = await bench.run(body, policy=policy)
    assert (ran.needs, bench.events) == ("KEY", [])


# --- going on from a record ------------------------------------------------------------------------------


async def test_a_call_that_runs_again_is_fed_from_the_record_and_sends_nothing_twice(bench: Bench) -> None:
    body = f'return [ctx.http.request("POST", "https://{HOST}/x", body=b"1").text, {ASK.removeprefix("return ")}]'
    await bench.run(body)
    second = Answering()
    ran = await bench.run(body, transport=second, ledger=Ledger(bench.recorded()[:2], "c1"))
    assert ran.value == ["POST /x", "GET /a"]
    assert [request.method for request in second.sent] == ["GET"]


@pytest.mark.parametrize(
    "body",
    [
        'return ctx.http.request("POST", "https://HOST/other").text',
        'try:\n    ctx.http.request("POST", f"https://HOST/{time.time()}")\nexcept BaseException:\n    return "fine"',
        "import random\nreturn ctx.http.request('POST', 'https://HOST/x', body=random.randbytes(9)).text",
        'return "asks for nothing any more"',
        'for path in ("other", "x", "y"):\n'
        '    try:\n        ctx.http.request("POST", "https://HOST/" + path)\n'
        "    except Exception:\n        pass\nreturn 'fine'",
    ],
)
async def test_one_that_does_not_ask_the_same_again_ends_as_nondeterministic(bench: Bench, body: str) -> None:
    await bench.run(f'return ctx.http.request("POST", "https://{HOST}/x").text')
    second = Answering()
    ran = await bench.run(body.replace("HOST", HOST), transport=second, ledger=Ledger(bench.recorded(), "c1"))
    assert (ran.error, ran.reason) == ("effect_denied", "nondeterministic_tool")
    assert second.sent == []


@pytest.mark.parametrize(("method", "sent"), [("POST", 0), ("DELETE", 0), ("GET", 1), ("HEAD", 1)])
async def test_what_changes_something_is_never_sent_again_where_it_may_have_been(
    bench: Bench, method: str, sent: int
) -> None:
    ask = f'ctx.http.request("{method}", "https://{HOST}/x").text'
    await bench.run(f"return {ask}")
    transport = Answering()
    body = f"for _ in range(3):\n    try:\n        return {ask}\n    except Exception:\n        pass"
    ran = await bench.run(body, transport=transport, ledger=Ledger(bench.recorded("effect_intent"), "c1"))
    assert len(transport.sent) == sent
    assert ran.reason == (None if sent else "outcome_unknown")


async def test_an_effect_whose_call_is_cancelled_is_of_unknown_outcome(bench: Bench) -> None:
    reached = asyncio.Event()

    class Hanging(Answering):
        async def perform(self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]) -> EffectResponse:
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError

    task = asyncio.ensure_future(bench.run(f'ctx.http.request("POST", "https://{HOST}/")', transport=Hanging()))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [kind for kind, _ in bench.events] == ["effect_intent", "effect"]
    assert bench.events[1][1]["outcome"]["denied"] == "outcome_unknown"
    assert (await bench.run("return 1")).value == 1


async def test_a_replay_answers_from_the_record_and_never_the_network(bench: Bench) -> None:
    rows = [
        {"request": {"method": "GET", "url": f"https://{HOST}/a"}, "response": {"body": "recorded"}},
        {"request": {"method": "POST", "url": f"https://{HOST}/p"}, "response": {"status": 201}},
    ]
    transport = Answering()
    book = recorded_example(rows, "t")
    assert (await bench.run(ASK, transport=transport, replay=book)).value == "recorded"
    post = f'return ctx.http.request("POST", "https://{HOST}/p").status'
    assert (await bench.run(post, transport=transport, replay=book)).value == 201
    other = ASK.replace("com/a", "com/b")
    for body in (post, other, f"try:\n    {other}\nexcept Exception:\n    return 1"):
        ran = await bench.run(body, transport=transport, replay=book)
        assert (ran.error, ran.reason) == ("effect_denied", "replay_miss")
    assert transport.sent == []
