"""Commands on sessions: build, run, resume, answer, interrupt, and reading what ran."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

import core
from tui.commands import output
from tui.commands.choices import Choices, Json, Stream, choosing
from tui.commands.hosting import build_host

if TYPE_CHECKING:
    from core import Host, LaunchInput, Limits, SessionInfo

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or its beginning.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for driving in (build, run, resume, answer, fork):
        app.command()(choosing(driving))
    for command in (interrupt, sessions, transcript, search, costs):
        app.command()(command)


# --- driving -------------------------------------------------------------------------------------------


def build(
    source: Annotated[str | None, typer.Argument(metavar="SOURCE", help="A folder or a git URL.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Edit this agent.")] = None,
    message: Annotated[
        str | None, typer.Option("-m", "--message", metavar="TEXT", help="What the agent should be.")
    ] = None,
    publish: Annotated[bool, typer.Option("--publish", help="Publish it once it has passed.")] = False,
    *,
    choices: Choices,
) -> int:
    """Build an agent from a source or from words; ask when it must."""
    host = build_host()
    launch = core.build_launch(
        host,
        source=_source(source),
        message=message,
        agent=agent,
        publish=publish,
        limits=limits(choices.limit),
        **choices.thinking(),
    )
    return _drive(host, launch, choices)


def run(
    agent: Annotated[str, typer.Argument(metavar="AGENT[@DIGEST|@CHANNEL]", help="Without @, its live revision.")],
    task: Annotated[str, typer.Argument(metavar="TASK", help="What it should do.")],
    replay: Annotated[
        str | None, typer.Option("--replay", metavar="SESSION", help="Answer effects from this session's record.")
    ] = None,
    *,
    choices: Choices,
) -> int:
    """Run a published agent on one task."""
    if not task.strip():
        raise typer.BadParameter("TASK is empty: say what the agent should do")
    host = build_host()
    name, _, ref = agent.partition("@")
    launch = core.run_launch(
        host,
        name,
        ref or None,
        task,
        limits=limits(choices.limit),
        replay=find(host, replay).id if replay else None,
        **choices.thinking(),
    )
    return _drive(host, launch, choices)


def resume(
    session: SessionId,
    message: Annotated[str | None, typer.Option("-m", "--message", metavar="TEXT", help="Your next message.")] = None,
    *,
    choices: Choices,
) -> int:
    """Go on with a session, to its next stop."""
    host = build_host()
    info = find(host, session)
    launch = _going_on(host, info, choices, task=message)
    return _drive(host, launch, choices)


def answer(
    session: SessionId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="An option's number, id or label, or words of your own.")],
    *,
    choices: Choices,
) -> int:
    """Answer what a session waits for; drive it to its next stop."""
    host = build_host()
    info = find(host, session)
    launch = _going_on(host, info, choices, answer=text)
    return _drive(host, launch, choices)


def fork(
    session: SessionId,
    message: Annotated[str | None, typer.Option("-m", "--message", metavar="TEXT", help="Your next message.")] = None,
    *,
    choices: Choices,
) -> int:
    """Go on from where a session stands, in a new one. The other stays as it is."""
    import asyncio
    from dataclasses import replace

    host = build_host()
    info = find(host, session)
    launch = _going_on(host, info, choices, task=message)
    check_names(host, launch)
    thinks = launch.provider if isinstance(launch.provider, str) else None
    made = asyncio.run(core.fork_session(host, info.id, provider=thinks))
    output.say(f"Session {made.id} is a fork of {info.id}.")
    return _drive(host, replace(launch, session=made.id), choices)


def _going_on(
    host: Host, info: SessionInfo, choices: Choices, *, task: str | None = None, answer: str | None = None
) -> LaunchInput:
    """Flags and variables override what the session was started with."""
    return core.LaunchInput(
        host=host,
        session=info.id,
        context_window=host.settings.context_window,
        limits=limits(choices.limit),
        task=task,
        answer=answer,
        **{name: given or host.settings.override(name) for name, given in choices.thinking().items()},
    )


def _drive(host: Host, launch: LaunchInput, choices: Choices) -> int:
    from tui.commands.driving import drive

    check_names(host, launch)
    return drive(host, launch, answers=choices.answers or (), json=choices.as_json, stream=choices.stream)


def check_names(host: Host, launch: LaunchInput) -> None:
    """Whether what thinks and where it works are there, before a session is made or changed for it."""
    from impl.sandboxes import SANDBOXES

    stored = host.store.session(launch.session) if launch.session else None
    name = launch.provider if isinstance(launch.provider, str) else stored.provider if stored else "offline"
    hint = "List them with: artificer providers"
    try:
        host.provider(name)
    except LookupError as error:
        raise output.Refused("not_found", str(error.args[0]), hint) from error
    except ImportError as error:
        raise output.Refused("not_found", f"The provider {name} cannot be loaded: {error}.", hint) from error
    if launch.sandbox is not None and launch.sandbox not in SANDBOXES:
        message = f"There is no sandbox {launch.sandbox!r}. There are: {', '.join(SANDBOXES)}."
        raise output.Refused("not_found", message, "See what works here with: artificer doctor")


def interrupt(session: SessionId, as_json: Json = False) -> int:
    """Stop a session, whichever process drives it. One that nobody drives any more becomes cancelled."""
    host = build_host()
    info = find(host, session)
    if info.status != "stopped":
        _interrupt(host, info.id)
        output.say(f"Session {info.id} is interrupted. Go on with: artificer resume {info.id}")
    else:
        output.say(f"Session {info.id} is stopped already ({info.stop}).")
    if as_json:
        current = find(host, info.id)
        output.line({"type": "interrupted", "session": current.id, "status": current.status, "stop": current.stop})
    return 0


def _interrupt(host: Host, session: str) -> None:
    """Reach the process that drives it, or settle it here; tries again while it changes hands."""
    from impl.control import deliver

    for _ in range(50):
        if deliver(host, session, "interrupt") or core.cancel_abandoned(host, session):
            return
        info = host.store.session(session)
        if info is None or info.status == "stopped":
            return
        time.sleep(0.1)
    message = f"Another process drives {session} and does not answer."
    raise output.Refused("busy", message, "End that process, then interrupt again.")


# --- reading -------------------------------------------------------------------------------------------


def sessions(as_json: Json = False) -> int:
    """List sessions, oldest first."""
    output.rows([session_row(info) for info in build_host().store.sessions()], as_json=as_json, table=_session_line)
    return 0


def transcript(
    session: SessionId,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the session stops.")] = False,
    as_json: Json = False,
    stream: Stream = False,
) -> int:
    """Print what happened in a session."""
    host = build_host()
    info = find(host, session)
    if not follow:
        rows = [event.to_json() for event in host.store.events(info.id)]
        if stream and (draft := host.store.draft(info.id)) is not None:
            from tui.commands.driving import draft_now

            rows.append(draft_now(host, info.id, draft).to_json())
        output.rows(rows, as_json=as_json, table=_event_line)
        return 0
    try:
        _follow(host, info, json=as_json, stream=stream)
    except KeyboardInterrupt:
        raise output.Unfollowed(info.id) from None
    return 0


def _follow(host: Host, info: SessionInfo, *, json: bool, stream: bool) -> None:
    """Events as they come, until the session is stopped and all of it was printed."""
    from tui.commands.driving import Printer, draft_now

    after, shown = 0, None
    printer = Printer(json=True, stream=stream) if json else lambda event: output.text(_event_line(event.to_json()))
    while True:
        current = host.store.session(info.id)
        for event in host.store.events(info.id, after=after):
            after = event.seq
            printer(event)
        draft = host.store.draft(info.id) if stream else None
        if draft is not None and draft != shown:
            printer(draft_now(host, info.id, draft))
        shown = draft
        if current is None or current.status != "running":
            return
        time.sleep(0.1)


def search(
    words: Annotated[str, typer.Argument(metavar="TEXT", help="Words, or beginnings of words.")],
    as_json: Json = False,
) -> int:
    """Find words in all sessions, newest first."""
    hits = build_host().store.search(words)
    found = [
        {"session": h.session, "seq": h.seq, "at": h.at, "kind": h.kind, "snippet": " ".join(h.snippet.split())}
        for h in hits
    ]
    output.rows(found, as_json=as_json, table=_hit_line, empty=f"No session holds {words!r}.")
    return 0


def _hit_line(row: Any) -> str:
    return f"{row['session']}  {row['seq']:>5}  {row['kind']:<12} {row['snippet']}"


def costs(
    by: Annotated[
        str | None, typer.Option("--by", help="day, agent, session or tree; by day and agent if not.")
    ] = None,
    as_json: Json = False,
) -> int:
    """What sessions have cost. By day and agent, or by one of both, session or tree; what is not known is said."""
    keys = [key for key in core.COST_KEYS if key == by] or ["day", "agent"]
    if by is not None and by not in core.COST_KEYS:
        raise typer.BadParameter(f"--by takes {', '.join(core.COST_KEYS)}, not {by!r}")
    rows = core.costs_by(build_host().store, keys)
    output.rows(rows, as_json=as_json, table=_cost_line, empty="No session has run yet.")
    return 0


# --- helpers -------------------------------------------------------------------------------------------


def find(host: Host, prefix: str) -> SessionInfo:
    """The session whose id is, or alone begins with, `prefix`."""
    info = host.store.session(prefix)
    if info is None:
        matches = host.store.match_session(prefix) if prefix else []
        if len(matches) > 1:
            raise output.Refused(
                "not_found", f"{prefix} is the beginning of {len(matches)} sessions.", "Type more of it."
            )
        info = host.store.session(matches[0]) if matches else None
    if info is None:
        raise output.Refused("not_found", f"There is no session {prefix}.", "List them with: artificer sessions")
    return info


def limits(words: list[str] | None) -> Limits:
    """`--limit` words as limits."""
    from decimal import Decimal, InvalidOperation

    values: dict[str, object] = {}
    for word in words or ():
        name, found, number = word.partition("=")
        try:
            amount = Decimal(number)
        except InvalidOperation:
            amount = Decimal(-1)
        whole = name in ("steps", "tokens")
        valid = amount.is_finite() and amount >= 0 and (not whole or amount == amount.to_integral_value())
        if name not in ("steps", "tokens", "usd", "seconds") or not found or not valid:
            raise typer.BadParameter(f"--limit takes steps|tokens|usd|seconds=N, not {word!r}")
        values[name] = number
    return core.limits_from(values)


def _source(source: str | None) -> str | None:
    """A local path made absolute, so that the session can go on from anywhere; a URL as it is. Refused where it
    can be said at once that nothing can come of it."""
    if source is None:
        return None
    from impl.sources import SourceError
    from impl.sources.refs import parse_reference

    try:
        reference = parse_reference(source)
    except SourceError as error:
        raise output.Refused(error.code, error.message, error.hint) from error
    if reference.path is None:
        return reference.url  # without what stood behind a `?`: it may be a token, and is not used
    if not reference.path.exists():
        hint = "Give a folder that exists, or a git URL."
        raise output.Refused("not_found", f"There is nothing at {reference.path}.", hint)
    if reference.path == reference.path.parent:
        raise output.Refused("too_large", "That is this whole machine.", "Give the folder in it that matters.")
    return str(reference.path)


def session_row(info: SessionInfo) -> dict[str, Any]:
    """A session as listings give it."""
    return {
        "id": info.id,
        "kind": info.kind,
        "agent": info.agent,
        "digest": info.digest,
        "parent": info.parent,
        "status": info.status,
        "stop": info.stop,
        "started": info.started,
        "ended": info.ended,
        "usage": {
            "input_tokens": info.input_tokens,
            "output_tokens": info.output_tokens,
            "cached_tokens": info.cached_tokens,
            "requests": info.requests,
        },
        "cost": {"usd": info.usd},
        "summary": info.summary or info.title,
        "provider": info.provider,
        "model": info.model,
    }


def _session_line(row: Any) -> str:
    state = row["stop"] if row["status"] == "stopped" else row["status"]
    agent = row["agent"] or "-"
    return f"{row['id']}  {row['kind']:<10} {agent:<24} {state or '-':<18} {row['started'][:16]}  {row['summary'][:60]}"


def _event_line(row: Any) -> str:
    data = row["data"]
    match row["kind"]:
        case "message":
            who, words = str(data.get("role", "")), str(data.get("text", ""))
        case "tool_call":
            who, words = str(data.get("tool", "")), str(data.get("args", ""))
        case "tool_result":
            who, words = ("ok" if data.get("ok") else "failed"), str(data.get("output", ""))
        case _:
            who = ""
            words = ", ".join(f"{k}={v}" for k, v in data.items() if v not in (None, "", [], {}))
    below = words.replace("\n", "\n" + " " * 8)
    return f"{row['seq']:>5} {row['at'][11:19]}  {row['kind']:<13} {who:<12} {below}".rstrip()


def _cost_line(row: Any) -> str:
    usd = f"${row['usd']}"
    if row["usd"] is None:
        which = f" of {row['sessions']}" if row["sessions"] > 1 else ""
        usd = f"unknown ({row['unknown']}{which}), known: ${row['known_usd']}"
    what = [row[name] for name in ("day", "session", "tree") if name in row]
    if "started" in row:
        what.append(row["started"][:10])
    if "agent" in row:
        what.append(f"{row['agent']:<24}")
    tokens = f"{row['input_tokens']:>10} in {row['output_tokens']:>9} out"
    count = "" if "session" in row else f"  {row['sessions']:>4} session{'s' if row['sessions'] != 1 else ' '}"
    return f"{'  '.join(what)}{count}  {tokens}  {usd}  {row.get('summary', '')[:40]}".rstrip()
