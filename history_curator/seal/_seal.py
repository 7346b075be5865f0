"""The seal: always last. Coherence, the provider's profile, and the proof of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_
from typing import Literal, NamedTuple

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.model import ConversationEntry
from history_curator.profiles import ProviderProfile
from history_curator.seal._fit import Fit
from history_curator.seal._ladder import Ladder
from history_curator.structure import Body, Timeline, flatten
from history_curator.tokens import TokenCounter

Tail = Literal["request", "history"]


@dataclass(slots=True)
class Sealed:
    """A view that is proven to fit and to conform.

    Attributes:
        entries: the view.
        tokens: their exact count, without tools, reserve and priming.
        fit: the outcome of the ladder, or None without a budget.
        body: what of the view stays while the lines do, unless the profile changed it.
    """

    entries: list[ConversationEntry]
    tokens: int
    fit: Fit | None = None
    body: Body | None = None


def seal(
    timeline: Timeline,
    *,
    profile: ProviderProfile,
    counter: TokenCounter,
    ladder: Ladder | None,
    room: int | None,
    tail: Tail = "request",
    edited: bool = False,
    preserve_last_n: int | None = None,
) -> Sealed:
    """Return the view of a timeline that fits `room` tokens and breaks no rule of the profile.

    A repair may add a little (a bridge, a placeholder); then the ladder runs again with that much
    less room, so that the sum is what fits.

    Raises:
        BudgetUnsatisfiableError: when what must stay does not fit.
    """
    if ladder is None or room is None:
        pairing = timeline.pairing
        whole = flatten(pairing.units, pairing.system)
        entries = profile.repair(whole, tail=tail, edited=edited)
        return Sealed(entries, sum(map(counter.count_entry, entries)))
    spare, too_little, too_much = 0, 0, max(2, room + 1)
    refusal: BudgetUnsatisfiableError | None = None
    while too_much - too_little > 1:
        try:
            fit = ladder.fit(timeline, room - spare, preserve_last_n)
        except BudgetUnsatisfiableError as error:
            refusal = BudgetUnsatisfiableError(error.needed + spare, room, error.irreducible)
            too_much = spare
        else:
            entries = _conform(timeline, profile, fit, tail, edited)
            if _starts_with(entries, fit.entries):
                tokens = fit.tokens + sum(map(counter.count_entry, entries[len(fit.entries) :]))
                body = fit.body
            else:
                tokens, body = sum(map(counter.count_entry, entries)), None
            if tokens <= room:
                return Sealed(entries, tokens, fit, body)
            too_little = spare
            spare += tokens - room
        if not too_little < spare < too_much:
            spare = (too_little + too_much) // 2
    raise refusal or BudgetUnsatisfiableError(
        tokens, room, [(None, str(entry.role), counter.count_entry(entry)) for entry in entries]
    )


class _Held(NamedTuple):
    """A view in which the rules of a profile held.

    Attributes:
        profile: the profile.
        body: the body of the view.
        units: how many units of the timeline its body reached to.
        settled: how many entries stood up to the end of its body.
        cut: position of its first unit after the cut line.
        revision: of the timeline's pairing.
        edited: whether something before or in it had been edited.
    """

    profile: ProviderProfile
    body: Body
    units: int
    settled: int
    cut: int
    revision: int
    edited: bool


def _conform(
    timeline: Timeline, profile: ProviderProfile, fit: Fit, tail: Tail, edited: bool
) -> list[ConversationEntry]:
    """The view as the profile wants it. What held on the last call is not looked at again."""
    body, pairing = fit.body, timeline.pairing
    edited = edited or fit.rung > 1
    known: _Held | None = timeline.memory.get("held")
    entries: list[ConversationEntry] | None = None
    if body is not None and known is not None and not pairing.reused and known.profile is profile:
        if known.body is body:
            entries = profile.repair_end(fit.entries, known.settled, tail)
        elif (known.revision, known.edited) == (pairing.revision, edited) and known.cut <= fit.cut:
            # The lines moved on: who stood side by side after the cut does so still.
            fresh = sum(len(unit.entries) for unit in pairing.units[known.units :])
            held = len(fit.entries) - fresh
            entries = profile.repair_end(fit.entries, held, tail, head=fit.lead + body.head)
    if entries is None:
        entries = profile.repair(fit.entries, tail=tail, edited=edited)
    if body is not None and _starts_with(entries, fit.entries):
        timeline.memory["held"] = _Held(
            profile,
            body,
            body.counted,
            fit.lead + len(body.entries),
            fit.cut,
            pairing.revision,
            edited,
        )
    return entries


def _starts_with(entries: list[ConversationEntry], start: list[ConversationEntry]) -> bool:
    if entries is start:
        return True
    return len(entries) >= len(start) and all(map(is_, entries, start))
