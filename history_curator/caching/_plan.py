"""Where breakpoints pay in a view: one plan, applied in the words of each provider."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from history_curator.caching._prices import PriceSheet, get_prices
from history_curator.entries import ConversationEntry, MessageRole

if TYPE_CHECKING:
    from history_curator.curator import Curation

__all__ = ["Breakpoint", "CachePlan", "Mark", "cache_key", "plan_cache", "plan_of"]

Place = Literal["front", "heads", "last request", "prefix", "end"]
_RANK: dict[Place, int] = {"front": 0, "last request": 1, "heads": 2, "prefix": 3, "end": 4}
"""How much a place is worth, most first; the end of the view comes before all of them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A breakpoint somebody else has set.

    Attributes:
        after: how many entries of the view stand before it; 0 is on the tools or on a system
            prompt that is sent apart, and the length of the view is its end.
        ttl: seconds it asks for.
    """

    after: int
    ttl: float


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A place to mark.

    Attributes:
        place: why here. ``front``: tools and system prompt, which every request shares. ``heads``:
            the entries in front of the cut, which survive a jump. ``last request``: where the
            request before ended, when the provider would not look back that far. ``prefix``: the
            end of what the next request surely repeats. ``end``: the end of the view, where that is
            further: most likely the next request goes on from there all the same.
        after: how many entries of the view stand before it; 0 is on the tools.
        tokens: how large the prefix is that ends here.
        ttl: seconds to ask for.
    """

    place: Place
    after: int
    tokens: int
    ttl: float


@dataclass(frozen=True, slots=True)
class CachePlan:
    """Up to four breakpoints, in the order of the request, and a key for routing.

    Guaranteed, together with the marks others had set: no more than the provider takes, none below
    the least prefix it caches, and no shorter ttl in front of a longer one.

    Examples:
        >>> from history_curator.entries import ConversationEntry, MessageRole
        >>> view = [
        ...     ConversationEntry(MessageRole.SYSTEM, "rules"),
        ...     ConversationEntry(MessageRole.USER, "hi"),
        ... ]
        >>> plan = plan_cache(view, [5_000, 10], prefix_entries=2, pricing="anthropic")
        >>> [(each.place, each.after) for each in plan.breakpoints]
        [('front', 1), ('prefix', 2)]

    Attributes:
        breakpoints: where to mark.
        key: the same for all requests of one conversation; for ``prompt_cache_key``.
        pricing: the price sheet behind it.
        entries: how many entries the view has that it was made for.
        lead: how many of them are the system prompt in front.
        limit: how many breakpoints the provider takes in one request.
    """

    breakpoints: tuple[Breakpoint, ...]
    key: str
    pricing: str
    entries: int
    lead: int = 0
    limit: int = 0

    def beside(self, others: Sequence[Mark]) -> CachePlan:
        """Return the plan for a request that carries marks already: the best places that are left."""
        ranked = sorted(
            self.breakpoints, key=lambda each: (each.after != self.entries, _RANK[each.place])
        )
        return replace(self, breakpoints=_chosen(ranked, self.limit, others))


def plan_cache(
    entries: Sequence[ConversationEntry],
    sizes: Sequence[int],
    *,
    prefix_entries: int,
    pricing: str | PriceSheet,
    tools_tokens: int = 0,
    heads: int | None = None,
    others: Sequence[Mark] = (),
    ttl: float | None = None,
) -> CachePlan:
    """Return where breakpoints pay in a view. A pure function: the same view, the same plan.

    Marks are free; what costs is to write anew what a mark would have let the provider find. So
    the end of the view is marked first, then the front that every request shares, then the end of
    the request before when more blocks came since than the provider looks back, then the heads
    that survive a jump, then the end of what is surely repeated where the view goes on behind it.

    Args:
        entries: the view.
        sizes: tokens of each entry.
        prefix_entries: how many leading entries the next request repeats.
        pricing: a price sheet, its name, or the name of a model; it knows how many breakpoints
            there may be, the least prefix, the ttl and how far the provider looks back.
        tools_tokens: tokens of the tool schemas, which stand before everything else.
        heads: how many leading entries, system included, stay where they are at the next jump; by
            default the system prompt and the first thing the user said, where that is in front.
        others: breakpoints the request carries already.
        ttl: seconds to ask for; by default what the sheet says. Where a longer mark of somebody
            else stands behind one of ours, ours asks for as long.
    """
    sheet = get_prices(pricing)
    lasting = ttl if ttl is not None else sheet.ttl or 0.0
    upto = list(accumulate(sizes, initial=tools_tokens))
    found = [
        Breakpoint(place, after, upto[after], lasting)
        for place, after in _places(entries, prefix_entries, heads, sheet)
        if upto[after] >= max(sheet.minimum, 1)
    ]
    chosen = _chosen(found, sheet.breakpoints, others)
    return CachePlan(
        chosen, cache_key(entries), sheet.name, len(entries), _lead(entries), sheet.breakpoints
    )


def _chosen(
    found: Sequence[Breakpoint], limit: int, others: Sequence[Mark]
) -> tuple[Breakpoint, ...]:
    """The first breakpoints, most worth first, for which there is room beside other marks."""
    chosen: dict[int, Breakpoint] = {}
    for each in found:
        if len(chosen) + len(others) >= limit:
            break
        allowed = _ttl(each.after, each.ttl, others)
        taken = each.after in chosen or any(mark.after == each.after for mark in others)
        if allowed is not None and not taken:
            chosen[each.after] = replace(each, ttl=allowed)
    return tuple(chosen[after] for after in sorted(chosen))


def plan_of(
    curation: Curation,
    *,
    pricing: str | PriceSheet,
    others: Sequence[Mark] = (),
    heads: int | None = None,
    ttl: float | None = None,
) -> CachePlan:
    """Return the plan of a view that was just made; see `plan_cache`."""
    report = curation.report
    sizes = [report._counter.count_entry(entry) for entry in curation.entries]
    return plan_cache(
        curation.entries,
        sizes,
        prefix_entries=report.prefix_entries,
        pricing=pricing,
        tools_tokens=max(curation.tokens - sum(sizes), 0),
        heads=heads,
        others=others,
        ttl=ttl,
    )


def cache_key(entries: Sequence[ConversationEntry]) -> str:
    """Return a name for the conversation a view belongs to, from how it begins.

    System entries and the first thing a user says are in every view of a conversation.
    """
    digest = hashlib.sha256()
    for entry in entries:
        if entry.role is MessageRole.SYSTEM or entry.is_real_user:
            digest.update(f"{entry.role}\0{entry.root.content or ''}\0".encode(errors="replace"))
        if entry.is_real_user:
            break
    return digest.hexdigest()[:32]


def _lead(entries: Sequence[ConversationEntry]) -> int:
    lead = 0
    while lead < len(entries) and entries[lead].role is MessageRole.SYSTEM:
        lead += 1
    return lead


def _places(
    entries: Sequence[ConversationEntry], prefix: int, heads: int | None, sheet: PriceSheet
) -> list[tuple[Place, int]]:
    """Return the places worth marking, most worth first."""
    front = _lead(entries)
    prefix = max(min(prefix, len(entries)), 0)
    end = len(entries)
    last: Place = "prefix" if prefix == end else "end"
    found: list[tuple[Place, int]] = [(last, end)] if end > front else []
    found.append(("front", front))
    before = _request_before(entries, end)
    if before > front and sheet.lookback is not None:
        since = sum(map(_blocks, entries[before:end]))
        if since >= sheet.lookback:
            found.append(("last request", before))
    if heads is None:
        heads = front + 1 if front < len(entries) and entries[front].is_real_user else front
    if front < heads < end:
        found.append(("heads", heads))
    if front < prefix < end:
        found.append(("prefix", prefix))
    return found


def _request_before(entries: Sequence[ConversationEntry], end: int) -> int:
    """Return where the request before ended: at the newest answer of the model."""
    for at in range(end - 1, -1, -1):
        if entries[at].role is MessageRole.ASSISTANT:
            return at
    return 0


def _blocks(entry: ConversationEntry) -> int:
    """Return how many content blocks a provider sees in an entry."""
    said = len(entry.parts) if entry.parts else int(bool(entry.content))
    return max(1, said + len(entry.tool_calls or ()) + len(entry.reasoning or ()))


def _ttl(after: int, wanted: float, others: Sequence[Mark]) -> float | None:
    """Return a ttl that keeps longer before shorter; None when no ttl does."""
    least = max((mark.ttl for mark in others if mark.after >= after), default=0.0)
    most = min((mark.ttl for mark in others if mark.after < after), default=float("inf"))
    if least > most:
        return None
    return min(max(wanted, least), most)
