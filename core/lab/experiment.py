"""An experiment: revisions × prompts × tasks × repeats, each cell a session; run again, it goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, StrictInt, StrictStr, model_validator

from core.bridge import text_digest
from core.bundle.fields import InsidePath, Model, unique
from core.bundle.problems import Problem, ProblemCode
from core.doors import cancel_abandoned
from core.driver import Limits
from core.lab.handover import BadStart, Start
from core.lab.lineage import tree_of
from core.lab.records import Record
from core.lab.runner import Job, Lost, Preset, Ran, Runner, Setting, resolve_preset
from core.lab.suite import BadSuite, LimitFields, Suite, load_suite, read_fields
from core.launch import Busy, Outcome
from core.policy import limits_to_json
from core.ports import Engine, Host, SessionInfo, Store
from core.stops import Stop

MOST_LOST: Final = 3
"""How often a cell may lose what runs it before it is given up: one that ends its workers must not do so for ever."""
Name = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


def _with_task(text: str) -> str:
    if "{task}" not in text:
        raise ValueError("a prompt says {task} where the task goes")
    return text


class PromptFields(Model):
    """What is tried: what is said around a task (`{task}` stands for it), and a persona in place of the revision's, as
    text or in a file beside this one."""

    id: Name
    text: Annotated[StrictStr, AfterValidator(_with_task)] = "{task}"
    persona: Annotated[StrictStr, Field(min_length=1)] | None = None
    persona_file: InsidePath | None = None


class TaskFields(Model):
    """A task; its workspace begins with the directory `start` (beside the file) and `files`."""

    id: Name
    task: Annotated[StrictStr, Field(min_length=1)]
    start: InsidePath | None = None
    files: dict[InsidePath, StrictStr] = Field(default_factory=dict)
    answers: tuple[StrictStr, ...] = ()


class ExperimentFields(Model):
    """The file. `revisions` are AGENT@DIGEST or AGENT@CHANNEL; `suite` is a directory beside the file whose environment
    all cells stand in; `replay` a session whose record answers their effects."""

    schema_: Literal["artificer/experiment/v1"] = Field(alias="schema")
    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    revisions: Annotated[tuple[StrictStr, ...], Field(min_length=1)]
    prompts: tuple[PromptFields, ...] = (PromptFields(id="plain", text="{task}"),)
    tasks: Annotated[tuple[TaskFields, ...], Field(min_length=1)]
    repeats: Annotated[StrictInt, Field(ge=1, le=1000)] = 1
    parallel: Annotated[StrictInt, Field(ge=1, le=256)] | None = None
    suite: InsidePath | None = None
    replay: StrictStr | None = None
    provider: StrictStr | None = None
    model: StrictStr | None = None
    sandbox: StrictStr | None = None
    limits: LimitFields = LimitFields()

    @model_validator(mode="after")
    def _ids_once(self) -> Self:
        unique((prompt.id for prompt in self.prompts), "prompt")
        unique((task.id for task in self.tasks), "task")
        return self


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: which revision is asked what, for the how-manieth time. `id` is the same as long as all of it is."""

    id: str
    preset: Preset
    prompt: str
    task: str
    repeat: int
    text: str
    start: Start = field(default_factory=Start)
    answers: tuple[str, ...] = ()
    persona: str | None = None

    def place(self) -> dict[str, Any]:
        """Where it stands in the matrix. `persona` is the digest of a text that stood in place of the revision's."""
        return {
            "type": "cell",
            "cell": self.id,
            "prompt": self.prompt,
            "persona": text_digest(self.persona) if self.persona is not None else None,
            "task": self.task,
            "repeat": self.repeat,
        }

    def planned(self) -> dict[str, Any]:
        """What is known of it before it has run."""
        preset = self.preset
        return {**self.place(), "preset": preset.id, "agent": preset.agent, "digest": preset.digest}


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment as read, its revisions resolved. `parallel` is how many cells run at once; None leaves it to where
    they run."""

    name: str
    cells: tuple[Cell, ...]
    parallel: int | None
    setting: Setting
    limits: Limits
    replay: str | None
    suite: Suite | None

    @property
    def session(self) -> str:
        """The id of its record: the same for the same name, so that running the file again goes on with it."""
        return f"x-{self.name}"


def load_experiment(
    path: str | Path, store: Store, setting: Setting | None = None, usual: Setting | None = None
) -> Experiment:
    """Read the file; what `setting` says stands before what the file says. `usual` is what stands where neither says
    anything: a cell with another model is another cell. Raises BadSuite, UnknownRef, NotAPreset, NotADirectoryError."""
    file = Path(path).resolve()
    fields: ExperimentFields = read_fields(ExperimentFields, file.parent, file.name)
    given, default = setting or Setting(), usual or Setting()
    chosen = Setting(given.provider or fields.provider, given.model or fields.model, given.sandbox or fields.sandbox)
    suite = load_suite(file.parent / fields.suite) if fields.suite else None
    if fields.replay is not None and store.session(fields.replay) is None:
        raise BadSuite([Problem(ProblemCode.BAD_VALUE, file.name, f"replay: there is no session {fields.replay}")])
    limits = fields.limits.limits()
    thinks = [str(chosen.provider or default.provider), chosen.model or default.model]
    environment: list[Any] = [*thinks, fields.replay, suite.digest if suite else None]
    environment += [limits_to_json(limits)] if limits != Limits() else []
    cells = tuple(_cells(fields, file.parent, store, environment))
    if len({cell.id for cell in cells}) < len(cells):
        words = "two of its cells are the same: a revision, or a prompt's or task's text, stands twice"
        raise BadSuite([Problem(ProblemCode.DUPLICATE_NAME, file.name, words)])
    return Experiment(fields.name, cells, fields.parallel, chosen, limits, fields.replay, suite)


def _cells(fields: ExperimentFields, root: Path, store: Store, environment: Sequence[Any]) -> list[Cell]:
    """In the order they run: every revision once before anything is repeated, so that what is done is comparable."""
    presets = [resolve_preset(store, revision, default="latest") for revision in fields.revisions]
    personas = {prompt.id: _persona(prompt, root) for prompt in fields.prompts}
    starts = [Start(root / task.start if task.start else None, None, task.files) for task in fields.tasks]
    marks = [_mark(task, start) for task, start in zip(fields.tasks, starts, strict=True)]
    cells = []
    for repeat in range(1, fields.repeats + 1):
        for task, start, mark in zip(fields.tasks, starts, marks, strict=True):
            for prompt in fields.prompts:
                for preset in presets:
                    text = prompt.text.replace("{task}", task.task)
                    facts = [fields.name, preset.agent, preset.digest, text, mark, task.answers, repeat]
                    persona = personas[prompt.id]
                    facts += [] if persona is None else [persona]
                    name = hashlib.sha256(json.dumps([facts, environment]).encode()).hexdigest()[:12]
                    cells.append(Cell(name, preset, prompt.id, task.id, repeat, text, start, task.answers, persona))
    return cells


def _persona(prompt: PromptFields, root: Path) -> str | None:
    """The persona that a prompt brings. Raises BadSuite."""
    if prompt.persona_file is None:
        return prompt.persona
    try:
        text = (root / prompt.persona_file).read_text("utf-8")
        problem = "" if text.strip() else "it is empty"
    except (OSError, UnicodeDecodeError) as error:
        text, problem = "", f"it cannot be read: {getattr(error, 'strerror', None) or error}"
    if prompt.persona is not None:
        problem = "a persona stands beside it; say one of the two"
    if problem:
        words = f"the persona_file of prompt {prompt.id}: {problem}"
        raise BadSuite([Problem(ProblemCode.BAD_VALUE, prompt.persona_file, words)])
    return text


def _mark(task: TaskFields, start: Start) -> Any:
    """What a start is, for the cells' ids. Raises BadSuite, NotADirectoryError."""
    from core.bundle.tree import UnsafeTree, digest_tree

    try:
        return [digest_tree(start.root) if start.root is not None else None, dict(start.texts)]
    except UnsafeTree as error:
        raise BadSuite([replace(one, path=f"{task.start}/{one.path}") for one in error.problems]) from error


class Attempts:
    """Looks at what earlier attempts at a cell left, and settles one whose process died; it starts nothing."""

    __slots__ = ("_events", "_session", "_settle", "_tree")

    def __init__(self, host: Host) -> None:
        self._session = host.store.session
        self._events = host.store.events
        self._tree: Callable[[str], list[str]] = lambda session: tree_of(host.store, session)
        self._settle: Callable[[str], bool] = lambda session: cancel_abandoned(host, session)

    def left(self, session: str) -> SessionInfo | None:
        """An earlier attempt, None where there was none."""
        known = self._session(session)
        if known is not None and known.stop is None:
            self._settle(session)
            return self._session(session)
        return known

    def may_have_acted(self, session: str) -> bool:
        """Whether it, or an agent it gave a task to, had begun an effect."""
        found = (next(iter(self._events(one, kinds=("effect_intent",), limit=1)), None) for one in self._tree(session))
        return any(event is not None for event in found)

    def ran(self, info: SessionInfo, preset: Preset) -> Ran:
        """A finished attempt as stored. Raises LookupError where its stop is not on record."""
        stops = list(self._events(info.id, kinds=("stop",)))
        if not stops:
            raise LookupError(f"The session {info.id} has no stop on record.")
        seconds = stops[-1].data.get("driven_s")
        return Ran(info.id, preset, Outcome.of(info, stops[-1].data), float(seconds or 0.0))


async def run_experiment(
    experiment: Experiment,
    *,
    attempts: Attempts,
    runner: Runner,
    record: Record,
    engine: Engine,
    show: Callable[[Mapping[str, Any]], None] = lambda row: None,
) -> list[Mapping[str, Any]]:
    """Run the cells that have no result on record; each is recorded once and shown. All rows, in the cells' order."""
    rows = {str(row.get("cell")): row for row in record.rows("cell")}
    for cell in experiment.cells:
        if cell.id in rows:
            show({**rows[cell.id], "recorded": True})

    async def work(cell: Cell) -> dict[str, Any]:
        return await run_cell(experiment, cell, attempts, runner, record.session)

    left = [cell for cell in experiment.cells if cell.id not in rows]
    async with aclosing(engine.run(left, work)) as results:
        async for cell, row in results:
            record.add("cell", row)
            rows[cell.id] = row
            show(row)
    return [rows[cell.id] for cell in experiment.cells]


async def run_cell(
    experiment: Experiment, cell: Cell, attempts: Attempts, runner: Runner, parent: str
) -> dict[str, Any]:
    """Run one cell, or take up what an earlier attempt left: a result nobody recorded, or none at all.

    An attempt that was cut short begins again only where it had begun no effect: what may have been done is never
    done twice. Raises Busy where another process is still at it.
    """
    losses: list[Lost] = []
    while True:
        attempt, row = _left(cell, attempts)
        if row is not None:
            return row
        if len(losses) == MOST_LOST:
            return {**_lost(cell, attempt, losses[-1].session, "worker_lost"), "output": losses[-1].why}
        try:
            return _row(cell, attempt, await runner.run(_job(experiment, cell, attempt, parent)))
        except BadStart as error:
            return {**_lost(cell, attempt, None, "bad_files"), "output": str(error)}
        except Lost as gone:
            losses.append(gone)


def _left(cell: Cell, attempts: Attempts) -> tuple[int, dict[str, Any] | None]:
    """The number of the next attempt; the cell's row where an earlier one has settled it. Raises Busy."""
    attempt = 1
    while (known := attempts.left(f"{cell.id}-{attempt}")) is not None:
        if known.stop is None:
            raise Busy(known.id)
        if known.stop != Stop.CANCELLED.value:
            return attempt, _row(cell, attempt, attempts.ran(known, cell.preset))
        if attempts.may_have_acted(known.id):
            return attempt, _lost(cell, attempt, known.id, "outcome_unknown")
        attempt += 1
    return attempt, None


def _job(experiment: Experiment, cell: Cell, attempt: int, parent: str) -> Job:
    return experiment.setting.job(
        cell.preset,
        cell.text,
        kind="arm",
        session=f"{cell.id}-{attempt}",
        parent=parent,
        limits=experiment.limits,
        replay=experiment.replay,
        network=experiment.replay is None and (experiment.suite is None or experiment.suite.network),
        suite=experiment.suite.to_json() if experiment.suite else None,
        start=cell.start,
        answers=cell.answers,
        persona=cell.persona,
    )


def _row(cell: Cell, attempt: int, ran: Ran) -> dict[str, Any]:
    return {**cell.place(), "attempt": attempt, **ran.to_json()}


def _lost(cell: Cell, attempt: int, session: str | None, detail: str) -> dict[str, Any]:
    """The row of a cell that has no result of its own: `outcome_unknown` (it may have had an effect nobody saw the
    answer of), `worker_lost` (all that ran it were) or `bad_files`."""
    preset = cell.preset
    resolved = {"preset": preset.id, "agent": preset.agent, "digest": preset.digest, "channel": preset.channel}
    outcome = {"stop": Stop.PLATFORM_ERROR.value, "session": session, "output": None, "detail": detail}
    taken = {"usage": None, "cost": {"usd": None}, "waiting": None, "duration_s": None}
    return {**cell.place(), "attempt": attempt, **resolved, **outcome, **taken}
