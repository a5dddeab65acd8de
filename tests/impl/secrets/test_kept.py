"""The key store: bound values, its index, and what each kind of keyring makes of it."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from core import SecretsError
from impl.secrets import open_secrets, system
from impl.store.sqlite import SqliteStore, utc_now
from tests.harness.keyrings import (
    ForgetfulKeyring,
    HangingKeyring,
    LockedKeyring,
    MemoryKeyring,
    PlaintextKeyring,
    system_keyring,
)
from tests.impl.secrets.conftest import Open

VALUE = "s3cret-canary-value-0451"


@pytest.fixture(params=["memory", "passphrase"])
def kept(request: pytest.FixtureRequest, opened: Open) -> Open:
    """Both places a value may be kept in."""
    request.getfixturevalue(request.param)
    return opened


# --- what both do --------------------------------------------------------------------------------------


def test_a_value_comes_back_for_exactly_its_binding(kept: Open) -> None:
    kept().put("clerk", "token", "b1", VALUE)
    assert kept().take("clerk", "token", "b1") == VALUE
    assert kept().has("clerk", "token", "b1")
    for other in [("clerk", "token", "b2"), ("clerk", "other", "b1"), ("clark", "token", "b1")]:
        assert not kept().has(*other)
        assert kept().take(*other) is None


def test_a_value_put_again_takes_the_place_of_the_first(kept: Open) -> None:
    secrets = kept()
    secrets.put("clerk", "token", "b1", VALUE)
    assert secrets.take("clerk", "token", "b1") == VALUE
    kept().put("clerk", "token", "b1", "another-value-entirely")
    assert secrets.take("clerk", "token", "b1") == "another-value-entirely"
    assert len(secrets.list()) == 1


def test_values_of_two_bindings_stand_side_by_side_and_go_together(kept: Open) -> None:
    secrets = kept()
    secrets.put("clerk", "token", "b1", VALUE)
    secrets.put("clerk", "token", "b2", "the-other-hosts-value")
    secrets.put("clerk", "other", "b1", "quite-another-value")
    assert secrets.take("clerk", "token", "b1") == VALUE
    assert secrets.remove("clerk", "token")
    assert [secrets.has("clerk", "token", b) for b in ("b1", "b2")] == [False, False]
    assert secrets.take("clerk", "token", "b1") is None
    assert secrets.take("clerk", "other", "b1") == "quite-another-value"
    assert not secrets.remove("clerk", "token")


def test_the_list_says_everything_but_the_value(kept: Open) -> None:
    kept().put("clerk", "token", "b1", VALUE, hosts=("api.example.com",), injection="header X-Key: ***")
    (row,) = kept().list()
    assert (row.agent, row.name, row.binding) == ("clerk", "token", "b1")
    assert (row.hosts, row.injection) == (("api.example.com",), "header X-Key: ***")
    assert row.at.endswith("Z")
    assert VALUE not in repr(row)


def test_short_values_are_refused_without_being_quoted(kept: Open) -> None:
    with pytest.raises(SecretsError) as caught:
        kept().put("clerk", "token", "b1", "shorty7")
    assert caught.value.code == "too_short"
    assert "shorty7" not in f"{caught.value} {caught.value.hint}"
    assert kept().list() == []


def test_no_file_of_the_home_holds_the_value(kept: Open, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = kept()
    secrets.put("clerk", "token", "b1", VALUE)
    assert secrets.take("clerk", "token", "b1") == VALUE
    for path in home.rglob("*"):
        assert not path.is_file() or VALUE.encode() not in path.read_bytes(), path
    assert VALUE not in caplog.text
    assert VALUE not in repr(secrets)


@pytest.mark.usefixtures("memory")
def test_homes_that_share_a_keyring_keep_their_values_apart(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / name) for name in ("a", "b")]
    first, second = (open_secrets(store.home, store, utc_now) for store in stores)
    first.put("clerk", "token", "b1", VALUE)
    second.put("clerk", "token", "b1", "of-the-second-home")
    assert first.take("clerk", "token", "b1") == VALUE
    for store in stores:
        store.close()


# --- keyrings ------------------------------------------------------------------------------------------


def test_where_there_is_a_keyring_no_file_is_made(opened: Open, memory: MemoryKeyring, home: Path) -> None:
    opened().put("clerk", "token", "b1", VALUE)
    assert list(memory.kept.values()) == [VALUE]
    assert not (home / "secrets.enc").exists()
    assert opened().passphrase() == "none"


def test_a_value_taken_twice_asks_the_keyring_once(opened: Open, memory: MemoryKeyring) -> None:
    opened().put("clerk", "token", "b1", VALUE)
    secrets = opened()
    secrets.take("clerk", "token", "b1")
    asked = memory.asked
    assert secrets.take("clerk", "token", "b1") == VALUE
    assert memory.asked == asked


def test_a_value_that_left_the_keyring_is_set_no_more(opened: Open, memory: MemoryKeyring) -> None:
    opened().put("clerk", "token", "b1", VALUE)
    memory.kept.clear()
    secrets = opened()
    assert secrets.take("clerk", "token", "b1") is None
    assert not secrets.has("clerk", "token", "b1")


@pytest.mark.parametrize("backend", [LockedKeyring, ForgetfulKeyring])
def test_a_keyring_that_does_not_keep_a_value_is_an_error_that_does_not_quote_it(
    opened: Open, backend: type[MemoryKeyring]
) -> None:
    with system_keyring(backend()), pytest.raises(SecretsError) as caught:
        opened().put("clerk", "token", "b1", VALUE)
    assert caught.value.code == "keyring"
    assert VALUE not in "".join(traceback.format_exception(caught.value))
    assert opened().list() == []


def test_a_keyring_that_hangs_is_an_error(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "ANSWER_S", 0.05)
    backend = HangingKeyring()
    with system_keyring(backend), pytest.raises(SecretsError, match="did not answer"):
        opened().put("clerk", "token", "b1", VALUE)
    backend.release.set()


@pytest.mark.usefixtures("passphrase")
def test_a_keyring_that_writes_in_clear_is_not_used(opened: Open, home: Path) -> None:
    backend = PlaintextKeyring()
    with system_keyring(backend):
        opened().put("clerk", "token", "b1", VALUE)
    assert backend.kept == {}
    assert (home / "secrets.enc").exists()


@pytest.mark.usefixtures("passphrase")
def test_a_value_set_again_where_a_keyring_is_leaves_the_file(opened: Open, home: Path) -> None:
    opened().put("clerk", "token", "b1", VALUE)
    with system_keyring(MemoryKeyring()):
        secrets = opened()
        secrets.put("clerk", "token", "b1", "now-in-the-keyring")
        assert secrets.take("clerk", "token", "b1") == "now-in-the-keyring"
    assert not (home / "secrets.enc").exists()


@pytest.mark.usefixtures("passphrase")
def test_a_value_in_a_keyring_that_is_out_of_reach_is_set_and_cannot_be_taken(opened: Open) -> None:
    with system_keyring(MemoryKeyring()):
        opened().put("clerk", "token", "b1", VALUE)
    assert opened().has("clerk", "token", "b1")
    with pytest.raises(SecretsError, match="cannot be reached from here") as caught:
        opened().take("clerk", "token", "b1")
    assert caught.value.code == "keyring"


# --- processes and start-up ----------------------------------------------------------------------------


def test_neither_keyring_nor_encryption_loads_before_a_value_is_put(home: Path) -> None:
    code = """
import sys
from pathlib import Path
from impl.compose import build_host
host = build_host(Path(sys.argv[1]))
host.secrets.list(), host.secrets.has("a", "b", "c"), host.secrets.take("a", "b", "c")
print([name for name in ("keyring", "cryptography", "secretstorage") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-P", "-c", code, str(home)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- where values are kept, in words -------------------------------------------------------------------


def test_with_a_keyring_it_is_named(opened: Open, memory: MemoryKeyring) -> None:
    status = opened().status()
    assert (status.where, status.fix) == ("keyring", "")
    assert memory.asked == 0


def test_with_a_passphrase_the_file_is_named(opened: Open, passphrase: str) -> None:
    status = opened().status()
    assert (status.where, "ARTIFICER_PASSPHRASE" in status.message, status.fix) == ("file", True, "")


def test_a_wrong_passphrase_is_a_refusal(opened: Open, passphrase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened().put("clerk", "token", "b1", VALUE)
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", "wrong horse battery")
    status = opened().status()
    assert (status.where, "not the passphrase" in status.message) == ("refused", True)
    assert status.fix.endswith("export ARTIFICER_PASSPHRASE")


def test_a_damaged_file_is_a_refusal_with_what_moves_it_away(opened: Open, passphrase: str, home: Path) -> None:
    (home / "secrets.enc").write_text("{}")
    status = opened().status()
    assert (status.where, status.fix) == ("refused", f"mv '{home}/secrets.enc' '{home}/secrets.enc.damaged'")


def test_values_in_a_keyring_that_is_gone_are_a_refusal(
    opened: Open, memory: MemoryKeyring, passphrase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with system_keyring(memory):
        opened().put("clerk", "token", "b1", VALUE)
    status = opened().status()
    assert (status.where, "cannot be reached" in status.message) == ("refused", True)
    assert status.fix == "artificer credentials set AGENT NAME"
