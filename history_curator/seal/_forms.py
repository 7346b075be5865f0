"""The forms a unit can take in a view: full, capped, cleared, squeezed. Each loses more."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import is_
from typing import Any

from history_curator.handles import handle_of, recall_hint
from history_curator.model import ConversationEntry, MessageRole, ToolCall
from history_curator.shorten import shorten
from history_curator.structure import Unit
from history_curator.tokens import TokenCounter
from history_curator.tokens._pieces import spliceable

Entries = tuple[ConversationEntry, ...]
Splice = Callable[[ConversationEntry, ConversationEntry, int, int, str], None]

LONG_ARGUMENT = 400
SHORT_ARGUMENT = 120
SQUEEZED = 192
"""No result is squeezed below this many characters, so that the marker fits; then it is cleared."""
SHORT_RESULT = 100
"""A result up to this many characters is not worth clearing."""


class Forms:
    """Makes and counts the forms of units, each once.

    Args:
        counter: counts the tokens.
        cap: characters above which a tool result is capped, head and tail kept.
        fresh_cap: the same for the newest unit.
        recall: whether placeholders name the handle that the recall tool takes.
    """

    def __init__(
        self, counter: TokenCounter, cap: int, fresh_cap: int, *, recall: bool = False
    ) -> None:
        self._counter = counter
        self._count = counter.count_entry
        self._exceeds: Callable[[str, int], bool] | None = getattr(counter, "exceeds", None)
        exact = getattr(counter, "exact", False)
        self._splice: Splice | None = getattr(counter, "splice", None) if exact else None
        self.cap = cap
        self._fresh_cap = fresh_cap
        self._recall = recall
        # A form depends on these alone, so units can keep it whoever asks. Keys are texts: their
        # hash is computed once.
        self.key = f"{counter.name} {cap} {fresh_cap} {recall}"
        self._full_key = f"full {counter.name}"
        self._fresh_key = f"fresh {self.key}"
        self._capped_key = f"capped {self.key}"
        self._cleared_key = f"cleared {self.key}"
        self._plain_key = f"plain {counter.name}"

    def full(self, unit: Unit, limit: int) -> int:
        """Tokens of the unit as recorded, or anything above `limit` when it is larger."""
        cache = unit.cache
        if cache is None:
            cache = unit.cache = {}
        known = cache.get(self._full_key)
        if known is not None:
            return int(known)
        total = 0
        for entry in unit.entries:
            text = entry.content
            long = text is not None and len(text) > 4_096 + 2 * limit
            if text and long and self._exceeds and self._exceeds(text, limit):
                return limit + 1
            total += self._count(entry)
            if total > limit:
                return total
        cache[self._full_key] = total
        return total

    def size(self, unit: Unit) -> int:
        """Characters of the capped unit, without making it."""
        results = unit.entries[1:]
        return len(unit.head.content or "") + sum(
            min(len(entry.content or ""), self.cap) for entry in results
        )

    def fresh(self, unit: Unit) -> tuple[int, Entries]:
        """The newest unit: only results that would crowd out everything else are cut."""
        return self._form(unit, self._fresh_key, self._cap_fresh, self._fresh_cap)

    def capped(self, unit: Unit) -> tuple[int, Entries]:
        """The unit with oversized results cut to head and tail."""
        known = unit.cache.get(self._capped_key) if unit.cache else None
        return known or self._form(unit, self._capped_key, self._cap, self.cap)

    def cleared(self, unit: Unit) -> tuple[int, Entries]:
        """The unit with its results replaced by placeholders and long arguments shortened."""
        known = unit.cache.get(self._cleared_key) if unit.cache else None
        return known or self._form(unit, self._cleared_key, self._clear)

    def squeezed(self, unit: Unit, limit: int) -> tuple[int, Entries]:
        """The unit with results shortened as far as needed to fit `limit` tokens, if possible."""
        size = max((len(entry.content or "") for entry in unit.entries[1:]), default=0)
        size = min(size, self._fresh_cap, max(SQUEEZED, limit * 6))
        cost, entries = self.fresh(unit)
        while cost > limit and size > SQUEEZED:
            size = max(SQUEEZED, size * 2 // 3)
            entries = tuple(
                self._shorten_result(entry, size, "to fit the newest exchange")
                for entry in unit.entries
            )
            cost = self._sum(entries)
        if cost > limit:
            cost, entries = self.cleared(unit)
        return cost, entries

    def _form(
        self,
        unit: Unit,
        key: str,
        edit: Callable[[ConversationEntry], ConversationEntry],
        most: int | None = None,
    ) -> tuple[int, Entries]:
        """One form of a unit. Nothing of it is edited while no result is longer than `most`."""
        cache = unit.cache
        if cache is None:
            cache = unit.cache = {}
        known: tuple[int, Entries] | None = cache.get(key)
        if known is None:
            edited = unit.entries
            if unit.kind == "exchange" and (most is None or _longest_result(edited) > most):
                edited = self._edit(unit, cache, key, edit)
            if edited is unit.entries:
                known = cache.get(self._plain_key)
                if known is None:
                    known = cache[self._plain_key] = (self._sum(edited), edited)
            else:
                known = (self._sum(edited), edited)
            cache[key] = known
        return known

    def _edit(
        self,
        unit: Unit,
        cache: dict[Any, Any],
        key: str,
        edit: Callable[[ConversationEntry], ConversationEntry],
    ) -> Entries:
        """An exchange, entry by entry. One that waits for results keeps what it has so far."""
        made: dict[int, tuple[ConversationEntry, ConversationEntry]] = cache.pop((key,), {})
        out = []
        for entry in unit.entries:
            before = made.get(id(entry)) if made else None
            out.append(before[1] if before is not None and before[0] is entry else edit(entry))
        if all(map(is_, out, unit.entries)):
            return unit.entries
        if not unit.complete:
            pairs = zip(unit.entries, out, strict=True)
            made = {id(entry): (entry, new) for entry, new in pairs if new is not entry}
            if made:
                cache[key,] = made
        return tuple(out)

    def _sum(self, entries: Entries) -> int:
        return sum(map(self._count, entries))

    def _cap_fresh(self, entry: ConversationEntry) -> ConversationEntry:
        return self._shorten_result(entry, self._fresh_cap, "oversized tool result")

    def _cap(self, entry: ConversationEntry) -> ConversationEntry:
        return self._shorten_result(entry, self.cap, "oversized tool result")

    def _shorten_result(
        self, entry: ConversationEntry, size: int, reason: str
    ) -> ConversationEntry:
        text = entry.content
        if entry.role is not MessageRole.TOOL or entry.pinned or not text or len(text) <= size:
            return entry
        handle = self._handle(entry)
        note = f"; {recall_hint(handle)}" if handle else ""
        marker = f"\n[… {len(text):,} characters in all, middle left out{note} …]\n"
        kept = size - len(marker)
        cuts = spliceable(text, kept - kept // 2, len(text) - kept // 2)
        if cuts is None:
            content = shorten(text, size, keep="both", marker=marker)
        else:
            content = text[: cuts[0]] + marker + text[cuts[1] :]
        short = entry.evolve(
            content=content,
            truncated=True,
            original_length=len(text),
            handle=handle,
            action="truncated",
            reason=reason,
        )
        if cuts is not None and self._splice is not None and entry.parts is None:
            self._splice(entry, short, *cuts, marker)
        return short

    def _clear(self, entry: ConversationEntry) -> ConversationEntry:
        if entry.pinned:
            return entry
        if entry.role is MessageRole.TOOL:
            return self.clear_result(entry)
        calls = entry.tool_calls
        if calls and any(len(call.arguments) > LONG_ARGUMENT for call in calls):
            return entry.evolve(
                tool_calls=tuple(map(shorten_arguments, calls)),
                action="truncated",
                reason="long arguments of an old call",
            )
        return entry

    def clear_result(self, entry: ConversationEntry) -> ConversationEntry:
        """The result as a placeholder, unless it is short anyway."""
        text = entry.content or ""
        media = entry.has_media
        if len(text) <= SHORT_RESULT and not media:
            return entry
        handle = self._handle(entry)
        note = f"; {recall_hint(handle)} returns it" if handle else ""
        return entry.evolve(
            content=f"[cleared: {len(text):,} characters{note}]",
            parts=None,
            truncated=True,
            original_length=len(text),
            handle=handle,
            action="cleared",
            reason="old tool result",
        )

    def _handle(self, entry: ConversationEntry) -> str | None:
        if entry.handle is not None or not self._recall or entry.origin is not None:
            return entry.handle
        return handle_of(entry)


def _longest_result(entries: Entries) -> int:
    longest = 0
    for entry in entries[1:]:
        text = entry.content
        if text is not None and len(text) > longest:
            longest = len(text)
    return longest


def shorten_arguments(call: ToolCall) -> ToolCall:
    """The call with long string arguments cut; still a JSON object."""
    if len(call.arguments) <= LONG_ARGUMENT:
        return call
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return call
    if not isinstance(arguments, dict):
        return call
    short = {key: _shorten_value(value) for key, value in arguments.items()}
    text = json.dumps(short, ensure_ascii=False)
    return (
        ToolCall(call.id, call.name, text, call.extra) if len(text) < len(call.arguments) else call
    )


def _shorten_value(value: object) -> object:
    if isinstance(value, str) and len(value) > SHORT_ARGUMENT:
        marker = f"[… {len(value):,} characters …]"
        return shorten(value, SHORT_ARGUMENT + len(marker), keep="head", marker=marker)
    if isinstance(value, (list, dict)):
        text = json.dumps(value, ensure_ascii=False)
        if len(text) > SHORT_ARGUMENT * 2:
            return f"[… {len(text):,} characters of JSON …]"
    return value
