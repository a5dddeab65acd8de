"""From an API's document to a published agent whose tools call the API: the key goes there and nowhere else."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keyring.backends.null import Keyring as NullKeyring

from core import ModelRequest, ToolResult, read_manifest, read_tool, register_provider
from tests.harness.canary import files_with, processes_with, traces
from tests.harness.commands import Ran, artificer, environment
from tests.harness.home import INPUTS
from tests.harness.keyrings import MemoryKeyring, system_keyring
from tests.harness.scripted import ScriptedProvider, call
from tests.harness.standin import StandIn
from tests.harness.tls import HANG, Asked, Reply, answer
from tests.harness.wheels import make_wheel

KEY = "cnry-K3y+/with=odd&chars-81c2"
TOKEN = "cnry-T0ken-for-writing-77aa02"


class World:
    """A home, what thinks in it, and everything that its commands printed."""

    def __init__(self, home: Path, model: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.model = model
        self.printed: list[str] = []
        self._monkeypatch = monkeypatch

    def run(self, code: int, *words: str | Path, stdin: str | None = None) -> Ran:
        """Run a command that must exit with `code`."""
        if stdin is not None:
            self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
        ran = artificer(*words)
        self.printed += [ran.out, ran.err]
        assert ran.code == code, (words, ran)
        return ran

    def build(self, source: Path) -> str:
        """Build and publish all of an API; the agent's name."""
        ran = self.run(0, "build", source, "--answer", "all", "--publish", "--provider", "offline")
        assert (ran.result["stop"], ran.result["channel"]) == ("completed", "live")
        return str(ran.result["agent"])

    def play(self, *turns: Any) -> None:
        """What the model answers from now on."""
        self.model.script = [turn if isinstance(turn, str | list) or callable(turn) else [turn] for turn in turns]

    def reach(self, service: StandIn) -> None:
        """Let the host's transport reach a stand-in from now on."""
        self._monkeypatch.setattr("impl.compose._Transport", service.transport)

    def is_clean_of(self, *secrets: str) -> None:
        """Nothing that was printed, stored or started holds any of them; nor anything in other words."""
        for secret in secrets:
            assert files_with(secret, self.home.parent) == []
            assert traces(secret, "\n".join(self.printed).encode()) == []
            assert processes_with(secret) == []


@pytest.fixture
def world(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A fresh one, with a system keyring in memory."""
    provider = ScriptedProvider()
    register_provider("scripted", lambda: provider)
    monkeypatch.setenv("ARTIFICER_PROVIDER", "scripted")
    monkeypatch.setenv("ARTIFICER_SANDBOX", "bubblewrap")
    monkeypatch.setattr("impl.providers._instances", {})
    with system_keyring(MemoryKeyring()):
        yield World(home, provider, monkeypatch)


def echo(asked: Asked) -> Reply:
    """A server that says back all it was told, in several ways."""
    sent = [*asked.values("api_key"), *asked.values("authorization"), asked.target]
    body = {"sent": sent, "base64": [base64.b64encode(text.encode()).decode() for text in sent], "name": "Rex"}
    headers = [f"X-Echo: {sent[0]}", "Content-Type: application/json", f"Set-Cookie: k={sent[0]}"]
    return answer(json.dumps(body).encode(), headers=headers)


def results(ran: Ran) -> list[dict[str, Any]]:
    """The tool results of a run."""
    return [event["data"] for event in ran.events if event["kind"] == "tool_result"]


def shown(request: ModelRequest) -> str:
    """The newest tool result a model was shown."""
    return [b.output for m in request.messages for b in m.blocks if isinstance(b, ToolResult)][-1]


# --- from a document to calls ----------------------------------------------------------------------------


@pytest.fixture
def petstore() -> Path:
    """The pet store's document, from the folder that ARTIFICER_TEST_INPUTS names."""
    folder = os.environ.get("ARTIFICER_TEST_INPUTS")
    if not folder or not Path(folder, "openapi-petstore").is_dir():
        pytest.skip("ARTIFICER_TEST_INPUTS names no folder with openapi-petstore")
    return Path(folder, "openapi-petstore")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_pet_store_becomes_an_agent_whose_keys_go_to_the_pet_store_alone(world: World, petstore: Path) -> None:
    agent = world.build(petstore)
    seen: list[list[str]] = []

    def reply(asked: Asked) -> Reply:
        seen.append([*processes_with(KEY), *processes_with(TOKEN)])
        return echo(asked)

    with StandIn("petstore3.swagger.io", reply) as store:
        world.reach(store)
        world.play(call("get_pet_by_id", petId=7), lambda request: f"It said: {shown(request)}")
        session = world.run(11, "run", agent, "Who is pet 7?").result["session"]
        assert store.asked == []
        world.run(0, "credentials", "set", agent, "api_key", stdin=f"{KEY}\n")
        ran = world.run(0, "resume", session)
        assert store.asked[0].values("api_key") == [KEY]
        assert store.asked[0].target == "/api/v3/pet/7"
        assert "Rex" in ran.result["output"]
        assert "[redacted:api_key]" in ran.result["output"]

        pet = {"name": "Bo", "photoUrls": []}
        world.play(call("add_pet", body=pet), "Added.")
        session = world.run(12, "run", agent, "Add Bo").result["session"]
        assert world.run(11, "answer", session, "once").result["waiting"]["names"] == ["petstore_auth"]
        world.run(0, "credentials", "set", agent, "petstore_auth", stdin=TOKEN)
        assert results(world.run(0, "resume", session))[0]["ok"] is True
        assert store.asked[1].values("authorization") == [f"Bearer {TOKEN}"]
        assert store.asked[1].values("api_key") == []
        assert json.loads(store.asked[1].body) == pet
        assert len(store.asked) == 2
        every_tool(world, agent, store)
    assert len(seen) == 21
    assert not any(seen)
    world.run(0, "transcript", session)
    world.printed += [(words := artificer("transcript", session, json=False)).out, words.err]
    world.run(0, "sessions")
    world.run(0, "credentials", "list")
    assert files_with("Who is pet 7?", world.home)  # it does find what is there
    assert traces("Rex", "\n".join(world.printed).encode())
    world.is_clean_of(KEY, TOKEN)


def every_tool(world: World, agent: str, store: StandIn) -> None:
    """Call each of the pet store's tools once; a person says yes to those that write."""
    given = {"petId": 7, "orderId": 3, "username": "theUser"}
    bundle = next((world.home / "laid-out").iterdir())
    tools = {name: read_tool(bundle / "tools" / name) for name in read_manifest(bundle).tools}
    calls = []
    for name, tool in tools.items():
        required = (tool.input_schema or {}).get("required", ())
        calls.append(call(name, **(tool.examples[0].input if tool.examples else {key: given[key] for key in required})))
    world.play(calls, "All done.")
    ran = artificer("run", agent, "Try everything")
    rows, asked = results(ran), 0
    while ran.result["stop"] == "needs_approval":
        asked += 1
        ran = artificer("answer", ran.result["session"], "once")
        rows += results(ran)
        world.printed += [ran.out, ran.err]
    assert (ran.result["stop"], asked) == ("completed", 11)
    assert [row["ok"] for row in rows] == [True] * 19
    kinds = {"api_key": 0, "petstore_auth": 0, None: 0}
    for sent, tool in zip(store.asked[2:], tools.values(), strict=True):
        name = tool.credentials[0] if tool.credentials else None
        kinds[name] += 1
        assert sent.values("api_key") == ([KEY] if name == "api_key" else [])
        assert sent.values("authorization") == ([f"Bearer {TOKEN}"] if name == "petstore_auth" else [])
    assert kinds == {"api_key": 2, "petstore_auth": 7, None: 10}


@pytest.fixture
def harbour(world: World) -> str:
    """The agent of the kept document, published, with its key set."""
    agent = world.build(INPUTS / "openapi")
    world.run(0, "credentials", "set", agent, "harbour_key", stdin=KEY)
    return agent


def test_a_key_in_the_query_is_sent_and_seen_nowhere(world: World, harbour: str) -> None:
    with StandIn("api.harbour.example", echo) as service:
        world.reach(service)
        world.play(call("get_boat", boatId=7), call("list_boats", limit=2), "Seen.")
        ran = world.run(0, "run", harbour, "Which boat is 7?")
    first, second = service.asked
    assert first.target == "/v2/boats/7?key=cnry-K3y%2B%2Fwith%3Dodd%26chars-81c2"
    assert "key=" not in second.target
    assert [row["ok"] for row in results(ran)] == [True, True]
    assert "[redacted:harbour_key]" in results(ran)[0]["output"]
    world.is_clean_of(KEY)


def test_without_a_system_keyring_the_value_lies_encrypted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", "a passphrase of the test's")
    with system_keyring(NullKeyring()):
        agent = world.build(INPUTS / "openapi")
        world.run(0, "credentials", "set", agent, "harbour_key", stdin=KEY)
        with StandIn("api.harbour.example", echo) as service:
            world.reach(service)
            world.play(call("get_boat", boatId=7), "Seen.")
            world.run(0, "run", agent, "Which boat is 7?")
        assert "key=cnry" in service.asked[0].target
    world.is_clean_of(KEY)


@pytest.mark.docker
@pytest.mark.timeout(120)
def test_it_is_the_same_in_containers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTIFICER_SANDBOX", "docker")
    monkeypatch.setenv("ARTIFICER_SANDBOX_IMAGE", "local")
    agent = world.build(INPUTS / "openapi")
    world.run(0, "credentials", "set", agent, "harbour_key", stdin=KEY)
    with StandIn("api.harbour.example", echo) as service:
        world.reach(service)
        world.play(call("get_boat", boatId=7), "Seen.")
        (result,) = results(world.run(0, "run", agent, "Which boat is 7?"))
    assert (result["ok"], len(service.asked)) == (True, 1)
    world.is_clean_of(KEY)


def test_without_isolation_they_run_where_a_person_named_it_so(world: World, harbour: str) -> None:
    with StandIn("api.harbour.example", echo) as service:
        world.reach(service)
        for _ in range(2):
            world.play(call("get_boat", boatId=7), "Seen.")
            (result,) = results(world.run(0, "run", harbour, "Which boat is 7?", "--sandbox", "process"))
            assert result["ok"], result
    assert len(service.asked) == 2
    world.is_clean_of(KEY)


def test_another_binding_asks_for_the_value_again(world: World, harbour: str, tmp_path: Path) -> None:
    edit = tmp_path / "edit"
    world.run(0, "checkout", harbour, edit)
    manifest = (edit / "agent.yaml").read_text()
    for change in (("query: key", "header: X-Key"), ("- api.harbour.example", "- api.harbour.example\n  - b.example")):
        assert change[0] in manifest
        (edit / "agent.yaml").write_text(manifest.replace(*change))
        world.run(0, "save", edit, "--agent", harbour)
        world.run(0, "validate", harbour)
        world.run(0, "publish", harbour)
        world.play(call("get_boat", boatId=7), "Seen.")
        waiting = world.run(11, "run", harbour, "Which boat is 7?").result["waiting"]
        assert (waiting["kind"], waiting["names"]) == ("credentials", ["harbour_key"])


def test_a_whole_run_is_replayed_without_the_network(world: World, harbour: str) -> None:
    with StandIn("api.harbour.example", echo) as service:
        world.reach(service)
        world.play(call("get_boat", boatId=7), "Seen.")
        first = world.run(0, "run", harbour, "Which boat is 7?")
        asked = len(service.asked)
        world.run(0, "credentials", "remove", harbour, "harbour_key")
        world.play(call("get_boat", boatId=7), call("get_boat", boatId=8), "Seen.")
        again = world.run(0, "run", harbour, "Which boat is 7?", "--replay", first.result["session"])
        assert len(service.asked) == asked
    same, missed = results(again)
    assert same["output"] == results(first)[0]["output"]
    assert (missed["ok"], missed["output"].partition(":")[0]) == (False, "replay_miss")


# --- kill -9 in the middle of an effect ------------------------------------------------------------------

DIES = """
import ssl, sys
from impl import compose
from impl.transport.https import HttpsTransport, Loopback
from tests.harness.keyrings import MemoryKeyring, system_keyring
from tests.harness.scripted import ScriptedProvider, call
from tests.harness.standin import loopback
from core import register_provider
from tui.commands import run

port, trusted, agent, tool = sys.argv[1:]
context = ssl.create_default_context(cafile=trusted)
compose._Transport = lambda: HttpsTransport(resolver=loopback, tls_context=context, loopback=Loopback(int(port)))
register_provider("scripted", lambda: ScriptedProvider([[call(tool, name="x")], "never said"]))
with system_keyring(MemoryKeyring()):
    run(["run", agent, "Go", "--json"])
"""

BERTHS = {
    "agent.yaml": "schema: artificer/v1\nname: berths\ntools: [book, look]\n",
    "persona.md": "You book berths.\n",
}
for _name, _method in (("book", "POST"), ("look", "GET")):
    BERTHS |= {
        f"tools/{_name}/tool.yaml": (
            f"name: {_name}\ndescription: It does.\nhosts: [api.example.com]\n"
            "input_schema: {type: object, properties: {name: {type: string}}}\n"
        ),
        f"tools/{_name}/tool.py": (
            "def run(ctx, input):\n"
            '    first = ctx.http.request("GET", "https://api.example.com/free").text\n'
            f'    return [first, ctx.http.request("{_method}", "https://api.example.com/" + input["name"]).text]\n'
        ),
    }


@pytest.mark.parametrize(("tool", "sent", "ending"), [("book", 1, "outcome_unknown"), ("look", 2, "answered")])
def test_after_kill_9_a_read_is_sent_again_and_a_write_never_by_itself(
    world: World, tmp_path: Path, tool: str, sent: int, ending: str
) -> None:
    publish(world, tmp_path / "berths", BERTHS)
    killed = False

    def reply(asked: Asked) -> Reply:
        if asked.target == "/free":
            return answer(b"three")
        return answer(b"answered") if killed else [HANG]

    def heard() -> bool:
        return any(asked.target == "/x" for asked in service.asked)

    with StandIn("api.example.com", reply) as service:
        words = [str(service.port), str(service.trusted_in(tmp_path / "ca.pem")), "berths", tool]
        child = subprocess.Popen(
            [sys.executable, "-c", DIES, *words],
            cwd=Path(__file__).parents[2],
            env=environment(PYTHONPATH=str(Path(__file__).parents[2])),
            stdout=subprocess.DEVNULL,
        )
        while not heard() and child.poll() is None:
            service.changed.wait(0.2)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert heard()
        killed = True
        world.reach(service)
        world.play("I see.")
        (row,) = world.run(0, "sessions").value
        assert row["status"] == "interrupted"
        ran = world.run(0, "resume", row["id"])
    assert [asked.target for asked in service.asked].count("/x") == sent
    assert [asked.target for asked in service.asked].count("/free") == 1
    (result,) = results(ran)
    assert ending in result["output"]
    assert result["ok"] is (ending == "answered")


# --- stopping and going on -------------------------------------------------------------------------------

PARKS = """\
def run(ctx, input):
    first = ctx.http.request("POST", "https://api.example.com/begin").text
    return [first, ctx.http.request("GET", "https://api.example.com/rest", credential="KEY").text]
"""


def publish(world: World, place: Path, files: dict[str, str]) -> str:
    """Publish an agent of these files; its name."""
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    agent = str(world.run(0, "save", place).value["agent"])
    world.run(0, "validate", agent)
    world.run(0, "publish", agent)
    return agent


def test_a_call_that_waited_for_a_credential_does_nothing_twice(world: World, tmp_path: Path) -> None:
    credentials = "credentials:\n  - {name: KEY, hosts: [api.example.com], header: X-Key}\n"
    files = {path: text for path, text in BERTHS.items() if "/look/" not in path}
    files["agent.yaml"] = files["agent.yaml"].replace("[book, look]", "[book]") + credentials
    files["tools/book/tool.yaml"] += "credentials: [KEY]\n"
    files["tools/book/tool.py"] = PARKS
    agent = publish(world, tmp_path / "berths", files)
    with StandIn("api.example.com", lambda asked: answer(asked.target.encode())) as service:
        world.reach(service)
        world.play(call("book", name="x"), "Booked.")
        session = world.run(11, "run", agent, "Book").result["session"]
        assert world.run(11, "resume", session).result["stop"] == "needs_credentials"
        world.run(0, "credentials", "set", agent, "KEY", stdin=TOKEN)
        ran = world.run(0, "resume", session)
    assert [asked.target for asked in service.asked] == ["/begin", "/rest"]
    assert json.loads(results(ran)[0]["output"]) == ["/begin", "/rest"]


def test_what_a_tool_requires_is_there_after_validation_and_never_installed_by_a_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", "tide_tables", "1.2", {"tide_tables.py": "HIGH = 4\n"})
    monkeypatch.setenv("ARTIFICER_PACKAGE_INDEX", str(tmp_path / "wheels"))
    files = {path: text for path, text in BERTHS.items() if "/book/" not in path}
    files["agent.yaml"] = files["agent.yaml"].replace("[book, look]", "[look]")
    files["tools/look/tool.yaml"] += "requirements: [tide-tables]\n"
    files["tools/look/tool.py"] = "import tide_tables\n\n\ndef run(ctx, input):\n    return tide_tables.HIGH\n"
    agent = publish(world, tmp_path / "berths", files)
    world.play(call("look", name="x"), "Four.")
    assert results(world.run(0, "run", agent, "How high?"))[0]["output"] == "4"
    shutil.rmtree(world.home / "environments")
    world.play(call("look", name="x"), "I cannot.")
    (missing,) = results(world.run(0, "run", agent, "How high?"))
    assert (missing["ok"], missing["output"].partition(":")[0]) == (False, "environment_missing")


# --- the Builder registers a tool ------------------------------------------------------------------------

EXAMPLE = """\
examples:
  - input: {name: x}
    effects:
      - request: {method: GET, url: "https://api.example.com/free"}
        response: {body: three}
      - request: {method: GET, url: "https://api.example.com/x"}
        response: {body: yes}
    output: [three, "yes"]
"""


def test_what_was_registered_is_compared_and_never_trusted(world: World) -> None:
    files = {path: text for path, text in BERTHS.items() if "/book/" not in path}
    files["agent.yaml"] = files["agent.yaml"].replace("[book, look]", "[look]")
    files["tools/look/tool.yaml"] += EXAMPLE.replace("body: yes", 'body: "yes"')
    lines = [
        f"mkdir -p agent/{Path(path).parent}; cat > agent/{path} <<'END'\n{text}END" for path, text in files.items()
    ]
    spoil = "sed -i 's/first, ctx/1, ctx/' agent/tools/look/tool.py"
    world.play(
        call("run_sandbox", command="\n".join(lines)),
        call("register_agent_tool", path="agent/tools/look"),
        call("save_agent", path="agent"),
        call("validate_agent"),
        call("run_sandbox", command=spoil),
        call("save_agent", path="agent"),
        call("validate_agent"),
        "It was registered, so it is well.",
    )
    ran = world.run(10, "build", "-m", "An agent for berths")
    told = [json.loads(row["output"]) for row in results(ran) if row["output"].startswith("{")]
    registered, _, validated, _, failed = told
    assert (registered["problems"], registered["examples"]) == ([], ["look example 1: as shown"])
    assert validated["passed"] is True
    assert validated["tools"]["look"] == {"digest": registered["digest"], "registered": True}
    assert failed["passed"] is False
    assert failed["tools"]["look"]["registered"] is False
    assert [problem["code"] for problem in failed["problems"]] == ["example_failed"]
    (check,) = [event["data"] for event in ran.events if event["kind"] == "tool_check"]
    assert (check["tool"], check["digest"], check["registered"]) == ("look", registered["digest"], True)


def test_packages_that_no_tool_has_used_for_long_are_collected(world: World) -> None:
    for name, age in (("old", 40), ("new", 1)):
        place = world.home / "environments" / name / "cpython-311"
        place.mkdir(parents=True)
        (place / "x.py").write_text("1")
        os.utime(place.parent, (time.time() - age * 86_400,) * 2)
    world.run(0, "gc")
    assert [path.name for path in (world.home / "environments").iterdir()] == ["new"]
