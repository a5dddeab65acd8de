"""opencode as a provider: its loop, the person's providers and logins or keys, our tools, none of its own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from core import OUR_SERVER, CliParser, CliProcess, CliProvider, CliRun, CliTurn, Invocation, ProviderStatus, Route
from impl.providers._cli_files import link, settings_file, too_old, write_private
from impl.providers._opencode_lines import OpencodeParser

_SCRUB: Final = (r"OPENCODE.*", r"XDG_(DATA|STATE|CONFIG)_HOME", r"ANTHROPIC_.*", r"OPENAI_.*", r"GEMINI_.*")
"""Whatever could send a child elsewhere or tie it to a session it was started from."""
_KEYS: Final = (r"ANTHROPIC_API_KEY", r"OPENAI_API_KEY", r"GEMINI_API_KEY")
_ADDRESSES: Final = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}
_INHERITED: Final = ("provider", "model", "small_model", "disabled_providers", "enabled_providers")
"""What a session takes over of the person's configuration: where models are, nothing that runs something."""
_NAMED_FILE: Final = re.compile(r"\{file:([^}]+)\}")
_NAMED_VARIABLE: Final = re.compile(r"\{env:([^}]+)\}")
_LEAST: Final = (1, 18)
_AGENT: Final = OUR_SERVER


class OpencodeProvider(CliProvider):
    """`opencode run`. Routes: `native` has the person's logins and the providers of their configuration; `api` the
    keys of the environment. Each session has directories of its own, its database in them; a fork shares that of the
    session it came from, and has its own configuration."""

    name: ClassVar[str] = "opencode"
    title: ClassVar[str] = "opencode"
    executable: ClassVar[str] = "opencode"
    install: ClassVar[str] = "npm install -g opencode-ai"
    forks: ClassVar[bool] = True
    session_ids: ClassVar[Literal["ours", "theirs"]] = "theirs"
    figures: ClassVar[Literal["call", "step", "session"]] = "step"
    efforts: ClassVar[tuple[str, ...]] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    stdin_arguments: ClassVar[tuple[str, ...] | None] = ()
    routes: ClassVar[Mapping[str, Route]] = MappingProxyType(
        {"native": Route("the person's logins", {}, _SCRUB), "api": Route("keys", {}, _SCRUB, _KEYS)}
    )

    def _invoke(self, turn: CliTurn) -> tuple[list[str], dict[str, str | None]]:
        argv = [self.executable, "run", "--format", "json", "--pure", "--agent", _AGENT]
        match turn.mode:
            case "fresh":
                argv += ["--title", "artificer"]  # else it asks a model for one
            case "resume":
                argv += ["--session", turn.native or ""]
            case "fork":
                argv += ["--session", turn.native or "", "--fork"]
        if turn.model:
            argv += ["-m", turn.model]
        if turn.effort:
            argv += ["--variant", turn.effort]
        configured = self._configuration(turn)
        write_private(turn.scratch / "config" / "opencode" / "opencode.json", json.dumps(configured))
        return argv, {**self._environment(turn), **self._variables(turn, configured)}

    def _environment(self, turn: CliTurn) -> dict[str, str | None]:
        return {
            "XDG_CONFIG_HOME": str(turn.scratch / "config"),
            "XDG_DATA_HOME": str(turn.config / "data"),
            "XDG_STATE_HOME": str(turn.config / "state"),
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_CLAUDE_CODE": "1",
            "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOCOMPACT": "1",  # its end would read like the turn's
            "NO_COLOR": "1",
        }

    def _prompt_arguments(self, prompt: str) -> list[str]:
        """One word, which `_spawn` takes off again: of arguments it would make numbers and quotations."""
        return [prompt]

    async def _spawn(self, invocation: Invocation, env: Mapping[str, str]) -> CliRun:
        """The prompt goes in by standard input however short it is."""
        if invocation.stdin is None:
            *argv, prompt = invocation.argv
            invocation = replace(invocation, argv=tuple(argv), stdin=prompt.encode())
        return await CliProcess.start(invocation, env, self.deadlines)

    def _parser(self, turn: CliTurn) -> CliParser:
        return OpencodeParser(f"{OUR_SERVER}_")

    # --- its configuration -------------------------------------------------------------------------

    def _configuration(self, turn: CliTurn) -> dict[str, Any]:
        """All of it: what is inherited, an agent that knows our words and our tools alone, our server and no other."""
        tools = {"*": False, f"{OUR_SERVER}_*": True}
        permission = {"*": "deny", f"{OUR_SERVER}_*": "allow"}
        agent = {"mode": "primary", "tools": tools, "permission": permission, "prompt": turn.system.strip() or " "}
        servers = {}
        if turn.mcp:
            # Our tools have deadlines of their own.
            local = {"type": "local", "command": list(turn.mcp), "environment": dict(turn.mcp_env), "enabled": True}
            servers[OUR_SERVER] = {**local, "timeout": 86_400_000}
        return {
            **self._inherited(turn),
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "plugin": [],
            "instructions": [],
            "lsp": False,
            "formatter": False,
            "mcp": servers,
            "tools": tools,
            "permission": permission,
            "default_agent": _AGENT,
            "agent": {_AGENT: agent},
        }

    def _inherited(self, turn: CliTurn) -> dict[str, Any]:
        if self.route == "native":
            mine = _settings(turn.config / "inherited")
            return {key: mine[key] for key in _INHERITED if key in mine}
        given = {name: turn.ambient.get(variable) for name, variable in _ADDRESSES.items()}
        return {"provider": {name: {"options": {"baseURL": _versioned(url)}} for name, url in given.items() if url}}

    def _variables(self, turn: CliTurn, configured: Mapping[str, Any]) -> dict[str, str | None]:
        """Variables that the person's own configuration names: the scrubbing of a route must not take those."""
        if self.route != "native":
            return {}
        named = _NAMED_VARIABLE.findall(json.dumps(configured.get("provider", {})))
        return {name: turn.ambient[name] for name in named if name in turn.ambient}

    def _seed(self, turn: CliTurn, parent: Path | None) -> None:
        """The person's configuration as it is now, the files it names, and a link to their logins: never a copy, as
        they are renewed in place."""
        if self.route != "native":
            return
        inherited = parent / "inherited" if parent is not None else None
        source = inherited if inherited is not None and inherited.is_dir() else _config_home(turn.ambient)
        mine = _settings(source)
        write_private(turn.config / "inherited" / "opencode.json", json.dumps(mine))
        for name in _named_files(json.dumps({key: mine[key] for key in _INHERITED if key in mine}), source):
            for folder in (turn.config / "inherited", turn.scratch / "config" / "opencode"):
                target = folder / name
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copyfile(source / name, target)
        link(turn.config / "data" / "opencode" / "auth.json", _data_home(turn.ambient) / "auth.json")

    def _configured_model(self, turn: CliTurn) -> str | None:
        model = _settings(_config_home(turn.ambient)).get("model") if self.route == "native" else None
        return model if isinstance(model, str) else None

    def _transcript(self, turn: CliTurn, native: str) -> Path | None:
        """Its database, which holds all sessions that were forked from one another."""
        return turn.config / "data" / "opencode" / "opencode.db"

    # --- preflight ---------------------------------------------------------------------------------

    async def _preflight(self, env: Mapping[str, str]) -> ProviderStatus:
        old = await too_old(self.path(env), env, "opencode-ai", _LEAST, self.install)
        if old is not None:
            return old
        if self.route == "api":
            ready = any(env.get(name) for name in _KEYS)
            fix = "export ANTHROPIC_API_KEY=…"
            return ProviderStatus("ready") if ready else ProviderStatus("no key", f"{_KEYS[0]} is not set.", fix)
        if settings_file(_data_home(env) / "auth.json") or _settings(_config_home(env)).get("provider"):
            return ProviderStatus("ready")
        message = "opencode has no login here; keys work with opencode:api."
        return ProviderStatus("not logged in", message, "opencode auth login")


def _settings(folder: Path) -> dict[str, Any]:
    return settings_file(*(folder / name for name in ("opencode.jsonc", "opencode.json", "config.json")))


def _named_files(text: str, folder: Path) -> Iterator[str]:
    """Files below `folder` that a configuration names by relative path."""
    for name in _NAMED_FILE.findall(text):
        path = Path(name)
        if not path.is_absolute() and ".." not in path.parts and "~" not in name and (folder / path).is_file():
            yield name


def _versioned(url: str) -> str:
    """An address as its SDKs take it, which end in the API's version."""
    url = url.rstrip("/")
    return url if re.search(r"/v\d+$", url) else f"{url}/v1"


def _config_home(ambient: Mapping[str, str]) -> Path:
    given = ambient.get("XDG_CONFIG_HOME")
    return (Path(given) if given else Path.home() / ".config") / "opencode"


def _data_home(ambient: Mapping[str, str]) -> Path:
    given = ambient.get("XDG_DATA_HOME")
    return (Path(given) if given else Path.home() / ".local" / "share") / "opencode"
