"""Every failure of a peer that we met: the peer shows it, ours does not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    trim_messages,
)

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.managers import SlidingWindowManager
from history_curator.tokens import count_tokens
from langchain_history_curator import HistoryCurator
from tests.langchain.factories import ai, answer, human, system, tool
from tests.langchain.scripted import ScriptedModel, refusals, shape, text_of

TURNS = [
    system(), human("q1"), ai("a"), tool("a"), answer("ok"),
    human("q2"), ai("b", "c"), tool("b"), tool("c"),
]  # fmt: skip
LOOP = [
    system(), human("do it"), ai("a"), tool("a"), ai("b"), tool("b"), ai("c"), tool("c"),
]  # fmt: skip


def window(messages: list[Any], size: int) -> list[BaseMessage]:
    return HistoryCurator(managers=(SlidingWindowManager(window_size=size),)).invoke(messages)


class TestTrimMessages:
    def test_orphans_a_result(self) -> None:
        peer = trim_messages(TURNS, max_tokens=2, token_counter=len, include_system=True)
        assert [m.type for m in peer] == ["system", "tool"]
        assert refusals(peer)
        assert refusals(window(TURNS, 2)) == []

    def test_leaves_a_call_dangling(self) -> None:
        peer = trim_messages(TURNS, max_tokens=3, token_counter=len, strategy="first")
        assert peer[-1].tool_calls  # type: ignore[attr-defined]
        assert refusals(window(TURNS, 3)) == []

    def test_returns_nothing_but_the_system_message_of_a_tool_loop(self) -> None:
        peer = trim_messages(
            LOOP, max_tokens=6, token_counter=len, start_on="human", include_system=True
        )
        assert [m.type for m in peer] == ["system"]
        ours = window(LOOP, 6)
        assert refusals(ours) == []
        assert ours[-1] is LOOP[-1]
        assert any(m.text == "do it" for m in ours)

    def test_exceeds_the_budget_silently(self) -> None:
        said = [SystemMessage("word " * 1_000), human("hi")]
        counter = count_tokens
        peer = trim_messages(said, max_tokens=100, token_counter=counter, include_system=True)
        assert count_tokens(peer) > 1_000
        with pytest.raises(BudgetUnsatisfiableError):
            HistoryCurator(max_tokens=100).invoke(said)

    def test_misreads_a_per_message_counter(self) -> None:
        # Annotations are strings in this module, which the peer does not resolve.
        def per_message(message: BaseMessage) -> int:
            return 1

        said = [human(str(k)) for k in range(50)]
        assert len(trim_messages(said, max_tokens=5, token_counter=per_message)) == 50
        assert count_tokens(HistoryCurator(max_tokens=60).invoke(said)) <= 60


class TestConvertToMessages:
    def test_raises_on_malformed_arguments(self) -> None:
        call = {"id": "a", "type": "function", "function": {"name": "t", "arguments": '{"x": '}}
        said = [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "r"},
        ]
        with pytest.raises(ValueError, match="Expecting value"):
            convert_to_messages(said)
        assert refusals(HistoryCurator().invoke(said)) == []

    def test_loses_anthropic_calls_and_results(self) -> None:
        said: list[Any] = [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "a", "name": "t", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}],
            },
        ]
        peer = convert_to_messages(said)
        assert not any(isinstance(m, ToolMessage) or getattr(m, "tool_calls", None) for m in peer)
        ours = HistoryCurator().invoke(said)
        assert [m.type for m in ours] == ["human", "ai", "tool"]
        assert refusals(ours) == []


class TestContextEditing:
    def test_has_no_budget(self) -> None:
        said = [human("word " * 3_000), *_loop(3)]
        peer = _clear_tool_uses(trigger=500, keep=1)(said)
        assert count_tokens(peer) > 3_000
        with pytest.raises(BudgetUnsatisfiableError):
            HistoryCurator(max_tokens=500).invoke(said)

    def test_fires_on_every_call_so_every_call_loses_the_cache(self) -> None:
        edit = _clear_tool_uses(trigger=2_000, keep=3)
        said: list[BaseMessage] = [human("go"), *_loop(60)]
        assert _stable_calls(edit, said) < 3
        step = HistoryCurator(max_tokens=8_000)
        assert _stable_calls(step.invoke, said) > 30


class TestSummarization:
    @pytest.fixture
    def run(self) -> Any:
        agents = pytest.importorskip("langchain.agents")
        from langchain.agents.middleware import SummarizationMiddleware
        from langchain_core.language_models import FakeListChatModel

        from tests.langchain.scripted import look

        def go(middleware: Any = None, **settings: Any) -> Any:
            model = ScriptedModel(steps=25)
            if middleware is None:
                middleware = SummarizationMiddleware(
                    model=FakeListChatModel(responses=["a summary"] * 50), **settings
                )
            agent = agents.create_agent(model, [look], middleware=[middleware])
            state = agent.invoke(
                {"messages": [HumanMessage("the code is 4711", id="q")]}, {"recursion_limit": 500}
            )
            return model, state["messages"]

        return go

    def test_destroys_the_record(self, run: Any) -> None:
        from langchain_history_curator import HistoryCuratorMiddleware

        _, peer = run(trigger=("tokens", 3_000), keep=("messages", 4))
        assert not any("4711" in m.text for m in peer)
        model, ours = run(HistoryCuratorMiddleware(max_tokens=3_000))
        assert ours[0].text == "the code is 4711"
        assert len([m for m in ours if isinstance(m, ToolMessage)]) == 25
        assert all(any("4711" in m.text for m in view) for view in model.views)

    def test_keep_is_no_budget(self, run: Any) -> None:
        from langchain_history_curator import HistoryCuratorMiddleware

        model, _ = run(trigger=("tokens", 3_000), keep=("tokens", 500))
        assert max(model.costs) > 3_000
        model, _ = run(HistoryCuratorMiddleware(max_tokens=3_000))
        assert max(model.costs) <= 3_000


def _loop(steps: int, size: int = 300) -> list[BaseMessage]:
    out: list[BaseMessage] = []
    for step in range(steps):
        out += [ai(f"c{step}", args={"n": step}), tool(f"c{step}", text_of(step, size))]
    return out


def _stable_calls(view_of: Any, said: list[BaseMessage]) -> int:
    """How often a growing conversation's view repeats the one before but for its newest message."""
    views = [shape(view_of(said[:end])) for end in range(31, len(said) + 1, 2)]
    pairs = itertools.pairwise(views)
    return sum(now[: len(old) - 1] == old[:-1] for old, now in pairs)


def _clear_tool_uses(**settings: Any) -> Any:
    middleware = pytest.importorskip("langchain.agents.middleware")

    def edit(messages: list[BaseMessage]) -> list[BaseMessage]:
        copied: list[Any] = [message.model_copy() for message in messages]
        middleware.ClearToolUsesEdit(**settings).apply(copied, count_tokens=count_tokens)
        return copied

    return edit
