"""System keyrings for tests: one in memory, and ones that fail as real ones do; set for a test, then put back."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import keyring
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

NONE = "keyring.backends.null.Keyring"
"""The name that `PYTHON_KEYRING_BACKEND` takes for no keyring."""


class MemoryKeyring(KeyringBackend):
    """Keeps passwords by (service, user name) in `kept`."""

    priority = 9  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.asked = 0

    def get_password(self, service: str, username: str) -> str | None:
        """The password, or None."""
        self.asked += 1
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        """Keep it."""
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        """Forget it."""
        del self.kept[service, username]


class LockedKeyring(MemoryKeyring):
    """Refuses everything, and quotes what it was given in its error, as badly written ones may."""

    def get_password(self, service: str, username: str) -> str | None:
        """Refuse."""
        raise KeyringLocked(f"locked: {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        """Refuse, quoting it."""
        raise KeyringLocked(f"locked: {username} {password}")


class ForgetfulKeyring(MemoryKeyring):
    """Takes everything and keeps nothing."""

    def set_password(self, service: str, username: str, password: str) -> None:
        """Forget it."""


class HangingKeyring(MemoryKeyring):
    """Never answers, until `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def set_password(self, service: str, username: str, password: str) -> None:
        """Hang."""
        self.release.wait()


class PlaintextKeyring(MemoryKeyring):
    """Looks like the one that writes passwords to a file in clear."""


@contextlib.contextmanager
def system_keyring(backend: KeyringBackend) -> Iterator[KeyringBackend]:
    """Make `backend` the keyring of this process for a while."""
    before = keyring.core._keyring_backend
    keyring.set_keyring(backend)
    try:
        yield backend
    finally:
        keyring.core._keyring_backend = before
