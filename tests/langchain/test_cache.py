"""Cache marks, as Anthropic's adapter sends them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_history_curator import HistoryCurator, mark_cache
from langchain_history_curator.tools_and_events import _find_controls
from tests.langchain.factories import ai, answer, human, system, tool
from tests.langchain.scripted import ScriptedModel, look
from tests.langchain.wires import Step, Wire

MARK = {"type": "ephemeral"}
LONG = "a text that is worth caching " * 250
"""Above the least prefix Anthropic caches; what is shorter is not marked."""


def marked(messages: list[BaseMessage]) -> list[int]:
    return [index for index, message in enumerate(messages) if _find_controls(message)]


class TestMarkCache:
    def test_the_end_of_the_prefix_is_marked(self) -> None:
        said = [system(), human("a"), answer("b"), human("c")]
        out = mark_cache(said, 3)
        assert marked(out) == [2]
        assert out[2].content == [{"type": "text", "text": "b", "cache_control": MARK}]

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


class TestRunnable:
    def test_anthropic_is_marked_and_others_are_left_alone(self) -> None:
        said = [system(), human(LONG), answer("b"), human("c")]
        view = HistoryCurator(provider="anthropic", mark_cache=True).invoke(said)
        assert marked(view) == [1, 3]  # the question that outlives a jump, and the end
        for provider in ("core", "openai", "gemini"):
            assert marked(HistoryCurator(provider=provider, mark_cache=True).invoke(said)) == []

    def test_it_reaches_anthropics_payload(self) -> None:
        anthropic = pytest.importorskip("langchain_anthropic")
        model = anthropic.ChatAnthropic(model="claude-sonnet-4-5", api_key="none", max_tokens=100)
        step = HistoryCurator.for_model(model, mark_cache=True)
        said = [system(), human(LONG), ai("x"), tool("x", "result"), answer("b"), human("c")]
        payload = model._get_request_payload(step.invoke(said))
        carried = ['"cache_control"' in json.dumps(message) for message in payload["messages"]]
        assert carried == [True, False, False, False, True]

    def test_what_is_too_short_to_be_cached_is_not_marked(self) -> None:
        step = HistoryCurator(provider="anthropic", mark_cache=True)
        assert marked(step.invoke([human("a"), answer("b"), human("c")])) == []


def test_middleware_marks_for_anthropic() -> None:
    pytest.importorskip("langchain.agents")
    from langchain.agents import create_agent

    from langchain_history_curator import HistoryCuratorMiddleware

    views: dict[str, Any] = {}
    for provider in ("anthropic", "openai"):
        model = ScriptedModel(steps=2)
        middleware = HistoryCuratorMiddleware(max_tokens=5_000, provider=provider, mark_cache=True)
        create_agent(model, [look], middleware=[middleware]).invoke({"messages": [human(LONG)]})
        views[provider] = [len(marked(view)) for view in model.views]
    assert views == {"anthropic": [1, 2, 2], "openai": [0, 0, 0]}


@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_beside_langchains_own_marks_no_request_is_refused(ttl: str, first: str) -> None:
    """langchain-anthropic marks system, tools and the last block; both orders, both ttls."""
    caching = pytest.importorskip("langchain_anthropic.middleware")
    from langchain.agents import create_agent

    from langchain_history_curator import HistoryCuratorMiddleware

    def script(body: Any) -> Step:
        number = len(wire.requests)
        return Step() if number > 4 else Step(calls=((f"c{number}", "look", {"step": number}),))

    wire = Wire("anthropic", script)
    ours = HistoryCuratorMiddleware(max_tokens=50_000, mark_cache=True)
    theirs = caching.AnthropicPromptCachingMiddleware(ttl=ttl)
    middleware = [ours, theirs] if first == "ours" else [theirs, ours]
    agent = create_agent(wire.model, [look], middleware=middleware, system_prompt="rules " * 2_000)
    agent.invoke({"messages": [human("go " + "on " * 2_000)]})
    assert not wire.refused
    assert all("cache_control" in json.dumps(body) for body in wire.requests)
