"""What the screens do with agents: the tree, validating, publishing, rolling back, editing. No widgets in here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core import ChannelEntry, Host, Revision, ValidationRun
from tui.view.fleet import AgentInfo
from tui.view.text import Line, Tone, line, one_line, safe, short

if TYPE_CHECKING:
    from tui.view.bundles import Move

LIVE = "live"


@dataclass(frozen=True, slots=True)
class Agent:
    """Everything that is stored of one agent. Rows are oldest first."""

    name: str
    revisions: Sequence[Revision]
    runs: Sequence[ValidationRun]
    channels: dict[str, str]
    log: Sequence[ChannelEntry]


class Shelf:
    """The agents of a host. Methods block for as long as the store or the gate does: call them in a thread."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.store = host.store

    # --- looking -----------------------------------------------------------------------------------

    def agents(self) -> list[AgentInfo]:
        """All agents, by name."""
        store = self.store
        return [AgentInfo(name, store.channels(name).get(LIVE), store.latest(name)) for name in store.agents()]

    def agent(self, name: str) -> Agent:
        """One agent."""
        store = self.store
        return Agent(
            name, store.revisions(name), store.validations(name), store.channels(name), store.channel_log(name)
        )

    def mark(self, name: str) -> object:
        """Changes with everything that is done to an agent; cheap to ask for."""
        runs = self.store.validations(name)
        return self.store.channels(name), self.store.latest(name), len(runs), len(self.store.channel_log(name))

    def diff(self, agent: str, a: str | None, b: str) -> tuple[Line, ...]:
        """What changed from `a` (None: from nothing) to `b`, as lines. Raises UnknownRef, StoreError."""
        from core import diff_revisions

        before = self.revision(agent, a) if a is not None else None
        found = diff_revisions(self.store, before, self.revision(agent, b))
        head = [line((f"{short(a) if a else 'nothing'} → {short(b)}", Tone.STRONG)), ()]
        head += [*(line("  " + text) for text in found.summary()), ()]
        return (*head, *(_diff_line(text) for text in found.text().split("\n")))

    def revision(self, agent: str, digest: str) -> Revision:
        """A stored revision. Raises UnknownRef."""
        found = self.store.revision(agent, digest)
        if found is None:
            from core import UnknownRef

            raise UnknownRef(f"{agent} has no revision {short(digest)}")
        return found

    def file(self, agent: str, digest: str, path: str) -> str:
        """A text file of a revision; empty where there is none."""
        for entry in self.revision(agent, digest).files:
            if entry.path == path:
                return self.store.blob(entry.sha256).decode("utf-8", "replace")
        return ""

    def holds(self, agent: str, digest: str, path: str | None) -> bool:
        """Whether a revision has a file of that path."""
        return any(entry.path == path for entry in self.revision(agent, digest).files)

    def persona(self, agent: str, digest: str) -> str:
        """The path of a revision's persona; agent.yaml where there is no other text to edit."""
        paths = {entry.path for entry in self.revision(agent, digest).files}
        return "persona.md" if "persona.md" in paths else "agent.yaml"

    def read(self, agent: str, digest: str) -> tuple[Line, ...]:
        """A revision to read: manifest, persona, files, and what stands beside it. A text that is lost says so in its
        place. Raises UnknownRef, StoreError."""
        from core import StoreError

        found = self.revision(agent, digest)
        beside = (("digest", digest), ("by", f"{found.by} at {found.at}"), ("message", found.message))
        lines = [line((f"{name:9}", Tone.DIM), one_line(value, 400)) for name, value in beside]
        for name, facts in (("source", found.source), ("licence", found.licence)):
            words = ", ".join(f"{key} {value}" for key, value in (facts or {}).items() if value is not None)
            lines.append(line((f"{name:9}", Tone.DIM), one_line(words or "none", 400)))
        for path in ("agent.yaml", "persona.md"):
            try:
                text = safe(self.file(agent, digest, path)).expandtabs(4).rstrip("\n")
            except StoreError as error:
                text = safe(f"[cannot be read: {error.message}]")
            lines += [(), line((path, Tone.STRONG)), *(line("  " + part) for part in text.split("\n"))]
        lines += [(), line(("files", Tone.STRONG))]
        for entry in found.files:
            lines.append(line((f"{entry.size:>9} {'x' if entry.x else ' '} ", Tone.DIM), safe(entry.path)))
        return tuple(lines)

    # --- validating and moving ---------------------------------------------------------------------

    async def validate(self, agent: str, digest: str) -> ValidationRun:
        """Run the gate on a revision, here, and record it."""
        import asyncio

        from core import validate_revision
        from impl.drivers.builder import environment

        surroundings = await environment(self.host, self.host.settings.sandbox)
        return await asyncio.to_thread(
            validate_revision,
            self.store,
            agent,
            digest,
            environment=surroundings,
            now=self.host.now,
            new_id=self.host.new_id,
            extra_checks=self.host.checks(self.host, self.host.settings.sandbox),
        )

    def passed(self, agent: str, digest: str, *, ever: bool = False) -> ValidationRun | None:
        """The newest passed run of a revision under the current checks, or (`ever`) under any."""
        from core import CHECKS_VERSION

        runs = [run for run in self.store.validations(agent, digest) if run.passed]
        current = [run for run in runs if run.checks_version == CHECKS_VERSION]
        return current[-1] if current else runs[-1] if ever and runs else None

    def plan(self, agent: str, digest: str, *, rollback: bool = False, channel: str = LIVE) -> Move:
        """What publishing `digest` (or rolling back to it) would do now."""
        from core import diff_revisions
        from tui.view.bundles import Move, difference

        head = self.store.channels(agent).get(channel)
        before = self.store.revision(agent, head) if head is not None else None
        summary = difference(diff_revisions(self.store, before, self.revision(agent, digest)))
        run = self.passed(agent, digest, ever=rollback)
        current = self.passed(agent, digest)
        warning = "It passed under other checks than the current ones." if run is not None and current is None else ""
        if head == digest:
            warning = "It is what the channel names already."
        return Move("rollback" if rollback else "publish", agent, channel, digest, head, run, summary, warning)

    def before_live(self, agent: str, channel: str = LIVE) -> str:
        """The digest a rollback goes back to. Raises UnknownRef where there is none."""
        from core import UnknownRef, published_before

        found = published_before(self.store.channel_log(agent), channel)
        if found is None:
            raise UnknownRef(f"Nothing of {agent} was published on {channel} before what it names now.")
        return found

    def move(self, move: Move) -> ChannelEntry:
        """Do it: the entry that stands in the channel's log, refused ones included."""
        from core import publish, rollback

        if move.action == "publish":
            return publish(
                self.store,
                move.agent,
                move.digest,
                channel=move.channel,
                by="person",
                now=self.host.now,
                expected=move.head,
            )
        return rollback(
            self.store,
            move.agent,
            channel=move.channel,
            to=move.digest,
            by="person",
            now=self.host.now,
            expected=move.head,
        )

    # --- editing -----------------------------------------------------------------------------------

    def checkout(self, agent: str, digest: str) -> Path:
        """A directory with the revision's files, to be edited; the one that is there already where it holds what was
        edited before and not saved."""
        from core import materialise

        directory = self.host.home / "checkouts" / f"{agent}-{short(digest)}"
        if directory.exists():
            if not self.untouched(directory, digest):
                return directory
            self.forget(directory)
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        materialise(self.store, self.revision(agent, digest), directory)
        return directory

    def untouched(self, directory: Path, digest: str) -> bool:
        """Whether a checked out revision is as it was."""
        from core import UnsafeTree, digest_tree

        try:
            return digest_tree(directory) == digest
        except (UnsafeTree, OSError):
            return False

    def forget(self, directory: Path) -> None:
        """Remove a directory that was checked out."""
        shutil.rmtree(directory, ignore_errors=True)

    def save(self, agent: str, directory: Path, parent: str, message: str) -> tuple[Revision | None, bool, list[str]]:
        """Save an edited directory as a person's revision: it, whether it is new, and why it cannot be stored."""
        from core import save_revision

        found = self.revision(agent, parent)
        saved = save_revision(
            self.store,
            directory,
            agent=agent,
            by="person",
            message=message,
            now=self.host.now,
            parents=(parent,),
            source=found.source,
            licence=found.licence,
        )
        return saved.revision, saved.created, [f"{p.path}: {p.message}" for p in saved.problems]


def editor() -> list[str] | None:
    """The person's editor as a command, or None where there is none."""
    for name in ("VISUAL", "EDITOR"):
        if os.environ.get(name, "").strip():
            import shlex

            return shlex.split(os.environ[name])
    for name in ("nano", "vim", "vi"):
        if shutil.which(name):
            return [name]
    return None


def _diff_line(text: str) -> Line:
    text = safe(text).expandtabs(4)
    if text.startswith(("+++", "---", "@@")):
        return line((text, Tone.DIM))
    if text.startswith("+"):
        return line((text, Tone.ADDED))
    if text.startswith("-"):
        return line((text, Tone.REMOVED))
    return line(text)
