from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.tokens import HeuristicCounter, Keep, TiktokenCounter, shorten, shorten_tokens

KEEPS = st.sampled_from(["head", "tail", "both"])
TEXTS = st.text(max_size=300) | st.text("ab \n漢😀", max_size=3_000)


class TestByCharacters:
    @given(TEXTS, st.integers(-3, 400), KEEPS, st.text(max_size=12))
    def test_never_longer_than_asked_and_idempotent(
        self, text: str, limit: int, keep: Keep, marker: str
    ) -> None:
        short = shorten(text, limit, keep=keep, marker=marker)
        assert len(short) <= max(limit, 0)
        assert shorten(short, limit, keep=keep, marker=marker) == short

    @given(TEXTS, KEEPS)
    def test_what_fits_is_untouched(self, text: str, keep: Keep) -> None:
        assert shorten(text, len(text), keep=keep) is text

    @pytest.mark.parametrize(
        ("keep", "expected"), [("head", "0123…"), ("tail", "…6789"), ("both", "01…89")]
    )
    def test_keeps_the_end_asked_for(self, keep: Keep, expected: str) -> None:
        assert shorten("0123456789", 5, keep=keep) == expected

    def test_a_limit_too_small_for_the_marker_cuts_plainly(self) -> None:
        assert shorten("0123456789", 3, keep="head", marker="[cut]") == "012"


class TestByTokens:
    @given(TEXTS, st.integers(-1, 60), KEEPS)
    def test_never_more_than_asked_and_idempotent(self, text: str, limit: int, keep: Keep) -> None:
        counter = HeuristicCounter()
        short = shorten_tokens(text, limit, counter, keep=keep)
        assert counter.count(short) <= max(limit, 0)
        assert shorten_tokens(short, limit, counter, keep=keep) == short

    def test_fills_most_of_the_limit(self) -> None:
        counter = TiktokenCounter("o200k_base")
        text = "All happy families are alike; each unhappy family is unhappy. " * 500
        assert 180 <= counter.count(shorten_tokens(text, 200, counter)) <= 200

    def test_tokenises_little_of_a_long_text(self) -> None:
        counter = TiktokenCounter("o200k_base")
        shorten_tokens("word " * 400_000, 500, counter)
        assert counter.characters < 60_000

    def test_works_with_a_counter_that_only_counts(self) -> None:
        class Letters:
            name, priming = "letters", 0

            def count(self, text: str) -> int:
                return len(text)

            def count_entry(self, entry: object) -> int:
                return 0

            def count_tools(self, tools: object) -> int:
                return 0

        short = shorten_tokens("x" * 1_000, 100, Letters())
        assert 98 <= len(short) <= 100
