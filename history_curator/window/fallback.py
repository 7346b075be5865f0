"""The fallback when a compaction is not enough: the newest exchange alone is too large.

It is shrunk in three steps: behind the kept questions and the recap, then behind only the entries that
must stay, then with those as placeholders. If it still does not fit, the call is refused. Where the
provider's count is only predicted, the smallest view is sent when it most likely fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.window.cutoff import Cutoff
from history_curator.window.rendering import Rendering

if TYPE_CHECKING:
    from history_curator.window.build_view import View, ViewBuilder


def shrink_newest(builder: ViewBuilder, likely_limit: int) -> View:
    """Return the view with its newest unit shrunk, where no other fits; or raise an error."""
    units, renderer, limit = builder.pairing.units, builder.renderer, builder.limit
    if not units:
        raise build_error(builder)
    remaining, last = max(0, builder.remaining), len(units) - 1
    less = builder.round_remaining(remaining)
    cutoff = builder.find_state(less).cutoff if remaining else Cutoff()
    must_stay = last in _required_units(builder)
    for front in _prefix_options(builder, cutoff):
        available = remaining - sum(piece.tokens for piece in front) + builder.fixed_tokens
        while available >= 0 or not must_stay:
            newest = renderer.shrink_to(units[last], available)
            end = [renderer.bind(newest, units[last])] if newest.tokens <= available else []
            if must_stay and not end:
                break
            found = builder.apply_rules([*front, *end], cutoff)
            if found.tokens <= limit:
                return found._replace(is_smaller=True, is_shrunk=True)
            if not end:
                break
            available = min(available, newest.tokens) - max(1, found.tokens - limit)
    least = _build_minimum(builder)  # its parts may cost more than the whole: rules join some
    if least.tokens > max(limit, likely_limit):
        raise build_error(builder)
    return least._replace(cutoff=cutoff, is_smaller=True, is_shrunk=True)


def build_error(builder: ViewBuilder) -> BudgetUnsatisfiableError:
    """Return the error that says what cannot be left out, and what it needs."""
    pairing, renderer, limit = builder.pairing, builder.renderer, builder.limit
    tokens = _build_minimum(builder).tokens
    irreducible: list[tuple[int | None, str, int]] = [
        (index, "system", builder.memo.count_entry(entry)) for index, entry in pairing.system
    ]
    for position in _required_units(builder):
        unit = pairing.units[position]
        irreducible.append((unit.start, str(unit.head.role), renderer.clear(unit).tokens))
    return BudgetUnsatisfiableError(max(tokens, limit + 1), limit, irreducible)


def _prefix_options(builder: ViewBuilder, cutoff: Cutoff) -> Iterator[list[Rendering]]:
    """Yield what may stand before the newest unit: each time less."""
    units, renderer, system = builder.pairing.units, builder.renderer, builder.system_pieces()
    last = len(units) - 1
    older = [units[at] for at in _required_units(builder) if at != last]
    if cutoff.unit == last:
        less = builder.round_remaining(max(0, builder.remaining))
        state = builder.find_state(less)._replace(end=last)
        yield [*system, *builder.pieces(state)[1:]]
        yield [*system, *[renderer.bind(renderer.render_full(unit), unit) for unit in older]]
    yield [*system, *[renderer.bind(renderer.clear(unit), unit) for unit in older]]


def _build_minimum(builder: ViewBuilder) -> View:
    """Return nothing but what no fallback may drop, as placeholders."""
    units, renderer = builder.pairing.units, builder.renderer
    required = [
        renderer.bind(renderer.clear(units[at]), units[at]) for at in _required_units(builder)
    ]
    return builder.apply_rules([*builder.system_pieces(), *required], Cutoff())


def _required_units(builder: ViewBuilder) -> list[int]:
    """Return positions of the units that no fallback may drop."""
    pairing, preserve = builder.pairing, builder.options.preserve_last_n
    units = pairing.units
    required = {*pairing.pinned, *pairing.barriers[-1:], *pairing.users[-1:]}
    if units and units[-1].kind != "assistant":
        required.add(len(units) - 1)
    if preserve:
        first = len(builder.record) - preserve
        required.update(
            at for at, unit in enumerate(units) if unit.start + len(unit.entries) > first
        )
    barrier = pairing.barriers[-1] if pairing.barriers else 0
    return sorted(at for at in required if at >= barrier)
