"""Running the model's tool calls: checked, allowed, stored as an intent, run, capped, stored as a result."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.arguments import Arguments
from core.driver import Decision, Tool, ToolOutput
from core.policy import COMMAND_DEFAULTS, decide
from core.ports import SandboxUnavailable, StoreError, Workspace
from core.provider import ToolCall
from core.session import SessionLog
from core.stops import Option, Stop, Waiting

OUTPUT_CAP = 30_000
"""Characters of one result that a model reads; the whole text is kept as a blob up to WHOLE_CAP."""
WHOLE_CAP = 4_000_000
AT_ONCE = 8
"""How many parallel-safe calls of one turn run at the same time."""
UNSAFE_TOOL = "sandbox:process"
"""What a person allows who lets commands run without a sandbox."""


class Parked(Exception):
    """A call waits for a person; it keeps its place and gets its one result when they have answered."""

    def __init__(self, stop: Stop, waiting: Waiting | None, detail: str = "", evidence: Any = None) -> None:
        super().__init__(stop.value)
        self.stop = stop
        self.waiting = waiting
        self.detail = detail
        self.evidence = evidence


@dataclass(slots=True)
class Grants:
    """What people have allowed: a call once (with what they saw), a tool for this session, a tool always."""

    once: dict[str, Mapping[str, Any]]
    denied: set[str]
    session: set[str]
    always: Callable[[str], bool]


def grants_from(approvals: Sequence[Mapping[str, Any]], always: Callable[[str], bool]) -> Grants:
    """The grants that the `approval` events of a session's log stand for."""
    grants = Grants({}, set(), set(), always)
    for data in approvals:
        _note_approval(grants, data)
    return grants


def _note_approval(grants: Grants, data: Mapping[str, Any]) -> None:
    call, tool = str(data.get("call")), str(data.get("tool"))
    detail = data.get("detail") or {}
    match data.get("scope"):
        case "deny":
            grants.denied.add(call)
        case "session" | "always":
            grants.session.add(tool)
            if detail.get("unsafe"):  # they were told that it runs without a sandbox
                grants.session.add(UNSAFE_TOOL)
            grants.once[call] = detail
        case _:
            grants.once[call] = detail


@dataclass(slots=True)
class CallContext:
    """What a running tool may use of its session. `approval` is what a person saw when they said yes to this
    call, None where nobody was asked."""

    session: str
    call: str
    log: SessionLog
    open_workspace: Callable[[str], Any]
    approval: Mapping[str, Any] | None = None

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Store an event of the session, then show it."""
        self.log.emit(kind, data)

    async def workspace(self) -> Workspace:
        """The session's sandbox, opened on first use."""
        workspace: Workspace = await self.open_workspace(self.call)
        return workspace


class Calls:
    """The tools of one session and the one way to run them."""

    def __init__(
        self,
        log: SessionLog,
        tools: Sequence[Tool],
        policy: Mapping[str, Decision],
        grants: Grants,
        open_workspace: Callable[[str], Any],
        workspace_digest: Callable[[], str | None] = lambda: None,
        *,
        unsafe: bool = False,
        allow_code: Callable[[str], None] = lambda call: None,
    ) -> None:
        self._log = log
        self._tools = {tool.spec.name: tool for tool in tools}
        self._policy = policy
        self._grants = grants
        self._open_workspace = open_workspace
        self._workspace_digest = workspace_digest
        self._unsafe = unsafe
        self._allow_code = allow_code
        self._digest: str | None = None
        self._arguments: dict[str, Arguments] = {}

    def next(self) -> list[ToolCall]:
        """The open calls to run now: those from the front that may run at once, else the first alone."""
        pending = iter(self._log.history.pending.values())
        together = list(itertools.islice(itertools.takewhile(self._parallel, pending), AT_ONCE))
        return together or [next(iter(self._log.history.pending.values()))]

    def _parallel(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.parallel and self._decision(tool, call) == "allow"

    async def run(self, call: ToolCall) -> None:
        """Give `call` its one result.

        Raises Parked where a person must decide first. What the model got wrong is a result it can act on.
        """
        problem = self._problem(call)
        tool = self._tools.get(call.name)
        if problem is not None or tool is None:
            await self._reject(call, problem or "")
            return
        match self._decision(tool, call):
            case "deny" if call.id in self._grants.denied:
                await self._reject(
                    call, f"The person did not allow this call of {call.name}. Do without it, or ask them."
                )
            case "deny":
                await self._reject(call, f"The policy does not allow {call.name}. Do without it, or ask the person.")
            case "ask":
                raise Parked(Stop.NEEDS_APPROVAL, self._approval(call), call.name)
            case "allow":
                if tool.code:
                    self._allow_code(call.id)
                await self._execute(tool, call)

    def _decision(self, tool: Tool, call: ToolCall) -> Decision:
        if call.id in self._grants.denied:
            return "deny"
        decision = decide(call.name, tool.default, self._policy, unsafe=self._unsafe)
        if decision != "ask":
            return decision
        granted = call.id in self._grants.once or call.name in self._grants.session or self._grants.always(call.name)
        return "allow" if granted else "ask"

    def _problem(self, call: ToolCall) -> str | None:
        """What is wrong with the call itself, in words the model can act on."""
        if call.problem is not None:
            return f"This call was not run: {call.problem}"
        if call.name not in self._tools:
            return f"There is no tool {call.name!r}. The tools are: {', '.join(sorted(self._tools))}."
        if call.args is None:
            return "This call was not run: its arguments are not a JSON object. Send them again as one."
        return self._schema_problem(call.name, call.args)

    def _schema_problem(self, name: str, args: Mapping[str, Any]) -> str | None:
        arguments = self._arguments.get(name)
        if arguments is None:
            arguments = self._arguments[name] = Arguments(name, self._tools[name].spec.input_schema)
        return arguments.problem(args)

    async def _reject(self, call: ToolCall, why: str) -> None:
        result = {"call": call.id, "ok": False, "output": why, "status": "rejected"}
        intent = () if call.id in self._log.history.intents else (("tool_call", self._intent(call)),)
        await self._log.append_together(*intent, ("tool_result", result))

    def _intent(self, call: ToolCall) -> dict[str, Any]:
        body: dict[str, Any] = {
            "call": call.id,
            "tool": call.name,
            "args": dict(call.args) if call.args is not None else {},
            "turn": self._log.history.turns,
        }
        if call.raw is not None:
            body["raw"] = call.raw[:OUTPUT_CAP]
        return body

    async def _execute(self, tool: Tool, call: ToolCall) -> None:
        if call.id not in self._log.history.intents:
            intent = self._intent(call)
            body = {**intent, "recorded": True} if tool.recorded else intent
            await self._log.append_together(("tool_call", body))
        approval = self._grants.once.get(call.id)
        context = CallContext(self._log.id, call.id, self._log, self._open_workspace, approval)
        began = time.monotonic()
        output = await self._run(tool, call, context)
        if output.stop is not None and output.waiting is not None:
            raise Parked(output.stop, output.waiting, output.detail, output.evidence)
        if tool.writes:
            self._digest = await asyncio.to_thread(self._workspace_digest)
        await self._store_result(call, output, time.monotonic() - began, polls=tool.polls)
        if output.stop is not None:
            raise Parked(output.stop, None, output.detail, output.evidence)

    async def _run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolOutput:
        try:
            return await tool.run(call.args or {}, context)
        except SandboxUnavailable as error:
            return ToolOutput(
                f"sandbox_unavailable: {error}",
                ok=False,
                stop=Stop.PLATFORM_ERROR,
                detail="sandbox_unavailable",
                evidence={"text": str(error)},
            )
        except (Parked, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - a fault in one tool must be a result, not the session's end
            return ToolOutput(f"The tool failed inside Artificer: {type(error).__name__}: {error}", ok=False)

    async def _store_result(self, call: ToolCall, output: ToolOutput, took: float, *, polls: bool) -> None:
        text = clean(output.text)
        body: dict[str, Any] = {
            "call": call.id,
            "ok": output.ok,
            "output": text,
            "duration_s": round(took, 3),
        }
        if len(text) > OUTPUT_CAP:
            body["size"] = len(text)
            body["blob"] = self._log.store.put_blob(text[:WHOLE_CAP].encode())
            body["output"] = cap(text, OUTPUT_CAP)
        if output.data:
            body["data"] = dict(output.data)
        if self._digest is not None:
            body["workspace"] = self._digest
        if polls:
            body["polls"] = True
        await self._log.append_together(("tool_result", body))

    def _approval(self, call: ToolCall) -> Waiting:
        args = json.dumps(call.args, ensure_ascii=False, indent=2)
        detail: dict[str, Any] = {"tool": call.name, "args": dict(call.args or {})}
        message = f"Run {call.name} with {args if len(args) < 2000 else args[:2000] + ' …'}?"
        if self._unsafe and call.name in COMMAND_DEFAULTS:
            message = f"No sandbox: this would run directly on this machine, with your rights. {message}"
            detail["unsafe"] = True
        return Waiting(
            kind="approval",
            id=call.id,
            message=message,
            options=APPROVAL_OPTIONS,
            recommended="once",
            free_text=False,
            detail=detail,
        )


def clean(text: str) -> str:
    """Text that any store and any API takes: lone surrogates become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cap(text: str, limit: int) -> str:
    """`text` in at most about `limit` characters: its head and its tail, and how much was left out between."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    gap = f"[… {left_out:,} characters left out here; the whole output is kept in the session …]"
    return f"{text[:half]}\n{gap}\n{text[-half:]}"


APPROVAL_OPTIONS = (
    Option("once", "once"),
    Option("session", "for this session"),
    Option("always", "always for this agent"),
    Option("deny", "deny"),
)
