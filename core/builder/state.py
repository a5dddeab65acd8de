"""Where a build stands, projected from its session's events: the current revision, whether it passed, what is live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.events import Event


@dataclass(slots=True)
class BuildState:
    """A reducer over a Builder session's events.

    `digest` is the current revision of `agent`; `passed` says whether it passed validation since the
    person's last message, `channel` where it is published. `source` is the last source brought in.
    """

    agent: str | None = None
    digest: str | None = None
    passed: bool = False
    channel: str | None = None
    publish_requested: bool = False
    editing: str | None = None
    source: Mapping[str, Any] | None = None
    licence: Mapping[str, Any] | None = None
    problems: list[Mapping[str, Any]] = field(default_factory=list)

    def apply(self, event: Event) -> None:
        """Take one more event."""
        data = event.data
        match event.kind:
            case "started":
                self.publish_requested = bool(data.get("publish"))
                self.editing = data.get("agent")
                self.agent = data.get("agent")
                self.digest = data.get("digest")
            case "message" if data.get("role") == "user":
                self.passed = False
            case "source":
                self.source = data
                self.licence = data.get("licence")
            case "revision":
                self.agent, self.digest = data.get("agent"), data.get("digest")
                self.passed, self.channel = False, None
            case "validation" if data.get("digest") == self.digest:
                self.passed = bool(data.get("passed"))
                problems = data.get("problems")
                self.problems = [p for p in problems if isinstance(p, Mapping)] if isinstance(problems, list) else []
            case "published" if data.get("digest") == self.digest and not data.get("refused"):
                self.channel = data.get("channel")
            case _:
                pass

    @property
    def done(self) -> bool:
        """Whether a plain reply now means the build is complete."""
        return self.passed and (self.channel is not None or not self.publish_requested)
