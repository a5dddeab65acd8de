"""Children of a running agent: the tools `agent` and `agent_compare`, and what a child is given and never exceeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from core.bundle.revisions import UnknownRef
from core.driver import Decision, Limits, Tool, ToolContext, ToolOutput
from core.lab.handover import BadStart, Start
from core.lab.lineage import children_of, spent_by
from core.lab.runner import Job, NotAPreset, Preset, Ran, Runner, resolve_preset
from core.policy import Inherited, Spent, half, remaining, spent_usd
from core.ports import Store
from core.provider import ToolSpec
from core.session import SessionLog
from core.stops import Stop

DEEPEST: Final = 8
"""No session is deeper than this, whatever manifests say. A session that a person starts has depth 0."""


class Refusal(StrEnum):
    """Why no child was started: the closed set of `data.error` in the tool's result."""

    NOT_A_PRESET = "not_a_preset"
    """A path, a package, an address or a row of settings was named instead of a preset id."""
    NOT_LISTED = "not_listed"
    """The agent's manifest does not list it under delegates."""
    NOT_FOUND = "not_found"
    """It is listed, but no such agent is stored, or nothing of it is published there."""
    TOO_DEEP = "too_deep"
    """A child would be deeper than the agent, one of its parents or Artificer allows."""
    NO_BUDGET = "no_budget"
    """Too little of the tree's budget is left to share."""
    BAD_FILES = "bad_files"
    """The files to hand over are not plain files and directories of the workspace."""


class NotStarted(Exception):
    """No child was started; the tree is as it was."""

    def __init__(self, code: Refusal, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Parent:
    """What children need of the session that starts them. `policy` gives its words with what people allowed it since;
    `limits` what its whole tree may spend; `seconds` how long it has been driven; `job` makes a child's job, with the
    parent's provider, sandbox kind, network policy, environment and record to replay."""

    log: SessionLog
    presets: tuple[str, ...]
    deepest: int
    workspace: Path
    policy: Callable[[], Mapping[str, Decision]]
    limits: Callable[[], Limits]
    seconds: Callable[[], float]
    job: Callable[[Preset, str], Job]


class Delegation:
    """Starts children of one running session within its policy, depth and budget."""

    def __init__(self, parent: Parent, runner: Runner, store: Store) -> None:
        self._parent = parent
        self._runner = runner
        self._store = store
        self._children = {child: spent_by(store, child) for child in children_of(store, parent.log.id)}
        self._reserved: dict[int, Spent] = {}
        self._number = 0

    @property
    def spent(self) -> Spent:
        """What all children, and theirs, have spent so far."""
        return sum(self._children.values(), Spent())

    @property
    def presets(self) -> tuple[str, ...]:
        """The ids that may be delegated to."""
        return self._parent.presets

    def resolve(self, preset: str) -> Preset:
        """The revision a listed preset means now. Raises NotStarted."""
        listed = ", ".join(self.presets)
        try:
            if preset in self.presets:
                return resolve_preset(self._store, preset)
            resolve_preset(self._store, preset)
        except NotAPreset as error:
            raise NotStarted(Refusal.NOT_A_PRESET, f"{error} The presets are: {listed}.") from error
        except UnknownRef as error:
            if preset in self.presets:
                raise NotStarted(Refusal.NOT_FOUND, f"{preset}: {error.message}. {error.hint}".strip()) from error
        raise NotStarted(Refusal.NOT_LISTED, f"{preset!r} is not among this agent's presets: {listed}.")

    async def run(self, call: str, preset: Preset, task: str, files: Sequence[str]) -> Ran:
        """Run one child to its stop. Raises NotStarted."""
        return await self.start(call, self.prepare(preset, task, files))

    def prepare(self, preset: Preset, task: str, files: Sequence[str]) -> Job:
        """A child's job: one deeper, under the parent's policy, in a workspace of its own. Raises NotStarted."""
        parent = self._parent
        depth = parent.log.info.depth + 1
        if depth > parent.deepest:
            message = f"A child would have depth {depth}; this session may have children down to {parent.deepest}."
            raise NotStarted(Refusal.TOO_DEEP, message)
        return replace(
            parent.job(preset, task),
            kind="child",
            parent=parent.log.id,
            depth=depth,
            inherited=Inherited(parent.policy(), parent.deepest),
            start=Start(parent.workspace, tuple(files)) if files else Start(),
        )

    async def start(self, call: str, job: Job) -> Ran:
        """Run a prepared job with a share of what is left. Raises NotStarted."""
        with self._share() as limits:
            child: list[str] = []

            def before(session: str) -> None:
                child.append(session)
                self._parent.log.emit("child", _lineage(call, job, session))

            try:
                return await self._runner.run(replace(job, limits=limits), before=before)
            except BadStart as error:
                raise NotStarted(Refusal.BAD_FILES, str(error)) from error
            finally:
                for session in child:
                    self._children[session] = spent_by(self._store, session)

    @contextmanager
    def _share(self) -> Iterator[Limits]:
        """Half of what nobody has spent or been promised, promised while the child runs. Raises NotStarted."""
        info = self._parent.log.info
        own = Spent(self._parent.log.history.steps, info.input_tokens + info.output_tokens, spent_usd(info))
        spent = sum(self._reserved.values(), own + self.spent)
        share = half(remaining(self._parent.limits(), spent, self._parent.seconds()))
        if share is None:
            raise NotStarted(Refusal.NO_BUDGET, "Too little of the budget is left to give a child a share.")
        self._number += 1
        number = self._number
        self._reserved[number] = Spent(share.steps or 0, share.tokens or 0, Decimal(share.usd or 0))
        try:
            yield share
        finally:
            del self._reserved[number]


def _lineage(call: str, job: Job, session: str) -> dict[str, Any]:
    preset = job.preset
    resolved = {"preset": preset.id, "agent": preset.agent, "digest": preset.digest, "channel": preset.channel}
    return {"call": call, **resolved, "session": session, "depth": job.depth}


# --- the tools -------------------------------------------------------------------------------------------

_WORD: Final = {"type": "string", "minLength": 1}
_FILES: Final = {
    "type": "array",
    "items": _WORD,
    "maxItems": 100,
    "description": "paths below /work to copy into its own workspace",
}


def delegation_tools(delegation: Delegation) -> list[Tool]:
    """The tools of an agent that has presets."""
    tools = [_agent(delegation)]
    if len(delegation.presets) > 1:
        tools.append(_agent_compare(delegation))
    return tools


def _schema(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _agent(delegation: Delegation) -> Tool:
    listed = ", ".join(delegation.presets)
    spec = ToolSpec(
        "agent",
        "Give one standalone task to another agent and wait for its final reply. It sees nothing of this "
        f"conversation, only the task and the files you hand over. Presets: {listed}.",
        _schema(("preset", "task"), preset=_WORD, task=_WORD, files=_FILES),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            preset = delegation.resolve(args["preset"])
            ran = await delegation.run(context.call, preset, args["task"], args.get("files", ()))
        except NotStarted as refusal:
            return refused(refusal)
        return given_back(ran)

    return Tool(spec, run, parallel=True)


def _agent_compare(delegation: Delegation) -> Tool:
    spec = ToolSpec(
        "agent_compare",
        "Give the same standalone task to two agents side by side, neither seeing the other, and get what each did. "
        f"It is evidence, not a judgement. Presets: {', '.join(delegation.presets)}.",
        _schema(("baseline", "candidate", "task"), baseline=_WORD, candidate=_WORD, task=_WORD, files=_FILES),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        from core.lab.comparison import evidence, side_by_side

        task, files = args["task"], args.get("files", ())
        try:
            jobs = [delegation.prepare(delegation.resolve(args[arm]), task, files) for arm in ("baseline", "candidate")]
            pair = await side_by_side(jobs, lambda job: delegation.start(context.call, job))
        except NotStarted as refusal:
            return refused(refusal)
        found = evidence(task, *pair)
        return ToolOutput(json.dumps(found, ensure_ascii=False, indent=1), data=found)

    return Tool(spec, run, parallel=True)


def refused(refusal: NotStarted) -> ToolOutput:
    """The result of a call that started no child: its code first."""
    return ToolOutput(f"{refusal.code}: {refusal.message}", ok=False, data={"error": refusal.code.value})


def given_back(ran: Ran) -> ToolOutput:
    """A child's final reply, or how it stopped: nobody is there to answer what it asks."""
    data = ran.to_json()
    if ran.stop is Stop.COMPLETED:
        return ToolOutput(ran.output, data=data)
    record = ran.outcome.record
    evidence = record.evidence if isinstance(record.evidence, dict) else {}
    why = record.waiting.message if record.waiting is not None else str(evidence.get("text") or record.detail or "")
    said = f"\nWhat it had said: {ran.output}" if ran.output and ran.output != why else ""
    text = f"{ran.stop.value}: {ran.preset.id} did not finish. {why}".strip() + said
    return ToolOutput(text, ok=False, data=data)
