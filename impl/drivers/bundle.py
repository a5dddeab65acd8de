"""The environment of a published agent: one stored revision, laid out read-only, and its corpus index."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core import (
    CorpusDocument,
    Host,
    Limits,
    Manifest,
    Passage,
    Persona,
    ReplayBook,
    Revision,
    Sandbox,
    SessionInfo,
    Skill,
    StoreError,
    Tool,
    ToolContext,
    ToolOutput,
    UnknownResource,
    declared,
    has_values,
    materialise,
    read_manifest,
    tree_of,
)
from impl.drivers.skills import SkillShelf

if TYPE_CHECKING:
    from impl.mcp.client.servers import McpServers
    from impl.tools.shop import ToolShop


class BundleDriver:
    """The environment that one revision of an agent is. `root` is the directory it is laid out in.

    Generated tools and credentials need `host` and the session, `info`.
    """

    def __init__(self, root: Path, host: Host | None = None, info: SessionInfo | None = None) -> None:
        self._root = root
        self._host = host
        self._info = info
        self._shop: ToolShop | None = None
        self._servers: McpServers | None = None
        self._emit: Callable[[str, Mapping[str, Any]], None] = lambda kind, data: None
        self._manifest: Manifest | None = None
        self._record: ReplayBook | None = None
        self._index: Any = None
        self._documents: Path | None = None
        self._stand_ins: Mapping[str, str] = {}

    @property
    def manifest(self) -> Manifest:
        """The revision's manifest. Raises ManifestError where it is broken."""
        if self._manifest is None:
            self._manifest = read_manifest(self._root)
        return self._manifest

    async def persona(self) -> Persona:
        """Who the agent is, from its manifest and persona file."""
        manifest = self.manifest
        policy: dict[str, Any] = dict(manifest.policy.tools)
        policy["run_sandbox"] = manifest.policy.run_sandbox
        if manifest.policy.run_skill is not None:
            policy["run_skill"] = manifest.policy.run_skill
        limits, (model, effort) = manifest.limits, self._preferred()
        return Persona(
            name=manifest.name,
            description=manifest.description,
            text=(self._root / manifest.persona).read_text("utf-8"),
            skills=self._skills().infos(),
            has_corpus=bool(manifest.corpus),
            policy=policy,
            limits=Limits(
                steps=limits.steps,
                tokens=limits.tokens,
                usd=None if limits.usd is None else str(limits.usd),
                seconds=limits.seconds,
            ),
            model=model,
            effort=effort,
            delegates=tuple(manifest.delegates.presets),
            max_depth=manifest.delegates.max_depth,
        )

    def _preferred(self) -> tuple[str | None, str | None]:
        """The model and effort it would like; a wish for another provider's model says nothing of this one's."""
        wish = self.manifest.model
        if wish is None:
            return None, None
        thinks = self._info.provider.partition(":")[0] if self._info is not None else ""
        fits = wish.provider is None or wish.provider.replace("-", "_") == thinks.replace("-", "_")
        return (wish.name, wish.effort) if fits else (None, None)

    def _skills(self) -> SkillShelf:
        return SkillShelf(self._root / "skills", self.manifest.skills)

    async def skill(self, name: str) -> Skill:
        """A skill by name: its instructions and the files it brings."""
        return self._skills().skill(name)

    async def run_skill(self, name: str, script: str, args: Sequence[str], context: ToolContext) -> ToolOutput:
        """Run one of a skill's scripts in the workspace, where the skill is copied first."""
        return await self._skills().run(name, script, args, context)

    async def ext_mcp_url(self, name: str) -> str:
        """The address of a declared http MCP server."""
        for server in self.manifest.mcp:
            if server.name == name and server.url:
                return str(server.url)
        raise UnknownResource(f"There is no MCP server {name!r}.")

    async def prepare(self, emit: Callable[[str, Mapping[str, Any]], None], workspace: Path) -> None:
        """Take what `plugins` needs to say and record what it asks of MCP servers."""
        self._emit = emit

    async def plugins(self) -> Sequence[Tool]:
        """The agent's generated tools, and those of its MCP servers."""
        if self._host is None or self._info is None:
            return ()
        generated = await self._generated_tools(self._host, self._info) if self.manifest.tools else []
        offered = await self._mcp_tools(self._host, self._info) if self.manifest.mcp else []
        return [*generated, *offered]

    async def _mcp_tools(self, host: Host, info: SessionInfo) -> Sequence[Tool]:
        from impl.mcp.client.servers import McpServers

        async def sandbox() -> Sandbox:
            return (await host.sandboxes.choose(info.sandbox))[0]

        self._servers = McpServers(
            host=host,
            session=info.id,
            agent=info.agent or self.manifest.name,
            root=self._root,
            place=host.workspace_path(info.id).with_name("mcp"),
            manifest=self.manifest,
            choose=sandbox,
            credential=self._credential,
            emit=self._emit,
            replay=self._replay(),
            at=self._stand_ins,
        )
        return await self._servers.tools()

    async def _generated_tools(self, host: Host, info: SessionInfo) -> Sequence[Tool]:
        from impl.tools.generated import generated_tools
        from impl.tools.shop import ToolShop

        sandbox, _ = await host.sandboxes.choose(info.sandbox)
        self._shop = ToolShop(
            host=host,
            session=info.id,
            agent=info.agent or self.manifest.name,
            root=self._root,
            place=host.workspace_path(info.id).with_name("tools"),
            manifest=self.manifest,
            sandbox=sandbox,
            credential=self._credential,
            replay=self._replay(),
            corpus=self._documents,
        )
        return generated_tools(self._shop)

    def answer_effects_from(self, record: ReplayBook) -> None:
        """Answer every effect from `record`, and send none, unless the session replays one of its own."""
        self._record = record

    def reach_servers_at(self, addresses: Mapping[str, str]) -> None:
        """Have what stands at these addresses of this machine answer for MCP servers, by name."""
        self._stand_ins = addresses

    def read_corpus_from(self, root: Path) -> None:
        """Take the documents of another directory for the agent's corpus, its generated tools too."""
        self._documents, self._index = root, None

    def _replay(self) -> ReplayBook | None:
        """The effects of the run that this one replays, its children's with them, or those it was given; None where
        they are to be performed."""
        if self._host is None or self._info is None:
            return self._record
        started = next(iter(self._host.store.events(self._info.id, kinds=("started",), limit=1)), None)
        session = started.data.get("replay") if started is not None else None
        if not session:
            return self._record
        store = self._host.store
        return ReplayBook(event for one in tree_of(store, session) for event in store.events(one, kinds=("effect",)))

    def _credential(self, name: str) -> str | None:
        """The value of a declared credential, for the host's side of effects alone."""
        if self._host is None or self._info is None or self._host.secrets is None:
            return None
        agent = self._info.agent or self.manifest.name
        found = declared(self.manifest).get(name)
        return self._host.secrets.take(agent, name, found.binding_id(agent)) if found else None

    async def close(self) -> None:
        """End the sandbox of the generated tools, and the MCP servers."""
        if self._shop is not None:
            await self._shop.close()
        if self._servers is not None:
            await self._servers.close()

    def _corpus(self) -> Any:
        if self._index is None:
            from impl.corpus import CorpusIndex

            self._index = CorpusIndex(self._documents or self._root / "corpus")
        return self._index

    async def search_corpus(self, query: str, limit: int = 5) -> Sequence[Passage]:
        """The best passages, best first."""
        found: Sequence[Passage] = self._corpus().search(query, limit)
        return found

    async def list_corpus(self) -> Sequence[CorpusDocument]:
        """Every document, by path."""
        found: Sequence[CorpusDocument] = self._corpus().documents()
        return found

    async def get_corpus(self, path: str) -> str:
        """A document's text."""
        text: str = self._corpus().text(path)
        return text

    async def resolve(self, name: str) -> bool:
        """Whether the declared credential has a value."""
        found = declared(self.manifest).get(name)
        if found is None:
            raise UnknownResource(f"No credential {name!r} is declared.")
        if self._host is None or self._info is None:
            return False
        return has_values(self._host.secrets, self._info.agent or self.manifest.name, {name: found})[name]


def bundle_driver(host: Host, info: SessionInfo) -> BundleDriver:
    """The driver of a session's revision; raises UnknownResource where the revision is gone."""
    revision = host.store.revision(info.agent or "", info.digest or "")
    if revision is None:
        raise UnknownResource(f"There is no revision {info.digest} of {info.agent}.")
    root = host.home / "laid-out" / revision.digest.removeprefix("sha256:")
    if not root.exists():
        _lay_out(host, revision, root)
    with contextlib.suppress(OSError):
        os.utime(root)  # it is in use: what cleans up leaves it alone
    return BundleDriver(root, host, info)


def _lay_out(host: Host, revision: Revision, root: Path) -> None:
    """Write the revision's files to `root`; another process may do the same at the same time, and either will do."""
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        materialise(host.store, revision, root)
    except OSError as error:
        if root.is_dir():
            return
        raise StoreError(
            "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "read_only",
            f"{root.parent} cannot be written ({error.strerror}).",
            "Make room or make it writable, or set ARTIFICER_HOME to another directory.",
        ) from error
