"""The shape of a conversation: exchanges, turns, and the timeline that grows with the record."""

from __future__ import annotations

from history_curator.structure._body import Body
from history_curator.structure._cache import TimelineCache
from history_curator.structure._pairing import Pairing, Unit, flatten, pair
from history_curator.structure._timeline import Timeline

__all__ = ["Body", "Pairing", "Timeline", "TimelineCache", "Unit", "flatten", "pair"]
