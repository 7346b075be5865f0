"""History Curator for LlamaIndex: curated memory, agents and LLMs over one complete record."""

from __future__ import annotations

try:
    import llama_index.core  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        "llamaindex_history_curator needs llama-index-core, which is not installed. "
        'Fix: pip install "history-curator[llamaindex]"'
    ) from error

from llamaindex_history_curator.agents import (
    CuratedAgentWorkflow,
    CuratedFunctionAgent,
    CuratedReActAgent,
)
from llamaindex_history_curator.llm import CuratedLLM
from llamaindex_history_curator.memory import CuratedMemory, MemoryBranches
from llamaindex_history_curator.messages import LlamaIndexFormat, message_from_dict, message_to_dict
from llamaindex_history_curator.models import budget_for_llm
from llamaindex_history_curator.tools_and_events import HistoryCuratedEvent, recall_tool

__all__ = [
    "CuratedAgentWorkflow",
    "CuratedFunctionAgent",
    "CuratedLLM",
    "CuratedMemory",
    "CuratedReActAgent",
    "HistoryCuratedEvent",
    "LlamaIndexFormat",
    "MemoryBranches",
    "budget_for_llm",
    "message_from_dict",
    "message_to_dict",
    "recall_tool",
]


def __dir__() -> list[str]:
    return [*__all__]
