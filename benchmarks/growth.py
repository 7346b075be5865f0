"""How the cost of a whole session grows with its length: the slope in log-log."""

from __future__ import annotations

from math import log
from statistics import linear_regression, median

from benchmarks import _ours, _peers
from benchmarks._conversation import as_langchain, conversation
from benchmarks._measure import note
from benchmarks._settings import Settings
from benchmarks._table import Row, Target
from benchmarks.session import describe, grow, sampled


def run(settings: Settings) -> list[Row]:
    """Measure, and return the rows."""
    lengths = settings.growth
    ours: dict[int, list[float]] = {n: [] for n in lengths}
    peer: dict[int, list[float]] = {n: [] for n in lengths}
    many = settings.quick_samples and min(20, settings.quick_samples)
    for _ in range(settings.rounds):
        for n in lengths:
            dicts = conversation(n)
            ours[n].append(grow(_ours.core, dicts))
            note(f"  session of {n}: {ours[n][-1] * 1e3:,.4g} ms CPU")
    for n in lengths:
        messages = as_langchain(conversation(n))
        trim = _peers.trim_messages(_peers.approximate_counter())
        peer[n].append(sampled(lambda trim=trim: trim, messages, many))
    span = f"whole session, n = {lengths[0]:,} → {lengths[-1]:,}"
    return [
        Row(span, "log-log slope", slope(ours), "", target=Target("<=", 1.1), part="growth"),
        Row(
            span,
            "log-log slope of `trim_messages`, approximate counter",
            slope(peer),
            "",
            sampled=describe(lengths[-1], many),
        ),
    ]


def slope(times: dict[int, list[float]]) -> float:
    """The exponent that fits best."""
    return linear_regression(
        [log(n) for n in times], [log(median(one)) for one in times.values()]
    ).slope
