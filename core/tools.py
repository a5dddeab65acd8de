"""The standard tools of every agent, and the two the loop itself understands: ask_user and cannot_convert."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from core.driver import Decision, Driver, Persona, Tool, ToolContext, ToolOutput, UnknownResource
from core.provider import ToolSpec
from core.stops import Option, Stop, Waiting

COMMAND_TIMEOUT_S = 120.0
LONGEST_COMMAND_S = 1800.0
LIVE_LOG_EVERY_S = 0.05
LIVE_LOG_CAP = 256_000


def schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """An object schema that takes these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_TEXT = {"type": "string"}
_WORD = {"type": "string", "minLength": 1}


def standard_tools(driver: Driver, persona: Persona) -> list[Tool]:
    """The tools this persona gets: those of a corpus or skills only where it has any, a shell only by policy."""
    tools = [ask_user()]
    if persona.skills:
        tools.append(_read_skill(driver))
        if any(skill.scripts for skill in persona.skills):
            tools.append(_run_skill(driver))
    if persona.has_corpus:
        tools += [_search_corpus(driver), _list_corpus(driver), _get_corpus(driver)]
    decision: Decision = persona.policy.get("run_sandbox", "deny")
    if decision != "deny":
        tools.append(run_sandbox(decision))
    return tools


def ask_user() -> Tool:
    """Ask the person and wait for the answer."""
    option = schema(("id", "label"), id=_WORD, label=_WORD)
    spec = ToolSpec(
        "ask_user",
        "Ask the person a question and wait. Give options where the answers are known, and say which you recommend.",
        schema(
            ("message",),
            message=_WORD,
            options={"type": "array", "items": {"anyOf": [option, _WORD]}, "maxItems": 100},
            recommended=_TEXT,
            multiple={"type": "boolean", "description": "several options may be taken"},
            free_text={"type": "boolean", "description": "words of the person's own are an answer too"},
        ),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        said = args.get("options", ())
        options = tuple(Option(o, o) if isinstance(o, str) else Option(o["id"], o["label"]) for o in said)
        if len({o.id for o in options}) != len(options):
            return ToolOutput("Two options have the same id. Give each its own.", ok=False)
        recommended = args.get("recommended")
        waiting = Waiting(
            kind="question",
            id=context.call,
            message=args["message"],
            options=options,
            recommended=recommended if recommended in {o.id for o in options} else None,
            multiple=bool(args.get("multiple", False)),
            free_text=bool(args.get("free_text", True)) or not options,
        )
        return ToolOutput("", stop=Stop.AWAITING_USER, waiting=waiting)

    return Tool(spec, run)


def cannot_convert() -> Tool:
    """End a build: there is no safe conversion of a core capability."""
    spec = ToolSpec(
        "cannot_convert",
        "Give up: a core capability of the source has no safe conversion. Never make a reduced agent instead.",
        schema(
            ("capability", "reason", "evidence"),
            capability=_WORD,
            reason=_WORD,
            evidence={"type": "array", "items": _TEXT, "description": "file and line, quoted"},
        ),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(
            "Recorded.",
            stop=Stop.CANNOT_CONVERT,
            detail=args["capability"],
            evidence={k: args[k] for k in ("capability", "reason", "evidence")},
        )

    return Tool(spec, run)


def run_sandbox(default: Decision) -> Tool:
    """Run a shell command in the session's workspace."""
    spec = ToolSpec(
        "run_sandbox",
        "Run a shell command in the sandbox. It starts in /work, which persists; standard input is closed.",
        schema(
            ("command",),
            command=_WORD,
            timeout={"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_COMMAND_S, "description": "seconds"},
        ),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await run_command(context, args["command"], float(args.get("timeout", COMMAND_TIMEOUT_S)))

    return Tool(spec, run, default=default, writes=True)


async def run_command(context: ToolContext, command: str, timeout: float) -> ToolOutput:
    """Run `command` in the session's workspace; what it prints is logged while it runs."""
    workspace = await context.workspace()
    live = _LiveLog(context)
    try:
        result = await workspace.run(command, timeout=timeout, on_output=live.add)
    finally:
        live.close()
    if result.timed_out:
        ending = f"[stopped at its deadline of {timeout:g} s]"
    elif result.exit_code:
        ending = f"[exit code {result.exit_code}]"
    else:
        ending = "" if result.output else "[no output]"
    text = "\n".join(part for part in (result.output.rstrip("\n"), ending) if part)
    data = {
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "truncated": result.truncated,
        "size": result.size,
    }
    return ToolOutput(text, ok=result.exit_code == 0, data=data)


class _LiveLog:
    """What a command prints while it runs, as `log` events: at most one each 50 ms, and LIVE_LOG_CAP in all.

    The result holds the whole output, so a command that ends before the first is due logs nothing.
    """

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._parts: list[str] = []
        self._left = LIVE_LOG_CAP
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None

    def add(self, text: str) -> None:
        """Take a piece of output. Raises what storing an earlier one raised."""
        if self._failure is not None:
            raise self._failure
        if self._left <= 0:
            return
        self._parts.append(text[: self._left])
        self._left -= len(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIVE_LOG_EVERY_S, self._emit)

    def close(self) -> None:
        """The command has ended: what is still waiting stands in its result."""
        if self._timer is not None:
            self._timer.cancel()

    def _emit(self) -> None:
        self._timer = None
        text, self._parts = "".join(self._parts), []
        try:
            self._context.emit("log", {"call": self._context.call, "text": text})
        except Exception as error:  # noqa: BLE001 - nobody is there to catch it: the next piece raises it
            self._failure = error


def _read_skill(driver: Driver) -> Tool:
    spec = ToolSpec("read_skill", "Read a skill's instructions before following it.", schema(("name",), name=_WORD))

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            skill = await driver.skill(args["name"])
        except UnknownResource as error:
            return ToolOutput(str(error), ok=False)
        files = "".join(f"\n- {name}" for name in skill.files)
        return ToolOutput(f"{skill.text}\n\nFiles of this skill:{files}" if files else skill.text)

    return Tool(spec, run, parallel=True)


def _run_skill(driver: Driver) -> Tool:
    spec = ToolSpec(
        "run_skill",
        "Run one of a skill's scripts in the sandbox.",
        schema(("name", "script"), name=_WORD, script=_WORD, args={"type": "array", "items": _TEXT}),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            return await driver.run_skill(args["name"], args["script"], args.get("args", []), context)
        except UnknownResource as error:
            return ToolOutput(str(error), ok=False)

    return Tool(spec, run, default="ask", writes=True)


def _search_corpus(driver: Driver) -> Tool:
    spec = ToolSpec(
        "search_corpus",
        "Find the passages of the documentation that fit best; each comes with its path and line.",
        schema(("query",), query=_WORD, limit={"type": "integer", "minimum": 1, "maximum": 20}),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        passages = await driver.search_corpus(args["query"], int(args.get("limit", 5)))
        rows = [{"path": p.path, "line": p.line, "heading": p.heading, "text": p.text} for p in passages]
        return ToolOutput(_json({"passages": rows}))

    return Tool(spec, run, parallel=True)


def _list_corpus(driver: Driver) -> Tool:
    spec = ToolSpec("list_corpus", "List the documents.", schema())

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(_json({"documents": [asdict(d) for d in await driver.list_corpus()]}))

    return Tool(spec, run, parallel=True)


def _get_corpus(driver: Driver) -> Tool:
    spec = ToolSpec(
        "get_corpus",
        "Read a document, or some of its lines.",
        schema(
            ("path",),
            path=_WORD,
            start={"type": "integer", "minimum": 1, "description": "first line"},
            lines={"type": "integer", "minimum": 1, "description": "how many"},
        ),
    )

    async def run(args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            text = await driver.get_corpus(args["path"])
        except UnknownResource as error:
            return ToolOutput(str(error), ok=False)
        if "start" in args or "lines" in args:
            first = int(args.get("start", 1)) - 1
            rows = text.splitlines()
            text = "\n".join(rows[first : first + int(args.get("lines", len(rows)))])
        return ToolOutput(text)

    return Tool(spec, run, parallel=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
