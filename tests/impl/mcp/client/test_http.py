"""MCP servers over HTTPS: the policy and the credentials of effects hold for every request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from core import Stop, load_suite, run_launch
from impl.drivers.suite import in_suite
from impl.mcp.client import servers
from tests.harness.laboratory import Lab
from tests.harness.scripted import call
from tests.harness.tls import HANG, Authority, Reply, TlsServer, answer
from tests.impl.mcp.client.conftest import HOST, HTTP, KEY, SECRET, Harbour, Values, notices, results, transport

Made = Callable[..., Lab]
KEYED = {"mcp": [{**HTTP, "credential": "HARBOUR_KEY"}], "credentials": [KEY]}


async def test_a_tool_over_https_is_called(made: Made, harbour: Harbour) -> None:
    host = {"transport": harbour.transport()}
    lab = made([[call("harbour__tide", place="Brest")], "done"], host=host, mcp=[HTTP])
    outcome = await lab.run("clerk")
    assert outcome.stop is Stop.COMPLETED
    assert results(lab, outcome.info.id) == ["high tide at Brest; you sent None"]


async def test_the_credential_goes_into_every_request_and_comes_back_in_none(made: Made, harbour: Harbour) -> None:
    host = {"transport": harbour.transport(), "secrets": Values(HARBOUR_KEY=SECRET)}
    lab = made([[call("harbour__tide", place="Brest")], "done"], host=host, **KEYED)
    outcome = await lab.run("clerk")
    assert set(harbour.authorization) == {f"Bearer {SECRET}"}
    assert "high tide at Brest" in results(lab, outcome.info.id)[0]
    stored = [event.data for event in lab.store.events(outcome.info.id)]
    assert SECRET not in repr(stored)


async def test_without_a_value_the_agent_can_ask_for_it_and_goes_on(made: Made, harbour: Harbour) -> None:
    values = Values()
    host = {"transport": harbour.transport(), "secrets": values}
    script = [[call("harbour__connect")], [call("harbour__tide", place="Brest")], "done"]
    lab = made(script, host=host, **KEYED)
    outcome = await lab.run("clerk")
    assert outcome.stop is Stop.NEEDS_CREDENTIALS
    assert harbour.authorization == []
    values.values["HARBOUR_KEY"] = SECRET
    assert (await lab.answer(outcome.info.id, "retry")).stop is Stop.COMPLETED
    connected, tide = results(lab, outcome.info.id)
    assert connected.startswith("harbour is connected")
    assert "high tide" in tide


async def test_a_value_that_is_not_accepted_is_said(made: Made, harbour: Harbour) -> None:
    harbour.status = 401
    host = {"transport": harbour.transport(), "secrets": Values(HARBOUR_KEY=SECRET)}
    lab = made(["done"], host=host, **KEYED)
    outcome = await lab.run("clerk")
    (notice,) = notices(lab, outcome.info.id)
    assert "mcp_auth: it answered 401: it does not accept the value of HARBOUR_KEY" in notice


async def test_a_server_that_cannot_be_reached_is_done_without(made: Made, harbour: Harbour) -> None:
    harbour.port = 9  # nobody listens there
    lab = made(["done"], host={"transport": harbour.transport()}, mcp=[HTTP])
    outcome = await lab.run("clerk")
    assert outcome.stop is Stop.COMPLETED
    assert notices(lab, outcome.info.id)[0].startswith("Going on without the MCP server harbour: network:")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ([HANG], "deadline: it did not answer"),
        (answer(b"<html>", headers=["Content-Type: text/html"]), "protocol: it answered text/html"),
        (answer(b"{}", headers=["Content-Type: application/json"]), "protocol:"),
        (answer(b"[7]", headers=["Content-Type: application/json"]), "protocol:"),
        (answer(b"gone", status="410 Gone"), "mcp_error: it answered 410"),
        (answer(status="302 Found", headers=["Location: https://elsewhere.example.com/"]), "redirect:"),
    ],
)
async def test_a_server_that_does_not_speak_mcp_is_done_without(
    made: Made, authority: Authority, monkeypatch: pytest.MonkeyPatch, reply: Reply, why: str
) -> None:
    monkeypatch.setattr(servers, "START_S", 1.0)
    async with TlsServer(authority, [reply], name=HOST) as server:
        lab = made(["done"], host={"transport": transport(authority, server.port)}, mcp=[HTTP])
        outcome = await lab.run("clerk")
    assert outcome.stop is Stop.COMPLETED
    (notice,) = notices(lab, outcome.info.id)
    assert notice.startswith(f"Going on without the MCP server harbour: {why}")


async def test_a_session_that_the_server_ended_is_begun_anew(made: Made, harbour: Harbour) -> None:
    script = [[call("harbour__tide", place="Brest")], [call("harbour__tide", place="Cork")], "done"]
    lab = made(script, host={"transport": harbour.transport()}, mcp=[HTTP])
    harbour.forgets_after = 3  # greeting, its confirmation, and the list
    outcome = await lab.run("clerk")
    ended, tide = results(lab, outcome.info.id)
    assert "it has ended the session; the next call begins another" in ended
    assert "high tide at Cork" in tide


async def test_plain_http_is_refused_on_loopback_too(made: Made, harbour: Harbour) -> None:
    url = f"http://localhost:{harbour.port}/mcp"
    lab = made(["done"], host={"transport": harbour.transport()}, mcp=[{**HTTP, "url": url}])
    outcome = await lab.run("clerk")
    assert "scheme:" in notices(lab, outcome.info.id)[0]


async def test_a_replay_answers_from_the_record_and_calls_nobody(made: Made, harbour: Harbour) -> None:
    lab = made([[call("harbour__tide", place="Brest")], "done"], host={"transport": harbour.transport()}, mcp=[HTTP])
    first = await lab.run("clerk")
    calls, asked = harbour.calls, len(harbour.authorization)
    second = await lab.run("clerk", replay=first.info.id)
    assert second.stop is Stop.COMPLETED
    assert results(lab, second.info.id) == ["high tide at Brest; you sent None"]
    assert (harbour.calls, len(harbour.authorization)) == (calls, asked)


async def test_a_replay_of_a_call_that_is_not_on_record_is_refused(made: Made, harbour: Harbour) -> None:
    lab = made([[call("harbour__tide", place="Brest")], "done"], host={"transport": harbour.transport()}, mcp=[HTTP])
    first = await lab.run("clerk")
    lab.provider.cast["clerk"] = [[call("harbour__tide", place="Cork")], "done"]
    outcome = await lab.run("clerk", replay=first.info.id)
    assert results(lab, outcome.info.id)[0].startswith("replay_miss: harbour:")


async def test_the_address_of_a_server_is_the_driver_s_to_say(made: Made, harbour: Harbour) -> None:
    lab = made(["done"], host={"transport": harbour.transport()}, mcp=[HTTP])
    info = lab.store.session((await lab.run("clerk")).info.id)
    assert await lab.host.driver(lab.host, info).ext_mcp_url("harbour") == f"https://{HOST}/mcp"


async def test_in_a_suite_a_stand_in_answers_for_a_server(made: Made, authority: Authority, tmp_path: Path) -> None:
    """Without the credential, without an effect; the server itself is never reached."""
    stand_in = Harbour(authority)
    async with stand_in.serving(tls=False):
        root = tmp_path / "suite"
        root.mkdir()
        address = f"http://127.0.0.1:{stand_in.port}/mcp"
        text = f"schema: artificer/suite/v1\nname: tides\npersona: x\nmcp: {{harbour: '{address}'}}\n"
        (root / "suite.yaml").write_text(text)
        host = {"environment": in_suite, "secrets": Values(HARBOUR_KEY=SECRET)}
        lab = made([[call("harbour__tide", place="Brest")], "done"], host=host, **KEYED)
        launch = run_launch(lab.host, "clerk", None, "Go.", provider="cast")
        session = lab.supervisor.start(replace(launch, kind="case", suite=load_suite(root).to_json()))
        await lab.supervisor.wait(session)
    assert results(lab, session) == ["high tide at Brest; you sent None"]
    assert lab.events(session, "effect") == []
