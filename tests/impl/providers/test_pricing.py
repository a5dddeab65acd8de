"""Costs and context windows come from the offline price data, and unknown stays unknown."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices.data_snapshot import get_snapshot

from core import Usage
from impl.providers import _pricing, anthropic, openai_compatible

OPENAI = "https://api.openai.com/v1"


def test_cached_tokens_are_priced_as_such() -> None:
    model = get_snapshot().find_provider_model("claude-sonnet-5-5", None, "anthropic", None)[1]
    rate = model.get_prices(datetime.now(UTC))
    usage = Usage(input_tokens=1000, output_tokens=100, cached_tokens=400, cache_write_tokens=100)
    parts = (
        500 * rate.input_mtok,
        400 * rate.cache_read_mtok,
        100 * rate.cache_write_mtok,
        100 * rate.output_mtok,
    )
    assert _pricing.price("anthropic", "claude-sonnet-5-5", usage) == sum(parts) / Decimal(1_000_000)


@pytest.mark.parametrize(
    ("provider", "model", "base_url"),
    [
        ("anthropic", "no-such-model", None),
        ("anthropic", None, None),
        ("openai_compatible", "gpt-5.4", "http://127.0.0.1:8080/v1"),
        ("offline", "rules", None),
    ],
)
def test_what_is_not_known_has_no_price(provider: str, model: str | None, base_url: str | None) -> None:
    assert _pricing.price(provider, model, Usage(10, 10), base_url) is None


def test_no_usage_no_price() -> None:
    assert _pricing.price("anthropic", "claude-sonnet-5-5", None) is None


def test_impossible_counts_do_not_raise() -> None:
    assert _pricing.price("anthropic", "claude-sonnet-5-5", Usage(5, 1, 50, 50)) is not None


def test_default_models_are_in_the_data() -> None:
    assert _pricing.price("anthropic", anthropic.DEFAULT_MODEL, Usage(1, 1))
    assert _pricing.price("openai_compatible", openai_compatible.DEFAULT_MODEL, Usage(1, 1), OPENAI)


def test_windows_kept_apart_agree_with_the_data() -> None:
    for model, window in _pricing._WINDOWS.items():
        assert get_snapshot().find_provider_model(model, None, "anthropic", None)[1].context_window == window


def test_a_window_is_known_by_the_address_of_the_service() -> None:
    assert _pricing.context_window("openai_compatible", "gpt-4o", OPENAI) == 128_000
    assert _pricing.context_window("openai_compatible", "gpt-4o", "http://127.0.0.1/v1") is None
    assert _pricing.context_window("anthropic", None) is None
