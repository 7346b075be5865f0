"""Every integration brings earlier messages back, unless ``retrieve=False`` says otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import Field

from langchain_history_curator import (
    CuratedChatMessageHistory,
    HistoryCurator,
    model_node,
    pre_model_hook,
)

SECRET = "the greenhouse key hangs behind the zebra painting"
FILLER = "we went on about the weather and the harvest of this year and the next " * 2


class NotingModel(GenericFakeChatModel):
    """Keeps the messages it was sent."""

    messages: Any = Field(default_factory=lambda: iter([AIMessage("ok")]))
    sent: list[BaseMessage] = Field(default_factory=list)

    def _generate(self, messages: Any, *given: Any, **named: Any) -> Any:
        self.sent.extend(messages)
        return super()._generate(messages, *given, **named)


def chat() -> list[BaseMessage]:
    said: list[BaseMessage] = [SystemMessage("be kind"), HumanMessage("Can you water the plants?")]
    said += [AIMessage("yes"), HumanMessage(SECRET)]
    for turn in range(40):
        said += [AIMessage(f"answer {turn}: {FILLER}"), HumanMessage(f"remark {turn}: {FILLER}")]
    return [*said, AIMessage("indeed"), HumanMessage("where did I say the greenhouse key hangs?")]


def view_of(name: str, **options: Any) -> list[BaseMessage]:
    model, said = NotingModel(), chat()
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
        return model.sent
    agents = pytest.importorskip("langchain.agents")
    from langchain_history_curator import HistoryCuratorMiddleware

    middleware = [HistoryCuratorMiddleware(max_tokens=1_500, **options)]
    agents.create_agent(model, [], middleware=middleware).invoke({"messages": said})
    return model.sent


@pytest.mark.parametrize("name", ["runnable", "chat history", "hook", "node", "middleware"])
def test_retrieve_brings_back_the_message_the_question_is_about(name: str) -> None:
    assert not any(SECRET in message.text for message in view_of(name, retrieve=False))
    assert any(SECRET in message.text for message in view_of(name))
