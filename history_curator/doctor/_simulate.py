"""What the provider's cache should have held at each call, and why it did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from history_curator.caching import PriceSheet, get_prices, sheet_for
from history_curator.caching._clock import LATE
from history_curator.doctor._session import Call, Session

Reason = Literal["idle", "compaction", "prefix changed", "tools changed", "too small"]

_HOUR = 3600.0
_NOTICED = 0.02
"""A call lost the cache when more than this share of what was held, and the least prefix, is gone."""
_SHRUNK = 0.1
"""A prompt that is smaller by less than this still begins with what was held."""


@dataclass(frozen=True, slots=True)
class Bust:
    """A call that paid again for what the cache had held.

    Attributes:
        session: whose call.
        call: which call of the session, from 0.
        reason: why it was lost.
        tokens: how many tokens were written, or charged in full, again.
        cost: what that cost beyond reading them from the cache.
    """

    session: str
    call: int
    reason: Reason
    tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class Simulated:
    """One call as the simulator sees it.

    Attributes:
        read: tokens it expects to be read from the cache; None for the first call of a session,
            about which it knows nothing.
        bust: set when the provider reported that less was read than was held.
    """

    read: int | None
    bust: Bust | None = None


def sheet_of(call: Call) -> PriceSheet:
    """Return the price sheet of the model that answered; without a cache when nobody knows it."""
    return sheet_for(call.model) or get_prices("none")


def cost_of(calls: Sequence[Call]) -> dict[str, Any]:
    """Return what the calls cost, column by column."""
    priced = all(sheet_of(call).output_per_million is not None for call in calls)
    total = dict.fromkeys(("input", "cache_read", "cache_write", "output"), 0.0)
    for call in calls:
        usage, sheet = call.usage, sheet_of(call)
        price = sheet.input_per_million / 1e6 if priced else 1e-6
        long = usage.cache_write_1h
        total["input"] += usage.uncached * price
        total["cache_read"] += usage.cache_read * sheet.read * price
        total["cache_write"] += (
            (usage.cache_write - long) * sheet.write + long * _write_price(call)
        ) * price
        if priced:
            total["output"] += usage.output * (sheet.output_per_million or 0.0) / 1e6
    unit = "USD" if priced else "million tokens at the plain input price, without answers"
    return {**total, "total": sum(total.values()), "unit": unit}


def _write_price(call: Call) -> float:
    """What writing to the cache costs; more where it is to last for an hour."""
    sheet = sheet_of(call)
    return (
        sheet.lasting(_HOUR) if call.usage.cache_write_1h and sheet.breakpoints else sheet
    ).write


def simulate(session: Session) -> list[Simulated]:
    """Return what each call of a session should have read, from the calls before it.

    The rule: what the last request left in the cache is read, if no more time passed than the
    cache lives, the model is the same and the prompt did not shrink much below it. Otherwise only
    the part in front (tools and system prompt) is read: as much as was read the last time
    something was lost. After a pause even that is gone, unless other conversations kept it: then
    as much is read as after the last pause.
    """
    found = []
    before: Call | None = None
    ttl, shared, kept = 0.0, 0, 0
    for number, call in enumerate(session.calls):
        usage, sheet = call.usage, sheet_of(call)
        if usage.cache_write_1h:
            lasting = _HOUR
        elif usage.cache_write or not ttl:
            lasting = sheet.ttl or float("inf")
        else:
            lasting = ttl
        if before is None:
            found.append(Simulated(None))
            shared = usage.cache_read
        else:
            idle = _idle(before, call)
            cold = idle >= ttl + LATE
            if before.model != call.model:
                expected = 0
            elif cold:
                expected = min(kept, usage.input)
            elif usage.input < (1 - _SHRUNK) * before.held:
                expected = min(shared, usage.input)
            else:
                expected = min(before.held, usage.input)
            bust = _bust(session, number, before, cold=idle >= ttl, shared=shared)
            found.append(Simulated(expected, bust))
            if bust and cold:
                kept = usage.cache_read
            elif bust and usage.cache_read:
                shared = usage.cache_read
        before, ttl = call, lasting
    return found


def _idle(before: Call, call: Call) -> float:
    if before.end is None or call.start is None:
        return 0.0
    return max(0.0, call.start - before.end)


def _bust(session: Session, number: int, before: Call, *, cold: bool, shared: int) -> Bust | None:
    call = session.calls[number]
    usage, sheet = call.usage, sheet_of(call)
    if not (before.held or call.held):
        if not usage.input or usage.input >= sheet.minimum:
            return None
        cost = usage.input * (1.0 - sheet.read) * sheet.input_per_million / 1e6
        return Bust(session.id, number, "too small", usage.input, cost)
    lost = min(before.held, usage.input) - usage.cache_read
    if lost <= max(_NOTICED * before.held, sheet.minimum):
        return None
    compacted = session.compacted(before.position, call.position)
    reason: Reason
    if call.frame != before.frame:
        reason = "tools changed"
    elif compacted or usage.input < (1 - 10 * _NOTICED) * before.held:
        reason = "compaction"
    elif cold:
        reason = "idle"
    elif call.model != before.model or call.rewrote:
        reason = "prefix changed"
    elif usage.cache_read < (1 - _NOTICED) * shared:
        reason = "tools changed"
    else:
        reason = "prefix changed"
    cost = lost * (_write_price(call) - sheet.read) * sheet.input_per_million / 1e6
    return Bust(session.id, number, reason, lost, cost)
