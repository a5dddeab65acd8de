"""What the lab keeps and reads: the record of an evaluation or experiment, and a handle that only looks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from core.builder.state import BuildState
from core.bundle.tree import open_directory, read_regular
from core.events import Event
from core.lab.checks import Called, Exited
from core.lab.lineage import tree_of
from core.launch import Busy
from core.ports import Host, SandboxUnavailable, SessionInfo, Store

RecordKind = Literal["comparison", "experiment", "evaluation"]
LARGEST_FILE = 10_000_000
BUILT = "built"


def built_path(host: Host, session: str) -> Path:
    """Where an evaluated Builder's session keeps the agents it makes."""
    return host.workspace_path(session).with_name(BUILT)


def built_tree(place: Path, digest: str) -> Path:
    """Where the files of one of these revisions stand."""
    return place / digest.removeprefix("sha256:")


def _plain_file(directory: Path, path: str) -> bytes | None:
    try:
        root = open_directory(directory)
    except OSError:
        return None
    try:
        return read_regular(root, path, LARGEST_FILE)
    except OSError:
        return None
    finally:
        os.close(root)


class Record:
    """The record of one comparison, experiment or evaluation: a session no agent speaks in, whose arms and cases name
    it as their parent. It can be added to, and nothing else."""

    def __init__(self, store: Store, now: Callable[[], str], session: str) -> None:
        self._store = store
        self._now = now
        self.session = session

    @classmethod
    def open(
        cls, host: Host, session: str, kind: RecordKind, title: str, about: Mapping[str, Any], **columns: Any
    ) -> Record:
        """Begin a record, or go on with the one of that id. Raises Busy where another process writes it."""
        store = host.store
        known = store.session(session)
        if known is None:
            info = SessionInfo(session, kind, started=host.now(), title=title[:120], usd="0.00", **columns)
            store.create_session(info, [("started", {"kind": kind, **about})])
        elif not store.claim(session):
            raise Busy(session)
        else:
            store.append(session, [("notice", {"text": "Going on.", **about})], {"stop": None, "ended": None})
        return cls(store, host.now, session)

    def add(self, kind: str, data: Mapping[str, Any]) -> None:
        """Store one row."""
        self._store.append(self.session, [(kind, data)])

    def rows(self, kind: str) -> list[Mapping[str, Any]]:
        """The rows of one kind, oldest first."""
        return [event.data for event in self._store.events(self.session, kinds=(kind,))]

    @classmethod
    def append_to(cls, host: Host, session: str) -> Record:
        """A record that stands, to add to. Raises Busy where another process writes it."""
        if not host.store.claim(session):
            raise Busy(session)
        return cls(host.store, host.now, session)

    def end(self, stop: Literal["completed", "cancelled"], summary: str) -> None:
        """Store how it ended."""
        body = {"stop": stop, "detail": None, "output": summary, "waiting": None, "evidence": None}
        columns = {"stop": stop, "ended": self._now(), "summary": summary}
        self._store.append(self.session, [("stop", body)], columns)

    def close(self) -> None:
        """Give it up, for another process to go on with."""
        self._store.release(self.session)


class Reading:
    """Looks at what sessions did, said and left behind. It changes nothing: no event, no channel, no file."""

    __slots__ = ("_events", "_home", "_revision", "_sandboxes", "_session", "_tree")

    def __init__(self, host: Host) -> None:
        self._session = host.store.session
        self._events = host.store.events
        self._home = host.workspace_path
        self._revision = host.store.revision
        self._tree = partial(tree_of, host.store)
        self._sandboxes = host.sandboxes

    def session(self, session: str) -> SessionInfo | None:
        """One session's columns."""
        return self._session(session)

    def events(self, session: str, kinds: Iterable[str] | None = None) -> Iterator[Event]:
        """A session's events."""
        return self._events(session, kinds=kinds)

    def calls(self, session: str) -> list[Called]:
        """The tool calls of a session, in order, with whether each came to a good result."""
        made: dict[str, Called] = {}
        for event in self._events(session, kinds=("tool_call", "tool_result")):
            data, call = event.data, str(event.data.get("call"))
            if event.kind == "tool_call":
                args = data.get("args")
                made[call] = Called(str(data.get("tool")), args if isinstance(args, dict) else {}, False)
            elif call in made and data.get("ok"):
                made[call] = Called(made[call].tool, made[call].args, True)
        return list(made.values())

    def tree(self, session: str) -> list[SessionInfo]:
        """The columns of a session and of all that descend from it."""
        return [info for info in map(self._session, self._tree(session)) if info is not None]

    def thought_by(self, session: str) -> set[tuple[str, str | None]]:
        """The providers and models that answered in a session and those below it."""
        found: set[tuple[str, str | None]] = set()
        for one in self._tree(session):
            info = self._session(one)
            used = {
                (str(e.data.get("provider") or (info.provider if info else "")), e.data.get("model"))
                for e in self._events(one, kinds=("usage",))
            }
            found |= used or ({(info.provider, info.model)} if info is not None else set())
        return found

    def written_by(self, agent: str, digest: str) -> set[tuple[str, str | None]]:
        """The providers and models that wrote a revision or any it stems from; empty where people did."""
        found: set[tuple[str, str | None]] = set()
        seen, left = set(), [digest]
        while left:
            digest = left.pop()
            revision = self._revision(agent, digest) if digest not in seen else None
            seen.add(digest)
            if revision is not None:
                left += revision.parents
                found |= self.thought_by(revision.session) if revision.session else set()
        return found

    def built(self, session: str) -> BuildState:
        """Where the build of a Builder's session stands."""
        state = BuildState()
        for event in self._events(session):
            state.apply(event)
        return state

    def built_file(self, session: str, path: str) -> bytes | None:
        """A file of the revision that an evaluated Builder saved last, None where there is none."""
        digest = self.built(session).digest
        place = self._home(session).with_name(BUILT)
        return _plain_file(built_tree(place, digest), path) if digest else None

    def file(self, session: str, path: str) -> bytes | None:
        """A file of a session's workspace, None where there is no plain file; links are not followed."""
        return _plain_file(self._home(session), path.removeprefix("/work/"))

    async def command(self, session: str, sandbox: str | None, command: str, timeout: float) -> Exited | None:
        """What a command comes to in a session's workspace, in its kind of sandbox and without a network; None where
        no sandbox can be had, or only an unsafe one that nobody asked for by name."""
        try:
            kind, _ = await self._sandboxes.choose(sandbox)
            if kind.unsafe and kind.name != sandbox:
                return None
            workspace = await kind.open(self._home(session))
        except SandboxUnavailable:
            return None
        try:
            result = await workspace.run(command, timeout=timeout)
        except SandboxUnavailable:
            return None
        finally:
            await workspace.close()
        return Exited(None if result.timed_out else result.exit_code, result.output)
