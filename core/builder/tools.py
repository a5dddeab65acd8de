"""The Builder's platform tools: they execute and verify; none takes the model's opinion of its own work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.builder.state import BuildState
from core.bundle.checks import CHECKS_VERSION, check_tool
from core.bundle.manifest import parse_manifest
from core.bundle.revisions import publish, save_revision, validate_revision
from core.calls import APPROVAL_OPTIONS
from core.driver import Tool, ToolContext, ToolOutput
from core.ports import Host, ValidationRun
from core.provider import ToolSpec
from core.stops import Stop, Waiting
from core.tools import schema

_WORD = {"type": "string", "minLength": 1}


@dataclass(slots=True)
class BuilderWorld:
    """What the platform tools stand on: the host, the session, its workspace directory, its environment.

    `same_source(a, b)` says whether two source records are the same source.
    """

    host: Host
    session: str
    root: Path
    environment: Mapping[str, Any]
    same_source: Any
    extra: Sequence[Tool] = field(default_factory=tuple)

    def state(self) -> BuildState:
        """Where the build stands, from the log."""
        state = BuildState()
        kinds = ("started", "message", "source", "revision", "validation", "published")
        for event in self.host.store.events(self.session, kinds=kinds):
            state.apply(event)
        return state

    def inside(self, path: str) -> Path:
        """A host path inside the workspace. Raises ValueError for one outside, or through a link."""
        relative = path[len("/work/") :] if path.startswith("/work/") else path
        target = self.root / relative
        if target.resolve() != Path(self.root.resolve(), *Path(relative).parts) or ".." in Path(relative).parts:
            raise ValueError(f"{path} is not a plain path inside /work.")
        return target


def platform_tools(world: BuilderWorld) -> list[Tool]:
    """The tools of a Builder session, in a stable order."""
    return [
        *world.extra,
        _save_agent(world),
        _register_agent_tool(world),
        _get_agent_bundle(world),
        _request_agent_credentials(world),
        _validate_agent(world),
        _publish_agent(world),
    ]


def _out(value: Mapping[str, Any], *, ok: bool = True, **more: Any) -> ToolOutput:
    return ToolOutput(json.dumps(value, ensure_ascii=False, indent=1), ok=ok, **more)


def _error(code: str, message: str, **more: Any) -> ToolOutput:
    return _out({"error": {"code": code, "message": message, **more}}, ok=False)


# --- save ----------------------------------------------------------------------------------------------


def _save_agent(world: BuilderWorld) -> Tool:
    spec = ToolSpec(
        "save_agent",
        "Save the bundle directory (agent.yaml at its root) as a revision. What is saved can then be validated.",
        schema(
            ("path",),
            path={**_WORD, "description": "the directory, inside /work"},
            name={**_WORD, "description": "save under this name instead of the one in agent.yaml"},
            onto_existing={"type": "boolean", "description": "add a revision to the agent that has the name already"},
        ),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            path = world.inside(args["path"])
        except ValueError as error:
            return _error("outside", str(error))
        if not (path / "agent.yaml").is_file():
            return _error("no_bundle", f"There is no agent.yaml in {args['path']}.")
        if "name" in args:
            _rename(path / "agent.yaml", args["name"])
        state = world.state()
        manifest, problems, _ = parse_manifest((path / "agent.yaml").read_bytes())
        name = manifest.name if manifest is not None else state.agent
        if name is None:
            return _out({"problems": [p.to_json() for p in problems]}, ok=False)
        taken = _taken(world, state, name, path, bool(args.get("onto_existing")))
        if taken is not None:
            return taken
        saved = save_revision(
            world.host.store,
            path,
            agent=name,
            by="builder",
            message=_message(world, state),
            now=world.host.now,
            source=_source(state) or _earlier(world, name, "source"),
            licence=state.licence or _earlier(world, name, "licence"),
            session=world.session,
        )
        if saved.revision is None:
            return _out({"problems": [p.to_json() for p in saved.problems]}, ok=False)
        revision = saved.revision
        context.emit(
            "revision",
            {
                "agent": revision.agent,
                "digest": revision.digest,
                "parents": list(revision.parents),
                "message": revision.message,
                "by": "builder",
            },
        )
        return _out({"agent": revision.agent, "digest": revision.digest, "created": saved.created})

    return Tool(spec, run)


def _rename(manifest: Path, name: str) -> None:
    """Set the top-level name in agent.yaml, leaving the rest of the text alone."""
    lines = manifest.read_text("utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith("name:"):
            lines[number] = f"name: {json.dumps(name)}\n"
            break
    else:
        lines.append(f"name: {json.dumps(name)}\n")
    manifest.write_text("".join(lines), "utf-8")


def _taken(world: BuilderWorld, state: BuildState, name: str, path: Path, onto: bool) -> ToolOutput | None:
    """A refusal where the name belongs to an agent from another source and nobody said to add to it."""
    from core.bundle.tree import digest_tree

    store = world.host.store
    existing = store.revisions(name)
    if onto or not existing or name in (state.editing, state.agent):
        return None
    digest = digest_tree(path)
    if any(revision.digest == digest for revision in existing):
        return None
    theirs = next((r.source for r in reversed(existing) if r.source), None)
    if theirs is not None and state.source is not None and world.same_source(theirs, state.source):
        return None
    number = 2
    taken = set(store.agents())
    while f"{name}-{number}" in taken:
        number += 1
    where = (theirs or {}).get("url") or (theirs or {}).get("path") or "another source"
    message = f"There is an agent {name} already, made from {where}. It is not overwritten silently."
    return _error("name_taken", message, existing=name, suggested=f"{name}-{number}")


def _source(state: BuildState) -> dict[str, Any] | None:
    if state.source is None:
        return None
    return {k: state.source[k] for k in ("url", "path", "commit", "kind") if state.source.get(k) is not None}


def _earlier(world: BuilderWorld, name: str, what: str) -> Any:
    revisions = world.host.store.revisions(name)
    return getattr(revisions[-1], what) if revisions else None


def _message(world: BuilderWorld, state: BuildState) -> str:
    """What the revision is for: the person's last words, in one line."""
    said = ""
    for event in world.host.store.events(world.session, kinds=("message",)):
        if event.data.get("role") == "user":
            said = str(event.data.get("text", ""))
    line = " ".join(said.split())
    return line[:119] + "…" if len(line) > 120 else line


# --- look ----------------------------------------------------------------------------------------------


def _get_agent_bundle(world: BuilderWorld) -> Tool:
    spec = ToolSpec("get_agent_bundle", "The current revision: its files, manifest, state.", schema())

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        state = world.state()
        if state.agent is None or state.digest is None:
            return _out({"agent": None, "digest": None, "publish_requested": state.publish_requested})
        revision = world.host.store.revision(state.agent, state.digest)
        files = [entry.to_json() for entry in revision.files] if revision else []
        manifest = next((e for e in (revision.files if revision else ()) if e.path == "agent.yaml"), None)
        text = world.host.store.blob(manifest.sha256).decode("utf-8", "replace") if manifest else ""
        return _out(
            {
                "agent": state.agent,
                "digest": state.digest,
                "validated": state.passed,
                "published": world.host.store.channels(state.agent).get("live"),
                "publish_requested": state.publish_requested,
                "manifest": text,
                "files": files,
            }
        )

    return Tool(spec, run)


def _register_agent_tool(world: BuilderWorld) -> Tool:
    spec = ToolSpec(
        "register_agent_tool",
        "Check one generated tool directory (tool.yaml, its Python file, its schema). It takes a path and nothing else.",
        schema(("path",), path={**_WORD, "description": "the tool's directory, inside /work"}),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            path = world.inside(args["path"])
        except ValueError as error:
            return _error("outside", str(error))
        if not path.is_dir():
            return _error("not_found", f"{args['path']} is not a directory.")
        problems = check_tool(path)
        return _out({"path": args["path"], "problems": [p.to_json() for p in problems]}, ok=not problems)

    return Tool(spec, run)


def _request_agent_credentials(world: BuilderWorld) -> Tool:
    spec = ToolSpec(
        "request_agent_credentials",
        "Say which declared credentials the agent needs; returns which have a value. It never stops a build.",
        schema(("names",), names={"type": "array", "items": _WORD, "minItems": 1}),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        state = world.state()
        secrets = world.host.secrets
        has = {n: bool(secrets and state.agent and secrets.has(state.agent, n, "")) for n in args["names"]}
        return _out({"credentials": has, "note": "Building, validating and publishing need none of them."})

    return Tool(spec, run)


# --- gate ----------------------------------------------------------------------------------------------


def _validate_agent(world: BuilderWorld) -> Tool:
    spec = ToolSpec("validate_agent", "Run the gate on the current revision: exactly what was saved last.", schema())

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        state = world.state()
        if state.agent is None or state.digest is None:
            return _error("nothing_saved", "There is no revision yet: save_agent first.")
        ran = await _validate(world, context, state.agent, state.digest)
        return _out(_summary(ran), ok=ran.passed)

    return Tool(spec, run)


async def _validate(world: BuilderWorld, context: ToolContext, agent: str, digest: str) -> ValidationRun:
    ran = await asyncio.to_thread(
        validate_revision,
        world.host.store,
        agent,
        digest,
        environment=world.environment,
        now=world.host.now,
        new_id=world.host.new_id,
    )
    context.emit("validation", _summary(ran))
    return ran


def _summary(ran: ValidationRun) -> dict[str, Any]:
    return {"id": ran.id, "digest": ran.digest, "passed": ran.passed, "problems": [dict(p) for p in ran.problems]}


def _publish_agent(world: BuilderWorld) -> Tool:
    spec = ToolSpec(
        "publish_agent",
        "Validate the exact current revision and, if it passes and the person agrees, make it live.",
        schema(),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        state = world.state()
        if state.agent is None or state.digest is None:
            return _error("nothing_saved", "There is no revision yet: save_agent first.")
        store = world.host.store
        live = store.channels(state.agent).get("live")
        if live == state.digest and state.channel is not None:
            return _out({"published": True, "channel": "live", "digest": state.digest})
        if not _passed(world, state.agent, state.digest) or not state.passed:
            ran = await _validate(world, context, state.agent, state.digest)
            if not ran.passed:
                return _out({"published": False, **_summary(ran)}, ok=False)
        approved = (getattr(context, "approval", None) or {}).get("digest") == state.digest
        if not state.publish_requested and not approved:
            return _ask_to_publish(context, state.agent, state.digest, live)
        entry = publish(store, state.agent, state.digest, by="person", now=world.host.now, expected=live)
        body = {
            "agent": entry.agent,
            "channel": entry.channel,
            "digest": entry.digest,
            "previous": live,
            "validation_run": entry.validation_run,
            "by": entry.by,
            "refused": entry.refused,
        }
        context.emit("published", body)
        if entry.refused:
            return _error(entry.refused, f"Publishing was refused: {entry.refused}. Look again and publish once more.")
        return _out({"published": True, "channel": entry.channel, "digest": entry.digest})

    return Tool(spec, run)


def _passed(world: BuilderWorld, agent: str, digest: str) -> bool:
    runs = world.host.store.validations(agent, digest)
    return any(run.passed and run.checks_version == CHECKS_VERSION for run in runs)


def _ask_to_publish(context: ToolContext, agent: str, digest: str, live: str | None) -> ToolOutput:
    now = f"now live: {live}" if live else "nothing is live yet"
    waiting = Waiting(
        kind="approval",
        id=context.call,
        message=f"Publish {agent} {digest} to live? ({now}; it passed validation.)",
        options=tuple(o for o in APPROVAL_OPTIONS if o.id in ("once", "deny")),
        recommended="once",
        free_text=False,
        detail={"tool": "publish_agent", "agent": agent, "digest": digest, "live": live, "channel": "live"},
    )
    return ToolOutput("", stop=Stop.NEEDS_APPROVAL, waiting=waiting, detail="publish_agent")
