"""The static checks of generated tools: manifest, entrypoint, imports, requirements, schema, examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.bundle.fields import outside
from core.bundle.imports import REMOVED, is_declared, judge_requirement, normalise
from core.bundle.manifest import TOOL_MANIFEST, parse_tool
from core.bundle.probe import probe
from core.bundle.problems import Problem, ProblemCode
from core.bundle.schemas import MAX_SCHEMA_BYTES, judge_schema, load_json, too_deep
from core.bundle.strict_yaml import MAX_BYTES, Document
from core.bundle.view import BundleView

STANDARD_TOOLS = frozenset(
    {
        "ask_user",
        "read_skill",
        "run_skill",
        "search_corpus",
        "list_corpus",
        "get_corpus",
        "run_sandbox",
        "cannot_convert",
        "agent",
        "agent_compare",
    }
)
"""Names every agent's loop gives a meaning of its own."""

MAX_PYTHON_BYTES = 1_000_000


@dataclass(slots=True)
class ToolFacts:
    """What could be read of a tool, however broken it is. `prefix` is "" or ends in "/"; `places` are where
    hosts and credentials are judged again against the bundle's."""

    name: str
    prefix: str
    entrypoint: str = "tool.py"
    requirements: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    schema: Any = None
    schema_path: str = ""
    examples: list[Any] = field(default_factory=list)
    document: Document = field(default_factory=Document)

    @property
    def manifest_path(self) -> str:
        """Where its tool.yaml is."""
        return self.prefix + TOOL_MANIFEST


def read_tool_facts(view: BundleView, name: str, prefix: str) -> tuple[ToolFacts | None, list[Problem]]:
    """Read one tool's directory; None where it has no tool.yaml."""
    facts = ToolFacts(name, prefix)
    path = facts.manifest_path
    data = view.read(path, MAX_BYTES)
    if data is None:
        hint = "Write it, or remove the tool from the manifest."
        return None, [Problem(ProblemCode.TOOL_MISSING, path, "the tool has no tool.yaml", hint)]
    _, problems, document = parse_tool(data, path)
    facts.document = document
    header = document.value if isinstance(document.value, dict) else {}
    declared = header.get("name")
    if isinstance(declared, str) and declared != name:
        message = f"line {document.line(('name',))}: name: {declared[:80]!r} is not its directory's, {name!r}"
        problems.append(Problem(ProblemCode.BAD_NAME, path, message, "Rename one of them."))
    if name in STANDARD_TOOLS:
        message = f"{name!r} is the name of a standard tool"
        problems.append(Problem(ProblemCode.TOOL_NAME_CLASH, path, message, "Choose another name."))
    entrypoint = header.get("entrypoint", facts.entrypoint)
    facts.entrypoint = entrypoint if isinstance(entrypoint, str) and not outside(entrypoint) else ""
    facts.requirements = _texts(header.get("requirements"))
    facts.credentials = _texts(header.get("credentials"))
    facts.hosts = _texts(header.get("hosts"))
    examples = header.get("examples")
    facts.examples = examples if isinstance(examples, list) else []
    problems.extend(_read_schema(view, facts, header))
    return facts, problems


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _read_schema(view: BundleView, facts: ToolFacts, header: Mapping[str, Any]) -> list[Problem]:
    facts.schema_path = facts.manifest_path
    if "input_schema" in header:
        facts.schema = header["input_schema"]
        return []
    named = header.get("schema")
    if not isinstance(named, str) or outside(named):
        return []  # the manifest's model has said so
    facts.schema_path = facts.prefix + named
    data = view.read(facts.schema_path, MAX_SCHEMA_BYTES)
    if data is None:
        message = "the schema file is absent"
        return [Problem(ProblemCode.SCHEMA_MISSING, facts.schema_path, message, "Write it.")]
    facts.schema, problems = load_json(data, facts.schema_path)
    return problems


def check_requirements(facts: ToolFacts) -> tuple[set[str], list[Problem]]:
    """The normalised names of what the tool declares, and the requirements that may not be installed."""
    names: set[str] = set()
    problems: list[Problem] = []
    for index, text in enumerate(facts.requirements):
        name, code, why = judge_requirement(text)
        if name is not None:
            names.add(name)
        if code is not None:
            line = facts.document.line(("requirements", index))
            message = f"line {line}: requirements.{index}: {text[:100]!r} {why}"
            hint = "Name a release of the package index, such as httpx>=0.27."
            problems.append(Problem(code, facts.manifest_path, message, hint))
    return names, problems


def check_code(view: BundleView, tools: Sequence[ToolFacts]) -> list[Problem]:
    """Requirements, syntax, imports and the entrypoint of every tool; one child process parses it all."""
    problems: list[Problem] = []
    jobs: list[dict[str, Any]] = []
    owners: list[tuple[ToolFacts, set[str], str]] = []
    for tool in tools:
        names, found = check_requirements(tool)
        problems.extend(found)
        entrypoint = tool.prefix + tool.entrypoint
        if tool.entrypoint and entrypoint not in view.files:
            hint = "Write it with `def run(ctx, input)`."
            problems.append(Problem(ProblemCode.ENTRYPOINT_MISSING, entrypoint, "the entrypoint is absent", hint))
        for path in view.under(tool.prefix):
            if not path.endswith(".py"):
                continue
            source, found = view.text(path, MAX_PYTHON_BYTES)
            problems.extend(found)
            if source is not None:
                jobs.append({"source": source})
                owners.append((tool, names, path))
    local = {tool.prefix: _local_modules(view, tool.prefix) for tool in tools}
    for (tool, names, path), answer in zip(owners, probe("python", jobs), strict=True):
        problems.extend(_judge_module(tool, path, answer, local[tool.prefix], names))
    return problems


def _local_modules(view: BundleView, prefix: str) -> set[str]:
    """Top-level names that the tool's own files can be imported by."""
    names: set[str] = set()
    for path in view.under(prefix):
        first, _, rest = path[len(prefix) :].partition("/")
        if rest and path.endswith(".py"):
            names.add(first)
        elif not rest and first.endswith(".py"):
            names.add(first.removesuffix(".py"))
    return names


def _judge_module(
    tool: ToolFacts, path: str, answer: Mapping[str, Any] | None, local: set[str], declared: set[str]
) -> list[Problem]:
    if answer is None:
        hint = "Split it: it is too large or nested too deeply."
        return [Problem(ProblemCode.PYTHON_SYNTAX, path, "could not be parsed within its limits", hint)]
    if "error" in answer:
        line, message = answer["error"]
        return [Problem(ProblemCode.PYTHON_SYNTAX, path, f"line {line}: {message}", "Correct it.")]
    problems: list[Problem] = []
    top_level = "/" not in path[len(tool.prefix) :]
    reported: set[str] = set()
    for module, line, level in answer["imports"]:
        if level and top_level:
            hint = "Import the file by its name, without the dot."
            message = f"line {line}: a tool's directory is no package"
            problems.append(Problem(ProblemCode.RELATIVE_IMPORT, path, message, hint))
        top = module.partition(".")[0]
        if level or top in reported or is_declared(module, local, declared):
            continue
        reported.add(top)
        problems.append(_undeclared(path, line, top))
    if path == tool.prefix + tool.entrypoint:
        problems.extend(_judge_entrypoint(path, answer["run"]))
    return problems


def _undeclared(path: str, line: int, top: str) -> Problem:
    if top in REMOVED:
        message = f"line {line}: {top} is not in the standard library of every supported Python"
        hint = "Do without it, or add a distribution that brings it to requirements."
    else:
        message = f"line {line}: {top} comes from no declared requirement"
        hint = f"Add {normalise(top)} (or the distribution that brings it) to requirements in tool.yaml."
    return Problem(ProblemCode.UNDECLARED_IMPORT, path, message, hint)


def _judge_entrypoint(path: str, run: Mapping[str, Any] | None) -> list[Problem]:
    hint = "Define `def run(ctx, input)` or `async def run(ctx, input)` at module level."
    if run is None:
        message = "defines no function run at module level"
        return [Problem(ProblemCode.ENTRYPOINT_SIGNATURE, path, message, hint)]
    if run["wrong"] is not None:
        message = f"line {run['line']}: run must take (ctx, input), but {run['wrong']}"
        return [Problem(ProblemCode.ENTRYPOINT_SIGNATURE, path, message, hint)]
    return []


def check_schemas(tools: Sequence[ToolFacts]) -> list[Problem]:
    """The input schema of every tool, and its examples against it, in a child that can be killed."""
    problems: list[Problem] = []
    jobs: list[dict[str, Any]] = []
    owners: list[ToolFacts] = []
    for tool in tools:
        if tool.schema is None:
            continue
        found = judge_schema(tool.schema, tool.schema_path)
        problems.extend(found)
        if not isinstance(tool.schema, dict) or too_deep(tool.schema):
            continue
        # An unresolved reference would only be reported again by every example.
        sound = not any(p.code in _REFERENCE_CODES for p in found)
        inputs = [
            [index, example["input"]]
            for index, example in enumerate(tool.examples)
            if sound and isinstance(example, dict) and "input" in example
        ]
        jobs.append({"schema": tool.schema, "inputs": inputs})
        owners.append(tool)
    for tool, answer in zip(owners, probe("schema", jobs), strict=True):
        problems.extend(_judge_answer(tool, answer))
    return problems


_REFERENCE_CODES = (ProblemCode.SCHEMA_REMOTE_REF, ProblemCode.SCHEMA_DANGLING_REF)


def _judge_answer(tool: ToolFacts, answer: Mapping[str, Any] | None) -> list[Problem]:
    if answer is None:
        message = "the schema, or an example against it, could not be checked within its limits"
        hint = "Simplify its patterns: nested repetition takes exponential time."
        return [Problem(ProblemCode.CHECK_UNFINISHED, tool.schema_path, message, hint)]
    if answer["schema"] is not None:
        hint = "Follow JSON Schema 2020-12."
        return [Problem(ProblemCode.SCHEMA_INVALID, tool.schema_path, answer["schema"], hint)]
    problems = []
    for index, why in answer["inputs"]:
        line = tool.document.line(("examples", index))
        message = f"line {line}: examples.{index}: the input does not fit the schema: {why}"
        hint = "Correct the example, or the schema."
        problems.append(Problem(ProblemCode.EXAMPLE_INVALID, tool.manifest_path, message, hint))
    return problems
