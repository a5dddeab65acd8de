"""The runner: composes a preset and executes one task; that is all it can do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final, Literal

from core.driver import Limits
from core.lab.handover import Start, lay_out
from core.launch import LaunchInput, Outcome
from core.policy import Inherited
from core.ports import Host, SessionInfo, Store
from core.provider import Provider
from core.stops import Stop
from core.supervisor import Supervisor

Kind = Literal["child", "arm", "case"]
BUILDER: Final = "builder"
"""What people call the Builder where an agent is asked for; a stored agent of that name is `builder@latest`."""


class NotAPreset(ValueError):
    """This is no preset id at all: a path, a package, an address, a row of settings."""


class Lost(Exception):
    """The machine that ran a job is gone, or could not go on. `session` is settled as cancelled, as far as it came; it
    may be begun anew under another id where it had begun no effect."""

    def __init__(self, session: str, why: str) -> None:
        super().__init__(f"{session}: {why}")
        self.session = session
        self.why = why


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset id and what it resolved to. `channel` is None where it names a digest."""

    id: str
    agent: str
    digest: str
    channel: str | None


def resolve_preset(store: Store, preset: str, default: Literal["live", "latest"] = "live") -> Preset:
    """The revision that `AGENT`, `AGENT@CHANNEL` or `AGENT@DIGEST` means now. `AGENT@latest`, published or not, is
    meant by those alone whose default it is. Raises NotAPreset, UnknownRef."""
    from core.bundle.fields import split_preset
    from core.bundle.revisions import UnknownRef, resolve_ref

    found = split_preset(preset)
    if found is None:
        raise NotAPreset(f"{preset[:80]!r} is no preset: AGENT, AGENT@CHANNEL or AGENT@DIGEST.")
    agent, ref = found
    if ref == "latest" and default == "live" and ref not in store.channels(agent):
        raise UnknownRef(f"{preset} names no channel", "Name a channel or a digest.")
    digest = resolve_ref(store, agent, ref, default=default)
    channel = ref if ref in store.channels(agent) else None if ref or default == "latest" else "live"
    return Preset(preset, agent, digest, channel)


@dataclass(frozen=True, slots=True)
class Build:
    """What only the Builder is given with its task: a directory that is its source, and whether to publish."""

    source: Path | None = None
    publish: bool = False


def builder_preset() -> Preset:
    """The Builder itself, named by the digest of its built-in bundle. No agent can name it."""
    from core.bundle.tree import digest_tree

    with as_file(files("core.builder").joinpath("bundle")) as bundle:
        return Preset(BUILDER, BUILDER, digest_tree(bundle), None)


@dataclass(frozen=True, slots=True)
class Job:
    """One task for one preset. What is None is the settings' or the agent's own; `answers` are given, in order, to
    what the session waits for; `start` is what its workspace begins with; `build` is given where the Builder is run.
    The rest is as in LaunchInput."""

    preset: Preset
    task: str
    kind: Kind = "arm"
    session: str | None = None
    parent: str | None = None
    depth: int = 0
    provider: str | Provider | None = None
    model: str | None = None
    effort: str | None = None
    sandbox: str | None = None
    context_window: int | None = None
    limits: Limits = field(default_factory=Limits)
    replay: str | None = None
    network: bool = True
    inherited: Inherited | None = None
    suite: Mapping[str, Any] | None = None
    start: Start = field(default_factory=Start)
    answers: tuple[str, ...] = ()
    build: Build | None = None
    persona: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """What all jobs of a comparison, evaluation or experiment have in common; None is the settings' own."""

    provider: str | Provider | None = None
    model: str | None = None
    sandbox: str | None = None

    def job(self, preset: Preset, task: str, **fields: Any) -> Job:
        """A job in this setting; `fields` are further ones of Job."""
        return Job(preset, task, provider=self.provider, model=self.model, sandbox=self.sandbox, **fields)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a job came to. `duration_s` is wall time: a diagnostic, never a score. `usd` is None while unknown."""

    session: str
    preset: Preset
    outcome: Outcome
    duration_s: float

    @property
    def stop(self) -> Stop:
        """Why it is not running."""
        return self.outcome.stop

    @property
    def info(self) -> SessionInfo:
        """The session's columns at its end."""
        return self.outcome.info

    @property
    def output(self) -> str:
        """The last reply's text."""
        return self.outcome.record.output or ""

    def to_json(self) -> dict[str, Any]:
        """The evidence of one run: what was asked of which revision, how it ended, what it took."""
        result = self.outcome.to_json()
        taken = ("stop", "session", "output", "usage", "cost", "detail", "waiting")
        preset = {"preset": self.preset.id, "agent": self.preset.agent, "digest": self.preset.digest}
        return {
            **preset,
            "channel": self.preset.channel,
            **{name: result[name] for name in taken},
            "duration_s": round(self.duration_s, 3),
        }


class Runner:
    """Runs jobs, each in a session of its own; the live handle goes when it stops, the session stays."""

    def __init__(self, host: Host, supervisor: Supervisor | None = None) -> None:
        self._host = host
        self._supervisor = supervisor or Supervisor(host)

    async def run(self, job: Job, *, before: Callable[[str], None] = lambda session: None) -> Ran:
        """Run `job` to its stop. `before` is told its session's id when everything stands ready and nothing runs yet.

        Cancelled, it interrupts the session and waits until that is settled. Raises BadStart, StoreError.
        """
        session = job.session or self._host.new_id()
        launch = self._launch(job)
        launch = replace(
            launch,
            session=session,
            kind=job.kind if job.build is None else launch.kind,
            channel=job.preset.channel,
            parent=job.parent,
            depth=job.depth,
            effort=job.effort,
            context_window=job.context_window or launch.context_window,
            network=job.network,
            inherited=job.inherited,
            suite=job.suite,
            persona=job.persona,
        )
        if not job.start.empty:
            await asyncio.to_thread(lay_out, job.start, self._host.workspace_path(session))
        before(session)
        began = time.monotonic()
        self._supervisor.start(launch)
        outcome = await settled(self._supervisor, session)
        for answer in job.answers:
            if outcome.record.waiting is None and outcome.stop is not Stop.AWAITING_USER:
                break
            self._supervisor.answer(session, answer)
            outcome = await settled(self._supervisor, session)
        return Ran(session, job.preset, outcome, time.monotonic() - began)

    def interrupt(self, session: str) -> bool:
        """Stop a session that it runs, wherever that is; False where it runs none of that id."""
        return self._supervisor.interrupt(session)

    def runs_elsewhere(self, session: str) -> bool:
        """Whether it has another machine run that session: then nobody may drive it here."""
        return False

    def _launch(self, job: Job) -> LaunchInput:
        from core.doors import build_launch, run_launch

        common: dict[str, Any] = {
            "provider": job.provider,
            "model": job.model,
            "sandbox": job.sandbox,
            "limits": job.limits,
        }
        if job.build is None:
            preset = job.preset
            return run_launch(self._host, preset.agent, preset.digest, job.task, replay=job.replay, **common)
        source = str(job.build.source) if job.build.source is not None else None
        return build_launch(self._host, source=source, message=job.task, publish=job.build.publish, **common)


async def settled(supervisor: Supervisor, session: str) -> Outcome:
    """The outcome of a session's drive. Cancelled, it interrupts the session and waits until that is settled."""
    try:
        return await supervisor.wait(session)
    except asyncio.CancelledError:
        if supervisor.interrupt(session):
            await supervisor.wait(session)
        raise
