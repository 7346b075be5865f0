"""What providers do with a prefix they have seen: prices, time, breakpoints.

Nothing here talks to a provider or reads the wall clock.
"""

from __future__ import annotations

from history_curator.caching._apply import (
    anthropic_marks,
    apply_anthropic,
    apply_bedrock,
    apply_openai,
    cache_control,
    place_marks,
    ttl_of,
)
from history_curator.caching._clock import cold_entries, seconds, time_of
from history_curator.caching._emulator import CacheEmulator
from history_curator.caching._facts import (
    NOTHING,
    Facts,
    Step,
    facts_of,
    mark_of,
    reported_on,
)
from history_curator.caching._plan import (
    Breakpoint,
    CachePlan,
    Mark,
    cache_key,
    plan_cache,
    plan_of,
)
from history_curator.caching._prices import PriceSheet, get_prices, price_sheets, sheet_for
from history_curator.caching._ride import ride_cache
from history_curator.caching._track import Along, State, Track

__all__ = [
    "NOTHING",
    "Along",
    "Breakpoint",
    "CacheEmulator",
    "CachePlan",
    "Facts",
    "Mark",
    "PriceSheet",
    "State",
    "Step",
    "Track",
    "anthropic_marks",
    "apply_anthropic",
    "apply_bedrock",
    "apply_openai",
    "cache_control",
    "cache_key",
    "cold_entries",
    "facts_of",
    "get_prices",
    "mark_of",
    "place_marks",
    "plan_cache",
    "plan_of",
    "price_sheets",
    "reported_on",
    "ride_cache",
    "seconds",
    "sheet_for",
    "time_of",
    "ttl_of",
]
