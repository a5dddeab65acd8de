"""The doors through which sessions begin, and the one by which an abandoned one ends, for every surface."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.driver import Limits
from core.launch import LaunchInput
from core.ports import Host

NO_SOURCE = "Build an agent."


def build_launch(
    host: Host,
    *,
    source: str | None = None,
    message: str | None = None,
    agent: str | None = None,
    provider: Any = None,
    model: str | None = None,
    effort: str | None = None,
    sandbox: str | None = None,
    publish: bool = False,
    limits: Limits | None = None,
) -> LaunchInput:
    """A new Builder session: from a source, from the person's words, or from neither (it will ask).

    With `agent` it edits that agent, starting from its latest revision. Raises UnknownRef where there is no
    such agent.
    """
    from core.bundle.revisions import resolve_ref

    digest = resolve_ref(host.store, agent, None, default="latest") if agent else None
    first = f"Build an agent from {source}" if source else ""
    task = "\n\n".join(part for part in (first, (message or "").strip()) if part) or NO_SOURCE
    return LaunchInput(
        host=host,
        task=task,
        kind="builder",
        agent=agent,
        digest=digest,
        provider=provider or _default(host, "provider"),
        model=model or _default(host, "model"),
        effort=effort or _default(host, "effort"),
        sandbox=sandbox or _default(host, "sandbox"),
        context_window=_default(host, "context_window"),
        publish=publish,
        source=source,
        limits=limits or Limits(),
    )


def run_launch(
    host: Host,
    agent: str,
    ref: str | None,
    task: str,
    *,
    provider: Any = None,
    model: str | None = None,
    effort: str | None = None,
    sandbox: str | None = None,
    limits: Limits | None = None,
    replay: str | None = None,
) -> LaunchInput:
    """A new run of an agent: its `live` revision, or the one `ref` (a digest or a channel) names. Raises UnknownRef."""
    from core.bundle.revisions import resolve_ref

    digest = resolve_ref(host.store, agent, ref, default="live")
    channels = host.store.channels(agent)
    channel = ref if ref in channels else None if ref else "live"
    launch = LaunchInput(
        host=host,
        task=task,
        kind="run",
        agent=agent,
        digest=digest,
        channel=channel,
        provider=provider or _default(host, "provider"),
        model=model or _default(host, "model"),
        effort=effort or _default(host, "effort"),
        sandbox=sandbox or _default(host, "sandbox"),
        context_window=_default(host, "context_window"),
        replay=replay,
    )
    return replace(launch, limits=limits) if limits else launch


def cancel_abandoned(host: Host, session: str) -> bool:
    """Stop a session whose process died, as `cancelled`, with its history made whole.

    False where it is not abandoned: it is stopped already, or a living process drives it. Raises StoreError.
    """
    from core.history import NEVER_RAN
    from core.session import Bus, Pair, SessionLog
    from core.stops import Stop, StopRecord

    store = host.store
    info = store.session(session)
    if info is None or info.status == "stopped" or not store.claim(session):
        return False
    try:
        info = store.session(session)
        if info is None or info.stop is not None:
            return False  # its process came to its stop just now
        log = SessionLog(store, info, Bus())
        log.load()
        open_calls: list[Pair] = [
            ("tool_result", {"call": call, "ok": False, "output": NEVER_RAN, "status": "skipped"})
            for call in log.history.pending
        ]
        columns = {"stop": Stop.CANCELLED.value, "ended": host.now(), "summary": "interrupted"}
        log.append(*open_calls, ("stop", StopRecord(Stop.CANCELLED).to_json()), **columns)
    finally:
        store.release(session)
    return True


def _default(host: Host, name: str) -> Any:
    return getattr(host.settings, name, None)
