"""How one unit is shown: full, without reasoning, shrunk to fit, or cleared. Each loses more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from history_curator.entries import ConversationEntry, MessageRole, ToolCall, handle_of, recall_hint
from history_curator.formats import parse_object
from history_curator.memo import Memo, Record
from history_curator.rules import ProviderProfile
from history_curator.tokens import shorten, shorten_tokens
from history_curator.units import Pairing, Unit

CAP_SHARE = 0.30
"""Share of the budget that one tool result may take. It is capped once, when it arrives."""
BLOCK_SHARE, LEAST_BLOCK, MOST_BLOCK = 0.05, 300, 1_000
"""Share of the budget that earlier messages take in a chat, and the tokens at least and at most."""
LEAST_CAP = 64
"""No result is capped below this many tokens, so that the marker fits; then it is cleared."""
LONG_ARGUMENT = 400
SHORT_ARGUMENT = 120
SHORT_RESULT = 100
"""A result up to this many characters is not worth clearing."""
_ENTRY_OVERHEAD = 16

Entries = tuple[ConversationEntry, ...]


class Rendering(NamedTuple):
    """Entries that are shown together, most often those of a unit."""

    entries: Sequence[ConversationEntry]
    sizes: Sequence[int]  # the tokens of each
    tokens: int
    is_untouched: bool = False  # the unit as it was recorded
    has_reasoning: bool = False


@dataclass(frozen=True)
class WindowOptions:
    """How views are built, in every conversation."""

    profile: ProviderProfile
    budget: int | None = None  # that the cutoff is chosen for
    compact_to: float | None = None  # the share of it that a compaction leaves filled
    recap: bool = True
    recall_tool: bool | str = False
    preserve_last_n: int = 0  # entries that are never left out
    retriever: Any = None

    def count_aside(self, pairing: Pairing) -> int:
        """Return the tokens to set aside for a block of earlier messages; 0 where there is none."""
        retriever, budget = self.retriever, self.budget
        if retriever is None or budget is None or (retriever.only_chats and pairing.exchanges):
            return 0
        if retriever.share is not None:
            return int(budget * retriever.share)
        return min(max(LEAST_BLOCK, int(budget * BLOCK_SHARE)), MOST_BLOCK, budget // 4)


class Renderer:
    """Renders the units of one record. A rendering is remembered with the unit's first entry."""

    def __init__(self, record: Record, memo: Memo, options: WindowOptions) -> None:
        self.record = record
        self.memo = memo
        self.options = options
        self.profile, self.recall_tool = options.profile, options.recall_tool
        budget = options.budget
        self.cap = None if budget is None else max(LEAST_CAP, int(budget * CAP_SHARE))
        self.number = memo.number((budget, self.profile, self.recall_tool))
        self._bound: dict[tuple[int, int], tuple[Rendering, Rendering]] = {}

    def render_full(self, unit: Unit) -> Rendering:
        """Return the unit as it is first shown, and as long as it is shown."""
        return self._remember("full", unit, self._render_full)

    def render_without_reasoning(self, unit: Unit) -> Rendering:
        """Return the unit as it is shown once something before it has changed."""
        full = self.render_full(unit)
        return self._remember("bare", unit, self._render_bare) if full.has_reasoning else full

    def clear(self, unit: Unit) -> Rendering:
        """Return the unit with results as placeholders and long arguments shortened, if that is smaller."""
        if unit.kind != "exchange":
            return self.render_full(unit)
        return self._remember("cleared", unit, self._render_cleared)

    def shrink_to(self, unit: Unit, tokens: int) -> Rendering:
        """Return the unit with its results shortened as far as needed to fit, if that is possible."""
        full = self.render_full(unit)
        if full.tokens <= tokens or unit.kind != "exchange":
            return full
        sizes = [
            size
            for entry, size in zip(full.entries, full.sizes, strict=True)
            if entry.role is MessageRole.TOOL and not entry.pinned
        ]
        cap = _equal_cap(sizes, tokens - full.tokens + sum(sizes)) - _ENTRY_OVERHEAD
        entries = self.profile.repair_unit(unit.entries)
        while cap >= LEAST_CAP:
            reason = "to fit the newest exchange"
            shrunk = self.render_entries(
                tuple([self._cap_result(each, cap, reason) for each in entries])
            )
            if shrunk.tokens <= tokens:
                return shrunk
            cap -= max(8, (shrunk.tokens - tokens) // max(1, len(sizes)))
        return self.clear(unit)

    def render_entries(self, entries: Entries) -> Rendering:
        """Return a rendering of these entries, after the rules that hold in a unit by itself."""
        return self._count(self.profile.repair_unit(entries))

    def bind(self, rendering: Rendering, unit: Unit) -> Rendering:
        """Return a rendered unit with its entries bound to their messages."""
        key, record = (id(rendering), unit.start), self.record
        if key not in self._bound:
            if rendering.is_untouched:
                bound = [record.entry_at(at) for at in unit.indexes]
            else:
                places = {id(record.facts[at].entry): at for at in unit.indexes if at >= 0}
                bound = [self._bind_entry(entry, places) for entry in rendering.entries]
            # Holding the rendering keeps the key its own.
            self._bound[key] = (rendering, rendering._replace(entries=bound))
        return self._bound[key][1]

    def _bind_entry(self, entry: ConversationEntry, places: dict[int, int]) -> ConversationEntry:
        """Return an entry, or an edited copy of one, as that of the message at its place."""
        index, was = places.get(id(entry.root)), entry.root
        if index is None:
            return entry
        recorded = self.record.entry_at(index)
        if entry.original is None:
            return recorded
        return entry.evolve(
            original=recorded.root,
            source=recorded.source if entry.source is was.source else entry.source,
            sequence=recorded.sequence,
            span=recorded.span,
            # Where a rule took unknown keys off, those of the recorded entry stay off.
            metadata=recorded.metadata if entry.metadata is was.metadata else entry.metadata,
        )

    def _remember(self, kind: str, unit: Unit, render: Callable[[Unit], Rendering]) -> Rendering:
        facts = self.record.facts
        key: tuple[object, ...] = (kind, self.number)
        if unit.results:
            key += tuple([None if at < 0 else facts[at] for at in unit.indexes[1:]])
        known = facts[unit.start].renderings
        found: Rendering | None = known.get(key)
        if found is None:
            found = known[key] = render(unit)
        return found

    def _render_full(self, unit: Unit) -> Rendering:
        entries = self.profile.repair_unit(unit.entries)
        if self.cap is not None and unit.kind == "exchange":
            cap = self.cap
            capped = [self._cap_result(each, cap, "oversized tool result") for each in entries]
            if any(new is not old for new, old in zip(capped, entries, strict=True)):
                entries = self.profile.repair_unit(tuple(capped))
        is_recorded = unit.head is self.record.facts[unit.start].entry  # no call was listed twice
        is_whole = entries is unit.entries and -1 not in unit.indexes
        return self._count(entries, is_untouched=is_whole and is_recorded)

    def _render_bare(self, unit: Unit) -> Rendering:
        entries = self.profile.without_reasoning(tuple(self.render_full(unit).entries))
        return self.render_entries(entries)

    def _render_cleared(self, unit: Unit) -> Rendering:
        full = self.render_full(unit)
        cleared = self.render_entries(tuple(map(self._clear_entry, unit.entries)))
        return cleared if cleared.tokens < full.tokens else full

    def _count(self, entries: Entries, *, is_untouched: bool = False) -> Rendering:
        sizes = tuple(map(self.memo.counter.count_entry, entries))
        has_reasoning = any(entry.reasoning for entry in entries)
        return Rendering(entries, sizes, sum(sizes), is_untouched, has_reasoning)

    def _cap_result(self, entry: ConversationEntry, cap: int, reason: str) -> ConversationEntry:
        text = entry.content
        if entry.role is not MessageRole.TOOL or entry.pinned or not text or len(text) < cap // 4:
            return entry
        handle = self._handle(entry)
        note = f"; {recall_hint(handle, self.recall_tool)}" if handle else ""
        marker = f"\n[… {len(text):,} characters in all, middle left out{note} …]\n"
        short = shorten_tokens(text, cap, self.memo.counter, marker=marker)
        if short is text:
            return entry
        return entry.evolve(
            content=short,
            truncated=True,
            original_length=entry.original_length or len(text),
            handle=handle,
            action="truncated",
            reason=reason,
        )

    def _clear_entry(self, entry: ConversationEntry) -> ConversationEntry:
        """Return an entry with its result as a placeholder, or long arguments shortened."""
        text, calls = entry.content or "", entry.tool_calls or ()
        is_result = entry.role is MessageRole.TOOL
        if entry.pinned or (is_result and len(text) <= SHORT_RESULT and not entry.has_media):
            return entry
        if is_result:
            handle = self._handle(entry)
            note = f"; {recall_hint(handle, self.recall_tool)} returns it" if handle else ""
            return entry.evolve(
                content=f"[cleared: {describe_size(entry)}{note}]",
                parts=None,
                truncated=True,
                original_length=len(text),
                handle=handle,
                action="cleared",
                reason="old tool result",
            )
        short = tuple(map(shorten_arguments, calls))
        if short == calls:
            return entry
        reason = "long arguments of an old call"
        return entry.evolve(tool_calls=short, action="truncated", reason=reason)

    def _handle(self, entry: ConversationEntry) -> str | None:
        if entry.handle is not None or not self.recall_tool or entry.origin is not None:
            return entry.handle
        return handle_of(entry)


def describe_size(entry: ConversationEntry) -> str:
    """Return how much an entry holds: images and other media, and characters."""
    media = [part.kind for part in entry.parts or () if part.kind != "text" and not part.is_mark]
    counts = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in Counter(media).items()]
    text = entry.content or ""
    return ", ".join([*counts, f"{len(text):,} characters"] if text or not counts else counts)


def shorten_arguments(call: ToolCall) -> ToolCall:
    """Return the call with long string arguments shortened; still a JSON object."""
    arguments = parse_object(call.arguments) if len(call.arguments) > LONG_ARGUMENT else None
    if arguments is None:
        return call
    short = {key: _shorten_value(value) for key, value in arguments.items()}
    text = json.dumps(short, ensure_ascii=False)
    return replace(call, arguments=text) if len(text) < len(call.arguments) else call


def _shorten_value(value: object) -> object:
    if isinstance(value, str) and len(value) > SHORT_ARGUMENT:
        marker = f"[… {len(value):,} characters …]"
        return shorten(value, SHORT_ARGUMENT + len(marker), keep="head", marker=marker)
    if isinstance(value, (list, dict)):
        text = json.dumps(value, ensure_ascii=False)
        if len(text) > SHORT_ARGUMENT * 2:
            return f"[… {len(text):,} characters of JSON …]"
    return value


def _equal_cap(sizes: Sequence[int], available: int) -> int:
    """Return the largest cap under which sizes add up to at most what is available."""
    remaining = available
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size * count >= remaining:
            return remaining // count
        remaining -= size
    return max(sizes, default=0)
