"""The Builder's platform tools: they execute and verify; none takes the model's opinion of its own work."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from core.builder.registration import compare, register
from core.builder.state import BuildState
from core.bundle.checks import CHECKS_VERSION
from core.bundle.fields import is_agent_name
from core.bundle.manifest import MANIFEST, parse_manifest
from core.bundle.problems import Problem, ProblemCode
from core.bundle.revisions import Saved, publish, save_revision, validate_revision
from core.bundle.strict_yaml import MAX_BYTES
from core.bundle.tree import BUNDLE_CAPS, digest_entries, open_directory, read_regular, survey_tree
from core.calls import APPROVAL_OPTIONS
from core.driver import Tool, ToolContext, ToolOutput
from core.effects.credentials import declared_by, has_values
from core.ports import Host, ValidationRun
from core.provider import ToolSpec
from core.stops import Stop, Waiting
from core.tools import schema

_WORD = {"type": "string", "minLength": 1}


@dataclass(slots=True)
class BuilderWorld:
    """What the platform tools stand on: the host, the session, its workspace directory, its environment.

    `same_source(a, b)` says whether two source records are the same source. `brought()` is the body of a `source`
    event for what the agent itself brought in, None where nothing is new; asked before a save. `rules` says that
    fixed rules drive the session: they pass on what the person chose, where a model's word for it is no yes.
    """

    host: Host
    session: str
    root: Path
    environment: Mapping[str, Any]
    same_source: Any
    rules: bool = False
    brought: Callable[[], Mapping[str, Any] | None] = lambda: None
    extra: Sequence[Tool] = field(default_factory=tuple)

    def state(self) -> BuildState:
        """Where the build stands, from the log."""
        state = BuildState()
        kinds = ("started", "message", "source", "revision", "validation", "published")
        for event in self.host.store.events(self.session, kinds=kinds):
            state.apply(event)
        return state

    def inside(self, path: str) -> Path:
        """The host path of a directory of the workspace. Raises ValueError for one outside, or behind a link.

        `path` is as a model sees it: below /work, or relative to it. Links are looked at one part at a time,
        because the sandbox and the host would follow them to different places.
        """
        plain = PurePosixPath(path)
        if plain.is_absolute():
            if plain.parts[:2] != ("/", "work"):
                raise ValueError(f"{path} is not inside /work.")
            plain = PurePosixPath(*plain.parts[2:])
        if ".." in plain.parts or "\0" in path:
            raise ValueError(f"{path} is not a plain path inside /work.")
        target = self.root
        for part in plain.parts:
            target = target / part
            try:
                mode = os.lstat(target).st_mode
            except OSError as error:
                raise ValueError(f"{path} is not there.") from error
            if not stat.S_ISDIR(mode):
                raise ValueError(
                    f"{path} is not a directory" + (": a link is on its way." if stat.S_ISLNK(mode) else ".")
                )
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
            name={**_WORD, "description": "save under this name; it is written to agent.yaml"},
            onto_existing={
                "type": "boolean",
                "description": "add a revision to the agent of another source that has the name; the person is asked",
            },
        ),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        source = await asyncio.to_thread(world.brought)
        if source is not None:
            context.emit("source", source)
        output, revision = await asyncio.to_thread(_save, world, args, context)
        if revision is not None:
            context.emit("revision", revision)
        return output

    return Tool(spec, run, writes=True)


def _save(
    world: BuilderWorld, args: Mapping[str, Any], context: ToolContext
) -> tuple[ToolOutput, dict[str, Any] | None]:
    """What the model is told, and the body of the `revision` event where there is one. Runs in a thread."""
    try:
        path = world.inside(args["path"])
    except ValueError as error:
        return _error("outside", str(error)), None
    wanted = args.get("name")
    if wanted is not None and not is_agent_name(wanted):
        return _error("bad_name", f"{wanted!r} is not 1 to 64 lower-case letters, digits and hyphens."), None
    survey = survey_tree(path, BUNDLE_CAPS)
    if not survey.problems and not any(entry.path == MANIFEST for entry in survey.entries):
        hint = "Write it there, or name the directory that holds it."
        survey.problems.append(Problem(ProblemCode.MANIFEST_MISSING, MANIFEST, f"not in {args['path']}", hint))
    if survey.problems:
        return _unsaved(survey.problems), None
    if wanted is not None:
        _rename(path, wanted)
        survey = survey_tree(path, BUNDLE_CAPS)
    state = world.state()
    name = wanted or _name(path) or state.agent
    if name is None:
        hint = "Add name: to it, or pass name."
        return _unsaved([Problem(ProblemCode.MISSING_KEY, MANIFEST, "there is no readable agent name", hint)]), None
    refusal = _taken(world, context, state, name, digest_entries(survey.entries), bool(args.get("onto_existing")))
    if refusal is not None:
        return refusal, None
    saved = _store(world, state, path, name)
    if saved.revision is None:
        return _unsaved(saved.problems), None
    revision = saved.revision
    body = {
        "agent": revision.agent,
        "digest": revision.digest,
        "parents": list(revision.parents),
        "message": revision.message,
        "by": "builder",
    }
    return _out({"agent": revision.agent, "digest": revision.digest, "created": saved.created}), body


def _unsaved(problems: Sequence[Problem]) -> ToolOutput:
    return _out({"saved": False, "problems": [problem.to_json() for problem in problems]}, ok=False)


def _store(world: BuilderWorld, state: BuildState, path: Path, name: str) -> Saved:
    return save_revision(
        world.host.store,
        path,
        agent=name,
        by="builder",
        message=_message(world),
        now=world.host.now,
        source=_source(state) or _earlier(world, name, "source"),
        licence=state.licence or _earlier(world, name, "licence"),
        session=world.session,
    )


def _read_manifest(path: Path) -> bytes:
    """agent.yaml as it lies there, never through a link."""
    root = open_directory(path)
    try:
        return read_regular(root, MANIFEST, MAX_BYTES + 1)
    finally:
        os.close(root)


def _name(path: Path) -> str | None:
    """The name in agent.yaml, readable even where the rest of it is broken: unfinished work may be saved."""
    _, _, document = parse_manifest(_read_manifest(path))
    name = document.value.get("name") if isinstance(document.value, dict) else None
    return name if isinstance(name, str) and is_agent_name(name) else None


def _rename(path: Path, name: str) -> None:
    """Set the top-level name in agent.yaml, leaving the rest of the text alone."""
    data = _read_manifest(path)
    if len(data) > MAX_BYTES:
        return  # the gate refuses it anyway, and only its beginning was read
    lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith("name:"):
            lines[number] = f"name: {json.dumps(name)}\n"
            break
    else:
        lines.append(f"{'' if not lines or lines[-1].endswith(chr(10)) else chr(10)}name: {json.dumps(name)}\n")
    # A new file takes the old one's place: nothing is ever written through what lies there.
    fresh = path / f".{MANIFEST}.new"
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write("".join(lines).encode("utf-8", "surrogateescape"))
    os.replace(fresh, path / MANIFEST)


def _taken(
    world: BuilderWorld, context: ToolContext, state: BuildState, name: str, digest: str, onto: bool
) -> ToolOutput | None:
    """A refusal, or a question to the person, where the name belongs to an agent from another source."""
    store = world.host.store
    existing = store.revisions(name)
    if not existing or name in (state.editing, state.agent) or any(r.digest == digest for r in existing):
        return None
    theirs = next((r.source for r in reversed(existing) if r.source), None)
    if theirs is not None and state.source is not None and world.same_source(theirs, state.source):
        return None
    where = (theirs or {}).get("url") or (theirs or {}).get("path") or "another source"
    if onto:
        return None if world.rules else _ask_onto(context, name, digest, where)
    number = 2
    taken = set(store.agents())
    while f"{name}-{number}" in taken:
        number += 1
    message = f"There is an agent {name} already, made from {where}. It is not overwritten silently."
    return _error("name_taken", message, existing=name, suggested=f"{name}-{number}")


def _ask_onto(context: ToolContext, name: str, digest: str, where: str) -> ToolOutput | None:
    """Ask the person, unless they have said yes to exactly this."""
    detail = {"tool": "save_agent", "agent": name, "digest": digest}
    if _approved(context, detail):
        return None
    return _ask(context, f"Add a revision {digest} to the agent {name}, which was made from {where}?", detail)


def _approved(context: ToolContext, detail: Mapping[str, Any]) -> bool:
    """Whether the person said yes to this call having seen exactly `detail`."""
    seen = getattr(context, "approval", None) or {}
    return all(key in seen and seen[key] == value for key, value in detail.items())


def _ask(context: ToolContext, message: str, detail: dict[str, Any]) -> ToolOutput:
    """Stop until the person has said once or deny; the yes is bound to `detail`."""
    waiting = Waiting(
        kind="approval",
        id=context.call,
        message=message,
        options=tuple(o for o in APPROVAL_OPTIONS if o.id in ("once", "deny")),
        recommended="once",
        free_text=False,
        detail=detail,
    )
    return ToolOutput("", stop=Stop.NEEDS_APPROVAL, waiting=waiting, detail=detail["tool"])


def _source(state: BuildState) -> dict[str, Any] | None:
    if state.source is None:
        return None
    return {k: state.source[k] for k in ("url", "path", "commit", "kind") if state.source.get(k) is not None}


def _earlier(world: BuilderWorld, name: str, what: str) -> Any:
    revisions = world.host.store.revisions(name)
    return getattr(revisions[-1], what) if revisions else None


def _message(world: BuilderWorld) -> str:
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
        "Check one generated tool: install what it requires, run its examples on their recorded effects. "
        "It takes a path alone.",
        schema(("path",), path={**_WORD, "description": "the tool's directory, inside /work"}),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            path = world.inside(args["path"])
        except ValueError as error:
            return _error("outside", str(error))
        unsafe = bool(world.environment.get("unsafe"))
        checks = () if unsafe else world.host.checks(world.host, world.environment.get("sandbox"))
        found = await asyncio.to_thread(register, path, checks)
        if unsafe:
            found.notes.append("Its examples were not run: the sandbox here isolates nothing.")
        facts = {"path": args["path"], **found.to_json()}
        context.emit("tool_check", {key: facts[key] for key in ("path", "tool", "digest", "registered", "problems")})
        return _out(facts, ok=not found.problems)

    return Tool(spec, run)


def _request_agent_credentials(world: BuilderWorld) -> Tool:
    spec = ToolSpec(
        "request_agent_credentials",
        "Say which declared credentials the agent needs; returns which have a value. It never stops a build.",
        schema(("names",), names={"type": "array", "items": _WORD, "minItems": 1}),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        state = world.state()
        agent = state.agent or ""
        known = has_values(world.host.secrets, agent, declared_by(world.host.store, agent, state.digest))
        has = {name: known.get(name, False) for name in args["names"]}
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
        tools = await asyncio.to_thread(_compared, world, state.agent, state.digest)
        return _out({**_summary(ran), **({"tools": tools} if tools else {})}, ok=ran.passed)

    return Tool(spec, run)


def _compared(world: BuilderWorld, agent: str, digest: str) -> dict[str, dict[str, Any]]:
    """Of each tool of a revision, whether exactly that was registered in this session. The gate asks nobody that."""
    registered: dict[str, set[str]] = {}
    for event in world.host.store.events(world.session, kinds=("tool_check",)):
        if event.data.get("registered") is True:
            registered.setdefault(str(event.data.get("tool")), set()).add(str(event.data.get("digest")))
    revision = world.host.store.revision(agent, digest)
    return compare(revision.files if revision else (), registered)


async def _validate(world: BuilderWorld, context: ToolContext, agent: str, digest: str) -> ValidationRun:
    ran = await asyncio.to_thread(
        validate_revision,
        world.host.store,
        agent,
        digest,
        environment=world.environment,
        now=world.host.now,
        new_id=world.host.new_id,
        extra_checks=world.host.checks(world.host, world.environment.get("sandbox")),
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
        if not state.publish_requested:
            detail = {"tool": "publish_agent", "agent": state.agent, "digest": state.digest, "live": live}
            if not _approved(context, detail):
                now = f"now live: {live}" if live else "nothing is live yet"
                return _ask(
                    context, f"Publish {state.agent} {state.digest} to live? ({now}; it passed validation.)", detail
                )
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
