"""The lab: replay recorded conversations under several policies, offline, and compare.

Prices, rules and counters are the library's own; no request is sent.
"""

from __future__ import annotations

from history_curator.lab.conversations import LabConversation, sample_conversation
from history_curator.lab.files import load_conversations
from history_curator.lab.policies import Policy, named_policy, policy_names
from history_curator.lab.prices import PriceSheet, get_prices
from history_curator.lab.results import PolicyResult, ReplayResults
from history_curator.lab.run_replay import SessionPage, replay

__all__ = [
    "LabConversation",
    "Policy",
    "PolicyResult",
    "PriceSheet",
    "ReplayResults",
    "SessionPage",
    "get_prices",
    "load_conversations",
    "named_policy",
    "policy_names",
    "replay",
    "sample_conversation",
]
