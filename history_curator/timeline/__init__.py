"""The shape of a conversation: exchanges, turns, and what is known of it from the last call."""

from __future__ import annotations

from history_curator.timeline._cache import CACHE_BYTES, Conversations
from history_curator.timeline._conversation import Conversation
from history_curator.units import Pairing, flatten, pair
from history_curator.timeline._timeline import Timeline
from history_curator.units import Unit

__all__ = [
    "CACHE_BYTES",
    "Conversation",
    "Conversations",
    "Pairing",
    "Timeline",
    "Unit",
    "flatten",
    "pair",
]
