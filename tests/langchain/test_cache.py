"""Prompt caching is LangChain's own: views repeat their beginning, so that its marks pay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_history_curator import HistoryCuratorMiddleware
from tests.langchain.scripted import look
from tests.langchain.wires import Step, Wire


def unmarked(body: Any) -> list[Any]:
    """The messages of a request without marks, and every text as a block."""
    out = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        plain = [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]
        out.append((message["role"], plain))
    return out


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_beside_the_caching_middleware_every_request_is_marked_and_repeats_the_one_before(
    order: str,
) -> None:
    caching = pytest.importorskip("langchain_anthropic.middleware")
    from langchain.agents import create_agent

    def script(body: Any) -> Step:
        number = len(wire.requests)
        return Step() if number > 4 else Step(calls=((f"c{number}", "look", {"step": number}),))

    wire = Wire("anthropic", script)
    middleware = [
        HistoryCuratorMiddleware(max_tokens=50_000),
        caching.AnthropicPromptCachingMiddleware(ttl="1h"),
    ][:: 1 if order == "ours first" else -1]
    agent = create_agent(wire.model, [look], middleware=middleware, system_prompt="rules " * 2_000)
    agent.invoke({"messages": [HumanMessage("go " + "on " * 2_000)]})
    assert not wire.refused
    assert all("cache_control" in json.dumps(body) for body in wire.requests)
    for before, after in zip(wire.requests, wire.requests[1:], strict=False):
        assert unmarked(after)[: len(before["messages"])] == unmarked(before)
