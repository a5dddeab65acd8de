"""The system's keyring, where there is a real one: found and used within bounds, since it may wait for a person."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from core import SecretsError

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE: Final = "artificer"
PROBE_S: Final = 3.0
"""How long the search for a keyring may take; one that is slower is none."""
ANSWER_S: Final = 60.0
"""How long it may take to answer, which is as long as a person may take to unlock it."""

_NOT_REAL: Final = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt")

T = TypeVar("T")


def find_keyring() -> SystemKeyring | None:
    """The keyring of this system; None where there is none, or only one that keeps nothing or hides nothing."""
    found: list[KeyringBackend] = []

    def search() -> None:
        import keyring

        found.extend(backend for backend in _each(keyring.get_keyring()) if _is_real(backend))

    try:
        _bounded(search, PROBE_S)
    except SecretsError:
        return None
    return SystemKeyring(found[0]) if found else None


def _each(backend: Any) -> list[Any]:
    """The backends behind a chain of them, best first, or the one."""
    return list(getattr(backend, "backends", None) or [backend])


def _is_real(backend: Any) -> bool:
    kind = type(backend)
    if kind.__module__.startswith(_NOT_REAL) or "plaintext" in kind.__name__.lower():
        return False
    return bool(backend.priority >= 1)


class SystemKeyring:
    """Values by account name, under the service `artificer`. Everything raises SecretsError `keyring`."""

    def __init__(self, backend: KeyringBackend) -> None:
        self._backend = backend

    @property
    def name(self) -> str:
        """What the keyring calls itself."""
        return str(getattr(self._backend, "name", type(self._backend).__name__))

    def put(self, account: str, value: str) -> None:
        """Keep a value, and see that it really is kept."""

        def put() -> bool:
            self._backend.set_password(SERVICE, account, value)
            return self._backend.get_password(SERVICE, account) == value

        if not _bounded(put, ANSWER_S):
            raise _failed("took the value and did not keep it")

    def get(self, account: str) -> str | None:
        """A value, None where there is none."""
        return _bounded(lambda: self._backend.get_password(SERVICE, account), ANSWER_S)

    def delete(self, account: str) -> None:
        """Forget a value; one that is not there is no error."""

        def delete() -> None:
            if self._backend.get_password(SERVICE, account) is not None:
                self._backend.delete_password(SERVICE, account)

        _bounded(delete, ANSWER_S)


def _bounded(action: Callable[[], T], seconds: float) -> T:
    """What `action` gives, if it comes within `seconds`. Raises SecretsError without anything the action held."""
    results: list[T] = []
    failures: list[str] = []

    def run() -> None:
        try:
            results.append(action())
        except Exception as error:  # noqa: BLE001 - backends raise what they like, and its text may hold a value
            failures.append(type(error).__name__)

    # A daemon, because one that hangs must not keep the process from ending.
    thread = threading.Thread(target=run, name="keyring", daemon=True)
    thread.start()
    thread.join(seconds)
    if results:
        return results[0]
    raise _failed(f"failed ({failures[0]})" if failures else f"did not answer within {seconds:g} s")


def _failed(how: str) -> SecretsError:
    hint = (
        "Unlock it and try again. Without one: PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring (a file is used)."
    )
    return SecretsError("keyring", f"The system keyring {how}.", hint)
