from __future__ import annotations

import pickle
import random
import string
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history_curator.tokens import HeuristicCounter, TiktokenCounter
from tests.support.data import load
from tests.tokens.samples import SAMPLES

MARGIN = 0.95


@pytest.fixture(scope="module")
def exact() -> TiktokenCounter:
    counter = TiktokenCounter("o200k_base")
    if not counter.exact:
        pytest.skip("o200k_base is not available offline")
    return counter


class TestNeverFarBelow:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_on_every_kind_of_text(self, exact: TiktokenCounter, name: str) -> None:
        text = SAMPLES[name]
        assert HeuristicCounter().count(text) >= MARGIN * exact.count(text)

    @pytest.mark.parametrize("first", sorted(SAMPLES)[::6])
    @pytest.mark.parametrize("second", sorted(SAMPLES)[3::6])
    def test_on_mixtures(self, exact: TiktokenCounter, first: str, second: str) -> None:
        text = f"{SAMPLES[first][:400]}\n{SAMPLES[second][:400]}"
        assert HeuristicCounter().count(text) >= MARGIN * exact.count(text)

    @pytest.mark.data
    @pytest.mark.parametrize("name", ["tau_bench", "coding_sessions", "misc_agents", "locomo"])
    def test_on_real_conversations(self, exact: TiktokenCounter, name: str) -> None:
        counter = HeuristicCounter()
        below = []
        for conversation in load(name)[:25]:
            for message in conversation["messages"]:
                text = message.get("content")
                if isinstance(text, str) and len(text) > 200:
                    tokens, guess = exact.count(text), counter.count(text)
                    if guess < MARGIN * tokens:
                        below.append((guess / tokens, text[:60]))
        assert not below


def _scripts() -> dict[str, list[str]]:
    """The letters and marks of every script that Unicode names, by the first word of the name."""
    found: dict[str, list[str]] = {}
    for code in range(0xC0, 0x20000):
        char = chr(code)
        if unicodedata.category(char)[0] in "LM":
            script = unicodedata.name(char, "?").split()[0].split("-")[0]
            found.setdefault(script, []).append(char)
    return {name: letters for name, letters in found.items() if len(letters) >= 10}


def _everyday(charset: str, level: range) -> str:
    """The characters that a national standard lists in its first, everyday, level."""
    found = (bytes((first, second)) for first in level for second in range(0x40, 0xFF))
    return "".join(text for each in found if len(text := each.decode(charset, "ignore")) == 1)


ALPHABETS = {
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "both": string.ascii_letters,
    "letters and digits": string.ascii_letters + string.digits,
    "hex": string.hexdigits,
    "printable": string.printable,
    "icelandic": string.ascii_lowercase + "áðéíóúýþæö",
    "western": "".join(map(chr, [*range(0xE0, 0xF7), *range(0xF8, 0x100)])),
    "vietnamese": string.ascii_lowercase + "ăâđêôơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "russian": "".join(map(chr, range(0x430, 0x450))),
    "russian capitals": "".join(map(chr, range(0x410, 0x430))),
    "greek": "".join(map(chr, range(0x3B1, 0x3CA))),
    "hebrew": "".join(map(chr, range(0x5D0, 0x5EB))),
    "hebrew with niqqud": "".join(map(chr, [*range(0x5D0, 0x5EB), *range(0x5B0, 0x5BD)])),
    "arabic": "".join(map(chr, [*range(0x627, 0x63B), *range(0x641, 0x64B)])),
    "hindi": "".join(map(chr, range(0x905, 0x94E))),
    "thai": "".join(map(chr, range(0xE01, 0xE3B))),
    "everyday hangul": _everyday("euc_kr", range(0xB0, 0xC9)),
    "everyday hanzi": _everyday("gb2312", range(0xB0, 0xD8)),
    "traditional hanzi": _everyday("big5", range(0xA4, 0xC7)),
    "kanji": _everyday("euc_jp", range(0xB0, 0xD0)),
    **{name: "".join(letters) for name, letters in _scripts().items()},
}


class TestRandomWords:
    """Words that no vocabulary has, of letters of one script."""

    @pytest.mark.parametrize("alphabet", ALPHABETS)
    @settings(max_examples=3)
    @given(seed=st.integers(0, 2**32), longest=st.integers(1, 24))
    def test_of_any_script(
        self, exact: TiktokenCounter, alphabet: str, seed: int, longest: int
    ) -> None:
        dice, letters = random.Random(seed), ALPHABETS[alphabet]
        text = " ".join(
            "".join(dice.choices(letters, k=dice.randint(1, longest))) for _ in range(100)
        )
        assert HeuristicCounter().count(text) >= MARGIN * exact.count(text)

    @pytest.mark.parametrize("words", [1, 2, 3, 10, 30])
    def test_of_few_words(self, exact: TiktokenCounter, words: int) -> None:
        dice = random.Random(words)
        for alphabet, letters in ALPHABETS.items():
            for longest in (1, 2, 4, 8, 16):
                text = " ".join(
                    "".join(dice.choices(letters, k=dice.randint(1, longest))) for _ in range(words)
                )
                guess, tokens = HeuristicCounter().count(text), exact.count(text)
                assert guess >= MARGIN * tokens, (alphabet, text)

    @given(seed=st.integers(0, 2**32))
    def test_in_every_shape(self, exact: TiktokenCounter, seed: int) -> None:
        dice = random.Random(seed)
        words = [
            "".join(dice.choices(string.ascii_lowercase, k=dice.randint(2, 9))) for _ in range(200)
        ]
        for text in (
            " ".join(words).title(),
            "_".join(words),
            "".join(word.title() for word in words),
            "\n".join(words),
            "".join(words),
        ):
            assert HeuristicCounter().count(text) >= MARGIN * exact.count(text)


class TestNotFarAbove:
    @pytest.mark.parametrize("name", ["english", "json", "csv", "log", "hex", "base64", "spanish"])
    def test_on_common_text(self, exact: TiktokenCounter, name: str) -> None:
        text = SAMPLES[name]
        assert HeuristicCounter().count(text) <= 1.75 * exact.count(text)

    @pytest.mark.data
    @pytest.mark.parametrize("name", ["tau_bench", "coding_sessions", "misc_agents", "locomo"])
    def test_on_real_conversations(self, exact: TiktokenCounter, name: str) -> None:
        texts = [
            message["content"]
            for conversation in load(name)[:10]
            for message in conversation["messages"]
            if isinstance(message.get("content"), str)
        ]
        guessed = sum(map(HeuristicCounter().count, texts))
        assert guessed <= 1.45 * sum(map(exact.count, texts))


def test_empty_text_costs_nothing() -> None:
    assert HeuristicCounter().count("") == 0


def test_a_million_characters_at_once() -> None:
    assert HeuristicCounter().count("A" * 1_000_000) > 100_000


def test_survives_pickling_and_keeps_its_factor() -> None:
    counter = HeuristicCounter(factor=1.5)
    copy = pickle.loads(pickle.dumps(counter))
    assert copy == counter != HeuristicCounter()
    assert (
        copy.count("hello world")
        == counter.count("hello world")
        > HeuristicCounter().count("hello world")
    )
