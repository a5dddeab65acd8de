"""A job as JSON with everything it needs named by hash, and where the content behind each hash lies."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from core import (
    Host,
    Job,
    NotAPreset,
    Preset,
    Provider,
    Revision,
    Start,
    TreeEntry,
    UnknownRef,
    lay_out,
    limits_from,
    limits_to_json,
    parse_manifest,
    resolve_preset,
    scan_tree,
    tree_of,
)

PROTOCOL: Final = 1
"""What the two ends of a cluster speak; both must speak the same."""
AS_THEY_ARE: Final = ("task", "kind", "session", "parent", "depth", "effort", "replay", "network", "persona")
"""Fields of a Job that are said as they are; the others by hand, or, of what stays here (a child, a build), never."""
Spec = dict[str, Any]


class Packer:
    """Makes specs of jobs, and reads the content they name. `scratch` is a directory of its own. It blocks,
    and may be used from several threads."""

    def __init__(self, host: Host, scratch: Path) -> None:
        self._host = host
        self._scratch = scratch
        self._where: dict[str, Callable[[], bytes]] = {}
        self._packed: dict[str, Any] = {}
        self._lock = threading.Lock()

    def pack(self, job: Job) -> Spec:
        """The spec of `job`, whose session has an id. No value of a credential is in it, nor a way to one. Raises
        BadStart where its workspace's start cannot be read."""
        if job.inherited is not None or job.session is None or job.build is not None:
            raise ValueError("a job that goes elsewhere is nobody's child, no build, and has a session")
        revisions, channels = self._once(f"preset {job.preset.digest} {job.preset.agent}", self._revisions, job.preset)
        return {
            "protocol": PROTOCOL,
            "job": self._job(job),
            "revisions": revisions,
            "channels": channels,
            "suite": self._once(f"suite {job.suite['path']}", self._suite, job.suite) if job.suite else None,
            "start": self._once(f"start {_name_of(job.start)}", self._start, job.start),
            "replay": self._once(f"replay {job.replay}", self._replay, job.replay) if job.replay else None,
        }

    def content(self, sha256: str) -> bytes:
        """The bytes behind a hash. Raises StoreError, OSError, and LookupError where no spec named it."""
        return self._where[sha256]()

    def _once(self, key: str, make: Callable[[Any], Any], of: Any) -> Any:
        with self._lock:
            if key not in self._packed:
                self._packed[key] = make(of)
            return self._packed[key]

    def _job(self, job: Job) -> dict[str, Any]:
        """What the settings here say is said too: those of where it runs must not change what it is."""
        provider = job.provider.full_name if isinstance(job.provider, Provider) else job.provider
        preset = job.preset
        return {
            **{name: getattr(job, name) for name in AS_THEY_ARE},
            "preset": [preset.id, preset.agent, preset.digest, preset.channel],
            "provider": provider or self._setting("provider") or "offline",
            "model": job.model or self._setting("model"),
            "sandbox": job.sandbox or self._setting("sandbox"),
            "context_window": job.context_window or self._setting("context_window"),
            "limits": limits_to_json(job.limits),
            "suite": None if job.suite is None else dict(job.suite),
            "answers": list(job.answers),
        }

    def _setting(self, name: str) -> Any:
        return getattr(self._host.settings, name, None)

    # --- what a job needs --------------------------------------------------------------------------

    def _revisions(self, preset: Preset) -> tuple[list[Any], list[Any]]:
        """The agent's revision and those it may give tasks to, and theirs; the channels by which it names them."""
        store = self._host.store
        found: dict[tuple[str, str], Revision] = {}
        channels: set[tuple[str, str, str]] = set()
        todo = [preset]
        while todo:
            one = todo.pop()
            if one.channel is not None:
                channels.add((one.agent, one.channel, one.digest))
            revision = store.revision(one.agent, one.digest)
            if revision is None or (one.agent, one.digest) in found:
                continue
            found[one.agent, one.digest] = revision
            for name in self._delegates(revision):
                try:
                    todo.append(resolve_preset(store, name))
                except (UnknownRef, NotAPreset):
                    continue  # the agent is told so where it runs
        rows = [self._revision(revision) for revision in found.values()]
        return rows, [list(channel) for channel in sorted(channels)]

    def _delegates(self, revision: Revision) -> tuple[str, ...]:
        for entry in revision.files:
            if entry.path == "agent.yaml":
                manifest, _, _ = parse_manifest(self._host.store.blob(entry.sha256))
                return () if manifest is None else tuple(manifest.delegates.presets)
        return ()

    def _revision(self, revision: Revision) -> dict[str, Any]:
        store = self._host.store
        for entry in revision.files:
            self._where[entry.sha256] = lambda name=entry.sha256: store.blob(name)  # type: ignore[misc]
        files = [entry.to_json() for entry in revision.files]
        return {
            "agent": revision.agent,
            "digest": revision.digest,
            "at": revision.at,
            "by": revision.by,
            "files": files,
        }

    def _suite(self, suite: Mapping[str, Any]) -> dict[str, Any]:
        root = Path(str(suite["path"]))
        entries = scan_tree(root)
        for entry in entries:
            self._where[entry.sha256] = (root / entry.path).read_bytes
        return {"digest": suite["digest"], "files": [entry.to_json() for entry in entries]}

    def _start(self, start: Start) -> dict[str, Any]:
        """The files and directories a workspace begins with, taken now: every cell gets the same."""
        if start.empty:
            return {"files": [], "directories": []}
        copy = self._scratch / f"start-{len(self._packed)}"
        lay_out(start, copy)
        files, directories = [], []
        for path in _below(copy):
            name = path.relative_to(copy).as_posix()
            if path.is_dir():
                directories.append(name)
                continue
            entry = TreeEntry(name, _hash(path), path.stat().st_size, bool(path.stat().st_mode & 0o111))
            self._where[entry.sha256] = path.read_bytes
            files.append(entry.to_json())
        return {"files": files, "directories": directories}

    def _replay(self, session: str) -> dict[str, Any]:
        """The effects on a session's record, and on those of its children."""
        store = self._host.store
        rows: list[Any] = []
        blobs: list[str] = []
        for one in tree_of(store, session):
            events: list[list[Any]] = [[e.kind, dict(e.data)] for e in store.events(one, kinds=("effect", "child"))]
            rows.append([one, events])
            outcomes = (data.get("outcome") for _, data in events)
            blobs += [o["blob"] for o in outcomes if isinstance(o, dict) and isinstance(o.get("blob"), str)]
        text = json.dumps(rows).encode()
        name = hashlib.sha256(text).hexdigest()
        self._where[name] = lambda: text
        for blob in blobs:
            self._where[blob] = lambda blob=blob: store.blob(blob)  # type: ignore[misc]
        return {"rows": name, "blobs": sorted(set(blobs))}


def job_of(spec: Spec) -> Job:
    """The job that a spec is of; its workspace's start is laid out apart."""
    data = dict(spec["job"])
    made: dict[str, Any] = {"preset": Preset(*data.pop("preset")), "limits": limits_from(data.pop("limits"))}
    return Job(**made, answers=tuple(data.pop("answers")), **data)


def needed(spec: Spec) -> list[str]:
    """The hashes of all content that a spec names, each once."""
    files = [file for revision in spec["revisions"] for file in revision["files"]]
    files += [*(spec["suite"]["files"] if spec["suite"] else ()), *spec["start"]["files"]]
    names = [file["sha256"] for file in files]
    if spec["replay"]:
        names += [spec["replay"]["rows"], *spec["replay"]["blobs"]]
    return list(dict.fromkeys(names))


def entries_of(files: list[Mapping[str, Any]]) -> tuple[TreeEntry, ...]:
    """The files of a spec's tree."""
    return tuple(TreeEntry(file["path"], file["sha256"], file["size"], file["x"]) for file in files)


def _name_of(start: Start) -> str:
    return repr((start.root, start.names, sorted(start.texts.items())))


def _below(root: Path) -> Iterator[Path]:
    """Every file and directory below `root`, parents first."""
    for directory, directories, files in os.walk(root):
        directories.sort()
        for name in (*directories, *sorted(files)):
            yield Path(directory, name)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
