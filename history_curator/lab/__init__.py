"""The lab: replay recorded conversations under several policies, offline, and compare.

Prices, rules and counters are the library's own; nothing is sent anywhere.
"""

from __future__ import annotations

from history_curator.lab._conversation import LabConversation
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
from history_curator.lab._pricing import PriceSheet, get_prices, price_sheets
from history_curator.lab._recommend import Recommendation, frontier, recommend
from history_curator.lab._replay import replay
from history_curator.lab._results import PolicyResult, ReplayResults
from history_curator.lab._sample import sample_conversation

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
    "Recommendation",
    "ReplayResults",
    "TrimMessagesPolicy",
    "frontier",
    "get_prices",
    "peer_names",
    "plot_composition",
    "plot_frontier",
    "plot_tokens",
    "price_sheets",
    "recommend",
    "replay",
    "sample_conversation",
]
