"""Soft words: near ones are found, offline, from the files of the package alone."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from history_curator import ConfigurationError
from history_curator.managers.relevance import LexicalScorer, _blocks, _soft, terms
from history_curator.managers.relevance._soft import SoftVectors, Vocabulary, soft_vectors
from history_curator.managers.relevance._text import numbered

np = pytest.importorskip("numpy")
pytest.importorskip("Stemmer")


class Tokenizer:
    """Whole words only."""

    vocabulary = ("▁dog", "▁hound", "▁rain", "▁the", "▁xyzx")

    class Encoded:
        def __init__(self, ids: list[int]) -> None:
            self.ids = ids

    def get_vocab(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.vocabulary)}

    def encode(self, word: str, *, add_special_tokens: bool) -> Encoded:
        assert not add_special_tokens
        return self.Encoded([self.get_vocab().get(f"▁{word}", 4)])


@pytest.fixture
def vectors() -> SoftVectors:
    rows = np.array([[1, 0.1], [0.9, 0.2], [-1, 0], [0, 0], [0.3, -1]], dtype="f2")
    return SoftVectors(rows, Tokenizer())


def number(word: str) -> int:
    return numbered(terms(word))[0]


class TestVocabulary:
    def test_near_words_are_those_with_a_similar_vector(self, vectors: SoftVectors) -> None:
        known = Vocabulary(vectors)
        known.add(["a hound in the rain, and a dog"])
        ((found, factor),) = known.near("a dog")["dog"]
        assert found == number("hound")
        assert 0 < factor <= _soft.STRENGTH

    def test_only_words_of_the_conversation_are_near(self, vectors: SoftVectors) -> None:
        known = Vocabulary(vectors)
        known.add(["it may rain"])
        assert known.near("a dog") == {"dog": []}
        assert Vocabulary(vectors).near("a dog") == {}

    def test_growing_gives_what_adding_at_once_gives(self, vectors: SoftVectors) -> None:
        texts = ["rain and rain", "hounds", "a hound, a dog", "dogs in the rain"]
        once, grown = Vocabulary(vectors), Vocabulary(vectors)
        once.add(texts)
        for text in texts:
            grown.add([text])
            grown.near("dog")
        assert len(once) == len(grown) == 3
        assert once.near("dog") == grown.near("dog")

    def test_numbers_and_words_about_the_talk_are_near_nothing(self, vectors: SoftVectors) -> None:
        known = Vocabulary(vectors)
        known.add(["2023 was the year of the dog we mentioned"])
        assert known.near("what did I mention in 2024?") == {}

    def test_a_question_that_says_enough_is_matched_by_its_own_words(
        self, vectors: SoftVectors
    ) -> None:
        known = Vocabulary(vectors)
        known.add(["a hound"])
        others = ["alpha", "bravo", "delta", "golf", "hotel"]
        assert known.near(" ".join(["dog", *others]))["dog"]
        assert known.near(" ".join(["dog", *others, "india"])) == {}

    def test_a_word_takes_a_few_bytes(self, vectors: SoftVectors) -> None:
        known = Vocabulary(vectors)
        known.add([f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(600)])
        assert known.nbytes < 24 * len(known)


def test_without_the_package_words_alone_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_soft, "find_spec", lambda _: None)
    soft_vectors.cache_clear()
    assert not _soft.has_vectors()
    with pytest.raises(ConfigurationError, match="vectors"):
        soft_vectors()
    assert LexicalScorer(soft=False).open().scores({"dog": 1.0}, 0).tolist() == []


class TestTheInstalledVectors:
    @pytest.fixture(autouse=True)
    def offline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("wordllama")

        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("no network")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        soft_vectors.cache_clear()

    @pytest.mark.parametrize(
        ("word", "expected"), [("physician", "doctor"), ("purchased", "bought"), ("kids", "child")]
    )
    def test_know_words_that_mean_about_the_same(self, word: str, expected: str) -> None:
        known = Vocabulary(soft_vectors())
        known.add([f"rain umbrella {expected} engine"])
        (near,) = known.near(word).values()
        assert [found for found, _ in near] == [number(expected)]

    def test_find_an_answer_in_other_words(self) -> None:
        texts = LexicalScorer(soft=True).open()
        texts.add(["it rains today", "the doctor called about it", "we went shopping"])
        assert int(texts.scores({"physician": 1.0}, 3).argmax()) == 1

    def test_a_word_nobody_knows_is_near_nothing_that_matters(self) -> None:
        texts = LexicalScorer(soft=True).open()
        texts.add(["order qz81x77 is late", "it rains"])
        assert int(texts.scores({"qz81x77": 1.0}, 2).argmax()) == 0

    def test_files_change_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_blocks, "BLOCK", 4)
        said = ["it rains", "the doctor called", "we went shopping", "a long walk", "tea", "cake"]
        plain = LexicalScorer(soft=True).open()
        plain.add(said)
        for _ in range(2):  # the second one finds the files
            kept = LexicalScorer(soft=True, folder=tmp_path).open()
            kept.add(said)
            query = {"which physician did I phone?": 1.0}
            assert np.array_equal(kept.scores(query, 6), plain.scores(query, 6))
