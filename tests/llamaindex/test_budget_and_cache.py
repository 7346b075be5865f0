"""The budget an LLM leaves, and the mark at the end of the stable prefix."""

from __future__ import annotations

import warnings

import pytest
from llama_index.core.base.llms.types import (
    CachePoint,
    ChatMessage,
)
from llama_index.core.llms import MockLLM

from history_curator import ConfigurationError
from llamaindex_history_curator import (
    CuratedLLM,
    budget_for_llm,
)
from tests.llamaindex.factories import assistant, call, result, system, user
from tests.llamaindex.models import RecordingLLM


def lookup(n: int) -> str:
    """Look something up by its number."""
    return str(n)


class TestBudget:
    def test_window_minus_output_minus_margin(self) -> None:
        llm = RecordingLLM(window=100_000, output=4_000)
        assert budget_for_llm(llm) == 100_000 - 4_000 - 5_000
        assert budget_for_llm(llm, output=10_000, margin=0) == 90_000

    @pytest.mark.parametrize("output", [0, -1])
    def test_an_unknown_output_gets_a_share(self, output: int) -> None:
        assert budget_for_llm(RecordingLLM(window=8_000, output=output), margin=0) == 6_000
        assert budget_for_llm(RecordingLLM(window=80_000, output=output), margin=0) == 75_904

    def test_an_unknown_window_is_said(self) -> None:
        with pytest.warns(UserWarning, match=r"MockLLM does not know its context window.*Fix"):
            assert budget_for_llm(MockLLM()) < 3_900
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            CuratedLLM(llm=MockLLM(), token_limit=500)

    def test_nothing_left_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"leaves nothing.*Fix"):
            budget_for_llm(RecordingLLM(window=4_000, output=4_000))


class TestMark:
    def test_where_the_plan_says(self) -> None:
        inner = RecordingLLM(kind="Anthropic")
        llm = CuratedLLM(llm=inner, token_limit=9_000, mark_cache=True)
        llm.chat([system("rule " * 1_500), user("one"), assistant("two"), user("three")])
        assert [_points(message) for message in inner.sent[0]] == [1, 1, 0, 1]

    def test_not_below_what_a_provider_caches(self) -> None:
        inner = RecordingLLM(kind="Anthropic")
        CuratedLLM(llm=inner, token_limit=900, mark_cache=True).chat([system(), user("one")])
        assert sum(map(_points, inner.sent[0])) == 0

    def test_an_llm_that_takes_none_gets_none(self) -> None:
        inner = RecordingLLM(kind="OpenAI")
        llm = CuratedLLM(llm=inner, token_limit=9_000, mark_cache=True)
        llm.chat([system("rule " * 1_500), user("q"), call("c1"), result("c1")])
        assert sum(map(_points, inner.sent[0])) == 0


def _points(message: ChatMessage) -> int:
    return sum(isinstance(block, CachePoint) for block in message.blocks)
