"""Runs jobs on a cluster, as the Runner here would run them here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from core import Attempts, Host, Job, Lost, Ran, Runner
from impl.engines.dask.leases import Leases

MOST_LOST: Final = 3


class ClusterRunner(Runner):
    """A Runner whose jobs run on the workers of a cluster. What is lost with a worker is begun anew where it had begun
    no effect, under a new session; a job that names its session is begun once, and whoever named it does that."""

    def __init__(self, host: Host, leases: Leases) -> None:
        super().__init__(host)
        self._leases = leases
        self._attempts = Attempts(host)

    async def run(self, job: Job, *, before: Callable[[str], None] = lambda session: None) -> Ran:
        """See `Runner`. Raises Lost too, and EngineError."""
        if job.session is not None:
            return await self._once(job, before)
        for _ in range(MOST_LOST):
            try:
                return await self._once(replace(job, session=self._host.new_id()), before)
            except Lost as gone:
                lost = gone
                if self._attempts.may_have_acted(gone.session):
                    break
        raise lost

    def interrupt(self, session: str) -> bool:
        """See `Runner`."""
        return self._leases.interrupt(session) or super().interrupt(session)

    def runs_elsewhere(self, session: str) -> bool:
        """See `Runner`."""
        return self._leases.holds(session)

    async def _once(self, job: Job, before: Callable[[str], None]) -> Ran:
        session = job.session or ""
        before(session)
        outcome = await self._leases.run(job)
        info = self._host.store.session(session)
        if info is None:
            raise Lost(session, "its worker said nothing of it")
        ran = self._attempts.ran(info, job.preset)
        return ran if outcome.cancelled else replace(ran, duration_s=outcome.duration_s)
