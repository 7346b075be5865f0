"""A manager that asks a model of its own, inside an agent."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatResult
from pydantic import Field

from history_curator.managers import SummarizingManager
from langchain_history_curator import HistoryCurator, HistoryCuratorMiddleware
from langchain_history_curator.middleware import merge_summaries

agents = pytest.importorskip("langchain.agents")

SUMMARY = "They counted very far."


class Counting(GenericFakeChatModel):
    """Answers the same always, and remembers how it was called."""

    messages: Any = None
    says: str = "answer"
    calls: list[tuple[list[str], dict[str, Any]]] = Field(default_factory=list)
    prompts: list[str] = Field(default_factory=list)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        run: Any = run_manager or SimpleNamespace(tags=(), metadata={})  # none while streaming
        self.calls.append((list(run.tags), dict(run.metadata)))
        self.prompts.append(messages[-1].text)
        self.messages = iter([AIMessage(self.says)])
        return super()._generate(messages, stop, run_manager, **kwargs)


def history() -> list[BaseMessage]:
    said = [kind(f"{n}: " + "word " * 60) for n in range(20) for kind in (HumanMessage, AIMessage)]
    return [*said, HumanMessage("so?")]


def agent_with(summariser: Counting, model: Counting, **settings: Any) -> Any:
    manager = SummarizingManager(summariser, max_tokens=200)
    ours = HistoryCuratorMiddleware(manager, max_tokens=1_200)
    return agents.create_agent(model, [], middleware=[ours], **settings)


class TestInAnAgent:
    def test_its_words_are_not_streamed_as_the_answer(self) -> None:
        summariser, model = Counting(says=SUMMARY), Counting()
        agent = agent_with(summariser, model)
        chunks = list(agent.stream({"messages": history()}, stream_mode="messages"))
        said = "".join(chunk.text for chunk, _ in chunks)
        assert summariser.calls
        assert SUMMARY.split(maxsplit=1)[0] not in said
        assert "answer" in said

    def test_its_calls_are_marked_and_the_agents_are_not(self) -> None:
        summariser, model = Counting(says=SUMMARY), Counting()
        agent_with(summariser, model).invoke({"messages": history()})
        assert all("nostream" in tags for tags, _ in summariser.calls)
        assert all(known["lc_source"] == "summarization" for _, known in summariser.calls)
        assert all("nostream" not in tags for tags, _ in model.calls)
        if HistoryCuratorMiddleware.transformers:  # since langchain 1.4 it hides such calls itself
            assert all("lc_internal_call" in known for _, known in summariser.calls)
            assert not any("lc_internal_call" in known for _, known in model.calls)
            assert HistoryCuratorMiddleware.trace_policy

    def test_the_summary_stands_before_a_question_not_between_it_and_its_answer(self) -> None:
        summariser = Counting(says=SUMMARY)
        step = HistoryCurator(managers=[SummarizingManager(summariser)], max_tokens=1_200)
        view = step.invoke(history())
        place = next(n for n, message in enumerate(view) if SUMMARY in message.text)
        assert view[place + 1].type == "human"


class TestInOneStep:
    @pytest.mark.parametrize("turns", [20, 60])
    def test_one_request_is_one_summary(self, turns: int) -> None:
        summariser = Counting(says=SUMMARY)
        said = history() * (turns // 20)
        agent_with(summariser, Counting()).invoke({"messages": said})
        assert len(summariser.calls) == 1

    def test_a_growing_conversation_is_summarised_when_the_cut_moves(self) -> None:
        summariser, model = Counting(says=SUMMARY), Counting()
        agent = agent_with(summariser, model)
        said = history()
        for _ in range(12):
            said = [*agent.invoke({"messages": said})["messages"], HumanMessage("and? " * 30)]
        assert 1 <= len(summariser.calls) <= 6


class TestCheckpoint:
    """Without a store the state of the conversation keeps them."""

    THREAD: ClassVar[Any] = {"configurable": {"thread_id": "t"}}

    def test_after_a_restart_nothing_is_summarised_again(self, tmp_path: Path) -> None:
        sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
        first, second = Counting(says=SUMMARY), Counting(says=SUMMARY)
        for summariser, said in ((first, history()), (second, [HumanMessage("go on")])):
            with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "agent.db")) as saver:
                agent = agent_with(summariser, Counting(), checkpointer=saver)
                state = agent.invoke({"messages": said}, self.THREAD)
            assert list(state) == ["messages"]  # it is nobody's output
        assert "assistant > 0: word" in first.prompts[0]
        assert len(first.prompts) == 1
        for prompt in second.prompts:  # the cut may have moved: then of what is new
            assert SUMMARY in prompt
            assert "assistant > 0: word" not in prompt

    def test_of_many_the_newest_are_kept(self) -> None:
        known = {f"{n}": "x" for n in range(300)}
        kept = merge_summaries(known, {"0": "newer", "new": "y"})
        assert len(kept) == 256
        assert list(kept)[-2:] == ["0", "new"]


def test_beside_the_middleware_that_removes_messages_it_warns_once() -> None:
    from langchain.agents.middleware import SummarizationMiddleware

    sizes: Any = {"trigger": ("messages", 10), "keep": ("messages", 4)}
    theirs = SummarizationMiddleware(Counting(says=SUMMARY), **sizes)
    ours = HistoryCuratorMiddleware(max_tokens=1_200)
    agent = agents.create_agent(Counting(), [], middleware=[theirs, ours])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            agent.invoke({"messages": history()})
    assert sum("has taken" in str(each.message) for each in caught) == 1
