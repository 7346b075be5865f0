"""Earlier messages are brought back in every integration, unless ``retrieve=False`` says not to."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_history_curator import (
    CuratedChatMessageHistory,
    HistoryCurator,
    model_node,
    pre_model_hook,
)
from tests.langchain.scripted import ScriptedModel

SECRET = "the greenhouse key hangs behind the zebra painting"
FILLER = "we went on about the weather and the harvest of this year and the next " * 2


def chat() -> list[BaseMessage]:
    said: list[BaseMessage] = [SystemMessage("be kind"), HumanMessage("Can you water the plants?")]
    said += [AIMessage("yes"), HumanMessage(SECRET)]
    for turn in range(40):
        said += [AIMessage(f"answer {turn}: {FILLER}"), HumanMessage(f"remark {turn}: {FILLER}")]
    return [*said, AIMessage("indeed"), HumanMessage("where did I say the greenhouse key hangs?")]


def view_of(name: str, **options: Any) -> list[BaseMessage]:
    model, said = ScriptedModel(steps=0), chat()
    if name == "runnable":
        return HistoryCurator(max_tokens=1_500, **options).invoke(said)
    if name == "chat history":
        store = InMemoryChatMessageHistory(messages=said)
        return CuratedChatMessageHistory(store, max_tokens=1_500, **options).messages
    if name == "hook":
        hook = pre_model_hook(1_500, **options)
        return hook.invoke({"messages": said})["llm_input_messages"]
    if name == "node":
        model_node(model, 1_500, **options).invoke({"messages": said})
        return model.views[-1]
    agents = pytest.importorskip("langchain.agents")
    from langchain_history_curator import HistoryCuratorMiddleware

    middleware = [HistoryCuratorMiddleware(max_tokens=1_500, **options)]
    agents.create_agent(model, [], middleware=middleware).invoke({"messages": said})
    return model.views[-1]


@pytest.mark.parametrize("name", ["runnable", "chat history", "hook", "node", "middleware"])
def test_the_message_that_the_question_is_about_is_brought_back(name: str) -> None:
    assert not any(SECRET in message.text for message in view_of(name, retrieve=False))
    for options in ({}, {"retrieve": True}):
        assert any(SECRET in message.text for message in view_of(name, **options))
