"""Claude by Anthropic's Messages API: one streamed request a turn, assembled by our own accumulator."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar

from core import ModelProvider, ModelRequest, ProviderError, ProviderStatus, StreamItem, TurnEnd
from impl.providers import _pricing
from impl.providers._anthropic_history import body
from impl.providers._anthropic_turn import PROVIDER, AnthropicTurn
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

DEFAULT_URL = "https://api.anthropic.com"
DEFAULT_MODEL = "claude-sonnet-5-5"

_FIX = "export ANTHROPIC_API_KEY=sk-ant-..."


class AnthropicProvider(ModelProvider):
    """Streams turns of Claude. Reads `ANTHROPIC_API_KEY` (or `ANTHROPIC_AUTH_TOKEN`) and
    `ANTHROPIC_BASE_URL` at each request."""

    name: ClassVar[str] = PROVIDER
    title: ClassVar[str] = "Claude, by Anthropic's API"

    def __init__(self) -> None:
        self._clients = Clients(_build, _close)

    def default_model(self) -> str | None:
        """The middle of the current family."""
        return DEFAULT_MODEL

    def context_window(self, model: str | None) -> int | None:
        """From the price data; None for a model it does not know."""
        return _pricing.context_window(PROVIDER, model or DEFAULT_MODEL)

    async def preflight(self) -> ProviderStatus:
        """Whether the library and a key are there. Asks nobody."""
        if importlib.util.find_spec("anthropic") is None:
            return ProviderStatus("not installed", "the anthropic library is missing", "pip install anthropic")
        if not _credentials()[0]:
            return ProviderStatus("no key", "ANTHROPIC_API_KEY is not set", _FIX)
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
        model = request.model or DEFAULT_MODEL
        base_url = setting("ANTHROPIC_BASE_URL") or DEFAULT_URL
        secret, scheme = _credentials()
        service = Service(
            "Anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", public_url(base_url), model, (secret,)
        )
        _require(secret)
        require_url(base_url, service)
        httpx2 = await asyncio.to_thread(_load)
        try:
            client = self._clients.get(base_url, secret, scheme)
        except (ValueError, ImportError, httpx2.InvalidURL) as error:  # a bad address, or a proxy's that needs more
            raise failure("bad_request", f"no connection can be made: {error}", service) from error
        accumulator = AnthropicTurn(service, model, taken_ids(request.messages))
        wanted = body(request, model, request.max_output_tokens or _most_output(model))
        response = await _send(client, wanted, service)
        try:
            async with response, aclosing(turn(response.response, accumulator, service, httpx2)) as items:
                async for item in items:
                    yield await _priced(item, model) if isinstance(item, TurnEnd) else item
        except ProviderError as error:
            error.usd = _pricing.price(PROVIDER, model, error.usage)
            raise


def _credentials() -> tuple[str, str]:
    """(the secret, which kind it is), empty where there is none."""
    key = setting("ANTHROPIC_API_KEY")
    return (key, "key") if key else (setting("ANTHROPIC_AUTH_TOKEN"), "token")


def _require(secret: str) -> None:
    if not secret:
        raise ProviderError(
            "auth",
            "ANTHROPIC_API_KEY is not set, so Claude cannot be asked.",
            hint=f"Set it with `{_FIX}`, or work without a model: --provider offline",
        )
    if not (secret.isascii() and secret.isprintable()):
        raise ProviderError(
            "auth",
            "ANTHROPIC_API_KEY holds characters that no key has.",
            hint=f"Copy the key again and set it with `{_FIX}`",
        )


def _load() -> Any:
    """The HTTP library of the SDK; the first call takes 1.25 s, so it belongs in a thread."""
    import anthropic  # noqa: F401
    import httpx2

    return httpx2


def _build(base_url: str, secret: str, scheme: str) -> Any:
    import anthropic
    import httpx2

    inner = anthropic.DefaultAsyncHttpxClient(
        trust_env=not is_loopback(base_url), verify=tls(httpx2), follow_redirects=False
    )
    credentials: dict[str, Any] = {"api_key": secret} if scheme == "key" else {"auth_token": secret}
    return anthropic.AsyncAnthropic(
        base_url=base_url, max_retries=0, http_client=inner, open_telemetry=False, **credentials
    )


async def _close(client: Any) -> None:
    await client.close()


async def _send(client: Any, wanted: dict[str, Any], service: Service) -> Any:
    """The response as a stream. Raises ProviderError."""
    import anthropic
    import httpx2

    wait = httpx2.Timeout(connect=10.0, read=max(timeouts()), write=60.0, pool=60.0)
    try:
        return await client.messages.create(**wanted, stream=True, timeout=wait)
    except anthropic.APIStatusError as error:
        response = error.response
        raise status_error(response.status_code, response.headers, response.content, service) from error
    except anthropic.APIConnectionError as error:
        cause = error.__cause__
        raise unreachable(cause if isinstance(cause, Exception) else error, service, httpx2) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise unreachable(error, service, httpx2) from error
    except anthropic.AnthropicError as error:
        raise failure("protocol", str(error), service) from error


async def _priced(end: TurnEnd, model: str) -> TurnEnd:
    if end.usage is None:
        return end
    await asyncio.to_thread(_pricing.warm)
    usd = _pricing.price(PROVIDER, end.model, end.usage)
    if usd is None:
        usd = _pricing.price(PROVIDER, model, end.usage)
    return replace(end, usd=usd)


def _most_output(model: str) -> int:
    """The output limit to ask for where none is set: the API wants one. In tokens."""
    if model.startswith(("claude-3-5", "claude-3-7", "claude-3.5", "claude-3.7")):
        return 8_192
    return 4_096 if model.startswith(("claude-3-", "claude-2")) else 32_000
