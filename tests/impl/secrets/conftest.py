"""Homes whose credential values are kept in a keyring in memory, or in the encrypted file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import keyring.backends.null
import pytest

from core import Secrets
from impl.secrets import open_secrets, sealed
from impl.store.sqlite import SqliteStore, utc_now
from tests.harness.keyrings import MemoryKeyring, system_keyring

Open = Callable[[], Secrets]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(home)
    yield store
    store.close()


@pytest.fixture
def opened(home: Path, store: SqliteStore) -> Open:
    """Open the values of the home anew, as another process would."""
    return lambda: open_secrets(home, store, utc_now)


@pytest.fixture
def memory() -> Iterator[MemoryKeyring]:
    """The system has a keyring."""
    backend = MemoryKeyring()
    with system_keyring(backend):
        yield backend


@pytest.fixture
def passphrase(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The system has no keyring, and the variable gives a passphrase. Deriving its key is made cheap."""
    monkeypatch.setattr(sealed, "_N", 2)
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", "correct horse battery")
    with system_keyring(keyring.backends.null.Keyring()):
        yield "correct horse battery"
