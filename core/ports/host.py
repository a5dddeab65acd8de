"""`Host`, which holds one of each port: what the composition root hands to the domain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.ports.sandbox import Sandboxes
from core.ports.secrets import Secrets
from core.ports.store import SessionInfo, Store
from core.ports.transport import Transport

if TYPE_CHECKING:
    from core.agent_cli.tools import ToolDoor
    from core.driver import Driver
    from core.provider import Provider


def no_environment(driver: Driver, suite: Mapping[str, Any]) -> Driver:
    """Stands for a host without suites. Raises LookupError."""
    raise LookupError("This host has no suites.")


@dataclass(slots=True)
class Host:
    """One of each port, plus the clock and ids: what the composition root hands to the domain.

    `checks(host, sandbox)` are the checks of the gate that run parts of a bundle in that sandbox. `doors` are the
    tools of sessions whose provider drives itself, by session; `offer` makes them reachable for other processes and
    gives the command, and its environment, that brings a session's to an MCP client. `environment` puts an agent into
    the environment of a suite (`{"path", "digest"}`).
    """

    home: Path
    store: Store
    sandboxes: Sandboxes
    provider: Callable[[str], Provider]
    driver: Callable[[Host, SessionInfo], Driver]
    settings: Any
    now: Callable[[], str]
    new_id: Callable[[], str]
    secrets: Secrets | None = None
    transport: Transport | None = None
    checks: Callable[[Host, str | None], Sequence[Callable[[Path], Any]]] = lambda host, sandbox: ()
    doors: dict[str, ToolDoor] = field(default_factory=dict)
    offer: Callable[[Host, str], Awaitable[tuple[Sequence[str], Mapping[str, str]]]] | None = None
    environment: Callable[[Driver, Mapping[str, Any]], Driver] = no_environment

    def workspace_path(self, session: str) -> Path:
        """The host directory of a session's `/work`."""
        return self.home / "workspaces" / session / "work"
