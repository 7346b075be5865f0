"""What LangChain's own tests mean, run against the stock class and against ours.

Where ours differs, the table in ``docs/howto/langchain.md`` says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    trim_messages,
)
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import ToolException, tool

from langchain_history_curator import (
    CuratedChatMessageHistory,
    HistoryCurator,
    HistoryCuratorMiddleware,
)
from tests.langchain.factories import ai, human, system
from tests.langchain.factories import tool as result
from tests.langchain.scripted import ScriptedModel, look, refusals, shape


def stock() -> BaseChatMessageHistory:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return InMemoryChatMessageHistory()


def count_said(given: Any) -> str:
    """Answer with what was said so far, so that the history shows in the answer."""
    given = given.to_messages() if hasattr(given, "to_messages") else given
    return "you said: " + " | ".join(m.text for m in given if m.type == "human")


MODEL = RunnableLambda(lambda given: AIMessage(count_said(given)))
PROMPT = ChatPromptTemplate([("placeholder", "{history}"), ("user", "{question}")])
SESSION: Any = {"configurable": {"session_id": "1"}}
KEYS: dict[str, tuple[Any, dict[str, Any], Callable[[str], Any]]] = {
    "messages in": (MODEL, {}, lambda text: [HumanMessage(text)]),
    "a question and a history": (
        PROMPT | MODEL,
        {"input_messages_key": "question", "history_messages_key": "history"},
        lambda text: {"question": text},
    ),
    "an answer out": (
        RunnableLambda(lambda given: {"out": [AIMessage(count_said(given["in"]))]}),
        {"input_messages_key": "in", "output_messages_key": "out"},
        lambda text: {"in": [HumanMessage(text)]},
    ),
}


class TestRunnableWithMessageHistory:
    async def outcome(self, form: str, store: BaseChatMessageHistory, how: str) -> Any:
        inner, keys, input_of = KEYS[form]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chain: Any = RunnableWithMessageHistory(inner, lambda session_id: store, **keys)
        calls: dict[str, Callable[[Any], Any]] = {
            "invoke": lambda given: chain.invoke(given, SESSION),
            "stream": lambda given: list(chain.stream(given, SESSION))[-1],
            "batch": lambda given: chain.batch([given], SESSION)[0],
        }
        out = [
            await chain.ainvoke(given, SESSION) if how == "ainvoke" else calls[how](given)
            for given in map(input_of, ("hello", "good bye"))
        ]
        return out, [(m.type, m.text) for m in await store.aget_messages()]

    @pytest.mark.parametrize("how", ["invoke", "stream", "batch", "ainvoke"])
    @pytest.mark.parametrize("form", sorted(KEYS))
    async def test_every_form_of_keys(self, form: str, how: str) -> None:
        curated = CuratedChatMessageHistory(stock(), max_tokens=50_000)
        answers, record = await self.outcome(form, curated, how)
        assert (answers, record) == await self.outcome(form, stock(), how)
        assert "hello | good bye" in str(answers[-1])
        assert [kind for kind, _ in record] == ["human", "ai", "human", "ai"]


@tool("look")
def failing_look(step: int, part: int = 0) -> str:
    """Look at a place that is not there."""
    raise ToolException(f"step {step}: no such place")


failing_look.handle_tool_error = True


class TestCreateAgent:
    """The record of an agent that fits its budget is the one it has without a middleware."""

    def outcome(self, ours: bool, tools: Any = (look,), **fields: Any) -> Any:
        agents = pytest.importorskip("langchain.agents")
        middleware = [HistoryCuratorMiddleware(max_tokens=100_000)] if ours else []
        model = ScriptedModel(**{"steps": 3, **fields})
        agent = agents.create_agent(model, [*tools], system_prompt="Look.", middleware=middleware)
        record = agent.invoke({"messages": [HumanMessage("go", id="q")]})["messages"]
        return [shape(view) for view in model.views], shape(record)

    @pytest.mark.parametrize(
        "given", [{}, {"calls_per_step": lambda _: 3}, {"tools": [failing_look]}]
    )
    def test_calls_parallel_calls_and_errors_of_tools(self, given: dict[str, Any]) -> None:
        assert self.outcome(True, **given) == self.outcome(False, **given)

    @pytest.mark.parametrize("ours", [False, True])
    def test_an_error_of_the_model_is_the_callers(self, ours: bool) -> None:
        with pytest.raises(ConnectionError):
            self.outcome(ours, crash_at=2)


TWO_TURNS = [
    system("s"), human("q1"), ai("a"), result("a"), AIMessage("ok"),
    human("q2"), ai("b", "c"), result("b"), result("c"),
]  # fmt: skip
ONE_TURN = [
    SystemMessage("s"), HumanMessage("do it"), ai("a"), result("a"), ai("b"), result("b"),
    ai("c"), result("c"),
]  # fmt: skip


class TestTrimMessages:
    def test_what_fits_is_sent_whole_by_both(self) -> None:
        assert trim_messages(TWO_TURNS, max_tokens=9, token_counter=len) == TWO_TURNS
        assert HistoryCurator(max_tokens=9, counter=len).invoke(TWO_TURNS) == TWO_TURNS

    @pytest.mark.parametrize("said", [TWO_TURNS, ONE_TURN], ids=["two turns", "one turn"])
    @pytest.mark.parametrize("limit", range(5, 9))
    def test_pairs_start_end_and_system(self, said: list[BaseMessage], limit: int) -> None:
        view = HistoryCurator(max_tokens=limit, counter=len, recap=False).invoke(said)
        assert len(view) <= limit
        assert not refusals(view)
        assert view[0] is said[0]  # include_system
        assert view[1].type == "human"  # start_on
        assert view[-1] is said[-1]  # end_on
        question = next(message for message in reversed(said) if message.type == "human")
        assert any(message is question for message in view)
