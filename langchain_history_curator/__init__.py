"""History Curator for LangChain; only its middleware needs more than langchain-core."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        "langchain_history_curator needs langchain-core, which is not installed. "
        'Fix: pip install "history-curator[langchain]"'
    ) from error

from history_curator.integrations import Budget
from langchain_history_curator.chat_history import ChatHistoryBranches, CuratedChatMessageHistory
from langchain_history_curator.messages import LangChainFormat, pin
from langchain_history_curator.models import budget_for_model
from langchain_history_curator.runnable import HistoryCurator, model_node, pre_model_hook
from langchain_history_curator.tools_and_events import (
    EVENT_NAME,
    fold_back,
    handoff_view,
    recall_tool,
)

if TYPE_CHECKING:
    from langchain_history_curator.middleware import HistoryCuratorMiddleware

__all__ = [
    "EVENT_NAME",
    "Budget",
    "ChatHistoryBranches",
    "CuratedChatMessageHistory",
    "HistoryCurator",
    "HistoryCuratorMiddleware",
    "LangChainFormat",
    "budget_for_model",
    "fold_back",
    "handoff_view",
    "model_node",
    "pin",
    "pre_model_hook",
    "recall_tool",
]


def __getattr__(name: str) -> Any:
    if name != "HistoryCuratorMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module("langchain_history_curator.middleware").HistoryCuratorMiddleware
    except ImportError as error:
        fix = "pip install 'history-curator[agents]'"
        raise ImportError(f"{name} needs langchain and langgraph. Fix: {fix}") from error


def __dir__() -> list[str]:
    return [*__all__]
