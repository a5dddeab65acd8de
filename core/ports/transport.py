"""The port of the transport: what performs the requests that policy allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from core.effects.policy import EffectPolicy
    from core.effects.requests import Allowed, Denied, EffectResponse


class Transport(Protocol):
    """Performs allowed requests outside the sandbox."""

    async def perform(
        self, request: Allowed, policy: EffectPolicy, secrets: Mapping[str, str]
    ) -> EffectResponse | Denied:
        """Send it, following redirects that `policy` allows, and redact every value of `secrets` (by name)
        from the answer. `secrets` holds the value of `request.credential`. Never raises for the network."""
