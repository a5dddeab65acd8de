"""Settings: flags, then `ARTIFICER_*`, then `artificer.toml` here, then the user's own, then defaults."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

FILE = "artificer.toml"


class SettingsError(ValueError):
    """A settings file or variable cannot be used; the message names it, the key and what it takes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a person can set. `overrides` are the names that a variable set: they also win over what a
    session was started with."""

    provider: str = "offline"
    """What thinks: a module name under impl/providers."""
    model: str | None = None
    """The model, in the provider's own words."""
    effort: str | None = None
    """How hard it thinks, in the provider's own words; None leaves that to it."""
    sandbox: str | None = None
    """docker, bubblewrap or process; None takes the best that works here."""
    sandbox_image: str | None = None
    """The Docker sandbox's image; `local` is this machine's own programs and needs no registry, None a public one."""
    allow_cidrs: tuple[str, ...] = ()
    """Address ranges sandboxes may reach though they are not public (a company's mirror): a list, or separated by
    commas. An address of this machine opens only where it stands here by itself."""
    ca_bundle: Path | None = None
    """A PEM file of certificate authorities that programs in sandboxes trust."""
    sandbox_ttl: int = 14_400
    """Seconds after which an idle sandbox is replaced by a fresh one; its `/work` stays. 0 is never."""
    package_index: str | None = None
    """Where what generated tools require is installed from: an index's https address, or a directory of wheels on this
    machine; None takes the public index."""
    workspace_quota: int = 10_000
    """Megabytes one workspace may take on disk. 0 is no limit."""
    context_window: int | None = None
    """The model's window in tokens, where it cannot be known otherwise."""
    durability: str = "process"
    """`process` survives kill -9; `full` also power loss."""
    acp_command: str | None = None
    """The command that starts the agent of the provider `acp`."""
    environments: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """Variables for agent CLIs, by provider: the tables `[providers.NAME.env]`; None unsets one."""
    theme: str | None = None
    """The app's theme, by Textual's name."""
    overrides: frozenset[str] = frozenset()

    def override(self, name: str) -> Any:
        """The value of `name` where a variable set it, else None."""
        return getattr(self, name) if name in self.overrides else None


_TYPES: Mapping[str, type] = {"context_window": int, "sandbox_ttl": int, "workspace_quota": int, "ca_bundle": Path}
_LEAST: Mapping[str, int] = {"context_window": 1}
_YOURS: Mapping[str, str] = {
    "allow_cidrs": "opens the sandbox",
    "ca_bundle": "opens the sandbox",
    "package_index": "opens the sandbox",
    "acp_command": "names a program to run",
    "environments": "says what agent CLIs are started with",
}
"""Settings that a repository one happens to stand in must not have a say in, and why."""
_TABLE = {
    "kind": "sandbox",
    "image": "sandbox_image",
    "allow_cidrs": "allow_cidrs",
    "ca_bundle": "ca_bundle",
    "package_index": "package_index",
    "ttl": "sandbox_ttl",
    "quota": "workspace_quota",
}
"""The same settings as keys of a `[sandbox]` table."""
_NAMES = tuple(f.name for f in fields(Settings) if f.name not in ("overrides", "environments"))


def load_settings(
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    user: Path | None = None,
) -> Settings:
    """Read all sources. Raises SettingsError for what cannot be read or has the wrong type."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    values.update(_read(user or user_file()))
    here = (directory or Path.cwd()) / FILE
    found = _read(here)
    for name in sorted(_YOURS.keys() & found.keys()):
        shown = "providers" if name == "environments" else name
        message = f"{here}: {shown} {_YOURS[name]}, so a working directory cannot set it."
        variable = "" if name == "environments" else f", or by ARTIFICER_{name.upper()}"
        raise SettingsError(f"{message} Set it in {user or user_file()}{variable}.")
    values.update(found)
    overrides = set()
    for name in _NAMES:
        text = environ.get(f"ARTIFICER_{name.upper()}", "")
        if text:
            values[name] = _typed(name, text, f"ARTIFICER_{name.upper()}")
            overrides.add(name)
    return Settings(**values, overrides=frozenset(overrides))


def user_file() -> Path:
    """The user's own settings file, where the platform keeps them."""
    import platformdirs

    return platformdirs.user_config_path("artificer") / FILE


def home_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Where all state lies: `ARTIFICER_HOME`, else the platform's data directory."""
    environ = os.environ if environ is None else environ
    given = environ.get("ARTIFICER_HOME")
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return platformdirs.user_data_path("artificer")


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    if isinstance(data.get("sandbox"), dict):
        table = data.pop("sandbox")
        data |= {_TABLE.get(name, f"sandbox.{name}"): value for name, value in table.items()}
    environments = _environments(data.pop("providers", {}), str(path))
    unknown = sorted(set(data) - set(_NAMES))
    if unknown:
        raise SettingsError(f"{path}: unknown setting {unknown[0]!r}. There are: {', '.join((*_NAMES, 'providers'))}.")
    typed = {name: _typed(name, value, str(path)) for name, value in data.items()}
    return typed | ({"environments": environments} if environments else {})


def _environments(tables: Any, where: str) -> dict[str, dict[str, str | None]]:
    """The tables `[providers.NAME.env]`. No message shows a value: it may be a key."""
    found: dict[str, dict[str, str | None]] = {}
    for provider, table in tables.items() if isinstance(tables, dict) else [("", None)]:
        env = table.get("env") if isinstance(table, dict) and table.keys() == {"env"} else None
        if not isinstance(env, dict):
            raise SettingsError(f"{where}: providers takes tables like [providers.codex.env], of variables.")
        for name, value in env.items():
            if not isinstance(value, str) and value is not False:
                raise SettingsError(f"{where}: providers.{provider}.env.{name} takes a text, or false to unset it.")
        found[provider.replace("-", "_")] = {name: None if value is False else value for name, value in env.items()}
    return found


def _typed(name: str, value: Any, where: str) -> Any:
    if name == "allow_cidrs":
        return _cidrs(value, where)
    if name == "package_index":
        return _index(value, where)
    if name == "acp_command":
        return _command(value, where)
    if name == "durability" and value not in ("process", "full"):
        raise SettingsError(f"{where}: durability is {value!r}; it takes process or full.")
    kind = _TYPES.get(name, str)
    if kind is int and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        value = int(value)
    if kind is Path and isinstance(value, str):
        return _file(name, value, where)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SettingsError(f"{where}: {name} is {value!r}; it takes {'a number' if kind is int else 'a text'}.")
    least = _LEAST.get(name, 0)
    if isinstance(value, int) and value < least:
        raise SettingsError(f"{where}: {name} is {value}; it takes a number from {least} up.")
    return value


def _cidrs(value: Any, where: str) -> tuple[str, ...]:
    import ipaddress

    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise SettingsError(f"{where}: allow_cidrs is {value!r}; it takes a list of address ranges.")
    try:
        return tuple(str(ipaddress.ip_network(text.strip(), strict=False)) for text in listed if text.strip())
    except ValueError as error:
        raise SettingsError(f"{where}: allow_cidrs: {error}. A range is written like 192.0.2.0/24.") from None


def _command(value: Any, where: str) -> str:
    import shlex

    try:
        if isinstance(value, str) and shlex.split(value):
            return value
    except ValueError:
        pass
    raise SettingsError(f"{where}: acp_command is {value!r}; it takes a command, quoted as in a shell.")


def _index(value: Any, where: str) -> str:
    """An address without a password (what installs sees it, and sandboxes hold no secret), or a directory."""
    if isinstance(value, str) and value.startswith("https://") and "@" not in value:
        return value
    path = Path(value).expanduser().absolute() if isinstance(value, str) and "://" not in value else None
    if path is None or not path.is_dir():
        raise SettingsError(
            f"{where}: package_index is {value!r}; it takes an https address without a password, or a directory."
        )
    return str(path)


def _file(name: str, value: str, where: str) -> Path:
    path = Path(value).expanduser().absolute()
    if not path.is_file():
        raise SettingsError(f"{where}: {name} is {value!r}, and no such file is here.")
    return path
