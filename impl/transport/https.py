"""Performs the effects of generated code: resolves once, connects to what was checked, redacts the answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from core import (
    MAX_REDIRECTS,
    Allowed,
    DenialReason,
    Denied,
    EffectPolicy,
    EffectResponse,
    Redactor,
    follow_redirect,
    is_public_address,
)
from impl.transport.bodies import Refusal
from impl.transport.names import Resolver, system_resolver

if TYPE_CHECKING:
    from types import ModuleType

MAX_RESPONSE: Final = 10 * 1024 * 1024
DEADLINE_S: Final = 60.0
RESOLVE_S: Final = 5.0
_MAX_ADDRESSES: Final = 4


@dataclass(frozen=True, slots=True)
class Loopback:
    """Lets a test's server on this machine be reached: loopback addresses count as public, and are connected to
    on `port` instead of 443. Only ever given to a constructor, by tests."""

    port: int


class HttpsTransport:
    """The `Transport` to the internet: HTTP/1.1 over TLS, one connection an effect, no cookies, no proxies.

    `deadline_s` bounds a whole effect, redirects and name look-ups included, `resolve_s` each look-up, both in
    seconds; `max_response` caps a body in bytes, before and after inflating. `tls_context` replaces the one
    that trusts public authorities.
    """

    def __init__(
        self,
        *,
        resolver: Resolver = system_resolver,
        tls_context: ssl.SSLContext | None = None,
        deadline_s: float = DEADLINE_S,
        resolve_s: float = RESOLVE_S,
        max_response: int = MAX_RESPONSE,
        loopback: Loopback | None = None,
    ) -> None:
        self._resolver = resolver
        self._tls_context = tls_context
        self._deadline_s = deadline_s
        self._resolve_s = resolve_s
        self._max_response = max_response
        self._loopback = loopback
        self._made: tuple[ModuleType, ssl.SSLContext] | None = None

    async def perform(
        self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]
    ) -> EffectResponse | Denied:
        """Send `request`, following at most three redirects that stay on its host and pass `policy`.

        Every value of `secrets` (by credential name; at least that of `request.credential`) is redacted from
        the answer's headers and body. Whatever fails is a Denied; nothing of it holds a secret.
        """
        try:
            redactor = Redactor(secrets)
        except ValueError as error:
            return Denied(DenialReason.CREDENTIAL_VALUE, str(error))
        state = _Progress()
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._follow(request, policy, secrets, redactor, state)
        except Refusal as refusal:
            return replace(refusal.denied, sent=refusal.denied.sent or state.answered)
        except TimeoutError:
            return Denied(DenialReason.DEADLINE, f"the effect took over {self._deadline_s:g} s", state.connected)

    async def _follow(
        self,
        request: Allowed,
        policy: EffectPolicy,
        secrets: Mapping[str, str],
        redactor: Redactor,
        state: _Progress,
    ) -> EffectResponse | Denied:
        wire, context = await self._ready()
        seen = {(request.method, request.target)}
        for redirects in range(MAX_REDIRECTS + 1):
            addresses = await self._addresses(request.host)
            credential = secrets.get(request.credential) if request.credential is not None else None
            answer = await wire.exchange(
                request, credential, addresses, context, redactor, self._max_response, state.on_connect
            )
            state.answered = True
            if isinstance(answer, EffectResponse):
                return replace(answer, redirects=redirects)
            following = follow_redirect(request, answer.status, answer.location, policy)
            if isinstance(following, Denied):
                return following
            if (following.method, following.target) in seen:
                return Denied(DenialReason.REDIRECT, "the server redirects in a loop", sent=True)
            seen.add((following.method, following.target))
            request = following
        return Denied(DenialReason.REDIRECT, f"the server redirects more than {MAX_REDIRECTS} times", sent=True)

    async def _addresses(self, host: str) -> list[tuple[str, int]]:
        """Where to connect for `host`: (address, port) pairs, every one of them checked."""
        try:
            async with asyncio.timeout(self._resolve_s):
                found = list(await self._resolver(host))
        except TimeoutError:
            detail = f"{host} was not resolved within {self._resolve_s:g} s"
            raise Refusal(DenialReason.DNS, detail, sent=False) from None
        except OSError:
            raise Refusal(DenialReason.DNS, f"{host} does not resolve", sent=False) from None
        if not found:
            raise Refusal(DenialReason.DNS, f"{host} has no address", sent=False)
        places = [self._place(address) for address in found]
        checked = [place for place in places if place is not None]
        if len(checked) < len(found):
            # One is enough: which of them a client takes is chance, and a name that mixes them is not to be trusted.
            raise Refusal(DenialReason.ADDRESS, f"{host} has an address that is not public", sent=False)
        return checked[:_MAX_ADDRESSES]

    def _place(self, address: str) -> tuple[str, int] | None:
        if is_public_address(address):
            return address, 443
        if self._loopback is not None and ip_address(address).is_loopback:
            return address, self._loopback.port
        return None

    async def _ready(self) -> tuple[ModuleType, ssl.SSLContext]:
        """The HTTP machinery and the TLS context, made once and off the loop: both take tens of milliseconds."""
        if self._made is None:
            self._made = await asyncio.to_thread(_prepare, self._tls_context)
        return self._made


@dataclass(slots=True)
class _Progress:
    """How far an effect came: whether any of its requests may have reached a server."""

    connected: bool = False
    answered: bool = False

    def on_connect(self) -> None:
        self.connected = True


def _prepare(context: ssl.SSLContext | None) -> tuple[ModuleType, ssl.SSLContext]:
    import certifi

    from impl.transport import exchange

    # A file of our own choice, so that no environment variable names another.
    return exchange, context or ssl.create_default_context(cafile=certifi.where())
