"""What a value is bound to, and what a session waits for that lacks one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import (
    Declaration,
    SecretsError,
    Stop,
    ToolOutput,
    binding_id,
    check_value,
    credential_rows,
    declared_by,
    find_declaration,
    has_values,
    ref_for,
    set_credential,
    waiting_for,
)
from core.effects.requests import Binding
from impl.secrets import open_secrets
from impl.store.sqlite import SqliteStore, utc_now
from tests.harness.eval_driver import EvalDriver, Stage, tool_with_context
from tests.harness.keyrings import MemoryKeyring, system_keyring
from tests.harness.scripted import call

TOKEN = Declaration("token", ("api.example.com",), header="Authorization", format="Bearer {secret}")
VALUE = "s3cret-canary-value-0451"


def agent_yaml(name: str, host: str) -> str:
    return (
        f"schema: artificer/v1\nname: {name}\npersona: persona.md\n"
        f"credentials:\n  - name: token\n    hosts: [{host}]\n    header: X-Key\n"
    )


class Shop:
    """A store with agents in it, and their values in a keyring in memory."""

    def __init__(self, home: Path) -> None:
        self.store = SqliteStore(home / "home")
        self.secrets = open_secrets(home / "home", self.store, utc_now)
        self._scratch = home

    def revision(self, agent: str, host: str) -> str:
        """Save a revision whose `token` goes to `host`; its digest."""
        from core import save_revision

        directory = self._scratch / f"{agent}-{host}"
        directory.mkdir()
        (directory / "agent.yaml").write_text(agent_yaml(agent, host))
        (directory / "persona.md").write_text("You are.")
        saved = save_revision(self.store, directory, by="person", message="", now=utc_now)
        assert saved.revision is not None, saved.problems
        return saved.revision.digest

    def live(self, agent: str, digest: str) -> None:
        """Make it live."""
        from core import ChannelEntry

        self.store.move_channel(ChannelEntry(agent, "live", digest, None, utc_now(), "test"), None)


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    with system_keyring(MemoryKeyring()):
        shop = Shop(tmp_path)
        yield shop
        shop.store.close()


# --- bindings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"hosts": ("api.example.com", "evil.example.com")},
        {"hosts": ("other.example.com",)},
        {"header": "X-Key"},
        {"header": None, "query": "Authorization"},
        {"header": None, "basic_user": "Authorization"},
        {"format": "{secret}"},
    ],
)
def test_a_change_of_name_hosts_or_injection_is_another_binding(change: dict[str, Any]) -> None:
    assert replace(TOKEN, **change).binding_id("clerk") != TOKEN.binding_id("clerk")


def test_another_agent_is_another_binding() -> None:
    assert TOKEN.binding_id("clerk") != TOKEN.binding_id("clark")


def test_what_means_the_same_to_http_is_the_same_binding() -> None:
    one = binding_id("clerk", "token", ["b.example.com", "a.example.com"], "authorization")
    assert one == binding_id("clerk", "token", ["A.example.com", "b.example.com"], "Authorization")
    assert one != binding_id("clerk", "token", ["b.example.com", "a.example.com"], None, "authorization")
    assert replace(TOKEN, description="what it is for").binding_id("clerk") == TOKEN.binding_id("clerk")


def test_the_id_of_a_binding_never_changes_or_every_value_would_be_asked_for_again() -> None:
    assert TOKEN.binding_id("clerk") == "ac446174eacc6df91a82ae3e12ec7e4b"


def test_a_declaration_is_what_the_policy_takes() -> None:
    assert TOKEN.to_binding() == Binding(("api.example.com",), header="Authorization", format="Bearer {secret}")


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        (TOKEN, "header Authorization: Bearer ***"),
        (Declaration("token", ("a.b",), query="key"), "query key=***"),
        (Declaration("token", ("a.b",), basic_user="bob"), "basic bob:***"),
    ],
)
def test_how_a_value_is_sent_is_said_without_it(declaration: Declaration, words: str) -> None:
    assert declaration.injection == words


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("seven77", "too_short"),
        ("x" * 16_385, "too_long"),
        ("two\nlines of it", "not_a_line"),
        ("größerer", "not_a_line"),
        ("pasted-with-a-blank ", "not_a_line"),
    ],
)
def test_a_value_that_cannot_be_sent_is_refused_without_being_quoted(value: str, code: str) -> None:
    with pytest.raises(SecretsError) as caught:
        check_value(value, TOKEN)
    assert caught.value.code == code
    assert value not in f"{caught.value} {caught.value.hint}"


def test_what_is_no_text_is_refused_however_it_would_be_sent() -> None:
    for way in (TOKEN, Declaration("token", ("a.b",), query="key"), Declaration("token", ("a.b",), basic_user="bob")):
        with pytest.raises(SecretsError, match="UTF-8"):
            check_value(b"\xff\xfe not UTF-8".decode("utf-8", "surrogateescape"), way)


# --- declarations and values ---------------------------------------------------------------------------


def test_a_value_is_for_what_the_latest_revision_declares(shop: Shop) -> None:
    first = shop.revision("clerk", "one.example.com")
    set_credential(shop.store, shop.secrets, "clerk", "token", VALUE)
    second = shop.revision("clerk", "two.example.com")
    has = [has_values(shop.secrets, "clerk", declared_by(shop.store, "clerk", d)) for d in (first, second)]
    assert has == [{"token": True}, {"token": False}]
    assert set_credential(shop.store, shop.secrets, "clerk", "token", VALUE).digest == second


def test_what_only_the_live_revision_declares_is_found_there(shop: Shop) -> None:
    live = shop.revision("clerk", "one.example.com")
    shop.live("clerk", live)
    bare = shop._scratch / "bare"
    bare.mkdir()
    (bare / "agent.yaml").write_text("schema: artificer/v1\nname: clerk\npersona: persona.md\n")
    (bare / "persona.md").write_text("You are.")
    from core import save_revision

    save_revision(shop.store, bare, by="person", message="", now=utc_now)
    found = find_declaration(shop.store, "clerk", "token")
    assert (found.digest, found.reads) == (live, "live")


def test_a_credential_that_nobody_declares_is_refused_naming_those_there_are(shop: Shop) -> None:
    shop.revision("clerk", "one.example.com")
    with pytest.raises(SecretsError, match="It declares: token") as caught:
        set_credential(shop.store, shop.secrets, "clerk", "tokn", VALUE)
    assert caught.value.code == "not_declared"
    assert shop.secrets.list() == []


def test_rows_say_what_is_declared_and_what_is_set_and_what_is_stale(shop: Shop) -> None:
    first = shop.revision("clerk", "one.example.com")
    shop.live("clerk", first)
    set_credential(shop.store, shop.secrets, "clerk", "token", VALUE)
    shop.revision("clerk", "two.example.com")
    rows = {row["hosts"][0]: (row["set"], row["declared_by"]) for row in credential_rows(shop.store, shop.secrets)}
    assert rows == {"one.example.com": (True, ["live"]), "two.example.com": (False, ["latest"])}
    shop.revision("clerk", "three.example.com")
    set_credential(shop.store, shop.secrets, "clerk", "token", VALUE, "latest")
    shop.revision("clerk", "four.example.com")
    assert {"three.example.com": []}.items() <= {
        row["hosts"][0]: row["declared_by"] for row in credential_rows(shop.store, shop.secrets) if row["set"]
    }.items()


def test_a_revision_is_named_where_the_agents_name_would_set_another_ones_value(shop: Shop) -> None:
    first = shop.revision("clerk", "one.example.com")
    theirs = declared_by(shop.store, "clerk", first)["token"]
    assert ref_for(shop.store, "clerk", theirs, first) is None
    shop.revision("clerk", "two.example.com")
    ref = ref_for(shop.store, "clerk", theirs, first)
    assert ref == first.removeprefix("sha256:")[:12]
    assert find_declaration(shop.store, "clerk", "token", ref).declaration == theirs


# --- waiting -------------------------------------------------------------------------------------------


def needing(values: list[str]) -> EvalDriver:
    """An agent whose tool `fetch` works once a value was put into `values`."""

    async def fetch(args: dict[str, Any], context: Any) -> ToolOutput:
        if not values:
            waiting = waiting_for(context.call, "clerk", (TOKEN,))
            return ToolOutput("", ok=False, stop=Stop.NEEDS_CREDENTIALS, waiting=waiting)
        return ToolOutput("fetched")

    return EvalDriver(tools=[tool_with_context("fetch", fetch)])


async def test_a_call_without_its_value_waits_and_says_what_where_and_how(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[fetch := call("fetch")]], needing([]))
    outcome = await stage.run("Fetch it", agent="clerk")
    waiting = outcome.record.waiting
    assert outcome.stop is Stop.NEEDS_CREDENTIALS
    assert waiting is not None
    assert (waiting.kind, waiting.id, waiting.names) == ("credentials", fetch.id, ("token",))
    assert "token is sent only to api.example.com, as header Authorization: Bearer ***." in waiting.message
    assert waiting.detail["set"] == ["artificer credentials set clerk token"]
    assert stage.results() == {}


@pytest.mark.parametrize("going_on", [{"answer": "it is set"}, {}])
async def test_the_waiting_call_runs_again_once_the_value_is_set(tmp_path: Path, going_on: dict[str, str]) -> None:
    values: list[str] = []
    stage = Stage(tmp_path, [[fetch := call("fetch")], "Here it is."], needing(values))
    await stage.run("Fetch it", agent="clerk")
    assert (await stage.run(**going_on)).stop is Stop.NEEDS_CREDENTIALS  # still none
    values.append(VALUE)
    outcome = await stage.run(**going_on)
    assert (outcome.stop, outcome.record.output) == (Stop.COMPLETED, "Here it is.")
    assert stage.results() == {fetch.id: "fetched"}


async def test_another_process_runs_the_waiting_call_again(tmp_path: Path) -> None:
    values: list[str] = []
    stage = Stage(tmp_path, [[fetch := call("fetch")]], needing(values))
    await stage.run("Fetch it", agent="clerk")
    values.append(VALUE)
    again = stage.again(["Here it is."])
    assert (await again.run()).stop is Stop.COMPLETED
    assert again.results() == {fetch.id: "fetched"}


async def test_end_ends_a_session_that_waits_for_a_value(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [[call("fetch")]], needing([]))
    await stage.run("Fetch it", agent="clerk")
    assert (await stage.answer("end")).stop is Stop.CANCELLED


def test_a_revision_that_must_be_named_is_named_in_the_next_step() -> None:
    waiting = waiting_for("c1", "clerk", (TOKEN,), ref="0123456789ab", why="The keyring is locked.")
    assert waiting.detail["set"] == ["artificer credentials set clerk@0123456789ab token"]
    assert waiting.message.startswith("The keyring is locked.\n")
