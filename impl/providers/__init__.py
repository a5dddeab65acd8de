"""The providers by name: those registered in this process, those built in, those installed packages add."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from core import CliProvider, Provider, registered_providers
from impl.settings import Settings, SettingsError

#: name -> "module:class", imported when first asked for. A new provider is one module and one line here.
BUILTIN: Mapping[str, str] = MappingProxyType(
    {
        "offline": "impl.providers.offline:OfflineProvider",
        "anthropic": "impl.providers.anthropic:AnthropicProvider",
        "openai_compatible": "impl.providers.openai_compatible:OpenAICompatibleProvider",
        "claude_code": "impl.providers.claude_code:ClaudeCodeProvider",
        "codex": "impl.providers.codex:CodexProvider",
        "gemini_cli": "impl.providers.gemini_cli:GeminiCliProvider",
        "opencode": "impl.providers.opencode:OpencodeProvider",
        "acp": "impl.providers.acp:AcpProvider",
    }
)

#: The entry point group through which other packages add providers: `name = "package.module:Class"`.
GROUP = "artificer.providers"

_instances: dict[str, tuple[object, Provider]] = {}


def load_provider(name: str) -> Provider:
    """The provider called `name`, one instance a process. `-` and `_` are the same; `name:route` takes a route of an
    agent CLI.

    Registered ones come first, then the built-in, then entry points. Raises LookupError naming what there
    is, ImportError for an entry point that fails or makes something else.
    """
    name, _, route = name.partition(":")
    found = _find(name) or _find(name.replace("-", "_"))
    if found is None:
        raise LookupError(_unknown(name))
    key, source, make = found
    key = f"{key}:{route}" if route else key
    kept = _instances.get(key)
    if kept is None or kept[0] != source:
        made = make()
        kept = _instances[key] = (source, _routed(made, route) if route else made)
    return kept[1]


def with_variables(made: Provider, settings: Settings) -> Provider:
    """The provider, which gives an agent CLI the variables of the person's settings. Raises SettingsError where they
    name some for one that starts no program."""
    more = settings.environments.get(made.name, {})
    if isinstance(made, CliProvider):
        command = {"ARTIFICER_ACP_COMMAND": settings.acp_command} if settings.acp_command is not None else {}
        made.overlay = {**command, **more} if made.name == "acp" else more
    elif more:
        message = f"[providers.{made.name}.env]: {made.name} is no agent CLI, which alone is started with variables."
        raise SettingsError(f"{message} Set them where you start Artificer.")
    return made


def _routed(made: Provider, route: str) -> Provider:
    """The same provider on a route of its own. Raises LookupError where it has none of that name."""
    if not isinstance(made, CliProvider):
        raise LookupError(f"{made.name} has no routes: leave out {':' + route!r}.")
    return type(made)(route)


def provider_names() -> list[str]:
    """Every name that `load_provider` takes, sorted."""
    return sorted({*registered_providers(), *BUILTIN, *(point.name for point in _points())})


def package_of(name: str) -> str:
    """The installed package that adds the provider `name`."""
    point = next((p for p in _points() if p.name == name), None)
    return point.dist.name if point is not None and point.dist is not None and name not in BUILTIN else "artificer"


def _find(name: str) -> tuple[str, object, Callable[[], Provider]] | None:
    registered = registered_providers().get(name)
    if registered is not None:
        return name, registered, registered
    target = BUILTIN.get(name)
    if target is not None:
        return name, target, partial(_make, target)
    point = next((p for p in _points() if p.name == name), None)
    if point is None:
        return None
    return name, point.value, partial(_make_from, point)


def _make(target: str) -> Provider:
    module, _, attribute = target.partition(":")
    made: Provider = getattr(importlib.import_module(module), attribute)()
    return made


def _make_from(point: EntryPoint) -> Provider:
    """What an installed package makes; whatever it does instead is an ImportError."""
    try:
        made = point.load()()
    except ImportError:
        raise
    except (Exception, SystemExit) as error:
        raise ImportError(f"{point.value} fails: {type(error).__name__}: {error}".strip()) from error
    if not isinstance(made, Provider):
        raise ImportError(f"{point.value} makes no provider but {type(made).__name__}")
    return made


def _points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def _unknown(name: str) -> str:
    names = provider_names()
    near = difflib.get_close_matches(name, names, 1)
    guess = f" Did you mean {near[0]}?" if near else ""
    return f"There is no provider {name!r}.{guess} There are: {', '.join(names)}."
