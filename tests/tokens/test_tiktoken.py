from __future__ import annotations

import base64
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.errors import ConfigurationError
from history_curator.tokens import HeuristicCounter, TiktokenCounter, claude, gemini, get_counter
from history_curator.tokens._bundled import Encode
from history_curator.tokens._encodings import load_encoding
from history_curator.tokens._pieces import PIECE, pieces
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
        assert counter.count(text) == counter.measure(text) >= (1 if text else 0)

    @given(st.lists(st.sampled_from(["word ", "x\n", "  ", "漢字", "{}", "42", "\n\n", "é"])))
    def test_pieces_put_together_are_the_text(self, parts: list[str]) -> None:
        text = "".join(parts)
        cut = list(pieces(text, size=16))
        assert "".join(piece for piece, _ in cut) == text
        assert all(len(piece) <= 16 for piece, _ in cut)

    def test_exact_cuts_do_not_change_the_count(self, encoding: Encode) -> None:
        dice = random.Random(3)
        words = [
            *"\n \t.,;{}()'\"",
            "don't",
            "naïve",
            "漢字",
            "HTTPServer",
            "x1",
            "12345",
            "  ",
            "\r\n",
        ]
        for _ in range(300):
            text = " ".join(dice.choice(words) for _ in range(60))
            cut = list(pieces(text, size=40))
            slack = sum(not exact for _, exact in cut)
            total = sum(len(encoding(piece)) for piece, _ in cut)
            assert 0 <= total - len(encoding(text)) <= slack

    def test_long_prose_is_counted_exactly(
        self, counter: TiktokenCounter, encoding: Encode
    ) -> None:
        text = SAMPLES["english"] * 1_000
        assert len(text) > 4 * PIECE
        assert counter.count(text) == len(encoding(text))


class TestHostileTexts:
    @pytest.mark.parametrize("char", [" ", "\t", "\n", "A"])
    def test_a_run_of_a_million_characters(self, counter: TiktokenCounter, char: str) -> None:
        assert counter.count(char * 1_000_001) > 1_000
        assert counter.calls >= 1_000_001 // PIECE

    def test_a_megabyte_of_base64_is_over_counted_by_little(
        self, counter: TiktokenCounter, encoding: Encode
    ) -> None:
        text = base64.b64encode(random.Random(1).randbytes(750_000)).decode()
        exact = len(encoding(text))
        assert exact <= counter.count(text) <= exact * 1.001

    def test_a_panic_of_the_tokenizer_ends_in_an_estimate(self, counter: TiktokenCounter) -> None:
        class PanicException(BaseException):
            pass

        def panic(text: str) -> list[int]:
            raise PanicException

        assert counter.exact
        counter._encode = panic
        assert counter.count("hello world") >= 2

    def test_other_base_exceptions_pass(self, counter: TiktokenCounter) -> None:
        def interrupt(text: str) -> list[int]:
            raise KeyboardInterrupt

        assert counter.exact
        counter._encode = interrupt
        with pytest.raises(KeyboardInterrupt):
            counter.count("hello")


class TestCache:
    def test_a_text_is_tokenised_once(self, counter: TiktokenCounter) -> None:
        counter.count("once upon a time")
        counter.count("once upon a time")
        assert (counter.calls, counter.characters) == (1, 16)

    def test_is_bounded_by_entries(self) -> None:
        counter = TiktokenCounter("o200k_base", max_entries=10)
        for number in range(100):
            counter.count(str(number))
        assert len(counter._fresh) + len(counter._old) <= 10

    def test_is_bounded_by_characters(self) -> None:
        counter = TiktokenCounter("o200k_base", max_chars=1_000)
        for number in range(50):
            counter.count(f"{number} " * 40)
        assert sum(map(len, (*counter._fresh, *counter._old))) <= 1_000

    def test_a_text_in_use_survives_eviction(self) -> None:
        counter = TiktokenCounter("o200k_base", max_entries=10)
        for number in range(100):
            counter.count("always here")
            counter.count(str(number))
        assert counter.calls == 101


class TestExceeds:
    @pytest.mark.parametrize("name", SAMPLES)
    @pytest.mark.parametrize("limit", [0, 1, 20, 500, 3_000])
    def test_agrees_with_counting(self, counter: TiktokenCounter, name: str, limit: int) -> None:
        text = SAMPLES[name] * 3
        assert counter.exceeds(text, limit) == (TiktokenCounter("o200k_base").count(text) > limit)

    def test_tokenises_about_the_limit(self, counter: TiktokenCounter) -> None:
        assert counter.exceeds("word " * 1_000_000, 1_000)
        assert counter.characters <= 10_000

    def test_scales_with_the_factor(self) -> None:
        counter = TiktokenCounter("o200k_base", factor=2.0)
        text = "word " * 3_000
        assert counter.exceeds(text, 4_000)
        assert not counter.exceeds(text, 7_000)


class TestIdentity:
    @pytest.mark.parametrize("spec", ["o200k_base", "cl100k_base", "gpt-4o", "claude-sonnet-4-5"])
    def test_survives_pickling(self, spec: str) -> None:
        counter = TiktokenCounter(spec)
        copy = pickle.loads(pickle.dumps(counter))
        assert copy == counter
        assert (copy.name, copy.factor, copy.encoding) == (
            counter.name,
            counter.factor,
            counter.encoding,
        )
        assert copy.count("hello there") == counter.count("hello there")

    def test_the_name_is_the_same_in_every_process(self) -> None:
        named = TiktokenCounter("o200k_base", image=claude).name
        assert named.endswith(".claude")
        assert HeuristicCounter(image=gemini).name != HeuristicCounter(image=claude).name

    def test_formulas_without_a_name_are_told_apart(self) -> None:
        one, other = (lambda *size, detail=None, most=most: most for most in (1, 2))
        assert HeuristicCounter(image=one).name != HeuristicCounter(image=other).name

    def test_counters_that_count_differently_are_named_differently(self) -> None:
        names = {
            TiktokenCounter("o200k_base").name,
            TiktokenCounter("o200k_base", factor=1.2).name,
            TiktokenCounter("o200k_base", tool_factor=1.2).name,
            TiktokenCounter("o200k_base", media={"audio": 5}).name,
            TiktokenCounter("gpt-4o").name,
            TiktokenCounter("cl100k_base").name,
        }
        assert len(names) == 6

    def test_an_unknown_name_says_what_is_known(self) -> None:
        with pytest.raises(ConfigurationError, match=r"o200k_base.*claude.*Fix"):
            TiktokenCounter("o200k_bass")

    def test_a_factor_must_be_positive(self) -> None:
        with pytest.raises(ConfigurationError, match="factor"):
            TiktokenCounter("o200k_base", factor=0)

    def test_get_counter_shares_by_name_and_passes_instances_through(self) -> None:
        mine = TiktokenCounter("o200k_base")
        assert get_counter(mine) is mine
        assert get_counter("o200k_base") is get_counter(None)
        with pytest.raises(ConfigurationError, match="count_entry"):
            get_counter(len)  # type: ignore[arg-type]
