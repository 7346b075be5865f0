"""Settings: changed later they are honoured or refused, and wrong ones say what to do."""

from __future__ import annotations

from typing import Any

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
    def middleware(self, *managers: Any, **settings: Any) -> Any:
        pytest.importorskip("langchain.agents")
        from langchain_history_curator import HistoryCuratorMiddleware

        return HistoryCuratorMiddleware(*managers, **settings)

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


INTEGRATIONS: dict[str, Any] = {
    "step": HistoryCurator,
    "model": lambda *given, **named: HistoryCurator.for_model(MODEL, 100, managers=given, **named),
    "hook": lambda *given, **named: pre_model_hook(100, managers=given, **named),
    "node": lambda *given, **named: model_node(MODEL, 100, managers=given, **named),
    "history": lambda *given, **named: CuratedChatMessageHistory(ListStore(), *given, **named),
    "middleware": lambda *given, **named: TestOfAMiddleware().middleware(*given, **named),
    "handoff": lambda *given, **named: handoff_view(LONG, None, *given, **named),
}
MODEL = FakeListChatModel(responses=["x"])


@pytest.mark.parametrize("name", sorted(INTEGRATIONS))
class TestHints:
    """Every integration says what to write for what is known from elsewhere."""

    @pytest.mark.parametrize(
        ("given", "fix"),
        [
            ({"compact_too": 0.5}, "did you mean 'compact_to'"),
            ({"key": "thread"}, "known: .*compact_to"),
            ({"trigger": ("tokens", 500)}, "max_tokens="),
            ({"keep": ("messages", 20)}, "preserve_last_n="),
            ({"summary_prompt": "Sum up."}, "SummarizingManager.model, prompt="),
            ({"trim_tokens_to_summarize": 500}, "SummarizingManager.model, chunk_tokens="),
            ({"edits": []}, "ToolResultClearer"),
            ({"token_counter": len}, "counter="),
            ({"token_limit": 500}, "did you mean 'max_tokens'"),
            ({"strategy": "last"}, "leave it out"),
        ],
    )
    def test_an_argument_of_langchains_own(self, name: str, given: Any, fix: str) -> None:
        with pytest.raises(ConfigurationError, match=f"unknown argument.*Fix: .*{fix}"):
            INTEGRATIONS[name](**given)

    @pytest.mark.parametrize(
        ("given", "fix"),
        [
            (8_000, "max_tokens=8000"),
            (("fraction", 0.5), "max_tokens=0.5"),
            (MODEL, "for_model"),
            ("gpt-4o", "Summarizing"),
        ],
    )
    def test_a_value_in_the_place_of_a_manager(self, name: str, given: Any, fix: str) -> None:
        with pytest.raises(ConfigurationError, match=f"is no manager. Fix: .*{fix}"):
            INTEGRATIONS[name](given)


@pytest.mark.parametrize("name", ["step", "middleware"])
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"provider": "x"}, "x"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"max_tokens": "8k"}, "max_tokens is '8k'"),
        ({"max_tokens": ("fraction", 0.5)}, r"Fix: max_tokens=0\.5"),
        ({"compact_to": 7}, "compact_to is 7"),
        ({"counter": "zzz"}, "zzz"),
        ({"reserve": -1}, "reserve is -1"),
    ],
)
def test_a_value_that_cannot_work_is_refused_at_once(
    name: str, settings: dict[str, Any], named: str
) -> None:
    owners = {"step": HistoryCurator, "middleware": TestOfAMiddleware().middleware}
    with pytest.raises(ConfigurationError, match=named):
        owners[name](**settings)


def test_a_counter_counts_a_list_of_messages() -> None:
    with pytest.raises(ConfigurationError, match="does not count a list of messages"):
        HistoryCurator(max_tokens=100, counter=lambda one: len(one.text))
