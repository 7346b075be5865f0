"""Sealing: whatever the managers did, the view fits, conforms, and keeps what must be kept."""

from __future__ import annotations

from history_curator.window._fold import COMPACT_TO
from history_curator.window._identifiers import identifiers_of, rank_identifiers
from history_curator.window._seal import Seal, Sealed
from history_curator.window._view import Tail
from history_curator.window.fit_shim import FittedView, fit_entries

__all__ = [
    "COMPACT_TO",
    "FittedView",
    "Seal",
    "Sealed",
    "Tail",
    "fit_entries",
    "identifiers_of",
    "rank_identifiers",
]
