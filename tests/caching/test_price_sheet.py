from __future__ import annotations

import pytest

from history_curator.caching import PriceSheet, get_prices, price_sheets
from history_curator.errors import ConfigurationError


class TestPriceSheet:
    def test_a_repeated_prefix_is_cheaper(self) -> None:
        sheet = PriceSheet("s", read=0.1, write=1.25, minimum=1024)
        assert sheet.cost(10_000, 8_000) == pytest.approx((800 + 2_500) / 1e6)

    def test_a_prefix_below_the_minimum_is_not_cached(self) -> None:
        sheet = PriceSheet("s", read=0.1, write=1.25, minimum=1024)
        assert sheet.cached(1023) == 0
        assert sheet.cached(1024) == 1024

    def test_a_request_too_short_to_cache_is_charged_plainly(self) -> None:
        sheet = PriceSheet("s", read=0.1, write=1.25, minimum=1024)
        assert sheet.cost(1_000, 0) == pytest.approx(1_000 / 1e6)

    def test_the_cached_prefix_is_a_multiple_of_the_step(self) -> None:
        sheet = PriceSheet("s", read=0.1, step=128)
        assert sheet.cached(1_000) == 896

    def test_without_a_cache_the_prefix_does_not_matter(self) -> None:
        sheet = get_prices("none")
        assert sheet.cost(5_000, 0) == sheet.cost(5_000, 5_000)

    def test_a_real_price_scales_the_cost(self) -> None:
        sheet = get_prices("anthropic")
        assert sheet.at(3.0).cost(9_000, 0) == pytest.approx(3 * sheet.cost(9_000, 0))


class TestSheets:
    def test_the_promised_providers_ship(self) -> None:
        assert {"openai", "anthropic", "gemini", "none"} <= set(price_sheets())

    def test_a_mapping_makes_a_sheet(self) -> None:
        assert get_prices({"read": 0.5, "input_per_million": 2.0}).read == 0.5

    def test_an_unknown_name_lists_the_known_ones(self) -> None:
        with pytest.raises(ConfigurationError, match="anthropic"):
            get_prices("acme")

    def test_an_unknown_field_is_named(self) -> None:
        with pytest.raises(ConfigurationError, match="discount"):
            get_prices({"discount": 1})
