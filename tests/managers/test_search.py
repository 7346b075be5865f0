"""Search: BM25 scores, terms, what a match gives to its neighbours, and what is asked."""

from __future__ import annotations

from typing import ClassVar

import pytest

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError
from history_curator.managers import Bm25Scorer
from history_curator.managers.relevance import build_query
from history_curator.managers.search import (
    find_passage,
    rank_positions,
    score_entries,
    split_terms,
    split_words,
    spread_scores,
)
from history_curator.tokens import HeuristicCounter

TEXTS = [
    "My flight to Oslo leaves on Monday morning",
    "I have two dogs and a cat, the dogs are loud",
    "Flights are cheaper on Mondays, and Monday it is",
    "What did the doctor say about the cat?",
    "",
    "Nothing in here matters",
]


def user(text: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, text)


def assistant(text: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.ASSISTANT, text)


class TestBm25Scorer:
    @pytest.mark.parametrize("query", ["monday flights", "cat dogs doctor", "unknown", "oslo cat"])
    def test_scores_equal_those_of_bm25s(self, query: str) -> None:
        bm25s = pytest.importorskip("bm25s")
        peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        peer.index([split_terms(text) for text in TEXTS], show_progress=False)
        known = [term for term in sorted(set(split_terms(query))) if term in peer.vocab_dict]
        expected = peer.get_scores(known) if known else [0.0] * len(TEXTS)
        assert Bm25Scorer().score(query, TEXTS) == pytest.approx(expected, abs=1e-5)

    def test_a_used_scorer_scores_like_a_new_one(self) -> None:
        used = Bm25Scorer()
        for end in range(len(TEXTS) + 1):
            assert used.score("cat on monday", TEXTS[:end]) == Bm25Scorer().score(
                "cat on monday", TEXTS[:end]
            )


class TestTerms:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("flights flying", "flight fly"),
            ("moved moving moves", "move move move"),
            ("stopped telling", "stop tell"),
            ("tries tried boxes", "try try box"),
            ("lighthouses Passports", "lighthouse passport"),
        ],
    )
    def test_inflections_meet(self, one: str, other: str) -> None:
        assert split_terms(one) == split_terms(other)

    @pytest.mark.parametrize("word", ["bus", "string", "bring", "glass", "ed", "naïve", "c3po"])
    def test_words_without_an_ending_stay_whole(self, word: str) -> None:
        assert split_terms(word) == [word.rstrip("e")]

    def test_identifiers_are_found_by_their_pieces(self) -> None:
        assert set(split_words("user name")) <= set(split_words("getUserName"))

    def test_blobs_are_left_out(self) -> None:
        assert split_terms("A" * 100_000) == []


@pytest.mark.parametrize(
    ("scores", "asks", "expected"),
    [
        ([0.0, 0.0, 2.0, 0.0], [False] * 4, [0.6, 1.0, 2.0, 1.0]),
        ([2.0, 0.0], [True, False], [2.0, 1.4]),
    ],
    ids=["to both sides", "more behind a question"],
)
def test_a_match_gives_to_its_neighbours(
    scores: list[float], asks: list[bool], expected: list[float]
) -> None:
    assert spread_scores(scores, asks) == expected


@pytest.mark.parametrize(
    ("scores", "sizes", "expected"),
    [([1.0, 0.0, 1.0], [5_000, 1, 50], [2, 0]), ([9.0, 1.0], [500, 100], [0, 1])],
)
def test_relevance_is_ranked_against_length(
    scores: list[float], sizes: list[int], expected: list[int]
) -> None:
    assert rank_positions(scores, sizes) == expected


class TestScoreEntries:
    def test_names_and_calls_are_searched(self) -> None:
        said = [user("hi"), ConversationEntry(MessageRole.TOOL, "3", tool_name="weather")]
        scores, _ = score_entries([*said, user("x")] * 2, {"weather": 1.0}, Bm25Scorer())
        assert scores[1] == max(scores) > 0

    def test_a_scorer_that_asks_for_a_fix_is_not_replaced(self) -> None:
        class Unset:
            def score(self, question: str, texts: object) -> list[float]:
                raise ConfigurationError("Fix: set a key.")

        with pytest.raises(ConfigurationError, match="set a key"):
            score_entries([user("hi")], {"hi": 1.0}, Unset())

    def test_a_wrong_number_of_scores_is_a_failure(self) -> None:
        class Short:
            def score(self, question: str, texts: object) -> list[float]:
                return [1.0]

        scores, warning = score_entries([user("hi"), user("dog")], {"dog": 1.0}, Short())
        assert scores[1] > 0
        assert "Short failed (ValueError)" in warning


class TestPassage:
    LINES: ClassVar[list[str]] = [f"line {number} about nothing" for number in range(40)]

    def test_the_matching_lines_and_their_neighbours_within_the_limit(self) -> None:
        lines = [*self.LINES[:20], "the passport is blue", *self.LINES[20:]]
        first, last = find_passage(lines, "which passport?", 40, HeuristicCounter())
        assert first < 20 < last - 1
        assert sum(HeuristicCounter().count(line) + 1 for line in lines[first:last]) <= 45

    def test_a_line_over_the_limit_comes_alone(self) -> None:
        lines = [*self.LINES, "passport " * 500, *self.LINES]
        assert find_passage(lines, "passport", 10, HeuristicCounter()) == (40, 41)


@pytest.mark.parametrize(
    ("said", "is_read_alone"),
    [
        ("What is the colour of my kitchen?", True),
        ("I would like to talk about the budget of the new project now", True),
        *[(said, False) for said in ("And who comes?", "yes", "When was that?", "Oslo")],
    ],
)
def test_a_message_of_few_words_is_read_with_the_turn_before(
    said: str, is_read_alone: bool
) -> None:
    turn = [user("When is my sister's wedding?"), assistant("In June.")]
    before = {} if is_read_alone else {"When is my sister's wedding?": 0.5, "In June.": 0.5}
    assert build_query([*turn, user(said)], 2) == {**before, said: 1.0}
    assert build_query(turn, 2, said) == {**before, said: 1.0}
    assert build_query([user("hm"), user("hm")], 1) == {"hm": 1.0}
