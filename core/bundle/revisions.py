"""The life of a revision: saving, validating, publishing, rolling back, and naming one."""

from __future__ import annotations

import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Literal

from core.bundle.checks import CHECKS_VERSION, CheckOutcome, run_checks
from core.bundle.manifest import MANIFEST, parse_manifest
from core.bundle.problems import Problem, ProblemCode
from core.bundle.strict_yaml import MAX_BYTES
from core.bundle.tree import (
    BUNDLE_CAPS,
    Survey,
    UnsafeTree,
    digest_entries,
    digest_tree,
    open_directory,
    read_regular,
    survey_tree,
    write_tree,
)
from core.ports import ChannelEntry, Revision, Store, StoreError, TreeEntry, ValidationRun

LIVE = "live"
_CHANNEL = re.compile(r"[a-z][a-z0-9-]{0,31}")

ExtraCheck = Callable[[Path], CheckOutcome]


class UnknownRef(Exception):
    """No revision is meant by this; `hint` says what there is."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Refusal(StrEnum):
    """Why a channel did not move: the closed set of `ChannelEntry.refused`."""

    UNKNOWN_REVISION = "unknown_revision"
    """The agent has no revision with this digest."""
    NOT_VALIDATED = "not_validated"
    """No validation run was made of exactly this revision."""
    VALIDATION_FAILED = "validation_failed"
    """It was validated under the current checks and never passed."""
    CHECKS_CHANGED = "checks_changed"
    """It was validated, but only by other checks than the current ones."""
    NEVER_PASSED = "never_passed"
    """A rollback named a revision that never passed."""
    STALE_HEAD = "stale_head"
    """The channel had moved since its head was looked at."""


class Seen(Enum):
    """Stands for the head of a channel where the caller has not looked at it."""

    NOW = "now"


@dataclass(frozen=True, slots=True)
class Saved:
    """What saving came to: `created` is False where the same tree already was; `revision` is None where the
    tree cannot be stored, and then `problems` says why."""

    revision: Revision | None
    created: bool = False
    problems: tuple[Problem, ...] = ()


# --- saving --------------------------------------------------------------------------------------------


def save_revision(
    store: Store,
    path: str | os.PathLike[str],
    *,
    agent: str | None = None,
    by: Literal["builder", "person", "author", "import"],
    message: str,
    now: Callable[[], str],
    parents: Sequence[str] | None = None,
    source: Mapping[str, Any] | None = None,
    licence: Mapping[str, Any] | None = None,
    session: str | None = None,
) -> Saved:
    """Store the directory `path` as a revision and make it the agent's latest.

    Work in progress may be saved: an invalid bundle fails its validation later. What cannot be stored is a
    tree with links, odd files, clashes or too much in it, one that names no agent where `agent` does
    not, and any where `agent` can be no name. `parents` default to the latest revision; a source and a
    licence that are not given stay the first parent's, for what was edited still comes from there. Raises
    NotADirectoryError and StoreError.
    """
    survey = survey_tree(path, BUNDLE_CAPS)
    if survey.problems:
        return Saved(None, problems=tuple(survey.problems))
    root = open_directory(path)
    try:
        if agent and (problem := _no_name(agent)):
            return Saved(None, problems=(problem,))
        name = agent or _name_of(root, survey)
        if name is None:
            hint = "Add `name:` to agent.yaml, or say which agent it is."
            problem = Problem(ProblemCode.MISSING_KEY, MANIFEST, "there is no readable agent name", hint)
            return Saved(None, problems=(problem,))
        entries = tuple(_store_file(store, root, survey, entry) for entry in survey.entries)
    except OSError as error:
        problem = Problem(ProblemCode.UNREADABLE, str(error.filename or "."), f"cannot be read: {error.strerror}")
        return Saved(None, problems=(problem,))
    finally:
        os.close(root)
    digest = digest_entries(entries)
    if parents is None:
        latest = store.latest(name)
        parents = () if latest is None or latest == digest else (latest,)
    parent = store.revision(name, parents[0]) if parents else None
    if parent is not None:
        source = parent.source if source is None else source
        licence = parent.licence if licence is None else licence
    revision = Revision(name, digest, tuple(parents), now(), by, message, entries, source, licence, session)
    created = store.add_revision(revision)
    return Saved(revision if created else store.revision(name, digest) or revision, created)


def _no_name(agent: str) -> Problem | None:
    """What is wrong with a name that a person gives: everything else goes by names that need no quoting."""
    from core.bundle.fields import is_agent_name

    if is_agent_name(agent):
        return None
    message = f"{agent[:80]!r} cannot name an agent"
    return Problem(
        ProblemCode.BAD_NAME, MANIFEST, message, "Use 1 to 64 lower-case letters, digits and hyphens, no hyphen first."
    )


def _name_of(root: int, survey: Survey) -> str | None:
    """The name in agent.yaml, valid in itself even where the rest of the manifest is not."""
    from core.bundle.fields import is_agent_name

    if not any(entry.path == MANIFEST for entry in survey.entries):
        return None
    _, _, document = parse_manifest(read_regular(root, MANIFEST, MAX_BYTES + 1))
    name = document.value.get("name") if isinstance(document.value, dict) else None
    return name if isinstance(name, str) and is_agent_name(name) else None


def _store_file(store: Store, root: int, survey: Survey, entry: TreeEntry) -> TreeEntry:
    """Store one file's bytes. The entry is made of what was read now, so that tree and blobs always agree
    even where somebody is writing to the directory."""
    data = read_regular(root, survey.disk.get(entry.path, entry.path), BUNDLE_CAPS.file)
    return replace(entry, sha256=store.put_blob(data), size=len(data))


def materialise(store: Store, revision: Revision, dest: str | os.PathLike[str]) -> None:
    """Write a stored revision to `dest`, which is absent or empty.

    Raises FileExistsError, and StoreError `damaged` where the files do not have the revision's digest.
    """
    if digest_entries(revision.files) != revision.digest:
        hint = "Run `artificer doctor`; the revision has to be built or imported again."
        raise StoreError("damaged", f"the file list of {short(revision.digest)} is damaged", hint)
    write_tree(revision.files, store.blob, dest)


# --- validating ----------------------------------------------------------------------------------------


def validate_revision(
    store: Store,
    agent: str,
    digest: str,
    *,
    environment: Mapping[str, Any],
    now: Callable[[], str],
    new_id: Callable[[], str],
    extra_checks: Sequence[ExtraCheck] = (),
) -> ValidationRun:
    """Run the gate on exactly this revision and record the run, passed or not.

    `environment` says at least `sandbox` (its kind), `unsafe`, and `allow_unsafe` where a person allowed
    that. `extra_checks` run parts of the bundle in the sandbox, so they run only where the static checks
    passed. Raises UnknownRef and StoreError.
    """
    revision = store.revision(agent, digest)
    if revision is None:
        raise UnknownRef(f"the agent {agent} has no revision {short(digest)}", _what_there_is(store, agent))
    at = now()
    with tempfile.TemporaryDirectory(prefix="artificer-validate-") as scratch:
        path = Path(scratch, "bundle")
        outcomes = [_check_identity(store, revision, path)]
        if outcomes[0].passed:
            outcomes += run_checks(path)
            outcomes.append(_check_environment(revision, environment))
        if all(outcome.passed for outcome in outcomes):
            outcomes += [check(path) for check in extra_checks]
    run = ValidationRun(
        id=new_id(),
        agent=agent,
        digest=digest,
        at=at,
        passed=all(outcome.passed for outcome in outcomes),
        checks_version=CHECKS_VERSION,
        environment={"python": platform.python_version(), "platform": platform.system(), **environment},
        checks=tuple(outcome.to_json() for outcome in outcomes),
        problems=tuple(problem.to_json() for outcome in outcomes for problem in outcome.problems),
    )
    store.add_validation(run)
    return run


def _check_identity(store: Store, revision: Revision, path: Path) -> CheckOutcome:
    """Whether what is about to be checked is the revision, byte for byte."""
    begun = time.perf_counter()
    problem: Problem | None = None
    try:
        materialise(store, revision, path)
        found = digest_tree(path)
        if found != revision.digest:
            problem = Problem(ProblemCode.DIGEST_MISMATCH, ".", f"the written tree is {found}")
    except UnsafeTree as error:
        problem = error.problems[0]
    except StoreError as error:
        if error.code not in ("damaged", "not_found"):
            raise
        problem = Problem(ProblemCode.DIGEST_MISMATCH, ".", error.message, error.hint)
    passed = problem is None
    problems = () if problem is None else (problem,)
    return CheckOutcome("identity", passed, time.perf_counter() - begun, revision.digest, problems)


def _check_environment(revision: Revision, environment: Mapping[str, Any]) -> CheckOutcome:
    """A run without isolation says nothing about generated tools, unless a person allowed it."""
    kind = environment.get("sandbox")
    unsafe = bool(environment.get("unsafe")) or kind == "process"
    tools = any(entry.path.startswith("tools/") for entry in revision.files)
    if not (unsafe and tools and not environment.get("allow_unsafe")):
        return CheckOutcome("environment", True, 0.0, f"sandbox {kind}")
    hint = "Install bubblewrap or Docker, or say --allow-unsafe, which the run records."
    message = f"the bundle has tools, and the sandbox {kind} does not isolate"
    return CheckOutcome(
        "environment", False, 0.0, message, (Problem(ProblemCode.UNSAFE_SANDBOX, "tools", message, hint),)
    )


# --- publishing ----------------------------------------------------------------------------------------


def publish(
    store: Store,
    agent: str,
    digest: str,
    *,
    channel: str = LIVE,
    by: str,
    now: Callable[[], str],
    expected: str | Seen | None = Seen.NOW,
) -> ChannelEntry:
    """Let `channel` name `digest`; the entry that stands in its log comes back, with `refused` (a `Refusal`)
    set where it did not move.

    It needs a passed run of exactly this digest under the current checks. `expected` is the head the caller
    saw (None: there was none); where it is stale the publication is refused. Raises ValueError for a
    channel's name that cannot be one, and StoreError.
    """
    _channel_name(channel)
    head = store.channels(agent).get(channel) if isinstance(expected, Seen) else expected
    run, refusal = _verdict(store, agent, digest)
    entry = ChannelEntry(
        agent, channel, digest, run.id if run else None, now(), by, refusal and str(refusal), "publish"
    )
    return store.move_channel(entry, head)


def _verdict(store: Store, agent: str, digest: str) -> tuple[ValidationRun | None, Refusal | None]:
    """The newest passed run under the current checks, or why there is none (with the newest run, if any)."""
    if store.revision(agent, digest) is None:
        return None, Refusal.UNKNOWN_REVISION
    runs = store.validations(agent, digest)
    if not runs:
        return None, Refusal.NOT_VALIDATED
    current = [run for run in runs if run.checks_version == CHECKS_VERSION]
    if not current:
        return runs[-1], Refusal.CHECKS_CHANGED
    passed = [run for run in current if run.passed]
    return (passed[-1], None) if passed else (current[-1], Refusal.VALIDATION_FAILED)


def rollback(
    store: Store,
    agent: str,
    *,
    channel: str = LIVE,
    to: str | None = None,
    by: str,
    now: Callable[[], str],
    expected: str | Seen | None = Seen.NOW,
) -> ChannelEntry:
    """Let `channel` name an older revision again: `to` (any reference), or the one published before.

    Any revision that once passed will do; `checks_changed` says whether to warn. The entry comes back as
    from `publish`. Raises UnknownRef where there is nothing to go back to.
    """
    _channel_name(channel)
    head = store.channels(agent).get(channel) if isinstance(expected, Seen) else expected
    if to is not None:
        target = resolve_ref(store, agent, to)
    else:
        before = published_before(store.channel_log(agent), channel)
        if before is None:
            hint = "Name a revision that once passed with --to."
            raise UnknownRef(f"nothing was published on {channel} of {agent} before what it names now", hint)
        target = before
    passed = [run for run in store.validations(agent, target) if run.passed]
    refusal = None if passed else Refusal.NEVER_PASSED
    run = passed[-1].id if passed else None
    entry = ChannelEntry(agent, channel, target, run, now(), by, refusal and str(refusal), "rollback")
    return store.move_channel(entry, head)


def published_before(log: Sequence[ChannelEntry], channel: str) -> str | None:
    """What a rollback of `channel` goes back to. Its history is a stack: publishing puts a digest on it, a
    rollback takes off all above its target, so that going back twice goes back two publications."""
    stack: list[str] = []
    for entry in log:
        if entry.channel != channel or entry.refused is not None:
            continue
        if entry.action == "rollback" and entry.digest in stack:
            while stack[-1] != entry.digest:
                stack.pop()
        elif not stack or stack[-1] != entry.digest:
            stack.append(entry.digest)
    return stack[-2] if len(stack) > 1 else None


def checks_changed(store: Store, agent: str, digest: str) -> bool:
    """Whether a revision passed only under other checks than the current ones: a rollback to it warns."""
    passed = [run for run in store.validations(agent, digest) if run.passed]
    return bool(passed) and all(run.checks_version != CHECKS_VERSION for run in passed)


def _channel_name(channel: str) -> None:
    if not _CHANNEL.fullmatch(channel) or channel == "latest":
        raise ValueError(f"{channel!r} cannot name a channel: use lower-case letters, digits and hyphens")


# --- naming --------------------------------------------------------------------------------------------


def resolve_ref(store: Store, agent: str, ref: str | None = None, default: Literal["latest", "live"] = "latest") -> str:
    """The digest that `ref` means: a channel, `latest`, a digest, or the unique beginning of one, with or
    without `sha256:`. None means the default. Raises UnknownRef, which says what there is."""
    latest = store.latest(agent)
    if latest is None:
        known = ", ".join(store.agents()[:20])
        raise UnknownRef(f"there is no agent {agent}", f"There are: {known}." if known else "Build one first.")
    channels = store.channels(agent)
    if ref is not None and not ref.removeprefix("sha256:"):
        raise UnknownRef(f"an empty name means no revision of {agent}", _what_there_is(store, agent))
    ref = ref or default
    if ref in channels:
        return channels[ref]
    if ref == "latest":
        return latest
    if ref == LIVE:
        hint = f"Publish a revision, or name one: {agent}@{short(latest)}."
        raise UnknownRef(f"nothing of {agent} is published on {LIVE}", hint)
    prefix = "sha256:" + ref.removeprefix("sha256:").lower()
    matches = sorted({r.digest for r in store.revisions(agent) if r.digest.startswith(prefix)})
    if len(matches) > 1:
        listed = ", ".join(short(match) for match in matches[:10])
        raise UnknownRef(
            f"the name {ref} means more than one revision of {agent}", f"It begins {listed}: say more of it."
        )
    if not matches:
        raise UnknownRef(f"the agent {agent} has no revision or channel {ref}", _what_there_is(store, agent))
    return matches[0]


def _what_there_is(store: Store, agent: str) -> str:
    channels = sorted(store.channels(agent))
    revisions = [short(revision.digest) for revision in store.revisions(agent)[-5:]]
    parts = [f"channels: {', '.join(channels)}"] if channels else []
    parts += [f"latest revisions: {', '.join(revisions)}"] if revisions else []
    return "There are " + "; ".join(parts) + "." if parts else f"There is no agent {agent}."


def short(digest: str) -> str:
    """The beginning of a digest that people are shown."""
    return digest.removeprefix("sha256:")[:12]
