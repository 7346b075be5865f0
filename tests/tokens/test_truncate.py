"""A shortened text is within its limit, and its stated tokens are its tokens."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.tokens import (
    HeuristicCounter,
    Keep,
    TiktokenCounter,
    cap_text,
    shorten,
    shorten_tokens,
)
from tests.tokens.samples import SAMPLES

ENCODINGS = [name for name in ("o200k_base", "cl100k_base") if TiktokenCounter(name).exact]
MARKER = "\n[… 12,345 characters in all, middle left out …]\n"

keeps = st.sampled_from(["head", "tail", "both"])
texts = st.text(max_size=300) | st.text("ab \n漢😀", max_size=3_000)
word_lists = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=40)


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

        assert 98 <= len(shorten_tokens("x" * 1_000, 100, Letters())) <= 100


@pytest.mark.parametrize("encoding", ENCODINGS)
class TestCapText:
    @given(word_lists, st.sampled_from([" ", "\n", ", ", "\n\n", ""]), st.integers(40, 120))
    def test_the_stated_tokens_are_the_tokens(
        self, encoding: str, words: list[str], separator: str, cap: int
    ) -> None:
        counter, text = TiktokenCounter(encoding), separator.join(words * 4)
        found = cap_text(text, cap, counter, MARKER)
        if found is None:
            assert counter.count(text) <= cap
            return
        short, tokens = found
        assert tokens is None or tokens == TiktokenCounter(encoding).count(short)
        assert counter.count(short) <= cap
        head, _, tail = short.partition(MARKER)
        assert text.startswith(head)
        assert text.endswith(tail)

    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_a_capped_text_is_nearly_as_long_as_it_may_be(self, encoding: str, sample: str) -> None:
        counter = TiktokenCounter(encoding)
        text = SAMPLES[sample]
        while counter.count(text) < 4_000:
            text = f"{text} {text}"
        before = counter.characters
        found = cap_text(text, 1_000, counter, MARKER)
        tokenised = counter.characters - before
        assert found is not None
        short, tokens = found
        assert counter.count(short) >= 850
        if tokens is not None:  # it has places where tokens end for certain
            assert tokenised <= len(short) + 4 * 1_000


@pytest.mark.parametrize("piece", [" ", "\n", "a", "! ", "\n\n ", "²\n"])
def test_a_megabyte_without_a_boundary_is_capped_in_linear_time(piece: str) -> None:
    text, counter = piece * (1_000_000 // len(piece)), TiktokenCounter("o200k_base")
    start = time.process_time()
    found = cap_text(text, 100, counter, MARKER)
    assert time.process_time() - start < 2
    assert found is None or counter.count(found[0]) <= 100
