"""The last rungs, where even a jump does not make a view fit.

The newest exchange is squeezed: behind the heads and the recap, then behind nothing but what must
stay, then with that as placeholders. What does not fit then is refused; by the provider's own counts,
what most likely does not: where it may or may not fit, the least there is is sent.
"""

from __future__ import annotations

from collections.abc import Iterator

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.window._forms import Form
from history_curator.window._jump import Cut
from history_curator.window._view import Found, View


def squeezed(view: View) -> Found | None:
    """Return the view with its newest unit squeezed; None where what must stay does not fit."""
    units, forms = view.timeline.pairing.units, view.seal.forms
    if not units:
        return None
    left, last = max(0, view.left), len(units) - 1
    cut = view.smaller().reach().cut if left else Cut()
    must_stay = last in _required(view)
    for front in _fronts(view, cut):
        room = left - sum(piece.tokens for piece in front) + view.fixed
        while room >= 0 or not must_stay:
            newest = forms.squeezed(units[last], room)
            end = [newest] if newest.tokens <= room else []
            if must_stay and not end:
                break
            found = view.conformed([*front, *end], cut)
            if found.tokens <= view.room:
                return found._replace(smaller=True, squeezed=True)
            if not end:
                break
            room = min(room, newest.tokens) - max(1, found.tokens - view.room)
    least = _least(view)  # its parts may cost more than the whole: rules join some
    if least.tokens > max(view.room, view.likely):
        return None
    return least._replace(cut=cut, smaller=True, squeezed=True)


def _fronts(view: View, cut: Cut) -> Iterator[list[Form]]:
    """What may stand before the newest unit: each time less."""
    units, forms, system = view.timeline.pairing.units, view.seal.forms, _all_system(view)
    last = len(units) - 1
    older = [units[at] for at in _required(view) if at != last]
    if cut.at == last:
        yield [*system, *view.smaller().pieces(cut, last)]
        yield [*system, *map(forms.shown, older)]
    yield [*system, *map(forms.cleared, older)]


def refusal(view: View) -> BudgetUnsatisfiableError:
    """Return the error that says what cannot be left out, and what it needs."""
    units, forms, room = view.timeline.pairing.units, view.seal.forms, view.room
    tokens = _least(view).tokens
    irreducible: list[tuple[int | None, str, int]] = [
        (place, "system", view.seal.counter.count_entry(entry))
        for place, entry in view.timeline.pairing.system
    ]
    irreducible += [
        (units[at].start, str(units[at].head.role), forms.cleared(units[at]).tokens)
        for at in _required(view)
    ]
    if view.state is not None and view.state.meter is not None and view.along is not None:
        priced, meter = view.along.priced, view.state.meter
        room = view.along.limit - priced
        tokens = meter.needed(tokens + priced) - priced
    return BudgetUnsatisfiableError(max(tokens, room + 1), room, irreducible)


def _least(view: View) -> Found:
    """Nothing but what no rung may drop, as placeholders."""
    units, forms = view.timeline.pairing.units, view.seal.forms
    required = [forms.cleared(units[at]) for at in _required(view)]
    return view.conformed([*_all_system(view), *required], Cut())


def _all_system(view: View) -> list[Form]:
    """Every system entry, in front: there is no room to leave them where they stood."""
    pairing, made = view.timeline.pairing, view.seal.forms.made
    if view.seal.profile.hoists or not pairing.units:
        return [view.heading]
    start = pairing.units[0].start
    late = (entry for at, entry in pairing.system if at > start)
    return [view.heading, *(made((entry,), (entry,)) for entry in late)]


def _required(view: View) -> list[int]:
    """Positions of units that no rung may drop."""
    pairing, keep = view.timeline.pairing, view.seal.preserve
    units = pairing.units
    must = {*pairing.pinned, *pairing.hard_starts[-1:], *pairing.users[-1:]}
    if units and units[-1].kind != "assistant":
        must.add(len(units) - 1)
    if keep:
        first = len(view.timeline.entries) - keep
        must.update(at for at, each in enumerate(units) if each.start + len(each.entries) > first)
    barrier = pairing.hard_starts[-1] if pairing.hard_starts else 0
    return sorted(at for at in must if at >= barrier)
