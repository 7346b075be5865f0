"""Cache marks, as Anthropic's adapter sends them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from langchain_history_curator import HistoryCurator
from langchain_history_curator.tools_and_events import find_controls
from tests.langchain.factories import ai, answer, human, system, tool
from tests.langchain.scripted import ScriptedModel, look
from tests.langchain.wires import Step, Wire

MARK = {"type": "ephemeral"}
LONG = "a text that is worth caching " * 250
"""Above the least prefix Anthropic caches; what is shorter is not marked."""


def marked(messages: list[BaseMessage]) -> list[int]:
    return [index for index, message in enumerate(messages) if find_controls(message)]


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

    def test_never_more_than_four_in_all_and_none_twice(self) -> None:
        block = {"type": "text", "text": LONG, "cache_control": MARK}
        said: list[BaseMessage] = [HumanMessage([block, block]), answer("b"), HumanMessage([block])]
        step = HistoryCurator(provider="anthropic", mark_cache=True)
        view = step.invoke([*said, answer(LONG), human("a")])
        assert sum(len(find_controls(message)) for message in view) == 4
        tools = [{"name": "t", "description": "d", "cache_control": MARK}]
        again = step.invoke([*said, answer(LONG), human("a")], tools=tools)
        assert marked(again) == [0, 2]

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
def test_behind_langchains_own_marks_no_request_is_refused(ttl: str) -> None:
    """langchain-anthropic marks system, tools and the last block; ours is to be the last."""
    caching = pytest.importorskip("langchain_anthropic.middleware")
    from langchain.agents import create_agent

    from langchain_history_curator import HistoryCuratorMiddleware

    def script(body: Any) -> Step:
        number = len(wire.requests)
        return Step() if number > 4 else Step(calls=((f"c{number}", "look", {"step": number}),))

    wire = Wire("anthropic", script)
    ours = HistoryCuratorMiddleware(max_tokens=50_000, mark_cache=True)
    theirs = caching.AnthropicPromptCachingMiddleware(ttl=ttl)
    rules = "rules " * 2_000
    agent = create_agent(wire.model, [look], middleware=[theirs, ours], system_prompt=rules)
    agent.invoke({"messages": [human("go " + "on " * 2_000)]})
    assert not wire.refused
    assert all("cache_control" in json.dumps(body) for body in wire.requests)
