"""History Curator under the name LlamaIndex gives its memory integrations."""

from llamaindex_history_curator import (
    CuratedAgentWorkflow,
    CuratedCodeActAgent,
    CuratedFunctionAgent,
    CuratedLLM,
    CuratedMemory,
    CuratedReActAgent,
    recall_tool,
    register_store,
)

__all__ = [
    "CuratedAgentWorkflow",
    "CuratedCodeActAgent",
    "CuratedFunctionAgent",
    "CuratedLLM",
    "CuratedMemory",
    "CuratedReActAgent",
    "recall_tool",
    "register_store",
]
