"""A shortened text is within its limit, and fills it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.tokens import HeuristicCounter, Keep, TiktokenCounter, shorten, shorten_tokens
from tests.tokens.samples import SAMPLES

keeps = st.sampled_from(["head", "tail", "both"])
texts = st.text(max_size=300) | st.text("ab \n漢😀", max_size=3_000)


class TestShorten:
    @given(texts, st.integers(-3, 400), keeps, st.text(max_size=12))
    def test_is_never_longer_than_asked_and_idempotent(
        self, text: str, limit: int, keep: Keep, marker: str
    ) -> None:
        short = shorten(text, limit, keep=keep, marker=marker)
        assert len(short) <= max(limit, 0)
        assert shorten(short, limit, keep=keep, marker=marker) == short

    @given(texts, keeps)
    def test_a_text_that_fits_is_untouched(self, text: str, keep: Keep) -> None:
        assert shorten(text, len(text), keep=keep) is text

    @pytest.mark.parametrize(
        ("keep", "marker", "limit", "expected"),
        [
            ("head", "…", 5, "0123…"),
            ("tail", "…", 5, "…6789"),
            ("both", "…", 5, "01…89"),
            ("head", "[cut]", 3, "012"),
        ],
    )
    def test_the_end_asked_for_survives(
        self, keep: Keep, marker: str, limit: int, expected: str
    ) -> None:
        assert shorten("0123456789", limit, keep=keep, marker=marker) == expected


class TestShortenTokens:
    @given(texts, st.integers(-1, 60), keeps)
    def test_is_never_more_than_asked_and_idempotent(
        self, text: str, limit: int, keep: Keep
    ) -> None:
        counter = HeuristicCounter()
        short = shorten_tokens(text, limit, counter, keep=keep)
        assert counter.count(short) <= max(limit, 0)
        assert shorten_tokens(short, limit, counter, keep=keep) == short

    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_fills_most_of_the_limit(self, sample: str) -> None:
        counter, text = TiktokenCounter("o200k_base"), SAMPLES[sample]
        while counter.count(text) < 4_000:
            text = f"{text} {text}"
        assert 850 <= counter.count(shorten_tokens(text, 1_000, counter)) <= 1_000

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

        assert 98 <= len(shorten_tokens("x" * 1_000, 100, Letters())) <= 100


@pytest.mark.parametrize("piece", [" ", "\n", "a", "! ", "\n\n ", "²\n"])
def test_a_megabyte_without_a_boundary_is_shortened_in_linear_time(piece: str) -> None:
    text, counter = piece * (1_000_000 // len(piece)), TiktokenCounter("o200k_base")
    start = time.process_time()
    assert counter.count(shorten_tokens(text, 100, counter)) <= 100
    assert time.process_time() - start < 2
