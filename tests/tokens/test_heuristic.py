"""Estimates without a tokenizer: near the real count, and seldom below it."""

from __future__ import annotations

import pickle
import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history_curator.tokens import HeuristicCounter, TiktokenCounter
from tests.support.data import load
from tests.tokens.samples import CODE, DATA, SCRIPTS

ODD = {"random_hanzi", "random_hangul", "spaces"}
LETTERS = {
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "both": string.ascii_letters,
    "letters and digits": string.ascii_letters + string.digits,
    "hex": string.hexdigits,
    "western": "".join(map(chr, [*range(0xE0, 0xF7), *range(0xF8, 0x100)])),
    "vietnamese": string.ascii_lowercase + "ăâđêôơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
}


@pytest.fixture(scope="module")
def exact() -> TiktokenCounter:
    counter = TiktokenCounter("o200k_base")
    if not counter.exact:
        pytest.skip("o200k_base is not available offline")
    return counter


@pytest.mark.parametrize("name", SCRIPTS)
def test_prose_in_any_script_is_not_under_and_at_most_twice_over(
    exact: TiktokenCounter, name: str
) -> None:
    text = SCRIPTS[name]
    assert 0.95 <= HeuristicCounter().count(text) / exact.count(text) <= 2.6


@pytest.mark.parametrize("name", sorted(DATA.keys() - ODD))
def test_data_and_code_are_at_most_five_percent_under(exact: TiktokenCounter, name: str) -> None:
    assert HeuristicCounter().count(DATA[name]) >= 0.95 * exact.count(DATA[name])


@pytest.mark.parametrize("alphabet", LETTERS)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), longest=st.integers(3, 24))
def test_random_words_are_at_most_five_percent_under(
    exact: TiktokenCounter, alphabet: str, seed: int, longest: int
) -> None:
    dice = random.Random(seed)
    sizes = [dice.randint(1, longest) for _ in range(100)]
    words = ["".join(dice.choices(LETTERS[alphabet], k=size)) for size in sizes]
    for text in (" ".join(words), " ".join(words).title(), "_".join(words), "\n".join(words)):
        assert HeuristicCounter().count(text) >= 0.95 * exact.count(text)


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["tau_bench", "tau2_bench", "coding_sessions", "misc_agents", "locomo"]
)
def test_conversations_are_estimated_within_ten_percent(exact: TiktokenCounter, name: str) -> None:
    texts = [
        message["content"]
        for conversation in load(name)[:20]
        for message in conversation["messages"]
        if isinstance(message.get("content"), str)
    ]
    estimated = sum(map(HeuristicCounter().count, texts))
    assert 1.0 <= estimated / sum(map(exact.count, texts)) <= 1.1


def test_common_words_and_code_cost_about_a_token_a_piece(exact: TiktokenCounter) -> None:
    assert HeuristicCounter().count("hello world") == 3
    assert HeuristicCounter().count(CODE) <= 1.3 * exact.count(CODE)


def test_it_survives_pickling_and_keeps_its_factor() -> None:
    counter = HeuristicCounter(factor=1.5)
    copy = pickle.loads(pickle.dumps(counter))
    assert copy == counter != HeuristicCounter()
    assert copy.count("hello world") == counter.count("hello world") == 5
