"""The port of secrets: where the values of credentials are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol


class SecretsError(Exception):
    """A value cannot be kept or taken; no field ever holds one. `hint` is the next step.

    `code` is `too_short`, `too_long`, `not_a_line` or `not_declared` (the caller's turn); `passphrase_needed` or
    `wrong_passphrase` (the person's); `keyring` (the system keyring is locked, gone or failed); `damaged` or
    `unwritable` (the encrypted file).
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class SecretRow:
    """What is known of a stored value, without the value. `where` is `keyring` or `file`; `at` is ISO 8601 with Z."""

    agent: str
    name: str
    binding: str
    hosts: tuple[str, ...]
    injection: str
    at: str
    where: str


@dataclass(frozen=True, slots=True)
class SecretsStatus:
    """Where values would be kept here and now, in words: `refused` where none can be kept or taken; `fix` is the one
    command that mends it, or makes it do without a person, empty where there is nothing to mend."""

    where: Literal["keyring", "file", "refused"]
    message: str
    fix: str = ""


PASSPHRASE: Final = "ARTIFICER_PASSPHRASE"
"""The variable that holds the passphrase of the encrypted file; no agent CLI or editor that is started sees it."""


class Secrets(Protocol):
    """Where credential values are kept: usable, never shown again. Values go in; only the effect host takes them
    out. A value belongs to exactly (agent, name, binding); see `core.effects.credentials.binding_id`.

    `has` and `list` are quick and ask nobody. `put`, `take` and `unlock` may wait for the system keyring, which
    may wait for a person: call them in a thread. All but `list` and `has` raise SecretsError.
    """

    def has(self, agent: str, name: str, binding: str) -> bool:
        """Whether a value is stored for exactly this agent, name and binding."""

    def put(
        self, agent: str, name: str, binding: str, value: str, *, hosts: Sequence[str] = (), injection: str = ""
    ) -> None:
        """Keep a value, in place of one with the same binding. `hosts` and `injection` are shown by `list`."""

    def take(self, agent: str, name: str, binding: str) -> str | None:
        """The value itself, None where there is none. For the effect host alone, outside every sandbox: what it
        returns goes into one request and into the redactor, and nowhere else."""

    def remove(self, agent: str, name: str) -> bool:
        """Forget the values of this name, whatever they are bound to. False where there were none."""

    def list(self) -> Sequence[SecretRow]:
        """What is stored, by agent and name."""

    def passphrase(self, agent: str | None = None) -> Literal["none", "needed", "new"]:
        """What `put` of any value (or, with `agent`, `take` of that agent's) would want first: nothing, the
        passphrase of the encrypted file, or a new one that a new file is encrypted with."""

    def unlock(self, passphrase: str) -> None:
        """Take the passphrase of the encrypted file, or the one to make it with."""

    def status(self) -> SecretsStatus:
        """Where values are kept here. Asks nobody, takes seconds at most, and raises nothing but StoreError."""
