"""Where credential values are kept: the system keyring where there is one, else a file encrypted with a passphrase."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from impl.secrets.kept import KeptSecrets

if TYPE_CHECKING:
    from core import Secrets, Store


def open_secrets(home: Path, store: Store, now: Callable[[], str]) -> Secrets:
    """The values of `home`, indexed in `store`. Cheap: neither keyring nor encryption loads before it is needed."""
    return KeptSecrets(home, store, now)
