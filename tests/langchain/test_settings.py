"""Settings: changed later they are honoured or refused, and wrong ones say what to do."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import ConfigurableField

from history_curator.errors import ConfigurationError
from history_curator.managers import SlidingWindowManager
from history_curator.tokens import count_tokens
from langchain_history_curator import (
    CuratedChatMessageHistory,
    HistoryCurator,
    handoff_view,
    model_node,
    pre_model_hook,
)
from tests.langchain.scripted import look
from tests.langchain.test_history import ListStore
from tests.langchain.test_wire import history_of
from tests.langchain.wires import Wire

LONG = [*history_of(20), HumanMessage("so?")]


class TestOfAStep:
    def test_by_assignment(self) -> None:
        step = HistoryCurator(max_tokens=5_000)
        whole = step.invoke(LONG)
        step.max_tokens = 400
        assert count_tokens(step.invoke(LONG)) <= 400 < count_tokens(whole)
        step.provider = "anthropic"
        assert step.curate(LONG).report.provider == "anthropic"
        bare = step.curate(LONG).report.overhead
        step.tools = [look]
        assert step.curate(LONG).report.overhead > bare
        step.managers = (SlidingWindowManager(window_size=2),)
        assert len(step.invoke(LONG)) < 5

    async def test_for_one_call(self) -> None:
        step = HistoryCurator(max_tokens=5_000)
        assert count_tokens(step.invoke(LONG, max_tokens=400)) <= 400
        assert count_tokens(await step.ainvoke(LONG, max_tokens=400)) <= 400
        assert count_tokens(step.batch([LONG], max_tokens=400)[0]) <= 400
        assert step.invoke(LONG) == LONG

    def test_by_configuration(self) -> None:
        step = HistoryCurator(max_tokens=5_000).configurable_fields(
            max_tokens=ConfigurableField(id="budget"), provider=ConfigurableField(id="provider")
        )
        given: Any = {"configurable": {"budget": 400, "provider": "gemini"}}
        assert count_tokens(step.invoke(LONG, given)) <= 400
        assert count_tokens(step.with_config(given).invoke(LONG)) <= 400
        assert step.invoke(LONG) == LONG

    @pytest.mark.parametrize(
        ("settings", "fix"),
        [
            ({"max_tokns": 4}, "max_tokens"),
            ({"max_tokens": 0}, "at least 1"),
            ({"max_tokens": 0.5}, "for_model"),
            ({"tail": "x"}, "request"),
        ],
    )
    def test_or_refused(self, settings: dict[str, Any], fix: str) -> None:
        step = HistoryCurator(max_tokens=5_000)
        for use in (
            lambda: step.invoke(LONG, **settings),
            lambda: step.bind(**settings),
            lambda: step.model_copy(update=settings),
            lambda: HistoryCurator(**settings),
        ):
            with pytest.raises(ConfigurationError, match=fix):
                use()

    def test_a_value_that_cannot_work_is_refused_on_use(self) -> None:
        step = HistoryCurator(max_tokens=5_000)
        step.compact_to = 7
        with pytest.raises(ConfigurationError, match="compact_to is 7"):
            step.invoke(LONG)


class TestOfAMiddleware:
    def middleware(self, **settings: Any) -> Any:
        pytest.importorskip("langchain.agents")
        from langchain_history_curator import HistoryCuratorMiddleware

        return HistoryCuratorMiddleware(**settings)

    def test_the_budget_may_change(self) -> None:
        from langchain.agents import create_agent

        wire = Wire("openai")
        ours = self.middleware(max_tokens=5_000)
        agent = create_agent(wire.model, [], middleware=[ours])
        agent.invoke({"messages": LONG})
        assert len(wire.last["messages"]) == len(LONG)
        ours.max_tokens = 400
        agent.invoke({"messages": LONG})
        assert count_tokens(wire.last["messages"]) <= 400


class TestOfAHistory:
    def test_the_budget_and_the_reserve_may(self) -> None:
        history = CuratedChatMessageHistory(ListStore(), max_tokens=1_000)
        history.add_messages(LONG)
        history.reserve = 600
        assert count_tokens(history.messages) <= 400
        history.max_tokens = 900
        assert count_tokens(history.messages) <= 300


class TestReserve:
    def test_what_is_always_kept_free_costs_no_cache(self) -> None:
        """A step with a reserve cuts as often as one with so much less of a budget."""
        views: list[list[list[str]]] = []
        for step in (
            HistoryCurator(max_tokens=1_400, reserve=400),
            HistoryCurator(max_tokens=1_000),
        ):
            said = history_of(20)
            views.append([])
            for turn in range(30):
                said += [HumanMessage(f"q{turn} " + "word " * 30), AIMessage("a " * 30)]
                views[-1].append([message.text for message in step.invoke(said)])
        assert views[0] == views[1]


class TestWhatTrimMessagesTook:
    SOCKETS: ClassVar[dict[str, Any]] = {
        "step": lambda **given: HistoryCurator(max_tokens=100, **given),
        "model": lambda **given: HistoryCurator.for_model(
            FakeListChatModel(responses=["x"]), max_tokens=100, **given
        ),
        "hook": lambda **given: pre_model_hook(100, **given),
        "node": lambda **given: model_node(FakeListChatModel(responses=["x"]), 100, **given),
        "history": lambda **given: CuratedChatMessageHistory(ListStore(), max_tokens=9, **given),
        "middleware": lambda **given: TestOfAMiddleware().middleware(max_tokens=100, **given),
        "handoff": lambda **given: handoff_view(LONG, max_tokens=100, **given),
    }

    @pytest.mark.parametrize("socket", sorted(SOCKETS))
    def test_a_mistyped_name_says_what_was_meant(self, socket: str) -> None:
        with pytest.raises(ConfigurationError, match="did you mean 'compact_to'"):
            self.SOCKETS[socket](compact_too=0.5)
