"""What a call cost and how much a model can read, from the offline data of `genai-prices`."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from core import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

#: Windows of the models people get by default, in tokens, so that asking costs no import. A test compares
#: them with the data.
_WINDOWS = {"claude-haiku-5-5": 1_000_000, "claude-sonnet-5-5": 1_000_000, "claude-opus-5-5": 1_000_000}


def warm() -> None:
    """Load the price data (0.2 s), for a thread to do while a model thinks."""
    import genai_prices

    genai_prices.data_snapshot.get_snapshot()


def price(provider: str, model: str | None, usage: Usage | None, base_url: str | None = None) -> Decimal | None:
    """What a call cost in US dollars, None where unknown.

    `provider` is ours. With `base_url` the price is that of the service at this address, unknown for a
    server of one's own.
    """
    if usage is None or not model:
        return None
    from genai_prices import Usage as Priced
    from genai_prices import calc_price

    cached = min(usage.cached_tokens, usage.input_tokens)
    tokens = Priced(
        input_tokens=usage.input_tokens,  # includes both kinds of cache tokens, as ours does
        cache_read_tokens=cached,
        cache_write_tokens=min(usage.cache_write_tokens, usage.input_tokens - cached),
        output_tokens=usage.output_tokens,
    )
    where: dict[str, Any] = _where(provider, base_url)
    try:
        return calc_price(tokens, model, **where).total_price
    except (LookupError, ValueError):
        return None


@lru_cache(maxsize=256)
def context_window(provider: str, model: str | None, base_url: str | None = None) -> int | None:
    """A model's window in tokens, None where unknown."""
    if not model:
        return None
    if provider == "anthropic" and model in _WINDOWS:
        return _WINDOWS[model]
    info = _model(provider, model, base_url)
    return info.context_window if info else None


def _model(provider: str, model: str, base_url: str | None) -> ModelInfo | None:
    from genai_prices.data_snapshot import get_snapshot

    where = _where(provider, base_url)
    try:
        return get_snapshot().find_provider_model(model, None, where.get("provider_id"), where.get("provider_api_url"))[
            1
        ]
    except (LookupError, ValueError):
        return None


def _where(provider: str, base_url: str | None) -> dict[str, str]:
    if base_url is not None:
        return {"provider_api_url": base_url}
    return {"provider_id": "openai" if provider == "openai_compatible" else provider}
