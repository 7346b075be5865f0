"""The budget an LLM leaves, and the mark at the end of the stable prefix."""

from __future__ import annotations

import warnings

import pytest
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    TextBlock,
    ThinkingBlock,
)
from llama_index.core.llms import MockLLM
from llama_index.core.tools import FunctionTool

from history_curator import ConfigurationError
from llamaindex_history_curator import (
    CuratedLLM,
    budget_for_llm,
    mark_cache,
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

    def test_minus_tools(self) -> None:
        llm = RecordingLLM(window=100_000, output=4_000)
        tools = [FunctionTool.from_defaults(lookup)]
        assert 20 < budget_for_llm(llm) - budget_for_llm(llm, tools) < 80

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
    def test_at_the_end_of_the_prefix_on_a_copy(self) -> None:
        said = [system(), user("one"), assistant("two"), user("three")]
        marked = mark_cache(said, 3)
        assert [_points(message) for message in marked] == [0, 0, 1, 0]
        assert [_points(message) for message in said] == [0, 0, 0, 0]
        assert [new is old for new, old in zip(marked, said, strict=True)] == [
            True,
            True,
            False,
            True,
        ]

    def test_a_message_that_cannot_carry_it_passes_it_back(self) -> None:
        thinking = ChatMessage(role="assistant", blocks=[ThinkingBlock(content="hm")])
        empty = ChatMessage(role="assistant", blocks=[TextBlock(text="")])
        bare = ChatMessage(role="assistant", additional_kwargs={"tool_calls": []})
        marked = mark_cache([user("one"), thinking, empty, bare], 4)
        assert [_points(message) for message in marked] == [1, 0, 0, 0]

    def test_never_more_than_a_provider_takes_and_never_twice(self) -> None:
        point = CachePoint(cache_control=CacheControl(type="ephemeral"))
        full = [ChatMessage(role="user", blocks=[TextBlock(text="x"), point]) for _ in range(4)]
        assert sum(map(_points, mark_cache([*full, user()], 5))) == 4
        assert sum(map(_points, mark_cache(full[:1], 1))) == 1

    def test_nothing_to_mark(self) -> None:
        assert mark_cache([], 0) == []
        assert _points(mark_cache([user()], 0)[0]) == 0

    def test_a_result_cannot_carry_it(self) -> None:
        marked = mark_cache([user("one"), call("c1"), result("c1")], 3)
        assert [_points(message) for message in marked] == [0, 1, 0]

    def test_where_the_plan_says(self) -> None:
        inner = RecordingLLM(kind="Anthropic")
        llm = CuratedLLM(llm=inner, token_limit=9_000, mark_cache=True)
        llm.chat([system("rule " * 1_500), user("one"), assistant("two"), user("three")])
        assert [_points(message) for message in inner.sent[0]] == [1, 1, 0, 1]

    def test_not_below_what_a_provider_caches(self) -> None:
        inner = RecordingLLM(kind="Anthropic")
        CuratedLLM(llm=inner, token_limit=900, mark_cache=True).chat([system(), user("one")])
        assert sum(map(_points, inner.sent[0])) == 0

    def test_an_llm_that_does_not_is_left_alone_with_a_warning(self) -> None:
        inner = RecordingLLM(kind="OpenAI")
        with pytest.warns(UserWarning, match=r"OpenAI takes no cache points.*Fix"):
            llm = CuratedLLM(llm=inner, token_limit=900, mark_cache=True)
        llm.chat([user("q"), call("c1"), result("c1")])
        assert sum(map(_points, inner.sent[0])) == 0


def _points(message: ChatMessage) -> int:
    return sum(isinstance(block, CachePoint) for block in message.blocks)
