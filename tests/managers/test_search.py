"""Search: BM25 scores, terms, what a match gives to its neighbours, and what is asked."""

from __future__ import annotations

from typing import ClassVar

import pytest

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError
from history_curator.managers import Bm25Scorer
from history_curator.managers.relevance import build_query, leans_on_last_turn
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
    @pytest.mark.parametrize(("k1", "b"), [(1.2, 0.6), (1.5, 0.75), (0.9, 0.0)])
    @pytest.mark.parametrize("query", ["monday flights", "cat dogs doctor", "unknown", "oslo cat"])
    def test_scores_equal_those_of_bm25s(self, query: str, k1: float, b: float) -> None:
        bm25s = pytest.importorskip("bm25s")
        peer = bm25s.BM25(method="lucene", k1=k1, b=b)
        peer.index([split_terms(text) for text in TEXTS], show_progress=False)
        known = [term for term in sorted(set(split_terms(query))) if term in peer.vocab_dict]
        expected = peer.get_scores(known) if known else [0.0] * len(TEXTS)
        assert Bm25Scorer(k1=k1, b=b).score(query, TEXTS) == pytest.approx(expected, abs=1e-5)

    def test_a_used_scorer_scores_like_a_new_one(self) -> None:
        used = Bm25Scorer()
        for end in range(len(TEXTS) + 1):
            assert used.score("cat on monday", TEXTS[:end]) == Bm25Scorer().score(
                "cat on monday", TEXTS[:end]
            )

    def test_neighbouring_repeats_of_a_term_all_count(self) -> None:
        once, thrice = Bm25Scorer(b=0.0).score("dog", ["dog", "dog dog dogs"])
        assert thrice > once


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

    def test_weights_scale_a_query(self) -> None:
        said = [user(text) for text in TEXTS]
        full, _ = score_entries(said, {"cat": 1.0}, Bm25Scorer())
        half, _ = score_entries(said, {"cat": 0.5}, Bm25Scorer())
        assert [2 * score for score in half] == pytest.approx(full)

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


class TestQuery:
    @pytest.mark.parametrize("said", ["yes", "Oslo", "And who paid?", "When was that?", ""])
    def test_a_short_message_leans_on_the_last_turn(self, said: str) -> None:
        assert leans_on_last_turn(said)

    @pytest.mark.parametrize(
        "said",
        [
            "What is the colour of my kitchen?",
            "Who is Jill?",
            "What did Melanie do after her charity race?",
            "I would like to talk about the budget of the new project now",
            "And finally I want a whole new plan for the garden, the kitchen and the cellar",
        ],
    )
    def test_a_whole_question_stands_by_itself(self, said: str) -> None:
        assert not leans_on_last_turn(said)

    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            (
                ["When is my sister's wedding?", "In June.", "And who comes?"],
                {"When is my sister's wedding?": 0.5, "And who comes?": 1.0},
            ),
            (
                ["Book a flight", "Sure. From where? To where?", "Oslo"],
                {"To where?": 0.5, "Book a flight": 0.5, "Oslo": 1.0},
            ),
            (["hm", "ok?", "hm"], {"hm": 1.0, "ok?": 0.5}),
        ],
    )
    def test_a_reply_is_read_with_the_turn_before(
        self, said: list[str], expected: dict[str, float]
    ) -> None:
        turn = [user(said[0]), assistant(said[1])]
        assert build_query([*turn, user(said[2])], 2) == expected
        assert build_query(turn, 2, said[2]) == expected
