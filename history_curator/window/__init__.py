"""Sealing: whatever the managers did, the view fits, conforms, and keeps what must be kept."""

from __future__ import annotations

from history_curator.window._fold import COMPACT_TO
from history_curator.window._identifiers import identifiers_of, rank_identifiers
from history_curator.window._seal import Seal, Sealed
from history_curator.window._view import Tail

__all__ = ["COMPACT_TO", "Seal", "Sealed", "Tail", "identifiers_of", "rank_identifiers"]
