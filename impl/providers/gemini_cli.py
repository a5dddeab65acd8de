"""Gemini CLI as a provider: its loop and the person's login, key or cloud project, our tools, none of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from core import OUR_SERVER, CliFigures, CliParser, CliProvider, CliTurn, ProviderStatus, Route, Usage
from impl.providers._cli_files import link, settings_file, too_old, write_private
from impl.providers._gemini_lines import GeminiParser, Price, charged, counted_since
from impl.providers._gemini_pump import for_gemini

_SCRUB: Final = (r"GEMINI_.*", r"GOOGLE_.*", r"CODE_ASSIST_ENDPOINT", r"CLOUD_SHELL")
"""Whatever could send a child elsewhere or tie it to a session it was started from."""
_PROJECT: Final = (r"GOOGLE_CLOUD_PROJECT(_ID)?", r"GOOGLE_CLOUD_LOCATION")
_KEYS: Final = (r"GEMINI_API_KEY", r"GEMINI_API_KEY_AUTH_MECHANISM", r"GOOGLE_GEMINI_BASE_URL")
_CLOUD: Final = (r"GOOGLE_APPLICATION_CREDENTIALS", r"GOOGLE_API_KEY", r"GOOGLE_VERTEX_BASE_URL")
_LOGINS: Final = ("oauth_creds.json", "google_accounts.json", "gemini-credentials.json", "installation_id", ".env")
_LEAST: Final = (0, 61)
_PREFIX: Final = f"mcp_{OUR_SERVER}_"


class GeminiCliProvider(CliProvider):
    """`gemini -p`. Routes: `native` is the person's login; `api` a key, and an address if any, from GEMINI_API_KEY
    and GOOGLE_GEMINI_BASE_URL; `vertex` a cloud project. Each session has a home of its own."""

    name: ClassVar[str] = "gemini_cli"
    title: ClassVar[str] = "Gemini CLI"
    executable: ClassVar[str] = "gemini"
    install: ClassVar[str] = "npm install -g @google/gemini-cli"
    announces_calls: ClassVar[bool] = True
    session_ids: ClassVar[Literal["ours", "theirs"]] = "ours"
    #: It names no price either, but its parser prices what it counts, as one turn may use several models.
    figures: ClassVar[Literal["call", "step", "session"]] = "call"
    stdin_arguments: ClassVar[tuple[str, ...] | None] = ()
    routes: ClassVar[Mapping[str, Route]] = MappingProxyType(
        {
            "native": Route("the person's login", {}, _SCRUB, _PROJECT),
            "api": Route("a key", {}, _SCRUB, _KEYS),
            "vertex": Route("Vertex AI", {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, _SCRUB, (*_PROJECT, *_CLOUD)),
        }
    )

    def _invoke(self, turn: CliTurn) -> tuple[list[str], dict[str, str | None]]:
        argv = [self.executable, "-o", "stream-json", "--skip-trust"]
        argv += ["--resume" if turn.mode == "resume" else "--session-id", turn.native or ""]
        if turn.model:
            argv += ["-m", turn.model]
        write_private(_home(turn) / "settings.json", json.dumps(self._settings(turn)))
        env: dict[str, str | None] = {
            "GEMINI_CLI_HOME": str(turn.config),
            "GEMINI_CLI_NO_RELAUNCH": "1",  # a process of its own that signals would not reach
            "GEMINI_TELEMETRY_ENABLED": "false",
            "TMPDIR": str(turn.scratch),  # where its reports of errors go, the conversation in them
            "NO_COLOR": "1",
        }
        if turn.system.strip():
            env["GEMINI_SYSTEM_MD"] = str(write_private(turn.scratch / "system.md", turn.system))
        return argv, env

    def _worded(self, prompt: str) -> str:
        """A slash at the very beginning would be a command. (Mentions of files reach no further than the folder it
        starts in, which is empty.)"""
        return f" {prompt}" if prompt.startswith("/") else prompt

    def _prompt_arguments(self, prompt: str) -> list[str]:
        """One word, as it may begin with a dash."""
        return [f"--prompt={prompt}"]

    def _settings(self, turn: CliTurn) -> dict[str, Any]:
        """All of its settings: no tools but ours, nothing that runs or reports anything, few retries."""
        servers = {}
        if turn.mcp:
            command, *args = for_gemini(turn.mcp)
            server = {"command": command, "args": args, "env": dict(turn.mcp_env), "trust": True}
            servers[OUR_SERVER] = {**server, "timeout": 86_400_000}  # our tools have deadlines of their own
        inherited = self._inherited(turn)
        return {
            **inherited,
            "security": {"auth": {"selectedType": self._login(inherited)}},
            "tools": {"core": [f"{_PREFIX}*"]},  # an empty list would leave out ours
            "mcpServers": servers,
            "mcp": {"allowed": [OUR_SERVER]},
            "general": {
                "enableAutoUpdate": False,
                "enableAutoUpdateNotification": False,
                "maxAttempts": 3,
                "sessionRetention": {"enabled": False},
            },
            "context": {"fileName": "artificer-reads-no-context-file"},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "skills": {"enabled": False},
            "hooksConfig": {"enabled": False},
            "experimental": {"enableAgents": False},
        }

    def _inherited(self, turn: CliTurn) -> dict[str, Any]:
        """What a session takes over of the person's settings: which model, and how it is asked."""
        if self.route != "native":
            return {}
        mine = settings_file(_canonical(turn.ambient) / "settings.json")
        kept: dict[str, Any] = {key: mine[key] for key in ("model", "modelConfigs", "billing") if key in mine}
        security = mine.get("security")
        auth = security.get("auth") if isinstance(security, dict) else None
        return {**kept, "security": {"auth": auth}} if isinstance(auth, dict) else kept

    def _login(self, inherited: Mapping[str, Any]) -> str:
        match self.route:
            case "api":
                return "gemini-api-key"
            case "vertex":
                return "vertex-ai"
            case _:
                return str(inherited.get("security", {}).get("auth", {}).get("selectedType") or "oauth-personal")

    def _parser(self, turn: CliTurn) -> CliParser:
        return GeminiParser(_PREFIX, self._price(turn))

    def _price(self, turn: CliTurn) -> Price:
        address = turn.ambient.get("GOOGLE_GEMINI_BASE_URL") if self.route == "api" else None

        def cost(model: str, usage: Usage) -> Decimal | None:
            from impl.providers._pricing import price

            return price("google", model, usage, address or None)

        return cost

    # --- its home ----------------------------------------------------------------------------------

    def _seed(self, turn: CliTurn, parent: Path | None) -> None:
        """Links to the person's login, never copies, as it is renewed in place; and when this turn began."""
        write_private(turn.scratch / "began", datetime.now(UTC).isoformat(timespec="milliseconds"))
        if self.route == "native":
            for name in _LOGINS:
                link(_home(turn) / name, _canonical(turn.ambient) / name)

    def _configured_model(self, turn: CliTurn) -> str | None:
        model = self._inherited(turn).get("model")
        name = model.get("name") if isinstance(model, dict) else None
        return name if isinstance(name, str) else None

    def _transcript(self, turn: CliTurn, native: str) -> Path | None:
        found = (_home(turn) / "tmp").glob(f"*/chats/*{native[:8]}.json*")
        return max(found, default=None)

    def _late_figures(self, turn: CliTurn, native: str) -> CliFigures | None:
        """An interrupted turn says nothing; its chat file counts each request."""
        path, began = self._transcript(turn, native), turn.scratch / "began"
        if path is None or not began.is_file():
            return None
        counted, requests = counted_since(path, began.read_text("utf-8"))
        return charged(counted, requests, self._price(turn)) if counted else None

    # --- preflight ---------------------------------------------------------------------------------

    async def _preflight(self, env: Mapping[str, str]) -> ProviderStatus:
        old = await too_old(self.path(env), env, "@google/gemini-cli", _LEAST, self.install)
        if old is not None:
            return old
        match self.route:
            case "api":
                found, missing, fix = env.get("GEMINI_API_KEY"), "GEMINI_API_KEY", "export GEMINI_API_KEY=…"
            case "vertex":
                found = env.get("GOOGLE_CLOUD_PROJECT") or env.get("GOOGLE_API_KEY")
                missing, fix = "GOOGLE_CLOUD_PROJECT", "export GOOGLE_CLOUD_PROJECT=… GOOGLE_CLOUD_LOCATION=…"
            case _:
                return _logged_in(_canonical(env))
        return ProviderStatus("ready") if found else ProviderStatus("no key", f"{missing} is not set.", fix)


def _logged_in(canonical: Path) -> ProviderStatus:
    """Whether the person's own home has a login. A key that it keeps in the keyring cannot be seen, but the choice
    of it can."""
    security = settings_file(canonical / "settings.json").get("security")
    auth = security.get("auth") if isinstance(security, dict) else None
    chosen = isinstance(auth, dict) and auth.get("selectedType") not in (None, "oauth-personal")
    if chosen or any((canonical / name).is_file() for name in ("oauth_creds.json", "gemini-credentials.json")):
        return ProviderStatus("ready")
    return ProviderStatus("not logged in", "Gemini CLI has no login here; a key works with gemini_cli:api.", "gemini")


def _home(turn: CliTurn) -> Path:
    """Where it keeps what is this session's."""
    return turn.config / ".gemini"


def _canonical(ambient: Mapping[str, str]) -> Path:
    """The person's own home of Gemini CLI."""
    given = ambient.get("GEMINI_CLI_HOME")
    return (Path(given) if given else Path.home()) / ".gemini"
