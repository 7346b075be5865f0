"""The forms of a unit: as it is first shown, squeezed, cleared. Each loses more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import is_

from history_curator.formats import MessageFormat
from history_curator.formats.reread import reread
from history_curator.entries import ConversationEntry, MessageRole, ToolCall, handle_of, recall_hint
from history_curator.rules import ProviderProfile
from history_curator.rules._invariant import remembered
from history_curator.timeline import Unit
from history_curator.tokens import TokenCounter, shorten
from history_curator.tokens._cap import cap_text, keep_count

Entries = tuple[ConversationEntry, ...]

CAP = 0.30
"""Share of the budget that one tool result may take. It is capped once, when it arrives."""
LEAST_CAP = 64
"""No result is capped below this many tokens, so that the marker fits; then it is cleared."""
LONG_ARGUMENT = 400
SHORT_ARGUMENT = 120
SHORT_RESULT = 100
"""A result up to this many characters is not worth clearing."""

_TOOL = MessageRole.TOOL


class Form:
    """A unit as it is shown.

    Attributes:
        maker: who made it; a form is of use to nobody else.
        entries: what is shown.
        tokens: what they cost, written.
        features: what its entries have that a rule may be about.
        bare: the same without reasoning, once somebody asked for it.
        cleared: the same with placeholders for its results, once somebody asked for it.
    """

    __slots__ = ("bare", "cleared", "entries", "features", "maker", "tokens")

    def __init__(self, maker: Forms, entries: Entries, features: int, tokens: int) -> None:
        self.maker = maker
        self.entries = entries
        self.features = features
        self.tokens = tokens
        self.bare: Form | None = None
        self.cleared: Form | None = None


class Forms:
    """Makes the forms of units. The form in which a unit is first shown is kept on the unit.

    Args:
        counter: counts the tokens.
        profile: whose rules hold in each unit by itself.
        cap: tokens above which a tool result is capped, head and tail kept; None for no cap.
        recall_tool: whether placeholders name the handle that the recall tool takes; a text is its name.
        format: writes what is shown, so that what is written is what was counted; None where
            entries are the end of it.
    """

    def __init__(
        self,
        counter: TokenCounter,
        profile: ProviderProfile,
        cap: int | None,
        *,
        recall_tool: bool | str = False,
        format: MessageFormat | None = None,
    ) -> None:
        self.counter = counter
        self.profile = profile
        self.cap = cap
        self.recall_tool = recall_tool
        self._format = format

    def shown(self, unit: Unit) -> Form:
        """Return the unit as it is first shown, and as long as it is shown."""
        form: Form | None = unit.form
        if form is None or form.maker is not self:
            # What a rule adds counts for the cap.
            entries, features = self.profile.repair_unit(unit.entries)
            if self.cap is not None and unit.kind == "exchange":
                capped = self._whole(tuple(map(self._arrived, entries)), entries)
                if capped is not entries:
                    entries, features = self.profile.repair_unit(capped)
            form = unit.form = self._counted(entries, features, unit.entries)
        return form

    def bare(self, unit: Unit) -> Form:
        """Return the same without reasoning."""
        form = self.shown(unit)
        if form.bare is None:
            entries = self.profile.without_reasoning(form.entries)
            form.bare = form if entries is form.entries else self.made(entries, unit.entries)
        return form.bare

    def squeezed(self, unit: Unit, room: int) -> Form:
        """Return the unit with its results shortened as far as needed to fit, if that is possible."""
        form = self.shown(unit)
        if form.tokens <= room or unit.kind != "exchange":
            return form
        texts = [
            self.counter.count_entry(entry)
            for entry in form.entries
            if entry.role is _TOOL and not entry.pinned
        ]
        cap = _even(texts, room - form.tokens + sum(texts)) - 16  # the overhead of an entry
        if cap < LEAST_CAP:
            return self.cleared(unit)
        entries, _ = self.profile.repair_unit(unit.entries)
        while cap >= LEAST_CAP:
            squeezed = self.made(
                self._capped(entries, cap, "to fit the newest exchange"), unit.entries
            )
            if squeezed.tokens <= room:
                return squeezed
            cap -= max(8, (squeezed.tokens - room) // max(1, len(texts)))
        return self.cleared(unit)

    def cleared(self, unit: Unit) -> Form:
        """Return the unit with results as placeholders and long arguments shortened, if shorter."""
        form = self.shown(unit)
        if unit.kind != "exchange":
            return form
        if form.cleared is None:
            cleared = self.made(tuple(map(self._clear, unit.entries)), unit.entries)
            form.cleared = cleared if cleared.tokens < form.tokens else form
        return form.cleared

    def made(self, entries: Entries, given: Entries) -> Form:
        """Return a form of these entries, after the rules that hold in a unit by itself."""
        return self._counted(*self.profile.repair_unit(entries), given)

    def _counted(self, entries: Entries, features: int, given: Entries) -> Form:
        if entries is given:
            return Form(self, entries, features, sum(map(self.counter.count_entry, entries)))
        tokens = written_tokens(entries, self._format, self.counter)
        return Form(self, entries, features, tokens)

    def _arrived(self, entry: ConversationEntry) -> ConversationEntry:
        """An entry as it is first shown; once, also where its exchange still grows."""
        if entry.role is not _TOOL or self.cap is None:
            return entry
        cap, key = self.cap, ("capped", self.cap, self.recall_tool, self.counter.name)
        return remembered(entry, key, lambda: self._cap(entry, cap, "oversized tool result"))

    def _capped(self, entries: Entries, cap: int, reason: str) -> Entries:
        return self._whole(tuple([self._cap(entry, cap, reason) for entry in entries]), entries)

    def _whole(self, edited: Entries, entries: Entries) -> Entries:
        return entries if all(map(is_, edited, entries)) else edited

    def _cap(self, entry: ConversationEntry, cap: int, reason: str) -> ConversationEntry:
        text = entry.content
        if entry.role is not _TOOL or entry.pinned or not text or len(text) < cap // 4:
            return entry
        handle = self._handle(entry)
        note = f"; {recall_hint(handle, self.recall_tool)}" if handle else ""
        marker = f"\n[… {len(text):,} characters in all, middle left out{note} …]\n"
        found = cap_text(text, cap, self.counter, marker)
        if found is None:
            return entry
        content, tokens = found
        short = entry.evolve(
            content=content,
            truncated=True,
            original_length=entry.original_length or len(text),
            handle=handle,
            action="truncated",
            reason=reason,
        )
        keep_count(short, tokens, self.counter)
        return short

    def _clear(self, entry: ConversationEntry) -> ConversationEntry:
        if entry.pinned:
            return entry
        if entry.role is _TOOL:
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
        """Return the result as a placeholder, unless it is short anyway."""
        text = entry.content or ""
        if len(text) <= SHORT_RESULT and not entry.has_media:
            return entry
        handle = self._handle(entry)
        note = f"; {recall_hint(handle, self.recall_tool)} returns it" if handle else ""
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
        if entry.handle is not None or not self.recall_tool or entry.origin is not None:
            return entry.handle
        return handle_of(entry)


def written_tokens(
    entries: Sequence[ConversationEntry], format: MessageFormat | None, counter: TokenCounter
) -> int:
    """Return what entries cost once they are written: they are written, read again, and counted."""
    if format is not None and not getattr(format, "immutable", False):
        entries = reread(format, entries)
    return sum(map(counter.count_entry, entries))


def _even(sizes: Sequence[int], room: int) -> int:
    """Return the largest cap under which sizes add up to at most `room`."""
    left = room
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size * count >= left:
            return left // count
        left -= size
    return max(sizes, default=0)


def shorten_arguments(call: ToolCall) -> ToolCall:
    """Return the call with long string arguments cut; still a JSON object."""
    if len(call.arguments) <= LONG_ARGUMENT:
        return call
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call
    if not isinstance(arguments, dict):
        return call
    short = {key: _shorten_value(value) for key, value in arguments.items()}
    text = json.dumps(short, ensure_ascii=False)
    if len(text) >= len(call.arguments):
        return call
    return ToolCall(call.id, call.name, text, call.extra)


def _shorten_value(value: object) -> object:
    if isinstance(value, str) and len(value) > SHORT_ARGUMENT:
        marker = f"[… {len(value):,} characters …]"
        return shorten(value, SHORT_ARGUMENT + len(marker), keep="head", marker=marker)
    if isinstance(value, (list, dict)):
        text = json.dumps(value, ensure_ascii=False)
        if len(text) > SHORT_ARGUMENT * 2:
            return f"[… {len(text):,} characters of JSON …]"
    return value
