"""History Curator for LlamaIndex: curated memory, agents and LLMs over one complete record."""

from __future__ import annotations

try:
    import llama_index.core  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        "llamaindex_history_curator needs llama-index-core, which is not installed. "
        'Fix: pip install "history-curator[llamaindex]"'
    ) from error

from llamaindex_history_curator._agents import CuratedAgentWorkflow, CuratedFunctionAgent
from llamaindex_history_curator._agents_code import CuratedCodeActAgent
from llamaindex_history_curator._agents_react import CuratedReActAgent
from llamaindex_history_curator._cache import mark_cache
from llamaindex_history_curator._format import LlamaIndexFormat
from llamaindex_history_curator._events import HistoryCuratedEvent
from llamaindex_history_curator._llm import CuratedLLM
from llamaindex_history_curator._memory import CuratedMemory, MemoryBranches
from llamaindex_history_curator._memory_record import Replaced
from llamaindex_history_curator._models import budget_for_llm
from llamaindex_history_curator._recall import recall_tool
from llamaindex_history_curator._rows import message_from_dict, message_to_dict
from llamaindex_history_curator._store import register_store

__all__ = [
    "CuratedAgentWorkflow",
    "CuratedCodeActAgent",
    "CuratedFunctionAgent",
    "CuratedLLM",
    "CuratedMemory",
    "CuratedReActAgent",
    "HistoryCuratedEvent",
    "LlamaIndexFormat",
    "MemoryBranches",
    "Replaced",
    "budget_for_llm",
    "mark_cache",
    "message_from_dict",
    "message_to_dict",
    "recall_tool",
    "register_store",
]
