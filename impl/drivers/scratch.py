"""A store for a Builder that is being evaluated: what it makes is its session's own, and nobody's agents change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core import Revision, Store, StoreError, built_tree, materialise

if TYPE_CHECKING:
    from impl.store.sqlite import SqliteStore

_OWN: Final = frozenset(
    {
        "agents",
        "revision",
        "revisions",
        "latest",
        "add_validation",
        "validations",
        "channels",
        "channel_log",
        "move_channel",
        "put_blob",
    }
)
"""What of the `Store` port is answered by the store beside the session: all that is about bundles."""


class ScratchStore:
    """The `Store` port on two stores: sessions and small values of `real`, bundles in one of their own below `place`,
    made at the first of them. Each revision's files also stand there plainly (`built_tree`), for checks to read."""

    def __init__(self, real: Store, place: Path) -> None:
        self._real = real
        self._place = place
        self._made: SqliteStore | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own if name in _OWN else self._real, name)

    @property
    def _own(self) -> SqliteStore:
        if self._made is None:
            from impl.store.sqlite import SqliteStore

            self._made = SqliteStore(self._place / "store")
        return self._made

    def blob(self, sha256: str) -> bytes:
        """Bytes by hash, of either store. Raises StoreError."""
        try:
            return self._own.blob(sha256)
        except StoreError:
            return self._real.blob(sha256)

    def add_revision(self, revision: Revision) -> bool:
        """Record it here, its files plainly beside."""
        created = self._own.add_revision(revision)
        tree = built_tree(self._place, revision.digest)
        if not tree.exists():
            materialise(self._own, revision, tree)
        return created

    def close(self) -> None:
        """Close the store of its own; the real one stays open."""
        if self._made is not None:
            self._made.close()
            self._made = None


def scratch(real: Store, place: Path) -> tuple[Store, Callable[[], None]]:
    """A store whose bundles are kept below `place`, and how to close it."""
    made = ScratchStore(real, place)
    return made, made.close
