"""The Builder's environment: its built-in bundle, the platform tools, and the source the person named."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import platform
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from core import (
    BuilderWorld,
    CorpusDocument,
    Host,
    Passage,
    Persona,
    SessionInfo,
    Skill,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSpec,
    UnknownResource,
    built_path,
    parse_manifest,
    platform_tools,
    write_tree,
)

SOURCE = "source"
AGENT = "agent"


class BuilderDriver:
    """The environment of one Builder session. `rules` says that its provider is rules only and imports by rule."""

    def __init__(self, host: Host, info: SessionInfo, *, rules: bool) -> None:
        self._host = host
        self._info = info
        self._rules = rules
        self._root = host.workspace_path(info.id)
        self._let_go: Callable[[], None] = lambda: None

    def keep_apart(self) -> None:
        """Keep what this session makes to itself: revisions, validations and channels in a store of its own, and no
        credential with a value. For a Builder that is evaluated."""
        from impl.drivers.scratch import scratch

        store, self._let_go = scratch(self._host.store, built_path(self._host, self._info.id))
        self._host = replace(self._host, store=store, secrets=None)

    async def close(self) -> None:
        """Let go of the store of its own, where there is one."""
        self._let_go()

    # --- who it is ---------------------------------------------------------------------------------

    async def persona(self) -> Persona:
        """The built-in bundle's persona, and what this session was started for."""
        bundle = files("core.builder").joinpath("bundle")
        manifest, problems, _ = parse_manifest(bundle.joinpath("agent.yaml").read_bytes())
        if manifest is None:
            raise RuntimeError(f"The Builder's own bundle is broken: {problems}")
        parts = [bundle.joinpath(manifest.persona).read_text("utf-8").strip()]
        started = self._started()
        if started.get("agent"):
            parts.append(f"Editing agent {started['agent']}. Its latest revision is in /work/agent.")
        if started.get("publish"):
            parts.append("Publishing was requested by the person.")
        return Persona(
            name=manifest.name,
            description=manifest.description,
            text="\n\n".join(parts),
            policy={"run_sandbox": "allow"},
        )

    def _started(self) -> Mapping[str, Any]:
        for event in self._host.store.events(self._info.id, limit=1):
            if event.kind == "started":
                return event.data
        return {}

    async def plugins(self) -> Sequence[Tool]:
        """The platform tools, and `import_source` for a provider that can only follow rules."""
        world = BuilderWorld(
            host=self._host,
            session=self._info.id,
            root=self._root,
            environment=await self._environment(),
            same_source=_same_source,
            rules=self._rules,
            brought=self._brought_by_the_model,
            extra=(self._import_source(),) if self._rules else (),
        )
        return platform_tools(world)

    async def _environment(self) -> dict[str, Any]:
        return await environment(self._host, self._info.sandbox)

    # --- bringing things in ------------------------------------------------------------------------

    async def prepare(self, emit: Callable[[str, Mapping[str, Any]], None], workspace: Path) -> None:
        """The agent being edited, and a source on this machine: copied in once, at the first drive."""
        started = self._started()
        workspace.mkdir(parents=True, exist_ok=True)
        agent, digest = started.get("agent"), started.get("digest")
        if agent and digest and not os.path.lexists(workspace / AGENT):
            revision = self._host.store.revision(agent, digest)
            if revision is not None:
                write_tree(revision.files, self._host.store.blob, workspace / AGENT)
        if self._rules:
            return
        cloned = await asyncio.to_thread(self._cloned)
        if cloned is not None:
            emit("source", cloned)
        source = self._wanted()
        if source is not None and self._words()[0] == "user":
            await self._bring_for_model(source, workspace, emit)

    def _wanted(self) -> str | None:
        """The source the person named, where it is not what was brought in last."""
        from impl.sources import named_source, same_source

        brought = self._brought()
        wanted = named_source(self._words()[1]) or (None if brought else self._started().get("source"))
        return None if not wanted or (brought and same_source(brought, wanted)) else wanted

    async def _bring_for_model(
        self, source: str, workspace: Path, emit: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        """Bring the source in and tell the model where it is, or why it is not there; nothing twice. A repository
        elsewhere is the model's to clone, in its sandbox, where that has a network."""
        from impl.sources import SourceError, cloned_from

        url = cloned_from(source)
        lacking = await self._no_network() if url is not None else None
        try:
            if url is not None and lacking is None:
                text = _to_clone(url)
                if not self._told(text):
                    await asyncio.to_thread(_remove, workspace / SOURCE)
            else:
                fetched = await self._bring(source, workspace, emit)
                text = _copied(source, fetched, lacking)
        except SourceError as error:
            text = f"The source {source} could not be brought in ({error.code}): {error.message} {error.hint}".strip()
        if not self._told(text):
            emit("nudge", {"text": text, "rule": "source"})

    async def _no_network(self) -> str | None:
        """Why this session's sandbox has no network, None where it has the filtered one."""
        if not self._started().get("network", True):
            return "this session may have none."
        info = self._host.store.session(self._info.id) or self._info
        chosen, _ = await self._host.sandboxes.choose(info.sandbox)
        return await chosen.no_network()

    def _told(self, text: str) -> bool:
        told = self._host.store.events(self._info.id, kinds=("nudge",))
        return any(event.data.get("text") == text for event in told)

    # --- what the model brought in itself ------------------------------------------------------------

    def _brought_by_the_model(self) -> dict[str, Any] | None:
        """At a save: what it cloned, else the address it was asked to begin with, whatever it made of that."""
        from impl.sources import cloned_from

        if self._rules:
            return None
        cloned = self._cloned()
        if cloned is not None or self._last_source() is not None:
            return cloned
        asked = cloned_from(self._started().get("source") or "")
        return None if asked is None else {"url": asked, "commit": None, "licence": self._licence()}

    def _cloned(self) -> dict[str, Any] | None:
        """The clone in /work/source of a repository that the person named; None where there is none, or it is known."""
        from impl.sources import read_clone

        clone = read_clone(self._root, SOURCE)
        url = self._as_named(clone.url) if clone is not None and clone.url is not None else None
        if clone is None or url is None:
            return None
        last = self._last_source() or {}
        if (last.get("url"), last.get("commit")) == (url, clone.commit):
            return None
        return {"url": url, "commit": clone.commit, "licence": self._licence()}

    def _licence(self) -> dict[str, Any]:
        from impl.sources import find_licence

        place = self._root / SOURCE
        return {"spdx": None, "status": "missing", "path": None} if place.is_symlink() else find_licence(place, [])

    def _as_named(self, origin: str) -> str | None:
        """The address of a clone in the person's own words, None where they named no such repository."""
        from impl.sources import addresses, same_source

        for words in self._said():
            for url in addresses(words):
                if same_source(url, origin):
                    return url
        return None

    def _words(self) -> tuple[str | None, str]:
        """(role, text) of the last message: only where it is the person's may words be put before the model's turn."""
        last: tuple[str | None, str] = (None, "")
        for event in self._host.store.events(self._info.id, kinds=("message",)):
            last = (event.data.get("role"), str(event.data.get("text") or ""))
        return last

    async def _bring(self, ref: str, workspace: Path, emit: Callable[[str, Mapping[str, Any]], None]) -> Any:
        """Bring a source in; replaces what was there. Raises SourceError."""
        from impl.sources import SCRATCH, SourceError, cloned_from, fetch_source, find_licence

        if not self._started().get("network", True) and cloned_from(ref) is not None:
            message = f"This session may have no network, so {ref} is not fetched."
            raise SourceError("not_readable", message, "Name a directory of this machine.")
        target = workspace / SOURCE
        try:
            for left in (target, *workspace.glob(f"{SCRATCH}*")):  # also what a process that was killed had begun
                await asyncio.to_thread(_remove, left)
            fetched = await fetch_source(ref, target)
            licence = await asyncio.to_thread(find_licence, target, [])
        except OSError as error:
            raise SourceError(
                "not_readable", _of_the_disk(error, self._host.home), "Check it, then try again."
            ) from error
        emit("source", {**_record(fetched), "licence": licence})
        return fetched

    def _import_source(self) -> Tool:
        spec = ToolSpec(
            "import_source",
            "Convert a source by fixed rules: a path or a git URL, its kind and what to take of it where asked.",
            {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "minLength": 1},
                    "kind": {"type": "string"},
                    "choice": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
        )
        return Tool(spec, self._run_import, writes=True)

    async def _run_import(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        from impl.sources import SourceError, import_source, same_source, source_name

        ref = args["path"]
        if not self._named_by_person(ref):
            return _failed("not_named", "Only a source the person named can be brought in.")
        self._root.mkdir(parents=True, exist_ok=True)
        try:
            brought = self._brought()
            if brought is None or not same_source(brought, ref) or not (self._root / SOURCE).exists():
                await self._bring(ref, self._root, context.emit)
            await asyncio.to_thread(_remove, self._root / AGENT)
            result = await asyncio.to_thread(
                import_source,
                self._root / SOURCE,
                name=self._started().get("agent") or source_name(ref),
                kind=args.get("kind"),
                choice=args.get("choice"),
                out=self._root / AGENT,
            )
        except SourceError as error:
            return _failed(error.code, error.message, error.hint)
        except OSError as error:
            return _failed("not_readable", _of_the_disk(error, self._host.home))
        found = result.to_json()
        if found.get("outcome") == "imported":
            found["losses"] += _left_behind((self._last_source() or {}).get("notes") or ())
            emitted = {**(self._last_source() or {}), "kind": found.get("kind"), "licence": found.get("licence")}
            context.emit("source", emitted)
        return ToolOutput(json.dumps(found, ensure_ascii=False, indent=1))

    def _named_by_person(self, ref: str) -> bool:
        return any(ref in words for words in self._said())

    def _said(self) -> Iterator[str]:
        """All that the person said in this session, and the source it was started with."""
        for event in self._host.store.events(self._info.id, kinds=("started", "message", "answer")):
            words = event.data.get("source") if event.kind == "started" else event.data.get("text")
            if event.data.get("role", "user") == "user" and words:
                yield str(words)

    def _last_source(self) -> dict[str, Any] | None:
        last = None
        for event in self._host.store.events(self._info.id, kinds=("source",)):
            last = dict(event.data)
        return last

    def _brought(self) -> str | None:
        last = self._last_source()
        return (last.get("url") or last.get("path")) if last else None

    # --- what it does not have ---------------------------------------------------------------------

    async def skill(self, name: str) -> Skill:
        """The Builder has no skills."""
        raise UnknownResource(f"The Builder has no skill {name!r}.")

    async def run_skill(self, name: str, script: str, args: Sequence[str], context: ToolContext) -> ToolOutput:
        """The Builder has no skills."""
        raise UnknownResource(f"The Builder has no skill {name!r}.")

    async def ext_mcp_url(self, name: str) -> str:
        """The Builder has no MCP servers."""
        raise UnknownResource(f"The Builder has no MCP server {name!r}.")

    async def search_corpus(self, query: str, limit: int = 5) -> Sequence[Passage]:
        """The Builder has no corpus."""
        return ()

    async def list_corpus(self) -> Sequence[CorpusDocument]:
        """The Builder has no corpus."""
        return ()

    async def get_corpus(self, path: str) -> str:
        """The Builder has no corpus."""
        raise UnknownResource("The Builder has no corpus.")

    async def resolve(self, name: str) -> bool:
        """The Builder has no credentials: its sandbox holds no secret."""
        return False


async def environment(host: Host, sandbox: str | None) -> dict[str, Any]:
    """What a validation run records of where it ran."""
    chosen, _ = await host.sandboxes.choose(sandbox)
    return {
        "sandbox": chosen.name,
        "unsafe": chosen.unsafe,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _to_clone(url: str) -> str:
    return (
        f"The source {url} is a repository that you bring in yourself: the sandbox has a network. Run "
        f"`git clone --depth 1 {shlex.quote(url)} /work/{SOURCE}`, then look at what is there. Where git is not found, "
        "say that the sandbox's image lacks it (the setting sandbox_image names another) and ask for a folder."
    )


def _copied(source: str, fetched: Any, lacking: str | None) -> str:
    """What the model is told of a source this machine brought in; `lacking` is why the sandbox could not."""
    at = f", at commit {fetched.commit}" if fetched.commit else ""
    by = f" by this machine, because the sandbox has no network ({lacking.rstrip('.')})" if lacking else ""
    notes = "".join(f"\n- {note}" for note in fetched.notes[:20])
    return f"The source {source} was copied to /work/{SOURCE}{by}: {fetched.files} files{at}, without .git.{notes}"


def _record(fetched: Any) -> dict[str, Any]:
    record = {"commit": fetched.commit, "files": fetched.files, "bytes": fetched.bytes, "notes": list(fetched.notes)}
    return {("url" if fetched.url else "path"): fetched.url or fetched.path, **record}


def _left_behind(notes: Sequence[str]) -> list[dict[str, str]]:
    """What bringing the source in left out, as losses of the import: `{"path", "change", "reason"}`."""
    split = (note.rpartition(": ") for note in notes[:100])
    return [{"path": path, "change": change, "reason": ""} for path, _, change in split]


def _same_source(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    from impl.sources import same_source

    refs = [str(x.get("url") or x.get("path") or "") for x in (a, b)]
    return bool(refs[0]) and same_source(refs[0], refs[1])


def _of_the_disk(error: OSError, home: Path) -> str:
    """What went wrong with a file, in words. Raises StoreError where it is that nothing more can be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        from impl.store.errors import from_os

        raise from_os(error, home) from error
    return f"{error.filename or home}: {error.strerror or error}."


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _failed(code: str, message: str, hint: str = "") -> ToolOutput:
    error = {"code": code, "message": message, "hint": hint}
    return ToolOutput(json.dumps({"error": error}, ensure_ascii=False), ok=False)
