"""Any server of OpenAI's chat completions API: one streamed request a turn, differences kept in profiles."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from core import ModelProvider, ModelRequest, ProviderError, ProviderStatus, StreamItem, TurnEnd
from impl.providers import _pricing
from impl.providers._calls import taken_ids
from impl.providers._errors import Service, failure
from impl.providers._http import (
    Clients,
    is_loopback,
    public_url,
    refusable,
    require_url,
    setting,
    status_error,
    timeouts,
    tls,
    turn,
    unreachable,
)
from impl.providers._openai_history import PROVIDER, body
from impl.providers._openai_profiles import Profile, profile_for
from impl.providers._openai_turn import OpenAITurn

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-6.1-sol"
#: What a server of one's own is asked for where no model is named: most of them have one and take any name.
ANY_MODEL = "default"

_FIX = "export OPENAI_API_KEY=sk-..."


class OpenAICompatibleProvider(ModelProvider):
    """Streams turns of a chat completions server. Reads `OPENAI_API_KEY`, `OPENAI_BASE_URL` and
    `ARTIFICER_OPENAI_PROFILE` at each request. Only OpenAI itself needs the key."""

    name: ClassVar[str] = PROVIDER
    title: ClassVar[str] = "OpenAI, or any server with its chat completions API"

    def __init__(self) -> None:
        self._clients = Clients(_build, _close)

    def default_model(self) -> str | None:
        """OpenAI's middle model; None for any other server."""
        return DEFAULT_MODEL if _is_openai(_base_url()) else None

    def context_window(self, model: str | None) -> int | None:
        """From the price data, for services it knows by their address."""
        return _pricing.context_window(PROVIDER, model or self.default_model(), _base_url())

    async def preflight(self) -> ProviderStatus:
        """Whether a key is there where one is needed. Asks nobody."""
        if _is_openai(_base_url()) and not setting("OPENAI_API_KEY"):
            return ProviderStatus("no key", "OPENAI_API_KEY is not set", _FIX)
        return ProviderStatus("ready")

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._clients.aclose()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Stream one turn; one HTTP request, never repeated here."""
        async with aclosing(refusable(self._stream(request), request.model or self.default_model())) as items:
            async for item in items:
                yield item

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        base_url, key = _base_url(), setting("OPENAI_API_KEY")
        model = request.model or self.default_model() or ANY_MODEL
        title = "OpenAI" if _is_openai(base_url) else f"The model server at {public_url(base_url)}"
        service = Service(title, "OPENAI_API_KEY", "OPENAI_BASE_URL", public_url(base_url), model, (key,))
        _require(base_url, key)
        require_url(base_url, service)
        profile = _profile(base_url, service)
        httpx = await asyncio.to_thread(_load)
        content = json.dumps(body(request, model, profile), ensure_ascii=False).encode("utf-8", "replace")
        accumulator = OpenAITurn(service, model, profile, taken_ids(request.messages), len(content) // 4)
        response = await self._send(base_url, key, content, service)
        try:
            async with aclosing(turn(response, accumulator, service, httpx)) as items:
                async for item in items:
                    yield await _priced(item, model, base_url) if isinstance(item, TurnEnd) else item
        except ProviderError as error:
            error.usd = _pricing.price(PROVIDER, model, error.usage, base_url)
            raise
        finally:
            await response.aclose()

    async def _send(self, base_url: str, key: str, content: bytes, service: Service) -> Any:
        """The open response. Raises ProviderError."""
        import httpx

        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        wait = httpx.Timeout(connect=10.0, read=max(timeouts()), write=60.0, pool=60.0)
        try:
            client = self._clients.get(base_url)
            address, query, more = base_url.partition("?")
            url = f"{address.rstrip('/')}/chat/completions{query}{more}"
            request = client.build_request("POST", url, content=content, headers=headers, timeout=wait)
            response = await client.send(request, stream=True)
            if response.is_success:
                return response
            try:
                told = await response.aread()
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise unreachable(error, service, httpx) from error
        except (ValueError, ImportError, httpx.InvalidURL) as error:  # a bad address, or a proxy's that needs more
            raise failure("bad_request", f"no connection can be made: {error}", service) from error
        raise status_error(response.status_code, response.headers, told, service)


def _base_url() -> str:
    return setting("OPENAI_BASE_URL") or DEFAULT_URL


def _is_openai(base_url: str) -> bool:
    try:
        return urlsplit(base_url).hostname == "api.openai.com"
    except ValueError:
        return False


def _require(base_url: str, key: str) -> None:
    if not key and _is_openai(base_url):
        raise ProviderError(
            "auth",
            "OPENAI_API_KEY is not set, so OpenAI cannot be asked.",
            hint=(
                f"Set it with `{_FIX}`, name a server of your own in OPENAI_BASE_URL, or work without a "
                "model: --provider offline"
            ),
        )
    if not (key.isascii() and (key.isprintable() or not key)):
        raise ProviderError(
            "auth",
            "OPENAI_API_KEY holds characters that no key has.",
            hint=f"Copy the key again and set it with `{_FIX}`",
        )


def _profile(base_url: str, service: Service) -> Profile:
    try:
        return profile_for(base_url, setting("ARTIFICER_OPENAI_PROFILE"))
    except LookupError as error:
        wrong = failure("bad_request", str(error.args[0]), service)
        wrong.hint = "Correct ARTIFICER_OPENAI_PROFILE, or unset it."
        raise wrong from error


def _load() -> Any:
    """The HTTP library; the first call takes a while, so it belongs in a thread."""
    import httpx

    return httpx


def _build(base_url: str) -> Any:
    import httpx

    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=100)
    return httpx.AsyncClient(limits=limits, trust_env=not is_loopback(base_url), verify=tls(httpx))


async def _close(client: Any) -> None:
    await client.aclose()


async def _priced(end: TurnEnd, model: str, base_url: str) -> TurnEnd:
    if end.usage is None or end.usage.estimated:
        return end
    await asyncio.to_thread(_pricing.warm)
    usd = _pricing.price(PROVIDER, end.model, end.usage, base_url)
    if usd is None:
        usd = _pricing.price(PROVIDER, model, end.usage, base_url)
    return replace(end, usd=usd)
