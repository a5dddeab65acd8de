"""A host for screens: the real store on a clock that is told what time it is, a sandbox by name, and scenes to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core import Host, Option, SandboxUnavailable, SessionInfo, Waiting, save_revision
from impl.compose import build_host
from impl.settings import Settings
from impl.store.sqlite import SqliteStore

NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


class Clock:
    """Time that passes only when told to: `tick` seconds at each reading while it runs."""

    def __init__(self, at: datetime = NOON) -> None:
        self.at = at
        self.tick = timedelta(0)

    def __call__(self) -> str:
        """The time, ISO 8601 with Z."""
        self.at += self.tick
        return self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def ago(self, minutes: float) -> None:
        """It is so many minutes before noon, and passes by a second at each reading."""
        self.at, self.tick = NOON - timedelta(minutes=minutes), timedelta(seconds=1)

    def noon(self) -> None:
        """It is noon, and stays so."""
        self.at, self.tick = NOON, timedelta(0)


@dataclass(slots=True)
class NamedSandbox:
    """A sandbox that only has a name."""

    name: str
    unsafe: bool = False


@dataclass(slots=True)
class NamedSandboxes:
    """Chooses the one it was made with."""

    sandbox: NamedSandbox | None = field(default_factory=lambda: NamedSandbox("bubblewrap"))

    async def choose(self, requested: str | None) -> tuple[Any, str]:
        """It."""
        if self.sandbox is None:
            raise SandboxUnavailable("none works here")
        return self.sandbox, "for tests"


@dataclass(slots=True)
class Stage:
    """A host, its clock, and short words to put things into its store."""

    host: Host
    clock: Clock
    count: int = 0

    def session(
        self,
        title: str,
        *events: tuple[str, Mapping[str, Any]],
        minutes: float = 10,
        kind: str = "builder",
        **columns: Any,
    ) -> str:
        """A session as it was left `minutes` before noon: its first message is `title`."""
        self.count += 1
        name = columns.pop("id", f"s{self.count:011d}")
        self.clock.ago(minutes)
        info = SessionInfo(
            id=name,
            kind=kind,
            started=self.clock(),
            title=title,
            provider=columns.pop("provider", "scripted"),
            model=columns.pop("model", "scripted-1"),
            usd="0.00",
            **{key: columns.pop(key) for key in ("agent", "digest", "parent", "sandbox", "depth") if key in columns},
        )
        started = {"kind": kind, "provider": info.provider, "model": info.model}
        store = self.host.store
        store.create_session(info, [("started", started), ("message", {"role": "user", "text": title})])
        for event in events:
            store.append(name, [event])
        if columns:
            store.append(name, [], {"ended": self.clock() if columns.get("stop") else None, **columns})
        if columns.get("stop"):
            store.release(name)
        self.clock.noon()
        return name

    def revision(
        self,
        agent: str,
        files: Mapping[str, str],
        *,
        minutes: float,
        by: Any = "builder",
        message: str = "",
        parents: Sequence[str] | None = None,
        scratch: Path,
    ) -> str:
        """A revision made of files, saved `minutes` before noon; its digest."""
        self.clock.ago(minutes)
        for path, text in files.items():
            target = scratch / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        saved = save_revision(
            self.host.store, scratch, agent=agent, by=by, message=message, now=self.clock, parents=parents
        )
        assert saved.revision is not None, saved.problems
        self.clock.noon()
        return saved.revision.digest


def stage(home: Path, **settings: Any) -> Stage:
    """An empty stage on `home`."""
    clock = Clock()
    host = build_host(home, Settings(**{"provider": "scripted", **settings}))
    host.store.close()
    host.store = SqliteStore(home, now=clock)
    host.sandboxes = NamedSandboxes()
    host.now = clock
    numbers = iter(range(1, 1_000_000))
    host.new_id = lambda: f"n{next(numbers):011d}"
    return Stage(host, clock)


# --- bodies of events --------------------------------------------------------------------------------------


def said(text: str, turn: int = 1) -> tuple[str, dict[str, Any]]:
    """A reply of the agent's."""
    return "message", {"role": "assistant", "id": f"m{turn}", "text": text, "turn": turn}


def ran(command: str, output: str = "", *, call: str, code: int = 0, seconds: float = 0.2) -> list[tuple[str, Any]]:
    """A command with what it printed and how it ended."""
    text = output or "[no output]"
    return [
        ("tool_call", {"call": call, "tool": "run_sandbox", "args": {"command": command}, "turn": 1}),
        (
            "tool_result",
            {"call": call, "ok": code == 0, "output": text, "duration_s": seconds, "data": {"exit_code": code}},
        ),
    ]


def stopped(
    stop: str,
    *,
    waiting: Waiting | None = None,
    detail: str | None = None,
    output: str | None = None,
    evidence: Any = None,
) -> tuple[str, dict[str, Any]]:
    """A stop."""
    return "stop", {
        "stop": stop,
        "detail": detail,
        "output": output,
        "waiting": waiting.to_json() if waiting else None,
        "evidence": evidence,
    }


def question(message: str, *labels: str, recommended: int | None = None, **more: Any) -> Waiting:
    """A question with numbered options `o1`, `o2`, …"""
    options = tuple(Option(f"o{n}", label) for n, label in enumerate(labels, 1))
    return Waiting("question", "call_q", message, options, f"o{recommended}" if recommended else None, **more)


Scene = Callable[[Stage], str | None]
