"""The host of one command: built on first need, its store closed when the command is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impl import compose
from tui.commands import output

if TYPE_CHECKING:
    from core import Host

_open: list[Host] = []


def build_host() -> Host:
    """A host on this home. Raises StoreError, SettingsError."""
    host = compose.build_host(tell=output.meanwhile)
    _open.append(host)
    return host


def close_hosts() -> None:
    """Give up what this command owned, so that another process or command need not wait for it."""
    while _open:
        _open.pop().store.close()
