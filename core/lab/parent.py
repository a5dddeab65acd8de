"""A drive as a parent: what it hands to the children it starts, as it stands when each begins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.driver import Persona
from core.lab.delegation import DEEPEST, Delegation, Parent
from core.lab.runner import Job, Preset, Runner
from core.supervisor import Supervisor

if TYPE_CHECKING:
    from core.drive import Drive


def delegation_of(drive: Drive, persona: Persona) -> Delegation:
    """What starts the children of the agent that `drive` runs, and counts what they spend."""
    runner = Runner(drive.host, drive.launch.supervisor or Supervisor(drive.host))
    return Delegation(_parent(drive, persona), runner, drive.host.store)


def _parent(drive: Drive, persona: Persona) -> Parent:
    inherited, depth = drive.standing.inherited, drive.log.info.depth
    return Parent(
        log=drive.log,
        presets=persona.delegates,
        deepest=min(DEEPEST, depth + persona.max_depth, DEEPEST if inherited is None else inherited.deepest),
        workspace=drive.host.workspace_path(drive.log.id),
        policy=lambda: drive.policy_now(persona),
        limits=lambda: drive.standing.limits(persona.limits),
        seconds=lambda: drive.standing.driven_s + time.monotonic() - drive.began,
        job=lambda preset, task: _job(drive, preset, task),
    )


def _job(drive: Drive, preset: Preset, task: str) -> Job:
    """A job with the parent's provider, sandbox kind, network policy, environment and record to replay. An unsafe
    sandbox nobody asked for by name is not passed on by name: that would be a yes."""
    sandbox = drive.sandbox
    return Job(
        preset,
        task,
        provider=drive.provider,
        model=drive.log.info.model,
        effort=drive.effort,
        sandbox=sandbox.name if sandbox is not None and not sandbox.unsafe else drive.sandbox_name,
        context_window=drive.launch.context_window,
        replay=drive.standing.replay,
        network=drive.standing.network,
        suite=drive.standing.suite,
    )
