"""History Curator under the name LlamaIndex gives its memory integrations."""

from llamaindex_history_curator import (
    CuratedAgentWorkflow,
    CuratedFunctionAgent,
    CuratedLLM,
    CuratedMemory,
    CuratedReActAgent,
    recall_tool,
)

__all__ = [
    "CuratedAgentWorkflow",
    "CuratedFunctionAgent",
    "CuratedLLM",
    "CuratedMemory",
    "CuratedReActAgent",
    "recall_tool",
]
