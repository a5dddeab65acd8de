"""Who descends from a session, and what they have spent, read from the store."""

from __future__ import annotations

from core.policy import Spent, spent_usd
from core.ports import Store


def children_of(store: Store, session: str) -> list[str]:
    """The sessions that `session` started, in order."""
    return [str(event.data.get("session")) for event in store.events(session, kinds=("child",))]


def tree_of(store: Store, session: str) -> list[str]:
    """`session` and all that descend from it."""
    found = [session]
    for child in children_of(store, session):
        found += tree_of(store, child) if child not in found else []
    return found


def spent_by(store: Store, session: str) -> Spent:
    """What a session and its children have spent, by their columns; a request counts as a step."""
    info = store.session(session)
    if info is None:
        return Spent()
    own = Spent(info.requests, info.input_tokens + info.output_tokens, spent_usd(info))
    return sum((spent_by(store, child) for child in children_of(store, session)), own)
