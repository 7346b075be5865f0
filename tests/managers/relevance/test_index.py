"""The index scores as bm25s does, grows by appending, and can look at the past alone."""

from __future__ import annotations

import pytest

from history_curator.managers.relevance import LexicalIndex, fuse, rank, spread, take, terms
from history_curator.managers.relevance._text import numbered

np = pytest.importorskip("numpy")

TEXTS = [
    "My flight to Oslo leaves on Monday morning",
    "I have two dogs and a cat, the dogs are loud",
    "Flights are cheaper on Mondays, and Monday it is",
    "What did the doctor say about the cat?",
    "",
    "Nothing in here matters",
]


def index_of(texts: list[str], **settings: float) -> LexicalIndex:
    index = LexicalIndex(**settings)
    index.extend(texts)
    return index


class TestScores:
    @pytest.mark.parametrize(("k1", "b"), [(1.2, 0.6), (1.5, 0.75), (0.9, 0.0)])
    @pytest.mark.parametrize("query", ["monday flights", "cat dogs doctor", "unknown", "oslo cat"])
    def test_equal_those_of_bm25s(self, query: str, k1: float, b: float) -> None:
        bm25s = pytest.importorskip("bm25s")
        peer = bm25s.BM25(method="lucene", k1=k1, b=b)
        peer.index([terms(text) for text in TEXTS], show_progress=False)
        wanted = sorted(set(terms(query)))
        known = [term for term in wanted if term in peer.vocab_dict]
        expected = peer.get_scores(known) if known else np.zeros(len(TEXTS))
        found = index_of(TEXTS, k1=k1, b=b).scores(dict.fromkeys(wanted, 1.0))
        assert np.allclose(found, expected, atol=1e-5)

    def test_growing_gives_what_indexing_at_once_gives(self) -> None:
        grown = index_of(TEXTS[:2])
        grown.scores({"cat": 1.0})
        for text in TEXTS[2:]:
            grown.extend([text])
        query = {"monday": 1.0, "cat": 0.5}
        assert np.array_equal(grown.scores(query), index_of(TEXTS).scores(query))

    def test_a_limit_hides_what_came_later(self) -> None:
        query = dict.fromkeys(terms("cat flights"), 1.0)
        assert np.array_equal(index_of(TEXTS).scores(query, 3), index_of(TEXTS[:3]).scores(query))

    def test_an_empty_index_has_no_scores(self) -> None:
        assert len(LexicalIndex().scores({"cat": 1.0})) == 0

    def test_weights_scale_a_term(self) -> None:
        index = index_of(TEXTS)
        assert np.allclose(index.scores({"cat": 0.5}) * 2, index.scores({"cat": 1.0}))


class TestTerms:
    def test_inflections_meet(self) -> None:
        assert terms("flights flying") == terms("flight fly")

    def test_irregular_forms_meet(self) -> None:
        assert terms("she bought, wrote and went") == terms("she buys, writes and goes")
        assert terms("children") == terms("child")

    def test_identifiers_are_found_by_their_pieces(self) -> None:
        assert set(terms("user name")) <= set(terms("getUserName"))

    def test_blobs_are_left_out(self) -> None:
        assert terms("A" * 100_000) == []


class TestSelection:
    def test_a_hit_lends_to_both_sides(self) -> None:
        assert spread(np.array([0.0, 0.0, 2.0, 0.0]), (0.5,), (0.25,)).tolist() == [
            0,
            1.0,
            2.0,
            0.5,
        ]

    def test_a_hit_that_asks_lends_more_to_what_follows(self) -> None:
        asks = np.array([True, False, False])
        lent = spread(np.array([2.0, 0.0, 2.0]), (), (0.5,), 0.7, asks)
        assert lent.tolist() == [2.0, 1.4, 2.0]

    def test_spreading_leaves_the_given_scores_alone(self) -> None:
        scores = np.array([1.0, 0.0])
        spread(scores)
        assert scores.tolist() == [1.0, 0.0]

    def test_of_equal_scores_the_shorter_comes_first(self) -> None:
        assert rank(np.array([1.0, 1.0]), np.array([5_000, 50])).tolist() == [1, 0]

    def test_a_much_better_match_beats_a_shorter_one(self) -> None:
        assert rank(np.array([9.0, 1.0]), np.array([500, 100])).tolist() == [0, 1]

    def test_what_is_taken_fits_the_best_first(self) -> None:
        costs = [5, 50, 3, 4]
        assert take([3, 1, 0, 2], lambda at, _: costs[at], 10) == [3, 0]

    def test_a_neighbour_of_what_is_taken_may_cost_less(self) -> None:
        assert take([1, 5, 2], lambda at, taken: 1 if at - 1 in taken else 4, 6) == [1, 2]

    def test_filling_gaps_ends(self) -> None:
        asked: list[int] = []

        def cost(position: int, _: set[int]) -> int:
            asked.append(position)
            return 100

        assert take(range(10_000), cost, 10, misses=5) == []
        assert len(asked) == 5

    def test_fusion_prefers_what_both_find(self) -> None:
        fused = fuse(np.array([3.0, 2.8, 1.0]), np.array([0.0, 2.0, 1.0]))
        assert int(fused.argmax()) == 1

    def test_where_meaning_says_nothing_words_decide(self) -> None:
        words = np.array([3.0, 2.0, 0.0])
        assert fuse(words, np.zeros(3)).argsort().tolist() == words.argsort().tolist()


def near(*terms_: tuple[str, float]) -> list[tuple[int, float]]:
    return [(numbered([term])[0], factor) for term, factor in terms_]


class TestNearTerms:
    def test_a_near_term_counts_less_than_the_term_itself(self) -> None:
        index = index_of(["a dog barks", "a hound barks", "it rains"])
        exact, similar, none = index.scores({"dog": 1.0}, near={"dog": near(("hound", 0.5))})
        assert exact > similar > none == 0

    def test_of_a_term_and_those_near_it_the_best_counts_once(self) -> None:
        index = index_of(["dog hound", "dog", "rain"])
        alone = index.scores({"dog": 1.0})
        assert np.allclose(index.scores({"dog": 1.0}, near={"dog": near(("hound", 0.1))}), alone)

    def test_only_near_terms_that_occur_use_up_the_number_that_counts(self) -> None:
        many = near(*((f"absent{n}", 0.9) for n in range(50)), ("hound", 0.5))
        assert index_of(["a hound", "rain"]).scores({"dog": 1.0}, near={"dog": many})[0] > 0


class TestSize:
    def test_the_index_takes_less_than_the_text(self) -> None:
        texts = [f"{TEXTS[n % 4]}, and {TEXTS[(n + 1) % 4]} number{n}" for n in range(3_000)]
        index = index_of(texts)
        assert index.nbytes < sum(map(len, texts))
