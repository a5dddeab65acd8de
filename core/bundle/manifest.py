"""`agent.yaml` and `tool.yaml`: their models, reading and canonical writing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from core.bundle.fields import (
    AgentName,
    CredentialName,
    HeaderName,
    Host,
    InsidePath,
    Model,
    Money,
    SkillName,
    ToolName,
    dump_model,
    fail,
    names_secret,
    names_secret_anywhere,
    not_empty,
    not_secret,
    problems_of,
    refuse_wildcard,
    unique,
)
from core.bundle.problems import Problem, ProblemCode
from core.bundle.strict_yaml import MAX_BYTES, Document, dump_yaml, load
from core.bundle.tree import open_directory, read_regular
from core.effects.requests import Binding

SCHEMA = "artificer/v1"
MANIFEST = "agent.yaml"
TOOL_MANIFEST = "tool.yaml"

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

M = TypeVar("M", bound=Model)
PolicyDecision = Literal["allow", "ask", "deny"]


class ManifestError(Exception):
    """A manifest cannot be used; `problems` says why."""

    hint = "A revision never changes: `artificer checkout AGENT DIR`, mend it, `artificer save DIR`, and run that."

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{p.path}: {p.message}" for p in problems[:5]))
        self.problems = tuple(problems)


class ModelPreference(Model):
    """What the agent would like to think with; a plain string in YAML is a model's name."""

    provider: StrictStr | None = None
    name: StrictStr | None = None
    effort: StrictStr | None = None


class McpServer(Model):
    """An MCP server: `http` with a `url` and perhaps a credential, or `stdio` with a command and none."""

    name: ToolName
    transport: Literal["http", "stdio"]
    url: StrictStr | None = None
    command: StrictStr | None = None
    args: tuple[StrictStr, ...] = ()
    credential: CredentialName | None = None

    @model_validator(mode="after")
    def _fits_transport(self) -> Self:
        if self.transport == "stdio":
            if self.credential is not None:
                raise fail(ProblemCode.STDIO_CREDENTIAL, "a stdio server gets no credential")
            named = (arg.partition("=")[0] for arg in (self.command or "", *self.args) if arg[:1] == "-" or "=" in arg)
            if any(map(names_secret_anywhere, named)):
                raise fail(ProblemCode.STDIO_CREDENTIAL, "a stdio server gets no key by its arguments either")
            if not self.command or self.url is not None:
                raise fail(ProblemCode.BAD_VALUE, "a stdio server has a command and no url")
            return self
        if not self.url or self.command is not None or self.args:
            raise fail(ProblemCode.BAD_VALUE, "an http server has a url and no command")
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise fail(ProblemCode.BAD_VALUE, "the url cannot be read") from error
        if parts.scheme not in ("http", "https") or not host:
            raise fail(ProblemCode.BAD_VALUE, "the url does not begin with https://HOST or http://HOST")
        refuse_wildcard(host)
        if parts.username is not None or parts.password is not None:
            raise fail(ProblemCode.CREDENTIAL_VALUE, "the url holds a user name or password")
        if any(names_secret(key) for key, _ in parse_qsl(parts.query)):
            raise fail(ProblemCode.CREDENTIAL_VALUE, "the url holds a key; declare a credential with query")
        if self.credential is not None and parts.scheme == "http" and host not in _LOOPBACK:
            raise fail(ProblemCode.BAD_VALUE, "a credential is sent over https alone")
        return self

    @property
    def host(self) -> str | None:
        """The host of the url, lower-case."""
        return urlsplit(self.url).hostname if self.url else None


class CredentialDeclaration(Model):
    """A credential by name: the exact hosts it may be sent to and how the host puts it in a request."""

    name: CredentialName
    description: StrictStr = ""
    hosts: Annotated[tuple[Host, ...], AfterValidator(not_empty)]
    header: HeaderName | None = None
    query: Annotated[StrictStr, Field(min_length=1)] | None = None
    basic_user: StrictStr | None = None
    format: StrictStr = "{secret}"

    @model_validator(mode="after")
    def _one_injection(self) -> Self:
        if sum(way is not None for way in (self.header, self.query, self.basic_user)) != 1:
            raise fail(ProblemCode.CREDENTIAL_INJECTION, "say exactly one of header, query and basic_user")
        if self.format.count("{secret}") != 1:
            raise fail(ProblemCode.CREDENTIAL_VALUE, "format must hold {secret} once, where the value goes")
        try:  # what could never be sent is no declaration
            Binding(self.hosts, self.header, self.query, self.basic_user, self.format)
        except ValueError as error:
            raise fail(ProblemCode.CREDENTIAL_INJECTION, str(error)) from error
        return self


class Delegates(Model):
    """The presets the agent may delegate to, and how deep children may go."""

    presets: tuple[StrictStr, ...] = ()
    max_depth: Annotated[StrictInt, Field(ge=0, le=16)] = 1


class Policy(Model):
    """What the agent may do without asking. `tools` names tools exactly; None is the kind's default."""

    run_sandbox: PolicyDecision = "deny"
    run_skill: PolicyDecision | None = None
    tools: dict[Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")], PolicyDecision] = Field(
        default_factory=dict
    )


class ManifestLimits(Model):
    """What a run may spend; None is no limit."""

    steps: Annotated[StrictInt, Field(gt=0)] | None = None
    tokens: Annotated[StrictInt, Field(gt=0)] | None = None
    usd: Money | None = None
    seconds: Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)] | None = None


def _model_preference(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class Manifest(Model):
    """`agent.yaml`: what an agent is. It never holds a time, an author, a run or a secret."""

    schema_: Literal["artificer/v1"] = Field(alias="schema")
    name: AgentName
    description: Annotated[StrictStr, Field(max_length=1024)] = ""
    persona: InsidePath = "persona.md"
    model: Annotated[ModelPreference, BeforeValidator(_model_preference)] | None = None
    skills: tuple[SkillName, ...] = ()
    tools: tuple[ToolName, ...] = ()
    mcp: tuple[McpServer, ...] = ()
    corpus: StrictBool = False
    credentials: tuple[CredentialDeclaration, ...] = ()
    delegates: Delegates = Delegates()
    policy: Policy = Policy()
    limits: ManifestLimits = ManifestLimits()
    metadata: dict[Annotated[str, AfterValidator(not_secret)], StrictStr] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        unique(self.skills, "skill")
        unique(self.tools, "tool")
        unique((server.name for server in self.mcp), "MCP server")
        unique((credential.name for credential in self.credentials), "credential")
        return self


class Example(Model):
    """A call of a tool: its input, and perhaps the output and the recorded effects it should have."""

    input: dict[str, Any]
    output: Any = None
    effects: tuple[dict[str, Any], ...] = ()


class ToolManifest(Model):
    """`tool.yaml`: a generated tool. Exactly one of `input_schema` (inline) and `schema` (a file)."""

    name: ToolName
    description: Annotated[StrictStr, Field(min_length=1, max_length=4096)]
    entrypoint: InsidePath = "tool.py"
    input_schema: dict[str, Any] | None = None
    schema_file: InsidePath | None = Field(default=None, alias="schema")
    requirements: tuple[StrictStr, ...] = ()
    credentials: tuple[CredentialName, ...] = ()
    hosts: tuple[Host, ...] = ()
    examples: tuple[Example, ...] = ()
    timeout_s: Annotated[float, Field(gt=0, le=3600, strict=True)] = 60.0

    @model_validator(mode="after")
    def _one_schema(self) -> Self:
        if self.input_schema is None and self.schema_file is None:
            raise fail(ProblemCode.SCHEMA_MISSING, "say input_schema, or schema with the path of a JSON file")
        if self.input_schema is not None and self.schema_file is not None:
            raise fail(ProblemCode.BAD_VALUE, "say input_schema or schema, not both")
        if not self.entrypoint.endswith(".py"):
            raise fail(ProblemCode.BAD_VALUE, "the entrypoint is a Python file (.py)")
        return self


def parse_manifest(data: bytes, path: str = MANIFEST) -> tuple[Manifest | None, list[Problem], Document]:
    """Read `agent.yaml`. The manifest is None where problems leave none; the document is what could be read."""
    document = load(data, path)
    return _validate(Manifest, document, path), document.problems, document


def parse_tool(data: bytes, path: str = TOOL_MANIFEST) -> tuple[ToolManifest | None, list[Problem], Document]:
    """Read `tool.yaml`, as `parse_manifest` does."""
    document = load(data, path)
    return _validate(ToolManifest, document, path), document.problems, document


def _validate(kind: type[M], document: Document, path: str) -> M | None:
    """The model of the document, its problems added to the document's."""
    if document.broken:
        return None
    if not isinstance(document.value, dict):
        message = "line 1: the document must be a mapping of keys to values"
        document.problems.append(Problem(ProblemCode.BAD_VALUE, path, message))
        return None
    try:
        model = kind.model_validate(document.value)
    except ValidationError as error:
        document.problems.extend(problems_of(error, document, path))
        return None
    return model if not document.problems else None


def read_manifest(directory: str | Path) -> Manifest:
    """The manifest of the bundle in `directory`. Raises ManifestError, or NotADirectoryError."""
    return _required(*parse_manifest(_read(directory, MANIFEST))[:2])


def read_tool(directory: str | Path) -> ToolManifest:
    """The manifest of the tool in `directory`. Raises ManifestError, or NotADirectoryError."""
    return _required(*parse_tool(_read(directory, TOOL_MANIFEST))[:2])


def _required(model: M | None, problems: list[Problem]) -> M:
    if model is None:
        raise ManifestError(problems)
    return model


def _read(directory: str | Path, name: str) -> bytes:
    root = open_directory(directory)
    try:
        return read_regular(root, name, MAX_BYTES + 1)
    except OSError as error:
        code = ProblemCode.MANIFEST_MISSING
        raise ManifestError([Problem(code, name, f"cannot be read: {error.strerror}")]) from error
    finally:
        os.close(root)


def dump_manifest(manifest: Manifest) -> str:
    """Canonical YAML: the order of the format, defaults left out; reading it gives the same manifest."""
    data = dump_model(manifest)
    for free in (data.get("policy", {}), data):
        for key in ("tools", "metadata"):
            if isinstance(free.get(key), dict):
                free[key] = dict(sorted(free[key].items()))
    return dump_yaml(data)


def dump_tool(tool: ToolManifest) -> str:
    """Canonical YAML of a `tool.yaml`, as `dump_manifest`."""
    return dump_yaml(dump_model(tool))
