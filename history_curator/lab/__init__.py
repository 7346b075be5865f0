"""The lab: replay recorded conversations under several policies, offline, and compare.

Prices, rules and counters are the library's own; nothing is sent anywhere.
"""

from __future__ import annotations

from history_curator.caching import PriceSheet, get_prices, price_sheets
from history_curator.lab._conversation import LabConversation
from history_curator.lab._executors import RayExecutor, SparkExecutor
from history_curator.lab._peers import (
    ChatMemoryBufferPolicy,
    ClearToolUsesPolicy,
    LlamaIndexMemoryPolicy,
    TrimMessagesPolicy,
    peer_names,
)
from history_curator.lab._plots import plot_composition, plot_frontier, plot_tokens
from history_curator.lab._policies import (
    CuratorPolicy,
    NoCuration,
    Policy,
    PolicyUnavailableError,
)
from history_curator.lab._replay import replay
from history_curator.lab._results import Recommendation, ReplayResults, frontier, recommend
from history_curator.lab._sample import sample_conversation
from history_curator.lab._session import SessionPage
from history_curator.lab._sources import load_conversations
from history_curator.lab._table import PolicyResult

__all__ = [
    "ChatMemoryBufferPolicy",
    "ClearToolUsesPolicy",
    "CuratorPolicy",
    "LabConversation",
    "LlamaIndexMemoryPolicy",
    "NoCuration",
    "Policy",
    "PolicyResult",
    "PolicyUnavailableError",
    "PriceSheet",
    "RayExecutor",
    "Recommendation",
    "ReplayResults",
    "SessionPage",
    "SparkExecutor",
    "TrimMessagesPolicy",
    "frontier",
    "get_prices",
    "load_conversations",
    "peer_names",
    "plot_composition",
    "plot_frontier",
    "plot_tokens",
    "price_sheets",
    "recommend",
    "replay",
    "sample_conversation",
]
