"""One turn of an Agent Client Protocol agent: its process, spoken to over its pipes, heard as lines for the parser."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core import OUR_SERVER, CliProcess, Deadlines, Invocation, ProviderError
from impl.providers._acp_lines import AUTH_REQUIRED, our_tool
from impl.providers._cli_lines import line_object, part
from impl.providers._gemini_pump import for_gemini

if TYPE_CHECKING:
    from acp.connection import Connection

PROTOCOL: Final = 1
_GEMINI: Final = "gemini-cli"
_NO_METHOD: Final = -32601


@dataclass(frozen=True, slots=True)
class Talk:
    """What one turn says to the agent. `native` is the session to go on with, None for a new one."""

    prompt: str
    cwd: Path
    native: str | None
    model: str | None
    system: str
    mcp: tuple[str, ...]
    mcp_env: Mapping[str, str]

    def servers(self, agent: str) -> list[dict[str, Any]]:
        """Our MCP server and no other, as the agent of that name needs it."""
        if not self.mcp:
            return []
        command, *args = for_gemini(self.mcp) if agent == _GEMINI else self.mcp
        env = [{"name": name, "value": value} for name, value in self.mcp_env.items()]
        return [{"name": OUR_SERVER, "command": command, "args": args, "env": env}]

    def blocks(self) -> list[dict[str, str]]:
        """The prompt; a new session is told first who it is, as the protocol has no place for that."""
        told = [self.system] if self.system.strip() and self.native is None else []
        return [{"type": "text", "text": text} for text in (*told, self.prompt)]


class _Refused(Exception):
    """The agent, or this client, will not go on. `step` says where: `unknown_session` begins a new one."""

    def __init__(self, message: str, detail: str = "server", step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.step = step


class AcpRun(CliProcess):
    """A CliRun whose lines are made of the agent's messages: `{"acp": kind, …}`, kinds as in AcpParser."""

    def __init__(self, process: asyncio.subprocess.Process, deadlines: Deadlines, talk: Talk) -> None:
        super().__init__(process, deadlines)
        self._talk = talk
        self._said: asyncio.Queue[str | None] = asyncio.Queue()
        self._asked: dict[str, asyncio.Future[bool | None]] = {}
        self._link: Connection | None = None
        self._session: str | None = None
        self._prompted = False

    @classmethod
    async def begin(cls, invocation: Invocation, env: Mapping[str, str], deadlines: Deadlines, talk: Talk) -> AcpRun:
        """Start the agent in a session of its own. Raises ProviderError."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *invocation.argv,
                env=dict(env),
                cwd=invocation.cwd,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
            )
        except OSError as error:
            message = f"{invocation.argv[0]} cannot be started: {error.strerror or error}."
            raise ProviderError("not_installed", message, hint="See: artificer providers") from error
        return cls(process, deadlines, talk)

    # --- as a CliRun -------------------------------------------------------------------------------

    async def lines(self) -> AsyncIterator[str]:
        """What the agent says in this turn; ends with its answer, or with the agent."""
        self._tasks.append(asyncio.create_task(self._converse()))
        while (line := await self._said.get()) is not None:
            yield line

    def permit(self, key: str, allowed: bool) -> None:
        """Answer a permission."""
        future = self._asked.get(key)
        if future is not None and not future.done():
            future.set_result(allowed)

    def interrupt(self) -> None:
        """Cancel the turn, in the protocol's own way where it has got so far."""
        for future in self._asked.values():
            if not future.done():
                future.set_result(None)
        if self._link is None or self._session is None or not self._prompted:
            super().interrupt()
            return
        self._tasks.append(asyncio.create_task(self._cancel(self._link, self._session)))

    async def _cancel(self, link: Connection, session: str) -> None:
        with contextlib.suppress(ConnectionError):
            await link.send_notification("session/cancel", {"sessionId": session})

    # --- the conversation --------------------------------------------------------------------------

    async def _converse(self) -> None:
        """The whole turn. What goes wrong is a line too."""
        try:
            acp = await asyncio.to_thread(importlib.import_module, "acp.connection")  # it takes a second
            errors = importlib.import_module("acp.exceptions")
            self._link = acp.Connection(self._handle, _Pipes(self))
            try:
                await self._turn(self._link)
            except errors.RequestError as error:
                self._say("failed", code=error.code, message=_words(error))
            except _Refused as error:
                self._say("failed", message=error.message, detail=error.detail, step=error.step)
            except ConnectionError:
                pass  # it has gone: its exit says how
            finally:
                await self._link.close()
        except ImportError:
            self._say("failed", message="The agent-client-protocol package is missing.", detail="not_installed")
        finally:
            self._said.put_nowait(None)

    async def _turn(self, link: Connection) -> None:
        client = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        asked = {
            "protocolVersion": PROTOCOL,
            "clientCapabilities": client,
            "clientInfo": {"name": OUR_SERVER, "version": "1"},
        }
        hello = _object(await link.send_request("initialize", asked))
        if hello.get("protocolVersion") != PROTOCOL:
            version = hello.get("protocolVersion")
            raise _Refused(f"The agent speaks version {version} of the protocol; {PROTOCOL} is known.", "capability")
        made = await self._open(link, hello)
        session = self._session = str(made.get("sessionId") or self._talk.native or "")
        model = await self._choose_model(link, session, made)
        self._say("session", id=session, model=model)
        self._prompted = True
        prompt = {"sessionId": session, "prompt": self._talk.blocks()}
        self._say("end", result=_object(await link.send_request("session/prompt", prompt)))

    async def _open(self, link: Connection, hello: Mapping[str, Any]) -> dict[str, Any]:
        """A new session, or the one to go on with. Its history, which some tell again, is not listened to."""
        talk, errors = self._talk, importlib.import_module("acp.exceptions")
        capabilities, agent = part(hello, "agentCapabilities"), str(part(hello, "agentInfo").get("name"))
        where = {"cwd": str(talk.cwd), "mcpServers": talk.servers(agent)}
        if talk.native is None:
            return _object(await link.send_request("session/new", where))
        if isinstance(part(capabilities, "sessionCapabilities").get("resume"), dict):
            method = "session/resume"
        elif capabilities.get("loadSession"):
            method = "session/load"
        else:
            raise _Refused("This agent keeps no sessions.", step="unknown_session")
        try:
            return _object(await link.send_request(method, {"sessionId": talk.native, **where}))
        except errors.RequestError as error:
            if error.code == AUTH_REQUIRED:
                raise
            raise _Refused(f"The agent does not know its session: {_words(error)}", step="unknown_session") from error

    async def _choose_model(self, link: Connection, session: str, made: Mapping[str, Any]) -> str | None:
        """The model that answers, where the agent says; the one that was asked for, where it can be chosen."""
        options = made.get("configOptions")
        rows = [row for row in options if isinstance(row, dict)] if isinstance(options, list) else []
        option = next((row for row in rows if "model" in (row.get("category"), row.get("id"))), None)
        older = part(made, "models")
        current = option.get("currentValue") if option is not None else older.get("currentModelId")
        wanted = self._talk.model
        if wanted is None or wanted == current:
            return current if isinstance(current, str) else None
        if option is not None:
            chosen = {"sessionId": session, "configId": option.get("id"), "value": wanted}
            await link.send_request("session/set_config_option", chosen)
        elif older:
            await link.send_request("session/set_model", {"sessionId": session, "modelId": wanted})
        else:
            self._say("notice", text=f"The agent lets no model be chosen, so it is not told of {wanted}.")
            return None
        return wanted

    # --- what the agent asks -----------------------------------------------------------------------

    async def _handle(self, method: str, params: Any, notification: bool) -> Any:
        """Requests of the agent. It was told that there are no files and no terminals here."""
        if notification:
            return None
        if method != "session/request_permission":
            raise importlib.import_module("acp.exceptions").RequestError(_NO_METHOD, f"no method {method}")
        asked = _object(params)
        call, options = part(asked, "toolCall"), asked.get("options")
        rows = [row for row in options if isinstance(row, dict)] if isinstance(options, list) else []
        allowed = True if our_tool(call) is not None else await self._permission(call)  # ours have a gate of their own
        option = _choice(rows, allowed)
        return {"outcome": {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}}

    async def _permission(self, call: Mapping[str, Any]) -> bool | None:
        """Wait for what is said to it; None where the turn ends first."""
        key = str(len(self._asked))
        future: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._asked[key] = future
        self._say("permission", key=key, call=dict(call))
        return await future

    def heard(self, update: Mapping[str, Any]) -> None:
        """An update of the session, in the order they come; before the prompt they are old ones."""
        if self._prompted:
            self._say("update", update=dict(update))

    def _say(self, kind: str, **body: Any) -> None:
        self._said.put_nowait(json.dumps({"acp": kind, **body}, default=str))


class _Pipes:
    """The package's transport over the process's pipes: lines of any length, whatever else is printed left out.
    Updates of the session go past it, in order."""

    def __init__(self, run: AcpRun) -> None:
        self._run = run
        self._lines = CliProcess.lines(run)

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message."""
        stdin = self._run._process.stdin
        assert stdin is not None
        stdin.write(json.dumps(message).encode() + b"\n")
        await stdin.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is for the connection; None at the end."""
        async for line in self._lines:
            message = line_object(line)
            if message is None:
                continue
            if message.get("method") != "session/update":
                return message
            self._run.heard(part(part(message, "params"), "update"))
        return None

    async def close(self) -> None:
        """Close the agent's input, on which it ends."""
        stdin = self._run._process.stdin
        if stdin is not None:
            stdin.close()


def _choice(options: list[dict[str, Any]], allowed: bool | None) -> str | None:
    """The option that says it, the one for this time alone first; None to say that the turn has ended."""
    if allowed is None:
        return None
    kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    for kind in kinds:
        for option in options:
            if option.get("kind") == kind and option.get("optionId"):
                return str(option["optionId"])
    return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(error: Any) -> str:
    """What an error says: its details are often all that is meant for people."""
    details = error.data.get("details") if isinstance(error.data, dict) else None
    return f"{error}: {details}" if details else str(error)
