"""Forking: a new session that begins as another's conversation stands, and leaves that one as it is."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from core.agent_cli.provider import CliProvider
from core.events import Event
from core.ports import Host, SessionInfo
from core.session import Pair
from core.supervisor import RECORDS

_LEFT_BEHIND: Final = frozenset(
    {"usage", "approval", "permission", "child", "effect_intent", "effect", "log", "cell", "case", "label", "started"}
)
"""What stays with the session that is forked: what it cost, what people allowed it, whom it started, its record of
effects. (`started` is written anew.)"""


class CannotFork(Exception):
    """A session that cannot be forked; `hint` is the next step. `code` is `not_found`, `running`, `record` or
    `capability` (the agent CLI that has its conversation cannot fork one)."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


async def fork_session(host: Host, session: str, *, new: str | None = None, provider: str | None = None) -> SessionInfo:
    """Make a session, `new` or of a new id, whose conversation, workspace and settings are those of `session`, and
    that rests at the same stop; go on with it as with any other. `provider` is what will think where that changes.

    It costs nothing yet, and nothing is allowed in it. Raises CannotFork, StoreError, LookupError for a provider.
    """
    info = _forkable(host, session, provider)
    made = new or host.new_id()
    source = host.workspace_path(session)
    staged = source.with_name(f".fork-{made}")  # where what cleans up takes it for a part of a session there is
    try:
        missing = await asyncio.to_thread(_copy, source, staged)
        pairs = _conversation(host, info, provider)
        if missing:
            text = f"{len(missing)} files of the workspace could not be copied: {', '.join(missing[:3])}"
            pairs.append(("notice", {"text": text}))
        if staged.is_dir():
            host.workspace_path(made).parent.mkdir(parents=True, exist_ok=True)
            staged.rename(host.workspace_path(made))
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    columns = _columns(info, made, host.now(), provider)
    host.store.create_session(columns, pairs)
    host.store.release(made)
    return host.store.session(made) or columns


def _conversation(host: Host, info: SessionInfo, provider: str | None) -> list[Pair]:
    """The fork's events, read while nobody drives the session."""
    if not host.store.claim(info.id):
        raise _running(info.id)
    try:
        return list(_pairs(host.store.events(info.id), info, provider))
    finally:
        host.store.release(info.id)


def _columns(info: SessionInfo, made: str, now: str, provider: str | None) -> SessionInfo:
    return replace(
        info,
        id=made,
        parent=info.id,
        started=now,
        provider=provider or info.provider,
        model=None if provider not in (None, info.provider) else info.model,
        input_tokens=0,
        output_tokens=0,
        cached_tokens=0,
        requests=0,
        usd="0.00",
    )


def _forkable(host: Host, session: str, provider: str | None) -> SessionInfo:
    info = host.store.session(session)
    if info is None:
        raise CannotFork("not_found", f"There is no session {session}.", "List them with: artificer sessions")
    if info.kind in RECORDS:
        message = f"{session} is the record of a lab ({info.kind}), not a conversation."
        raise CannotFork("record", message, "Fork one of its arms or cases instead: artificer sessions")
    if info.status == "running":
        raise _running(session)
    thinks = host.provider(provider or info.provider)
    if isinstance(thinks, CliProvider) and not thinks.forks:
        told = host.store.events(session, kinds=("provider_session",))
        if any(event.data.get("provider") == thinks.name for event in told):
            message = f"{thinks.title or thinks.name} cannot fork a session."
            hint = f"Fork it onto another provider: artificer fork {session} --provider NAME. Or go on with this one."
            raise CannotFork("capability", message, hint)
    return info


def _running(session: str) -> CannotFork:
    hint = f"Wait for its stop, or stop it first: artificer interrupt {session}"
    return CannotFork("running", f"Session {session} is running.", hint)


def _pairs(events: Iterator[Event], info: SessionInfo, provider: str | None) -> Iterator[Pair]:
    """The events of the fork: those of the conversation, the numbers of events in them made right, then `forked`."""
    seqs: dict[int, int] = {}
    last = count = 0
    for event in events:
        last = event.seq
        if event.kind == "started":
            yield "started", _started(event.data, info, provider)
        elif event.kind not in _LEFT_BEHIND:
            yield event.kind, _renumbered(event, seqs)
        else:
            continue
        count += 1
        seqs[event.seq] = count
    yield "forked", {"session": info.id, "seq": last, "events": count}
    if provider not in (None, info.provider):
        yield "settings", {"provider": provider, "model": None, "effort": None}


def _started(data: Mapping[str, Any], info: SessionInfo, provider: str | None) -> dict[str, Any]:
    """As the session stands now. Publishing was asked for there, not here."""
    changed = {"provider": provider or info.provider, "model": info.model, "sandbox": info.sandbox}
    return {**data, **changed, "parent": info.id, "publish": False}


def _renumbered(event: Event, seqs: Mapping[int, int]) -> dict[str, Any]:
    """An event's body, with the numbers of earlier events that it names as they are in the fork."""
    data = dict(event.data)

    def here(seq: object) -> object:
        return seqs.get(seq, len(seqs)) if isinstance(seq, int) else seq

    match event.kind:
        case "compaction":
            data["upto"] = here(data.get("upto"))
        case "rewind":
            data["before"] = here(data.get("before"))
        case "stop":
            data["driven_s"] = 0  # the time that was spent stays with the other session
            evidence = data.get("evidence")
            if isinstance(evidence, dict) and "first" in evidence:
                data["evidence"] = {**evidence, "first": here(evidence["first"])}
        case _:
            pass
    return data


def _copy(source: Path, target: Path) -> list[str]:
    """Copy a workspace, links as links; what could not be copied, by path."""
    if not source.is_dir():
        return []
    try:
        shutil.copytree(source, target, symlinks=True)
    except shutil.Error as error:
        return [str(Path(row[0]).relative_to(source)) for row in error.args[0] if isinstance(row, tuple)]
    return []
