"""The next prompt is predicted from the last usage report."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator import ConversationEntry, MessageRole
from history_curator.tokens import UsageAnchor, available_tokens, entry_time, parse_time

USER = MessageRole.USER
NAIVE = datetime(1970, 1, 1, 0, 1)  # noqa: DTZ001 - counts as UTC

anchors = st.builds(
    UsageAnchor,
    st.integers(0, 200_000),
    st.integers(1, 400_000),
    st.floats(0.01, 100, allow_nan=False),
)


class TestUsageAnchor:
    def test_predicts_the_last_report_plus_the_ratio_times_the_growth(self):
        anchor = UsageAnchor(1_000, 9_000, 1.5)
        assert anchor.predict(1_200) == 9_300
        assert anchor.upper_bound(1_200) == pytest.approx(9_300 * 1.015 + 300 * 0.4, abs=1)

    @given(anchors, st.integers(0, 500_000))
    def test_available_tokens_is_the_largest_count_within_the_limit(self, anchor, limit):
        available = anchor.available_tokens(limit)
        assert available == 0 or anchor.upper_bound(available) <= limit
        assert anchor.upper_bound(available + 2) > limit

    @given(anchors, st.integers(0, 300_000), st.integers(0, 10_000))
    def test_the_bound_is_above_the_prediction_and_rises_with_the_count(
        self, anchor, counted, more
    ):
        assert anchor.upper_bound(counted) >= anchor.predict(counted)
        assert anchor.upper_bound(counted + more) >= anchor.upper_bound(counted)

    def test_growth_teaches_the_ratio_in_spite_of_a_hidden_prompt(self):
        anchor = UsageAnchor(500, 20_500 + 800)
        for counted in range(1_000, 20_000, 500):
            anchor = anchor.after(counted, 20_500 + round(1.6 * counted))
        assert anchor.ratio == pytest.approx(1.6, rel=0.02)

    def test_a_hidden_prompt_that_appears_later_does_not_make_the_ratio_explode(self):
        anchor = UsageAnchor(5_000, 5_000).after(5_100, 30_100)
        assert anchor.ratio < 1.1
        assert anchor.predict(5_200) == pytest.approx(30_200, abs=20)

    @given(st.lists(st.tuples(st.integers(-5, 100_000), st.integers(-5, 900_000)), max_size=30))
    def test_no_report_moves_the_ratio_out_of_its_bounds(self, reports):
        anchor = UsageAnchor(1_000, 1_200)
        for counted, reported in reports:
            anchor = anchor.after(counted, reported)

            assert 0.4 <= anchor.ratio <= 4.0
            assert anchor.counted > 0

    @pytest.mark.parametrize(
        ("anchor", "report", "ratio"),
        [
            (UsageAnchor(1_000, 5_000), (2_000, 7_500), 1.2),  # growth shows 2.5, believed as 1.3
            (UsageAnchor(1_000, 5_000), (2_000, 5_000), 0.8),  # growth shows 0, believed as 0.7
            (UsageAnchor(1_000, 5_000), (2_000, 6_100), 1 + 0.1 * 2 / 3),
            (UsageAnchor(1_000, 5_000), (900, 5_900), 1.0),  # a shorter view teaches no ratio
            (UsageAnchor(1_000, 1_000), (1_000, 1_500), 1.5),  # another version of the model
            (UsageAnchor(1_000, 1_000), (1_000, 1_330), 1.0),  # near the prediction: no growth
            (UsageAnchor(1_000, 1_000), (1_000, 1_340), 1.34),  # a quarter of it is a surprise
            (UsageAnchor(1_000, 1_000), (1_000, 2_010), 1.0),  # beyond twice: a hidden prompt
        ],
    )
    def test_one_report_moves_the_ratio_by_a_bounded_step(self, anchor, report, ratio):
        assert anchor.after(*report).ratio == pytest.approx(ratio)

    @pytest.mark.parametrize(("given", "ratio"), [(9.0, 4.0), (4.0, 4.0), (0.4, 0.4), (0.01, 0.4)])
    def test_a_ratio_is_clamped_to_what_real_tokenizers_show(self, given, ratio):
        assert UsageAnchor(1_000, 100_000, given).ratio == ratio
        assert UsageAnchor(0, 0, given).ratio == ratio

    def test_a_provider_that_counts_less_than_we_do_lowers_the_ratio_at_once(self):
        assert UsageAnchor(10_000, 9_000, 1.25).ratio == 0.9

    def test_a_report_of_nothing_is_passed_over(self):
        anchor = UsageAnchor(1_000, 1_200)
        assert anchor.after(1_500, 0) is anchor

    @given(anchors)
    def test_it_can_be_saved(self, anchor):
        assert UsageAnchor(**json.loads(json.dumps(asdict(anchor)))) == anchor


class TestAvailableTokens:
    def test_without_a_report_it_is_the_budget_less_the_overhead(self):
        assert available_tokens(10_000, 700) == 9_300
        assert available_tokens(100, 700) == 0

    @pytest.mark.parametrize(
        ("previous", "available"), [(9_850, 9_850), (8_605, 8_605), (8_595, 9_360), (9_860, 9_360)]
    )
    def test_it_moves_by_a_32nd_once_it_is_four_of_them_off(self, previous, available):
        anchor = UsageAnchor(5_000, 5_000)  # 9,850 are likely taken, and a 32nd is 312
        assert available_tokens(10_000, 0, anchor, previous=previous) == available

    @pytest.mark.parametrize("ratio", [0.9, 1.0, 1.3])
    def test_it_stays_while_reports_agree(self, ratio):
        anchor, numbers = UsageAnchor(1_000, round(1_000 * ratio), ratio), []
        for counted in (*range(1_500, 7_000, 250), *range(5_000, 7_000, 250)):
            anchor = anchor.after(counted, round(counted * ratio))
            previous = numbers[-1] if numbers else None
            numbers.append(available_tokens(10_000, 0, anchor, previous=previous))
        assert len(set(numbers)) == 1


class TestTimes:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            (NAIVE, 60.0),
            ("1970-01-01T00:01:00Z", 60.0),
            ("1970-01-01T00:01:00.5+00:00", 60.5),
            ("1970-01-01T00:01:00.123456789Z", 60.123456),
            (1_700_000_000, 1_700_000_000.0),
            (1_700_000_000_000, 1_700_000_000.0),
            (1_700_000_000_000_000_000, 1_700_000_000.0),
            ("soon", None),
            ("", None),
            (True, None),
            (None, None),
            (-5, None),
            (float("inf"), None),
            (10**400, None),
            (float("nan"), None),
        ],
    )
    def test_moments_in_every_form(self, value, seconds):
        assert parse_time(value) == seconds

    @pytest.mark.parametrize(
        "entry",
        [
            ConversationEntry(USER, "a", created_at=NAIVE),
            ConversationEntry(USER, "a", metadata={"timestamp": 60}),
            ConversationEntry(USER, "a", source={"role": "user", "created_at": 60}),
            ConversationEntry(USER, "a", source=SimpleNamespace(additional_kwargs={"time": 60})),
        ],
    )
    def test_a_message_says_its_time_in_one_of_these_places(self, entry):
        assert entry_time(entry) == 60.0
