"""Codex as a provider: its loop and the person's login, provider or key, our tools, none of its own."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from core import (
    OUR_SERVER,
    CliFigures,
    CliParser,
    CliProvider,
    CliTurn,
    ProviderStatus,
    Route,
    Usage,
)
from impl.providers._cli_files import held, too_old
from impl.providers._codex_lines import CodexParser, last_count

_SCRUB: Final = (r"OPENAI_.*", r"CODEX_.*", r"AZURE_OPENAI_.*")
"""Whatever could send a child elsewhere or tie it to a session it was started from."""
_OFF: Final = (
    *("shell_tool", "unified_exec", "view_image", "image_generation", "goals", "apps", "plugins", "hooks"),
    *("browser_use", "computer_use", "in_app_browser", "tool_suggest", "skill_search", "sleep_tool"),
    *("memories", "worktrees", "shell_snapshot", "js_repl", "multi_agent_v2", "remote_control"),
    *("tool_search", "tool_search_always_defer_mcp_tools", "code_mode", "code_mode_only"),
)
"""Its own tools, what brings more of them, and what would hide ours."""
_RULES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "sandbox_mode": "read-only",
        "approval_policy": "never",
        "web_search": "disabled",
        "agents.enabled": False,
        "project_doc_max_bytes": 0,
        "include_permissions_instructions": False,
        "include_environment_context": False,
        "skills.bundled.enabled": False,
        "skills.include_instructions": False,
        "check_for_update_on_startup": False,
        "analytics.enabled": False,
        **{f"features.{name}": False for name in _OFF},
    }
)
_LEFT_OUT: Final = frozenset(
    {"mcp_servers", "hooks", "notify", "plugins", "marketplaces", "skills", "agents", "apps", "projects", "otel"}
)
"""What a session does not inherit of the person's configuration: what runs or reports something. Overrides on the
command line would be merged with it."""
_OURS: Final = "artificer_api"


class CodexProvider(CliProvider):
    """`codex exec`. Routes: `native` inherits the person's configuration and login; `api` takes a key, and an address
    if any, from OPENAI_API_KEY and OPENAI_BASE_URL. Each session has a home of its own."""

    name: ClassVar[str] = "codex"
    title: ClassVar[str] = "Codex"
    executable: ClassVar[str] = "codex"
    install: ClassVar[str] = "npm install -g @openai/codex"
    forks: ClassVar[bool] = True
    announces_calls: ClassVar[bool] = True
    session_ids: ClassVar[Literal["ours", "theirs"]] = "theirs"
    figures: ClassVar[Literal["call", "step", "session"]] = "session"
    needs_prices: ClassVar[bool] = True
    efforts: ClassVar[tuple[str, ...]] = ("minimal", "low", "medium", "high", "xhigh")
    stdin_arguments: ClassVar[tuple[str, ...] | None] = ("-",)
    routes: ClassVar[Mapping[str, Route]] = MappingProxyType(
        {
            "native": Route("the person's login", {}, _SCRUB),
            "api": Route("a key", {}, _SCRUB, (r"OPENAI_API_KEY", r"OPENAI_ORGANIZATION", r"OPENAI_PROJECT")),
        }
    )

    def _invoke(self, turn: CliTurn) -> tuple[list[str], dict[str, str | None]]:
        argv = [self.executable, "exec"]
        match turn.mode:
            case "fresh":
                argv += ["-C", str(turn.cwd)]
            case "resume" | "fork":
                argv += [turn.mode, turn.native or ""]
        argv += ["--json", "--skip-git-repo-check"]
        if turn.model:
            argv += ["-m", turn.model]
        for key, value in self._overrides(turn).items():
            argv += ["-c", f"{key}={toml(value)}"]
        return argv, {"CODEX_HOME": str(turn.config), **self._keys(turn)}

    def _overrides(self, turn: CliTurn) -> dict[str, Any]:
        """The configuration of this turn. Neither resume nor fork takes a sandbox, so it is said here, as all else."""
        values = {**_RULES, "mcp_servers": _servers(turn)}
        if turn.effort:
            values["model_reasoning_effort"] = turn.effort
        if turn.system.strip():
            path = turn.scratch / "system.md"
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(turn.system, "utf-8", errors="replace")
            values["model_instructions_file"] = str(path)
        if self.route == "api":
            values["model_provider"] = _OURS
            values[f"model_providers.{_OURS}"] = {
                "name": "key",
                "base_url": _base_url(turn.ambient),
                "env_key": "OPENAI_API_KEY",
                "wire_api": "responses",
                "request_max_retries": 2,
                "stream_max_retries": 2,
            }
        return values

    def _keys(self, turn: CliTurn) -> dict[str, str | None]:
        """Keys that the person's own configuration names: the scrubbing of a route must not take those."""
        if self.route != "native":
            return {}
        providers = _config(turn.config).get("model_providers")
        rows = providers.values() if isinstance(providers, dict) else ()
        named = [row.get("env_key") for row in rows if isinstance(row, dict)]
        return {key: turn.ambient[key] for key in named if isinstance(key, str) and key in turn.ambient}

    def _parser(self, turn: CliTurn) -> CliParser:
        return CodexParser(OUR_SERVER, gives_up_at_once=self.route == "api")

    # --- its home ----------------------------------------------------------------------------------

    def _seed(self, turn: CliTurn, parent: Path | None) -> None:
        """The person's configuration as it is now, the files it names, and a link to their login: never a copy, as
        Codex renews it in place."""
        if self.route != "native":
            return
        canonical = _home(turn.ambient)
        inherited = parent if parent is not None and (parent / "config.toml").is_file() else canonical
        if (inherited / "config.toml").is_file():
            kept = {key: value for key, value in _config(inherited).items() if key not in _LEFT_OUT}
            lines = (f"{json.dumps(key)} = {toml(value)}\n" for key, value in kept.items())
            (turn.config / "config.toml").write_text("".join(lines), "utf-8")
            for name in _named_files(kept, inherited):
                target = turn.config / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(inherited / name, target)
        login = turn.config / "auth.json"
        if (canonical / "auth.json").exists() and not login.exists():
            login.unlink(missing_ok=True)
            login.symlink_to(canonical / "auth.json")

    def _configured_model(self, turn: CliTurn) -> str | None:
        model = _config(_home(turn.ambient)).get("model") if self.route == "native" else None
        return model if isinstance(model, str) else None

    def _transcript(self, turn: CliTurn, native: str) -> Path | None:
        found = (turn.config / "sessions").glob(f"*/*/*/rollout-*-{native}.jsonl")
        return max(found, default=None)

    def _late_figures(self, turn: CliTurn, native: str) -> CliFigures | None:
        """An interrupted turn says nothing; its transcript counts what was used."""
        path = self.transcript(turn, native)
        return last_count(path) if path is not None else None

    def _rates(self, turn: CliTurn, model: str, usage: Usage) -> Decimal | None:
        from impl.providers._pricing import price

        return price("openai_compatible", model, usage, self._address(turn))

    def _address(self, turn: CliTurn) -> str | None:
        """Where tokens are bought, None for the vendor's own."""
        if self.route == "api":
            return turn.ambient.get("OPENAI_BASE_URL") or None
        config = _config(turn.config)
        providers, chosen = config.get("model_providers"), config.get("model_provider")
        row = providers.get(chosen) if isinstance(providers, dict) and isinstance(chosen, str) else None
        address = row.get("base_url") if isinstance(row, dict) else None
        return address if isinstance(address, str) else None

    # --- preflight ---------------------------------------------------------------------------------

    async def _preflight(self, env: Mapping[str, str]) -> ProviderStatus:
        if self.route == "api":
            fix = "export OPENAI_API_KEY=…"
            given = env.get("OPENAI_API_KEY")
            return ProviderStatus("ready") if given else ProviderStatus("no key", "OPENAI_API_KEY is not set.", fix)
        old = await too_old(self.path(env), env, "@openai/codex", (0, 171), self.install)
        if old is not None:
            return old
        home = _home(env)
        if held(home / "auth.json") is not None or _config(home).get("model_provider"):
            return ProviderStatus("ready")
        message = "Codex has no login here; a key works with codex:api."
        if (home / "auth.json").exists():
            message = f"The login of Codex cannot be read: {home / 'auth.json'}."
        return ProviderStatus("not logged in", message, "codex login")


def _base_url(ambient: Mapping[str, str]) -> str:
    return (ambient.get("OPENAI_BASE_URL") or "https://api.openai.com/v1").rstrip("/")


def _home(ambient: Mapping[str, str]) -> Path:
    """The person's own home of Codex."""
    given = ambient.get("CODEX_HOME")
    return Path(given) if given else Path.home() / ".codex"


def _config(home: Path) -> dict[str, Any]:
    """Its configuration; nothing where there is none or it cannot be read (Codex then says so itself)."""
    try:
        return tomllib.loads((home / "config.toml").read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def _named_files(value: Any, home: Path) -> Iterator[str]:
    """Files below `home` that a configuration names by relative path, wherever it does."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _named_files(inner, home)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_files(inner, home)
    elif isinstance(value, str) and 0 < len(value) < 500 and "\n" not in value:
        path = Path(value)
        inside = not path.is_absolute() and ".." not in path.parts
        if inside and path.name not in ("auth.json", "config.toml") and (home / path).is_file():
            yield value


def _servers(turn: CliTurn) -> dict[str, Any]:
    """Our server and no other."""
    if not turn.mcp:
        return {}
    command, *args = turn.mcp
    server = {
        "command": command,
        "args": args,
        "env": dict(turn.mcp_env),
        "startup_timeout_sec": 30,
        "tool_timeout_sec": 86400,  # our tools have deadlines of their own
        "default_tools_approval_mode": "approve",
    }
    return {OUR_SERVER: server}


def toml(value: Any) -> str:
    """A value as TOML, in one line: strings, booleans, numbers, times, lists and tables of them."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}={toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(toml(inner) for inner in value) + "]"
    return value.isoformat() if isinstance(value, date | time) else json.dumps(value)
