"""The encrypted file: passphrases, damage, crashes, and several processes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from core import SecretsError
from impl.secrets.sealed import SealedFile
from tests.harness.keyrings import NONE
from tests.impl.secrets.conftest import Open

VALUE = "s3cret-canary-value-0451"
pytestmark = pytest.mark.usefixtures("passphrase")


@pytest.fixture
def file(home: Path) -> Path:
    home.mkdir(exist_ok=True)
    return home / "secrets.enc"


def code_of(caught: pytest.ExceptionInfo[SecretsError]) -> str:
    assert caught.value.hint
    assert VALUE not in f"{caught.value} {caught.value.hint} {caught.value!r}"
    return caught.value.code


def test_values_are_kept_in_a_file_that_only_its_owner_reads(home: Path, file: Path) -> None:
    SealedFile(home).put("one", VALUE)
    assert SealedFile(home).get("one") == VALUE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert VALUE.encode() not in file.read_bytes()
    assert sorted(path.name for path in home.iterdir() if path.name.startswith((".", "secrets"))) == [
        "secrets.enc",
        "secrets.lock",
    ]


def test_the_same_value_twice_looks_different(home: Path, file: Path) -> None:
    sealed = SealedFile(home)
    sealed.put("one", VALUE)
    sealed.put("two", VALUE)
    entries = json.loads(file.read_text())["entries"]
    assert entries["one"]["data"] != entries["two"]["data"]


def test_a_wrong_passphrase_changes_nothing(home: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SealedFile(home).put("one", VALUE)
    before = file.read_bytes()
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", "wrong horse battery")
    sealed = SealedFile(home)
    for act in (lambda: sealed.put("two", VALUE), lambda: sealed.get("one"), lambda: sealed.unlock("wrong again")):
        with pytest.raises(SecretsError) as caught:
            act()
        assert code_of(caught) == "wrong_passphrase"
    assert file.read_bytes() == before


def test_the_right_passphrase_given_later_opens_it(home: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SealedFile(home).put("one", VALUE)
    monkeypatch.delenv("ARTIFICER_PASSPHRASE")
    sealed = SealedFile(home)
    with pytest.raises(SecretsError) as caught:
        sealed.get("one")
    assert code_of(caught) == "passphrase_needed"
    sealed.unlock("correct horse battery")
    assert sealed.get("one") == VALUE


def test_without_keyring_or_passphrase_a_value_is_refused_with_the_next_step(
    opened: Open, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARTIFICER_PASSPHRASE")
    secrets = opened()
    assert secrets.passphrase() == "new"
    with pytest.raises(SecretsError) as caught:
        secrets.put("clerk", "token", "b1", VALUE)
    assert code_of(caught) == "passphrase_needed"
    assert "ARTIFICER_PASSPHRASE" in caught.value.hint
    assert not file.exists()


def test_what_is_set_is_known_and_removed_without_the_passphrase(
    opened: Open, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened().put("clerk", "token", "b1", VALUE)
    monkeypatch.delenv("ARTIFICER_PASSPHRASE")
    secrets = opened()
    assert (secrets.passphrase("clerk"), secrets.passphrase("other")) == ("needed", "none")
    assert secrets.has("clerk", "token", "b1")
    assert secrets.remove("clerk", "token")
    assert secrets.passphrase() == "new"  # the file went with its last value
    assert not file.exists()


def test_a_new_passphrase_is_long(home: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", "short")
    with pytest.raises(SecretsError) as caught:
        SealedFile(home).put("one", VALUE)
    assert code_of(caught) == "wrong_passphrase"
    assert not file.exists()


def test_an_entry_moved_to_another_name_does_not_open(home: Path, file: Path) -> None:
    sealed = SealedFile(home)
    sealed.put("clerk/token/b1", VALUE)
    data = json.loads(file.read_text())
    data["entries"]["clerk/token/b2"] = data["entries"]["clerk/token/b1"]
    file.write_text(json.dumps(data))
    with pytest.raises(SecretsError) as caught:
        sealed.get("clerk/token/b2")
    assert code_of(caught) == "damaged"
    assert sealed.get("clerk/token/b1") == VALUE


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff", b"[]", b"{}", b'{"artificer_secrets": 2}', b"[" * 100_000],
)
def test_a_damaged_file_is_said_to_be_so_and_left_alone(home: Path, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(SecretsError) as caught:
        SealedFile(home).put("one", VALUE)
    assert code_of(caught) == "damaged"
    assert file.read_bytes() == content
    assert not SealedFile(home).has("one")


@pytest.mark.parametrize("cost", [{"n": 2**40}, {"n": 3}, {"n": 0}, {"r": 10**6}, {"p": 10**6}])
def test_a_file_that_asks_for_endless_work_is_refused(home: Path, file: Path, cost: dict[str, int]) -> None:
    SealedFile(home).put("one", VALUE)
    data = json.loads(file.read_text())
    data["kdf"].update(cost)
    file.write_text(json.dumps(data))
    with pytest.raises(SecretsError) as caught:
        SealedFile(home).get("one")
    assert code_of(caught) == "damaged"


def test_a_home_that_cannot_be_written_keeps_what_it_has(
    home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SealedFile(home).put("one", VALUE)
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SecretsError) as caught:
        SealedFile(home).put("two", VALUE)
    assert code_of(caught) == "unwritable"
    assert file.read_bytes() == before
    assert [path.name for path in home.iterdir() if path.name.startswith(".")] == []


def test_processes_that_put_at_once_lose_no_value(opened: Open, home: Path) -> None:
    code = """
import sys
from pathlib import Path
from impl.compose import build_host
from impl.secrets import sealed
sealed._N = 2
secrets = build_host(Path(sys.argv[1])).secrets
for n in range(10):
    secrets.put("clerk", f"{sys.argv[2]}{n}", "b1", f"value-{sys.argv[2]}-{n}")
"""
    environment = {**os.environ, "PYTHON_KEYRING_BACKEND": NONE}
    running = [
        subprocess.Popen([sys.executable, "-P", "-c", code, str(home), name], env=environment) for name in ("a", "b")
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    secrets = opened()
    assert len(secrets.list()) == 20
    for name in ("a", "b"):
        assert [secrets.take("clerk", f"{name}{n}", "b1") for n in range(10)] == [
            f"value-{name}-{n}" for n in range(10)
        ]
