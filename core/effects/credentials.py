"""Credentials by name: what exactly a value is bound to, who declares it, and what waits where there is none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from core.ports import Secrets, SecretsError, Store
from core.stops import Option, Waiting

if TYPE_CHECKING:
    from core.bundle.manifest import Manifest
    from core.effects.requests import Binding

LIVE: Final = "live"
SHORTEST_SECRET: Final = 8
"""Characters a value has at least: shorter ones cannot be told from ordinary text, so not be kept out of it."""
LONGEST_SECRET: Final = 16_384


# --- what a value is bound to --------------------------------------------------------------------------


def binding_id(
    agent: str,
    name: str,
    hosts: Iterable[str],
    header: str | None = None,
    query: str | None = None,
    basic_user: str | None = None,
    format: str = "{secret}",
) -> str:
    """A stable id of exactly what a value is bound to, 32 hex digits: a change of any of these gives another.

    The order and case of `hosts` and the case of `header` mean nothing to HTTP, so nothing here.
    """
    facts = {
        "agent": agent,
        "name": name,
        "hosts": sorted({host.lower() for host in hosts}),
        "header": None if header is None else header.lower(),
        "query": query,
        "basic_user": basic_user,
        "format": format,
    }
    data = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Declaration:
    """A credential as a manifest declares it: the hosts it may go to and the one way it goes into a request."""

    name: str
    hosts: tuple[str, ...]
    header: str | None = None
    query: str | None = None
    basic_user: str | None = None
    format: str = "{secret}"
    description: str = ""

    def binding_id(self, agent: str) -> str:
        """The id of what a value of this credential of `agent` is bound to."""
        ways = (self.header, self.query, self.basic_user)
        return binding_id(agent, self.name, self.hosts, *ways, self.format)

    def to_binding(self) -> Binding:
        """What the effect policy takes. Raises ValueError where it could never be sent so."""
        from core.effects.requests import Binding

        return Binding(self.hosts, self.header, self.query, self.basic_user, self.format)

    @property
    def injection(self) -> str:
        """How it is sent, in words: `header Authorization: Bearer ***`."""
        shown = self.format.replace("{secret}", "***")
        if self.header is not None:
            return f"header {self.header}: {shown}"
        if self.query is not None:
            return f"query {self.query}={shown}"
        return f"basic {self.basic_user}:{shown}"


def declared(manifest: Manifest) -> Mapping[str, Declaration]:
    """The credentials a manifest declares, by name, in its order."""
    return {
        c.name: Declaration(c.name, tuple(c.hosts), c.header, c.query, c.basic_user, c.format, c.description)
        for c in manifest.credentials
    }


def declared_by(store: Store, agent: str, digest: str | None) -> Mapping[str, Declaration]:
    """What a stored revision declares; nothing where it is gone or its manifest cannot be read. Raises StoreError."""
    from core.bundle.manifest import MANIFEST, parse_manifest

    revision = store.revision(agent, digest) if digest else None
    entry = next((file for file in revision.files if file.path == MANIFEST), None) if revision else None
    manifest = parse_manifest(store.blob(entry.sha256))[0] if entry else None
    return declared(manifest) if manifest else {}


# --- what is set ---------------------------------------------------------------------------------------


def has_values(secrets: Secrets | None, agent: str, declarations: Mapping[str, Declaration]) -> dict[str, bool]:
    """Of each declared credential, whether it has a value bound to exactly this declaration."""
    return {
        name: secrets is not None and secrets.has(agent, name, declaration.binding_id(agent))
        for name, declaration in declarations.items()
    }


@dataclass(frozen=True, slots=True)
class Declared:
    """A credential that a revision of an agent declares. `reads` says which: `latest`, `live` or as it was asked."""

    agent: str
    digest: str
    reads: str
    declaration: Declaration


def find_declaration(store: Store, agent: str, name: str, ref: str | None = None) -> Declared:
    """The declaration that a value of `name` is set for: of the revision `ref` names, else of the latest, else
    of the live one. Raises UnknownRef, and SecretsError `not_declared` naming what is declared."""
    from core.bundle.revisions import resolve_ref

    if ref is not None:
        digests = {ref: resolve_ref(store, agent, ref, default="latest")}
    else:
        digests = {"latest": resolve_ref(store, agent, None, default="latest")}
        live = store.channels(agent).get(LIVE)
        if live is not None:
            digests[LIVE] = live
    names: dict[str, None] = {}
    for reads, digest in digests.items():
        found = declared_by(store, agent, digest)
        if name in found:
            return Declared(agent, digest, reads, found[name])
        names.update(dict.fromkeys(found))
    there = f"It declares: {', '.join(names)}." if names else "It declares none."
    raise SecretsError(
        "not_declared", f"The agent {agent} declares no credential {name!r}. {there}", _declare_hint(agent, names)
    )


def ref_for(store: Store, agent: str, declaration: Declaration, digest: str | None) -> str | None:
    """How a person must name the revision `digest` so that a value is set for its `declaration`; None where the
    agent's name alone means the same. Raises StoreError."""
    from core.bundle.revisions import UnknownRef, short

    try:
        found = find_declaration(store, agent, declaration.name).declaration
    except (UnknownRef, SecretsError):
        found = None
    if digest is None or (found is not None and found.binding_id(agent) == declaration.binding_id(agent)):
        return None
    return short(digest)


def _declare_hint(agent: str, names: Mapping[str, None]) -> str:
    if names:
        return f"Set one of these: artificer credentials set {agent} {next(iter(names))}"
    return f"Declare it under `credentials:` in agent.yaml (artificer checkout {agent} DIR), then set its value."


def check_value(value: str, declaration: Declaration) -> None:
    """Raise SecretsError where `value` cannot be kept and sent: `too_short`, `too_long`, `not_a_line`. Never
    quotes it."""
    hint = "Nothing was stored. Give the value alone, as its issuer shows it."
    if len(value) < SHORTEST_SECRET:
        message = (
            f"A value has at least {SHORTEST_SECRET} characters; a shorter one could not be kept out of what is shown."
        )
        raise SecretsError("too_short", message, hint)
    if len(value) > LONGEST_SECRET:
        raise SecretsError("too_long", f"A value has at most {LONGEST_SECRET:,} characters.", hint)
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise SecretsError("not_a_line", "A value is one line without control characters.", hint)
    if any("\ud800" <= c <= "\udfff" for c in value):  # what reading makes of bytes that are not UTF-8
        raise SecretsError("not_a_line", "A value is text in UTF-8.", hint)
    if declaration.header is None:
        return
    if not value.isascii():
        raise SecretsError("not_a_line", "A value that is sent in a header is plain ASCII.", hint)
    sent = declaration.format.replace("{secret}", value)
    if sent != sent.strip():
        message = "A value that is sent in a header does not begin or end with a blank."
        raise SecretsError("not_a_line", message, hint)


def set_credential(
    store: Store, secrets: Secrets, agent: str, name: str, value: str, ref: str | None = None
) -> Declared:
    """Keep a value for what `agent` declares as `name`; returns what it is bound to now.

    Raises UnknownRef where there is no such agent, SecretsError where it declares no such credential, the value
    cannot be one, or it cannot be kept.
    """
    found = find_declaration(store, agent, name, ref)
    declaration = found.declaration
    check_value(value, declaration)
    secrets.put(
        agent,
        name,
        declaration.binding_id(agent),
        value,
        hosts=declaration.hosts,
        injection=declaration.injection,
    )
    return found


def credential_rows(store: Store, secrets: Secrets) -> list[dict[str, Any]]:
    """Everything that is declared or set: `agent, name, hosts, injection, set, at, declared_by`, by agent and name.

    `declared_by` holds `latest`, `live` or both; it is empty for a value that no longer fits what is declared.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for agent in store.agents():
        channel = store.channels(agent).get(LIVE)
        for reads, digest in (("latest", store.latest(agent)), (LIVE, channel)):
            for name, declaration in declared_by(store, agent, digest).items():
                key = (agent, name, declaration.binding_id(agent))
                row = rows.setdefault(key, _row(agent, name, declaration.hosts, declaration.injection))
                row["declared_by"].append(reads)
    for kept in secrets.list():
        row = rows.setdefault(
            (kept.agent, kept.name, kept.binding), _row(kept.agent, kept.name, kept.hosts, kept.injection)
        )
        row |= {"set": secrets.has(kept.agent, kept.name, kept.binding), "at": kept.at}
    return [rows[key] for key in sorted(rows)]


def _row(agent: str, name: str, hosts: Sequence[str], injection: str) -> dict[str, Any]:
    row = {"agent": agent, "name": name, "hosts": list(hosts), "injection": injection}
    return {**row, "set": False, "at": None, "declared_by": []}


# --- what waits ----------------------------------------------------------------------------------------


def waiting_for(
    call: str,
    agent: str,
    missing: Sequence[Declaration],
    *,
    ref: str | None = None,
    why: str | None = None,
) -> Waiting:
    """What a session waits for whose tool call `call` needs credentials without a value.

    A tool gives it with its output, `ToolOutput("", ok=False, stop=Stop.NEEDS_CREDENTIALS, waiting=…)`: the call
    stays open, and any answer but `end`, or resuming the session, runs it again. `ref` names the revision where
    it is not the one that `artificer credentials set AGENT NAME` would take; `why` replaces the reason, say where
    a value is there and cannot be read now.
    """
    target = f"{agent}@{ref}" if ref else agent
    names = tuple(declaration.name for declaration in missing)
    reason = why or f"{agent} needs a value for {', '.join(names)}."
    bound = [f"{d.name} is sent only to {', '.join(d.hosts)}, as {d.injection}." for d in missing]
    return Waiting(
        kind="credentials",
        id=call,
        message="\n".join([reason, *bound]),
        options=(Option("retry", "it is set: go on"), Option("end", "end here")),
        recommended="retry",
        names=names,
        detail={
            "agent": target,
            "hosts": sorted({host for declaration in missing for host in declaration.hosts}),
            "injection": {declaration.name: declaration.injection for declaration in missing},
            "set": [f"artificer credentials set {target} {name}" for name in names],
        },
    )
