"""Cache marks, as Anthropic's adapter sends them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_history_curator import HistoryCurator, mark_cache
from langchain_history_curator._cache import count_marks
from tests.langchain.factories import ai, answer, human, system, tool
from tests.langchain.scripted import ScriptedModel, look

MARK = {"type": "ephemeral"}


def marked(messages: list[BaseMessage]) -> list[int]:
    return [index for index, message in enumerate(messages) if count_marks(message)]


class TestMarkCache:
    def test_the_end_of_the_prefix_is_marked(self) -> None:
        said = [system(), human("a"), answer("b"), human("c")]
        out = mark_cache(said, 3)
        assert marked(out) == [2]
        assert out[2].content == [{"type": "text", "text": "b", "cache_control": MARK}]

    def test_the_rest_are_the_same_objects(self) -> None:
        said = [human("a"), answer("b")]
        out = mark_cache(said)
        assert out[0] is said[0]
        assert said[1].content == "b"

    def test_a_result_is_marked(self) -> None:
        out = mark_cache([human("a"), ai("x"), tool("x", "result")])
        assert out[2].content == [{"type": "text", "text": "result", "cache_control": MARK}]
        assert out[2].tool_call_id == "x"  # type: ignore[attr-defined]

    def test_a_call_cannot_carry_a_mark_so_the_one_before_does(self) -> None:
        assert marked(mark_cache([human("a"), ai("x"), tool("x")], 2)) == [0]

    def test_thinking_and_blank_text_cannot_carry_one(self) -> None:
        thinking = AIMessage([{"type": "thinking", "thinking": "t", "signature": "s"}])
        assert marked(mark_cache([human("a"), thinking, human(" ")])) == [0]

    def test_never_more_than_four_in_all(self) -> None:
        block = {"type": "text", "text": "x", "cache_control": MARK}
        said: list[BaseMessage] = [HumanMessage([block, block]), human("a")]
        assert marked(mark_cache(said)) == [0, 1]
        assert marked(mark_cache(said, system=SystemMessage([block]))) == [0, 1]
        tools = [{"name": "t", "cache_control": MARK}]
        assert marked(mark_cache(said, system=SystemMessage([block]), tools=tools)) == [0]

    def test_an_existing_mark_is_not_doubled(self) -> None:
        block = {"type": "text", "text": "x", "cache_control": MARK}
        said: list[BaseMessage] = [human("a"), HumanMessage([block])]
        assert mark_cache(said)[1] is said[1]

    def test_nothing_to_mark(self) -> None:
        assert mark_cache([]) == []
        assert marked(mark_cache([human("a")], 0)) == []


class TestRunnable:
    def test_anthropic_is_marked_and_others_are_left_alone(self) -> None:
        said = [system(), human("a"), answer("b"), human("c")]
        view = HistoryCurator(provider="anthropic", mark_cache=True).invoke(said)
        assert len(marked(view)) == 1
        for provider in ("core", "openai", "gemini"):
            assert marked(HistoryCurator(provider=provider, mark_cache=True).invoke(said)) == []

    def test_it_reaches_anthropics_payload(self) -> None:
        anthropic = pytest.importorskip("langchain_anthropic")
        model = anthropic.ChatAnthropic(model="claude-sonnet-4-5", api_key="none", max_tokens=100)
        step = HistoryCurator.for_model(model, mark_cache=True)
        said = [system(), human("a"), ai("x"), tool("x", "result"), answer("b"), human("c")]
        payload = model._get_request_payload(step.invoke(said))
        assert json.dumps(payload).count('"cache_control"') == 1

    def test_the_mark_survives_a_second_curation(self) -> None:
        step = HistoryCurator(provider="anthropic", mark_cache=True)
        once = step.invoke([human("a"), answer("b"), human("c")])
        assert marked(step.invoke(once)) == marked(once)


def test_middleware_marks_for_anthropic() -> None:
    pytest.importorskip("langchain.agents")
    from langchain.agents import create_agent

    from langchain_history_curator import HistoryCuratorMiddleware

    views: dict[str, Any] = {}
    for provider in ("anthropic", "openai"):
        model = ScriptedModel(steps=2)
        middleware = HistoryCuratorMiddleware(max_tokens=5_000, provider=provider, mark_cache=True)
        create_agent(model, [look], middleware=[middleware]).invoke({"messages": [human("go")]})
        views[provider] = [len(marked(view)) for view in model.views]
    assert views == {"anthropic": [1, 1, 1], "openai": [0, 0, 0]}
