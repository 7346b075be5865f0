"""One conversation followed along its reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.tokens._meter import Learned, Meter

CALLS = st.lists(st.tuples(st.integers(1, 50_000), st.integers(1, 100_000)), max_size=20)


def followed(*calls: tuple[int, int], start: float = 1.0) -> Meter:
    meter = Meter(Learned.at(start))
    for counted, reported in calls:
        meter.observe(counted, reported)
    return meter


class TestRoom:
    @given(CALLS, st.integers(100, 200_000))
    def test_the_bound_of_the_room_is_within_the_limit(
        self, calls: list[tuple[int, int]], limit: int
    ) -> None:
        meter = followed(*calls)
        room = meter.room(limit)
        assert room == 0 or meter.bound(room) <= limit

    @given(CALLS, st.integers(100, 200_000))
    def test_and_there_is_hardly_a_larger_one(
        self, calls: list[tuple[int, int]], limit: int
    ) -> None:
        meter = followed(*calls)
        room = meter.room(limit)
        ratio = meter.learned.ratio
        assert meter.bound(room + 6 + 6 / ratio) > limit

    def test_a_smaller_limit_leaves_less(self) -> None:
        meter = followed(*((at, round(at * 1.4)) for at in range(1_000, 9_000, 500)))
        rooms = [meter.room(limit) for limit in range(4_000, 20_000, 1_000)]
        assert rooms == sorted(rooms)
        assert rooms[0] < 8_500 < rooms[-1]


class TestReports:
    def test_the_whole_of_a_first_prompt_is_known(self) -> None:
        assert followed((1_000, 21_000)).tokens(1_000) == 21_000

    def test_the_ratio_is_bounded(self) -> None:
        wild = followed(*((at * 100, at * 100 * 40) for at in range(1, 60)), start=1.25)
        assert wild.learned.ratio <= 1.25 * 2.5

    def test_an_input_without_its_cached_part_is_not_believed(self) -> None:
        meter = followed((10_000, 12_000), (11_000, 13_200))
        assert not meter.observe(12_000, 300)
        assert meter.reported == 13_200

    def test_a_view_counted_otherwise_is_less_certain(self) -> None:
        meter = followed((10_000, 12_000), (11_000, 13_200))
        before = meter.error(8_000)
        meter.place(8_000)
        assert meter.tokens(8_000) == pytest.approx(9_600, rel=0.05)
        assert meter.error(8_000) <= before
        meter.observe(8_100, 9_700)
        assert meter.slack == 0

    def test_less_than_expected_behind_a_jump_is_no_other_tokenizer(self) -> None:
        meter = followed(*((at, round(at * 1.5)) for at in range(1_000, 9_000, 500)))
        ratio = meter.learned.ratio
        meter.place(2_000)
        meter.observe(3_000, 3_000)  # what left was counted for more than the rest
        assert meter.learned.ratio >= 3_000 / 3_000
        meter = followed(*((at, round(at * 1.5)) for at in range(1_000, 9_000, 500)))
        meter.place(2_000)
        meter.observe(3_000, round(meter.tokens(3_000) - meter.slack / 2))
        assert meter.learned.ratio == pytest.approx(ratio, rel=0.02)


class TestWhatMayWellFit:
    @given(CALLS, st.integers(1, 50_000))
    def test_is_what_is_needed_and_no_less(
        self, calls: list[tuple[int, int]], counted: int
    ) -> None:
        meter = followed(*calls)
        needed = meter.needed(counted)
        assert meter.likely(needed) >= counted
        assert meter.likely(needed - 2) <= counted

    def test_the_first_report_counts_where_the_last_one_leaves_nothing(self) -> None:
        meter = Meter(Learned.at(1.5), counted=100, reported=4_000)  # of whatever was hidden then
        assert meter.room(3_000) == 0
        assert meter.likely(3_000) == 2_000
