"""A suite: a directory with `suite.yaml`, the cases of an evaluation and the environment they are run in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, ValidationError

from core.bundle.fields import InsidePath, Model, Money, ToolName, problems_of
from core.bundle.problems import Problem, ProblemCode
from core.bundle.skills import SKILL_FILE, parse_skill
from core.bundle.strict_yaml import Document, load
from core.bundle.tree import digest_tree
from core.driver import Limits
from core.lab.handover import Start
from core.lab.matching import bad_schema
from core.lab.runner import Build
from core.lab.wanted import BadCheck, Check, parse_check

SUITE = "suite.yaml"


class BadSuite(Exception):
    """A suite or experiment cannot be used; `problems` says why."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{p.path}: {p.message}" for p in problems[:5]))
        self.problems = tuple(problems)


def _on_this_machine(text: str) -> str:
    try:
        parts = urlsplit(text)
        fits = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost") and parts.port
    except ValueError:
        fits = None
    if not fits:
        raise ValueError("it is an http address of this machine with a port: http://127.0.0.1:PORT/…")
    return text


def _schema(given: dict[str, Any]) -> dict[str, Any]:
    if (problem := bad_schema(given)) is not None:
        raise ValueError(problem)
    return given


LocalAddress = Annotated[StrictStr, AfterValidator(_on_this_machine)]


class LimitFields(Model):
    """What a session may spend; None is no limit."""

    steps: Annotated[StrictInt, Field(gt=0)] | None = None
    tokens: Annotated[StrictInt, Field(gt=0)] | None = None
    usd: Money | None = None
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    def limits(self) -> Limits:
        """As the loop takes them."""
        return Limits(self.steps, self.tokens, self.usd, self.seconds)


class AnswerFields(Model):
    """A canned answer of a tool: for calls whose arguments have all of `when`."""

    when: dict[str, Any] = Field(default_factory=dict)
    output: Any = ""
    ok: StrictBool = True


class ToolFields(Model):
    """A tool whose answers are canned. `description` and `input_schema` are for one the agent does not have itself."""

    description: StrictStr = ""
    input_schema: Annotated[dict[str, Any], AfterValidator(_schema)] = Field(default_factory=lambda: {"type": "object"})
    answers: tuple[AnswerFields, ...] = ()


HeaderFields = dict[str, StrictStr | StrictInt] | tuple[tuple[StrictStr, StrictStr | StrictInt], ...]


class AskedFields(Model):
    """The request of an effect on record."""

    method: Annotated[StrictStr, Field(min_length=1)] = "GET"
    url: Annotated[StrictStr, Field(min_length=1)]
    headers: HeaderFields = Field(default_factory=dict)
    body: Any = ""
    credential: StrictStr | None = None


class GivenFields(Model):
    """What the world answered to it."""

    status: Annotated[StrictInt, Field(ge=100, le=599)] = 200
    headers: HeaderFields = Field(default_factory=dict)
    body: Any = ""


class EffectFields(Model):
    """An effect on record, which answers a tool that asks for the same."""

    tool: ToolName
    request: AskedFields
    response: GivenFields = GivenFields()


class RubricFields(Model):
    """A rubric that checks may name: `judge: NAME`."""

    text: Annotated[StrictStr, Field(min_length=1)]
    criteria: tuple[StrictStr, ...] = ()


class JudgeFields(Model):
    """What judges where nobody names another: a provider and, in its words, a model."""

    provider: StrictStr
    model: StrictStr | None = None


class CaseFields(Model):
    """A case as `suite.yaml` writes it. Only the Builder takes a `source`, a directory of the suite, and `publish`."""

    id: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    task: StrictStr = ""
    source: InsidePath | None = None
    publish: StrictBool = False
    start: InsidePath | None = None
    files: dict[InsidePath, StrictStr] = Field(default_factory=dict)
    answers: tuple[StrictStr, ...] = ()
    limits: LimitFields = LimitFields()
    tags: tuple[StrictStr, ...] = ()
    checks: tuple[dict[str, Any], ...] = ()


class SuiteFields(Model):
    """`suite.yaml`. `cases` may also stand in the YAML files named by `case_files`, each a list of cases; `mcp` are
    stand-ins for the agent's MCP servers, started by whoever runs the suite."""

    schema_: Literal["artificer/suite/v1"] = Field(alias="schema")
    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    description: StrictStr = ""
    persona: StrictStr | None = None
    tools: dict[ToolName, ToolFields] = Field(default_factory=dict)
    mcp: dict[StrictStr, LocalAddress] = Field(default_factory=dict)
    effects: tuple[EffectFields, ...] = ()
    credentials: dict[StrictStr, StrictBool] = Field(default_factory=dict)
    network: StrictBool = False
    limits: LimitFields = LimitFields()
    rubrics: dict[StrictStr, RubricFields] = Field(default_factory=dict)
    judge: JudgeFields | None = None
    cases: tuple[CaseFields, ...] = ()
    case_files: tuple[InsidePath, ...] = ()


@dataclass(frozen=True, slots=True)
class Canned:
    """One canned answer of a tool."""

    when: Mapping[str, Any]
    output: Any
    ok: bool = True


@dataclass(frozen=True, slots=True)
class CannedTool:
    """A tool that answers from the suite."""

    description: str
    input_schema: Mapping[str, Any]
    answers: tuple[Canned, ...]

    def answer(self, args: Mapping[str, Any]) -> Canned | None:
        """The first answer whose `when` these arguments have, None where none does."""
        fits = (a for a in self.answers if all(k in args and args[k] == v for k, v in a.when.items()))
        return next(fits, None)


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a task, what its workspace begins with, answers to what the agent asks, and the checks. It passes
    where every check does; one without a check of the stop must complete. `build` is for the Builder alone."""

    id: str
    task: str
    checks: tuple[Check, ...]
    start: Start = field(default_factory=Start)
    answers: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    tags: tuple[str, ...] = ()
    build: Build = field(default_factory=Build)


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite as read. `corpus` and `skills` are directories, None where the agent's own stand; `persona` is the
    system text of a suite that is run without an agent; `judge` a provider and a model."""

    root: Path
    digest: str
    name: str
    cases: tuple[Case, ...] = ()
    description: str = ""
    persona: str | None = None
    corpus: Path | None = None
    skills: Path | None = None
    tools: Mapping[str, CannedTool] = field(default_factory=dict)
    mcp: Mapping[str, str] = field(default_factory=dict)
    effects: tuple[Mapping[str, Any], ...] = ()
    credentials: Mapping[str, bool] = field(default_factory=dict)
    network: bool = False
    limits: Limits = field(default_factory=Limits)
    judge: tuple[str, str | None] | None = None

    def to_json(self) -> dict[str, str]:
        """What a session records of the suite it stands in."""
        return {"path": str(self.root), "digest": self.digest, "name": self.name}


def load_suite(path: str | Path) -> Suite:
    """Read the suite in a directory. Raises BadSuite, NotADirectoryError, UnsafeTree."""
    root = Path(path).resolve()
    digest = digest_tree(root)
    fields = read_fields(SuiteFields, root, SUITE)
    written = [(SUITE, case) for case in fields.cases]
    for name in fields.case_files:
        written += [(name, case) for case in read_fields(_Cases, root, name, key="cases").cases]
    skills = _directory(root, "skills")
    if problems := _unreadable(skills):
        raise BadSuite(problems)
    return Suite(
        root=root,
        digest=digest,
        name=fields.name,
        cases=tuple(_cases(written, root, fields)),
        description=fields.description,
        persona=fields.persona,
        corpus=_directory(root, "corpus"),
        skills=skills,
        tools={name: _tool(tool) for name, tool in fields.tools.items()},
        mcp=fields.mcp,
        effects=tuple(effect.model_dump() for effect in fields.effects),
        credentials=fields.credentials,
        network=fields.network,
        limits=fields.limits.limits(),
        judge=(fields.judge.provider, fields.judge.model) if fields.judge else None,
    )


class _Cases(Model):
    cases: tuple[CaseFields, ...]


def read_fields(kind: type[Any], root: Path, name: str, *, key: str | None = None) -> Any:
    """The model in a YAML file of `root`; with `key`, of what is a list there under that key. Raises BadSuite."""
    try:
        data = (root / name).read_bytes()
    except OSError as error:
        code = ProblemCode.MANIFEST_MISSING
        raise BadSuite([Problem(code, name, f"cannot be read: {error.strerror}")]) from error
    document: Document = load(data, name)
    value = {key: document.value} if key is not None and isinstance(document.value, list) else document.value
    if document.problems:
        raise BadSuite(document.problems)
    if not isinstance(value, dict):
        raise BadSuite([Problem(ProblemCode.BAD_VALUE, name, "the document must be a mapping of keys to values")])
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise BadSuite(problems_of(error, document, name)) from error


def _directory(root: Path, name: str) -> Path | None:
    return root / name if (root / name).is_dir() else None


def _unreadable(skills: Path | None) -> list[Problem]:
    """What is wrong with the skills that cannot be read; those that merely break a rule are taken."""
    found: list[Problem] = []
    for place in sorted(p for p in skills.iterdir() if p.is_dir()) if skills is not None else ():
        path = f"skills/{place.name}/{SKILL_FILE}"
        try:
            skill, problems = parse_skill((place / SKILL_FILE).read_bytes(), place.name, path)
        except OSError as error:
            skill, problems = None, [Problem(ProblemCode.SKILL_INVALID, path, f"cannot be read: {error.strerror}")]
        found += problems if skill is None else []
    return found


def _tool(tool: ToolFields) -> CannedTool:
    answers = tuple(Canned(answer.when, answer.output, answer.ok) for answer in tool.answers)
    return CannedTool(tool.description, tool.input_schema, answers)


def _cases(written: Iterable[tuple[str, CaseFields]], root: Path, suite: SuiteFields) -> list[Case]:
    problems: list[Problem] = []
    cases: list[Case] = []
    for path, given in written:
        if not given.task and given.source is None:
            problems.append(Problem(ProblemCode.MISSING_KEY, path, f"case {given.id!r} has no task"))
        for key, name in (("start", given.start), ("source", given.source)):
            if name is not None and not (root / name).is_dir():
                problems.append(Problem(ProblemCode.BAD_VALUE, path, f"case {given.id!r}: {key}: {name} is no folder"))
        if any(case.id == given.id for case in cases):
            problems.append(Problem(ProblemCode.DUPLICATE_NAME, path, f"case {given.id!r} stands twice"))
        checks: list[Check] = []
        for raw in given.checks:
            try:
                checks.append(parse_check(_with_rubric(raw, suite)))
            except BadCheck as error:
                problems.append(Problem(ProblemCode.BAD_VALUE, path, f"case {given.id}: {error}"))
        if not any(check.kind == "stop" for check in checks):
            checks.insert(0, Check("stop", "completed"))
        start = Start(root / given.start if given.start else None, None, given.files)
        build = Build(root / given.source if given.source else None, given.publish)
        limits = _limits(suite, given)
        cases.append(Case(given.id, given.task, tuple(checks), start, given.answers, limits, given.tags, build))
    if not cases and suite.persona is None:
        problems.append(Problem(ProblemCode.MISSING_KEY, SUITE, "it has no cases", "Add cases."))
    if problems:
        raise BadSuite(problems)
    return cases


def _with_rubric(raw: Mapping[str, Any], suite: SuiteFields) -> Mapping[str, Any]:
    """A check with the rubric it names in place of the name. Raises BadCheck."""
    name = raw.get("judge")
    if not isinstance(name, str):
        return raw
    if name not in suite.rubrics:
        raise BadCheck(f"there is no rubric {name!r}. There are: {', '.join(suite.rubrics) or 'none'}.")
    rubric = suite.rubrics[name]
    return {"judge": {"rubric": rubric.text, "criteria": list(rubric.criteria)}}


def _limits(suite: SuiteFields, case: CaseFields) -> Limits:
    from core.policy import tighter

    return tighter(suite.limits.limits(), case.limits.limits())
