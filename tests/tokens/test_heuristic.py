from __future__ import annotations

import pickle

import pytest

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


class TestNotFarAbove:
    @pytest.mark.parametrize("name", ["english", "json", "csv", "log", "hex", "base64", "spanish"])
    def test_on_common_text(self, exact: TiktokenCounter, name: str) -> None:
        text = SAMPLES[name]
        assert HeuristicCounter().count(text) <= 1.45 * exact.count(text)


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
