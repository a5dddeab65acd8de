"""MCP servers in a sandbox: what they offer, what they cannot reach, and every way they fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core import Stop
from impl.mcp.client import servers
from impl.sandboxes.docker import DockerSandbox
from impl.sandboxes.options import Options
from impl.sandboxes.process import ProcessSandbox
from tests.harness.eval_driver import OneSandbox
from tests.harness.laboratory import Lab
from tests.harness.scripted import call
from tests.impl.mcp.client.conftest import STDIO, notices, results, stdio

Made = Callable[..., Lab]
ALLOWED = {"tools": {"local__go": "allow"}}
READS = 'tools = [tool("go", annotations={"readOnlyHint": True})]\n'


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers have little time."""
    monkeypatch.setattr(servers, "START_S", 1.5)
    monkeypatch.setattr(servers, "CALL_S", 1.0)


async def test_a_tool_of_a_server_is_called_by_its_name_and_gives_its_text(made: Made) -> None:
    body = 'serve([tool("go")], lambda name, args: text(f"{name} went"))'
    lab = made([[call("local__go")], "done"], stdio(body), mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    assert outcome.stop is Stop.COMPLETED
    assert results(lab, outcome.info.id) == ["go went"]


@pytest.mark.docker
async def test_a_server_runs_in_a_container_too(made: Made, tmp_path: Path) -> None:
    sandbox = DockerSandbox(Options(home=tmp_path, image="local"))
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"docker does not work here: {problem}")
    body = 'serve([tool("go")], lambda name, args: text(f"{name} went"))'
    host: dict[str, Any] = {"sandboxes": OneSandbox(lambda: sandbox)}
    lab = made([[call("local__go")], "done"], stdio(body), host=host, mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    assert results(lab, outcome.info.id) == ["go went"], notices(lab, outcome.info.id)


async def test_a_tool_that_is_not_marked_as_reading_only_asks_first(made: Made) -> None:
    body = 'serve([tool("go", annotations={"destructiveHint": False})], lambda name, args: text("went"))'
    lab = made([[call("local__go")], "done"], stdio(body), mcp=[STDIO])
    outcome = await lab.run("clerk")
    assert outcome.stop is Stop.NEEDS_APPROVAL
    assert (await lab.answer(outcome.info.id, "once")).stop is Stop.COMPLETED
    assert results(lab, outcome.info.id) == ["went"]


async def test_a_tool_that_is_marked_as_reading_only_does_not_ask(made: Made) -> None:
    lab = made([[call("local__go")], "done"], stdio(READS + "serve(tools, lambda n, a: text('went'))"), mcp=[STDIO])
    assert (await lab.run("clerk")).stop is Stop.COMPLETED


async def test_a_denied_tool_is_not_offered(made: Made) -> None:
    body = READS + "serve(tools, lambda n, a: text('went'))"
    lab = made(["done"], stdio(body), mcp=[STDIO], policy={"tools": {"local__go": "deny"}})
    await lab.run("clerk")
    assert "local__go" not in [tool.name for tool in lab.provider.requests[0].tools]


async def test_arguments_are_checked_by_the_schema_before_the_server_sees_them(made: Made) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    body = f'serve([tool("go", inputSchema={schema})], lambda n, a: text("went"))'
    lab = made([[call("local__go", n="x")], "done"], stdio(body), mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    assert "do not fit the schema at n" in results(lab, outcome.info.id)[0]


async def test_a_server_has_no_network_and_nothing_of_this_machine_s_environment(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOUR_KEY", "s3cret-of-the-host")
    body = """
def look(name, args):
    try:
        socket.create_connection(("198.51.100.7", 443), 2)
        return text("reached")
    except OSError as error:
        return text(f"{type(error).__name__} {dict(os.environ)}")
serve([tool("go")], look)
"""
    lab = made([[call("local__go")], "done"], stdio(body), mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    (said,) = results(lab, outcome.info.id)
    assert "OSError" in said
    assert "s3cret" not in said


async def test_the_error_of_a_tool_is_a_result_that_failed(made: Made) -> None:
    body = 'serve([tool("go")], lambda n, a: {**text("no berth"), "isError": True})'
    lab = made([[call("local__go")], "done"], stdio(body), mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    (event,) = lab.store.events(outcome.info.id, kinds=("tool_result",))
    assert (event.data["ok"], event.data["output"]) == (False, "no berth")


async def test_a_long_answer_passes_the_cap_of_all_tools(made: Made) -> None:
    body = 'serve([tool("go")], lambda n, a: text("x" * 100_000))'
    lab = made([[call("local__go")], "done"], stdio(body), mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    (said,) = results(lab, outcome.info.id)
    assert len(said) < 31_000
    assert "left out here" in said


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit('no such port')", "mcp_unavailable"),
        ("time.sleep(60)", "mcp_timeout"),
        ("print('hello'); sys.stdout.flush(); sys.exit(3)", "mcp_unavailable"),
        ("while True: print('garbage')", "mcp_unavailable"),
        ("serve([], None, listed={'tools': 'none'})", "mcp_protocol"),
        ("serve([{'name': 7}], None)", "mcp_protocol"),
        ("sys.stdin.readline(); say(id=0, result={'protocolVersion': 'soon'}); time.sleep(60)", "mcp_"),
    ],
)
async def test_a_server_that_fails_is_done_without(made: Made, body: str, why: str) -> None:
    lab = made(["done"], stdio(body), mcp=[STDIO])
    outcome = await lab.run("clerk")
    assert outcome.stop is Stop.COMPLETED
    (notice,) = notices(lab, outcome.info.id)
    assert notice.startswith(f"Going on without the MCP server local: {why}")


async def test_a_command_that_is_not_there_is_named(made: Made) -> None:
    lab = made(["done"], stdio(""), mcp=[{**STDIO, "command": "no-such-server", "args": []}])
    outcome = await lab.run("clerk")
    assert "no-such-server cannot be started" in notices(lab, outcome.info.id)[0]


ODD_ANSWERS = r"""
def go(name, args):
    line = {"null": '"result": null', "deep": '"result": ' + '{"a":' * 50000 + "1" + "}" * 50000,
            "refused": '"error": {"code": -32000, "message": "no such berth"}',
            "lie": '"error": {"code": -32000, "message": "m", "data": {"artificer": "mcp_auth", "sent": false}}',
            "half": '"result": {"content": [{"type": "text", "text": "half \\ud83d"}]}'}[args["how"]]
    print('{"jsonrpc": "2.0", "id": %d, %s}' % (number, line), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, number, params = asked.get("method"), asked.get("id"), asked.get("params") or {}
    if method == "initialize":
        say(id=number, result={"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "odd", "version": "1"}})
    elif method == "tools/list":
        say(id=number, result={"tools": [tool("go")]})
    elif method == "tools/call":
        go(params["name"], params["arguments"])
"""


async def test_an_answer_that_is_odd_ends_its_call_at_once_and_the_server_goes_on(made: Made) -> None:
    turns: list[Any] = [[call("local__go", how=how)] for how in ("null", "deep", "refused", "lie", "half")]
    lab = made([*turns, "done"], stdio(ODD_ANSWERS), mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    null, deep, refused, lie, half = results(lab, outcome.info.id)
    assert null.startswith("mcp_protocol: local: its answer is not MCP")
    assert deep == null
    assert refused == "mcp_error: local: it answered with error -32000: no such berth"
    assert lie.startswith("mcp_error: ")
    assert half.startswith("half ")


async def test_a_server_that_refuses_to_begin_is_said_to(made: Made) -> None:
    body = """
for line in sys.stdin:
    say(id=json.loads(line)["id"], error={"code": -32000, "message": "not today"})
"""
    lab = made(["done"], stdio(body), mcp=[STDIO])
    outcome = await lab.run("clerk")
    assert "mcp_error: it answered with error -32000: not today" in notices(lab, outcome.info.id)[0]


@pytest.mark.usefixtures("impatient")
async def test_a_call_that_hangs_ends_typed_and_the_next_one_works(made: Made) -> None:
    body = """
def go(name, args):
    if not os.path.exists("/work/once"):
        open("/work/once", "w").close()
        time.sleep(1.5)
    return text("went")
serve([tool("go")], go)
"""
    lab = made(
        [[call("local__go")], [call("local__go")], [call("local__go")], "done"],
        stdio(body),
        mcp=[STDIO],
        policy=ALLOWED,
    )
    outcome = await lab.run("clerk")
    said = results(lab, outcome.info.id)
    assert said[0].startswith("mcp_timeout: local: it did not answer within 1 s")
    assert "went" in said


async def test_a_server_that_dies_in_a_call_is_started_again_for_the_next_one(made: Made) -> None:
    body = """
def go(name, args):
    if args.get("die"):
        os._exit(1)
    return text("went")
serve([tool("go", inputSchema={"type": "object"})], go)
"""
    lab = made([[call("local__go", die=True)], [call("local__go")], "done"], stdio(body), mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    died, went = results(lab, outcome.info.id)
    assert died.startswith("mcp_unavailable: local: it ended; whether it did what was asked is unknown")
    assert went == "went"


async def test_a_server_cannot_change_the_bundle_it_runs_from_and_its_home_stays(made: Made) -> None:
    body = """
def go(name, args):
    home = os.path.expanduser("~/count")
    with open(home, "a") as file:
        file.write("x")
    try:
        open("skills/local/server.py", "a")
    except OSError as error:
        return text(f"{error.strerror}, {os.path.getsize(home)}")
    return text("changed")
serve([tool("go")], go)
"""
    lab = made([[call("local__go")], "done", [call("local__go")], "done"], stdio(body), mcp=[STDIO], policy=ALLOWED)
    outcome = await lab.run("clerk")
    await lab.answer(outcome.info.id, "Again.")
    assert results(lab, outcome.info.id) == ["Read-only file system, 1", "Read-only file system, 2"]


async def test_no_server_outlives_its_run(made: Made, tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}"
    server = {**STDIO, "args": ["skills/local/server.py", mark]}
    body = "os.system('sleep 300 &')\n" + READS + "serve(tools, lambda n, a: text('went'))"
    lab = made([[call("local__go")], lambda request: f"{len(running(mark))} run", "done"], stdio(body), mcp=[server])
    outcome = await lab.run("clerk")
    assert outcome.record.output not in (None, "0 run")
    assert running(mark) == []


def running(mark: str) -> list[str]:
    """The processes of this machine that have `mark` among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [path.parent.name] if mark.encode() in path.read_bytes().split(b"\0") else []
    return found


async def test_without_a_sandbox_no_server_is_started(made: Made) -> None:
    body = READS + "open('/tmp/artificer-must-not-run', 'w'); serve(tools, None)"
    host: dict[str, Any] = {"sandboxes": OneSandbox(ProcessSandbox)}
    lab = made(["done"], stdio(body), host=host, mcp=[STDIO])
    outcome = await lab.run("clerk")
    assert "it would run without a sandbox" in notices(lab, outcome.info.id)[-1]
