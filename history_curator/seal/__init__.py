"""Sealing: whatever the managers did, the view fits, conforms, and keeps what must be kept."""

from __future__ import annotations

from history_curator.seal._fold import LOW_WATER
from history_curator.seal._identifiers import identifiers_of, rank_identifiers
from history_curator.seal._seal import Seal, Sealed
from history_curator.seal._view import Tail

__all__ = ["LOW_WATER", "Seal", "Sealed", "Tail", "identifiers_of", "rank_identifiers"]
