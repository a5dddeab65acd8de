"""The static gate: everything that can be said about a bundle without running any of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.bundle.fields import outside, split_preset
from core.bundle.manifest import MANIFEST, Manifest, parse_manifest
from core.bundle.problems import Problem, ProblemCode
from core.bundle.secret_scan import scan_for_secrets
from core.bundle.skills import MAX_SKILL_BYTES, SKILL_FILE, parse_skill
from core.bundle.strict_yaml import MAX_BYTES, Document
from core.bundle.tool_checks import ToolFacts, check_code, check_schemas, read_tool_facts
from core.bundle.tree import BUNDLE_CAPS
from core.bundle.view import BundleView

CHECKS_VERSION = "2"
"""Changes whenever a check may judge the same bundle differently; publishing asks for the current one."""

MAX_PERSONA_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """One check of the gate on one revision; `log` is what it looked at, in words."""

    name: str
    passed: bool
    duration_s: float
    log: str = ""
    problems: tuple[Problem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The row a validation run keeps; its problems are kept beside, flattened."""
        return {
            "name": self.name,
            "passed": self.passed,
            "duration_s": round(self.duration_s, 4),
            "log": self.log,
        }


@dataclass(slots=True)
class _State:
    """What earlier checks have read for later ones."""

    view: BundleView
    manifest: Manifest | None = None
    document: Document = field(default_factory=Document)
    tools: list[ToolFacts] = field(default_factory=list)

    def header(self, key: str) -> Any:
        """A top-level value of agent.yaml, whether or not the manifest as a whole is valid."""
        return self.document.value.get(key) if isinstance(self.document.value, dict) else None

    @property
    def lists(self) -> bool:
        """Whether agent.yaml could be read to its end, so that what it does not list is really unlisted."""
        return isinstance(self.document.value, dict) and not self.document.broken

    def names(self, key: str) -> list[str]:
        """A list of names in agent.yaml, those that lead out of the bundle left out."""
        value = self.header(key)
        if not isinstance(value, list):
            return []
        return [item for item in value if isinstance(item, str) and item and "/" not in item and not outside(item)]


_Check = Callable[[_State], tuple[str, list[Problem]]]


def check_bundle(path: str | os.PathLike[str]) -> list[Problem]:
    """Everything wrong with the bundle in the directory `path`, in a fixed order; empty where it is
    well-formed. Nothing of it is run and no link is followed.

    Raises NotADirectoryError where `path` is no directory; bad content is a problem, never an error.
    """
    return [problem for outcome in run_checks(path) for problem in outcome.problems]


def run_checks(path: str | os.PathLike[str]) -> list[CheckOutcome]:
    """The gate's static checks one by one; `check_bundle` is their problems. Raises NotADirectoryError."""
    with BundleView(path) as view:
        return list(_outcomes(_State(view), _BUNDLE_CHECKS))


def check_tool(path: str | os.PathLike[str]) -> list[Problem]:
    """Everything wrong with the one tool in the directory `path`; paths are relative to it.

    Whether the bundle declares the tool's credentials is the bundle's check. Raises NotADirectoryError.
    """
    name = os.path.basename(os.path.abspath(path))
    with BundleView(path) as view:
        state = _State(view)

        def manifest(state: _State) -> tuple[str, list[Problem]]:
            facts, problems = read_tool_facts(state.view, name, "")
            state.tools = [facts] if facts is not None else []
            return name, problems

        checks: dict[str, _Check] = {
            "files": _check_files,
            "tools": manifest,
            "code": _check_code,
            "schemas": _check_schemas,
            "secrets": _check_secrets,
        }
        return [problem for outcome in _outcomes(state, checks) for problem in outcome.problems]


def _outcomes(state: _State, checks: Mapping[str, _Check]) -> Iterator[CheckOutcome]:
    for name, check in checks.items():
        begun = time.perf_counter()
        log, problems = check(state)
        ordered = sorted(map(_printable, problems), key=lambda p: (p.path, p.code, p.message))
        yield CheckOutcome(name, not ordered, time.perf_counter() - begun, log, tuple(ordered))


def _printable(problem: Problem) -> Problem:
    """The problem with what the bundle put in its words made harmless for a terminal and for UTF-8."""
    if problem.message.isprintable():
        return problem
    message = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in problem.message)
    return replace(problem, message=message)


def _check_files(state: _State) -> tuple[str, list[Problem]]:
    entries = state.view.survey.entries
    size = sum(entry.size for entry in entries)
    return f"{len(entries)} files, {size:,} bytes", list(state.view.survey.problems)


def _check_manifest(state: _State) -> tuple[str, list[Problem]]:
    data = state.view.read(MANIFEST, MAX_BYTES)
    if data is None:
        hint = "Write agent.yaml with schema: artificer/v1 and a name."
        return "", [Problem(ProblemCode.MANIFEST_MISSING, MANIFEST, "there is no agent.yaml", hint)]
    state.manifest, problems, state.document = parse_manifest(data)
    presets = state.manifest.delegates.presets if state.manifest is not None else ()
    return f"{len(data):,} bytes", [*problems, *map(_no_preset, (p for p in presets if split_preset(p) is None))]


def _no_preset(text: str) -> Problem:
    """A delegate that no call could ever name."""
    message = f"delegates.presets: {text[:80]!r} is no preset"
    return Problem(ProblemCode.BAD_NAME, MANIFEST, message, "Write AGENT, AGENT@CHANNEL or AGENT@DIGEST.")


def _check_persona(state: _State) -> tuple[str, list[Problem]]:
    named = state.header("persona")
    path = named if isinstance(named, str) and named else "persona.md"
    if outside(path):
        return path, []  # the manifest's own check has said so
    text, problems = state.view.text(path, MAX_PERSONA_BYTES)
    if text is None and not problems:
        hint = "Write it: it says who the agent is."
        problems = [Problem(ProblemCode.PERSONA_MISSING, path, "the persona is absent", hint)]
    elif text is not None and not any(char.isprintable() and not char.isspace() for char in text):
        problems = [Problem(ProblemCode.PERSONA_EMPTY, path, "the persona has no text", "Write who the agent is.")]
    return path, problems


def _check_skills(state: _State) -> tuple[str, list[Problem]]:
    listed, present = state.names("skills"), state.view.directories("skills")
    problems = _unlisted(state, "skills", listed, present)
    for name in sorted({*listed, *present}):
        path = f"skills/{name}/{SKILL_FILE}"
        data = state.view.read(path, MAX_SKILL_BYTES)
        if data is None:
            hint = "Write it, or remove the skill from the manifest."
            problems.append(Problem(ProblemCode.SKILL_MISSING, path, "the skill has no SKILL.md", hint))
        else:
            problems.extend(parse_skill(data, name, path)[1])
    return f"{len(present)} skills", problems


def _unlisted(state: _State, kind: str, listed: list[str], present: list[str]) -> list[Problem]:
    """Directories the manifest does not list; nothing where there is no manifest to list them."""
    if not state.lists:
        return []
    hint = f"Add the name to {kind} in agent.yaml, or remove the directory."
    return [
        Problem(ProblemCode.UNLISTED, f"{kind}/{name}", f"agent.yaml does not list it under {kind}", hint)
        for name in present
        if name not in listed
    ]


def _check_tools(state: _State) -> tuple[str, list[Problem]]:
    listed, present = state.names("tools"), state.view.directories("tools")
    problems = _unlisted(state, "tools", listed, present)
    for name in sorted({*listed, *present}):
        facts, found = read_tool_facts(state.view, name, f"tools/{name}/")
        problems.extend(found)
        if facts is not None:
            state.tools.append(facts)
    return f"{len(present)} tools", problems


def _check_code(state: _State) -> tuple[str, list[Problem]]:
    return f"{len(state.tools)} tools", check_code(state.view, state.tools)


def _check_schemas(state: _State) -> tuple[str, list[Problem]]:
    return f"{len(state.tools)} tools", check_schemas(state.tools)


def _check_corpus(state: _State) -> tuple[str, list[Problem]]:
    documents = state.view.under("corpus/")
    wanted = state.header("corpus")
    problems = []
    if wanted is True and not documents:
        hint = "Put documents under corpus/, or say corpus: false."
        problems.append(Problem(ProblemCode.CORPUS_EMPTY, "corpus", "there is no document in it", hint))
    if documents and wanted is not True and state.lists:
        hint = "Say corpus: true, or remove the directory."
        problems.append(Problem(ProblemCode.UNLISTED, "corpus", "agent.yaml does not say corpus: true", hint))
    return f"{len(documents)} documents", problems


def _check_credentials(state: _State) -> tuple[str, list[Problem]]:
    """Who uses which credential, and whether it may be sent where they call."""
    declared = _declared_credentials(state)
    problems: list[Problem] = []
    uses = [
        (tool.manifest_path, f"tool {tool.name}", name, tool.hosts) for tool in state.tools for name in tool.credentials
    ]
    for server in state.manifest.mcp if state.manifest is not None else ():
        if server.credential is not None:
            uses.append((MANIFEST, f"MCP server {server.name}", server.credential, [server.host or ""]))
    for path, user, name, hosts in uses:
        if name not in declared:
            hint = "Declare it under credentials in agent.yaml with its hosts."
            message = f"{user} uses the credential {name[:64]!r}, which is not declared"
            problems.append(Problem(ProblemCode.CREDENTIAL_UNDECLARED, path, message, hint))
        elif not set(hosts) & declared[name]:
            hint = "Give the tool the host it calls, and the credential the same host."
            message = f"{user} calls no host that the credential {name[:64]!r} may be sent to"
            problems.append(Problem(ProblemCode.CREDENTIAL_HOSTS, path, message, hint))
    return f"{len(declared)} declared, {len(uses)} uses", problems


def _declared_credentials(state: _State) -> dict[str, set[str]]:
    """Hosts by credential name, read from whatever the manifest holds."""
    found: dict[str, set[str]] = {}
    value = state.header("credentials")
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            hosts = item.get("hosts")
            found[item["name"]] = {h for h in hosts if isinstance(h, str)} if isinstance(hosts, list) else set()
    return found


def _check_secrets(state: _State) -> tuple[str, list[Problem]]:
    problems: list[Problem] = []
    for path in state.view.files:
        data = state.view.read(path, BUNDLE_CAPS.file)
        if data is not None:
            problems.extend(scan_for_secrets(data, path))
    return f"{len(state.view.files)} files", problems


_BUNDLE_CHECKS: Mapping[str, _Check] = {
    "files": _check_files,
    "manifest": _check_manifest,
    "persona": _check_persona,
    "skills": _check_skills,
    "tools": _check_tools,
    "code": _check_code,
    "schemas": _check_schemas,
    "corpus": _check_corpus,
    "credentials": _check_credentials,
    "secrets": _check_secrets,
}
