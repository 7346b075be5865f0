"""Prices of logged calls, and the calls that paid again for a lost cache."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from history_curator.doctor.logs import LoggedCall, Session
from history_curator.lab.metrics import PriceSheet, cached_tokens, find_sheet, get_prices

Reason = Literal["idle", "compaction", "prefix changed", "tools changed", "too small"]

_VENDOR = re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.|^[\w.-]*/|-v\d(?::\d)?$")
_HOUR = 3600.0
_GRACE_SECONDS = 15.0
"""In real logs a prefix was still found for so long after its lifetime."""
_NOTICED = 0.02
"""A call lost the cache when more than this share of the held tokens, and the minimum, is gone."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of one token in dollars; without a list price, in millionths of the input price."""

    input: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float
    has_list_price: bool
    sheet: PriceSheet


@lru_cache(maxsize=256)
def rates_of(model: str) -> Rates:
    """Return the prices of a model's tokens: genai-prices knows the list price of most models."""
    sheet = find_sheet(model) or get_prices("none")
    listed = _list_price(model)

    def rate(name: str, factor: float) -> float:
        price = getattr(listed, f"{name}_mtok", None)
        return factor * base if price is None else float(getattr(price, "base", price)) / 1e6

    base = 1e-6
    base = rate("input", 1.0)
    hour = 2.0 if sheet.name == "anthropic" else sheet.write
    output = rate("output", 0.0)
    return Rates(
        base, rate("cache_read", sheet.read), rate("cache_write", sheet.write),
        rate("cache_write_1h", hour), output, listed is not None, sheet,
    )  # fmt: skip


def _list_price(model: str) -> Any:
    try:
        from genai_prices import Usage, calc_price

        name = _VENDOR.sub("", model.removeprefix("us.").removeprefix("eu."))
        return calc_price(Usage(input_tokens=1), name).model_price
    except (ImportError, LookupError):
        return None


def cost_of(calls: Sequence[LoggedCall]) -> dict[str, Any]:
    """Return the cost of calls, kind by kind, with their ``total`` and ``unit``."""
    is_money = all(rates_of(call.model).has_list_price for call in calls)
    total = dict.fromkeys(("input", "cache_read", "cache_write", "output"), 0.0)
    for call in calls:
        usage, rates = call.usage, rates_of(call.model)
        scale = 1.0 if is_money else 1e-6 / rates.input
        long = usage.cache_write_1h
        written = (usage.cache_write - long) * rates.cache_write + long * rates.cache_write_1h
        total["input"] += usage.uncached * rates.input * scale
        total["cache_read"] += usage.cache_read * rates.cache_read * scale
        total["cache_write"] += written * scale
        total["output"] += usage.output * rates.output * is_money
    unit = "USD" if is_money else "million tokens at the plain input price, without answers"
    return {**total, "total": sum(total.values()), "unit": unit}


@dataclass(frozen=True, slots=True)
class Bust:
    """A call (numbered from 0) that paid again for tokens the cache had held.

    ``cost`` is the price of writing the tokens, or of sending them in full, beyond that of reading
    them from the cache.
    """

    session: str
    call: int
    reason: Reason
    tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """The tokens a call should have read from the cache (None for the first), and a lost cache."""

    read: int | None
    bust: Bust | None = None


def simulate_cache(session: Session) -> list[SimulatedCall]:
    """Return what each call of a session should have read from the cache.

    The last request is read again while it is warm, the model is the same and the prompt did not
    shrink (`cached_tokens`). A prompt that shrank reads the part in front, tools and system prompt:
    as much as was read the last time something was lost.
    """
    found: list[SimulatedCall] = []
    before: LoggedCall | None = None
    lifetime, front = 0.0, 0
    for number, call in enumerate(session.calls):
        usage = call.usage
        if before is None:
            found.append(SimulatedCall(None))
            front = usage.cache_read
        else:
            known = before.end is not None and call.start is not None
            idle = max(0.0, call.start - before.end) if known else 0.0  # type: ignore[operator]
            is_cold = idle >= lifetime + _GRACE_SECONDS
            if before.model != call.model or is_cold:
                read = 0
            else:
                read = cached_tokens(before.held, usage.input, None, None) or min(
                    front, usage.input
                )
            bust = _find_bust(session, number, before, is_cold=idle >= lifetime, front=front)
            found.append(SimulatedCall(read, bust))
            if bust and not is_cold and usage.cache_read:
                front = usage.cache_read
        if usage.cache_write_1h:
            lifetime = _HOUR
        elif usage.cache_write or not lifetime:
            lifetime = rates_of(call.model).sheet.ttl or float("inf")
        before = call
    return found


def _find_bust(
    session: Session, number: int, before: LoggedCall, *, is_cold: bool, front: int
) -> Bust | None:
    call = session.calls[number]
    usage, rates = call.usage, rates_of(call.model)
    minimum, write = rates.sheet.minimum, rates.cache_write
    if not (before.held or call.held):
        if not usage.input or usage.input >= minimum:
            return None
        cost = usage.input * (rates.input - rates.cache_read)
        return Bust(session.id, number, "too small", usage.input, cost)
    lost = min(before.held, usage.input) - usage.cache_read
    if lost <= max(_NOTICED * before.held, minimum):
        return None
    summarised = any(before.position < s.position <= call.position for s in session.summaries)
    reason: Reason = "prefix changed"
    if call.frame != before.frame:
        reason = "tools changed"
    elif summarised or usage.input < 0.8 * before.held:
        reason = "compaction"
    elif is_cold:
        reason = "idle"
    elif (
        call.model == before.model
        and not call.rewrote
        and usage.cache_read < (1 - _NOTICED) * front
    ):
        reason = "tools changed"
    if usage.cache_write_1h:
        write = rates.cache_write_1h
    return Bust(session.id, number, reason, lost, lost * (write - rates.cache_read))
