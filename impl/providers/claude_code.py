"""Claude Code as a provider: its loop and the person's login or key, our tools, none of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from core import ASK_S, OUR_SERVER, CliParser, CliProvider, CliTurn, ProviderStatus, Route, ask_cli
from impl.providers._claude_lines import ClaudeParser
from impl.providers._cli_files import held, too_old

_SCRUB: Final = (r"ANTHROPIC_.*", r"CLAUDECODE", r"CLAUDE_CODE_.*", r"CLAUDE_EFFORT")
"""Whatever could send a child elsewhere or tie it to a session it was started from."""
_LOGIN: Final = (r"CLAUDE_CODE_OAUTH_TOKEN",)
_KEYS: Final = (r"ANTHROPIC_API_KEY", r"ANTHROPIC_AUTH_TOKEN", r"ANTHROPIC_BASE_URL", r"ANTHROPIC_CUSTOM_HEADERS")

_PACKAGE: Final = "@anthropic-ai/claude-code"
OLDEST: Final = (2, 1, 277)
"""The first version whose costs can be told apart over resume and fork."""


def _cloud(name: str, *keep: str) -> Route:
    switch = f"CLAUDE_CODE_USE_{name.upper()}"
    return Route(name.title(), {switch: "1"}, _SCRUB, (switch, rf"ANTHROPIC_{name.upper()}_.*", *keep))


class ClaudeCodeProvider(CliProvider):
    """`claude -p`. Routes: `native` is the person's own login and settings directory; `api` a key and address from
    the environment, with a settings directory of its own; the clouds take what their own tools set up."""

    name: ClassVar[str] = "claude_code"
    title: ClassVar[str] = "Claude Code"
    executable: ClassVar[str] = "claude"
    install: ClassVar[str] = f"npm install -g {_PACKAGE}"
    forks: ClassVar[bool] = True
    announces_calls: ClassVar[bool] = True
    session_ids: ClassVar[Literal["ours", "theirs"]] = "ours"
    figures: ClassVar[Literal["call", "step", "session"]] = "call"
    enforces_budget: ClassVar[bool] = True
    efforts: ClassVar[tuple[str, ...]] = ("low", "medium", "high", "xhigh", "max")
    stdin_arguments: ClassVar[tuple[str, ...] | None] = ()
    routes: ClassVar[Mapping[str, Route]] = MappingProxyType(
        {
            "native": Route("the person's login", {}, _SCRUB, _LOGIN),
            "api": Route("a key", {}, (*_SCRUB, r"CLAUDE_CONFIG_DIR"), _KEYS),
            "bedrock": _cloud("bedrock"),
            "vertex": _cloud("vertex", r"CLOUD_ML_REGION"),
            "foundry": _cloud("foundry"),
        }
    )

    def _invoke(self, turn: CliTurn) -> tuple[list[str], dict[str, str | None]]:
        argv = [self.executable, "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
        match turn.mode:
            case "fresh":
                argv += ["--session-id", turn.native or ""]
            case "resume":
                argv += ["--resume", turn.native or ""]
            case "fork":
                argv += ["--resume", turn.native or "", "--fork-session"]
        if turn.model:
            argv += ["--model", turn.model]
        if turn.effort:
            argv += ["--effort", turn.effort]
        if turn.budget is not None:
            argv += ["--max-budget-usd", format(turn.budget, "f")]
        # Nothing of its own: no tools, no servers, hooks, commands or memory of the person's or the directory's.
        argv += ["--tools", "", "--strict-mcp-config", "--setting-sources", "", "--disable-slash-commands"]
        argv += ["--permission-mode", "dontAsk", "--settings", '{"autoMemoryEnabled":false}']
        if turn.mcp:
            argv += ["--mcp-config", str(_write(turn.scratch / "mcp.json", json.dumps(_server(turn))))]
            argv += ["--allowedTools", f"mcp__{OUR_SERVER}"]
        if turn.system.strip():
            # The text of this turn, not the one its first turn was given.
            argv += ["--system-prompt-file", str(_write(turn.scratch / "system.md", turn.system))]
            argv += ["--system-prompt-snapshot", "off"]
        return argv, self._environment(turn)

    def _worded(self, prompt: str) -> str:
        """A slash at the very beginning would be a command, whatever the flags say. (Mentions of files are switched
        off by the environment: they would be read from this machine.)"""
        return f" {prompt}" if prompt.startswith("/") else prompt

    def _environment(self, turn: CliTurn) -> dict[str, str | None]:
        env: dict[str, str | None] = {
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",  # however many tools there are, all are offered
            "MCP_TIMEOUT": "30000",
            "MCP_TOOL_TIMEOUT": "86400000",  # our tools have deadlines of their own
        }
        if self.route == "api":
            env["CLAUDE_CONFIG_DIR"] = str(turn.config)
        return env

    def _parser(self, turn: CliTurn) -> CliParser:
        return ClaudeParser(f"mcp__{OUR_SERVER}__", gives_up_at_once=self.route == "api")

    async def _preflight(self, env: Mapping[str, str]) -> ProviderStatus:
        if self.route != "native":
            keyed = self.route != "api" or env.get("ANTHROPIC_API_KEY") or env.get("ANTHROPIC_AUTH_TOKEN")
            fix = "export ANTHROPIC_API_KEY=…"
            return ProviderStatus("ready") if keyed else ProviderStatus("no key", "ANTHROPIC_API_KEY is not set.", fix)
        clean = {k: v for k, v in env.items() if self.routes["native"].environment([k]).get(k, v) is not None}
        path, kept = self.path(env), _kept_login(env)
        asked = () if kept else (ask_cli([path, "auth", "status"], clean),)
        old, *said = await asyncio.gather(too_old(path, env, _PACKAGE, OLDEST, self.install), *asked)
        return old or kept or self._login(*said[0])

    def _login(self, code: int, out: str) -> ProviderStatus:
        """What `auth status` says, which knows of logins that stand in no file (in a system's keychain)."""
        status = _object(out)
        if status.get("loggedIn") is True:
            return ProviderStatus("ready", str(status.get("email") or ""))
        message = "Claude Code has no login here; a key works with claude_code:api."
        if code == -1 and sys.platform == "linux":  # where a login always stands in a file
            message = f"Claude Code has no login in its files, and did not say within {ASK_S:g} s whether it has one."
        elif status.get("loggedIn") is not False:
            reason = f"within {ASK_S:g} s" if code == -1 else f"(exit code {code})"
            return ProviderStatus("wrong version", f"`claude auth status` gave no answer {reason}.", self.install)
        return ProviderStatus("not logged in", message, "claude auth login")

    def _configured_model(self, turn: CliTurn) -> str | None:
        """Its settings are switched off, so it is its own default; the session's first line says which."""
        return None

    def _transcript(self, turn: CliTurn, native: str) -> Path | None:
        name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(turn.cwd.resolve()))
        return self._data_directories(turn)[0] / "projects" / name / f"{native}.jsonl"

    def _data_directories(self, turn: CliTurn) -> list[Path]:
        if self.route == "api":
            return [turn.config]
        given = turn.ambient.get("CLAUDE_CONFIG_DIR")
        return [Path(given) if given else Path.home() / ".claude"]


def _kept_login(env: Mapping[str, str]) -> ProviderStatus | None:
    """The login that a variable or the files of the person's settings directory hold; None where they hold none."""
    given = env.get("CLAUDE_CONFIG_DIR")
    folder = Path(given) if given else Path.home() / ".claude"
    login = (held(folder / ".credentials.json") or {}).get("claudeAiOauth")
    known = held((folder if given else Path.home()) / ".claude.json") or {}
    account = known.get("oauthAccount")
    if isinstance(login, dict) and login.get("accessToken"):
        return ProviderStatus("ready", str(account.get("emailAddress") or "") if isinstance(account, dict) else "")
    keyed = env.get("CLAUDE_CODE_OAUTH_TOKEN") or known.get("primaryApiKey")
    return ProviderStatus("ready") if keyed else None


def _server(turn: CliTurn) -> dict[str, Any]:
    command, *args = turn.mcp or ()
    return {"mcpServers": {OUR_SERVER: {"command": command, "args": args, "env": dict(turn.mcp_env)}}}


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text, "utf-8", errors="replace")
    return path


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
