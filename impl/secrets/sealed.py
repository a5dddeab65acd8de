"""Values in a file, each encrypted under a key that is derived from a passphrase."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core import PASSPHRASE, SecretsError

FILE: Final = "secrets.enc"
LOCK: Final = "secrets.lock"
VARIABLE: Final = PASSPHRASE
SHORTEST_PASSPHRASE: Final = 8
LARGEST: Final = 32 * 1024 * 1024
"""Bytes of the file that are read at most."""

# OWASP's password storage recommendations for scrypt, the setting with the least memory: 32 MiB.
_N: Final = 2**15
_R: Final = 8
_P: Final = 3
_MOST_MEMORY: Final = 1 << 30


@contextlib.contextmanager
def locked(home: Path) -> Iterator[None]:
    """Alone among the threads and processes on `home`; for as long as a file takes to write."""
    try:
        fd = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(home, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True, repr=False)
class _Content:
    """The file as read. `check` tells the right passphrase from a wrong one without touching an entry."""

    n: int
    r: int
    p: int
    salt: bytes
    check: bytes
    entries: dict[str, tuple[bytes, bytes]]


class SealedFile:
    """`secrets.enc` in `home`: entry names in clear, values under AES-256-GCM with the name as associated data.

    The passphrase comes from `ARTIFICER_PASSPHRASE` or `unlock`. Every change is one rename under a lock, so that
    neither a crash nor another process loses a value.
    """

    __slots__ = ("_home", "_keys", "_passphrase", "_path")

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / FILE
        self._passphrase: str | None = os.environ.get(VARIABLE) or None
        self._keys: dict[tuple[int, int, int, bytes], bytes] = {}

    def __repr__(self) -> str:
        return f"SealedFile({str(self._path)!r})"

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self._path.exists()

    @property
    def unlocked(self) -> bool:
        """Whether a passphrase was given. That it is the right one shows when it is used."""
        return self._passphrase is not None

    def check(self) -> None:
        """That the file can be read, where there is one, and that a passphrase that was given is right for it (or
        fit for a new one). Raises SecretsError."""
        content = self._read()
        if self._passphrase is None:
            return
        if content is None:
            _check_new(self._passphrase)
        else:
            self._derive(content, self._passphrase)

    def unlock(self, passphrase: str) -> None:
        """Take the passphrase; for a new file one of at least eight characters. Raises SecretsError."""
        content = self._read()
        if content is not None:
            self._derive(content, passphrase)
        else:
            _check_new(passphrase)
        self._passphrase = passphrase

    def has(self, entry: str) -> bool:
        """Whether there is such an entry; a file that cannot be read has none."""
        try:
            content = self._read()
        except SecretsError:
            return False
        return content is not None and entry in content.entries

    def get(self, entry: str) -> str | None:
        """A value, None where there is no such entry. Raises SecretsError."""
        content = self._read()
        if content is None or entry not in content.entries:
            return None
        key = self._key(content)
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(key).decrypt(*content.entries[entry], entry.encode()).decode()
        except (InvalidTag, ValueError):
            pass
        raise _damaged(self._path, "this value does not open")

    def put(self, entry: str, value: str) -> None:
        """Keep a value. Raises SecretsError, and then everything is as it was."""
        with locked(self._home):
            content = self._read() or self._new()
            key = self._key(content)
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            nonce = os.urandom(12)
            sealed = AESGCM(key).encrypt(nonce, value.encode(), entry.encode())
            content.entries[entry] = (nonce, sealed)
            self._write(content)

    def drop(self, entries: Sequence[str]) -> None:
        """Forget entries; needs no passphrase. The file goes with its last one, so that a new one may be made."""
        if not self.exists:
            return
        with locked(self._home):
            content = self._read()
            if content is None or not any(entry in content.entries for entry in entries):
                return
            for entry in entries:
                content.entries.pop(entry, None)
            if content.entries:
                self._write(content)
                return
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise _unwritable(self._home, error) from error

    # --- keys --------------------------------------------------------------------------------------

    def _new(self) -> _Content:
        """An empty file under the passphrase that was given."""
        passphrase = self._given(new=True)
        _check_new(passphrase)
        salt = os.urandom(16)
        content = _Content(_N, _R, _P, salt, b"", {})
        check = self._stretch(content, passphrase)[1]
        return _Content(_N, _R, _P, salt, check, {})

    def _given(self, *, new: bool) -> str:
        if self._passphrase is not None:
            return self._passphrase
        what = "a passphrase to encrypt it with" if new else f"the passphrase of {self._path}"
        raise SecretsError(
            "passphrase_needed",
            f"There is no system keyring here, so this needs {what}.",
            f"Set {VARIABLE}, or run `artificer credentials set AGENT NAME` in a terminal, which asks for it.",
        )

    def _key(self, content: _Content) -> bytes:
        return self._derive(content, self._given(new=False))

    def _derive(self, content: _Content, passphrase: str) -> bytes:
        key, check = self._stretch(content, passphrase)
        if hmac.compare_digest(check, content.check):
            return key
        raise SecretsError(
            "wrong_passphrase",
            f"This is not the passphrase of {self._path}. Nothing was changed.",
            f"Try again, or set {VARIABLE} to the right one. A lost passphrase: `artificer credentials remove` every "
            "value, and set them again under a new one.",
        )

    def _stretch(self, content: _Content, passphrase: str) -> tuple[bytes, bytes]:
        """The key, and what the file keeps to know the passphrase by. Slow on purpose, so done once a passphrase."""
        told = hashlib.sha256(passphrase.encode("utf-8", "surrogatepass")).digest()
        known = (content.n, content.r, content.p, content.salt + told)
        stretched = self._keys.get(known)
        if stretched is None:
            stretched = hashlib.scrypt(
                passphrase.encode("utf-8", "surrogatepass"),
                salt=content.salt,
                n=content.n,
                r=content.r,
                p=content.p,
                maxmem=2 * 128 * content.n * content.r + (1 << 20),
                dklen=64,
            )
            self._keys = {known: stretched}
        return stretched[:32], hashlib.sha256(stretched[32:]).digest()

    # --- the file ----------------------------------------------------------------------------------

    def _read(self) -> _Content | None:
        try:
            with self._path.open("rb") as file:
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _damaged(self._path, error.strerror or "it cannot be read") from error
        content = _parse(data) if len(data) <= LARGEST else None
        if content is None:
            raise _damaged(self._path, "its content is not what was written")
        return content

    def _write(self, content: _Content) -> None:
        """Write beside and rename, durable before it is seen."""
        new = self._path.with_name(f".{FILE}-{os.urandom(6).hex()}")
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(_render(content))
                file.flush()
                os.fsync(fd)
            os.replace(new, self._path)
            directory = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise _unwritable(self._home, error) from error


def _render(content: _Content) -> bytes:
    value = {
        "artificer_secrets": 1,
        "kdf": {"name": "scrypt", "n": content.n, "r": content.r, "p": content.p, "salt": _text(content.salt)},
        "check": _text(content.check),
        "entries": {
            entry: {"nonce": _text(nonce), "data": _text(data)}
            for entry, (nonce, data) in sorted(content.entries.items())
        },
    }
    return json.dumps(value, indent=1).encode() + b"\n"


def _parse(data: bytes) -> _Content | None:
    """The content of a file; None where it is none of ours, or asks for more work than we ever would."""
    try:
        value: Any = json.loads(data)
        kdf = value["kdf"]
        n, r, p = int(kdf["n"]), int(kdf["r"]), int(kdf["p"])
        known = value["artificer_secrets"] == 1 and kdf["name"] == "scrypt"
        entries = {str(k): (_bytes(v["nonce"]), _bytes(v["data"])) for k, v in value["entries"].items()}
        content = _Content(n, r, p, _bytes(kdf["salt"]), _bytes(value["check"]), entries)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    bearable = n > 1 and n & (n - 1) == 0 and 0 < r <= 32 and 0 < p <= 16 and 128 * n * r <= _MOST_MEMORY
    return content if known and bearable else None


def _check_new(passphrase: str) -> None:
    if len(passphrase) < SHORTEST_PASSPHRASE:
        message = f"A new passphrase has at least {SHORTEST_PASSPHRASE} characters. Nothing was stored."
        raise SecretsError("wrong_passphrase", message, "Give a longer one: whoever copies the file can try guesses.")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _damaged(path: Path, how: str) -> SecretsError:
    hint = "Restore it from a backup, or move it away and set the values again."
    return SecretsError("damaged", f"{path} is damaged: {how}.", hint)


def _unwritable(home: Path, error: OSError) -> SecretsError:
    message = f"{home} cannot be written ({error.strerror}). Nothing was changed."
    return SecretsError("unwritable", message, "Make room or make it writable, then try again.")
