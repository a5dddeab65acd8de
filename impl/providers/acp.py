"""Any Agent Client Protocol agent as a provider, by the command that starts it: the setting `acp_command`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from core import CliParser, CliProvider, CliRun, CliTurn, Invocation, ProviderError, ProviderStatus
from impl.providers._acp_lines import AcpParser
from impl.providers._cli_files import settings_file, write_private

COMMAND: Final = "ARTIFICER_ACP_COMMAND"
"""The variable that names it, also where a settings file does."""
_TURN: Final = "ARTIFICER_ACP_TURN"
"""Tells `_spawn` where `_invoke` has written what the process cannot be told by arguments; the agent never sees it."""
_JOINER: Final = "\u2060"
_FIX: Final = f"export {COMMAND}='gemini --acp'"


class AcpProvider(CliProvider):
    """An agent that speaks the protocol over its pipes (`gemini --acp`, `opencode acp`, adapters of others).

    Its own tools cannot be switched off by the protocol, so it needs a yes; what it asks permission for is asked of
    the person. It logs in by itself, and its cost is of the whole session.
    """

    name: ClassVar[str] = "acp"
    title: ClassVar[str] = "Agent Client Protocol agent"
    install: ClassVar[str] = _FIX
    native_tools: ClassVar[Literal["off", "on"]] = "on"
    announces_calls: ClassVar[bool] = True
    #: Tokens come per turn, cost per session: the parser takes off what the session had cost before.
    figures: ClassVar[Literal["call", "step", "session"]] = "call"
    stdin_arguments: ClassVar[tuple[str, ...] | None] = ()

    @property
    def executable(self) -> str:  # type: ignore[override]  # the person names it
        """The first word of the command; empty where there is none."""
        return (command(self.ambient()) or [""])[0]

    async def preflight(self) -> ProviderStatus:
        """Whether a command is named and there. Whether it is logged in only the agent itself knows."""
        if not command(self.ambient()):
            return ProviderStatus("not installed", f"No agent is named: {COMMAND} is not set.", _FIX)
        return await super().preflight()

    async def _preflight(self, env: Mapping[str, str]) -> ProviderStatus:
        if find_spec("acp") is None:
            message, fix = "The agent-client-protocol package is missing.", "pip install agent-client-protocol"
            return ProviderStatus("not installed", message, fix)
        return ProviderStatus("ready", shlex.join(command(env)))

    def _invoke(self, turn: CliTurn) -> tuple[list[str], dict[str, str | None]]:
        argv = command(turn.ambient)
        if not argv:
            message = f"No Agent Client Protocol agent is named: {COMMAND} is not set."
            raise ProviderError("not_installed", message, hint=f"Say which: {_FIX}")
        said = {
            "native": turn.native if turn.mode == "resume" else None,
            "model": turn.model,
            "system": turn.system,
            "mcp": list(turn.mcp or ()),
            "mcp_env": dict(turn.mcp_env),
        }
        return argv, {_TURN: str(write_private(turn.scratch / "turn.json", json.dumps(said)))}

    def _worded(self, prompt: str) -> str:
        """Agents take a slash at the very beginning for a command, whatever blank is before it: a character of no
        width is none."""
        return f"{_JOINER}{prompt}" if prompt.lstrip().startswith("/") else prompt

    def _prompt_arguments(self, prompt: str) -> list[str]:
        """One word, which `_spawn` takes off again."""
        return [prompt]

    async def _spawn(self, invocation: Invocation, env: Mapping[str, str]) -> CliRun:
        from impl.providers._acp_run import AcpRun, Talk

        said = settings_file(Path(env[_TURN]))
        if invocation.stdin is None:
            *argv, prompt = invocation.argv
        else:
            argv, prompt = list(invocation.argv), invocation.stdin.decode("utf-8", "replace")
        talk = Talk(
            prompt=prompt,
            cwd=invocation.cwd,
            native=said.get("native"),
            model=said.get("model"),
            system=str(said.get("system") or ""),
            mcp=tuple(said.get("mcp") or ()),
            mcp_env=said.get("mcp_env") or {},
        )
        seen = {name: value for name, value in env.items() if name != _TURN}
        return await AcpRun.begin(replace(invocation, argv=tuple(argv)), seen, self.deadlines, talk)

    def _parser(self, turn: CliTurn) -> CliParser:
        """Of a new session nothing was spent before; of one that is resumed, what was noted last."""
        file = turn.config / "spent.json"
        spent = _amount(settings_file(file).get("usd")) if turn.mode == "resume" else Decimal(0)

        def keep(amount: Decimal) -> None:
            write_private(file, json.dumps({"usd": format(amount, "f")}))

        return AcpParser(self.title, spent, keep)


def command(env: Mapping[str, str]) -> list[str]:
    """The command that starts the agent, as words; none where it is not set or cannot be read."""
    try:
        return shlex.split(env.get(COMMAND, ""))
    except ValueError:
        return []


def _amount(value: Any) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return Decimal(0)
