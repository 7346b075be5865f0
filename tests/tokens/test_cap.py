"""What is put together of pieces costs what its pieces cost, under every encoding at hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator import TiktokenCounter
from history_curator.tokens._cap import cap_text, count_lines
from tests.tokens.samples import SAMPLES

ENCODINGS = [name for name in ("o200k_base", "cl100k_base") if TiktokenCounter(name).exact]
MARKER = "\n[… 12,345 characters in all, middle left out …]\n"

characters = st.sampled_from([*"abcXYZ019/\\()[]{}.,:;\"'#-_ \t\r", "的", "é", "\u2028", "🙂"])
lines = st.lists(st.text(characters, max_size=12), min_size=1, max_size=12)
words = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=40)


@pytest.mark.parametrize("encoding", ENCODINGS)
class TestLines:
    @given(lines)
    def test_lines_cost_what_they_cost_joined(self, encoding: str, given: list[str]) -> None:
        assert count_lines(given, TiktokenCounter(encoding)) == TiktokenCounter(encoding).count(
            "\n".join(given)
        )

    def test_each_is_tokenised_once(self, encoding: str) -> None:
        counter, told = TiktokenCounter(encoding), ["read(src/a.py)", "/usr/bin", "said: done"]
        count_lines(told, counter)
        before = counter.characters
        count_lines([*told, "one more"], counter)
        assert counter.characters - before <= len("said: done\n") + len("one more")


@pytest.mark.parametrize("encoding", ENCODINGS)
class TestCap:
    @given(words, st.sampled_from([" ", "\n", ", ", "\n\n", ""]), st.integers(40, 120))
    def test_the_stated_tokens_are_the_tokens(
        self, encoding: str, given: list[str], space: str, cap: int
    ) -> None:
        counter, text = TiktokenCounter(encoding), space.join(given * 4)
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
        spent = counter.characters - before
        assert found is not None
        short, tokens = found
        assert counter.count(short) >= 850
        if tokens is not None:  # it has places where tokens end for certain
            assert spent <= len(short) + 4 * 1_000
