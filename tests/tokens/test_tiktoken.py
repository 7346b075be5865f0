from __future__ import annotations

import base64
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.errors import ConfigurationError
from history_curator.tokens import TiktokenCounter, get_counter
from history_curator.tokens.tiktoken_counter import Encode, load_encoding
from history_curator.tokens.truncate import MAX_CHARS, split_for_tokenizer
from tests.tokens.samples import SAMPLES


@pytest.fixture(scope="module")
def encoding() -> Encode:
    loaded = load_encoding("o200k_base")
    if loaded is None:
        pytest.skip("o200k_base is not available offline")
    return loaded


@pytest.fixture
def counter(encoding: Encode) -> TiktokenCounter:
    return TiktokenCounter("o200k_base")


class TestExactness:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_counts_what_the_tokenizer_counts(
        self, counter: TiktokenCounter, encoding: Encode, name: str
    ) -> None:
        text = SAMPLES[name]
        assert counter.count(text) == len(encoding(text))
        assert counter.exact

    @pytest.mark.parametrize("text", ["<|endoftext|>", "a <|endofprompt|> b", "\ud800 lone", ""])
    def test_no_text_makes_it_raise(self, counter: TiktokenCounter, text: str) -> None:
        assert counter.count(text) >= (1 if text else 0)

    @given(st.lists(st.sampled_from(["word ", "x\n", "  ", "漢字", "{}", "42", "\n\n", "é"])))
    def test_pieces_put_together_are_the_text(self, parts: list[str]) -> None:
        text = "".join(parts)
        cut = list(split_for_tokenizer(text, 16))
        assert "".join(cut) == text
        assert max(map(len, cut)) <= 16

    def test_cuts_at_words_do_not_change_the_count(self, encoding: Encode) -> None:
        dice = random.Random(3)
        words = ["word", "{};", "don't", "naïve", "漢字", "HTTPServer", "x1", "12345", "a\nb"]
        for _ in range(300):
            text = " ".join(dice.choice(words) for _ in range(60))
            cut = split_for_tokenizer(text, 40)
            assert sum(len(encoding(piece)) for piece in cut) == len(encoding(text))


class TestHostileTexts:
    @pytest.mark.parametrize("char", [" ", "\t", "\n", "A"])
    def test_a_run_of_a_million_characters(self, counter: TiktokenCounter, char: str) -> None:
        assert counter.count(char * 1_000_001) > 1_000
        assert counter.calls >= 1_000_001 // MAX_CHARS

    def test_a_megabyte_of_base64_is_over_counted_by_little(
        self, counter: TiktokenCounter, encoding: Encode
    ) -> None:
        text = base64.b64encode(random.Random(1).randbytes(750_000)).decode()
        exact = len(encoding(text))
        assert exact <= counter.count(text) <= exact * 1.001


class TestRememberedCounts:
    def test_a_text_is_tokenised_once(self, counter: TiktokenCounter) -> None:
        counter.count("once upon a time")
        counter.count("once upon a time")
        assert (counter.calls, counter.characters) == (1, 16)

    @pytest.mark.parametrize("size", [1, 400])
    def test_they_are_bounded_and_hold_no_long_text(
        self, monkeypatch: pytest.MonkeyPatch, size: int
    ) -> None:
        monkeypatch.setattr(TiktokenCounter, "max_texts", 10)
        counter = TiktokenCounter("o200k_base")
        for number in range(100):
            counter.count(f"{number} " * size)
        assert len(counter._counts) <= 10
        assert max(map(len, counter._counts)) <= 64


class TestIdentity:
    @pytest.mark.parametrize("spec", ["o200k_base", "cl100k_base", "gpt-4o", "claude-sonnet-4-5"])
    def test_survives_pickling(self, spec: str) -> None:
        counter = TiktokenCounter(spec)
        copy = pickle.loads(pickle.dumps(counter))
        assert copy == counter
        assert (copy.name, copy.model) == (counter.name, counter.model)
        assert copy.count("hello there") == counter.count("hello there")

    def test_counters_that_count_differently_are_named_differently(self) -> None:
        options: list[dict[str, object]] = [
            {}, {"factor": 1.2}, {"encoding": "gpt-4o"},
            {"encoding": "cl100k_base"},
        ]  # fmt: skip
        names = {TiktokenCounter(**each).name for each in options}  # type: ignore[arg-type]
        assert len(names) == len(options)

    @pytest.mark.parametrize(
        ("name", "fix"), [("o200k_bass", "did you mean 'o200k_base'"),
                          ("gpt4o", "did you mean 'gpt-4o'"), ("acme", "known: .*claude.*o200k_base")]
    )  # fmt: skip
    def test_an_unknown_name_says_what_is_known(self, name: str, fix: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{name}.*Fix: {fix}"):
            TiktokenCounter(name)

    def test_a_factor_must_be_positive(self) -> None:
        with pytest.raises(ConfigurationError, match="factor"):
            TiktokenCounter("o200k_base", factor=0)

    def test_get_counter_shares_by_name_and_passes_instances_through(self) -> None:
        mine = TiktokenCounter("o200k_base")
        assert get_counter(mine) is mine
        assert get_counter("o200k_base") is get_counter(None)
        with pytest.raises(ConfigurationError, match="count_entry"):
            get_counter(len)  # type: ignore[arg-type]
