"""Cache marks, as Anthropic's adapter sends them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_history_curator import HistoryCurator, mark_cache
from langchain_history_curator.tools_and_events import _find_controls
from tests.langchain.factories import ai, answer, human, system, tool
from tests.langchain.scripted import ScriptedModel, look

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

    def test_the_mark_survives_a_second_curation(self) -> None:
        step = HistoryCurator(provider="anthropic", mark_cache=True)
        once = step.invoke([human(LONG), answer("b"), human("c")])
        assert marked(once)
        assert marked(step.invoke(once)) == marked(once)


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


class TestBesideLangChainsOwn:
    """langchain-anthropic marks system, tools and the last block; both orders, both ttls."""

    def payloads(self, middleware: list[Any], turns: int = 3) -> list[dict[str, Any]]:
        anthropic = pytest.importorskip("langchain_anthropic")
        from langchain.agents import create_agent
        from langchain_core.outputs import ChatGeneration, ChatResult

        sent: list[dict[str, Any]] = []

        class Recording(anthropic.ChatAnthropic):  # type: ignore[misc, name-defined]
            def _generate(self, messages: Any, stop: Any = None, *args: Any, **kwargs: Any) -> Any:
                kwargs.pop("run_manager", None)
                sent.append(self._get_request_payload(messages, stop=stop, **kwargs))
                step = len(sent)
                calls = [{"name": "look", "args": {"at": f"{step}"}, "id": f"toolu_{step}"}]
                said = AIMessage("done" if step > turns else f"step {step}",
                                 tool_calls=[] if step > turns else calls)  # fmt: skip
                return ChatResult(generations=[ChatGeneration(message=said)])

        model = Recording(model="claude-opus-5", api_key="none", max_tokens=100)
        agent = create_agent(
            model, [look], middleware=middleware, system_prompt="rules " + "to keep " * 2_000
        )
        agent.invoke({"messages": [human("go " + "on " * 2_000)]})
        return sent

    @pytest.mark.parametrize("ttl", ["5m", "1h"])
    @pytest.mark.parametrize("first", ["ours", "theirs"])
    def test_together(self, ttl: str, first: str) -> None:
        caching = pytest.importorskip("langchain_anthropic.middleware")
        from history_curator.caching import CacheEmulator
        from langchain_history_curator import HistoryCuratorMiddleware

        ours = HistoryCuratorMiddleware(max_tokens=50_000, mark_cache=True)
        theirs = caching.AnthropicPromptCachingMiddleware(ttl=ttl)
        sent = self.payloads([ours, theirs] if first == "ours" else [theirs, ours])
        cache = CacheEmulator("claude-opus-5", count=len)
        used = [cache.send(payload, at=at) for at, payload in enumerate(sent)]  # or it refuses
        for before, now in itertools.pairwise(used):
            held = before["cache_read_input_tokens"] + before["cache_creation_input_tokens"]
            assert now["cache_read_input_tokens"] == held > 0

    def test_alone(self) -> None:
        from history_curator.caching import CacheEmulator
        from langchain_history_curator import HistoryCuratorMiddleware

        sent = self.payloads([HistoryCuratorMiddleware(max_tokens=50_000, mark_cache=True)])
        cache = CacheEmulator("claude-opus-5", count=len)
        reads = [
            cache.send(payload, at=at)["cache_read_input_tokens"] for at, payload in enumerate(sent)
        ]
        assert reads[0] == 0
        assert reads == sorted(reads)
        assert all("cache_control" in payload["system"][-1] for payload in sent)
