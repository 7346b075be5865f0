"""Wrong names and types of options are seen before anything runs."""

from __future__ import annotations

from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from history_curator.config import CuratorOptions
from langchain_history_curator import (
    CuratedChatMessageHistory,
    HistoryCurator,
    HistoryCuratorMiddleware,
    handoff_view,
    model_node,
    pre_model_hook,
)


def fine(model: BaseChatModel) -> list[BaseMessage]:
    options: CuratorOptions = {"max_tokens": 5, "compact_to": 0.7, "mode": "shadow"}
    HistoryCuratorMiddleware(max_tokens=0.5, reasoning="keep", recall_tool=True)
    CuratedChatMessageHistory(InMemoryChatMessageHistory(), max_tokens=5, preserve_last_n=2)
    handoff_view([], "do it", max_tokens=5, provider="openai")
    HistoryCurator.for_model(model, max_tokens=0.5, reserve=7)
    model_node(model, 0.5, prompt="Be brief.", compact_to=0.7)
    pre_model_hook(5, tail="request", tools=[])
    step = HistoryCurator(max_tokens=5, counter=len, tail="history", name="x")
    return step.invoke([]) if options else []


def wrong(model: BaseChatModel) -> None:
    HistoryCurator(max_tokns=5)  # type: ignore[call-arg]
    HistoryCurator(max_tokens="5")  # type: ignore[arg-type]
    HistoryCurator(tail="end")  # type: ignore[arg-type]
    HistoryCuratorMiddleware(provder="openai")  # type: ignore[call-arg]
    HistoryCuratorMiddleware(mode="try")  # type: ignore[arg-type]
    CuratedChatMessageHistory(InMemoryChatMessageHistory(), low_watr=1)  # type: ignore[call-arg]
    HistoryCurator.for_model(model, max_tokns=5)  # type: ignore[call-arg]
    HistoryCurator.for_model(model, max_tokens="all")  # type: ignore[arg-type]
    model_node(model, 5, low_watr=1)  # type: ignore[call-arg]
    pre_model_hook(5, tail="end")  # type: ignore[arg-type]
    mistyped: CuratorOptions = {"compact_to": "deep"}  # type: ignore[typeddict-item]
    del mistyped
