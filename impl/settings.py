"""Settings: flags, then `ARTIFICER_*`, then `artificer.toml` here, then the user's own, then defaults."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

FILE = "artificer.toml"


class SettingsError(ValueError):
    """A settings file or variable cannot be used; the message names it, its line, the key and what it takes."""

    hint = "Mend the file or variable named here."


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
_KEYS: Mapping[str, str] = {name: name for name in _NAMES} | {f"sandbox.{key}": name for key, name in _TABLE.items()}
"""What a file may set: the key as it is written there, to the setting's name."""


def load_settings(
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    user: Path | None = None,
) -> Settings:
    """Read all sources. Raises SettingsError for what cannot be read or has the wrong type."""
    environ = os.environ if environ is None else environ
    values = {name: value for name, (value, _) in _read(user or user_file()).items()}
    found = _read((directory or _here()) / FILE)
    for name in sorted(_YOURS.keys() & found.keys()):
        message = f"{found[name][1]} {_YOURS[name]}, so a working directory cannot set it."
        variable = "" if name == "environments" else f", or by ARTIFICER_{name.upper()}"
        raise SettingsError(f"{message} Set it in {user or user_file()}{variable}.")
    values |= {name: value for name, (value, _) in found.items()}
    overrides = set()
    for name in _NAMES:
        text = environ.get(f"ARTIFICER_{name.upper()}", "")
        if text:
            values[name] = _typed(name, text, f"ARTIFICER_{name.upper()}")
            overrides.add(name)
    return Settings(**values, overrides=frozenset(overrides))


def _here() -> Path:
    """The working directory; one that is gone holds no settings."""
    try:
        return Path.cwd()
    except OSError:
        return Path()


def user_file() -> Path:
    """The user's own settings file, where the platform keeps them."""
    import platformdirs

    return platformdirs.user_config_path("artificer") / FILE


def home_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Where all state lies: `ARTIFICER_HOME`, else the platform's data directory."""
    environ = os.environ if environ is None else environ
    given = environ.get("ARTIFICER_HOME")
    if given:
        return _path(given)
    import platformdirs

    return platformdirs.user_data_path("artificer")


def _read(path: Path) -> dict[str, tuple[Any, str]]:
    """Name to value and where it stands (`FILE:LINE: KEY`); empty where there is no file."""
    text = _text(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = found[1] if (found := re.search(r"at line (\d+)", str(error))) else len(text.splitlines())
        raise SettingsError(f"{path}:{line} cannot be read: {error}.") from error
    except RecursionError as error:
        raise SettingsError(f"{path} cannot be read: it nests without end.") from error
    providers = data.pop("providers", None)
    flat = {name: value for name, value in data.items() if name != "sandbox" or not isinstance(value, dict)}
    table = data.get("sandbox")
    if isinstance(table, dict):
        flat |= {f"sandbox.{key}": value for key, value in table.items()}
    settings: dict[str, tuple[Any, str]] = {}
    for key, value in flat.items():
        where = f"{path}:{_line_of(text, key)}:"
        if key not in _KEYS:
            raise SettingsError(f"{where} unknown setting {key!r}.{_nearest(key, {*_KEYS, 'providers'})}")
        settings[_KEYS[key]] = (_typed(_KEYS[key], value, f"{where} {key}"), f"{where} {key}")
    if providers is not None:
        tables = _environments(providers, lambda key: f"{path}:{_line_of(text, key)}: {key}")
        settings["environments"] = (tables, f"{path}:{_line_of(text, 'providers')}: providers")
    return settings


def _text(path: Path) -> str:
    """The file's text, "" where there is none; a directory that nobody may look into holds none."""
    try:
        kind = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(kind):
        raise SettingsError(f"{path} cannot be read: it is no file{' but a directory' if stat.S_ISDIR(kind) else ''}.")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}:{line} cannot be read: it is not UTF-8.") from error


_HEADER = re.compile(r"\s*\[+([^\[\]]+)\]")
_ASSIGNED = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")


def _line_of(text: str, key: str) -> int:
    """The line that a dotted key stands on, else the one its table (or an inline one) begins on."""
    table, best, length = "", 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            here = table = _dotted(header[1])
        elif assigned := _ASSIGNED.match(line):
            here = f"{table}.{_dotted(assigned[1])}".lstrip(".")
        else:
            continue
        if here == key:
            return number
        if f"{key}.".startswith(f"{here}.") and len(here) > length:  # what it stands in
            best, length = number, len(here)
        elif f"{here}.".startswith(f"{key}.") and not length:  # the first of what stands in it
            best, length = number, len(key)
    return best


def _dotted(key: str) -> str:
    return ".".join(part.strip(" \t\"'") for part in key.split("."))


def _nearest(key: str, known: Iterable[str]) -> str:
    """The name that was meant, else all there are."""
    import difflib

    names = sorted(known)
    last = {name.rpartition(".")[2]: name for name in reversed(names)}
    said = key.casefold().replace("-", "_")
    near = difflib.get_close_matches(said, names, 1, 0.7) or difflib.get_close_matches(
        said.rpartition(".")[2], list(last), 1, 0.75
    )
    if near:
        return f" Did you mean {near[0] if near[0] in names else last[near[0]]}?"
    return f" There are: {', '.join(names)}."


def _environments(tables: Any, where: Callable[[str], str]) -> dict[str, dict[str, str | None]]:
    """The tables `[providers.NAME.env]`. No message shows a value: it may be a key."""
    from impl.providers import provider_names

    shape = "takes tables like [providers.codex.env], of variables."
    if not isinstance(tables, dict):
        raise SettingsError(f"{where('providers')} {shape}")
    names = provider_names() if tables else []
    found: dict[str, dict[str, str | None]] = {}
    for given, table in tables.items():
        at = f"providers.{given}"
        env = table.get("env") if isinstance(table, dict) and table.keys() == {"env"} else None
        if not isinstance(env, dict):
            raise SettingsError(f"{where(at)} {shape}")
        provider = given.replace("-", "_")
        if provider not in names:
            raise SettingsError(f"{where(at)}: there is no provider {given!r}.{_nearest(given, names)}")
        for name, value in env.items():
            if not isinstance(value, str) and value is not False:
                raise SettingsError(f"{where(f'{at}.env.{name}')} takes a text, or false to unset it.")
        found[provider] = {name: None if value is False else value for name, value in env.items()}
    return found


def _typed(name: str, value: Any, where: str) -> Any:
    if name == "allow_cidrs":
        return _cidrs(value, where)
    if name == "package_index":
        return _index(value, where)
    if name == "acp_command":
        return _command(value, where)
    if name == "durability" and value not in ("process", "full"):
        raise SettingsError(f"{where} is {value!r}; it takes process or full.")
    kind = _TYPES.get(name, str)
    if kind is int and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        value = int(value)
    if kind is Path and isinstance(value, str):
        return _file(value, where)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SettingsError(f"{where} is {value!r}; it takes {'a number' if kind is int else 'a text'}.")
    least = _LEAST.get(name, 0)
    if isinstance(value, int) and value < least:
        raise SettingsError(f"{where} is {value}; it takes a number from {least} up.")
    return value


def _cidrs(value: Any, where: str) -> tuple[str, ...]:
    import ipaddress

    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise SettingsError(f"{where} is {value!r}; it takes a list of address ranges.")
    try:
        return tuple(str(ipaddress.ip_network(text.strip(), strict=False)) for text in listed if text.strip())
    except ValueError as error:
        raise SettingsError(f"{where}: {error}. A range is written like 192.0.2.0/24.") from None


def _command(value: Any, where: str) -> str:
    import shlex

    try:
        if isinstance(value, str) and shlex.split(value):
            return value
    except ValueError:
        pass
    raise SettingsError(f"{where} is {value!r}; it takes a command, quoted as in a shell.")


def _index(value: Any, where: str) -> str:
    """An address without a password (what installs sees it, and sandboxes hold no secret), or a directory."""
    if isinstance(value, str) and value.startswith("https://") and "@" not in value:
        return value
    path = _path(value) if isinstance(value, str) and "://" not in value else None
    if path is None or not path.is_dir():
        raise SettingsError(f"{where} takes an https address without a password, or a directory that is there.")
    return str(path)


def _file(value: str, where: str) -> Path:
    path = _path(value)
    if not path.is_file():
        raise SettingsError(f"{where} is {value!r}, and no such file is here.")
    return path


def _path(value: str) -> Path:
    """An absolute path; `~name` of a person who is not here stays as it is written."""
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError:
        return Path(value).absolute()
