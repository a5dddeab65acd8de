"""Starting a loop: `launch_agent` is the only way, for the product and for an eval harness alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.driver import Driver, Limits
from core.events import Event
from core.policy import Inherited
from core.ports import Host, SessionInfo
from core.provider import Provider
from core.session import Bus
from core.stops import Stop, StopRecord, Waiting

if TYPE_CHECKING:
    from core.supervisor import Supervisor


class Busy(Exception):
    """Another process drives this session; hand over to it."""


class NoSuchSession(LookupError):
    """There is no session with that id."""


@dataclass(slots=True)
class Mailbox:
    """What reaches a running loop from outside: words for its next turn. `stopped` is true once the drive has
    stored its stop and takes no more."""

    inbox: list[str] = field(default_factory=list)
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class LaunchInput:
    """What to start or go on with.

    A new session needs `task` (the first message) and may fix `session`, its id. An existing `session` goes
    on: with `task` as the person's next message, with `answer` to what it waits for, or with neither.
    `provider` is a name or a Provider; what is None keeps what the session was started with. `watch` sees
    every event once it is stored. With `replay`, effects are answered from that session's record alone.

    Fixed with a new session: `inherited`, what a child may not exceed; `network`, whether its sandbox may have one;
    `suite`, the environment it stands in instead of the agent's own (`{"path", "digest"}`); `persona`, the text that is
    tried in place of its revision's, which is on record beside the digest. Children it starts are
    driven by `supervisor`, by one of its own where it has none.
    """

    host: Host
    session: str | None = None
    task: str | None = None
    answer: str | None = None
    kind: str = "run"
    agent: str | None = None
    digest: str | None = None
    channel: str | None = None
    parent: str | None = None
    depth: int = 0
    provider: str | Provider | None = None
    model: str | None = None
    effort: str | None = None
    sandbox: str | None = None
    limits: Limits = field(default_factory=Limits)
    publish: bool = False
    source: str | None = None
    replay: str | None = None
    context_window: int | None = None
    inherited: Inherited | None = None
    network: bool = True
    suite: Mapping[str, Any] | None = None
    persona: str | None = None
    supervisor: Supervisor | None = None
    mailbox: Mailbox = field(default_factory=Mailbox)
    watch: Callable[[Event], None] | None = None
    bus: Bus = field(default_factory=Bus)

    @property
    def provider_name(self) -> str | None:
        """The name of `provider`, however it was given."""
        return self.provider.full_name if isinstance(self.provider, Provider) else self.provider


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a drive ended: the stop, and the session's columns as they stand now."""

    stop: Stop
    info: SessionInfo
    record: StopRecord
    agent: str | None = None
    revision: str | None = None
    channel: str | None = None

    @staticmethod
    def of(info: SessionInfo, stop: Mapping[str, Any]) -> Outcome:
        """The outcome that a session's columns and the body of its `stop` event stand for."""
        record = StopRecord.from_json(stop)
        return Outcome(record.stop, info, record, info.agent, info.digest, info.channel)

    def to_json(self) -> dict[str, Any]:
        """The result line of the command line; every field present, null where nothing applies."""
        waiting = self.record.waiting
        return {
            "type": "result",
            "stop": self.stop.value,
            "session": self.info.id,
            "agent": self.agent or self.info.agent,
            "revision": self.revision or self.info.digest,
            "channel": self.channel or self.info.channel,
            "output": self.record.output,
            "waiting": outside(waiting) if waiting else None,
            "evidence": self.record.evidence,
            "usage": {
                "input_tokens": self.info.input_tokens,
                "output_tokens": self.info.output_tokens,
                "cached_tokens": self.info.cached_tokens,
                "requests": self.info.requests,
            },
            "cost": {"usd": self.info.usd},
            "detail": self.record.detail,
        }


def outside(waiting: Waiting) -> dict[str, Any]:
    """`waiting` as the command line prints it."""
    names = ("kind", "id", "message", "options", "recommended", "names")
    return {name: value for name, value in waiting.to_json().items() if name in names}


async def launch_agent(driver: Driver, launch: LaunchInput) -> Outcome:
    """Drive one session of the agent that `driver` is to its next stop.

    Raises Busy where another process drives it, NoSuchSession, and StoreError where nothing can be stored.
    A cancelled task leaves a session that is whole and can go on, stopped as `cancelled`.
    """
    from core.drive import Drive

    drive = Drive(driver, launch)
    try:
        return await drive.to_stop()
    finally:
        await drive.close()
