"""The `Secrets` port: values in the keyring or the encrypted file; their index, without values, in the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from core import SHORTEST_SECRET, SecretRow, SecretsError, SecretsStatus, Store
from impl.secrets.sealed import FILE, VARIABLE, SealedFile, locked
from impl.secrets.system import SystemKeyring, find_keyring

if TYPE_CHECKING:
    from core import Secrets

INDEX: Final = "credentials"
"""The key of the index: a list of rows, as `SecretRow`."""
HOME_ID: Final = "credentials.home"
"""The key of this home's random id, by which its entries in the keyring differ from those of other homes."""


class KeptSecrets:
    """Safe among threads and processes on one home. Never shows a value: not by repr, nor in an error.

    The keyring is asked for at the first value that is put, not before. A value taken from it is kept in memory,
    as long as the index says that it was not set since.
    """

    __slots__ = ("_file", "_home", "_keyring", "_now", "_store", "_taken")

    def __init__(self, home: Path, store: Store, now: Callable[[], str]) -> None:
        self._home = home
        self._store = store
        self._now = now
        self._file = SealedFile(home)
        self._keyring: SystemKeyring | Literal["unasked"] | None = "unasked"
        self._taken: dict[tuple[str, str], str] = {}

    def __repr__(self) -> str:
        return f"KeptSecrets({str(self._home)!r})"

    # --- asking ------------------------------------------------------------------------------------

    def has(self, agent: str, name: str, binding: str) -> bool:
        """Whether a value is stored for exactly this agent, name and binding."""
        row = self._row(agent, name, binding)
        return row is not None and (row.where == "keyring" or self._file.has(_entry(row)))

    def list(self) -> Sequence[SecretRow]:
        """What is stored, by agent and name."""
        return sorted(self._rows(), key=lambda row: (row.agent, row.name, row.at))

    def passphrase(self, agent: str | None = None) -> Literal["none", "needed", "new"]:
        """Which passphrase is wanted first; see the port."""
        if agent is not None:
            mine = [row for row in self._rows() if row.agent == agent and row.where == "file"]
            return "none" if self._file.unlocked or not any(self._file.has(_entry(row)) for row in mine) else "needed"
        if self._file.unlocked or self._system() is not None:
            return "none"
        return "needed" if self._file.exists else "new"

    def unlock(self, passphrase: str) -> None:
        """Take the passphrase of the file, or of the one to be made. Raises SecretsError `wrong_passphrase`."""
        self._file.unlock(passphrase)

    def status(self) -> SecretsStatus:
        """Where values are kept here, or why none can be; see the port."""
        keyring = self._system()
        away = sum(row.where == "keyring" for row in self._rows())
        if keyring is None and away:
            words = "is" if away == 1 else "are"
            message = f"{away} of the values {words} in a system keyring that cannot be reached from here."
            return SecretsStatus("refused", message, "artificer credentials set AGENT NAME")
        path = self._home / FILE
        try:
            self._file.check()
        except SecretsError as error:
            return SecretsStatus("refused", f"{error.message} {error.hint}", _mends(error, path))
        if keyring is not None:
            return SecretsStatus("keyring", f"the system keyring ({keyring.name})")
        if self._file.unlocked:
            return SecretsStatus("file", f"no system keyring; encrypted in {path} with the passphrase of {VARIABLE}")
        what = "its passphrase" if self._file.exists else "a new passphrase"
        message = f"no system keyring; encrypted in {path}, and {what} is asked for in a terminal"
        return SecretsStatus("file", message, _PASSPHRASE)

    # --- changing and taking -----------------------------------------------------------------------

    def put(
        self, agent: str, name: str, binding: str, value: str, *, hosts: Sequence[str] = (), injection: str = ""
    ) -> None:
        """Keep a value, in place of one with the same binding."""
        if len(value) < SHORTEST_SECRET:
            message = f"A value has at least {SHORTEST_SECRET} characters."
            raise SecretsError("too_short", message, "Nothing was stored. Give the whole value.")
        keyring = self._system()
        where = "file" if keyring is None else "keyring"
        row = SecretRow(agent, name, binding, tuple(hosts), injection, self._now(), where)
        if keyring is None:
            self._file.put(_entry(row), value)
        else:
            keyring.put(self._account(row), value)
            self._file.drop((_entry(row),))
        self._note((agent, name, binding), row)

    def take(self, agent: str, name: str, binding: str) -> str | None:
        """The value itself, None where there is none. For the effect host alone."""
        row = self._row(agent, name, binding)
        if row is None:
            return None
        if row.where == "file":
            return self._file.get(_entry(row))
        key = (_entry(row), row.at)
        value = self._taken.get(key)
        if value is None:
            value = self._required().get(self._account(row))
            if value is None:
                self._note((agent, name, binding), None)
                return None
            self._taken[key] = value
        return value

    def remove(self, agent: str, name: str) -> bool:
        """Forget the values of this name, whatever they are bound to. False where there were none."""
        rows = [row for row in self._rows() if (row.agent, row.name) == (agent, name)]
        for row in rows:
            if row.where == "keyring":
                self._required().delete(self._account(row))
        self._file.drop([_entry(row) for row in rows])
        for row in rows:
            self._note((agent, name, row.binding), None)
        return bool(rows)

    # --- the index ---------------------------------------------------------------------------------

    def _rows(self) -> tuple[SecretRow, ...]:
        kept = self._store.get_value(INDEX)
        return tuple(row for data in kept if (row := _read(data))) if isinstance(kept, list) else ()

    def _row(self, agent: str, name: str, binding: str) -> SecretRow | None:
        wanted = (agent, name, binding)
        return next((row for row in self._rows() if (row.agent, row.name, row.binding) == wanted), None)

    def _note(self, key: tuple[str, str, str], row: SecretRow | None) -> None:
        """Put one row of the index in place of another, or remove it; other processes' rows stay."""
        self._taken = {at: value for at, value in self._taken.items() if at[0] != "/".join(key)}
        with locked(self._home):
            others = [kept for kept in self._rows() if (kept.agent, kept.name, kept.binding) != key]
            rows = [*others, row] if row is not None else others
            self._store.set_value(INDEX, [_written(kept) for kept in rows] or None)

    # --- the keyring -------------------------------------------------------------------------------

    def _system(self) -> SystemKeyring | None:
        if self._keyring == "unasked":
            self._keyring = find_keyring()
        return self._keyring

    def _required(self) -> SystemKeyring:
        keyring = self._system()
        if keyring is None:
            raise SecretsError(
                "keyring",
                "The value is in the system keyring, which cannot be reached from here.",
                "Run this where the keyring is (a desktop session), or set the value again here.",
            )
        return keyring

    def _account(self, row: SecretRow) -> str:
        """The name of an entry in the keyring, which other homes share."""
        home = self._store.get_value(HOME_ID)
        if not isinstance(home, str):
            with locked(self._home):
                home = self._store.get_value(HOME_ID)
                if not isinstance(home, str):
                    home = os.urandom(8).hex()
                    self._store.set_value(HOME_ID, home)
        return f"{home}/{_entry(row)}"


_PASSPHRASE: Final = f"read -rs {VARIABLE} && export {VARIABLE}"


def _mends(error: SecretsError, path: Path) -> str:
    """The command that mends what is wrong with the encrypted file."""
    match error.code:
        case "wrong_passphrase":
            return _PASSPHRASE
        case "damaged":
            return f"mv '{path}' '{path}.damaged'"
        case _:
            return ""


def _entry(row: SecretRow) -> str:
    return f"{row.agent}/{row.name}/{row.binding}"


def _written(row: SecretRow) -> dict[str, Any]:
    return {
        "agent": row.agent,
        "name": row.name,
        "binding": row.binding,
        "hosts": list(row.hosts),
        "injection": row.injection,
        "at": row.at,
        "where": row.where,
    }


def _read(data: Any) -> SecretRow | None:
    """A row of the index; None for what is none."""
    if not isinstance(data, Mapping):
        return None
    names = ("agent", "name", "binding", "injection", "at", "where")
    texts = {name: data.get(name) for name in names}
    hosts = data.get("hosts")
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(hosts, list):
        return None
    return SecretRow(**{name: str(text) for name, text in texts.items()}, hosts=tuple(str(host) for host in hosts))


if TYPE_CHECKING:
    _is_the_port: type[Secrets] = KeptSecrets
