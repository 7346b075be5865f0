from __future__ import annotations

import json
from importlib.resources import files

import pytest

from history_curator.caching import PriceSheet, get_prices, price_sheets, sheet_for
from history_curator.errors import ConfigurationError


class TestTime:
    def test_a_cold_prefix_is_written_anew(self) -> None:
        sheet = get_prices("anthropic").at(1.0)
        assert sheet.cost(10_000, 9_000, idle=10) == pytest.approx((900 + 1_250) / 1e6)
        assert sheet.cost(10_000, 9_000, idle=300) == pytest.approx(12_500 / 1e6)

    def test_without_a_time_nothing_is_cold(self) -> None:
        sheet = get_prices("anthropic")
        assert sheet.cost(10_000, 9_000) == sheet.cost(10_000, 9_000, idle=0)

    def test_a_sheet_without_a_ttl_forgets_nothing(self) -> None:
        assert PriceSheet("s", read=0.1, write=1.0).cached(5_000, idle=1e9) == 5_000

    def test_the_hour_costs_more_to_write(self) -> None:
        hour = sheet_for("claude-opus-4-6").lasting(3600)  # type: ignore[union-attr]
        assert (hour.write, hour.ttl, hour.input_per_million, hour.minimum) == (2.0, 3600, 5, 4096)

    def test_an_unknown_ttl_is_refused_with_the_one_there_is(self) -> None:
        with pytest.raises(ConfigurationError, match="use 300"):
            get_prices("anthropic").lasting(60)


class TestModels:
    @pytest.mark.parametrize(
        ("model", "known"),
        [
            ("claude-opus-4-5-20251101", "claude-opus-4-5"),
            ("anthropic/claude-opus-4.5".replace(".", "-"), "claude-opus-4-5"),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
            ("claude-opus-5-5", "claude-opus-5-5"),
            ("claude-opus-5@20260724", "claude-opus-5"),
            ("gpt-5.6-terra", "gpt-5.6-terra"),
            ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
            ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ],
    )
    def test_found_by_name(self, model: str, known: str) -> None:
        sheet = sheet_for(model)
        assert sheet is not None
        assert sheet.name.endswith(f"/{known}")
        assert sheet.output_per_million

    @pytest.mark.parametrize("model", ["gpt-5.9", "claude-opus-9", "gemini-9-pro"])
    def test_a_new_model_of_a_known_family_has_factors_and_no_price(self, model: str) -> None:
        sheet = sheet_for(model)
        assert sheet is not None
        assert sheet.output_per_million is None

    @pytest.mark.parametrize("model", ["llama-4", "", None])
    def test_an_unknown_model_has_no_sheet(self, model: str | None) -> None:
        assert sheet_for(model) is None

    def test_get_prices_takes_a_model(self) -> None:
        assert get_prices("claude-haiku-4-5").input_per_million == 1

    def test_every_row_names_a_sheet_and_a_price(self) -> None:
        data = json.loads((files("history_curator.caching") / "prices.json").read_text())
        for name, row in data["models"].items():
            sheet = sheet_for(name)
            assert sheet is not None
            assert sheet.name == f"{row['sheet']}/{name}"
            assert sheet.as_of
            assert sheet.output_per_million > sheet.input_per_million > 0  # type: ignore[operator]

    def test_what_charges_for_writes_says_how_long_they_last(self) -> None:
        assert all(sheet.ttl for sheet in price_sheets().values() if sheet.write > 1)
