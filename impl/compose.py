"""The one composition root: builds the Host for the app, the command line and every other door."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from core import Host
from impl.settings import Settings, home_directory, load_settings
from impl.store.sqlite import SqliteStore, utc_now

if TYPE_CHECKING:
    # What only annotations name is not loaded: a provider's and a driver's types are on nobody's way to a first paint.
    from core import (
        Allowed,
        Denied,
        Driver,
        EffectPolicy,
        EffectResponse,
        Provider,
        Sandbox,
        Secrets,
        SessionInfo,
        Transport,
    )
    from impl.sandboxes.options import Options

TIDY_AFTER_S = 10.0
"""Long after a first paint."""
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def build_host(
    home: Path | None = None, settings: Settings | None = None, tell: Callable[[str], None] | None = None
) -> Host:
    """A Host on `home` (default: `ARTIFICER_HOME` or the platform's place); `tell` hears of what takes long.

    Cheap: providers, sandboxes and everything of theirs load on first use. Raises StoreError, SettingsError.
    """
    settings = settings or load_settings()
    home = home or home_directory()
    host = Host(
        home=home,
        store=SqliteStore(home, durability="full" if settings.durability == "full" else "process"),
        sandboxes=_Sandboxes(sandbox_options(home, settings, tell)),
        provider=partial(provider, settings=settings),
        driver=driver,
        settings=settings,
        now=utc_now,
        new_id=new_id,
        transport=_Transport(),
        checks=checks,
        offer=offer,
        environment=environment,
    )
    host.secrets = cast("Secrets", _Lazily(lambda: kept_secrets(host)))
    return host


class _Lazily:
    """Stands for what `make` gives, which is made at the first thing that is asked of it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)


def kept_secrets(host: Host) -> Secrets:
    """Where the values of credentials are kept."""
    from impl.secrets import open_secrets

    return open_secrets(host.home, host.store, host.now)


class _Transport:
    """The transport of effects, made at the first of them."""

    def __init__(self) -> None:
        self._made: Transport | None = None

    async def perform(
        self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]
    ) -> EffectResponse | Denied:
        """See `Transport`."""
        if self._made is None:
            from impl.transport.https import HttpsTransport

            self._made = HttpsTransport()
        return await self._made.perform(request, policy, secrets)


def checks(host: Host, sandbox: str | None) -> Sequence[Callable[[Path], Any]]:
    """The checks of the gate that run parts of a bundle in a sandbox: the examples of its tools."""
    from impl.tools.gate import example_check

    return (example_check(host, sandbox),)


async def offer(host: Host, session: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """Make a session's tools reachable for the agent CLI that drives it."""
    from impl.control import offer as reachable

    return await reachable(host, session)


def environment(driver: Driver, suite: Mapping[str, Any]) -> Driver:
    """Put an agent into the environment of a suite."""
    from impl.drivers.suite import in_suite

    return in_suite(driver, suite)


class _Sandboxes:
    """The kinds of sandbox there are here; each choice is made once a process."""

    def __init__(self, options: Callable[[], Options]) -> None:
        self._options = options
        self._chosen: dict[str | None, tuple[Sandbox, str]] = {}

    async def choose(self, requested: str | None) -> tuple[Sandbox, str]:
        """The one asked for, or the best that works here, and why in words. Raises SandboxUnavailable.

        Asked for by the name of the one that was chosen already (a child by its parent's), it is that one.
        """
        best = self._chosen.get(None)
        if best is not None and best[0].name == requested and not best[0].unsafe:
            return best
        if requested not in self._chosen:
            from impl.sandboxes import choose

            options = self._options()
            self._chosen[requested] = await choose(requested, options)
            if options.home is not None:
                from impl.sandboxes.sweep import SWEEPER

                SWEEPER.keep(options.home)
        return self._chosen[requested]


def keep_tidy(host: Host) -> None:
    """From a little later on, take away what dead processes left in `host`'s home, for as long as this one lives."""

    def begin() -> None:
        from impl.sandboxes.sweep import SWEEPER

        SWEEPER.keep(host.home)

    later = threading.Timer(TIDY_AFTER_S, begin)
    later.daemon = True
    later.start()


def sandbox_options(home: Path, settings: Settings, tell: Callable[[str], None] | None = None) -> Callable[[], Options]:
    """What the settings say of sandboxes, read on first use."""

    def options() -> Options:
        from impl.sandboxes.options import Options, unheard

        return Options(
            home=home,
            image=settings.sandbox_image,
            allow_cidrs=settings.allow_cidrs,
            ca_bundle=settings.ca_bundle,
            ttl_s=float(settings.sandbox_ttl),
            quota=settings.workspace_quota * 1_000_000,
            tell=tell or unheard,
        )

    return options


def provider(name: str, settings: Settings) -> Provider:
    """A provider by name; one instance for the process. Raises LookupError naming what there is, SettingsError."""
    from impl.providers import load_provider, with_variables

    return with_variables(load_provider(name), settings)


def driver(host: Host, info: SessionInfo) -> Driver:
    """The environment of a session: the Builder's, a judge's, or its revision's."""
    if info.kind == "judge":
        from core import JudgeDriver

        return JudgeDriver()
    if info.kind == "builder":
        from core import ModelProvider
        from impl.drivers.builder import BuilderDriver

        thinks = host.provider(info.provider)
        return BuilderDriver(host, info, rules=isinstance(thinks, ModelProvider) and thinks.wants_import_source)
    from impl.drivers.bundle import bundle_driver

    return bundle_driver(host, info)


def new_id() -> str:
    """A short id that sorts by time to within a few seconds and is easy to type: 12 letters and digits."""
    ticks = int(time.time() / 4) & (2**30 - 1)
    head = "".join(_ALPHABET[(ticks >> shift) & 31] for shift in range(25, -5, -5))
    return head + "".join(secrets.choice(_ALPHABET) for _ in range(6))
