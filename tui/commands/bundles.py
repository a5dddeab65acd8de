"""Commands on agents: their revisions, validation, publication, and editing by hand."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import core
from tui.commands import output
from tui.commands.choices import Json, SandboxName
from tui.commands.hosting import build_host

if TYPE_CHECKING:
    from core import ChannelEntry, Host, Revision, Store, ValidationRun

AgentRef = Annotated[str, typer.Argument(metavar="AGENT[@DIGEST|@CHANNEL]", help="Without @, its newest revision.")]
AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="Its name.")]
Channel = Annotated[str, typer.Option("--channel", help="The channel.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (agents, revisions, show, diff, log, checkout, save, validate, validations):
        app.command()(command)
    app.command("publish")(publish_command)
    app.command("rollback")(rollback_command)


def agents(as_json: Json = False) -> int:
    """List agents: what is live, what is newest, who may use it."""
    store = build_host().store
    rows = [_agent_row(store, name) for name in sorted(store.agents(), key=lambda name: _begun(store, name))]
    output.rows(rows, as_json=as_json, table=_agent_line, empty="There is no agent yet. Next: artificer build SOURCE")
    return 0


def _begun(store: Store, name: str) -> str:
    """When its first readable revision was made."""
    try:
        return min((revision.at for revision in store.revisions(name)), default="")
    except core.StoreError:
        return ""


def _agent_row(store: Store, name: str) -> dict[str, Any]:
    latest = store.latest(name)
    try:
        revision = store.revision(name, latest) if latest else None
    except core.StoreError:
        revision = None  # a damaged record hides nothing but its own licence
    licence = dict(revision.licence) if revision and revision.licence else None
    return {"name": name, "live": store.channels(name).get("live"), "latest": latest, "licence": licence}


def _agent_line(row: Any) -> str:
    live, latest = output.short(row["live"]) or "-", output.short(row["latest"])
    private = "" if (row["licence"] or {}).get("status", "found") == "found" else "  private use only"
    return f"{row['name']:<32} live {live:<14} latest {latest}{private}"


def revisions(agent: AgentName, as_json: Json = False) -> int:
    """List an agent's revisions, oldest first."""
    host = _knowing(agent)
    runs = host.store.validations(agent)
    channels = host.store.channels(agent)
    rows = [_revision_row(revision, runs, channels) for revision in host.store.revisions(agent)]
    output.rows(rows, as_json=as_json, table=_revision_line)
    return 0


def _revision_row(revision: Revision, runs: list[ValidationRun], channels: dict[str, str]) -> dict[str, Any]:
    own = [run for run in runs if run.digest == revision.digest]
    return {
        "digest": revision.digest,
        "parents": list(revision.parents),
        "at": revision.at,
        "by": revision.by,
        "message": revision.message,
        "validated": "passed" if any(r.passed for r in own) else "failed" if own else None,
        "channels": sorted(name for name, digest in channels.items() if digest == revision.digest),
    }


def _revision_line(row: Any) -> str:
    where = ",".join(row["channels"])
    state = row["validated"] or "unvalidated"
    return (
        f"{output.short(row['digest'])}  {state:<12} {where:<8} {row['at'][:16]}  {row['by']:<8} {row['message'][:60]}"
    )


def show(agent: AgentRef, as_json: Json = False) -> int:
    """Show one revision: manifest, files, source, licence. What cannot be read any more is said."""
    host = build_host()
    revision = _revision(host, agent)
    entry = next((file for file in revision.files if file.path == "agent.yaml"), None)
    data, damaged = b"", None
    try:
        data = host.store.blob(entry.sha256) if entry else b""
    except core.StoreError as error:
        damaged = f"agent.yaml cannot be read: {error.message}"
    _, _, document = core.parse_manifest(data)
    value = {
        "name": revision.agent,
        "digest": revision.digest,
        "manifest": document.value if isinstance(document.value, dict) else None,
        "files": [file.to_json() for file in revision.files],
        "source": dict(revision.source) if revision.source else None,
        "licence": dict(revision.licence) if revision.licence else None,
        **({"damaged": damaged} if damaged else {}),
    }
    if as_json:
        output.line(value)
        return 0
    output.text(f"{revision.agent}  {revision.digest}")
    output.text(f"[{damaged}]" if damaged else data.decode("utf-8", "replace").rstrip())
    source, licence = value["source"], value["licence"]
    output.text(f"source   {json.dumps(source, ensure_ascii=False) if source else 'none'}")
    output.text(f"licence  {_licence(licence)}")
    for file in revision.files:
        output.text(f"{file.size:>9}  {'x' if file.x else ' '} {file.path}")
    return 0


def _licence(licence: Any) -> str:
    if not licence or licence.get("status") == "missing":
        return "missing: private use only"
    flag = " (source available: private use only)" if licence.get("status") == "source_available" else ""
    return f"{licence.get('spdx') or 'unknown'}{flag}  {licence.get('path') or ''}".rstrip()


def diff(
    agent: AgentName,
    a: Annotated[str, typer.Argument(metavar="A", help="A digest or a channel, or `latest`.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same; what changed from A to B is shown.")],
    as_json: Json = False,
) -> int:
    """Compare two revisions."""
    host = build_host()
    found = core.diff_revisions(host.store, _revision(host, f"{agent}@{a}"), _revision(host, f"{agent}@{b}"))
    if as_json:
        output.line(found.to_json())
    else:
        output.text(found.text() or "The two are the same.")
    return 0


def log(agent: AgentName, as_json: Json = False) -> int:
    """An agent's channel history, refused publications included."""
    host = _knowing(agent)
    entries = [entry_row(e) for e in host.store.channel_log(agent)]
    empty = f"Nothing was ever published. Next: artificer publish {agent}"
    output.rows(entries, as_json=as_json, table=_entry_line, empty=empty)
    return 0


def entry_row(entry: ChannelEntry) -> dict[str, Any]:
    """A line of a channel's history as listings give it."""
    return {
        "at": entry.at,
        "channel": entry.channel,
        "digest": entry.digest,
        "validation_run": entry.validation_run,
        "by": entry.by,
        "refused": entry.refused,
        "action": entry.action,
    }


def _entry_line(row: Any) -> str:
    refused = f"refused: {row['refused']}" if row["refused"] else ""
    digest = output.short(row["digest"])
    return f"{row['at'][:19]}  {row['channel']:<8} {row['action']:<8} {digest}  {row['by']:<8} {refused}".rstrip()


def checkout(
    agent: AgentRef,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="One that does not exist yet.")],
    as_json: Json = False,
) -> int:
    """Write a revision's files to a new directory, to edit them."""
    host = build_host()
    revision = _revision(host, agent)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise output.Refused(
            "exists", f"There is something at {directory} already.", "Name a directory that does not exist yet."
        )
    core.materialise(host.store, revision, directory)
    if as_json:
        output.line({"agent": revision.agent, "digest": revision.digest, "directory": str(directory)})
    output.say(f"Edit it there, then: artificer save {shlex.quote(str(directory))} --agent {revision.agent}")
    return 0


def save(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory with agent.yaml.")],
    agent: Annotated[str | None, typer.Option("--agent", help="The agent; default: the name in agent.yaml.")] = None,
    message: Annotated[str, typer.Option("-m", "--message", help="What changed.")] = "",
    as_json: Json = False,
) -> int:
    """Save a directory as a revision by a person."""
    host = build_host()
    if not directory.is_dir():
        raise output.Refused(
            "not_found", f"There is no directory {directory}.", "Make one with: artificer checkout AGENT DIR"
        )
    saved = core.save_revision(
        host.store, directory, agent=agent, by="person", message=core.screen(message)[0], now=host.now
    )
    if saved.revision is None:
        return _refuse_problems("not_saved", "Not saved.", saved.problems, as_json)
    row = {"agent": saved.revision.agent, "digest": saved.revision.digest, "created": saved.created}
    if as_json:
        output.line(row)
    else:
        output.text(f"{row['agent']}  {row['digest']}{'' if saved.created else '  (no change)'}")
    output.say(f"Next: artificer validate {row['agent']}")
    return 0


def _refuse_problems(code: str, message: str, problems: Any, as_json: bool) -> int:
    if as_json:
        value = {"type": "error", "code": code, "message": message, "hint": "Mend the problems."}
        output.line({**value, "problems": [p.to_json() for p in problems]})
    output.say(message)
    for problem in problems:
        _say_problem(problem.to_json())
    return 1


def _say_problem(problem: Any) -> None:
    hint = f"  → {problem['hint']}" if problem.get("hint") else ""
    output.say(f"  ✗ {problem['code']}  {problem['path']}: {problem['message']}{hint}")


def validate(
    target: Annotated[str, typer.Argument(metavar="AGENT[@D]|DIR", help="Without @, its newest revision.")],
    sandbox: SandboxName = None,
    allow_unsafe: Annotated[bool, typer.Option("--allow-unsafe", help="Let a run without a sandbox pass.")] = False,
    as_json: Json = False,
) -> int:
    """Run the gate on a revision or a directory. The run is recorded for a revision alone."""
    host = build_host()
    if _is_directory(host, target):
        return _validate_directory(Path(target), as_json)
    import asyncio

    from impl.drivers.builder import environment

    revision = _revision(host, target)
    surroundings = asyncio.run(environment(host, sandbox or host.settings.sandbox))
    ran = core.validate_revision(
        host.store,
        revision.agent,
        revision.digest,
        environment={**surroundings, "allow_unsafe": True} if allow_unsafe else surroundings,
        now=host.now,
        new_id=host.new_id,
        extra_checks=host.checks(host, sandbox or host.settings.sandbox),
    )
    return _report_run(run_row(ran), as_json)


def _is_directory(host: Host, target: str) -> bool:
    if os.sep in target or target in (".", ".."):
        return True
    return target.partition("@")[0] not in host.store.agents() and Path(target).is_dir()


def _validate_directory(path: Path, as_json: bool) -> int:
    if not path.is_dir():
        raise output.Refused("not_found", f"There is no directory {path}.", "Name an agent or a directory.")
    problems = core.check_bundle(path)
    digest = core.digest_tree(path) if not problems else None
    row = {"id": None, "digest": digest, "at": None, "passed": not problems, "checks_version": None}
    return _report_run({**row, "environment": None, "problems": [p.to_json() for p in problems]}, as_json)


def _report_run(row: dict[str, Any], as_json: bool) -> int:
    if as_json:
        output.line(row)
    else:
        output.text(f"{'passed' if row['passed'] else 'failed'}  {row['digest'] or ''}".rstrip())
    for problem in row["problems"]:
        _say_problem(problem)
    return 0 if row["passed"] else 1


def run_row(ran: ValidationRun) -> dict[str, Any]:
    """A validation run as listings give it."""
    return {
        "id": ran.id,
        "digest": ran.digest,
        "at": ran.at,
        "passed": ran.passed,
        "checks_version": ran.checks_version,
        "environment": dict(ran.environment),
        "problems": [dict(problem) for problem in ran.problems],
        "checks": [dict(check) for check in ran.checks],
    }


def validations(agent: AgentName, as_json: Json = False) -> int:
    """List an agent's validation runs, oldest first."""
    host = _knowing(agent)
    runs = [run_row(r) for r in host.store.validations(agent)]
    empty = f"Nothing was validated yet. Next: artificer validate {agent}"
    output.rows(runs, as_json=as_json, table=_run_line, empty=empty)
    return 0


def _run_line(row: Any) -> str:
    state = "passed" if row["passed"] else f"failed ({len(row['problems'])})"
    where = (row["environment"] or {}).get("sandbox", "")
    return f"{row['id']}  {row['at'][:19]}  {output.short(row['digest'])}  {state:<12} {where}"


def publish_command(agent: AgentRef, channel: Channel = "live", as_json: Json = False) -> int:
    """Point a channel at a revision that passed validation."""
    host = build_host()
    # The head a person has in view is the one when they typed: looked at before anything else takes time.
    head = host.store.channels(agent.partition("@")[0]).get(channel)
    revision = _revision(host, agent)
    with _channel_named():
        entry = core.publish(
            host.store,
            revision.agent,
            revision.digest,
            channel=channel,
            by="person",
            now=host.now,
            expected=head,
        )
    return _report_entry(entry, as_json)


@contextlib.contextmanager
def _channel_named() -> Iterator[None]:
    """A name no channel can have is a mistake in the command line."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def rollback_command(
    agent: AgentName,
    to: Annotated[str | None, typer.Option("--to", metavar="D", help="A revision that once passed.")] = None,
    channel: Channel = "live",
    as_json: Json = False,
) -> int:
    """Point a channel back at an earlier revision."""
    host = _knowing(agent)
    head = host.store.channels(agent).get(channel)
    with _channel_named():
        entry = core.rollback(host.store, agent, channel=channel, to=to, by="person", now=host.now, expected=head)
    if entry.refused is None and core.checks_changed(host.store, agent, entry.digest):
        output.say("Warning: the checks have changed since this revision passed.")
    return _report_entry(entry, as_json)


_WHY = {
    "not_validated": ("it has no validation run", "artificer validate {agent}@{digest}"),
    "validation_failed": ("its validation failed", "artificer validations {agent}"),
    "checks_changed": ("the checks have changed since it passed", "artificer validate {agent}@{digest}"),
    "stale_head": ("another publication came in between", "artificer log {agent}"),
    "never_passed": ("it never passed validation", "artificer validate {agent}@{digest}"),
    "unknown_revision": ("there is no such revision", "artificer revisions {agent}"),
}


def _report_entry(entry: ChannelEntry, as_json: bool) -> int:
    if entry.refused is None:
        if as_json:
            output.line({"agent": entry.agent, **entry_row(entry)})
        else:
            output.text(f"{entry.agent} {entry.channel} → {entry.digest}")
        return 0
    why, command = _WHY.get(entry.refused, (entry.refused, "artificer log {agent}"))
    digest = output.short(entry.digest)
    message = f"Refused: {entry.agent} {digest} was not put on {entry.channel}, because {why}."
    raise output.Refused(entry.refused, message, "Next: " + command.format(agent=entry.agent, digest=digest))


def _knowing(agent: str) -> Host:
    """The host, once it is sure that there is such an agent. Loads nothing more where there is."""
    host = build_host()
    if host.store.latest(agent) is None:
        core.resolve_ref(host.store, agent)
    return host


def _revision(host: Host, ref: str) -> Revision:
    """The revision that AGENT[@REF] names; without a ref the latest."""
    name, at, where = ref.partition("@")
    digest = core.resolve_ref(host.store, name, where if at else None, default="latest")
    revision = host.store.revision(name, digest)
    if revision is None:
        raise output.Refused("not_found", f"There is no revision {digest} of {name}.", f"artificer revisions {name}")
    return revision
